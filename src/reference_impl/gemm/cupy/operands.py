"""The data of one product on the card: two operands, alpha, an output and a workspace.

Each problem has its own workspace, whose size is fixed. So memory that a graph has captured is not
freed: the replay keeps its problems, and each problem keeps its memory.
"""

from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ..elements import BLOCK, Floats
from ..matrix import Nvfp4Matrix, is_global_scale
from ..product import Output
from ..protocol import GUARD_BYTES, GUARD_FILL, POISON
from ..quantization import check_numbers, largest_to_global_scale
from ..scale_layout import swizzled_size
from .device import Device
from .kernels import Kernels, Product

OUTPUT = np.dtype(ml_dtypes.bfloat16)
OUTPUT_BYTES = 2
ROW_MULTIPLE = 8
"""The tensor cores write this many output columns together; rows are padded to a multiple."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeviceMatrix:
    """A quantized operand on the card, in the bytes of `Nvfp4Matrix`.

    Rows are padded with zeros to a multiple of 8, and each row to `stored_k` values, the next
    multiple that the architecture supports. `expanded` is rows × `stored_k` in half precision where
    the architecture multiplies half, else None.
    """

    rows: int
    k: int
    stored_k: int
    global_scale: float
    values: Any
    scales: Any
    expanded: Any = None

    @property
    def multiplied(self) -> int:
        """The address of the values that the tensor cores read."""
        return int((self.expanded or self.values).ptr)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CupyProblem:
    """A prepared product on the card; only one stream at a time may run it.

    `pitch` is the output's distance between rows: N, padded to a multiple of 8.
    """

    device: Device
    operand_a: DeviceMatrix
    operand_b: DeviceMatrix
    alpha: np.float32
    alpha_memory: Any
    out: Any
    pitch: int
    workspace: Any
    product: Product

    @property
    def m(self) -> int:
        """Rows of the output."""
        return self.operand_a.rows

    @property
    def n(self) -> int:
        """Columns of the output."""
        return self.operand_b.rows

    @property
    def a(self) -> Nvfp4Matrix:
        """The activation, copied from the card."""
        return to_host(self.device, self.operand_a)

    @property
    def b(self) -> Nvfp4Matrix:
        """The weight, copied from the card."""
        return to_host(self.device, self.operand_b)

    @property
    def out_bytes(self) -> int:
        """The size of the output in bytes, without the guard after it."""
        return self.m * self.pitch * OUTPUT_BYTES


def padded(rows: int) -> int:
    """The number of rows that is stored for `rows` rows."""
    return -(-rows // ROW_MULTIPLE) * ROW_MULTIPLE


def stored_k(device: Device, k: int) -> int:
    """The K that is stored for `k`: the next multiple that the architecture supports."""
    return k + -k % device.architecture.k_multiple


def device_bytes(m: int, n: int, k: int) -> int:
    """The most bytes that the preparation of a product needs, without the workspace."""
    values = (padded(m) + padded(n)) * k
    numbers = 4 * max(m, n) * k  # one operand at a time is in float32
    return 3 * values + numbers + m * padded(n) * OUTPUT_BYTES


def quantize(
    device: Device,
    kernels: Kernels,
    numbers: Floats,
    *,
    global_scale: float | None,
    direct: bool,
) -> DeviceMatrix:
    """Quantize on the card, with the bytes and errors of `quantization.quantize`."""
    check_numbers(numbers)
    rows, asked = numbers.shape
    k = stored_k(device, asked)
    source = device.upload(np.pad(numbers, ((0, 0), (0, k - asked))))
    chosen = _global_scale(device, kernels, source, rows * k)
    if global_scale is not None:
        chosen = global_scale
    if not is_global_scale(chosen):
        raise ValueError(f"The global scale is {chosen!r}; give a positive finite float32.")
    values = device.filled(padded(rows) * k // 2, 0)
    scales = device.filled(swizzled_size(rows, k // BLOCK), 0)
    with device.active():
        stream = device.stream.ptr
        if direct:
            status = kernels.quantize_direct(
                source.ptr, chosen, rows, k, values.ptr, scales.ptr, stream
            )
            device.check(status, "quantizing")
        else:
            linear = device.allocate(rows * k // BLOCK)
            status = kernels.quantize_linear(
                source.ptr, chosen, rows, k, values.ptr, linear.ptr, stream
            )
            device.check(status, "quantizing")
            device.check(
                kernels.swizzle(linear.ptr, rows, k, scales.ptr, stream), "swizzling scales"
            )
    matrix = DeviceMatrix(
        rows=rows, k=asked, stored_k=k, global_scale=chosen, values=values, scales=scales
    )
    return _expanded(device, kernels, matrix)


def synthetic(device: Device, kernels: Kernels, rows: int, k: int, seed: int) -> DeviceMatrix:
    """A random operand that is made on the card: E2M1 values, with E4M3 scales from 2^-6 to 240.

    It depends only on the arguments. Nothing is quantized or copied, so it takes only the time to
    write it. Its K is the next multiple that the architecture supports.
    """
    k = stored_k(device, k)
    values = device.filled(padded(rows) * k // 2, 0)
    scales = device.filled(swizzled_size(rows, k // BLOCK), 0)
    with device.active():
        status = kernels.randomize(seed, rows, k, values.ptr, scales.ptr, device.stream.ptr)
        device.check(status, "making an operand")
    matrix = DeviceMatrix(
        rows=rows, k=k, stored_k=k, global_scale=1.0, values=values, scales=scales
    )
    return _expanded(device, kernels, matrix)


def from_host(device: Device, kernels: Kernels, matrix: Nvfp4Matrix) -> DeviceMatrix:
    """A copy of the operand on the card, expanded there where needed."""
    wide = matrix.widened(device.architecture.k_multiple)
    copy = DeviceMatrix(
        rows=matrix.rows,
        k=matrix.k,
        stored_k=wide.k,
        global_scale=matrix.global_scale,
        values=device.upload(wide.values, padded(wide.rows) * wide.k // 2),
        scales=device.upload(wide.scales),
    )
    return _expanded(device, kernels, copy)


def to_host(device: Device, matrix: DeviceMatrix) -> Nvfp4Matrix:
    """A copy of the operand on the host."""
    rows, k = matrix.rows, matrix.k
    values = device.download(matrix.values, rows * matrix.stored_k // 2)
    return Nvfp4Matrix(
        values=values.reshape(rows, -1)[:, : k // 2].copy(),
        # The padding is narrower than an atom of scales, so it adds no atom.
        scales=device.download(matrix.scales, swizzled_size(rows, k // BLOCK)),
        global_scale=matrix.global_scale,
    )


def expanded_on_host(device: Device, matrix: DeviceMatrix) -> NDArray[np.float16]:
    """The expanded operand, where the architecture multiplies half; for tests."""
    size = matrix.rows * matrix.stored_k * 2
    found = device.download(matrix.expanded, size)
    return found.view(np.float16).reshape(matrix.rows, -1)[:, : matrix.k]


def problem(
    device: Device, kernels: Kernels, a: DeviceMatrix, b: DeviceMatrix, alpha: float
) -> CupyProblem:
    """Combine two operands and an output of NaN; `ValueError` where they do not match."""
    if a.k != b.k:
        raise ValueError(f"The operands have K = {a.k} and K = {b.k}; give two of equal K.")
    with np.errstate(over="ignore", under="ignore"):
        single = np.float32(alpha)
    if not np.isfinite(single):
        raise ValueError(f"Alpha is {alpha}; give a number that is finite in float32.")
    pitch = padded(b.rows)
    size = a.rows * pitch * OUTPUT_BYTES
    alpha_memory = device.upload(np.array([single]))
    out = _guarded(device, size)
    product = Product(
        m=a.rows,
        n=pitch,
        k=a.stored_k,
        device=device.ordinal,
        multiprocessors=device.multiprocessors,
        a=a.multiplied,
        b=b.multiplied,
        a_scales=a.scales.ptr,
        b_scales=b.scales.ptr,
        alpha=alpha_memory.ptr,
        out=out.ptr,
    )
    with device.active():
        wanted = kernels.workspace_bytes(product)
    workspace = device.allocate(wanted)
    product.workspace, product.workspace_bytes = workspace.ptr, wanted
    with device.active(), device.translated("preparing a product"):
        device.stream.synchronize()  # from now on, any stream can run it
    return CupyProblem(
        device=device,
        operand_a=a,
        operand_b=b,
        alpha=single,
        alpha_memory=alpha_memory,
        out=out,
        pitch=pitch,
        workspace=workspace,
        product=product,
    )


def output(problem: CupyProblem) -> Output:
    """The output on the host, M × N in bfloat16."""
    found = problem.device.download(problem.out, problem.out_bytes)
    whole: Output = found.view(OUTPUT).reshape(problem.m, problem.pitch)
    return whole[:, : problem.n].copy()


def guard(problem: CupyProblem) -> NDArray[np.uint8]:
    """The memory after the output."""
    return problem.device.download(problem.out + problem.out_bytes, GUARD_BYTES)


def poison(problem: CupyProblem) -> None:
    """Set every element of the output to NaN."""
    with problem.device.active(), problem.device.translated("poisoning the output"):
        problem.out.memset_async(POISON, problem.out_bytes, problem.device.stream)


def _guarded(device: Device, size: int) -> Any:
    memory = device.filled(size + GUARD_BYTES, GUARD_FILL)
    with device.active(), device.translated("poisoning the output"):
        memory.memset_async(POISON, size, device.stream)
    return memory


def expand(device: Device, kernels: Kernels, matrix: DeviceMatrix) -> None:
    """Write `expanded` again; does nothing where the architecture multiplies FP4 directly."""
    if matrix.expanded is None:
        return
    with device.active():
        status = kernels.expand(
            matrix.values.ptr,
            matrix.scales.ptr,
            matrix.rows,
            matrix.stored_k,
            matrix.expanded.ptr,
            device.stream.ptr,
        )
        device.check(status, "expanding to half")


def _expanded(device: Device, kernels: Kernels, matrix: DeviceMatrix) -> DeviceMatrix:
    """The operand, with its expanded values where the architecture needs them."""
    if not device.architecture.expands:
        return matrix
    made = replace(matrix, expanded=device.filled(2 * padded(matrix.rows) * matrix.stored_k, 0))
    expand(device, kernels, made)
    return made


def _global_scale(device: Device, kernels: Kernels, source: Any, count: int) -> float:
    largest = device.filled(4, 0)
    with device.active():
        status = kernels.largest(source.ptr, count, largest.ptr, device.stream.ptr)
        device.check(status, "finding the largest magnitude")
    return largest_to_global_scale(device.download(largest, 4).view(np.float32)[0])
