"""A run writes its report as a page too, from all its workers, with what reproduces a failure."""

from workers import WORKERS


@WORKERS
def test_a_run_writes_its_page(conformance, pytester, workers):
    path = pytester.path / "new" / "page.html"
    result = conformance(
        "--nvfp4-contract=NDOC-9,BUCK-2",
        workers,
        f"--nvfp4-html={path}",
        impl="faulty.lenient:Lenient",
    )
    assert result.ret == 1
    text = path.read_text()
    (ndoc,) = [c for c in result.report["contracts"] if c["id"] == "NDOC-9"]
    failed = [case for case in ndoc["cases"] if case["verdict"] == "failed"]
    assert failed
    for case in failed:
        assert case["reproduction"].startswith("requests, "), case
        assert "document, " in case["reproduction"]
    assert text.count("Reproduce it") == len({case["case"] for case in failed})
    assert "document, " in text
    assert "<bdi>oracle</bdi></b>: 64 plans" in text
    assert 'id="BUCK-2"' in text
    passed = next(c for c in result.report["contracts"] if c["id"] == "BUCK-2")
    assert not any("reproduction" in case for case in passed["cases"])


def test_the_page_can_be_asked_for_by_variable_and_alone(pytester, conformance, monkeypatch):
    monkeypatch.setenv("NVFP4_HTML", "page.html")
    result = conformance("--nvfp4-contract=BUCK-2")
    assert result.ret == 0
    assert "html from NVFP4_HTML" in result.stdout.str()
    assert "✓" in (pytester.path / "page.html").read_text()


def test_page_that_cannot_be_written_is_a_usage_error(pytester, conformance):
    (pytester.path / "file").write_text("")
    result = conformance("--nvfp4-contract=BUCK-2", "--nvfp4-html=file/page.html")
    assert result.ret == 4
    result.stderr.fnmatch_lines(
        ["*--nvfp4-html is 'file/page.html', where no file can be written: Not a directory*"]
    )
