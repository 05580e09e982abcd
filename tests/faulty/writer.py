"""A stand-in for a Python with FlashInfer, so that FIMP-11 is tested where there is none.

It answers as FlashInfer's adapter does, and writes the document from the format description.
"""

import sys
from pathlib import Path

SCRIPT = """#!{python}
import json, sys
sys.path[:0] = {paths!r}
from pytest_nvfp4.model import documents
from pytest_nvfp4.plans import PlanKey
METADATA = {{"flashinfer_version": "0.6.13", "cuda_version": "unknown", "cublas_version": "unknown",
            "cudnn_version": "None", "cudnn_frontend_version": "unknown", "gpu": "unknown"}}
assert sys.argv[1:] == ["-m", "pytest_nvfp4.implementations.server", "flashinfer"], sys.argv
plans = {{}}
for line in sys.stdin:
    r = json.loads(line)
    ok = None
    if r["op"] == "describe":
        ok = {{"protocol": 1, "name": {name!r}, "version": {version!r}, "language": "Python",
              "homepage": "", "capabilities": [], "import_metadata": METADATA}}
    elif r["op"] == "open":
        path, ok = r["environment"]["VT_FP4_AUTOTUNE_CACHE_PATH"], {{"session": "1"}}
    elif r["op"] == "plan":
        tactic = int(min(r["timings"], key=lambda t: r["timings"][t]))
        plans[PlanKey(r["m"], r["n"], r["k"])] = tactic
        ok = {{"tactic": tactic, "source": "tuned", "tuned": True, "lazy": False}}
    elif r["op"] == "warm_up":
        ok = {{"loaded": 0, "tuned": 0, "rejected": []}}
    elif r["op"] == "complete":
        open(path, "wb").write(documents.flashinfer_bytes(METADATA, plans))
        ok = {{"saved": len(plans), "failure": None}}
    print(json.dumps({{"seq": r["seq"], "ok": ok}}), flush=True)
"""


def place(folder: Path, name: str = "flashinfer", version: str = "0.6.13") -> Path:
    """Put the stand-in into a folder."""
    path = folder / f"python-with-{name}-{version}"
    paths = [entry for entry in sys.path if entry]
    path.write_text(SCRIPT.format(python=sys.executable, paths=paths, name=name, version=version))
    path.chmod(0o755)
    return path
