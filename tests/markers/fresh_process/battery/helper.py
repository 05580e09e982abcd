"""Asserts on behalf of tests; rewritten at conftest.py's request."""


def check_equal(left, right):
    assert left == right
