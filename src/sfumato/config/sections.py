"""Sections of a file: strict, typed, and each knows its own place in it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar, cast, get_args

from sfumato.accounting.numbers import rational
from sfumato.config.settings import Reference
from sfumato.errors import ConfigError, InvalidArgument, NotSupported, find_nearest

T = TypeVar("T")

PREFIX = "SFUMATO_"


class Section:
    """A table of the file. It knows its own place in the file, and which of its keys were read."""

    def __init__(self, path: str, values: Mapping[str, Any]) -> None:
        self.path, self._values = path, values
        self._known: list[str] = []

    def at(self, key: str) -> str:
        """The place of `key` in the file."""
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
        """A whole number. The bounds are those of what is written, not of the default."""
        value = cast(int, self.take(key, int, "a whole number", default))
        if key in self._values and value < at_least:
            raise ConfigError(self.at(key), f"must be at least {at_least}")
        if at_most is not None and value > at_most:
            raise ConfigError(self.at(key), f"must be at most {at_most}")
        return value

    def number(self, key: str, default: Any = ..., *, signed: bool = False) -> Fraction:
        """A number exactly as it is written; not below zero, unless it is `signed`."""
        value = rational(key, self.take(key, (int, Decimal), "a number", default))
        if value < 0 and not signed:
            raise ConfigError(self.at(key), "must not be negative")
        return value

    def choice(self, key: str, options: Any, default: Any = ...) -> Any:
        """One of the texts of a Literal."""
        value, known = self.text(key, default), get_args(options)
        if value not in known:
            raise ConfigError(self.at(key), f"must be one of {', '.join(known)}", nearest=find_nearest(value, known))
        return value

    def texts(self, key: str, default: Any = ...) -> tuple[str, ...]:
        """A list of different texts, none of them empty."""
        texts = self.take(key, list, "a list of text in quotes", default)
        if not all(isinstance(text, str) and text for text in texts):
            raise ConfigError(self.at(key), "must be a list of text in quotes")
        if len(set(texts)) < len(texts):
            raise ConfigError(self.at(key), "lists something twice")
        return tuple(texts)

    def names(self) -> list[str]:
        return list(self._values)

    def has(self, key: str) -> bool:
        return key in self._values

    def flag(self, key: str, *, default: bool = False) -> bool:
        return cast(bool, self.take(key, bool, "true or false", default))

    def domain(self) -> tuple[Any, ...] | Reference | None:
        """The values of a column: a list, a reference to a public table, or None where they are unknown."""
        words = '"unknown", a list, or { table = "...", column = "..." }'
        raw = self.take("domain", (str, list, dict), words, "unknown")
        if isinstance(raw, list):
            if not raw or len({type(value) for value in raw}) > 1:
                raise ConfigError(self.at("domain"), "must list one value or more, all of one type")
            return tuple(raw)
        if isinstance(raw, dict):
            return self.section("domain", lambda s: Reference(s.text("table"), s.text("column")), None)
        if raw != "unknown":
            raise ConfigError(self.at("domain"), f'must be "unknown" or a list, such as ["{raw}"]')
        return None

    def section(self, key: str, reader: Callable[[Section], T], default: T) -> T:
        """The record of the section `key`. An argument that is refused is an error of that section."""
        values = self.take(key, dict, "a section", None)
        if values is None:
            return default
        below = Section(self.at(key), values)
        try:
            record = reader(below)
        except (InvalidArgument, NotSupported) as error:
            raise ConfigError(below.path, str(error)) from error
        below.refuse_unknown()
        return record

    def sections(self, key: str, reader: Callable[[str, Section], T]) -> dict[str, T]:
        """One record for each section below `key`, by its name."""
        below = Section(self.at(key), self.take(key, dict, "a section", {}))
        records = {name: below.section(name, partial(reader, name), None) for name in below.names()}
        return cast(dict[str, T], records)

    def refuse_unknown(self) -> None:
        """Refuse a key that no reader has taken."""
        for key in self._values:
            if key not in self._known:
                raise ConfigError(self.at(key), "is not a setting", nearest=find_nearest(key, self._known))


def defaults(record: type) -> dict[str, Any]:
    """The defaults of a record's fields: they stand in `settings` once."""
    return {field.name: field.default for field in fields(record) if field.default is not MISSING}


def override(document: dict[str, Any], name: str, value: str) -> list[str]:
    """Put an environment variable into the document, and list the settings that it made.

    SFUMATO_A__B=x is `[a] b = x`: TOML where it can be read as that, text otherwise.
    """
    *path, key = steps = name.removeprefix(PREFIX).lower().split("__")
    place, new_settings = document, [".".join(steps)]
    for depth, step in enumerate(path, 1):
        if step not in place:
            new_settings.append(".".join(path[:depth]))
        place = place.setdefault(step, {})
        if not isinstance(place, dict):
            raise ConfigError(name, "points below a setting that is not a section")
    try:
        read = tomllib.loads(f"value = {value}", parse_float=Decimal)
    except (ValueError, RecursionError):
        read = {}
    place[key] = read["value"] if read.keys() == {"value"} and "\n" not in value else value
    return new_settings


def name_variable(error: ConfigError, variables: Mapping[str, str]) -> ConfigError:
    """The error under the name of the environment variable that it comes from, if it comes from one."""
    cause = error.__cause__
    inside = f"{error.setting}.{cause.argument}" if isinstance(cause, InvalidArgument) else error.setting
    for setting, name in variables.items():
        if setting in (error.setting, inside) or error.setting.startswith(f"{setting}."):
            return ConfigError(name, f"{error.setting} {error.problem}", nearest=error.nearest)
    return error
