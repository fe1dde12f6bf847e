"""Every exception Sfumato raises, in one tree.

    SfumatoError
    ├── InvalidArgument      a call that makes no sense; the message names the argument   (also a ValueError)
    ├── ConfigError          a configuration that makes no sense; the message names the setting
    ├── Refused              we will not answer; nothing was read and nothing was charged
    │   ├── NotSupported     the question has no private form here; the message names the nearest that has
    │   └── BudgetExhausted  the charge does not fit what is left
    └── Failed               we could not answer
        └── EngineFailed     the engine did not deliver; where a charge was made, it stands

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
        self.argument, self.problem = argument, problem

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.argument, self.problem)


class ConfigError(SfumatoError):
    """A setting that makes no sense. `setting` is its place in the file, such as "tables.clicks.max_k"."""

    def __init__(self, setting: str, problem: str) -> None:
        super().__init__(f"{setting}: {problem}")
        self.setting, self.problem = setting, problem

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.setting, self.problem)


class Refused(SfumatoError):
    """We will not answer. Nothing was read and nothing was charged."""


class NotSupported(Refused):
    """The question has no private form here. The message names the nearest one that has."""


class BudgetExhausted(Refused):
    """The charge `asked` does not fit into what is `left`."""

    def __init__(self, asked: object, left: object) -> None:
        super().__init__(
            f"this needs {asked}, and only {left} are left. Ask for fewer rows, or wait for the next period."
        )
        self.asked, self.left = asked, left

    def __reduce__(self) -> tuple[type, tuple[object, object]]:
        return type(self), (self.asked, self.left)


class Failed(SfumatoError):
    """We could not answer, for a reason that is not the asker's. Where a charge was made, it stands."""


class EngineFailed(Failed):
    """The engine did not deliver."""
