"""A first adapter in Python: it reads FlashInfer documents the way many caches do."""

import json
import re

KEY = re.compile(r"\('fp4_gemm', '\w+', \(\((\d+), (\d+)\), \(\d+, (\d+)\), .*\), \(\)\)")
FIELDS = "flashinfer_version cuda_version cublas_version cudnn_version cudnn_frontend_version gpu"


class Rejected(Exception):
    code, member = "foreign-environment", "_metadata.gpu"


class Reader:
    def describe(self):
        about = {"protocol": 1, "name": "my-reader", "version": "1", "language": "Python"}
        claims = {"homepage": "", "capabilities": ["flashinfer-import"]}
        return about | claims | {"import_metadata": dict.fromkeys(FIELDS.split(), "1.0")}

    def read_flashinfer(self, path, expected, session):
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        if document.pop("_metadata") != expected:
            raise Rejected("this was tuned in another environment")
        rows = [(KEY.match(key).groups(), value[1]) for key, value in document.items()]
        plans = [{"m": int(m), "n": int(n), "k": 2 * int(h), "tactic": t} for (m, h, n), t in rows]
        return {"plans": plans, "ignored": 0}
