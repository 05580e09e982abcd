"""What all tests share: pytest's own tool for testing plugins."""

import os

pytest_plugins = ["pytester"]

# The runs that tests make are not the run that GitHub shows: they write no summary of theirs.
for _name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
    os.environ.pop(_name, None)
