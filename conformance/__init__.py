"""The executable specification: `contracts.toml` has the sentences, test files the proofs."""
