"""Take one member out of a JSON object, strictly: present, of its exact kind, in its range.

`True` is no integer, `4.0` is no integer, `null` is nothing; a C++ reader of such files once took
all three and turned 4294967300 into 4. `path` is the object's own place (`plans[3]`), so that a
rejection names the member in full.
"""

from collections.abc import Mapping

from .errors import Rejected

INT32 = range(-(2**31), 2**31)
UINT8 = range(2**8)

Object = Mapping[str, object]


def shown(value: object) -> str:
    """`value` for a message, shortened so that a hostile document cannot fill the log.

    An integer of a thousand digits is only measured: to print it could exceed what the
    interpreter is willing to convert.
    """
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, list | dict):
        return f"a JSON {'array' if isinstance(value, list) else 'object'} of {len(value)}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def member(owner: Object, name: str, path: str) -> object:
    """The member `name` of `owner`; `missing-field` where there is none."""
    try:
        return owner[name]
    except KeyError:
        raise Rejected(
            "missing-field",
            f"{path}.{name}",
            f"{path}.{name} is missing; let the writer of this document write it again in full.",
        ) from None


def object_member(owner: Object, name: str) -> Object:
    """The member `name` of a document's root, which must be an object."""
    value = _root_member(owner, name)
    if not isinstance(value, dict):
        raise Rejected("wrong-type", name, f"{name} is {shown(value)}; make it a JSON object.")
    return value


def array_member(owner: Object, name: str) -> list[object]:
    """The member `name` of a document's root, which must be an array."""
    value = _root_member(owner, name)
    if not isinstance(value, list):
        raise Rejected("wrong-type", name, f"{name} is {shown(value)}; make it a JSON array.")
    return value


def text_member(owner: Object, name: str, path: str) -> str:
    """The string member `name`, which must be text that UTF-8 can carry."""
    value = member(owner, name, path)
    if type(value) is not str:
        raise Rejected(
            "wrong-type", f"{path}.{name}", f"{path}.{name} is {shown(value)}; make it a string."
        )
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Rejected(
                "encoding",
                f"{path}.{name}",
                f"{path}.{name} holds half of a surrogate pair; write it as valid Unicode.",
            ) from None
    return value


def integer_member(owner: Object, name: str, path: str, limits: range = INT32) -> int:
    """The integer member `name`, written as a JSON integer within `limits`."""
    value = member(owner, name, path)
    if type(value) is not int or value not in limits:
        raise Rejected(
            "wrong-type",
            f"{path}.{name}",
            f"{path}.{name} is {shown(value)}; "
            f"write an integer from {limits.start} to {limits.stop - 1}.",
        )
    return value


def root_object(value: object) -> Object:
    """A document's root, which must be an object."""
    if not isinstance(value, dict):
        raise Rejected(
            "shape", "", f"the document is {shown(value)}; its root must be a JSON object."
        )
    return value


def _root_member(owner: Object, name: str) -> object:
    if name not in owner:
        raise Rejected(
            "missing-field",
            name,
            f"{name} is missing from the document's root; let its writer write it again in full.",
        )
    return owner[name]
