"""`[reports.*]`: a report as the owner wrote it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sfumato.config.sections import Reference, Section, domain
from sfumato.errors import ConfigError, nearest
from sfumato.query.policy import RESERVED
from sfumato.query.reports.calendar import ALIASES, Calendar
from sfumato.query.reports.policy import ADMITTED, OPTIONS, Option

MAX_STATISTICS, MAX_ATTRIBUTES, MAX_LEVELS = 12, 64, 8
MAX_EPSILON = 1000
MAX_LAG = timedelta(days=366)
MAX_VERSIONS, MAX_EVENTS, MAX_FANOUT = 1000, 10**9, 1000

_LAG = re.compile(r"([0-9]{1,6})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True, slots=True)
class StatisticSettings:
    column: str | None
    where: Mapping[str, Any]
    epsilon: Mapping[str, Fraction]
    of: str | None = None


@dataclass(frozen=True, slots=True)
class AttributeSettings:
    """Without a domain of its own, an attribute has the one of its column in the table."""

    domain: tuple[Any, ...] | Reference | None
    max_values: int = 1
    separator: str = ""


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """A report as the owner wrote it: types, domains and entities are still to be looked up."""

    name: str
    table: str
    time: str
    calendar: Calendar
    statistics: Mapping[str, StatisticSettings]
    attributes: Mapping[str, AttributeSettings] = field(default_factory=dict)
    levels: tuple[str, ...] = ()
    entities: str | None = None
    min_count: int = 0
    fanout: int = 0
    lag: timedelta = timedelta(hours=1)
    max_versions: int = 1
    cap: int | None = None
    exact_totals: bool = False
    options: tuple[Option, ...] = ()

    def public(self) -> tuple[str, ...]:
        """The tables that list its domains and its entities."""
        listed = [each.domain.table for each in self.attributes.values() if isinstance(each.domain, Reference)]
        return (*listed, *([] if self.entities is None else [self.entities]))


def report(name: str, section: Section) -> ReportSettings:
    """Read one section."""
    levels = section.texts("levels", ("day", "month", "year"))
    calendar = Calendar(levels, section.text("zone", "UTC"))
    epsilon = _epsilon(section, calendar, None)
    entities, listed = _entities(section)
    settings = ReportSettings(
        name=name,
        table=section.text("table"),
        time=section.text("time"),
        calendar=calendar,
        statistics=section.sections("statistics", lambda _, s: _statistic(s, calendar, epsilon)),
        attributes=section.sections("attributes", lambda _, s: _attribute(s)),
        levels=entities,
        entities=listed,
        min_count=section.whole("min_count", 0, at_most=10**9),
        fanout=section.whole("entity_fanout", 0, at_most=MAX_FANOUT),
        lag=_lag(section),
        max_versions=section.whole("max_versions", 1, at_least=1, at_most=MAX_VERSIONS),
        cap=section.whole("max_events_per_unit", 0, at_least=1, at_most=MAX_EVENTS) or None,
        exact_totals=_exact_totals(section),
        options=_options(section),
    )
    _check(settings, section)
    return settings


def _check(settings: ReportSettings, section: Section) -> None:
    for key, names, most in (
        ("statistics", settings.statistics, MAX_STATISTICS),
        ("attributes", settings.attributes, MAX_ATTRIBUTES),
        ("entities", settings.levels, MAX_LEVELS),
    ):
        if len(names) > most:
            raise ConfigError(section.at(key), f"there are more than {most}")
    if not settings.statistics:
        example = 'clicks = { count = "rows" }'
        raise ConfigError(section.at("statistics"), f"there is none, so that nothing can be shown; add {example}")
    _check_table(settings, section)
    _check_names(settings, section)
    for name, statistic in settings.statistics.items():
        if statistic.of is not None and statistic.of not in settings.statistics:
            hint = nearest(statistic.of, settings.statistics)
            raise ConfigError(section.at(f"statistics.{name}.of"), f"{statistic.of!r} is not a statistic here{hint}")


def _check_table(settings: ReportSettings, section: Section) -> None:
    """What adds children up needs a list of them."""
    if settings.entities is None:
        example = f'entities = {{ levels = {list(settings.levels)}, table = "..." }}'.replace("'", '"')
        if settings.fanout:
            raise ConfigError(section.at("entity_fanout"), f"needs a table that lists the children: {example}")
        if "tree" in settings.options:
            raise ConfigError(section.at("options"), f"tree needs a table that lists the children: {example}")


def _check_names(settings: ReportSettings, section: Section) -> None:
    """Statistics, attributes and the range become columns of one row."""
    taken = {"start", "end"}
    for key, names in (("attributes", settings.attributes), ("statistics", settings.statistics)):
        for name in names:
            if not name or name.casefold() in taken or name.casefold().startswith(RESERVED):
                raise ConfigError(section.at(f"{key}.{name}"), "is a name that is taken; give it another")
            taken.add(name.casefold())


def _statistic(section: Section, calendar: Calendar, epsilon: Mapping[str, Fraction] | None) -> StatisticSettings:
    if section.has("sum"):
        column = section.text("sum")
    else:
        counted = section.text("count")
        if counted != "rows":
            raise ConfigError(section.at("count"), 'must be "rows"; a column of counts is added up by sum = "..."')
        column = None
    own = _epsilon(section, calendar, epsilon)
    if own is None:
        raise ConfigError(
            section.at("epsilon"), "is missing, here and in the report; it is that of one cell, such as 1"
        )
    where = section.take("where", dict, "a filter, such as { kind = 'click' }", {})
    return StatisticSettings(column, where, own, section.text("of", "") or None)


def _epsilon(section: Section, calendar: Calendar, default: Mapping[str, Fraction] | None) -> Any:
    """One number for all levels of time, or one for each."""
    raw = section.take("epsilon", (int, Decimal, dict), "a number, or one for each level of time", None)
    if raw is None:
        return default
    levels = calendar.levels
    if not isinstance(raw, dict):
        return dict.fromkeys(levels, _positive(section.number("epsilon"), section.at("epsilon")))

    def each(below: Section) -> dict[str, Fraction]:
        names = {level: next((a for a in ALIASES if ALIASES[a] == level and below.has(a)), level) for level in levels}
        return {level: _positive(below.number(name), below.at(name)) for level, name in names.items()}

    return section.section("epsilon", each, dict[str, Fraction]())


def _positive(epsilon: Fraction, where: str) -> Fraction:
    if not 0 < epsilon <= MAX_EPSILON:
        raise ConfigError(where, f"must be above 0 and at most {MAX_EPSILON}")
    return epsilon


def _attribute(section: Section) -> AttributeSettings:
    separator = section.text("separator", "")
    most = section.whole("max_values", 1, at_least=1, at_most=1000)
    return AttributeSettings(domain(section) if section.has("domain") else None, most, separator)


def _entities(section: Section) -> tuple[tuple[str, ...], str | None]:
    """The levels, the top first, and the table that lists the entities, if there is one."""
    raw = section.take("entities", (list, dict), 'a list of columns, or { levels = [...], table = "..." }', [])
    if isinstance(raw, list):
        return section.texts("entities", ()), None
    found = section.section("entities", lambda s: (s.texts("levels"), s.text("table")), None)
    if found is None or not found[0]:
        raise ConfigError(
            section.at("entities.levels"), "must list the levels, the top first; leave entities out for none"
        )
    return found


def _lag(section: Section) -> timedelta:
    found = _LAG.fullmatch(section.text("lag", "1h"))
    if found is None:
        raise ConfigError(section.at("lag"), 'must be a number of minutes, hours or days, such as "30m", "6h" or "2d"')
    lag = timedelta(**{_UNITS[found[2]]: int(found[1])})
    if lag > MAX_LAG:
        raise ConfigError(section.at("lag"), f"must be at most {MAX_LAG.days}d")
    return lag


def _exact_totals(section: Section) -> bool:
    admits = "which admits that totals without noise have no guarantee; leave it out otherwise"
    words = section.take("exact_totals", str, f'"{ADMITTED}", {admits}', "")
    if words and words != ADMITTED:
        raise ConfigError(
            section.at("exact_totals"),
            f'totals without noise have no guarantee. Whoever admits that writes "{ADMITTED}"; leave it out otherwise',
        )
    return bool(words)


def _options(section: Section) -> tuple[Option, ...]:
    names = section.texts("options", ())
    for name in names:
        if name not in OPTIONS:
            raise ConfigError(section.at("options"), f"must be some of {', '.join(OPTIONS)}{nearest(name, OPTIONS)}")
    return tuple(option for option in OPTIONS if option in names)
