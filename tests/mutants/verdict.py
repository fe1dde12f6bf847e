"""A pytest plugin: the exit code says whether a test failed because one of its own assertions did.

An import that fails, a fixture that breaks and an exception that no test expected are other failures.
"""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings

CAUGHT = 10

_ASSERTION_FAILED = pytest.StashKey[bool]()


def pytest_collection() -> None:
    """Any example that fails will do: the search for the smallest one takes most of the time."""
    phases = [Phase.explicit, Phase.generate]
    settings.register_profile("mutants", settings.default, phases=phases, report_multiple_bugs=False)
    settings.load_profile("mutants")


def pytest_exception_interact(node: pytest.Item | pytest.Collector, call: pytest.CallInfo) -> None:
    if call.when == "call" and isinstance(call.excinfo.value, AssertionError | pytest.fail.Exception):
        node.config.stash[_ASSERTION_FAILED] = True


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.stash.get(_ASSERTION_FAILED, False):
        session.exitstatus = CAUGHT
