"""Small tests of every kind, good and bad: what pytest says of them is what counts."""

import contextlib
import logging
import os
import sys
import threading
import unittest
import warnings

import helper
import pytest


def test_passes():
    pass


def test_dicts_differ():
    assert {"a": 1, "b": [1, 2, 3]} == {"a": 1, "b": [1, 2, 4], "c": None}


def test_long_texts_differ():
    assert "one\ntwo\nthree\n" * 20 == "one\ntwo\nthree\n" * 19 + "four\n"


def test_sets_and_numbers():
    numbers = {1, 2, 3}
    assert len(numbers) + sum(numbers) == pytest.approx(9.5)


def test_exception_of_two():
    try:
        {}["inner"]
    except KeyError as error:
        raise ValueError("outer") from error


def test_exception_group():
    raise ExceptionGroup("several", [ValueError("one"), TypeError("two")])


def test_output_of_both_kinds():
    print("to stdout")
    print("to stderr", file=sys.stderr)
    os.write(1, b"by descriptor\n")
    raise RuntimeError("with output")


def test_logs():
    logging.getLogger("battery").warning("look at %s", "this")
    raise RuntimeError("with a log")


def test_odd_output():
    print("é ∑ \u202e \x1b[31mred\x1b[0m \x00")
    os.write(2, b"\xff\xfe not UTF-8\n")
    raise RuntimeError("with odd output")


def test_much_output():
    print("line\n" * 20000)
    assert not sys.stdout.isatty()


@pytest.mark.skip(reason="not today")
def test_skipped_by_marker():
    raise AssertionError


@pytest.mark.skipif(sys.version_info < (4,), reason="wants Python 4")
def test_skipped_by_condition():
    raise AssertionError


def test_skips_itself():
    pytest.skip("thought better of it")


def test_skips_without_a_module():
    pytest.importorskip("no_such_module_anywhere")


@pytest.mark.xfail(reason="known")
def test_fails_as_expected():
    assert [1] == [2]


@pytest.mark.xfail("sys.version_info > (3,)", reason="a condition that is text")
def test_fails_as_a_condition_says():
    raise AssertionError


@pytest.mark.xfail(raises=KeyError)
def test_fails_otherwise_than_expected():
    raise ValueError("not a KeyError")


@pytest.mark.xfail(strict=True, reason="thought to fail")
def test_passes_against_strict_expectation():
    pass


@pytest.mark.xfail(reason="thought to fail")
def test_passes_against_expectation():
    pass


@pytest.mark.xfail(run=False, reason="would crash")
def test_is_not_even_run():
    os._exit(3)


def test_gives_up():
    pytest.xfail("half-way")


def test_fails_without_traceback():
    pytest.fail("one sentence", pytrace=False)


def test_nothing_is_raised():
    with pytest.raises(ValueError, match="something"):
        pass


def test_set_up_fails(breaks_before):
    pass


def test_tear_down_fails(breaks_after):
    pass


def test_everything_fails(breaks_after):
    raise AssertionError("and the call too")


def test_fixture_is_missing(no_such_fixture):
    pass


def test_fixtures_in_order(in_order, for_all):
    print("between")
    assert for_all == {"made": 2}


@pytest.mark.parametrize("number", [1, 2, 3])
def test_numbers(number):
    assert number != 2


@pytest.mark.parametrize(
    "text", ["", " ", "a b", "a/b", "a::b", "[x]", "é", "tab\t", "-k", "x" * 90]
)
def test_odd_ids(text):
    assert text != "a::b"


@pytest.mark.parametrize("doubled", [1, 5], indirect=True)
def test_indirect(doubled):
    assert doubled == 2


class TestInAClass:
    @classmethod
    def setup_class(cls):
        cls.shared = [1]

    def setup_method(self):
        self.own = [*self.shared, 2]

    def test_set_up(self):
        assert self.own == [1, 2]

    class TestWithin:
        def test_deeper(self):
            assert type(self).__qualname__ == "elsewhere"


class TestOfUnittest(unittest.TestCase):
    def setUp(self):
        self.addCleanup(print, "cleaned up")

    def test_equal(self):
        self.assertEqual([1, 2], [1, 3])

    def test_skipped(self):
        self.skipTest("unittest skips")

    @unittest.expectedFailure
    def test_expected(self):
        self.fail("as expected")

    @unittest.expectedFailure
    def test_unexpected(self):
        pass


class TestSubtestsOfUnittest(unittest.TestCase):
    def test_one_of_three(self):
        for number in range(3):
            with self.subTest(number=number):
                self.assertNotEqual(number, 1)


def test_subtests(request):
    if int(pytest.version_tuple[0]) < 9:
        pytest.skip("came with pytest 9")
    subtests = request.getfixturevalue("subtests")
    for number in range(3):
        with subtests.test("sub", number=number):
            assert number != 1


def test_warns():
    warnings.warn("this is old", DeprecationWarning, stacklevel=1)
    warnings.warn("mind this", UserWarning, stacklevel=1)


@pytest.mark.filterwarnings("error")
def test_warning_is_an_error():
    warnings.warn("no further", UserWarning, stacklevel=1)


def test_thread_fails():
    def fail():
        raise RuntimeError("in a thread")

    thread = threading.Thread(target=fail, name="the thread")
    thread.start()
    thread.join()


def test_properties(record_property, request):
    record_property("shape", "1x2x3")
    record_property("count", 3)
    request.node.user_properties.append(("more", 0.5))


def test_captures(capfd):
    print("captured")
    assert capfd.readouterr().out == "not captured\n"


def test_temporary_folder(tmp_path, tmp_path_factory):
    (tmp_path / "file").write_text("x")
    assert tmp_path_factory.mktemp("other").is_dir()
    assert tmp_path.name == "test_temporary_folder0"


def test_changes_the_process(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BATTERY_VARIABLE", "1")
    os.environ["BATTERY_LEFT_BEHIND"] = "1"


def test_options(pytestconfig):
    assert pytestconfig.getoption("greeting") == "hello"
    assert pytestconfig.getini("colour") == "blue"
    assert pytestconfig.rootpath.name == pytestconfig.inipath.parent.name


def test_assertion_of_a_helper():
    helper.check_equal({"left": 1}, {"left": 2})


def test_system_exit():
    sys.exit(3)


def test_recursion():
    def again(depth):
        if depth == 30:
            raise RecursionError("deep enough")
        return again(depth + 1)

    again(0)


@pytest.mark.usefixtures("in_order")
def test_uses_fixtures():
    raise AssertionError("for the output")


@pytest.mark.slow
def test_slow():
    pass


def test_same_name_as_elsewhere():
    with contextlib.suppress(ValueError):
        raise ValueError
