"""The same tests plainly, or each in a fresh process: as BATTERY says."""

import os

import pytest

pytest.register_assert_rewrite("helper")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    if os.environ["BATTERY"] == "fresh":
        for item in items:
            item.add_marker(pytest.mark.fresh_process)


def pytest_addoption(parser):
    parser.addoption("--greeting", default="hello")
    parser.addini("colour", "a favourite one", default="blue")


@pytest.fixture
def breaks_before():
    print("setting up")
    raise RuntimeError("no set-up today")


@pytest.fixture
def breaks_after():
    yield
    print("tearing down")
    raise RuntimeError("no tear-down today")


@pytest.fixture(scope="session")
def for_all():
    return {"made": 1}


@pytest.fixture
def doubled(request):
    return 2 * request.param


@pytest.fixture
def in_order():
    print("first")
    yield
    print("last")
