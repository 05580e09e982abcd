#!/bin/sh
# An adapter for pytest-nvfp4: your plan cache behind the operations of the suite.
#
#     nvfp4-conformance smoke exec:./nvfp4_adapter.sh      # does the adapter work?
#     nvfp4-conformance run exec:./nvfp4_adapter.sh -n 2   # does the cache conform?
#
# Nothing is claimed yet. Write the operations of one capability into the case below, add its name
# to `claims`, and run again. Arguments and answers are described by
# `nvfp4-conformance schema`. An operation answers like this:
#
#     read_flashinfer) answer '{"plans": [], "ignored": 0}' ;;
#
# and a rejection of the input is
#
#     rejected '{"code": "syntax", "member": "", "message": "this is no JSON document"}'

claims='' # '"flashinfer-import"', say

member() { # the value of a member that is a string, a number or null, from the request
    printf '%s\n' "$request" | sed -n -e 's/.*"'"$1"'": *"\([^"]*\)".*/\1/p' \
        -e 's/.*"'"$1"'": *\([a-z0-9-][a-z0-9.-]*\).*/\1/p'
}
answer() { printf '{"seq": %s, "ok": %s}\n' "$seq" "$1"; }
rejected() { printf '{"seq": %s, "rejected": %s}\n' "$seq" "$1"; }

# One reply line for each request line, and not a word more on standard output.
while IFS= read -r request; do
    seq=$(member seq)
    case $(member op) in
    describe)
        # native-document needs "native_metadata" here too, flashinfer-import "import_metadata",
        # tactics "tactics" and "tactic_digest".
        answer '{"protocol": 1, "name": "my-cache", "version": "0", "language": "sh",
            "homepage": "", "capabilities": ['"$claims"']}' | tr -d '\n'
        echo
        ;;
    # @operations@
    *) printf '{"seq": %s, "error": "unsupported operation"}\n' "$seq" ;;
    esac
done
