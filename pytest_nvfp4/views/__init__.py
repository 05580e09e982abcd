"""How a run is shown: `table` and `matrix` in the terminal, `badge`, `page` and `github`.

`comparison` lines up several reports for `matrix` and `page`; `marks` are the glyphs and styles of
verdicts.
"""
