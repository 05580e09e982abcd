"""The data of a run: verdicts, accepted deviations, the report and the profile that it earns.

`verdicts` counts cases, `deviations` reads and writes accepted failures, `report` builds and
verifies the JSON report, whose form `report_format` declares, `profile` finds the claim of a badge,
`reproducer` writes the files that show a failure, and `files` writes any file in one step.
Nothing here imports pytest.
"""
