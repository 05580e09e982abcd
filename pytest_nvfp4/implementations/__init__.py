"""Implementations of a plan cache, behind one adapter interface, in process or out of process."""
