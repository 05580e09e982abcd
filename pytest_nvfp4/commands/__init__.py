"""The subcommands of ``nvfp4-conformance``, a module each.

A command is a module with `SUMMARY`, a line for the list of commands; `add_arguments(parser)`; and
`execute(options)`, which does the work and returns the exit status, and whose docstring is the
command's description. Importing one loads nothing beyond the standard library and the declarations
of settings; `execute` imports what it needs. `pytest_nvfp4.cli` lists the commands.
"""
