"""The numbering of tactics."""

from dataclasses import fields, replace
from typing import Any

import pytest
from nvfp4_reference import tactics

from .documents import verdict


def test_the_order_is_the_upstream_order() -> None:
    assert [tactic.id for tactic in tactics.TACTICS] == list(range(32))
    assert tactics.resolve(0).name == "128x32x128 swap-AB data-parallel"
    assert tactics.resolve(6).name == "128x32x256 swap-AB stream-K"
    assert tactics.resolve(25).name == "256x128x128 ordinary data-parallel"
    assert tactics.resolve(31).name == "128x256x128 ordinary stream-K"
    assert len({tactic.name for tactic in tactics.TACTICS}) == 32


@pytest.mark.parametrize("field", [field.name for field in fields(tactics.Tactic)])
def test_an_edit_of_any_field_changes_the_digest(field: str) -> None:
    edits: dict[str, Any] = {
        "id": 7,
        "tile": (128, 32, 64),
        "swap_ab": False,
        "scheduler": "stream-k",
        "cluster": (2, 1, 1),
    }
    edited = [replace(tactics.TACTICS[0], **{field: edits[field]}), *tactics.TACTICS[1:]]
    assert tactics.digest(edited) != tactics.digest()


def test_a_reorder_changes_the_digest() -> None:
    first, second, *rest = tactics.TACTICS
    assert tactics.digest([second, first, *rest]) != tactics.digest()
    assert len(tactics.digest()) == 16


@pytest.mark.parametrize("wrong", [-1, -7, 32, 2**40, True, 4.0, "4", None])
def test_only_the_integers_0_to_31_resolve(wrong: object) -> None:
    assert verdict(tactics.resolve, wrong) == ("unknown-tactic", "tactic_id")
