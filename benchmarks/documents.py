"""The reference's strict readers against `json.loads` of the same bytes, and how they scale."""

import json
import tempfile
from pathlib import Path

from nvfp4_reference import flashinfer_import, native_document
from nvfp4_reference.adapter import make
from nvfp4_reference.environment import ImportMetadata, NativeMetadata
from sidebyside import Row, main, medians, show

from pytest_nvfp4 import oracle
from pytest_nvfp4.model import documents


def measure() -> int:
    adapter = make()
    binding = oracle.load()
    metadata = adapter.describe()["native_metadata"]
    importing = ImportMetadata.from_json(dict(binding.metadata))
    running = NativeMetadata.from_json(metadata)
    text = documents.native_bytes(documents.native(metadata, binding.plans))
    rows = []
    for name, data, bar, read in (
        ("strict import of the 64-entry oracle", binding.document, 6, flashinfer_import.parse),
        ("native read of the same 64 plans", text, 8, native_document.parse),
    ):
        expected = importing if read is flashinfer_import.parse else running
        ours, theirs = medians(
            lambda r=read, d=data, e=expected: r(d, e), lambda d=data: json.loads(d)
        )
        rows.append(Row(name, ours, theirs, bar))
    with tempfile.TemporaryDirectory() as folder:
        imported = Path(folder, "import.json")
        imported.write_bytes(binding.document)
        ours, theirs = medians(
            lambda: adapter.read_flashinfer(
                path=str(imported), expected=dict(binding.metadata), session=None
            ),
            lambda: json.loads(imported.read_bytes()),
        )
        rows.append(Row("the import from a file, by the adapter", ours, theirs))
        sizes = []
        for count in (1_000, 10_000, 100_000):
            large = Path(folder, f"{count}.json")
            documents.write_many_plans(large, metadata, count)
            data = large.read_bytes()
            ours, theirs = medians(
                lambda large=large: adapter.read_native(
                    path=str(large), expected=metadata, session=None
                ),
                lambda data=data: json.loads(data),
                rounds=3,
                number=1,
            )
            rows.append(Row(f"native read of {count:,} plans", ours, theirs, 8))
            sizes.append(ours / count)
    status = show(rows, "reference", "json.loads")
    growth = sizes[-1] / sizes[0]
    print(f"\nseconds per plan, 100,000 plans over 1,000: {growth:.2f} (bar 2: linear)")
    return status or int(growth > 2)


main(measure)
