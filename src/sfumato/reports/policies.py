"""Reports over live tables: types from the schema, domains and entities from public tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, cast

from sfumato.catalog import Catalog
from sfumato.config import AttributeSettings, Config, ReportSettings, StatisticSettings
from sfumato.errors import ConfigError, InvalidArgument, NotSupported, SfumatoError, find_nearest
from sfumato.query.abilities import Abilities
from sfumato.query.filters import canonical_filter
from sfumato.query.policy import Column, TablePolicy
from sfumato.query.reports.entities import Entities
from sfumato.query.reports.policy import Attribute, ReportPolicy, ReportStatistic, with_gaussian_noise
from sfumato.query.values import json_value
from sfumato.types import TYPES, Type

LISTS = "list of "


def report_policies(config: Config, catalog: Catalog) -> dict[str, ReportPolicy]:
    """Every report of a configuration; `ConfigError` where one does not fit the live schema."""
    return {name: build_policy(config, catalog, settings) for name, settings in config.reports.items()}


def report_problems(config: Config, catalog: Catalog) -> Iterator[ConfigError]:
    """The first way in which each report does not fit the live schema."""
    for settings in config.reports.values():
        try:
            entities = read_entities(build_policy(config, catalog, settings), catalog)
            yield from _tenancy_problems(config, settings, entities)
        except ConfigError as problem:
            yield problem
        except SfumatoError as problem:
            yield ConfigError(f"reports.{settings.name}", str(problem))


def _tenancy_problems(config: Config, settings: ReportSettings, entities: Entities) -> Iterator[ConfigError]:
    """Entities in an analyst's tenancy that no row can have, or that are several."""
    for name, analyst in config.analysts.items():
        for level, names in (analyst.entities or {}).items():
            for each in names if level in settings.levels else ():
                if problem := entities.problem(level, each):
                    yield ConfigError(f"analysts.{name}.entities.{level}", problem)


def read_entities(policy: ReportPolicy, catalog: Catalog) -> Entities:
    """A report's entities, as their table lists them now."""
    kinds = {level: policy.types[level] for level in policy.levels if level in policy.types}
    rows = catalog.entities(policy.name)
    if rows is None:
        return Entities(policy.levels, kinds=kinds)
    if policy.reach == "leaf":
        leaves = [row[-1] for row in rows if row[-1] is not None]
        if len(set(leaves)) < len(leaves):
            problem = f"must list each {policy.levels[-1]} once; otherwise it is not known whose an event is"
            raise ConfigError(f"reports.{policy.name}.entities.table", problem)
    paths = (tuple(None if name is None else str(json_value(name)) for name in row) for row in rows)
    return Entities(policy.levels, paths, kinds)


def build_policy(config: Config, catalog: Catalog, settings: ReportSettings) -> ReportPolicy:
    """The policy of one report: its settings with the types and the domains of the live tables."""
    here, schema = f"reports.{settings.name}", catalog.schema(settings.table)
    table, types = config.tables[settings.table], schema | _list_types(settings, catalog)
    abilities = catalog.engine(settings.table).abilities
    try:
        policy = ReportPolicy(
            name=settings.name,
            table=settings.table,
            time=settings.time,
            calendar=settings.calendar,
            statistics={
                name: _statistic(name, each, schema, abilities, f"{here}.statistics.{name}")
                for name, each in settings.statistics.items()
            },
            attributes={
                name: _attribute(name, each, catalog.domains(settings.name)[name], types, f"{here}.attributes.{name}")
                for name, each in settings.attributes.items()
            },
            levels=settings.levels,
            reach=_reach(settings, schema, f"{here}.entities"),
            types={name: cast(Type, kind) for name, kind in schema.items() if kind in TYPES},
            unit=table.privacy_unit,
            min_count=settings.min_count,
            fanout=settings.fanout,
            lag=settings.lag,
            max_versions=settings.max_versions,
            cap=settings.cap,
            exact_totals=settings.exact_totals,
            options=settings.options,
            source=catalog.origin(settings.table),
        )
        if settings.gaussian is not None:
            policy = with_gaussian_noise(policy, settings.gaussian.epsilon, settings.gaussian.delta)
    except InvalidArgument as problem:
        raise ConfigError(f"{here}.{problem.argument}", problem.problem, nearest=problem.nearest) from None
    _check_time(policy, schema, f"{here}.time")
    for name, attribute in policy.attributes.items():
        if unable := abilities.key_problem(name, attribute.type):
            raise ConfigError(f"{here}.attributes.{name}", unable)
    if settings.cap is not None:
        if unable := abilities.cap_problem():
            raise ConfigError(f"{here}.max_events_per_unit", unable)
        _type_of(table.privacy_unit, schema, f"tables.{table.name}.privacy_unit")
    return policy


def _check_time(policy: ReportPolicy, schema: Mapping[str, str], where: str) -> None:
    kind = _type_of(policy.time, schema, where)
    if kind not in ("date", "timestamp"):
        way = f'[tables.{policy.table}.columns] {policy.time} = {{ type = "timestamp" }}'
        hint = f"; of a CSV file, write {way}, and else cast it in a view" if kind == "text" else ""
        raise ConfigError(where, f"must be a column of moments or of days; {policy.time} holds {kind}{hint}")
    if kind == "date" and not policy.calendar.days:
        finest = policy.calendar.levels[0]
        raise ConfigError(where, f"{policy.time} holds days, which have no {finest}; begin the levels with day")


def _statistic(
    name: str, settings: StatisticSettings, schema: Mapping[str, str], abilities: Abilities, where: str
) -> ReportStatistic:
    if settings.column is not None and _type_of(settings.column, schema, f"{where}.sum") != "integer":
        raise ConfigError(f"{where}.sum", f"must be a column of whole numbers; {settings.column} is not")
    columns = {column: Column(column, cast(Type, kind)) for column, kind in schema.items() if kind in TYPES}
    plain = replace(abilities, functions=frozenset(), name="a report")  # its query has no place for expressions
    try:
        predicate = canonical_filter(settings.where, TablePolicy("the table", "", columns, {}, abilities=plain))
    except (InvalidArgument, NotSupported) as problem:
        raise ConfigError(f"{where}.where", str(problem)) from None
    return ReportStatistic(name, settings.epsilon, settings.column, predicate, settings.of)


def _attribute(
    name: str, settings: AttributeSettings, domain: tuple[Any, ...], schema: Mapping[str, str], where: str
) -> Attribute:
    live = _type_of(name, schema, where)
    several = live.startswith(LISTS) or bool(settings.separator)
    if live == "other":
        raise ConfigError(where, f"{name} must hold text, numbers, days, or lists of text or of whole numbers")
    if settings.max_values > 1 and not several:
        raise ConfigError(f"{where}.max_values", "needs a column of lists, or a separator in a column of text")
    if settings.separator and live != "text":
        raise ConfigError(f"{where}.separator", f"is for text; {name} holds {live}")
    kind = cast(Type, live.removeprefix(LISTS))
    try:
        values = Column(name, kind, domain).domain or ()
    except (InvalidArgument, NotSupported) as problem:
        raise ConfigError(f"{where}.domain", str(problem)) from None
    return Attribute(name, kind, values, settings.max_values, several, settings.separator)


def _list_types(settings: ReportSettings, catalog: Catalog) -> dict[str, str]:
    """The types of attributes that are lists, such as "list of text"."""
    lists = catalog.engine(settings.table).lists(settings.table)
    return {name: LISTS + kind for name, kind in lists.items() if name in settings.attributes}


def _reach(settings: ReportSettings, schema: Mapping[str, str], where: str) -> Literal["columns", "leaf"]:
    """How the rows name their entity: by a column for each level, or by the lowest, whose parents a table lists."""
    levels = [level for level in settings.levels if level in schema]
    if len(levels) < len(settings.levels) and (settings.entities is None or settings.levels[-1] not in levels):
        missing = next(level for level in settings.levels if level not in levels)
        raise ConfigError(where, f"{missing} is not in the table", nearest=find_nearest(missing, schema))
    for level in levels:
        if schema[level] not in ("text", "integer"):
            raise ConfigError(where, f"{level} must hold text or whole numbers, which name an entity")
    return "columns" if len(levels) == len(settings.levels) else "leaf"


def _type_of(column: str, schema: Mapping[str, str], where: str) -> str:
    if column not in schema:
        raise ConfigError(where, f"{column} is not in the table", nearest=find_nearest(column, schema))
    return schema[column]
