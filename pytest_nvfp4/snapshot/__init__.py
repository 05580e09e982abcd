"""Snapshots of plan maps: files beside the tests that made them, and never deleted by a run."""
