"""A cache with only ``load(path)`` and ``save(path, plans)`` behind the adapter interface.

For people who want the document contracts without writing an adapter: name the object, class or
module that has the two functions.

``load(path)``
    returns the plans of a file: a mapping ``{(m, n, k): tactic}``, or rows, each ``(m, n, k,
    tactic)`` or a mapping with these names. K is the unpacked extent. Returning None rejects the
    file, and so does raising ValueError, OSError or a type in the optional attribute ``refusals``.
``save(path, plans)``
    writes plans, ``{(m, n, k): tactic}``, as a native document. A pure reader has no ``save``.

Either may have a parameter named ``metadata``, ``expected`` or ``environment``, which gets the
fields of the environment. The optional attributes ``native_metadata`` and ``import_metadata`` are
the environments that the cache expects in files.

The capabilities are probed: a small good document of each dialect is loaded, and one is saved.
Where the cache rejects a file without a code and a member, the model supplies both, and it counts
the entries of other operations; so for such a cache the suite proves that it rejects and ignores,
but not that it reports why and how many.
"""

import inspect
import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pytest_nvfp4.implementations.plain_data import decode
from pytest_nvfp4.model import Judgement, documents, facts, judge_flashinfer, judge_native
from pytest_nvfp4.plans import PlanKey, PlanMap

ENVIRONMENT = ("metadata", "expected", "environment")
"""The names of a parameter that gets the environment's fields."""

_NATIVE_METADATA = {
    name: "not-applicable" if kind == facts.STR else 1
    for name, kind in facts.NATIVE_METADATA.items()
} | {"format": facts.NATIVE_FORMAT}
_IMPORT_METADATA = dict.fromkeys(facts.FLASHINFER_METADATA, "not-applicable")

_EXAMPLE = PlanMap([(PlanKey(1, 256, 128), 4), (PlanKey(512, 256, 128), 24)])

_COLUMNS = ("m", "n", "k", "tactic")

Judge = Callable[[bytes, Any], Judgement]


class LoadSaveError(Exception):
    """The two functions cannot be put behind the interface; the message is for the user."""


class Refused(Exception):  # noqa: N818 - a rejection is an answer and no error
    """The cache rejected a file; the code and the member are the model's."""

    def __init__(self, code: str, member: str, message: str):
        super().__init__(message)
        self.code, self.member = code, member


class LoadSave:
    """The operations that two functions can perform; `describe` claims what the probe saw work."""

    def __init__(self, cache: object, name: str):
        """Take the functions of `cache`; LoadSaveError where they cannot be called."""
        self._name = name
        self._cache = cache
        self._load = _function(cache, "load", name, "path")
        self._save = (
            _function(cache, "save", name, "path", "plans") if hasattr(cache, "save") else None
        )
        self._refusals: tuple[type[Exception], ...] = (ValueError, OSError, *_refusals(cache, name))
        self._native = _environment(cache, "native_metadata", _NATIVE_METADATA, name)
        self._import = _environment(cache, "import_metadata", _IMPORT_METADATA, name)

    def describe(self) -> dict[str, Any]:
        """The description; its language says that there is no adapter of the cache's own.

        Only this operation probes the functions: in a process that is started to see one operation
        fail, nothing may fail before it. LoadSaveError where nothing can be claimed.
        """
        claims = self._probed_capabilities()
        return {
            "protocol": 1,
            "name": self._name,
            "version": str(getattr(self._cache, "__version__", "") or "unknown"),
            "language": "Python, load and save",
            "homepage": "",
            "capabilities": claims,
            "native_metadata": self._native if "native-document" in claims else None,
            "import_metadata": self._import if "flashinfer-import" in claims else None,
        }

    def read_native(
        self, path: str, expected: dict[str, Any], session: str | None
    ) -> dict[str, Any]:
        """The plans that `load` finds in a native file."""
        return self._read(path, expected, judge_native)

    def read_flashinfer(
        self, path: str, expected: dict[str, str], session: str | None
    ) -> dict[str, Any]:
        """The plans that `load` finds in a FlashInfer file."""
        answer = self._read(path, expected, judge_flashinfer)
        return answer | {"ignored": _judged(path, expected, judge_flashinfer).ignored}

    def serialize(self, document: dict[str, Any]) -> str:
        """The text that `save` writes."""
        with tempfile.TemporaryDirectory(prefix="nvfp4-") as folder:
            path = os.path.join(folder, "autotune_configs.json")
            self._store(path, document)
            return Path(path).read_text(encoding="utf-8")

    def write_native(self, path: str, document: dict[str, Any]) -> dict[str, int]:
        """Let `save` publish, and count what the file has then."""
        self._store(path, document)
        return {"plans": len(_judged(path, document["_metadata"], judge_native).plans)}

    # --- Probing and calling the functions

    def _probed_capabilities(self) -> list[str]:
        """The capabilities that work with good documents."""
        imported = documents.flashinfer_bytes(self._import, _EXAMPLE)
        own = documents.native_bytes(documents.native(self._native, _EXAMPLE))
        with tempfile.TemporaryDirectory(prefix="nvfp4-") as folder:
            path = os.path.join(folder, "autotune_configs.json")
            failures = {
                "FlashInfer": self._try_load(path, imported, self._import),
                "native": self._try_load(path, own, self._native),
            }
            if all(failures.values()):
                why = "; ".join(f"{dialect} {failure}" for dialect, failure in failures.items())
                raise LoadSaveError(f"load of {self._name!r} reads no good document: {why}")
            unsaved = "there is no save" if self._save is None else self._try_save(path)
        if failures["FlashInfer"] and unsaved:
            raise LoadSaveError(
                f"{self._name!r} loads native documents, but a native-document claim needs "
                f"save(path, plans) too: {unsaved}"
            )
        claims = [] if failures["FlashInfer"] else ["flashinfer-import"]
        if not unsaved:
            claims += ["publication"] if failures["native"] else ["native-document", "publication"]
        return claims

    def _try_load(self, path: str, content: bytes, metadata: Mapping[str, Any]) -> str:
        """The problem with loading a good document, or an empty text."""
        Path(path).write_bytes(content)
        try:
            found = decode(
                _as_rows(self._load(path, **_environment_arguments(self._load, metadata))), PlanMap
            )
        except Exception as error:
            return f"raised {type(error).__name__}: {error}"
        return "" if found == _EXAMPLE else f"returned {dict(found)!r:.120}"

    def _try_save(self, path: str) -> str:
        """The problem with saving, or an empty text."""
        Path(path).unlink()
        try:
            self._store(path, documents.native(self._native, _EXAMPLE))
            judgement = judge_native(Path(path).read_bytes(), self._native)
        except Exception as error:
            return f"save raised {type(error).__name__}: {error}"
        if not judgement.accepted:
            return f"what it saves is not a native document ({judgement.findings[0]})"
        return (
            ""
            if judgement.plans == _EXAMPLE
            else "it saves plans that differ from those it was given"
        )

    def _read(self, path: str, expected: dict[str, Any], judge: Judge) -> dict[str, Any]:
        try:
            found = self._load(path, **_environment_arguments(self._load, expected))
            if found is None:
                raise ValueError("load returned None")
        except self._refusals as error:
            raise _rejection(error, _fault(path, expected, judge)) from error
        return {"plans": _as_rows(found), "ignored": 0}

    def _store(self, path: str, document: dict[str, Any]) -> None:
        assert self._save is not None
        metadata = document["_metadata"]
        plans = {tuple(key): tactic for key, tactic in documents.native_plans(document).items()}
        try:
            self._save(path, plans, **_environment_arguments(self._save, metadata))
        except self._refusals as error:
            fault = _fault(path, metadata, judge_native) if os.path.lexists(path) else None
            if isinstance(error, OSError) and (fault is None or fault[0] != "not-regular"):
                fault = ("publication", path)
            raise _rejection(error, fault) from error


def _function(cache: object, name: str, owner: str, *arguments: str) -> Callable[..., Any]:
    """A function of the cache that can be called with these arguments by position."""
    function: Callable[..., Any] | None = getattr(cache, name, None)
    wanted = f"{name}({', '.join(arguments)})"
    if not callable(function):
        raise LoadSaveError(f"{name!r} of {owner!r} is not a function; it must be {wanted}")
    try:
        signature = inspect.signature(function)
    except ValueError:  # a built-in function without a signature
        return function
    try:
        signature.bind(*arguments, **_environment_arguments(function, {}))
    except TypeError as error:
        raise LoadSaveError(
            f"{name!r} of {owner!r} is {name}{signature}; it must be {wanted}, and may have a "
            f"parameter metadata: {error}"
        ) from None
    return function


def _environment_arguments(
    function: Callable[..., Any], metadata: Mapping[str, Any]
) -> dict[str, Any]:
    """The keyword arguments for a function that has a parameter for the environment."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        return {}
    return {name: dict(metadata) for name in ENVIRONMENT if name in parameters}


def _refusals(cache: object, owner: str) -> tuple[type[Exception], ...]:
    given = getattr(cache, "refusals", ())
    types = given if isinstance(given, tuple) else (given,)
    if not all(isinstance(one, type) and issubclass(one, Exception) for one in types):
        raise LoadSaveError(
            f"refusals of {owner!r} is {given!r:.80}; it must be a tuple of exception types"
        )
    return types


def _environment(
    cache: object, name: str, default: Mapping[str, Any], owner: str
) -> dict[str, Any]:
    given = getattr(cache, name, default)
    if not isinstance(given, Mapping) or given.keys() != default.keys():
        raise LoadSaveError(
            f"{name} of {owner!r} is {given!r:.80}; it must have the fields {', '.join(default)}"
        )
    return dict(given)


def _as_rows(found: Any) -> list[dict[str, Any]]:
    """What `load` returned, as plan rows of the interface, with their numbers unchanged."""
    try:
        if isinstance(found, Mapping):
            found = [(*key, tactic) for key, tactic in found.items()]
        return [
            {name: row[name] for name in _COLUMNS}
            if isinstance(row, Mapping)
            else dict(zip(_COLUMNS, row, strict=True))
            for row in found
        ]
    except (TypeError, ValueError, KeyError):
        raise TypeError(
            f"load returned {found!r:.80}; it must return {{(m, n, k): tactic}}, or rows of m, n, "
            "k and tactic"
        ) from None


def _judged(path: str, expected: Mapping[str, Any], judge: Judge) -> Judgement:
    """The model's verdict on a regular file; on anything else, that on no content."""
    regular = os.path.isfile(path)
    return judge(Path(path).read_bytes() if regular else b"", expected)


def _fault(path: str, expected: Mapping[str, Any], judge: Judge) -> tuple[str, str] | None:
    """The code and the member for which the model rejects a file; None where it accepts it."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return "not-regular", ""
        if status.st_size > facts.MAX_BYTES:
            return "too-large", ""
        findings = judge(Path(path).read_bytes(), expected).findings
    except (OSError, ValueError):
        return "unreadable", ""
    return (findings[0].codes[0], findings[0].member) if findings else None


def _rejection(error: Exception, fault: tuple[str, str] | None) -> Exception:
    """The rejection with a code and a member: its own, the model's, or a code of no contract."""
    if isinstance(getattr(error, "code", None), str) and isinstance(
        getattr(error, "member", None), str
    ):
        return error
    code, member = fault or ("refused", "")
    return Refused(code, member, f"{type(error).__name__}: {error}")
