"""Verify result files together: reports against what is at hand, badges against their report."""

import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest_nvfp4
from pytest_nvfp4.results import deviations
from pytest_nvfp4.results import report as reports
from pytest_nvfp4.results.report import Implementation
from pytest_nvfp4.specification.contracts import packaged
from pytest_nvfp4.verification import provenance as proof
from pytest_nvfp4.verification.result_files import read_text, refuse_another_version


def verify(
    files: Sequence[str], accepted: str | None = None, own: Implementation | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Each file's name and what is wrong with it, one sentence each.

    `accepted` names the deviations file that the runs were given, `own` is the implementation that
    they should be of; None asks for no such proof. ValueError, one sentence, where a file cannot
    be judged at all.
    """
    texts = {file: read_text(file) for file in files}
    badges = [file for file, text in texts.items() if proof.badge_message(text) is not None]
    loaded: dict[str, Any] = {}
    for file, text in texts.items():
        if file not in badges:
            try:
                loaded[file] = reports.loads(text)
            except ValueError as error:
                raise ValueError(f"{file} is no report: {error}") from None
            refuse_another_version(file, loaded[file])
    if badges and len(loaded) != 1:
        raise ValueError(
            f"a badge is proven by the one report that earned it, but with {badges[0]} there are "
            f"{len(loaded)} reports; name exactly one"
        )
    bad = ""
    for file, data in loaded.items():
        problems = of_report(data, accepted, own)
        bad = file if problems else bad
        yield file, problems
    for file in badges:
        (data,) = loaded.values()
        if bad:
            yield file, [f"Nothing can be said of it, since {bad} is not proven."]
        else:
            yield file, proof.of_badge(texts[file], data)


def of_report(data: object, accepted: str | None, own: Implementation | None) -> list[str]:
    """What is wrong with one report, given as JSON data."""
    found = reports.inconsistencies(data)
    if found or not isinstance(data, dict):
        return found
    found += reports.verify(data)
    specification = packaged()
    suite = reports.suite_digest()
    found += proof.against_suite(data, specification, pytest_nvfp4.__version__, suite)
    found += proof.own_deviations(data)
    if accepted is not None:
        # An entry counts until its date: what had expired by now may have held on that day.
        day = datetime.date.fromisoformat(data["run"]["started"][:10])
        given = deviations.read(Path(accepted), specification=specification, today=day)
        found += proof.against_deviations(data, given)
    if own is not None:
        found += proof.against_implementation(data, own)
    return list(dict.fromkeys(found))
