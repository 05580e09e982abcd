"""GEMM-1 to GEMM-3 and CAPT on a card, for all 32 tactics."""

import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from nvfp4_reference import Rejected, Session, resolve
from nvfp4_reference.gemm import (
    TOLERANCES,
    Nvfp4Matrix,
    dequantized_product,
    quantize,
    relative_error,
)
from nvfp4_reference.gemm.case import GuardedBackend
from nvfp4_reference.gemm.cupy import CupyBackend, operands
from nvfp4_reference.gemm.cupy.operands import CupyProblem
from nvfp4_reference.gemm.scale_layout import swizzle
from nvfp4_reference.options import PERSISTENT_CACHE

from .samples import wide

SHAPES = [
    (1, 32, 32),
    (1, 320, 384),
    (17, 257, 1056),
    (127, 136, 224),
    (130, 520, 2080),
    (256, 1024, 512),
    (300, 3, 5152),
]
"""Below, at and beyond tiles; N that is no multiple of 8; K that ends inside a K tile."""

HASHES = """
import hashlib, json, sys
from nvfp4_reference.gemm.cupy import CupyBackend
m, n, k, seed = json.loads(sys.argv[1])
card = CupyBackend()
problem = card.prepare(m, n, k, seed)
found = []
for tactic in range(32):
    card.run_tactic(tactic, problem)
    found.append(hashlib.sha256(card.output(problem).tobytes()).hexdigest())
print(json.dumps(found))
"""


FIRST_CAPTURED = """
from nvfp4_reference.gemm.case import GuardedBackend
from nvfp4_reference.gemm.cupy import CupyBackend, operands
card = CupyBackend()
problem = card.prepare(33, 264, 1024, 7)
for tactic in range(32):
    replay = card.capture(lambda: card.run_tactic(tactic, problem))
    replay()
    replayed = card.output(problem).tobytes()
    operands.poison(problem)
    card.run_tactic(tactic, problem)
    assert card.output(problem).tobytes() == replayed, tactic
print("the same")
"""

SECOND_CARD = """
import json, sys, threading
import cupy
from nvfp4_reference.gemm.cupy import CupyBackend

def outputs(card, problem):
    found = []
    for tactic in range(32):
        card.run_tactic(tactic, problem)
        found.append(card.output(problem).tobytes())
    return found

first = CupyBackend()
expected = outputs(first, first.prepare(40, 264, 1024, 7))
with cupy.cuda.Device(1):
    card = CupyBackend()
    problem = card.prepare(40, 264, 1024, 7)
assert problem.device.ordinal == 1
found = []
for work in (
    lambda: found.append(outputs(card, problem)),
    lambda: found.append(outputs(card, card.prepare(40, 264, 1024, 7))),
    lambda: found.append(outputs(first, first.prepare(40, 264, 1024, 7))),
):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
print(found == [expected] * 3, cupy.cuda.runtime.getDevice())
"""


def run(card: CupyBackend, tactic: int, problem: CupyProblem) -> Any:
    operands.poison(problem)
    card.run_tactic(tactic, problem)
    return card.output(problem)


def digest(output: Any) -> str:
    return hashlib.sha256(output.tobytes()).hexdigest()


def test_it_is_a_back_end(card: CupyBackend) -> None:
    back_end: GuardedBackend[CupyProblem] = card
    assert back_end.name == "cupy"
    assert back_end.available()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_tactic_gives_the_dequantized_product(
    card: CupyBackend, numbers: np.random.Generator, shape: tuple[int, int, int]
) -> None:
    m, n, k = shape
    a, b = wide(numbers, m, k), wide(numbers, n, k)
    alpha = float(np.float32(0.75))
    expected = alpha * dequantized_product(a, b)
    sizes = alpha * np.abs(a.expanded()) @ np.abs(b.expanded()).T
    bound = 2.0**-8 * np.abs(expected) + 2.0**-18 * sizes
    problem = card.problem(a, b, alpha)
    for tactic in range(32):
        found = run(card, tactic, problem)
        assert relative_error(found, expected) <= TOLERANCES["bf16"], tactic
        excess = np.abs(found.astype(np.float64) - expected) - bound
        assert excess.max() <= 0, (tactic, np.unravel_index(excess.argmax(), excess.shape))
        assert set(operands.guard(problem)) == {0xA5}, tactic


def test_a_wrong_scale_would_show(card: CupyBackend, numbers: np.random.Generator) -> None:
    a, b = wide(numbers, 40, 512), wide(numbers, 64, 512)
    linear = a.linear_scales()
    linear[7, 3] ^= 0x30
    other = Nvfp4Matrix(values=a.values, scales=swizzle(linear), global_scale=1.0)
    for tactic in range(32):
        first, second = (run(card, tactic, card.problem(one, b, 1.0)) for one in (a, other))
        rows = (first.view(np.uint16) != second.view(np.uint16)).any(axis=1)
        assert np.flatnonzero(rows).tolist() == [7]


def test_one_tactic_gives_one_result(card: CupyBackend, rng: random.Random) -> None:
    shape = (rng.randint(1, 600), rng.randint(100, 900), 32 * rng.randint(20, 90))
    seed = rng.randrange(1000)
    print(shape, seed)
    problem = card.prepare(*shape, seed)
    first = [digest(run(card, tactic, problem)) for tactic in range(32)]
    for _ in range(4):
        order = rng.sample(range(32), 32)
        assert {tactic: digest(run(card, tactic, problem)) for tactic in order} == dict(
            enumerate(first)
        )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", HASHES, json.dumps([*shape, seed])],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == first


def test_direct_and_composed_scales_are_the_same(card: CupyBackend) -> None:
    direct, composed = (card.prepare(77, 200, 1056, 3, direct=way) for way in (True, False))
    for one, other in ((direct.a, composed.a), (direct.b, composed.b)):
        assert one.scales.tobytes() == other.scales.tobytes()
        assert one.values.tobytes() == other.values.tobytes()
    for tactic in range(32):
        assert digest(run(card, tactic, direct)) == digest(run(card, tactic, composed))


def edges(numbers: np.random.Generator) -> Sequence[Any]:
    rows, k = 203, 400
    normal = numbers.standard_normal((rows, k)).astype(np.float32)
    spread = np.ldexp(normal, numbers.integers(-40, 40, (rows, k)).astype(np.int32))
    ties = numbers.choice(np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 6], np.float32), (rows, k))
    signs = numbers.choice(np.array([-1, 1], np.float32), (rows, k))
    subnormal = (normal * np.float32(1e-41)).astype(np.float32)
    holes = normal * (numbers.random((rows, k)) < 0.02)
    return [normal, spread, ties * signs, subnormal, holes, np.zeros((rows, k), np.float32)]


@pytest.mark.parametrize("direct", [True, False])
def test_the_quantizer_gives_the_cpu_s_bytes(
    card: CupyBackend, numbers: np.random.Generator, direct: bool
) -> None:
    for index, matrix in enumerate(edges(numbers)):
        for global_scale in (None, 1.0, 2.0**100, float(np.float32(1e-30))):
            found = card.quantize(matrix, global_scale=global_scale, direct=direct)
            expected = quantize(matrix, global_scale=global_scale)
            assert found.global_scale == expected.global_scale, index
            assert found.scales.tobytes() == expected.scales.tobytes(), index
            assert found.values.tobytes() == expected.values.tobytes(), index


def test_what_the_quantizer_refuses(card: CupyBackend) -> None:
    bad = np.zeros((2, 32), np.float32)
    bad[1, 3] = np.nan
    with pytest.raises(ValueError, match="holds nan at row 1, column 3"):
        card.quantize(bad)
    with pytest.raises(ValueError, match="The global scale is -1"):
        card.quantize(np.ones((2, 32), np.float32), global_scale=-1.0)


def test_every_value_under_every_scale_is_expanded_exactly(card: CupyBackend) -> None:
    scales = np.arange(0x7F, dtype=np.uint8)[:, None]
    codes = np.arange(16, dtype=np.uint8)
    values = np.tile(codes[0::2] | codes[1::2] << 4, (0x7F, 2))
    matrix = Nvfp4Matrix(
        values=values, scales=swizzle(np.repeat(scales, 2, axis=1)), global_scale=1.0
    )
    problem = card.problem(matrix, matrix, 1.0)
    if not problem.device.architecture.expands:
        pytest.skip("this card multiplies FP4 as it is; nothing is expanded")
    found = operands.expanded_on_host(problem.device, problem.operand_a)
    assert (found.astype(np.float64) == matrix.expanded()).all()


def test_operands_made_on_the_card_show_the_order_of_a_sum(card: CupyBackend) -> None:
    one, again, other = (card.operand(77, 1056, seed) for seed in (5, 5, 6))
    problem = card.product(one, card.operand(203, 1056, 7), 2.0**-20)
    a, b = problem.a, problem.b
    assert operands.to_host(problem.device, again).values.tobytes() == a.values.tobytes()
    assert operands.to_host(problem.device, other).values.tobytes() != a.values.tobytes()
    assert set(np.concatenate([a.values & 15, a.values >> 4]).ravel()) == set(range(16))
    assert swizzle(a.linear_scales()).tobytes() == a.scales.tobytes(), "padding is not zero"
    assert {int(a.linear_scales().min()), int(a.linear_scales().max())} == {0x08, 0x77}
    expected = 2.0**-20 * dequantized_product(a, b)
    assert relative_error(run(card, 4, problem), expected) <= TOLERANCES["bf16"]


def test_a_graph_replays_every_tactic(card: CupyBackend, rng: random.Random) -> None:
    problem = card.prepare(rng.randint(1, 300), 8 * rng.randint(5, 90), 1024, 1)
    for tactic in range(32):
        eager = run(card, tactic, problem)
        replay = card.capture(lambda tactic=tactic: card.run_tactic(tactic, problem))
        for _ in range(2):
            operands.poison(problem)
            replay()
            assert card.output(problem).tobytes() == eager.tobytes(), tactic


def test_a_first_launch_may_be_captured(card: CupyBackend) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_CAPTURED], capture_output=True, text=True, check=False
    )
    assert done.stdout == "the same\n", done.stderr


def test_what_a_graph_captured_outlives_larger_products(card: CupyBackend) -> None:
    stream_k = [2, 3, 6, 7, 18, 19, 26, 27]
    outputs, replays = [], []
    problem = card.prepare(5, 640, 4096, 1)
    for tactic in stream_k:
        outputs.append(run(card, tactic, problem))
        replays.append(
            card.capture(lambda tactic=tactic, problem=problem: card.run_tactic(tactic, problem))
        )
    for size in (512, 1024, 2048):
        larger = card.prepare(size, 4096, 4096, 2)
        for tactic in stream_k:
            card.run_tactic(tactic, larger)
        assert np.isfinite(card.output(larger).astype(np.float32)).all()
    del larger
    for replay, expected in zip(replays, outputs, strict=True):
        operands.poison(problem)
        replay()
        assert card.output(problem).tobytes() == expected.tobytes()


def test_the_guard_asks_the_stream(card: CupyBackend) -> None:
    problem = card.prepare(3, 64, 64, 1)
    seen = []

    def launch() -> None:
        seen.append(card.capturing())
        card.run_tactic(0, problem)

    assert not card.capturing()
    card.capture(launch)
    assert seen == [True]
    assert not card.capturing()


def test_the_caller_s_stream_is_asked_and_captured(card: CupyBackend) -> None:
    problem = card.prepare(9, 64, 64, 2)
    eager = run(card, 3, problem)
    operands.poison(problem)
    card.output(problem)
    with problem.device.cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        assert card.capturing()
        card.run_tactic(3, problem)
        graph = stream.end_capture()
        assert not card.capturing()
        assert np.isnan(card.output(problem).astype(np.float32)).all(), "it ran while captured"
        graph.launch(stream)
        assert card.output(problem).tobytes() == eager.tobytes()


def test_a_launch_that_raises_ends_its_capture(card: CupyBackend) -> None:
    problem = card.prepare(3, 64, 64, 1)

    def launch() -> None:
        card.run_tactic(0, problem)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        card.capture(launch)
    assert not card.capturing()
    assert np.isfinite(run(card, 0, problem).astype(np.float32)).all()


def test_a_miss_while_capturing_is_refused_and_the_capture_survives(card: CupyBackend) -> None:
    session = Session(resolve({PERSISTENT_CACHE: "0"}), back_end=card)
    ready = session.plan(16, 256, 512).tactic
    problem = card.prepare(16, 256, 512, 1)
    eager = run(card, ready, problem)
    refused: list[str] = []

    def launch() -> None:
        with pytest.raises(Rejected) as raised:
            session.plan(300, 256, 512, capturing=card.capturing())
        refused.append(raised.value.code)
        card.run_tactic(session.plan(16, 256, 512, capturing=card.capturing()).tactic, problem)

    replay = card.capture(launch)
    assert refused == ["capture-miss"]
    operands.poison(problem)
    replay()
    assert card.output(problem).tobytes() == eager.tobytes()
    assert session.plan(300, 256, 512, capturing=card.capturing()).tuned


def test_stream_k_is_no_data_parallel_in_disguise(card: CupyBackend) -> None:
    problem = card.prepare(64, 5120, 6144, 1)
    digests = [digest(run(card, tactic, problem)) for tactic in range(32)]
    differ = [
        tactic for tactic in range(32) if tactic % 4 > 1 and digests[tactic] != digests[tactic - 2]
    ]
    assert differ, "every stream-K tactic sums as its data-parallel twin does"


def test_a_second_card_beside_the_first(card: CupyBackend) -> None:
    cupy = card.prepare(1, 32, 64, 0).device.cupy
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("needs two cards in one machine")
    done = subprocess.run(
        [sys.executable, "-c", SECOND_CARD], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["True", "0"], done.stderr
