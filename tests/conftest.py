"""What all tests share: pytest's own tool for testing plugins."""

import os
import signal

pytest_plugins = ["pytester"]

# The runs that tests make are not the run that CI shows: they write no summary of theirs for
# GitHub, and their own summary says each failure in a line (where CI is set, pytest says it whole).
for _name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "CI", "BUILD_NUMBER"):
    os.environ.pop(_name, None)

# A shell starts what it runs in the background with SIGINT ignored, and every child inherits that:
# whoever is to be interrupted by a test would never hear of it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
