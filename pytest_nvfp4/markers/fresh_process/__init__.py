"""`@pytest.mark.fresh_process`: a test in a new interpreter, once or several times, compared.

This folder knows nothing of what is tested: it can be lifted out together with
`pytest_nvfp4.markers.requests`, `pytest_nvfp4.upstream` and `pytest_nvfp4.errors`.
"""

MARK = "fresh_process"
"""The marker's name."""

CHILD = "fresh-process-child"
"""The name of the plugin that acts in a fresh process."""

TABLE = "fresh_process_table"
"""The attribute of a report that has the table of its test's runs, as plain data."""

SNAPSHOTS = "fresh_process_snapshots"
"""The attribute of a report whose test used syrupy's fixture `snapshot` in a fresh process."""
