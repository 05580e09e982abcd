"""Adapters for implementations of other projects: each drives the real implementation, unchanged.

They need the standard library and the implementation itself, which is imported when an adapter is
made. An adapter replaces the device calls of its process by a scripted device, so each one runs in
a process of its own.
"""
