"""Which physical cards a test means."""

import itertools
import random

import pytest

from pytest_nvfp4.markers.gpu_lock.devices import (
    Card,
    DeviceError,
    Physical,
    check_devices,
    resolve,
)

A, B, C = "GPU-aaaa-1", "GPU-aabb-2", "GPU-cccc-3"
MIG = "MIG-1111-5"
CARDS = (Card(A, "H200"), Card(B, "H200", (MIG,)), Card(C, "H200"))
MIXED = (Card(A, "H200"), Card(B, "T4"))


def cards_of(devices, visible=None, cards=CARDS, **more):
    environment = more if visible is None else {"CUDA_VISIBLE_DEVICES": visible, **more}
    found = resolve(devices, environment, lambda: cards)
    return [one.part or one.card for one in found]


@pytest.mark.parametrize(
    ("given", "checked"),
    [
        ("visible", "visible"),
        (0, (0,)),
        ([1, "GPU-aaaa-1"], (1, "GPU-aaaa-1")),
        (("MIG-GPU-aaaa/1/0",), ("MIG-GPU-aaaa/1/0",)),
        ([], None),
        ([0, 0], None),
        (-1, None),
        (True, None),
        (1.0, None),
        ("all", None),
        ("GPU-", None),
        ("GPU-aaaa\n", None),
        ({0: 1}, None),
        ("0", None),
        ([[0]], None),
        (None, None),
    ],
    ids=repr,
)
def test_forms(given, checked):
    assert check_devices(given) == checked


@pytest.mark.parametrize(
    ("devices", "visible", "expected"),
    [
        ((0,), None, [A]),
        ((0,), "2,0", [C]),
        ((1,), "2,0", [A]),
        ((0,), f"{B}", [B]),
        ((0,), "GPU-cc", [C]),
        ((0,), " 1 , 2", [B]),
        ((0,), MIG, [MIG]),
        ((0, A), "0", [A]),
        ((C, A), "1", [A, C]),
        (("GPU-AAAA-1",), None, [A]),
        ((MIG,), None, [MIG]),
        ("visible", None, [A, B, C]),
        ("visible", "2,-1,0", [C]),
    ],
)
def test_physical_cards(devices, visible, expected):
    assert cards_of(devices, visible) == expected


def test_instance_knows_its_card():
    assert resolve((MIG,), {}, lambda: CARDS) == (Physical(B, MIG),)


@pytest.mark.parametrize(
    ("devices", "visible", "part"),
    [
        ((2,), "4,5", "there is no device 2: CUDA_VISIBLE_DEVICES='4,5' shows 2"),
        ((0,), "", "there is no device 0: CUDA_VISIBLE_DEVICES='' shows 0"),
        ((0,), "-1", "shows 0"),
        ((3,), None, "there is no device 3: this machine has 3"),
        ((0,), "7", "there is no device 7: this machine has 3"),
        (("GPU-dddd",), None, f"no device is named GPU-dddd here; there are {A}, "),
        (("GPU-aa",), None, "several devices are named GPU-aa here"),
        ("visible", "", "shows none"),
    ],
)
def test_what_does_not_exist(devices, visible, part):
    with pytest.raises(DeviceError) as caught:
        cards_of(devices, visible)
    assert part in str(caught.value)


def test_without_a_driver_names_stand_for_themselves():
    assert cards_of((1,), "4,GPU-aaaa", cards=()) == ["GPU-aaaa"]
    assert cards_of((0,), "4", cards=()) == ["4"]
    assert cards_of((7,), cards=()) == ["7"]
    assert cards_of("visible", "4,5", cards=()) == ["4", "5"]
    with pytest.raises(DeviceError, match="needs CUDA_VISIBLE_DEVICES or NVIDIA's driver"):
        cards_of("visible", cards=())


def test_indices_among_different_cards_need_the_bus_order():
    with pytest.raises(DeviceError, match="set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name the UUID"):
        cards_of((1,), cards=MIXED)
    assert cards_of((1,), cards=MIXED, CUDA_DEVICE_ORDER="PCI_BUS_ID") == [B]
    assert cards_of((A,), cards=MIXED) == [A]


def test_everybody_locks_in_one_order():
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    orders = []
    for visible in itertools.permutations("012"):
        devices = list(range(3))
        rng.shuffle(devices)
        orders.append(cards_of(tuple(devices), ",".join(visible)))
    assert orders == [[A, B, C]] * 6
