"""What it costs to reach an adapter through JSON lines: one round trip, one operation, the suite.

An executable that is faster than Python may cost less than a call in process; that is what the
second and the third table show for the C++ adapter of `examples/`, beside the reference in process.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from sidebyside import Row, main, medians, show

from pytest_nvfp4 import oracle
from pytest_nvfp4.implementations.loader import load
from pytest_nvfp4.implementations.messages import Description
from pytest_nvfp4.implementations.plain_data import decode
from pytest_nvfp4.implementations.subject import Transport
from pytest_nvfp4.model import documents
from pytest_nvfp4.results.verdicts import IN_PROCESS, JSON_LINES

CPP = Path(__file__).parent.parent / "examples" / "adapters" / "cpp"
AREAS = ("NDOC", "FIMP", "MERG", "PUBL")
ROUND_TRIP = 150e-6
"""Seconds that a round trip to a Python adapter may take in the median."""


def round_trips() -> int:
    target = load("reference")
    here, there = target.in_process(), target.json_lines(timeout=60)
    try:
        rows, absolute = [], []
        for operation, arguments in (("bucket", {"m": 300}), ("profiles", {"maximum": 8192})):
            ours, theirs = medians(
                lambda o=operation, a=arguments: there.call(o, a),
                lambda o=operation, a=arguments: here.call(o, a),
                rounds=25,
                number=200,
            )
            rows.append(Row(operation, ours, theirs))
            absolute.append(Row(f"{operation}, at most 150 µs", ours, ROUND_TRIP, 1))
        show(rows, "JSON lines", "in process")
        return show(absolute, "JSON lines", "allowed")
    finally:
        there.close()


def operations(executable: str) -> int:
    """Single operations on 64 plans; for information, since the short ones are all round trip."""
    here, there = load("reference").in_process(), load(executable).json_lines(timeout=60)
    known = oracle.load()
    with tempfile.TemporaryDirectory(prefix="nvfp4-") as name:
        folder = Path(name)
        imported = folder / "import.json"
        imported.write_bytes(known.document)

        def calls(transport: Transport) -> dict[str, Callable[[], object]]:
            metadata = dict(
                decode(transport.call("describe", {})[1], Description).native_metadata or {}
            )
            document = documents.native(metadata, known.plans)
            own = folder / f"{transport.name}.json"
            own.write_bytes(documents.native_bytes(document))
            published = str(folder / f"{transport.name} published.json")
            expected = {"path": str(own), "expected": metadata, "session": None}
            oracle_s = {"path": str(imported), "expected": dict(known.metadata), "session": None}
            both = {"prior": document, "current": document}
            saved = {"path": published, "document": document}
            return {
                "read_native": lambda: transport.call("read_native", expected),
                "read_flashinfer": lambda: transport.call("read_flashinfer", oracle_s),
                "serialize": lambda: transport.call("serialize", {"document": document}),
                "merge": lambda: transport.call("merge", both),
                "write_native, with two fsyncs": lambda: transport.call("write_native", saved),
            }

        try:
            ours, theirs = calls(there), calls(here)
            rows = [
                Row(name, *medians(ours[name], theirs[name], rounds=15, number=10)) for name in ours
            ]
            return show(rows, "C++", "in process")
        finally:
            there.close()


def seconds(implementation: str, folder: Path) -> dict[tuple[str, str, str], float]:
    """(area, contract and case, transport) → the seconds that a case of the suite took."""
    report = folder / "report.json"
    command = [sys.executable, "-m", "pytest_nvfp4.cli", "run", implementation, "-n", "0"]
    command += ["--contract", ",".join(AREAS), "--report", str(report)]
    command += ["--reproducers", str(folder / "reproducers")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return {
        (contract["area"], f"{contract['id']} {case['case']}", case["transport"]): case["seconds"]
        for contract in json.loads(report.read_text())["contracts"]
        for case in contract["cases"]
        if case["verdict"] == "passed"
    }


def suite(executable: str) -> int:
    """The cases of the document areas that run over both transports, by area and all together."""
    with tempfile.TemporaryDirectory(prefix="nvfp4-") as folder:
        python = seconds("reference", Path(folder))
        cpp = seconds(executable, Path(folder))
    sums = {area: [0.0, 0.0] for area in (*AREAS, "the document areas")}
    for (area, case, transport), spent in python.items():
        other = cpp.get((area, case, JSON_LINES))
        if transport == IN_PROCESS and other is not None:
            for name in (area, "the document areas"):
                sums[name][0] += other
                sums[name][1] += spent
    rows = [
        Row(f"suite: {name}", ours, theirs, 1.5 if name not in AREAS else None)
        for name, (ours, theirs) in sums.items()
    ]
    return show(rows, "C++", "in process")


def measure() -> int:
    status = round_trips()
    for tool in ("make", "g++"):
        if shutil.which(tool) is None:
            print(f"the executable was not measured: there is no {tool}", file=sys.stderr)
            return status or 2
    with tempfile.TemporaryDirectory(prefix="nvfp4-") as folder:
        built = Path(folder, "cpp")
        shutil.copytree(CPP, built, ignore=shutil.ignore_patterns("adapter"))
        subprocess.run(["make", "-s"], cwd=built, check=True)
        print()
        operations(f"exec:{built}/adapter")
        print()
        return max(status, suite(f"exec:{built}/adapter"))


main(measure)
