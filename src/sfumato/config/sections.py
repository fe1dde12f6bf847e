"""Sections of a file: strict, typed, and each knows its own place in it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar, cast, get_args

from sfumato.accounting.numbers import rational
from sfumato.errors import ConfigError, InvalidArgument, NotSupported, nearest

T = TypeVar("T")

PREFIX = "SFUMATO_"


class Section:
    """A table of the file that knows its own place in it, and which of its keys have been asked for."""

    def __init__(self, path: str, values: Mapping[str, Any]) -> None:
        self.path, self._values = path, values
        self._known: list[str] = []

    def at(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def take(self, key: str, kinds: type | tuple[type, ...], words: str, default: Any = None) -> Any:
        """The value of `key`, of one of `kinds`; its default where it is absent, unless that is `...`."""
        self._known.append(key)
        value = self._values.get(key, default)
        if value is ...:
            raise ConfigError(self.at(key), f"is missing; it must be {words}")
        if key in self._values and (not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool)):
            raise ConfigError(self.at(key), f"must be {words}")
        return value

    def text(self, key: str, default: Any = ...) -> str:
        return cast(str, self.take(key, str, "text in quotes", default))

    def whole(self, key: str, default: Any = ..., *, at_least: int = 0, at_most: int | None = None) -> int:
        value = cast(int, self.take(key, int, "a whole number", default))
        if key in self._values and value < at_least:
            raise ConfigError(self.at(key), f"must be at least {at_least}")
        if at_most is not None and value > at_most:
            raise ConfigError(self.at(key), f"must be at most {at_most}")
        return value

    def number(self, key: str, default: Any = ...) -> Fraction:
        value = rational(key, self.take(key, (int, Decimal), "a number", default))
        if value < 0:
            raise ConfigError(self.at(key), "must not be negative")
        return value

    def choice(self, key: str, options: Any, default: Any = ...) -> Any:
        value = self.text(key, default)
        if value not in get_args(options):
            raise ConfigError(
                self.at(key), f"must be one of {', '.join(get_args(options))}{nearest(value, get_args(options))}"
            )
        return value

    def texts(self, key: str, default: Any = ...) -> tuple[str, ...]:
        """A list of different texts, of which none is empty."""
        listed = self.take(key, list, "a list of text in quotes", default)
        if not all(isinstance(text, str) and text for text in listed):
            raise ConfigError(self.at(key), "must be a list of text in quotes")
        if len(set(listed)) < len(listed):
            raise ConfigError(self.at(key), "lists something twice")
        return tuple(listed)

    def names(self) -> list[str]:
        return list(self._values)

    def has(self, key: str) -> bool:
        return key in self._values

    def flag(self, key: str) -> bool:
        return cast(bool, self.take(key, bool, "true or false", False))

    def section(self, key: str, reader: Callable[[Section], T], default: T) -> T:
        values = self.take(key, dict, "a section", None)
        if values is None:
            return default
        below = Section(self.at(key), values)
        found = _reading(below, reader)
        below.done()
        return found

    def sections(self, key: str, reader: Callable[[str, Section], T]) -> dict[str, T]:
        """One record for every section below `key`, whatever it is called."""
        below = Section(self.at(key), self.take(key, dict, "a section", {}))
        found = {name: below.section(name, partial(reader, name), None) for name in below._values}
        return cast(dict[str, T], found)

    def done(self) -> None:
        """Nothing may be left that nobody asked for."""
        for key in self._values:
            if key not in self._known:
                raise ConfigError(self.at(key), f"is not a setting{nearest(key, self._known)}")


def _reading(section: Section, reader: Callable[[Section], T]) -> T:
    """Arguments out of range are told by their place in the file."""
    try:
        return reader(section)
    except (InvalidArgument, NotSupported) as error:
        raise ConfigError(section.path, str(error)) from None


@dataclass(frozen=True, slots=True)
class Reference:
    """A public table whose column lists a domain."""

    table: str
    column: str


def domain(section: Section) -> tuple[Any, ...] | Reference | None:
    raw = section.take(
        "domain", (str, list, dict), '"unknown", a list, or { table = "...", column = "..." }', "unknown"
    )
    if isinstance(raw, list):
        if not raw or len({type(value) for value in raw}) > 1:
            raise ConfigError(section.at("domain"), "must list one value or more, all of one type")
        return tuple(raw)
    if isinstance(raw, dict):
        return section.section("domain", lambda s: Reference(s.text("table"), s.text("column")), None)
    if raw != "unknown":
        raise ConfigError(section.at("domain"), f'must be "unknown" or a list, such as ["{raw}"]')
    return None


def override(document: dict[str, Any], name: str, value: str) -> list[str]:
    """SFUMATO_A__B=x is `[a] b = x`: TOML where it reads as such, text otherwise. Returns the settings it made."""
    *path, key = steps = name.removeprefix(PREFIX).lower().split("__")
    place, made = document, [".".join(steps)]
    for depth, step in enumerate(path, 1):
        if step not in place:
            made.append(".".join(path[:depth]))
        place = place.setdefault(step, {})
        if not isinstance(place, dict):
            raise ConfigError(name, "points below a setting that is not a section")
    try:
        read = tomllib.loads(f"value = {value}", parse_float=Decimal)
    except (ValueError, RecursionError):
        read = {}
    place[key] = read["value"] if read.keys() == {"value"} and "\n" not in value else value
    return made


def blamed(error: ConfigError, variables: Mapping[str, str]) -> ConfigError:
    """The error, told by the environment variable that it comes from, if it comes from one."""
    inside = f"{error.setting}.{error.problem.partition(':')[0]}"
    for setting, name in variables.items():
        if setting in (error.setting, inside) or error.setting.startswith(f"{setting}."):
            return ConfigError(name, f"{error.setting} {error.problem}")
    return error
