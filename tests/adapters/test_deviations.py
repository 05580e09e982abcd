"""Every deviation on file has a reason, and names the lines of the source that cause it."""

import datetime
import hashlib
import re
from pathlib import Path

import pytest

from pytest_nvfp4.results import deviations
from pytest_nvfp4.specification import contracts

FOLDER = Path(__file__).parent.parent.parent / "src" / "adapters" / "deviations"
FILES = sorted(FOLDER.glob("*.toml"))
SOURCES = {
    "0.6.13": (
        "flashinfer/autotuner.py",
        "adaaabe452bc3a4d2aca72551d17093a0096aae761db73bfd3e643042420f692",
    ),
    "0.7.4": (
        "flashinfer/autotuner/autotuner.py",
        "ec6cd1736424931bb9db0682f556c9188ab1547d11f89dc4e28c0aca346c73da",
    ),
}
PLACE = re.compile(r"\((?:autotuner/)?(\w+\.py):(\d+)(?:-(\d+))?\)\.$")


def entries(path):
    today = datetime.date(2026, 1, 1)
    return deviations.read(path, specification=contracts.packaged(), today=today).entries


def test_each_release_has_a_file():
    names = {"flashinfer-0.6.13.toml", "flashinfer-0.7.4.toml", "vllm-0.25.0.toml"}
    assert {path.name for path in FILES} == names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_entry_names_its_lines_twice(path):
    version = path.stem.partition("-")[2]
    for entry in entries(path):
        place = PLACE.search(entry.reason)
        assert place, entry.reason
        assert not entry.reason.startswith("Not explained yet")
        first, last = place[2], place[3]
        anchor = f"#L{first}-L{last}" if last else f"#L{first}"
        assert entry.link.endswith(place[1] + anchor), entry
        assert f"/blob/v{version}/" in entry.link


def test_lines_are_those_of_the_released_source(installed):
    version, home = installed
    name, digest = SOURCES[version]
    [source] = home.glob(f"lib/python3*/site-packages/{name}")
    data = source.read_bytes()
    assert hashlib.sha256(data).hexdigest() == digest
    lines = len(data.splitlines())
    for entry in entries(FOLDER / f"flashinfer-{version}.toml"):
        assert name in entry.link
        place = PLACE.search(entry.reason)
        assert int(place[2]) <= int(place[3] or place[2]) <= lines
