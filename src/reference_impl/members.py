"""Read one member of a JSON object strictly: present, of the exact type, within its range.

`true`, `4.0` and `null` are not integers. A C++ reader of such files accepted all three and read
4294967300 as 4. `path` is the place of the object (`plans[3]`), so that a rejection names the
member in full.
"""

from collections.abc import Mapping

from .errors import Rejected

INT32 = range(-(2**31), 2**31)
UINT8 = range(2**8)

Object = Mapping[str, object]


def shown(value: object) -> str:
    """`value` as text for a message, shortened so that a document cannot fill the log.

    Of a long integer only the number of bits is shown, since the interpreter limits the digits
    that it converts.
    """
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, list | dict):
        return f"a JSON {'array' if isinstance(value, list) else 'object'} of {len(value)}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def member(owner: Object, name: str, path: str) -> object:
    """The member `name` of `owner`; rejects `missing-field` where there is none."""
    try:
        return owner[name]
    except KeyError:
        raise Rejected(
            "missing-field",
            f"{path}.{name}",
            f"{path}.{name} is missing; write the document again with all members.",
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
    """The string member `name`, which UTF-8 must be able to encode."""
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
                f"{path}.{name} contains half of a surrogate pair; write it as valid Unicode.",
            ) from None
    return value


def integer_member(owner: Object, name: str, path: str, limits: range = INT32) -> int:
    """The integer member `name`, which must be a JSON integer within `limits`."""
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
    """The root of a document, which must be an object."""
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
            f"{name} is missing from the root; write the document again with all members.",
        )
    return owner[name]
