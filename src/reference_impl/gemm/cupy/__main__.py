"""Build the kernels ahead of time, or inspect a built library.

    python -m nvfp4_reference.gemm.cupy [ARCHITECTURE]
    python -m nvfp4_reference.gemm.cupy inspect [ARCHITECTURE | LIBRARY]

ARCHITECTURE is the number of a compute capability, such as 90 or 121; the default is that of the
card. With an architecture, no card is needed. `inspect` disassembles a built library and prints the
tensor-core instructions of each tactic; its exit status is 1 where they are not the expected ones.
"""

import os
import re
import sys
from pathlib import Path

from ...errors import UnavailableError
from . import inspection, library, toolchain
from .architectures import Architecture, architecture, current_architecture, import_cupy
from .recipe import Recipe, recipe


def main(arguments: list[str]) -> int:
    """Build and print the library's path, or inspect it; messages go to standard error."""
    try:
        if arguments[:1] == ["inspect"]:
            return _inspect(arguments[1:])
        path = library.built(_recipe(arguments), os.environ, _report)
    except UnavailableError as error:
        for line in (str(error), *getattr(error, "__notes__", ())):
            _report(line)
        return 1
    except KeyboardInterrupt:
        _report("interrupted; all files of this build are removed.")
        return 130
    sys.stdout.write(f"{path}\n")
    return 0


def _inspect(arguments: list[str]) -> int:
    match arguments:
        case [name] if not _is_number(name):
            path = Path(name)
        case _:
            path = _recipe(arguments).path
    if not path.is_file():
        raise UnavailableError(
            f"there is no kernel library {path}; build it with the same command without `inspect`, "
            "or name another file."
        )
    found = inspection.inspect(path, os.environ)
    sys.stdout.write(f"{found.table()}\n")
    for fault in found.faults:
        _report(fault)
    return int(bool(found.faults))


def _recipe(arguments: list[str]) -> Recipe:
    return recipe(_chosen(arguments), toolchain.find(os.environ), os.environ)


def _chosen(arguments: list[str]) -> Architecture:
    match arguments:
        case []:
            return current_architecture(import_cupy())
        case [number] if _is_number(number):
            return architecture(int(number))
    raise UnavailableError("give one compute capability as a number, such as 90 or 121.")


def _is_number(text: str) -> bool:
    return re.fullmatch("[0-9]{1,4}", text) is not None


def _report(sentence: str) -> None:
    sys.stderr.write(f"nvfp4: {sentence}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
