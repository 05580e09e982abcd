"""Put any Python adapter behind JSON lines: ``python -m pytest_nvfp4.implementations.server SPEC``.

One request per line on standard input, one reply per line on standard output, until the input ends.
What the adapter prints goes to standard error, so it cannot break the protocol.
"""

import json
import os
import sys
import traceback
from typing import Any, BinaryIO

from pytest_nvfp4.implementations.loader import TargetError, load
from pytest_nvfp4.implementations.messages import SubjectError, UnsupportedError
from pytest_nvfp4.implementations.operations import OPERATIONS
from pytest_nvfp4.implementations.plain_data import decode
from pytest_nvfp4.implementations.transports import InProcess


def reply_to(line: bytes, transport: InProcess) -> dict[str, Any]:
    """The reply to one request line; a malformed request gets an error reply."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        return {"seq": None, "error": "the request is not one line of JSON"}
    if not isinstance(request, dict):
        return {"seq": None, "error": "the request is not a JSON object"}
    sequence = request.pop("seq", None)
    if type(sequence) is not int:
        return {"seq": None, "error": "seq is missing or not an integer"}
    operation = request.pop("op", None)
    if not isinstance(operation, str) or operation not in OPERATIONS:
        return {"seq": sequence, "error": f"unsupported operation {operation!r:.60}"}
    try:
        decode(request, OPERATIONS[operation].arguments)
    except ValueError as error:
        return {"seq": sequence, "error": f"the arguments of {operation} are wrong: {error}"}
    try:
        kind, data = transport.call(operation, request)
    except UnsupportedError as error:
        return {"seq": sequence, "error": f"unsupported: {error}"}
    except SubjectError as error:
        if error.__cause__:
            traceback.print_exception(error.__cause__, file=sys.stderr)
        return {"seq": sequence, "error": str(error)}
    return {"seq": sequence, kind: data}


def serve(transport: InProcess, requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests until they end."""
    for line in requests:
        reply = reply_to(line, transport)
        try:
            text = json.dumps(reply)
        except (TypeError, ValueError) as error:
            text = json.dumps(
                {"seq": reply["seq"], "error": f"the answer is not plain data: {error}"}
            )
        replies.write(text.encode() + b"\n")
        replies.flush()


def main(arguments: list[str]) -> int:
    """Serve the adapter that the one argument names; return the exit status."""
    if len(arguments) != 1:
        print("usage: python -m pytest_nvfp4.implementations.server SPEC", file=sys.stderr)
        return 4
    # Replies go to a descriptor of their own; what the adapter prints goes to standard error.
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        adapter = load(arguments[0]).make_adapter()
    except TargetError as error:
        print(error, file=sys.stderr)
        return 4
    try:
        serve(InProcess(adapter), sys.stdin.buffer, replies)
    except (KeyboardInterrupt, BrokenPipeError):
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
