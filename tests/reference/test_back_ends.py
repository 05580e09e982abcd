"""The choice of the back end, and that plans of one are never used on another."""

import importlib
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from nvfp4_reference import NativeMetadata, Rejected, Session, back_ends, resolve
from nvfp4_reference.adapter import CAPABILITIES, Adapter
from nvfp4_reference.environment import ImportMetadata

HERE = NativeMetadata.of_this_machine()
CARD = NativeMetadata.from_json({**HERE.as_json(), "architecture": 90, "gpu": "NVIDIA H200"})
CUPY = {back_ends.BACK_END: "cupy"}
NK = (5120, 6144)


class Card:
    """Stands for the back end on a card: tactic 7 is the fastest."""

    def __init__(self) -> None:
        self.timers: list[tuple[int, int, int]] = []

    def reason(self) -> str | None:
        return None

    def metadata(self) -> NativeMetadata:
        return CARD

    def import_metadata(self) -> ImportMetadata:
        return ImportMetadata.from_json(
            {**ImportMetadata.of_this_machine().as_json(), "gpu": CARD.gpu}
        )

    def timer(self, m: int, n: int, k: int) -> Any:
        self.timers.append((m, n, k))
        return self

    def run(self, tactic: int) -> None:
        self._last = tactic

    def synchronize(self) -> None: ...

    def delay(self, microseconds: int) -> None: ...

    def event(self) -> None: ...

    def elapsed_microseconds(self, start: None, end: None) -> float:
        return 1.0 if self._last == 7 else 2.0


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> list[Card]:
    """Every back end that was made for a card."""
    made: list[Card] = []

    class Module:
        @staticmethod
        def CupyBackend() -> Card:  # noqa: N802
            made.append(Card())
            return made[-1]

        @staticmethod
        def native_here(environment: Mapping[str, str]) -> NativeMetadata:
            return Card().metadata()

        @staticmethod
        def import_here() -> ImportMetadata:
            return Card().import_metadata()

    real = importlib.import_module
    monkeypatch.setattr(
        importlib,
        "import_module",
        lambda name, *rest: (
            Module if name.endswith((".gemm.cupy", ".gemm.cupy.metadata")) else real(name, *rest)
        ),
    )
    return made


@pytest.mark.parametrize(
    "environment", [{}, {back_ends.BACK_END: ""}, {back_ends.BACK_END: "numpy"}]
)
def test_the_cpu_is_the_default(environment: dict[str, str]) -> None:
    options = resolve({**environment, "HOME": "/home/me"})
    assert options.back_end == "numpy"
    assert options.metadata == HERE


def test_auto_is_the_card_where_it_can_run(cards: list[Card]) -> None:
    there = resolve({back_ends.BACK_END: "auto", "HOME": "/home/me"})
    assert (there.back_end, there.metadata) == ("cupy", CARD)
    assert Adapter({back_ends.BACK_END: "auto"}).describe()["native_metadata"] == CARD.as_json()


def test_auto_is_the_cpu_where_no_card_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    here = resolve({back_ends.BACK_END: "auto", "HOME": "/home/me"})
    assert (here.back_end, here.metadata) == ("numpy", HERE)


@pytest.mark.parametrize("name", ["torch", "CUPY", " cupy"])
def test_another_name_is_a_configuration_error(name: str) -> None:
    with pytest.raises(Rejected, match="set it to numpy, cupy, flashinfer or auto") as raised:
        resolve({back_ends.BACK_END: name, "HOME": "/home/me"})
    assert (raised.value.code, raised.value.member) == ("configuration", back_ends.BACK_END)
    with pytest.raises(Rejected):
        Adapter({back_ends.BACK_END: name})


def test_a_card_that_is_not_there_is_a_rejection_and_not_the_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    adapter = Adapter(CUPY)
    for call in (
        lambda: resolve({**CUPY, "HOME": "/home/me"}),
        adapter.describe,
        lambda: adapter.open({"HOME": "/home/me"}),
    ):
        with pytest.raises(Rejected, match="the back end cupy cannot run here: CuPy") as raised:
            call()
        assert (raised.value.code, raised.value.member) == ("configuration", back_ends.BACK_END)
    assert resolve({"HOME": "/home/me"}).metadata == HERE, "the CPU's path is affected"


def test_a_card_s_plans_have_its_environment(cards: list[Card]) -> None:
    there = resolve({**CUPY, "HOME": "/home/me"})
    here = resolve({"HOME": "/home/me"})
    assert there.metadata == CARD
    assert there.native_path != here.native_path
    assert there.native_path is not None
    assert "sm90-NVIDIA_H200" in there.native_path


def test_a_session_measures_on_the_card_that_it_names(cards: list[Card]) -> None:
    session = Session(resolve({**CUPY, "VT_FP4_PERSISTENT_CACHE": "0"}))
    before = len(cards)
    session.warm_up(2, [NK])
    assert set(session.plans().values()) == {7}
    assert len(cards) == before + 1, "one back end measures for the whole session"
    assert cards[-1].timers == [(1, *NK), (2, *NK)]


def test_an_adapter_s_sessions_share_one_card(cards: list[Card]) -> None:
    adapter = Adapter(CUPY)
    assert adapter.describe()["native_metadata"] == CARD.as_json()
    claims: Any = adapter.describe()["capabilities"]
    assert set(claims) - set(CAPABILITIES) == {"device"}, "a CPU claims none"
    measured = []
    for m in (1, 2):
        opened = adapter.open({"VT_FP4_PERSISTENT_CACHE": "0"})["session"]
        assert adapter.plan(opened, m, *NK)["tactic"] == 7
        means = {str(tactic): 0.2 for tactic in range(32)} | {"7": 0.1}
        assert adapter.times(opened) == means
        measured.append((m, *NK))
    assert [card.timers for card in cards if card.timers] == [measured]


def test_without_a_back_end_measuring_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name, name=name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(LookupError, match="no GEMM back end is installed"):
        back_ends.default_back_end()

    def broken(name: str) -> Any:
        raise ModuleNotFoundError("numpy", name="numpy")

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(ModuleNotFoundError, match="numpy"):
        back_ends.default_back_end()


def test_the_back_end_of_the_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gemm:
        class NumpyBackend:
            pass

    monkeypatch.setattr(importlib, "import_module", lambda name: Gemm)
    assert isinstance(back_ends.default_back_end(), Gemm.NumpyBackend)
