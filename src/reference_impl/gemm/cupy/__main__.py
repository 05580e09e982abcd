"""Build the kernels ahead of time, or look at what was built.

    python -m nvfp4_reference.gemm.cupy [ARCHITECTURE]
    python -m nvfp4_reference.gemm.cupy inspect [ARCHITECTURE | LIBRARY]

ARCHITECTURE is the number of a compute capability, such as 90 or 121; without one, it is that of
the card. No card is needed to build for one. `inspect` disassembles a built library and prints what
each tactic multiplies with; its status is 1 if that is not what the architecture should use.
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
    """Build and print the library's path, or inspect; report on the standard error stream."""
    try:
        if arguments[:1] == ["inspect"]:
            return _inspect(arguments[1:])
        path = library.built(_recipe(arguments), os.environ, _tell)
    except UnavailableError as error:
        for line in (str(error), *getattr(error, "__notes__", ())):
            _tell(line)
        return 1
    except KeyboardInterrupt:
        _tell("interrupted; nothing is left of this build.")
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
            f"there is no kernel library {path}; build it first, by the same command without "
            "`inspect`, or name another."
        )
    found = inspection.inspect(path, os.environ)
    sys.stdout.write(f"{found.table()}\n")
    for fault in found.faults:
        _tell(fault)
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


def _tell(sentence: str) -> None:
    sys.stderr.write(f"nvfp4: {sentence}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
