"""How conformance results are counted, reported and shown.

Pure functions over frozen values; nothing here imports pytest or anything beyond the standard
library. `contracts` is the specification, `verdicts` the counting, `deviations` the accepted
failures, `report` the JSON file, `profile` and `badge` the one-line claim, `table` the terminal
summary and `reproducer` the files that show a failure.
"""
