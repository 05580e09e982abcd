"""How conformance results are counted, reported and shown.

Functions over frozen values; nothing here imports pytest or anything beyond the standard library.
`contracts` is the specification, `verdicts` the counting, `marks` how verdicts look, `deviations`
the accepted failures, `report` the JSON file, `profile` and `badge` the one-line claim, `table` the
terminal summary and `reproducer` the files that show a failure. `compare` lays reports side by
side, which `matrix` shows in a terminal and `page` in a browser; `verifying` and `proof` say where
a report or a badge comes from, and `reading` reads what somebody names.
"""
