"""`@pytest.mark.fresh_process`: a test in a new interpreter, once or several times, compared."""
