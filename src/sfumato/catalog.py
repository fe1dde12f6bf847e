"""The tables of a configuration, live: their engines, their schemas, and what may be asked of them at a moment."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlglot import exp

from sfumato.config import Config, EngineSettings, Reference, ReportSettings, TableSettings
from sfumato.engines.base import ColumnType, Engine
from sfumato.engines.duckdb import EXTENSIONS, DuckDBEngine
from sfumato.errors import ConfigError, EngineFailed
from sfumato.query.policy import MAX_DOMAIN, Policy, TablePolicy

MAX_ENTITIES = 1_000_000


class Catalog:
    """Open engines, and the policy over them."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._engines: dict[str, Engine] = {}
        self._policy: tuple[tuple[str, ...], Policy] = ((), Policy())
        try:
            for name, settings in config.engines.items():
                self._engines[name] = _opened(config, name, settings)
            self._domains = {name: dict(self._references(table)) for name, table in config.tables.items()}
            self._listed = {name: dict(self._attributes(report)) for name, report in config.reports.items()}
        except BaseException:
            self.close()
            raise

    def engine(self, table: str) -> Engine:
        return self._engines[self._config.tables[table].engine]

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
        """Where the rows of a table come from."""
        return self._origin(self._config.tables[table])

    def policy(self, now: datetime) -> Policy:
        """What may be asked at a moment, which names the data versions; built once for each of them."""
        tables = self._config.tables
        versions = tuple(table.version.at(now) for table in tables.values())
        if self._policy[0] != versions:
            moment = zip(tables.items(), versions, strict=True)
            # A table without measures is there for reports alone.
            built = {name: self._table(table, version) for (name, table), version in moment if table.measures}
            self._policy = (versions, Policy(built, tuple(self._config.reports)))
        return self._policy[1]

    def policy_at(self, table: str, version: str, now: datetime) -> Policy:
        """The policy with one table at another data version."""
        policy = self.policy(now)
        return replace(policy, tables={**policy.tables, table: replace(policy.table(table), version=version)})

    def problems(self) -> Iterator[ConfigError]:
        """Every way in which the configuration does not fit the live schema."""
        for name, table in self._config.tables.items():
            yield from table.problems(self.engine(name).schema(name), self._domains[name])

    def check(self) -> None:
        """Raise `EngineFailed` unless every table can be reached. No row is read."""
        for engine in self._engines.values():
            engine.check()

    def close(self) -> None:
        for engine in self._engines.values():
            engine.close()

    def _table(self, table: TableSettings, version: str) -> TablePolicy:
        policy = table.policy(self.engine(table.name).schema(table.name), self._domains[table.name], version)
        return replace(policy, source=self._origin(table))

    def _origin(self, table: TableSettings) -> str:
        """Where the rows come from, as the owner wrote it: a folder that moved as a whole is the same place."""
        engine = self._config.engines[table.engine]
        database = "" if engine.database is None else os.path.relpath(engine.database, self._config.folder)
        return f"{engine.type} {database} {table.source}"

    def _references(self, table: TableSettings) -> Iterator[tuple[str, tuple[Any, ...]]]:
        for name, column in table.columns.items():
            if isinstance(column.domain, Reference):
                where = f"tables.{table.name}.columns.{name}.domain"
                yield name, _listed(self._engines[table.engine], column.domain, where)

    def _attributes(self, report: ReportSettings) -> Iterator[tuple[str, tuple[Any, ...]]]:
        table = self._config.tables[report.table]
        for name, attribute in report.attributes.items():
            domain = table.columns[name].domain if attribute.domain is None else attribute.domain
            if isinstance(domain, Reference):
                where = f"reports.{report.name}.attributes.{name}.domain"
                domain = _listed(self._engines[table.engine], domain, where)
            yield name, domain or ()


def _opened(config: Config, name: str, settings: EngineSettings) -> Engine:
    """The engine with the tables that live there, and the public tables that list their domains."""
    tables = {table.name: table for table in config.tables.values() if table.engine == name}
    sources = {table: located(settings.source, config.folder) for table, settings in tables.items()}
    for table in tables.values():
        for column in table.columns.values():
            if isinstance(column.domain, Reference):
                sources.setdefault(column.domain.table, located(column.domain.table, config.folder))
    for report in (report for report in config.reports.values() if report.table in tables):
        sources |= {
            public: located(public, config.folder) for public in report.public_tables() if public not in sources
        }
    limits: Mapping[str, Any] = {"memory_limit": settings.memory_limit, "timeout_s": settings.timeout_s}
    types = {name: written_types(table) | _summed(config, name) for name, table in tables.items()}
    try:
        return DuckDBEngine(sources, database=settings.database, types=types, **limits)
    except EngineFailed as failed:
        for setting, public in _public(config, tables):
            start = f"table {public!r}: "
            if str(failed).startswith(start) and public not in tables:
                raise ConfigError(setting, str(failed).removeprefix(start)) from None
        raise


def _public(config: Config, tables: Mapping[str, TableSettings]) -> Iterator[tuple[str, str]]:
    """The settings that name public tables, with what they name."""
    for name, report in config.reports.items():
        if report.table in tables:
            if report.entities is not None:
                yield f"reports.{name}.entities.table", report.entities
            for attribute, described in report.attributes.items():
                if isinstance(described.domain, Reference):
                    yield f"reports.{name}.attributes.{attribute}.domain", described.domain.table
    for table in tables.values():
        for column, written in table.columns.items():
            if isinstance(written.domain, Reference):
                yield f"tables.{table.name}.columns.{column}.domain", written.domain.table


def written_types(table: TableSettings) -> dict[str, str]:
    """The types that the owner wrote; sums are of whole numbers."""
    sums = {measure.column: "integer" for measure in table.measures.values() if measure.column}
    return sums | {name: column.type for name, column in table.columns.items() if column.type}


def _summed(config: Config, table: str) -> dict[str, str]:
    """Columns of counts that reports add up are whole numbers."""
    reports = [report for report in config.reports.values() if report.table == table]
    return {each.column: "integer" for report in reports for each in report.statistics.values() if each.column}


def located(source: str, folder: Path) -> str:
    """Files are found from the configuration's folder, which is no pattern; names of tables are names."""
    if not source.lower().endswith(EXTENSIONS):
        return source
    exact = folder / source
    return str(exact) if exact.is_file() or Path(source).is_absolute() else str(Path(glob.escape(str(folder))) / source)


def _listed(engine: Engine, reference: Reference, where: str) -> tuple[Any, ...]:
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
