"""The subcommands of ``nvfp4-conformance``, a module each."""
