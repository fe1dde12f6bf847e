"""Python processes that a test starts: new ones, or forks of one that has imported what takes a second to import."""

from __future__ import annotations

import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).parents[2]
PATIENCE_S = 600
# Nothing that starts a thread (polars does): the process that is forked has one.
IMPORTED = [
    "psycopg",
    "tests.attacks.test_frozen_processes",
    "tests.release.test_job_kills",
    "tests.release.test_outputs",
]


def environment(**more: str) -> dict[str, str]:
    """The environment in which a child imports `tests.…` as the test itself does, wherever the child is started."""
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(path)} | more


@dataclass(frozen=True)
class Child:
    """A process that calls one function."""

    process: ForkServerProcess
    told: Connection

    def result(self) -> Any:
        """What the function has returned. It is an error if it has not."""
        try:
            returned, found = self.told.recv() if self.told.poll(PATIENCE_S) else (False, "nothing came back")
        except EOFError:
            returned, found = False, "it was killed"
        assert returned, f"the child ended with {self.exit_code()}: {found}"
        assert self.exit_code() == 0
        return found

    def exit_code(self) -> int | None:
        """How it ended; negative for a signal."""
        self.process.join(PATIENCE_S)
        return self.process.exitcode


def start(function: Callable[..., Any], *arguments: Any) -> Child:
    """Call `function` in a process of its own with one thread, which may fork and die as it likes.

    The function must be at the top of its module, and what it takes and returns is pickled.
    """
    receiver, sender = _server().Pipe(duplex=False)
    process = _server().Process(target=_call, args=(sender, function, arguments))
    process.start()
    sender.close()  # the child's is the only one left: when it dies, `receiver` ends
    return Child(process, receiver)


def alone(function: Callable[..., Any], *arguments: Any) -> Any:
    """What `function(*arguments)` returns in a process of its own; see `start`."""
    return start(function, *arguments).result()


def _call(sender: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        sender.send((True, function(*arguments)))
    except BaseException:
        sender.send((False, traceback.format_exc()))
        sys.exit(1)


@cache
def _server() -> ForkServerContext:
    """Starts the process that is forked. It has one thread, so that its forks may use locks."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    with patch.dict(os.environ, environment(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")):
        forkserver.ensure_running()
    return context
