"""A process that stops itself (SIGSTOP) at a place in Sfumato's code, and waits there until it is thawed or killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers import children


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

    child: children.Child

    def thaw(self) -> Any:
        """Let it go on, and return what its function has returned."""
        self.signal(signal.SIGCONT)
        return self.child.result()

    def kill(self) -> None:
        self.child.process.kill()
        self.child.exit_code()

    def stop(self) -> None:
        """Freeze it wherever it is."""
        self.signal(signal.SIGSTOP)
        self.wait()

    def signal(self, number: int) -> None:
        os.kill(self.child.process.pid, number)

    def wait(self) -> None:
        """Until it has frozen."""
        end = time.monotonic() + children.PATIENCE_S
        while not self.is_frozen():
            assert self.child.process.is_alive(), f"it has not frozen: {self.child.result()}"
            assert time.monotonic() < end
            time.sleep(0.005)

    def is_frozen(self) -> bool:
        try:
            status = Path(f"/proc/{self.child.process.pid}/stat").read_text()
        except FileNotFoundError:
            return False
        return status.rpartition(")")[2].split()[0] == "T"


@contextmanager
def running(function: Callable[..., Any], *arguments: Any) -> Iterator[Frozen]:
    """Call a function at the top of a module in a process of its own, which can be frozen."""
    process = Frozen(children.start(function, *arguments))
    try:
        yield process
    finally:
        process.kill()


@contextmanager
def frozen(function: Callable[..., Any], *arguments: Any) -> Iterator[Frozen]:
    """Call a function that freezes itself. The block begins when its process has frozen."""
    with running(function, *arguments) as process:
        process.wait()
        yield process
