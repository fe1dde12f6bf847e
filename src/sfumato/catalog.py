"""The tables of a configuration, live: their engines, their schemas, and what may be asked of them at a moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlglot import exp

from sfumato.config import RIGHTS, Config, PublicSettings, Reference, ReportSettings, TableSettings
from sfumato.engines import ColumnType, Engine, open_engine
from sfumato.engines.places import public_places, table_places
from sfumato.errors import ConfigError, EngineFailed, NeedsRestart, NotSupported
from sfumato.query.filters import canonical_filter
from sfumato.query.policy import MAX_DOMAIN, Column, Policy, TablePolicy
from sfumato.query.predicate import EVERYTHING, Predicate
from sfumato.query.public import MAX_PUBLIC_ROWS, PublicTable, read_public_rows
from sfumato.query.sql import read_filter
from sfumato.query.values import json_value
from sfumato.wire import ColumnBounds, ColumnInfo, MeasureInfo, PublicColumn, PublicRow, TableRow

MAX_ENTITIES = 1_000_000


class Catalog:
    """Open engines, and the policy over them. With `opened`, it is another policy over the engines of that catalog."""

    def __init__(self, config: Config, opened: Catalog | None = None) -> None:
        self._config = config
        self._engines: dict[str, Engine] = {}
        self._opened: dict[str, EngineTables] = {}
        self._policy: tuple[tuple[str, ...], Policy] = ((), Policy())
        self._public: dict[str, PublicTable] = {}
        self._limits = {name: config.tables_of(name) for name in config.analysts}
        self._views: dict[tuple[frozenset[str] | None, str | None], tuple[Policy, Policy]] = {}
        try:
            for name in config.engines:
                self._engines[name] = self._open(name) if opened is None else opened.lend(name, config)
                self._opened[name] = tables_read(config, name) if opened is None else opened._opened[name]
            self._domains = {name: dict(self._references(table)) for name, table in config.tables.items()}
            self._listed = {name: dict(self._attributes(report)) for name, report in config.reports.items()}
        except BaseException:
            if opened is None:
                self.close()
            raise

    def lend(self, engine: str, config: Config) -> Engine:
        """An open engine, for a configuration that reads no more of it than it was opened with."""
        read, opened = tables_read(config, engine), self._opened.get(engine)
        if opened is None:
            raise NeedsRestart(f"engines.{engine}")
        for name, source in read.sources.items():
            same = opened.sources.get(name) == source and opened.types.get(name) == read.types.get(name)
            if not same:
                raise NeedsRestart(f"tables.{name}")
        return self._engines[engine]

    def engine(self, table: str) -> Engine:
        return self._engines[self._config.tables[table].engine]

    def views(self) -> frozenset[str]:
        """The tables whose sources are views."""
        return frozenset(table for table in self._config.tables if self.engine(table).is_view(table))

    def schema(self, table: str) -> dict[str, ColumnType]:
        return self.engine(table).schema(table)

    def domains(self, report: str) -> Mapping[str, tuple[Any, ...]]:
        """The values of a report's attributes, as they are listed in the file or in a public table."""
        return self._listed[report]

    def entities(self, report: str) -> list[tuple[Any, ...]] | None:
        """The rows of the public table that lists a report's entities, as they are now; None where there is none."""
        settings = self._config.reports[report]
        if settings.entities is None:
            return None
        engine, where = self.engine(settings.table), f"reports.{report}.entities"
        missing = [level for level in settings.levels if level not in engine.schema(settings.entities)]
        if missing:
            raise ConfigError(f"{where}.levels", f"{settings.entities} has no column {missing[0]!r}")
        columns = [exp.column(level, quoted=True) for level in settings.levels]
        source = exp.table_(settings.entities, quoted=True)
        rows = engine.run(exp.select(*columns).distinct().from_(source).order_by(*columns).limit(MAX_ENTITIES + 1))
        if len(rows) > MAX_ENTITIES:
            raise ConfigError(f"{where}.table", f"{settings.entities} lists more than {MAX_ENTITIES} entities")
        return rows

    def origin(self, table: str) -> str:
        """Where the rows of a table come from, as the owner wrote it. It enters digests (`Engine.origin`)."""
        config, settings = self._config, self._config.tables[table]
        return self.engine(table).origin(config.engines[settings.engine], settings.source, config.folder)

    def policy(self, now: datetime) -> Policy:
        """What may be asked at a moment, which names the data versions; built once for each of them."""
        tables = self._config.tables
        states = [each.version for each in tables.values()] + [each.version for each in self._config.public.values()]
        versions = tuple(state.at(now) for state in states)
        if self._policy[0] != versions:
            public = {name: self._public_table(each, now) for name, each in self._config.public.items()}
            moment = zip(tables.items(), versions, strict=False)
            # A table without measures is there for reports alone.
            policies = {
                name: self._table(table, version, public) for (name, table), version in moment if table.measures
            }
            self._policy = (versions, Policy(policies, tuple(self._config.reports), public))
        return self._policy[1]

    def _public_table(self, settings: PublicSettings, now: datetime) -> PublicTable:
        """A public table as it is in the version of a moment. Its rows are read once per version."""
        name, version, config = settings.name, settings.version.at(now), self._config
        known = self._public.get(name)
        if known is None or known.version != version:
            engine = self._engines[settings.engine]
            schema = engine.schema(name)
            for problem in settings.problems(schema):
                raise problem
            people = [table for table in config.tables if table_places(config, table) & public_places(config, name)]
            if people:
                words = f"has the rows of {people[0]}, a table about people, and cannot be public"
                raise ConfigError(f"tables.{name}.source", words)
            columns = settings.columns(schema)
            query = exp.select(*(exp.column(each, quoted=True) for each in columns))
            rows = engine.run(query.from_(exp.table_(name, quoted=True)).limit(MAX_PUBLIC_ROWS + 1))
            origin = engine.origin(config.engines[settings.engine], settings.source, config.folder)
            read = read_public_rows(name, settings.key, columns, rows)
            known = self._public[name] = replace(read, version=version, source=origin)
        return known

    def policy_of(self, analyst: str, now: datetime) -> Policy:
        """What an analyst may ask at a moment: other tables are not in it. The same object while it is the same."""
        policy, who, tables = self.policy(now), self._config.analyst(analyst), self._limits[analyst]
        if who.role not in RIGHTS["estimate"]:
            tables = frozenset()
        if tables is None and who.where is None:
            return policy
        known = self._views.get((tables, who.where))
        if known is None or known[0] is not policy:
            policies = {
                name: replace(table, row_filter=self._row_filter(analyst, table))
                for name, table in policy.tables.items()
                if tables is None or name in tables
            }
            reports = [
                name for name, report in self._config.reports.items() if tables is None or report.table in tables
            ]
            known = self._views[tables, who.where] = policy, Policy(policies, tuple(reports), policy.public)
        return known[1]

    def _row_filter(self, analyst: str, table: TablePolicy) -> Predicate:
        """The filter that an analyst's questions about a table get in addition."""
        where = self._config.analysts[analyst].where
        try:
            return EVERYTHING if where is None else canonical_filter(read_filter(where, table), table)
        except NotSupported as problem:
            way_out = f"list the tables that it fits in analysts.{analyst}.tables"
            raise ConfigError(f"analysts.{analyst}.where", f"{problem} (table {table.name}); {way_out}") from None

    def policy_at(self, analyst: str, table: str, version: str, now: datetime) -> Policy:
        """What an analyst may ask, with one table at another data version."""
        policy = self.policy_of(analyst, now)
        return replace(policy, tables={**policy.tables, table: replace(policy.table(table), version=version)})

    def problems(self) -> Iterator[ConfigError]:
        """Every way in which the configuration does not fit the live schema."""
        for name, table in self._config.tables.items():
            engine = self.engine(name)
            yield from table.problems(engine.schema(name), self._domains[name], engine.abilities)
        for name, public in self._config.public.items():
            yield from public.problems(self._engines[public.engine].schema(name))

    def right_problems(self, now: datetime) -> Iterator[ConfigError]:
        """Every analyst whose `where` does not fit a table that she may ask about."""
        for analyst in self._config.analysts:
            try:
                self.policy_of(analyst, now)
            except ConfigError as problem:
                yield problem

    def check(self) -> None:
        """Raise `EngineFailed` unless every table can be reached. No row is read."""
        for engine in self._engines.values():
            engine.check()

    def close(self) -> None:
        for engine in self._engines.values():
            engine.close()

    def _open(self, name: str) -> Engine:
        """An engine with the tables that live there, and the public tables that list their domains."""
        config, read = self._config, tables_read(self._config, name)
        try:
            return open_engine(config.engines[name], read.sources, folder=config.folder, types=read.types)
        except EngineFailed as failed:
            for setting, source in read.public:
                if source == failed.table and source not in read.types:
                    raise ConfigError(setting, failed.problem, nearest=failed.nearest) from None
            raise

    def _table(self, table: TableSettings, version: str, public: Mapping[str, PublicTable]) -> TablePolicy:
        engine = self.engine(table.name)
        policy = table.policy(engine.schema(table.name), self._domains[table.name], version, engine.abilities)
        beside = {name: each for name, each in public.items() if self._config.public[name].engine == table.engine}
        return replace(policy, source=self.origin(table.name), public=beside)

    def _references(self, table: TableSettings) -> Iterator[tuple[str, tuple[Any, ...]]]:
        for name, column in table.columns.items():
            if isinstance(column.domain, Reference):
                where = f"tables.{table.name}.columns.{name}.domain"
                yield name, _read_values(self._engines[table.engine], column.domain, where)

    def _attributes(self, report: ReportSettings) -> Iterator[tuple[str, tuple[Any, ...]]]:
        table = self._config.tables[report.table]
        for name, attribute in report.attributes.items():
            domain = table.columns[name].domain if attribute.domain is None else attribute.domain
            if isinstance(domain, Reference):
                where = f"reports.{report.name}.attributes.{name}.domain"
                domain = _read_values(self._engines[table.engine], domain, where)
            yield name, domain or ()


@dataclass(frozen=True, slots=True)
class EngineTables:
    """What an engine reads: the source of each table, the types that the owner wrote, and who names public tables."""

    sources: Mapping[str, str]
    types: Mapping[str, Mapping[str, str]]
    public: Sequence[tuple[str, str]]


def tables_read(config: Config, engine: str) -> EngineTables:
    """What one engine reads for a configuration."""
    tables = {table.name: table for table in config.tables.values() if table.engine == engine}
    sources = {table: settings.source for table, settings in tables.items()}
    dimensions = {name: each for name, each in config.public.items() if each.engine == engine}
    sources |= {name: each.source for name, each in dimensions.items()}
    public = list(_public_tables(config, tables))
    for _, source in public:
        sources.setdefault(source, source)
    types: dict[str, dict[str, str]] = {table: written_types(settings) for table, settings in tables.items()}
    types |= {name: dict(each.types) for name, each in dimensions.items()}
    for report in config.reports.values():
        if report.table in types:  # columns of counts that reports add up are whole numbers
            types[report.table] |= {each.column: "integer" for each in report.statistics.values() if each.column}
    return EngineTables(sources, types, public)


def _public_tables(config: Config, tables: Mapping[str, TableSettings]) -> Iterator[tuple[str, str]]:
    """The settings that name public tables, and the table that each names."""
    for name, report in config.reports.items():
        if report.table in tables:
            if report.entities is not None:
                yield f"reports.{name}.entities.table", report.entities
            for attribute, settings in report.attributes.items():
                if isinstance(settings.domain, Reference):
                    yield f"reports.{name}.attributes.{attribute}.domain", settings.domain.table
    for table in tables.values():
        for column, written in table.columns.items():
            if isinstance(written.domain, Reference):
                yield f"tables.{table.name}.columns.{column}.domain", written.domain.table


def written_types(table: TableSettings) -> dict[str, str]:
    """The column types that the owner wrote; sums are of whole numbers."""
    sums = {measure.column: "integer" for measure in table.measures.values() if measure.column}
    return sums | {name: column.type for name, column in table.columns.items() if column.type}


def _read_values(engine: Engine, reference: Reference, where: str) -> tuple[Any, ...]:
    """The values of a public reference column."""
    if reference.column not in engine.schema(reference.table):
        raise ConfigError(where, f"{reference.table} has no column {reference.column!r}")
    column = exp.column(reference.column, quoted=True)
    query = exp.select(column).distinct().from_(exp.table_(reference.table, quoted=True)).limit(MAX_DOMAIN + 1)
    try:
        values = tuple(value for (value,) in engine.run(query) if value is not None)
    except EngineFailed:
        raise ConfigError(where, f"{reference.table} could not be read") from None
    if not 1 <= len(values) <= MAX_DOMAIN:
        raise ConfigError(where, f"must list 1 to {MAX_DOMAIN} values")
    return values


def describe_tables(policy: Policy) -> tuple[list[TableRow], list[PublicRow]]:
    """What a policy allows to ask about, as it travels: tables of people, and public ones."""
    public = [
        PublicRow(each.name, each.key, [PublicColumn(name=name, type=kind) for name, kind in each.columns.items()])
        for each in policy.public.values()
    ]
    return [_describe(table) for table in policy.tables.values()], public


def _describe_column(column: Column) -> ColumnInfo:
    domain: Any = "unknown" if column.domain is None else [json_value(value) for value in column.domain]
    info = ColumnInfo(name=column.name, type=column.type, domain=domain, max_groups=column.max_groups)
    if (bounds := bounds_info(column)) is not None:
        info["bounds"] = bounds
    return info


def bounds_info(column: Column) -> ColumnBounds | None:
    """The bounds of a column as they travel; None where it has none."""
    if column.bounds is None:
        return None
    low, high, step = column.bounds.texts()
    return ColumnBounds(min=low, max=high, step=step, max_per_unit=column.bounds.max_per_unit)


def _describe(table: TablePolicy) -> TableRow:
    columns = [_describe_column(column) for column in table.columns.values()]
    measures = [
        MeasureInfo(name=measure.name, counts=measure.counts, max_per_unit=measure.max_per_unit)
        for measure in table.measures.values()
    ]
    return TableRow(table.name, table.privacy_unit, columns, measures)
