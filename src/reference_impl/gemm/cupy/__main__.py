"""Build the kernels ahead of time: python -m nvfp4_reference.gemm.cupy [ARCHITECTURE]

ARCHITECTURE is the number of a compute capability, such as 90 or 121; without one, it is that of
the card. No card is needed to build for one.
"""

import os
import sys

from . import library, toolchain
from .architectures import Architecture, architecture
from .device import current_architecture, import_cupy
from .errors import UnavailableError


def main(arguments: list[str]) -> int:
    """Build, report on the standard error stream, and print the library's path."""
    try:
        recipe = library.recipe(_chosen(arguments), toolchain.find(os.environ), os.environ)
        path = library.built(recipe, os.environ, _tell)
    except UnavailableError as error:
        for line in (str(error), *getattr(error, "__notes__", ())):
            _tell(line)
        return 1
    sys.stdout.write(f"{path}\n")
    return 0


def _chosen(arguments: list[str]) -> Architecture:
    match arguments:
        case []:
            return current_architecture(import_cupy())
        case [number] if number.isascii() and number.isdigit():
            return architecture(int(number))
    raise UnavailableError("give one compute capability as a number, such as 90 or 121.")


def _tell(sentence: str) -> None:
    sys.stderr.write(f"nvfp4: {sentence}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
