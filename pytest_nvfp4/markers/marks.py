"""What several markers of one kind say together."""

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_nvfp4.markers.paths import RequestError

Marks = Iterable[tuple[tuple[object, ...], Mapping[str, object]]]
"""A test's markers of one kind, the closest first: (arguments, options) of each."""


def named_options(kind: str, marks: Marks, forms: Mapping[str, str], hint: str) -> dict[str, Any]:
    """The options of all markers, of two the first; `forms` names those that there are.

    `hint` is what somebody may have meant who gave a value without its name: its `{}` is that.
    """
    options: dict[str, Any] = {}
    for arguments, given in marks:
        if arguments:
            raise RequestError(
                f"{kind} takes named options only; {hint.format(repr(arguments[0]))}"
            )
        unknown = next((name for name in given if name not in forms), None)
        if unknown is not None:
            raise RequestError(f"{kind} has no option {unknown!r}; it has {', '.join(forms)}")
        options = {**given, **options}
    return options
