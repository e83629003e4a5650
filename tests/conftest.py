"""Fixtures for all tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import hypothesis
import pytest

from tests.needs import missing, needed
from tests.warm import waiting

# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


def pytest_configure() -> None:
    needed()  # a name that is none is said before anything runs


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """See `tests.needs`."""
    for mark in item.iter_markers("needs"):
        name, why_not = mark.args
        if why_not is not None:
            missing(name, why_not)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Tests marked ``anyio`` run under both."""
    name: str = request.param
    return name


@pytest.fixture(scope="session", autouse=True)
def _no_home_of_a_person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nobody's own definitions and settings are part of a test."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
        yield


@pytest.fixture(scope="session", autouse=True)
def _a_process_waits_for_commands() -> Iterator[None]:
    """See `tests.warm`; it is started by the first command that asks for it."""
    with waiting():
        yield


@pytest.fixture(autouse=True)
def _imports_as_they_were() -> Iterator[None]:
    """What `--tools` adds to the ways of finding modules ends with a test, as it does with a process."""
    before = list(sys.meta_path)
    yield
    sys.meta_path[:] = before
