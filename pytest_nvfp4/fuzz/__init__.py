"""Deterministic damage to documents: named operators over bytes."""
