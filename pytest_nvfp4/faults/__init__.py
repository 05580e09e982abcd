"""The system calls of an implementation: observed, put in order, and made to fail."""
