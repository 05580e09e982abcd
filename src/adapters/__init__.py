"""Adapters of implementations that other people wrote: each drives the real thing, unchanged.

Standing alone: the standard library, and what is adapted, imported when an adapter is made. They
run in a process of their own, since they stand in for a device there.
"""
