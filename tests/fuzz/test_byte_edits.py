"""Byte edits do what they say, all of it, and nothing else."""

import random

from pytest_nvfp4.fuzz.byte_edits import (
    Substitution,
    all_substitutions,
    sampled_substitutions,
    structural_offsets,
    truncations,
)

DOCUMENT = b'{"a,b": ["\\"{", 1], "c": {}}'


def test_truncations_are_the_proper_prefixes():
    assert list(truncations(b"abc")) == [b"", b"a", b"ab"]


def test_structural_offsets_lie_outside_strings():
    found = bytes(DOCUMENT[offset] for offset in structural_offsets(DOCUMENT))
    assert found == b"{:[,],:{}}"


def test_all_substitutions_of_one_byte():
    edited = {s.apply(DOCUMENT) for s in all_substitutions(DOCUMENT, 3)}
    assert len(edited) == 255
    assert DOCUMENT not in edited
    assert all(d[:3] == DOCUMENT[:3] and d[4:] == DOCUMENT[4:] for d in edited)


def test_samples_always_change_the_document():
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    samples = list(sampled_substitutions(DOCUMENT, 500, random.Random(seed)))
    assert len(samples) == 500
    assert all(s.apply(DOCUMENT) != DOCUMENT for s in samples)
    assert Substitution(0, 65).apply(b"xyz") == b"Ayz"
