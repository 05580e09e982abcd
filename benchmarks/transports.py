"""A JSON-lines round trip to a served Python adapter beside the same call in process."""

from sidebyside import Row, main, medians, show

from pytest_nvfp4.implementations.loader import load


def measure() -> int:
    target = load("reference")
    here, there = target.in_process(), target.json_lines(timeout=60)
    try:
        rows = []
        for operation, arguments in (("bucket", {"m": 300}), ("profiles", {"maximum": 8192})):
            ours, theirs = medians(
                lambda o=operation, a=arguments: there.call(o, a),
                lambda o=operation, a=arguments: here.call(o, a),
                rounds=15,
                number=200,
            )
            rows.append(Row(operation, ours, theirs))
        return show(rows, "JSON lines", "in process")
    finally:
        there.close()


main(measure)
