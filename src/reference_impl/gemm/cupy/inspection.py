"""The tensor-core instructions of each tactic's kernel in a built library.

A kernel can compile and still use other arithmetic than intended. So the library is disassembled
with NVIDIA's cuobjdump, and each kernel is identified by its C++ name: tile, order of the output,
and scheduler. Nothing is run, and no card is needed.
"""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import UnavailableError
from ...tactics import Tactic
from .architectures import Architecture, architecture
from .toolchain import find_cuobjdump

_ARCHITECTURE = re.compile(r"^\s*code for sm_(\d+)a?$")
_FUNCTION = re.compile(r"^\s*Function : (\S+)$")
_MULTIPLY = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(\w*MMA(?:\.\w+)*)\s")

_KERNEL = "cutlass::gemm::kernel::GemmUniversal<"
_SIZE = r"cute::C<(\d+)>"
_TILE = re.compile(
    r"::CollectiveEpilogue<cutlass::epilogue::\w+<[^<>]*>, "
    rf"cute::tuple<{_SIZE}, {_SIZE}, {_SIZE} ?>"
)
_STRIDE = re.compile(r"cutlass::bfloat16_t, cute::tuple<(cute::C<1>, long|long, cute::C<1>), long>")
_SCHEDULER = re.compile(r"cutlass::gemm::(Persistent|StreamK)Scheduler\b")


@dataclass(frozen=True, slots=True)
class Expected:
    """The instruction that the kernels of an architecture must use: a pattern and a description."""

    pattern: re.Pattern[str]
    words: str


_HALF = Expected(re.compile(r"HGMMA\.\d+x\d+x16\.F32"), "half-precision HGMMA with F32 sums")
_FP4 = Expected(
    re.compile(r"OMMA\.SF\.16864\.F32\.E2M1\.E2M1\.UE4M3\.4X"),
    "block-scaled OMMA of E2M1 with a UE4M3 scale for every 16 values, and F32 sums",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFinding:
    """One tactic's kernel, and the count of each tensor-core instruction in its code."""

    tactic: Tactic
    instructions: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """The kernels of one library."""

    architecture: Architecture
    findings: tuple[KernelFinding, ...]

    @property
    def expected(self) -> Expected:
        """The instruction that every tactic of this architecture must use."""
        return _HALF if self.architecture.expands else _FP4

    def fault(self, finding: KernelFinding) -> str | None:
        """The fault of a tactic's instructions; None if they are the expected ones."""
        if not finding.instructions:
            return "no tensor-core instruction"
        others = [one for one in finding.instructions if not self.expected.pattern.fullmatch(one)]
        return f"also multiplies by {', '.join(sorted(others))}" if others else None

    @property
    def faults(self) -> list[str]:
        """One sentence for each tactic with other instructions than the expected one."""
        return [
            f"tactic {one.tactic.id} ({one.tactic.name}): {fault}."
            for one in self.findings
            if (fault := self.fault(one))
        ]

    def table(self) -> str:
        """A line for each tactic: id, name, and the count and name of each instruction."""
        lines = [f"{self.architecture.name}: {self.expected.words}"]
        for one in self.findings:
            counts = sorted(one.instructions.items()) or [("no tensor-core instruction", 0)]
            found = ", ".join(f"{count:4} {name}" for name, count in counts)
            lines.append(f"{one.tactic.id:2}  {one.tactic.name:37} {found}")
        return "\n".join(lines)


def inspect(library: Path, environment: Mapping[str, str]) -> Inspection:
    """Disassemble a library; `UnavailableError` where a tool or a tactic's kernel is missing."""
    cuobjdump = find_cuobjdump(environment)
    number, code = disassembled(_output([str(cuobjdump), "-sass", str(library)]).splitlines())
    names = list(code)
    plain = _demangled(names, environment)
    return sorted_out(architecture(number), dict(zip(plain, code.values(), strict=True)))


def disassembled(lines: Iterable[str]) -> tuple[int, dict[str, Counter[str]]]:
    """The architecture's number, and each function's tensor-core instructions with their counts."""
    numbers: set[int] = set()  # of parts with functions; the linker adds an empty one
    code: dict[str, Counter[str]] = {}
    current: Counter[str] = Counter()
    number = 0
    for line in lines:
        if found := _ARCHITECTURE.match(line):
            number = int(found[1])
        elif found := _FUNCTION.match(line):
            numbers.add(number)
            current = code[found[1]] = Counter()
        elif found := _MULTIPLY.match(line):
            current[found[1]] += 1
    if len(numbers) != 1:
        raise UnavailableError(
            f"the file holds code for {len(numbers)} architectures where a kernel library has one; "
            "name a library that this package built."
        )
    return numbers.pop(), code


def sorted_out(card: Architecture, code: Mapping[str, Mapping[str, int]]) -> Inspection:
    """Find each tactic's kernel by its C++ name; `UnavailableError` unless each has exactly one."""
    kernels: dict[Tactic, Mapping[str, int]] = {}
    for name, instructions in code.items():
        if _KERNEL not in name:
            continue
        tactic = _tactic(card, name)
        if tactic is None or tactic in kernels:
            what = "belongs to no tactic" if tactic is None else f"is a second one of {tactic.name}"
            raise UnavailableError(
                f"the kernel {name[:60]}... {what} of {card.name}, so the library is not one of "
                "this version; delete it, so that it is built again."
            )
        kernels[tactic] = instructions
    missing = [str(one.id) for one in card.tactics if one not in kernels]
    if missing:
        raise UnavailableError(
            f"there is no kernel for tactic {', '.join(missing)} of {card.name}; "
            "name a library that this package built."
        )
    return Inspection(
        architecture=card,
        findings=tuple(
            KernelFinding(tactic=one, instructions=kernels[one]) for one in card.tactics
        ),
    )


def _tactic(card: Architecture, name: str) -> Tactic | None:
    """The tactic with the properties in a kernel's C++ name."""
    tile, stride, scheduler = (pattern.search(name) for pattern in (_TILE, _STRIDE, _SCHEDULER))
    if not (tile and stride and scheduler):
        return None
    m, n, k = map(int, tile.groups())
    described = (
        (m, n, 2 * k if card.expands else k),  # half of the tactic's K tile; see `architectures`
        stride[1].startswith("cute"),  # swap-AB writes column by column
        "stream-k" if scheduler[1] == "StreamK" else "data-parallel",
    )
    for tactic in card.tactics:
        if (tactic.tile, tactic.swap_ab, tactic.scheduler) == described:
            return tactic
    return None


def _demangled(names: list[str], environment: Mapping[str, str]) -> list[str]:
    tool = shutil.which("c++filt", path=environment.get("PATH", ""))
    if tool is None:
        raise UnavailableError("there is no c++filt, which decodes C++ names; install binutils.")
    text = "".join(f"{name}\n" for name in names)
    return _output([tool, "--no-recurse-limit"], text).splitlines()  # these names nest deeply


def _output(command: list[str], text: str | None = None) -> str:
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    except OSError as error:
        raise UnavailableError(f"{command[0]} does not run ({error}); reinstall it.") from error
    if done.returncode:
        why = next(iter((done.stderr or done.stdout).splitlines()), f"status {done.returncode}")
        raise UnavailableError(
            f"{command[0]} could not read the library ({why}); build the library again."
        )
    return done.stdout
