"""`[reports.*]`: from TOML to `ReportSettings`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

from sfumato.config.sections import Section, defaults
from sfumato.config.settings import AttributeSettings, GaussianTotal, ReportSettings, StatisticSettings
from sfumato.errors import ConfigError, find_nearest
from sfumato.mechanisms.mechanism import CountNoise
from sfumato.query.policy import RESERVED
from sfumato.query.reports.calendar import ALIASES, Calendar
from sfumato.query.reports.policy import ADMITTED, OPTIONS, Option, options_conflict
from sfumato.query.reports.shares import split_epsilon

MAX_STATISTICS, MAX_ATTRIBUTES, MAX_ENTITY_LEVELS = 12, 64, 8
MAX_EPSILON, MAX_GAUSSIAN_EPSILON = 1000, 100
MIN_DELTA, MAX_DELTA = Fraction(1, 10**15), Fraction(1, 10**3)
MAX_LAG = timedelta(days=366)
MAX_VERSIONS, MAX_EVENTS, MAX_FANOUT = 1000, 10**9, 1000

_LAG = re.compile(r"([0-9]{1,6})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def read_report_settings(name: str, section: Section) -> ReportSettings:
    usual = defaults(ReportSettings)
    calendar = Calendar(section.texts("levels", ("day", "month", "year")), section.text("zone", "UTC"))
    gaussian = read_gaussian(section)
    epsilon = {} if gaussian else read_epsilon(section, calendar)
    levels, entities = read_entities_table(section)
    settings = ReportSettings(
        name=name,
        table=section.text("table"),
        time=section.text("time"),
        calendar=calendar,
        statistics=section.sections("statistics", lambda _, s: read_statistic(s, calendar, epsilon)),
        attributes=section.sections("attributes", lambda _, s: read_attribute(s)),
        levels=levels,
        entities=entities,
        min_count=section.whole("min_count", usual["min_count"], at_most=10**9),
        fanout=section.whole("entity_fanout", usual["fanout"], at_most=MAX_FANOUT),
        lag=read_lag(section) if section.has("lag") else usual["lag"],
        max_versions=section.whole("max_versions", usual["max_versions"], at_least=1, at_most=MAX_VERSIONS),
        cap=section.whole("max_events_per_unit", 0, at_least=1, at_most=MAX_EVENTS) or usual["cap"],
        exact_totals=read_exact_totals(section),
        options=read_options(section),
        gaussian=gaussian,
    )
    _check_sizes(settings, section)
    _check_names(settings, section)
    return settings


def read_statistic(section: Section, calendar: Calendar, epsilon: Mapping[str, Fraction] | None) -> StatisticSettings:
    """A statistic; `epsilon` is that of the report, for one that has none of its own.

    It is empty where noise is Gaussian: then the report's total is divided among all statistics.
    """
    column = section.text("sum") if section.has("sum") else None
    if column is None and section.text("count") != "rows":
        raise ConfigError(section.at("count"), 'must be "rows"; a column of counts is added up by sum = "..."')
    own = epsilon
    if section.has("epsilon"):
        if epsilon == {}:
            problem = "is not for Gaussian noise: the total of the report is divided among all statistics; leave it out"
            raise ConfigError(section.at("epsilon"), problem)
        own = read_epsilon(section, calendar)
    if own is None:
        problem = "is missing, here and in the report; it is that of one cell, such as 1"
        raise ConfigError(section.at("epsilon"), problem)
    where = section.take("where", dict, "a filter, such as { kind = 'click' }", {})
    return StatisticSettings(column, where, own, section.text("of", "") or None)


def read_epsilon(section: Section, calendar: Calendar) -> Mapping[str, Fraction] | None:
    """By level of time: from one number for each of them, one for all, or a total that is divided among them.

    None where it is not written.
    """
    raw = section.take(
        "epsilon", (int, Decimal, dict), "a number, one for each level of time, or { total = ... }", None
    )

    def positive(section: Section, key: str) -> Fraction:
        epsilon = section.number(key)
        if not 0 < epsilon <= MAX_EPSILON:
            raise ConfigError(section.at(key), f"must be above 0 and at most {MAX_EPSILON}")
        return epsilon

    def by_level(below: Section) -> dict[str, Fraction]:
        if below.has("total"):
            return split_epsilon(levels, positive(below, "total"))
        written = {level: next((a for a in ALIASES if ALIASES[a] == level and below.has(a)), level) for level in levels}
        return {level: positive(below, key) for level, key in written.items()}

    levels = calendar.levels
    if isinstance(raw, dict):
        return section.section("epsilon", by_level, None)
    return None if raw is None else dict.fromkeys(levels, positive(section, "epsilon"))


def read_gaussian(section: Section) -> GaussianTotal | None:
    """What a report with Gaussian noise promises; None where its noise is Laplace noise."""
    if section.choice("noise", CountNoise, "laplace") == "laplace":
        if section.has("delta"):
            problem = 'is for Gaussian noise: write noise = "gaussian", or leave it out; Laplace noise has no delta'
            raise ConfigError(section.at("delta"), problem)
        return None
    words = "{ total = ... }: with Gaussian noise it is what one event is promised, over all its cells in one version"
    if "total" not in section.take("epsilon", dict, words, ...):
        raise ConfigError(section.at("epsilon"), f"must be {words}")
    epsilon = section.section("epsilon", lambda below: below.number("total"), Fraction(0))
    if not 0 < epsilon <= MAX_GAUSSIAN_EPSILON:
        raise ConfigError(section.at("epsilon.total"), f"must be above 0 and at most {MAX_GAUSSIAN_EPSILON}")
    if not section.has("delta"):
        problem = "is missing; Gaussian noise promises an epsilon but for a small delta, such as 1e-6"
        raise ConfigError(section.at("delta"), problem)
    delta = section.number("delta")
    if not MIN_DELTA <= delta <= MAX_DELTA:
        raise ConfigError(section.at("delta"), f"must be from {float(MIN_DELTA):g} to {float(MAX_DELTA):g}")
    return GaussianTotal(epsilon, delta)


def read_attribute(section: Section) -> AttributeSettings:
    usual = defaults(AttributeSettings)
    return AttributeSettings(
        separator=section.text("separator", usual["separator"]),
        max_values=section.whole("max_values", usual["max_values"], at_least=1, at_most=1000),
        domain=section.domain() if section.has("domain") else None,
    )


def read_entities_table(section: Section) -> tuple[tuple[str, ...], str | None]:
    """The levels of entities, the top first, and the table that lists them, if there is one."""
    raw = section.take("entities", (list, dict), 'a list of columns, or { levels = [...], table = "..." }', [])
    if isinstance(raw, list):
        return section.texts("entities", ()), None
    read = section.section("entities", lambda s: (s.texts("levels"), s.text("table")), None)
    if read is None or not read[0]:
        problem = "must list the levels, the top first; leave entities out for none"
        raise ConfigError(section.at("entities.levels"), problem)
    return read


def read_lag(section: Section) -> timedelta:
    match = _LAG.fullmatch(section.text("lag"))
    if match is None:
        raise ConfigError(section.at("lag"), 'must be a number of minutes, hours or days, such as "30m", "6h" or "2d"')
    lag = timedelta(**{_UNITS[match[2]]: int(match[1])})
    if lag > MAX_LAG:
        raise ConfigError(section.at("lag"), f"must be at most {MAX_LAG.days}d")
    return lag


def read_exact_totals(section: Section) -> bool:
    """Whether totals have no noise, which the owner must admit in these very words."""
    admits = "which admits that totals without noise have no guarantee; leave it out otherwise"
    words = section.take("exact_totals", str, f'"{ADMITTED}", {admits}', "")
    if words and words != ADMITTED:
        problem = f'totals without noise have no guarantee; to admit that write "{ADMITTED}", otherwise leave it out'
        raise ConfigError(section.at("exact_totals"), problem)
    return bool(words)


def read_options(section: Section) -> tuple[Option, ...]:
    names = section.texts("options", ())
    for name in names:
        if name not in OPTIONS:
            problem, near = f"must be some of {', '.join(OPTIONS)}", find_nearest(name, OPTIONS)
            raise ConfigError(section.at("options"), problem, nearest=near)
    if problem := options_conflict(names):
        raise ConfigError(section.at("options"), problem)
    return tuple(option for option in OPTIONS if option in names)


def _check_sizes(settings: ReportSettings, section: Section) -> None:
    """Not too much of anything, something to count, and a list of entities where children are added up."""
    for key, names, most in (
        ("statistics", settings.statistics, MAX_STATISTICS),
        ("attributes", settings.attributes, MAX_ATTRIBUTES),
        ("entities", settings.levels, MAX_ENTITY_LEVELS),
    ):
        if len(names) > most:
            raise ConfigError(section.at(key), f"there are more than {most}")
    if not settings.statistics:
        raise ConfigError(section.at("statistics"), 'is empty, so there is no number; add clicks = { count = "rows" }')
    if settings.entities is None:
        example = f'entities = {{ levels = {list(settings.levels)}, table = "..." }}'.replace("'", '"')
        if settings.fanout:
            raise ConfigError(section.at("entity_fanout"), f"needs a table that lists the children: {example}")
        if "tree" in settings.options:
            raise ConfigError(section.at("options"), f"tree needs a table that lists the children: {example}")


def _check_names(settings: ReportSettings, section: Section) -> None:
    """Statistics, attributes and the range become columns of one row, and a statistic may name another."""
    used_names = {"start", "end"}
    for key, names in (("attributes", settings.attributes), ("statistics", settings.statistics)):
        for name in names:
            if not name or name.casefold() in used_names or name.casefold().startswith(RESERVED):
                raise ConfigError(section.at(f"{key}.{name}"), "is a name that is taken; give it another")
            used_names.add(name.casefold())
    for name, statistic in settings.statistics.items():
        if statistic.of is not None and statistic.of not in settings.statistics:
            problem, near = f"{statistic.of!r} is not a statistic here", find_nearest(statistic.of, settings.statistics)
            raise ConfigError(section.at(f"statistics.{name}.of"), problem, nearest=near)
