"""Known deviations pass the run; one that passes, or matches nothing, fails it."""

from workers import WITH_WORKERS

LENIENT = {"impl": "faulty.lenient:Lenient"}


def deviations(pytester, *entries):
    path = pytester.path / "known.toml"
    path.write_text("".join(f"[[deviation]]\n{entry}\n" for entry in entries))
    return f"--nvfp4-deviations={path}"


@WITH_WORKERS
def test_written_deviations_make_the_next_run_pass(pytester, conformance, verdicts, workers):
    path = pytester.path / "known.toml"
    selection = ("--nvfp4-contract=FIMP-8,FIMP-1", workers)
    first = conformance(*selection, f"--nvfp4-write-deviations={path}", **LENIENT)
    assert first.ret == 1
    assert verdicts(first) == {"FIMP-1": "passed", "FIMP-8": "failed"}
    second = conformance(*selection, f"--nvfp4-deviations={path}", **LENIENT)
    assert verdicts(second) == {"FIMP-1": "passed", "FIMP-8": "known_deviation"}
    assert second.ret == 0, second.stdout.str()


def test_deviation_that_now_passes_is_an_error(pytester, conformance, verdicts):
    known = deviations(pytester, "contract = 'BUCK-2'\nreason = 'long mended'")
    result = conformance("--nvfp4-contract=BUCK-2", known)
    assert verdicts(result) == {"BUCK-2": "error"}
    assert result.ret == 1


def test_deviation_that_matches_no_case_is_an_error(pytester, conformance, verdicts):
    known = deviations(pytester, "contract = 'BUCK-2'\ncase = 'no such case*'\nreason = 'a typo'")
    result = conformance("--nvfp4-contract=BUCK-2", known)
    assert verdicts(result) == {"BUCK-2": "error"}
    assert result.ret == 1


def test_deviation_of_a_contract_that_is_not_selected_is_left_in_peace(pytester, conformance):
    known = deviations(pytester, "contract = 'NDOC-8'\nreason = 'another day'")
    assert conformance("--nvfp4-contract=BUCK-2", known).ret == 0


def test_hand_written_reasons_survive_an_update(pytester, conformance):
    known = deviations(pytester, "contract = 'FIMP-8'\ncase = '*'\nreason = 'we know, see below'")
    path = pytester.path / "known.toml"
    conformance("--nvfp4-contract=FIMP-8", known, f"--nvfp4-write-deviations={path}", **LENIENT)
    assert "we know, see below" in path.read_text()


def test_deviations_of_other_contracts_survive_an_update(pytester, conformance):
    path = pytester.path / "known.toml"
    conformance("--nvfp4-contract=FIMP-8", f"--nvfp4-write-deviations={path}", **LENIENT)
    before = path.read_text()
    assert "FIMP-8" in before
    conformance("--nvfp4-contract=FIMP-1", f"--nvfp4-write-deviations={path}", **LENIENT)
    assert path.read_text() == before
