"""The one door to what pytest, pytest-xdist, pluggy and syrupy do not document.

Everything that this package does with them beyond their documentation is a function in here, with
its reason and the releases in which it was seen to work. ``tests/test_upstream.py`` proves each by
itself and fails with one sentence when a release changes it, and proves that no other module uses
such names. So support for a new release is these modules and that test.

`workers` is about pytest-xdist, `runs` about a whole pytest run, `items` about tests, `reports`
about their reports, `snapshots` about syrupy.

Seen in, unless a function says otherwise: pytest 8.2 to 9.2, pluggy 1.5 and 1.6, pytest-xdist 3.6
to 3.8, syrupy 5.0 to 7.0.
"""
