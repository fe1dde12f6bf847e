"""A process that stops itself (SIGSTOP) at a place in Sfumato's code, and waits there until it is thawed or killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.helpers.children import environment

PATIENCE_S = 60

CODE = "import importlib, json, sys; module, name, given = sys.argv[1:]; {call}"
CALL = "print(json.dumps(getattr(importlib.import_module(module), name)(*json.loads(given))))"


def freeze() -> None:
    """Stop this process here."""
    os.kill(os.getpid(), signal.SIGSTOP)


def then_freeze(real: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which freezes at its first end."""
    left = [freeze]

    def call(*arguments: Any, **named: Any) -> Any:
        found = real(*arguments, **named)
        if left:
            left.pop()()
        return found

    return call


@dataclass(frozen=True)
class Frozen:
    """A process that stands still."""

    process: subprocess.Popen[str]

    def thaw(self) -> Any:
        """Let it go on, and return what its function has returned."""
        self.process.send_signal(signal.SIGCONT)
        out, err = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, err
        return json.loads(out.splitlines()[-1])

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=PATIENCE_S)


@contextmanager
def frozen(function: Callable[..., Any], *arguments: Any) -> Iterator[Frozen]:
    """Call a function at the top of a module in a process of its own. The block begins when that process has frozen."""
    given = json.dumps([str(each) for each in arguments])
    command = [sys.executable, "-c", CODE.format(call=CALL), function.__module__, function.__name__, given]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, text=True, env=environment(), **pipes)
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            process.returncode = os.waitstatus_to_exitcode(status)
            raise AssertionError(f"it has not frozen, and ended with {process.returncode}: {process.communicate()}")
        yield Frozen(process)
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_S)
