"""Implementations that are wrong in one way each, by area of the specification."""
