"""`@pytest.mark.gpu_lock`: a test holds a lock of the whole machine while it runs.

This folder knows nothing of what is tested: it can be lifted out together with
`pytest_nvfp4.markers.requests`, `pytest_nvfp4.upstream` and `pytest_nvfp4.errors`.
"""

MARK = "gpu_lock"
"""The marker's name, with which the user properties of its holds begin."""

DEFAULT_PATH = "/tmp/gpu"  # noqa: S108 (the point is that all programs on the machine agree on it)
"""The lock of the whole machine."""

OUTPUT = "gpu_lock_holds"
"""The name under which a worker of pytest-xdist sends holds that no test's report has."""
