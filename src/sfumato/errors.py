"""Every exception Sfumato raises, in one tree.

    SfumatoError
    ├── InvalidArgument     a call that makes no sense; the message names the argument   (also a ValueError)
    └── Refused             we will not answer; nothing was read and nothing was charged
        └── BudgetExhausted the charge does not fit what is left

Messages speak the caller's words and name the way out. They never carry a count, a key or any other
value that came from the data.
"""

from __future__ import annotations


class SfumatoError(Exception):
    """The root of the tree: `except SfumatoError` catches everything below."""


class InvalidArgument(SfumatoError, ValueError):
    """An argument the guarantee does not cover. `argument` is its name."""

    def __init__(self, argument: str, problem: str) -> None:
        super().__init__(f"{argument}: {problem}")
        self.argument = argument


class Refused(SfumatoError):
    """We will not answer. Nothing was read and nothing was charged."""


class BudgetExhausted(Refused):
    """The charge `asked` does not fit into what is `left`."""

    def __init__(self, asked: object, left: object) -> None:
        super().__init__(
            f"this needs {asked}, and only {left} are left. Ask for fewer rows, or wait for the next period."
        )
        self.asked, self.left = asked, left
