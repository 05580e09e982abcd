"""Which physical cards a test means, from the caller's view of them.

A test names devices as CUDA numbers them for it: index 0 is the first entry of the caller's
CUDA_VISIBLE_DEVICES, not the machine's first card. Locks are named after the physical card, so that
one card is one lock, whichever name a caller has for it. Nothing here initialises CUDA.

Sources: the CUDA C++ Programming Guide, "Environment variables" (CUDA_VISIBLE_DEVICES: indices,
unique prefixes of a UUID, MIG names; an invalid entry ends the list. CUDA_DEVICE_ORDER).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pytest_nvfp4.errors import UsageError

VISIBLE = "visible"

Device = int | str
Devices = tuple[Device, ...] | str

_INDEX = re.compile(r"[0-9]{1,4}")
_NAME = re.compile(r"(GPU-[0-9A-Fa-f-]+|MIG-[0-9A-Fa-f-]+|MIG-GPU-[0-9A-Fa-f-]+/\d+/\d+)")


class DeviceError(UsageError):
    """Devices that do not exist or are ambiguous; the text is one sentence."""


@dataclass(frozen=True, slots=True)
class Card:
    """A physical GPU, with the names of its MIG instances."""

    uuid: str
    name: str
    instances: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class Physical:
    """A card, or a part of one; `part` is a MIG instance's name. They sort in locking order."""

    card: str
    part: str = ""


def check_devices(value: object) -> Devices | None:
    """The devices that a marker names, or None where the value has no accepted form."""
    if value == VISIBLE:
        return VISIBLE
    entries = value if isinstance(value, list | tuple) else (value,)
    if not entries or len(set(map(repr, entries))) != len(entries):
        return None
    for entry in entries:
        index = isinstance(entry, int) and not isinstance(entry, bool) and 0 <= entry < 10_000
        name = isinstance(entry, str) and _NAME.fullmatch(entry)
        if not (index or name):
            return None
    return tuple(entries)


def resolve(
    devices: Devices,
    environment: Mapping[str, str],
    inventory: Callable[[], tuple[Card, ...]],
) -> tuple[Physical, ...]:
    """The physical cards of some devices, without repetition, in the order to lock them in.

    `inventory` lists the machine's cards in PCI order, or none where there is no driver: then the
    lock of an index or a UUID is named after that itself. Raises DeviceError.
    """
    cards = inventory()
    setting = environment.get("CUDA_VISIBLE_DEVICES")
    visible = None if setting is None else _entries(setting)
    if devices == VISIBLE:
        if visible is None and not cards:
            raise DeviceError(
                "devices='visible' needs CUDA_VISIBLE_DEVICES or NVIDIA's driver; "
                "name the devices, or leave them out"
            )
        devices = tuple(range(len(cards) if visible is None else len(visible)))
        if not devices:
            raise DeviceError(f"devices='visible', but CUDA_VISIBLE_DEVICES={setting!r} shows none")
    assert not isinstance(devices, str)
    found = set()
    for device in devices:
        entry = str(device)
        if isinstance(device, int) and visible is not None:
            if device >= len(visible):
                raise DeviceError(
                    f"there is no device {device}: CUDA_VISIBLE_DEVICES={setting!r} shows "
                    f"{len(visible)}"
                )
            entry = visible[device]
        found.add(_physical(entry, cards, environment))
    return tuple(sorted(found))


def _entries(setting: str) -> list[str]:
    """The entries of CUDA_VISIBLE_DEVICES up to the first invalid one."""
    entries = []
    for entry in setting.split(","):
        word = entry.strip()
        if not (_INDEX.fullmatch(word) or _NAME.fullmatch(word)):
            break
        entries.append(word)
    return entries


def _physical(entry: str, cards: tuple[Card, ...], environment: Mapping[str, str]) -> Physical:
    if _INDEX.fullmatch(entry):
        return _by_index(int(entry), cards, environment)
    if not cards:
        return Physical(entry)
    matches = {
        Physical(card.uuid, part)
        for card in cards
        for part in ("", *card.instances)
        if (part or card.uuid).lower().startswith(entry.lower())
    }
    if len(matches) != 1:
        known = ", ".join(name for card in cards for name in (card.uuid, *card.instances))
        what = "several devices are" if matches else "no device is"
        raise DeviceError(f"{what} named {entry} here; there are {known}")
    return matches.pop()


def _by_index(index: int, cards: tuple[Card, ...], environment: Mapping[str, str]) -> Physical:
    if not cards:
        return Physical(str(index))
    if index >= len(cards):
        raise DeviceError(f"there is no device {index}: this machine has {len(cards)}")
    in_order = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if not in_order and len({card.name for card in cards}) > 1:
        # CUDA puts the fastest first, and only CUDA can say which one that is.
        raise DeviceError(
            f"index {index} is ambiguous among different cards; set CUDA_DEVICE_ORDER=PCI_BUS_ID, "
            f"or name the UUID"
        )
    return Physical(cards[index].uuid)
