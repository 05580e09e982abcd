"""The executable specification: `contracts.toml` says it, one test file per id prefix proves it."""
