"""Put one document before the subject, and hold its answer to the model's verdict."""

import copy
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_nvfp4.fuzz.byte_edits import Substitution
from pytest_nvfp4.implementations.messages import Reading, Rejected, Stats
from pytest_nvfp4.implementations.subject import Subject
from pytest_nvfp4.model import (
    Judgement,
    documents,
    judge_flashinfer,
    judge_kept_flashinfer,
    judge_native,
)
from pytest_nvfp4.plans import PlanKey, PlanMap

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Dialect:
    """A kind of document: how to build, write, read and judge one.

    `read` is the operation that reads it; `judge_kept` judges a file that an implementation keeps
    for itself; `spoil` gives a bad plan to the text of a good document.
    """

    build: Callable[[Mapping[str, Any], PlanMap], Document]
    text: Callable[[Document], bytes]
    judge: Callable[[bytes, Mapping[str, Any]], Judgement]
    judge_kept: Callable[[bytes, Mapping[str, Any]], Judgement]
    read: str
    spoil: Callable[[bytes], bytes]


_LOADED_BEFORE = PlanMap([(PlanKey(1, 7, 16), 3)])
"""A plan that no document under test has, so that a partial installation shows."""

NATIVE = Dialect(
    documents.native,
    documents.native_bytes,
    judge_native,
    judge_native,
    "read_native",
    lambda text: text.replace(b'"tactic_id": ', b'"tactic_id": 9'),
)
FLASHINFER = Dialect(
    documents.flashinfer,
    documents.flashinfer_text,
    judge_flashinfer,
    judge_kept_flashinfer,
    "read_flashinfer",
    lambda text: text.replace(b'Runner",\n    ', b'Runner",\n    9'),
)


def near_misses(value: int | str) -> list[int | str]:
    """Values that a reader in a hurry takes for the same: longer, shorter, other case, older."""
    if isinstance(value, int):
        return [value - 1, value + 1] if value else [1]
    others = (value + " 2", value[:-1], value.swapcase(), value + " ", " " + value, value[1:])
    return [other for other in others if other not in (value, "")]


class Probe:
    """Documents of one dialect for one subject, in one folder.

    `metadata` is the environment that reads expect, `plans` a good map. Every check also proves
    that the file was left alone, and with a session, that the ready map was too. Where `fixed`,
    the subject cannot be told to expect another environment.
    """

    def __init__(
        self,
        subject: Subject,
        folder: Path,
        dialect: Dialect,
        metadata: Mapping[str, Any],
        plans: PlanMap,
        *,
        with_session: bool,
        keep: Callable[[bytes], None],
        fixed: bool = False,
    ):
        self.subject = subject
        self.folder = folder
        self.dialect = dialect
        self.metadata = dict(metadata)
        self.plans = plans
        self.fixed = fixed
        self._keep = keep
        self._with_session = with_session
        self._path = folder / "autotune_configs.json"

    def document(self, plans: PlanMap | None = None) -> Document:
        """A fresh, valid document that a test may spoil."""
        return copy.deepcopy(
            self.dialect.build(self.metadata, self.plans if plans is None else plans)
        )

    def text(self, document: Document) -> bytes:
        """A document as bytes."""
        return self.dialect.text(document)

    def kept(self, path: Path, metadata: Mapping[str, Any] | None = None) -> PlanMap:
        """The plans in a file that the subject has written, which must be a good document."""
        assert path.is_file(), "no file was published"
        judgement = self.dialect.judge_kept(path.read_bytes(), metadata or self.metadata)
        assert judgement.accepted, f"the published file is bad: {judgement.findings[0]}"
        return judgement.plans

    def read(
        self,
        path: Path | str,
        expected: Mapping[str, Any] | None = None,
        session: str | None = None,
    ) -> Reading | Rejected:
        """Let the subject read a file."""
        answer: Reading | Rejected = self.subject.call(
            self.dialect.read,
            path=str(path),
            expected=dict(expected or self.metadata),
            session=session,
        )
        return answer

    def write(self, content: bytes | Document) -> Path:
        """Write a document to the probe's file; data is written as canonical text."""
        data = content if isinstance(content, bytes) else documents.native_bytes(content)
        self._keep(data)
        self._path.write_bytes(data)
        return self._path

    def accepts(
        self,
        content: bytes | Document,
        plans: PlanMap | None = None,
        *,
        ignored: int = 0,
        expected: Mapping[str, Any] | None = None,
    ) -> None:
        """The subject reads exactly these plans (the probe's own, unless given)."""
        path = self.write(content)
        judgement = self.dialect.judge(path.read_bytes(), expected or self.metadata)
        plans = self.plans if plans is None else plans
        assert judgement == Judgement(plans, ignored, ()), "the model disagrees with this test"
        before = _state(path)
        answer = self.read(path, expected)
        assert not isinstance(answer, Rejected), f"rejected a good document: {_said(answer)}"
        assert answer.plans == plans
        assert answer.ignored == ignored, "wrong count of ignored foreign operations"
        assert _state(path) == before, "reading changed the file"

    def rejects(
        self,
        content: bytes | Document,
        code: str,
        member: str = "",
        *,
        expected: Mapping[str, Any] | None = None,
    ) -> None:
        """The subject rejects this as a whole, for a reason that the model finds too.

        `code` and `member` are what the test is about; the model must have found exactly that, so
        that a test cannot be about something else than it says.
        """
        path = self.write(content)
        judgement = self.dialect.judge(path.read_bytes(), expected or self.metadata)
        assert judgement.allows(code, member), "the model disagrees with this test"
        before = _state(path)
        if not self._with_session:
            self._rejection_agrees(self.read(path, expected), judgement)
        else:
            self._rejects_in_session(path, judgement, expected)
        assert _state(path) == before, "rejecting changed the file"

    def _rejects_in_session(
        self, path: Path, judgement: Judgement, expected: Mapping[str, Any] | None
    ) -> None:
        """The same in a session that has loaded a good document: only `rejected` may change."""
        session = self.subject.open({})
        assert isinstance(session, str), "open was rejected"
        good = self.folder / "good.json"
        good.write_bytes(documents.native_bytes(self.document(_LOADED_BEFORE)))
        assert isinstance(self.read(good, session=session), Reading), "rejected a good document"
        plans, stats = self.subject.plans(session), self.subject.stats(session)
        assert isinstance(stats, Stats)
        assert plans == _LOADED_BEFORE, "the good document was not installed"
        answer = self.read(path, expected, session)
        self._is_rejected(answer, judgement)
        assert self.subject.plans(session) == plans, "a rejected document changed the ready map"
        after = self.subject.stats(session)
        assert isinstance(after, Stats)
        assert after.rejected == stats.rejected + 1, "the rejection was not counted"
        assert (after.loaded, after.tuned, after.saved, after.lazy) == (
            stats.loaded,
            stats.tuned,
            stats.saved,
            stats.lazy,
        ), "a rejected document changed another counter"
        self._rejection_agrees(answer, judgement)
        assert stats.loaded == len(_LOADED_BEFORE), "what was loaded was not counted"
        self.subject.close(session)

    def agrees(self, content: bytes) -> None:
        """The subject gives the verdict of the model, whichever that is."""
        self._path.write_bytes(content)
        self._agrees(content)

    def agrees_on_each(self, document: bytes, edits: Iterable[Substitution]) -> None:
        """The same for each edit of a document, one byte in the file at a time."""
        with self.write(document).open("r+b", buffering=0) as file:
            for edit in edits:
                os.pwrite(file.fileno(), bytes((edit.value,)), edit.offset)
                self._agrees(edit.apply(document))
                os.pwrite(file.fileno(), document[edit.offset : edit.offset + 1], edit.offset)

    def _agrees(self, content: bytes) -> None:
        judgement = self.dialect.judge(content, self.metadata)
        answer = self.read(self._path)
        try:
            if judgement.accepted:
                assert isinstance(answer, Reading), f"rejected a good document: {_said(answer)}"
                assert answer == Reading(judgement.plans, judgement.ignored)
            else:
                self._rejection_agrees(answer, judgement)
        except AssertionError:
            self._keep(content)
            raise

    @staticmethod
    def _is_rejected(answer: Reading | Rejected, judgement: Judgement) -> Rejected:
        findings = "; ".join(map(str, judgement.findings[:3]))
        if isinstance(answer, Reading):
            plans = f"{len(answer.plans)} plans were read"
            pytest.fail(f"accepted a bad document, which has {findings}; {plans}")
        return answer

    def _rejection_agrees(self, answer: Reading | Rejected, judgement: Judgement) -> None:
        rejected = self._is_rejected(answer, judgement)
        assert judgement.allows(rejected.code, rejected.member), (
            f"rejected for {_said(rejected)}, but what is wrong is "
            + "; ".join(map(str, judgement.findings[:3]))
        )


def _said(rejected: Rejected) -> str:
    return f"{rejected.code} at {rejected.member or 'the document'} ({rejected.message})"


def _state(path: Path) -> tuple[bytes, int, int, int]:
    """What reading must not change: content, inode, modification and change time."""
    status = path.stat()
    return path.read_bytes(), status.st_ino, status.st_mtime_ns, status.st_ctime_ns
