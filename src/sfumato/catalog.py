"""The tables of a configuration, live: their engines, their schemas, and what may be asked of them at a moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlglot import exp

from sfumato.config import RIGHTS, Config, Reference, ReportSettings, TableSettings
from sfumato.engines import ColumnType, Engine, open_engine
from sfumato.errors import ConfigError, EngineFailed, NotSupported
from sfumato.query.filters import canonical_filter
from sfumato.query.policy import MAX_DOMAIN, Policy, TablePolicy
from sfumato.query.predicate import EVERYTHING, Predicate
from sfumato.query.sql import read_filter

MAX_ENTITIES = 1_000_000


class Catalog:
    """Open engines, and the policy over them."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._engines: dict[str, Engine] = {}
        self._policy: tuple[tuple[str, ...], Policy] = ((), Policy())
        self._limits = {name: config.tables_of(name) for name in config.analysts}
        self._views: dict[tuple[frozenset[str] | None, str | None], tuple[Policy, Policy]] = {}
        try:
            for name in config.engines:
                self._engines[name] = self._open(name)
            self._domains = {name: dict(self._references(table)) for name, table in config.tables.items()}
            self._listed = {name: dict(self._attributes(report)) for name, report in config.reports.items()}
        except BaseException:
            self.close()
            raise

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
        versions = tuple(table.version.at(now) for table in tables.values())
        if self._policy[0] != versions:
            moment = zip(tables.items(), versions, strict=True)
            # A table without measures is there for reports alone.
            policies = {name: self._table(table, version) for (name, table), version in moment if table.measures}
            self._policy = (versions, Policy(policies, tuple(self._config.reports)))
        return self._policy[1]

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
            known = self._views[tables, who.where] = policy, Policy(policies, tuple(reports))
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
        config = self._config
        tables = {table.name: table for table in config.tables.values() if table.engine == name}
        sources = {table: settings.source for table, settings in tables.items()}
        public = list(_public_tables(config, tables))
        for _, source in public:
            sources.setdefault(source, source)
        types = {table: written_types(settings) for table, settings in tables.items()}
        for report in config.reports.values():
            if report.table in types:  # columns of counts that reports add up are whole numbers
                types[report.table] |= {each.column: "integer" for each in report.statistics.values() if each.column}
        try:
            return open_engine(config.engines[name], sources, folder=config.folder, types=types)
        except EngineFailed as failed:
            for setting, source in public:
                if source == failed.table and source not in tables:
                    raise ConfigError(setting, failed.problem) from None
            raise

    def _table(self, table: TableSettings, version: str) -> TablePolicy:
        engine = self.engine(table.name)
        policy = table.policy(engine.schema(table.name), self._domains[table.name], version, engine.abilities)
        return replace(policy, source=self.origin(table.name))

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
