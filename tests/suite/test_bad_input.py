"""A mistake in the call is one sentence and exit status 4; a broken subject is an error verdict."""

import os
import sys
import textwrap

import pytest
from workers import WORKERS


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--nvfp4-impl=refrence"], "did you mean 'reference'?"),
        (["--nvfp4-impl=no_such_module:make"], "cannot import 'no_such_module'"),
        (["--nvfp4-impl=exec:./nowhere --flag"], "no executable './nowhere'"),
        (["--nvfp4-impl=exec:true"], "ended while it had to answer describe (exit status 0)"),
        (["--nvfp4-impl=exec:false"], "exit status 1"),
        (
            ["--nvfp4-impl=exec:sleep 1000", "--nvfp4-timeout=0.5"],
            "no answer to describe within 0.5 s",
        ),
        (["--nvfp4-impl=exec:yes"], "something that is not JSON"),
        (["--nvfp4-impl=exec:echo '{}'"], "without its sequence number"),
        (["--nvfp4-contract=NDOC-99"], "NDOC-9"),
        (["--nvfp4-contract=ndco"], "'ndco' is not in specification"),
        (["--nvfp4-contract=,"], "--nvfp4-contract"),
        (["--nvfp4-level=may"], "--nvfp4-level is 'may'; use must or should"),
        (["--nvfp4-report=r.xml"], "--nvfp4-report is 'r.xml'; its name must end in .json"),
        (["--nvfp4-badge=b.png"], "--nvfp4-badge is 'b.png'; its name must end in .svg or .json"),
        (["--nvfp4-html=p.pdf"], "--nvfp4-html is 'p.pdf'; its name must end in .html or .htm"),
        (["--nvfp4-seed=-1"], "--nvfp4-seed is '-1'; use a non-negative integer"),
        (["--nvfp4-seed=one"], "--nvfp4-seed"),
        (["--nvfp4-timeout=0"], "--nvfp4-timeout is '0'; use a number of seconds above 0"),
        (["--nvfp4-timeout=soon"], "--nvfp4-timeout"),
        (["--nvfp4-timeout=nan"], "--nvfp4-timeout"),
        (["--nvfp4-deviations=absent.toml"], "absent.toml"),
        (["--nvfp4-deviations=bad.toml"], "bad.toml"),
    ],
    ids=lambda value: " ".join(value)[8:40] if isinstance(value, list) else "",
)
@WORKERS
def test_mistake_in_the_call(pytester, monkeypatch, arguments, part, workers):
    monkeypatch.setenv("PYTHONPATH", ":".join(filter(None, sys.path)))
    monkeypatch.setenv("NVFP4_IMPL", "reference")
    (pytester.path / "bad.toml").write_text("[[deviation]]\ncontract = 'NDOC-99'\nreason = 'x'\n")
    words = ("-p", "no:cacheprovider", "--nvfp4-conformance", workers, *arguments)
    result = pytester.runpytest_inprocess(*words)
    output = result.stdout.str() + result.stderr.str()
    assert result.ret == 4, output
    assert part in output
    assert "Traceback" not in output
    assert "INTERNALERROR" not in output


def test_mistake_in_the_environment_names_its_variable(pytester, monkeypatch):
    monkeypatch.setenv("NVFP4_CONFORMANCE", "perhaps")
    result = pytester.runpytest_subprocess("-p", "nvfp4")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*NVFP4_CONFORMANCE is 'perhaps'; use true or false*"])


SUBJECT = """
    import json, os, signal, sys
    CLAIMS = {"protocol": 1, "name": "fragile", "version": "1", "language": "Python",
              "homepage": "", "capabilities": ["buckets"]}
    for line in sys.stdin:
        r = json.loads(line)
        if r["op"] == "describe":
            answer = CLAIMS
        elif r["op"] == "profiles":
            answer = [r["maximum"]]
        elif r["op"] == "bucket" and r["m"] not in (300, 1):
            BREAK
        else:
            answer = 512 if r["m"] == 300 else 1
        print(json.dumps({"seq": r["seq"], "ok": answer}), flush=True)
"""


@pytest.mark.parametrize(
    ("breaking", "part"),
    [
        ("sys.exit(3)", "exit status 3"),
        ("os.kill(os.getpid(), 9)", "killed by SIGKILL"),
        pytest.param("signal.pause()", "no answer to bucket within 5 s", marks=pytest.mark.wide),
        ("print('noise', flush=True); continue", "not JSON"),
        ("answer = 'many'", "breaks the adapter interface"),
        ("raise MemoryError('all gone')", "all gone"),
        ("os.close(1); os.close(0)", "ended"),
    ],
)
def test_broken_subject_is_an_error_verdict_and_is_restarted(
    pytester, conformance, verdicts, breaking, part
):
    path = pytester.path / "fragile.py"
    path.write_text(textwrap.dedent(SUBJECT).replace("BREAK", breaking))
    # A limit for one answer, the start of an interpreter included: only a hang needs a short one.
    limit = 5 if "pause" in breaking else 60
    result = conformance(
        f"--nvfp4-timeout={limit}", "--tb=no", impl=f"exec:{sys.executable} {path}"
    )
    found = verdicts(result)
    assert found["BUCK-1"] == found["BUCK-3"] == "error"
    assert found["BUCK-2"] == "failed", "after a restart the next cases go on"
    assert result.ret == 1
    case = next(c for c in result.report["contracts"] if c["id"] == "BUCK-1")["cases"][0]
    assert part in case["message"]


@pytest.mark.parametrize("tactic", ["True", "7.0", "float('nan')", "None", "'7'", "[7]"])
def test_plan_that_holds_no_integers_is_a_failure_of_its_case(
    pytester, conformance, verdicts, monkeypatch, tactic
):
    monkeypatch.syspath_prepend(pytester.path)
    pytester.makepyfile(
        passing_on=f"""
        from nvfp4_reference.adapter import Adapter
        from nvfp4_reference.errors import Rejected
        class PassingOn(Adapter):
            def read_flashinfer(self, path, expected, session=None):
                try:
                    return super().read_flashinfer(path, expected, session)
                except Rejected as rejected:
                    if rejected.code != "wrong-type":
                        raise
                    row = {{"m": 1, "n": 16, "k": 16, "tactic": {tactic}}}
                    return {{"plans": [row], "ignored": 0}}
        """
    )
    result = conformance("--nvfp4-contract=FIMP-7", "--tb=no", impl="passing_on:PassingOn")
    assert verdicts(result) == {"FIMP-7": "failed"}
    cases = [case for one in result.report["contracts"] for case in one["cases"]]
    assert "error" not in {case["verdict"] for case in cases}
    assert any("is not all integers" in case["message"] for case in cases)


def test_python_adapter_that_lies_about_its_schema(pytester, monkeypatch):
    monkeypatch.syspath_prepend(pytester.path)
    monkeypatch.setenv("PYTHONPATH", ":".join(filter(None, [str(pytester.path), *sys.path])))
    pytester.makepyfile(liar="class Liar:\n    def describe(self): return {'protocol': 1}\n")
    result = pytester.runpytest_subprocess(
        "-p", "nvfp4", "--nvfp4-conformance", "--nvfp4-impl=liar:Liar"
    )
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*adapter of 'liar:Liar' (in process) does not work: describe: *"])


def test_worker_that_dies_is_an_error_and_no_pass(pytester, conformance, verdicts, monkeypatch):
    monkeypatch.syspath_prepend(pytester.path)
    pytester.makepyfile(
        deadly="""
        import os
        class Deadly:
            def describe(self):
                return {"protocol": 1, "name": "deadly", "version": "1", "language": "Python",
                        "homepage": "", "capabilities": ["buckets"]}
            def bucket(self, m):
                if m == 0 and "PYTEST_XDIST_WORKER" in os.environ:
                    os._exit(1)
                return 1 if m < 2 else 512
            def profiles(self, maximum):
                return [maximum]
        """
    )
    result = conformance("--nvfp4-contract=BUCK-1", "-n2", "--tb=no", impl="deadly:Deadly")
    assert result.report["run"]["complete"] is False
    assert verdicts(result)["BUCK-1"] == "error"
    assert result.ret == 1


@pytest.mark.parametrize("option", ["report", "badge", "write-deviations"])
def test_file_that_cannot_be_written_costs_no_verdict(pytester, conformance, option, monkeypatch):
    suffix = ".toml" if option == "write-deviations" else ".json"
    name = f"taken{suffix}"
    monkeypatch.setenv("PYTHONPATH", f"{pytester.path}:{os.environ['PYTHONPATH']}")
    pytester.makepyfile(
        occupying=f"""
        import os
        from nvfp4_reference.adapter import Adapter
        class Occupying(Adapter):
            def bucket(self, m):
                if m == 2:  # while the suite runs, and not in the examination before
                    os.makedirs({str(pytester.path / name / "occupied")!r}, exist_ok=True)
                return super().bucket(m)
        """
    )
    result = conformance(
        "--nvfp4-contract=BUCK-1", f"--nvfp4-{option}={name}", impl="occupying:Occupying"
    )
    assert result.ret == 4
    result.stdout.fnmatch_lines(["*BUCK  M buckets*", "*ERROR: cannot write *"])
    assert "Traceback" not in result.stdout.str() + result.stderr.str()


def test_adapter_that_exits_is_a_failure_and_no_end(pytester, conformance, verdicts, monkeypatch):
    monkeypatch.syspath_prepend(pytester.path)
    pytester.makepyfile(
        leaving="""
        import sys
        from nvfp4_reference.adapter import Adapter
        class Leaving(Adapter):
            def bucket(self, m):
                if m == 0:
                    sys.exit(3)
                return super().bucket(m)
        """
    )
    result = conformance("--nvfp4-contract=BUCK", impl="leaving:Leaving")
    assert verdicts(result) == {"BUCK-1": "failed", "BUCK-2": "passed", "BUCK-3": "passed"}


def test_adapter_that_rejects_what_must_be_answered_is_a_failure(
    pytester, conformance, verdicts, monkeypatch
):
    monkeypatch.syspath_prepend(pytester.path)
    pytester.makepyfile(
        refusing="""
        from nvfp4_reference.adapter import Adapter
        from nvfp4_reference.errors import Rejected
        class Refusing(Adapter):
            def bucket(self, m):
                if m > 1000:
                    raise Rejected("lifecycle", "m", "too many tokens for me.")
                return super().bucket(m)
        """
    )
    result = conformance("--nvfp4-contract=BUCK-1", impl="refusing:Refusing")
    assert verdicts(result) == {"BUCK-1": "failed"}
    assert "bucket was rejected" in result.stdout.str()


def test_two_badges_in_the_ini_file(pytester, conformance):
    pytester.makeini("[pytest]\nnvfp4_badge = a.svg b.json\n")
    assert conformance("--nvfp4-contract=BUCK-2").ret == 0
    assert (pytester.path / "a.svg").exists()
    assert (pytester.path / "b.json").exists()
