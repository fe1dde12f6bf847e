"""The first configuration of a table: its schema is read, and `sfumato.toml` and a noise key are written.

The file holds the names and types of columns, from the engine's schema, and nothing else of the data. Which values
there are, and how much one person contributes, the owner adds: only the owner knows what is public.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

from sqlglot import exp

from sfumato.catalog import Catalog
from sfumato.cli.config_text import Draft, config_text
from sfumato.cli.options import name_options
from sfumato.config import Budget, EngineSettings, noise_key, read_config
from sfumato.engines import engine_class, open_engine
from sfumato.errors import InvalidArgument, NotSupported, find_nearest
from sfumato.explain.buying import EPSILON, BudgetPlan, plan_budget
from sfumato.ledger import check_fence_place
from sfumato.query.plan import plan as plan_request
from sfumato.query.policy import CONNECTIVES, RESERVED, Policy
from sfumato.query.sql import read_sql
from sfumato.query.versions import Rhythm
from sfumato.types import Type

CONFIG, KEY = "sfumato.toml", "noise.key"
_CALLED_LIKE_DATES = re.compile(
    r"(^|[\W_])(?i:date|datum|day|time|datetime|timestamp|dt|ts|month|week)($|[\W_])|_(at|on)$|[a-z](Date|Time|Day|At|On)$"
)
DATABASES = (".duckdb", ".db", ".ddb")


@dataclass(frozen=True, slots=True)
class InitSource:
    """Where the rows are, and which column says whose they are: files, or a table of a DuckDB `database`."""

    source: str
    unit: str
    database: str | None = None
    table: str | None = None


@dataclass(frozen=True, slots=True)
class FirstConfig:
    """What was written; `ask` is a command that works, word by word."""

    config: Path
    key: Path
    table: str
    unit: str
    measure: str
    columns: Mapping[str, str]
    left_out: Mapping[str, str]
    plan: BudgetPlan
    ask: tuple[str, ...]

    @property
    def dates_as_text(self) -> tuple[str, ...]:
        """The columns of text that are called like dates. Only names are looked at."""
        return tuple(name for name, kind in self.columns.items() if kind == "text" and _CALLED_LIKE_DATES.search(name))

    def to_dict(self) -> dict[str, Any]:
        return {
            "config": str(self.config),
            "key": str(self.key),
            "table": self.table,
            "unit": self.unit,
            "measure": self.measure,
            "columns": dict(self.columns),
            "dates_as_text": list(self.dates_as_text),
            "left_out": dict(self.left_out),
            "plan": self.plan.to_dict(),
            "ask": list(self.ask),
        }


def write_first_config(
    folder: str, source: InitSource, *, analyst: str, epsilon: Fraction = EPSILON, version: Rhythm = "daily"
) -> FirstConfig:
    """Write a configuration and a noise key into `folder`. Overwrites nothing; writes no file that cannot be asked.

    `epsilon` is what all questions and releases of a month promise together; `version` says how often new rows count.
    """
    place = Path(folder)
    config, key = place / CONFIG, place / KEY
    for path in (config, key):
        if path.exists() or path.is_symlink():
            raise InvalidArgument("DIR", f"{str(path)!r} exists, and nothing is overwritten; choose another folder")
    if not analyst.strip():
        raise InvalidArgument("--name", "must not be empty")
    with name_options():
        plan = replace(plan_budget(epsilon), histograms=False)  # no column has max_groups yet
    draft = replace(_draft(place, source, analyst, plan), version=version)
    text = config_text(draft)
    settings = read_config(text, place.resolve(), {})
    check_fence_place(settings.ledger, settings.folder)
    catalog = Catalog(settings)
    try:
        policy = catalog.policy(datetime.now(UTC))
    finally:
        catalog.close()
    _write(config, key, text)
    ask = ("sfumato", "ask", "--config", str(config), "--analyst", analyst, _first_question(draft, policy, plan.budget))
    parts = draft.table, draft.unit, draft.measure, draft.columns, draft.left_out
    return FirstConfig(config, key, *parts, plan, ask)


def _draft(folder: Path, source: InitSource, analyst: str, plan: BudgetPlan) -> Draft:
    table = _table_name(source)
    schema = _read_schema(source, table)
    if source.unit not in schema:
        near = find_nearest(source.unit, schema)
        there = "" if near else f"; there is {', '.join(schema)}"
        raise InvalidArgument("--unit", f"the table has no column {source.unit!r}{there}", nearest=near)
    left_out = {name: why for name, kind in schema.items() if (why := _why_left_out(name, kind, source.unit))}
    return Draft(
        source=source.source if source.database is not None else _path_in_config(source.source, folder),
        database=None if source.database is None else _path_in_config(source.database, folder),
        table=table,
        unit=source.unit,
        measure=_measure_name(source.unit, schema),
        rows=_free_name(["entries", "records"], schema),
        columns={name: kind for name, kind in schema.items() if name != source.unit and name not in left_out},
        left_out=left_out,
        analyst=analyst,
        plan=plan,
    )


def _read_schema(source: InitSource, table: str) -> Mapping[str, str]:
    """Names and types of columns. No row is read, except for CSV, where the engine guesses types from a sample."""
    where, path = ("--source", source.source) if source.database is None else ("--database", source.database)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", path):
        raise InvalidArgument(where, "only local files can be read; copy it here first")
    settings = EngineSettings(options={} if source.database is None else {"database": Path(source.database)})
    if source.database is None:
        endings = engine_class(settings.type).endings
        if path.lower().endswith(DATABASES):
            raise InvalidArgument("--source", "is a database; write --database FILE --source TABLE")
        if not path.lower().endswith(tuple(endings)):
            raise InvalidArgument("--source", f"must end in {', '.join(endings)}, or name a table of --database")
    pattern = source.database is None and bool(glob.glob(path, recursive=True))  # noqa: PTH207  (it may be absolute)
    if not Path(path).is_file() and not pattern:
        raise InvalidArgument(where, f"there is no file {path!r} here")
    with open_engine(settings, {table: source.source}) as engine:
        return engine.schema(table)


def _table_name(source: InitSource) -> str:
    """What analysts call the table: --table, or the name of the source without its ending and its stars."""
    if source.table is not None:
        if not source.table.strip():
            raise InvalidArgument("--table", "must not be empty")
        return source.table
    if source.database is not None:
        return source.source.rpartition(".")[2] or "data"
    path = Path(source.source)
    for name in (path.name.partition(".")[0], path.parent.name):
        if plain := re.sub(r"\W+", "_", name).strip("_").lower():
            return plain if not plain[0].isdigit() else f"t_{plain}"
    return "data"


def _measure_name(unit: str, schema: Iterable[str]) -> str:
    """What people are called."""
    return _free_name(["members", "people"] if "member" in unit.casefold() else ["people", "members"], schema)


def _free_name(names: Sequence[str], schema: Iterable[str]) -> str:
    """One of the names, or one with a number, that no column has."""
    columns = {name.casefold() for name in schema}
    others = (f"{names[0]}_{number}" for number in range(2, len(columns) + 3))
    return next(name for name in (*names, *others) if name not in columns)


def _why_left_out(name: str, kind: str, unit: str) -> str:
    """Why a column cannot be asked about; empty if it can."""
    folded = name.casefold()
    if name == unit:
        return ""
    if folded == unit.casefold():
        return "differs from the unit by case only"
    if kind not in get_args(Type):
        return "its type cannot be asked about"
    if folded.startswith(RESERVED) or folded in CONNECTIVES or not name:
        return "its name is taken by Sfumato; rename it in a view"
    return ""


def _path_in_config(path: str, folder: Path) -> str:
    """Relative to the folder of the configuration if it lies below, absolute otherwise."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100  (a glob is not to be resolved)
    for base in (Path(os.path.abspath(folder)), folder.resolve()):  # noqa: PTH100
        if absolute.is_relative_to(base):
            return absolute.relative_to(base).as_posix()
    return str(absolute)


def _write(config: Path, key: Path, text: str) -> None:
    try:
        config.parent.mkdir(parents=True, exist_ok=True)
        noise_key.new_key(key)
        try:
            with config.open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
        except BaseException:
            with suppress(OSError):
                key.unlink()
            raise
    except OSError:
        raise InvalidArgument("DIR", f"{str(config.parent)!r} cannot be written to") from None


def _first_question(draft: Draft, policy: Policy, budget: Budget) -> str:
    """A question in SQL that the budget can pay for, with quotes only where names need them.

    A list of ten, a shorter one, or a total.
    """
    longest = 10 if draft.columns else 0
    for rows in range(longest, -1, -1):
        bare, quoted = (_spell_question(draft, rows, quoted=quoted) for quoted in (False, True))
        if not rows or plan_request(read_sql(quoted, policy), policy, budget.prices).reserve <= budget.cap:
            break
    with suppress(NotSupported):
        if read_sql(bare, policy) == read_sql(quoted, policy):
            return bare
    return quoted


def _spell_question(draft: Draft, rows: int, *, quoted: bool) -> str:
    """A list of so many rows, or a total."""

    def name(text: str) -> exp.Identifier:
        return exp.to_identifier(text, quoted=quoted or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text))

    people = exp.Count(this=exp.Distinct(expressions=[exp.Column(this=name(draft.unit))]))
    table = exp.Table(this=name(draft.table))
    if not rows:
        return exp.select(people).from_(table).sql("duckdb")
    first = exp.Column(this=name(next(iter(draft.columns))))
    query = exp.select(first, people).from_(table).group_by(first.copy()).order_by("2 DESC").limit(rows)
    return query.sql("duckdb")
