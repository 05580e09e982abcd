"""``compare`` and ``verify`` from the command line: files in, a matrix and a page out."""

import datetime
import json

import pytest
from samples import ALL, NOTHING, SPEC, outcome, report_of

from pytest_nvfp4 import __version__, oracle
from pytest_nvfp4.cli import main
from pytest_nvfp4.commands.named_files import read_reports
from pytest_nvfp4.model import documents
from pytest_nvfp4.plans import PlanKey
from pytest_nvfp4.results import deviations, report
from pytest_nvfp4.results.verdicts import Verdict
from pytest_nvfp4.specification import contracts
from pytest_nvfp4.views import badge

ORACLE = oracle.load()


@pytest.fixture
def command(capsys):
    """Run a subcommand: its exit status and its output, both streams as one."""

    def run(*arguments):
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as end:
            status = end.code
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    return run


@pytest.fixture
def files(tmp_path):
    """A folder with two reports and two cache files."""
    changed = dict(ORACLE.plans) | {PlanKey(1, 5120, 6144): 31}
    reports = {
        "a.json": report_of(outcome()),
        "b.json": report_of(outcome({"MERG-1": Verdict.FAILED}), name="other"),
    }
    for name, data in reports.items():
        (tmp_path / name).write_text(json.dumps(data))
    (tmp_path / "before.json").write_bytes(ORACLE.document)
    (tmp_path / "after.json").write_bytes(documents.flashinfer_bytes(ORACLE.metadata, changed))
    return tmp_path


def test_compare_prints_a_matrix_and_writes_a_page(command, files):
    page = files / "page.html"
    plans = ("--plans", f"old={files / 'before.json'}", "--plans", files / "after.json")
    status, output = command("compare", files / "a.json", files / "b.json", *plans, "--html", page)
    assert status == 0
    assert "    MERG-1  MUST   " in output
    assert "MERG-2" not in output
    assert max(map(len, output.splitlines())) <= 80
    assert "\x1b" not in output
    text = page.read_text()
    assert "<b><bdi>old</bdi></b> → <b><bdi>after.json</bdi></b>: 1 of 64 plans differ" in text
    assert "<b><bdi>oracle</bdi></b> → <b><bdi>old</bdi></b>: all 64 plans agree" in text
    assert "why it is failed" in text


def test_compare_shows_everything_and_colours_on_request(command, files):
    status, output = command("compare", files / "b.json", "--all", "--color", "always")
    assert status == 0
    assert "MERG-2" in output
    assert "\x1b[31;1m" in output
    assert "\x1b" not in command("compare", files / "b.json", "--color", "never")[1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["{}/a.json", "{}/absent.json"], "cannot read {}/absent.json: No such file"),
        (["{}/a.json", "{}/a.json"], "are both reports of toy-cache 0.3; give them names"),
        (["{}/before.json"], "before.json is no conformance report"),
        (["{}"], "cannot read {}: Is a directory"),
        (["{}/a.json"] * 9, "9 reports are given; compare 1 to 8"),
        (["{}/a.json", "--html", "{}/page.pdf"], "page.pdf'; its name must end in .html"),
        (
            ["{}/a.json", "--html", "{}/a.json/page.html"],
            "cannot write {}/a.json/page.html: File exists ({}/a.json)",
        ),
        (["{}/a.json", "--plans", "{}/before.json"], "--plans is shown on the page only; add"),
        (["{}/a.json", "--html", "{}/p.html", "--plans", "{}/a.json"], "a.json is rejected: "),
        (
            ["{}/a.json", "--html", "{}/p.html", *["--plans", "{}/before.json"] * 2],
            "two plan maps are called 'before.json'; give each a name of its own",
        ),
        (
            ["{}/a.json", "--html", "{}/p.html", "--plans", "oracle={}/before.json"],
            "two plan maps are called 'oracle'",
        ),
        (
            ["{}/a.json", "--html", "{}/p.html"]
            + [word for n in range(9) for word in ("--plans", f"{n}={{}}/before.json")],
            "9 plan maps are given; a page shows up to 8",
        ),
        ([], "the following arguments are required"),
        (["{}/a.json", "--color", "blue"], "invalid choice: 'blue'"),
    ],
    ids=range(14),
)
def test_a_mistake_is_one_sentence_and_writes_nothing(command, files, arguments, says):
    before = sorted(files.iterdir())
    status, output = command("compare", *(word.replace("{}", str(files)) for word in arguments))
    assert status == 4
    assert says.replace("{}", str(files)) in output
    assert len(output.splitlines()) == 1
    assert sorted(files.iterdir()) == before


def test_what_commands_a_terminal_never_reaches_it(command, files):
    escape = "\x1b]0;taken over\x07"
    hostile = report_of(outcome({"MERG-1": Verdict.FAILED}), name=f"x{escape}")
    path = files / f"odd{escape}.json"
    path.write_text(json.dumps(hostile))
    for arguments in (
        ("compare", path),
        ("compare", path, path),
        ("compare", f"{escape}={path}"),
        ("verify", path),
        ("verify", escape),
    ):
        _, output = command(*arguments)
        assert not set(output) & {"\x1b", "\x07"}
        assert "\\x1b" in output


def test_verify_takes_reports_badges_deviations_and_an_implementation(command, tmp_path):
    own = report.Implementation(
        target="reference", name="x", version="1", language="C", homepage="", capabilities=["merge"]
    )
    run = report.Run(
        started=datetime.datetime(2031, 5, 4, tzinfo=datetime.UTC),
        seconds=1.0,
        seed=1,
        python="3",
        platform="any",
        whole=True,
    )
    made = report.build(
        contracts.packaged(),
        (),
        implementation=own,
        run=run,
        suite_version=__version__,
        suite_digest=report.suite_digest(),
    )
    report.write(tmp_path / "r.json", made)
    badge.write(tmp_path / "b.svg", badge.from_report(made))
    badge.write(tmp_path / "b.json", badge.Badge("cache · MUST 95/95", "green"))
    none = tmp_path / "none.toml"
    none.write_text(deviations.dumps(deviations.Deviations()))
    files = (tmp_path / "r.json", tmp_path / "b.svg")
    status, output = command("verify", *files, "--deviations", none)
    assert (status, output.count(" is proven\n")) == (0, 2)
    status, output = command("verify", *files, tmp_path / "b.json")
    assert status == 1
    assert "b.json: It says 'nvfp4 plan cache: cache · MUST 95/95', but the report earns" in output
    assert "b.json is not proven" in output
    status, output = command("verify", *files, "--impl", "reference")
    assert status == 1
    assert "r.json: The report is of the name 'x', but reference says 'nvfp4-reference'." in output
    assert command("verify", *files, "--impl", "nosuch")[0] == 4
    assert command("verify", *files, "--deviations", tmp_path / "absent.toml")[0] == 4
    assert command("verify", tmp_path / "b.svg")[0] == 4


@pytest.fixture
def file(tmp_path):
    """Write a file, from text or from data; its path."""

    def write(content, name="a.json"):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        return str(path)

    return write


def test_labels_are_given_or_name_and_version(file):
    first, second = file(report_of(outcome())), file(report_of(outcome(), name="b"), "b=2.json")
    comparison = read_reports([f"before={first}", second, first], SPEC)
    assert [column.label for column in comparison.columns] == ["before", "b 0.3", "toy-cache 0.3"]
    assert [column.letter for column in comparison.columns] == ["A", "B", "C"]


def test_two_reports_of_one_implementation_need_names(file):
    first, second = file(report_of(outcome())), file(report_of(outcome()), "b.json")
    with pytest.raises(ValueError, match="are both reports of toy-cache 0.3; give them names, as"):
        read_reports([first, second], SPEC)
    with pytest.raises(ValueError, match="two reports are called 'x'; give each a name of its own"):
        read_reports([f"x={first}", f"x={second}"], SPEC)
    assert len(read_reports([first, f"after={second}"], SPEC).columns) == 2


@pytest.mark.parametrize("count", [0, 9])
def test_one_to_eight_reports(file, count):
    path = file(report_of(outcome()))
    with pytest.raises(ValueError, match=f"^{count} reports are given; compare 1 to 8$"):
        read_reports([f"{number}={path}" for number in range(count)], SPEC)
    eight = read_reports([f"{number}={path}" for number in range(8)], SPEC)
    assert [column.letter for column in eight.columns] == list("ABCDEFGH")


def altered():
    data = report_of(outcome({"MERG-1": Verdict.FAILED}))
    data["contracts"][0]["verdict"] = "failed"
    return data


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "is no report: The report is not valid JSON"),
        ("[]", "is no conformance report; it has no member report_version"),
        ({"report_version": 2}, "has report version 2, but this is a reader of version 1; use the"),
        (
            {"report_version": 1},
            "not a report that can be trusted: The report is malformed: object missing",
        ),
        (badge.endpoint(badge.Badge("x", "red")), "is a badge; give the report that earned it"),
        (badge.svg(badge.Badge("x", "red")), "is a badge; give the report that earned it"),
        (altered(), "it was altered. (and 2 more, which verify lists)"),
        (report_of(()) | {"digest": NOTHING}, "it was altered."),
    ],
    ids=range(8),
)
def test_what_is_no_report_is_refused_in_one_sentence(file, content, says):
    with pytest.raises(ValueError, match=r"^[^\n]+$") as error:
        read_reports([file(content, "odd.json")], SPEC)
    assert says in str(error.value)
    assert "odd.json" in str(error.value)


def test_an_older_report_without_reproductions_is_read(file):
    data = report_of(outcome({"MERG-1": Verdict.FAILED}, claimed=ALL))
    assert "reproduction" not in json.dumps(data)
    assert len(read_reports([file(data)], SPEC).rows) == len(SPEC.contracts)
