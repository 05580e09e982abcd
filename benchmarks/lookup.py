"""The reference's plan lookup against FlashInfer 0.6.13's: hits, misses, threads, files.

The exit status is 1 where a bar is missed, else 2 where FlashInfer is not installed. `make
flashinfer` creates an environment with it; run this with the interpreter of that environment.
"""

import gc
import importlib
import importlib.util
import itertools
import json
import os
import random
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from nvfp4_reference import publication
from nvfp4_reference.environment import ImportMetadata
from nvfp4_reference.flashinfer_import import read_flashinfer
from nvfp4_reference.native_document import Document
from nvfp4_reference.options import IMPORT_PATH, NATIVE_PATH, resolve
from nvfp4_reference.plans import PlanKey
from nvfp4_reference.scripted_timer import Script, ScriptedTimer
from nvfp4_reference.session import Session
from sidebyside import Row, main, medians, show, unit

from pytest_nvfp4 import oracle
from pytest_nvfp4.model import documents

HIT_BAR = 1.2e-6
MAXIMUM = 2048
FOREIGN = 100_000
THREADS = 8
THREADS_BAR = 1.25

# A comparison: its name, the times on the left and on the right, and the bar of the ratio.
Comparison = tuple[str, str, str, float | None]
AGAINST_FLASHINFER: tuple[Comparison, ...] = (
    ("ready hit: lookup, choose_one", "hit", "FlashInfer hit", 1 / 8),
    ("ready hit: plan, choose_one", "plan hit", "FlashInfer hit", None),
    ("ready hit of a loaded plan", "loaded hit", "FlashInfer loaded hit", None),
    ("miss", "miss", "FlashInfer miss", None),
    ("miss beside 100,000 foreign entries", "crowded miss", "FlashInfer crowded miss", None),
    ("load the 64-entry oracle", "load", "FlashInfer load", None),
    ("save 64 plans into a file of them", "save", "FlashInfer save", None),
)
LARGE_AND_SMALL: tuple[Comparison, ...] = (
    ("ready hit, 1,000 plans and 64", "hit of 1,000", "loaded hit", 1.3),
    ("ready hit, 100,000 plans and 64", "hit of 100,000", "loaded hit", 1.3),
    ("each of 100,000 once, and of 64", "every hit of 100,000", "loaded hit", None),
    ("miss, 100,000 foreign entries and none", "crowded miss", "miss", 1.2),
    ("tuning miss, the same", "crowded plan", "plan", None),
    ("FlashInfer's miss, the same", "FlashInfer crowded miss", "FlashInfer miss", None),
)
IN_THREADS: tuple[Comparison, ...] = (
    ("ready hits: lookup", "hit, together", "hit, alone", None),
    ("the same loop over dict.get", "get, together", "get, alone", None),
    ("the same loop over choose_one", "FlashInfer, together", "FlashInfer, alone", None),
)

Request = tuple[int, int, int]
Ask = Callable[[], object]
Times = dict[str, float]


@dataclass(frozen=True)
class Loop:
    """A call that is timed as a whole, and the number of operations that it does.

    The loops of one comparison take equally long, since a busy machine interrupts a longer one more
    often.
    """

    run: Ask
    count: int

    @classmethod
    def of(cls, run: Ask, count: int = 1, *, repeats: int = 1) -> "Loop":
        """A loop that calls `run`, which does `count` operations, `repeats` times."""

        def repeated() -> None:
            for _ in range(repeats):
                run()

        return cls(repeated if repeats > 1 else run, count * repeats)


PLANS = dict(oracle.load().plans)
SHAPES = sorted({(n, k) for _, n, k in PLANS})
HITS: list[Request] = [(m - m // 8, n, k) for m, n, k in PLANS]  # not the upper ends of buckets
MISSES: list[Request] = [(m, n + 16, k) for m, n, k in HITS]
ANYWHERE = dict.fromkeys(oracle.load().metadata, "*")


def measure() -> int:
    theirs = flashinfer_side()
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    print(f"{os.cpu_count()} processors; load {load} over 1, 5 and 15 minutes")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        times = files(folder, theirs) | lookups(folder, theirs)
    status = int(times["hit"] > HIT_BAR)
    mark = "  missed" if status else ""
    print(f"ready hit: {times['hit'] * 1e6:.2f} µs (bar {HIT_BAR * 1e6:g} µs){mark}")
    status |= table(AGAINST_FLASHINFER, times, "reference", "FlashInfer")
    status |= table(LARGE_AND_SMALL, times, "large", "small")
    status |= table(IN_THREADS, times, f"{THREADS} threads", "1 thread")
    status |= serialization(times)
    return status or (2 if theirs is None else 0)


def serialization(times: Times) -> int:
    """Print how much eight threads slow each loop down; returns the exit status.

    A dictionary read takes only the interpreter's lock, so its slowdown is the baseline; a ratio
    below 1, as on a busy machine, counts as 1. With a lock of its own, a lookup would slow down
    several times as much.
    """
    lookup, plain = (
        times[f"{name}, together"] / times[f"{name}, alone"] for name in ("hit", "get")
    )
    ratio = lookup / max(1, plain)
    print(
        f"\nlookup slows down {lookup:.2f}-fold in threads, dict.get {plain:.2f}-fold: "
        f"ratio {ratio:.2f} (bar {THREADS_BAR:g})" + "  missed" * (ratio > THREADS_BAR)
    )
    return int(ratio > THREADS_BAR)


def flashinfer_side() -> ModuleType | None:
    """The module of FlashInfer's side, where the version that the bars are for is installed."""
    if importlib.util.find_spec("flashinfer") is not None:
        side = importlib.import_module("flashinfer_side")
        if side.VERSION == "0.6.13":
            return side
    print(
        "FlashInfer 0.6.13 is not installed here, so the reference is measured alone and no ratio "
        "to it is claimed; see benchmarks/README.md."
    )
    return None


def files(folder: Path, theirs: ModuleType | None) -> Times:
    """Times to load and save the oracle's plans."""
    loaded = folder / "oracle.json"
    loaded.write_bytes(documents.flashinfer_bytes(ANYWHERE, PLANS))
    session, here = opened(folder), ImportMetadata.of_this_machine()
    saved = Document(session.options.metadata, PLANS)
    sides = {
        "load": Loop.of(
            lambda: session.install(read_flashinfer(str(loaded), here).plans, "import"), repeats=150
        ),
        "save": Loop.of(lambda: publication.update(str(folder / "native.json"), saved), repeats=15),
    }
    if theirs is not None:
        tuner = theirs.Tuner(PLANS)
        sides |= {
            "FlashInfer load": Loop.of(lambda: tuner.load(str(loaded))),
            "FlashInfer save": Loop.of(lambda: tuner.save(str(folder / "saved.json"))),
        }
    times = timed(sides, rounds=25)
    agree("the loaded plans", session.plans(), PLANS)
    if theirs is not None:
        agree("the plans that FlashInfer saved", read_saved(folder / "saved.json"), PLANS)
    return times


def lookups(folder: Path, theirs: ModuleType | None) -> Times:
    """Times of hits, misses and threads; the sides of each alternate."""
    foreign = folder / "foreign.json"
    keys = (f"('other_gemm', 'OtherRunner', (({i}, 64),), ())" for i in range(FOREIGN))
    others = {key: ["OtherRunner", 0] for key in keys}
    foreign.write_text(json.dumps({"_metadata": ANYWHERE} | others))

    session = warmed_up(opened(folder))
    crowded = warmed_up(opened(folder, foreign))
    loaded, thousand, many = opened(folder), opened(folder), opened(folder)
    loaded.install(PLANS, "import")
    thousand.install(PLANS | more_plans(1_000 - len(PLANS)), "native")
    rest = more_plans(100_000 - len(PLANS))
    many.install(PLANS | rest, "native")
    every: list[Request] = list(rest)
    random.Random(0).shuffle(every)
    ready = {tuple(key): tactic for key, tactic in PLANS.items()}
    exact: list[Request] = list(ready)

    hits = {
        "hit": over(session.lookup, HITS * 40),
        "plan hit": over(session.plan, HITS * 5),
        "loaded hit": over(loaded.lookup, HITS * 40),
        "hit of 1,000": over(thousand.lookup, HITS * 40),
        "hit of 100,000": over(many.lookup, HITS * 40),
    }
    all_hits = {"every hit of 100,000": over(many.lookup, every)}
    misses = {
        "miss": over(session.lookup, MISSES * 150),
        "crowded miss": over(crowded.lookup, MISSES * 150),
    }
    columns = itertools.count(16)

    def tune(tuning: Session) -> Loop:
        return Loop.of(lambda: tuning.plan(5, next(columns), 4096, back_end=Winner()))

    slow: dict[str, Loop] = {}
    loops = {"hit": over(session.lookup, HITS), "get": get_over(ready, exact)}
    if theirs is not None:
        live, file, beside = (theirs.Tuner(PLANS) for _ in range(3))
        live.tune(SHAPES)
        beside.tune(SHAPES)
        accepted = file.load(str(folder / "oracle.json")), beside.load(str(foreign))
        agree("the files that FlashInfer took", accepted, (True, True))
        for tuner in (live, file, beside):
            agree(
                "FlashInfer's choices",
                {request: tuner.choose(*request) for request in HITS},
                {request: session.lookup(*request).tactic for request in HITS},
            )
        for name, tuner in (("FlashInfer hit", live), ("FlashInfer loaded hit", file)):
            hits[name] = Loop(tuner.asking(HITS), len(HITS))
        agree("FlashInfer's misses", {beside.choose(*request) for request in MISSES}, {-1})
        misses["FlashInfer miss"] = Loop(live.asking(MISSES), len(MISSES))
        slow["FlashInfer crowded miss"] = Loop(beside.asking(MISSES[:1]), 1)
        loops["FlashInfer"] = hits["FlashInfer hit"]
    agree("the misses", {crowded.lookup(*request) for request in MISSES}, {None})
    agree("the plans beside foreign entries", crowded.plans(), PLANS)
    gc.collect()
    gc.freeze()  # the collector skips the objects made for all sides
    return (
        timed(hits, rounds=201)
        | timed(all_hits)
        | timed(misses, rounds=201)
        | timed(slow, rounds=51)
        | timed({"plan": tune(session), "crowded plan": tune(crowded)}, rounds=201)
        | threads(loops)
    )


def threads(loops: dict[str, Loop]) -> Times:
    """Each loop in eight threads, and the same number of times in one."""
    repeats = {"hit": 500, "get": 1_000, "FlashInfer": 12}
    sides: dict[str, Loop] = {}
    for name, loop in loops.items():
        for side, count in (("together", THREADS), ("alone", 1)):
            each = THREADS * repeats[name] // count
            run = in_threads(Loop.of(loop.run, repeats=each).run, count)
            sides[f"{name}, {side}"] = Loop(run, loop.count * each * count)
    return timed(sides, rounds=41)


def in_threads(run: Ask, count: int) -> Ask:
    """`run` in each of `count` threads that start together."""

    def together() -> None:
        barrier = threading.Barrier(count)

        def work() -> None:
            barrier.wait()
            run()

        workers = [threading.Thread(target=work) for _ in range(count)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    return together


class Winner:
    """A scripted back end: the oracle's tactic wins, and tactic 0 where the oracle has none."""

    def timer(self, m: int, n: int, k: int) -> ScriptedTimer:
        winner = PLANS.get(PlanKey(m, n, k), 0)
        return Script.from_json({str(winner): 1, "default": 2}).timer(m, n, k)


def opened(folder: Path, imported: Path | None = None) -> Session:
    environment = {NATIVE_PATH: str(folder / "session.json")}
    if imported is not None:
        environment[IMPORT_PATH] = str(imported)
    return Session(resolve(environment))


def warmed_up(session: Session) -> Session:
    """Check that every profile is tuned, and every file is read and accepted."""
    session.warm_up(MAXIMUM, SHAPES, back_end=Winner())
    agree("rejected files", session.rejections(), [])
    return session


def more_plans(count: int) -> dict[PlanKey, int]:
    """Plans of other weights, for the buckets of the oracle."""
    buckets = sorted({m for m, _, _ in PLANS})
    every = (PlanKey(m, n, 4096) for n in itertools.count(16) for m in buckets)
    return {key: key.n % 32 for key in itertools.islice(every, count)}


def over(lookup: Callable[[int, int, int], object], requests: Sequence[Request]) -> Loop:
    def ask() -> None:
        for m, n, k in requests:
            lookup(m, n, k)

    return Loop(ask, len(requests))


def get_over(ready: dict[Request, int], requests: Sequence[Request]) -> Loop:
    get = ready.get

    def ask() -> None:
        for m, n, k in requests:
            get((m, n, k))

    return Loop(ask, len(requests))


def read_saved(path: Path) -> dict[PlanKey, int]:
    """The plans of a file that FlashInfer saved, in any environment."""
    metadata = json.loads(path.read_bytes())["_metadata"]
    return dict(read_flashinfer(str(path), ImportMetadata.from_json(metadata)).plans)


def agree(what: str, found: object, expected: object) -> None:
    """Exit where a timed call gives a wrong result."""
    if found != expected:
        raise SystemExit(f"{what} are not as expected, so their times would mean nothing.")


def timed(sides: dict[str, Loop], rounds: int = 15) -> Times:
    """Median seconds of one operation of each side; the sides alternate."""
    taken = medians(*(side.run for side in sides.values()), rounds=rounds, number=1)
    return {
        name: seconds / side.count
        for (name, side), seconds in zip(sides.items(), taken, strict=True)
    }


def table(comparisons: Sequence[Comparison], times: Times, left: str, right: str) -> int:
    """Print the measured `comparisons`; a left side without a right one has no ratio."""
    print()
    rows = [Row(name, times[a], times[b], bar) for name, a, b, bar in comparisons if b in times]
    alone = [(name, a) for name, a, b, _ in comparisons if b not in times and a in times]
    status = show(rows, left, right) if rows else print(f"{'':<38} {left:>12}") or 0
    for name, a in alone:
        print(f"{name.removesuffix(', choose_one'):<38} {unit(times[a]):>12}")
    return status


main(measure)
