"""`@pytest.mark.frozen_map`: nobody changes the file with the plans, and they are what runs."""
