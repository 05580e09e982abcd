"""`@pytest.mark.frozen_map`: a test runs on the plans of a file, which must not change."""

MARK = "frozen_map"
"""The marker's name, with which the user properties of its files begin."""
