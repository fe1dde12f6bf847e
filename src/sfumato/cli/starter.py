"""`sfumato init`: a configuration that can be asked at once.

It holds the names and types of columns, from the engine's schema, and nothing else of the data: what values there are
and how much of anything one person can be are for the owner to say, who knows what is public.
"""

from __future__ import annotations

import glob
import os
import re
import unicodedata
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from sqlglot import exp

from sfumato.catalog import Catalog
from sfumato.config import Config, noise_key, read_config
from sfumato.engines.duckdb import EXTENSIONS, DuckDBEngine
from sfumato.errors import InvalidArgument, NotSupported, nearest
from sfumato.query.policy import CONNECTIVES, RESERVED, Policy
from sfumato.query.sql import read_sql
from sfumato.types import Type

CONFIG, KEY = "sfumato.toml", "noise.key"
DATABASES = (".duckdb", ".db", ".ddb")


@dataclass(frozen=True, slots=True)
class StarterSource:
    """Where the rows are, and whose they are: files, or a table of a DuckDB `database`."""

    source: str
    unit: str
    database: str | None = None
    table: str | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """What was written; `ask` is a command that works, word by word."""

    config: Path
    key: Path
    table: str
    unit: str
    measure: str
    columns: Mapping[str, str]
    left_out: Mapping[str, str]
    ask: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "config": str(self.config),
            "key": str(self.key),
            "table": self.table,
            "unit": self.unit,
            "measure": self.measure,
            "columns": dict(self.columns),
            "left_out": dict(self.left_out),
            "ask": list(self.ask),
        }


@dataclass(frozen=True, slots=True)
class _Draft:
    """What the file will say."""

    source: str
    database: str | None
    table: str
    unit: str
    measure: str
    columns: Mapping[str, str]
    left_out: Mapping[str, str]
    analyst: str


def start(folder: str, source: StarterSource, *, analyst: str) -> Started:
    """Write a configuration and a noise key into `folder`; neither is ever overwritten."""
    place = Path(folder)
    config, key = place / CONFIG, place / KEY
    for path in (config, key):
        if path.exists() or path.is_symlink():
            raise InvalidArgument("DIR", f"{str(path)!r} exists, and nothing is overwritten; choose another folder")
    draft = _draft(place, source, analyst)
    text = written(draft)
    policy = _policy(text, place)
    _write(config, key, text)
    ask = ("sfumato", "ask", "--config", str(config), "--analyst", analyst, _sql(draft, policy))
    parts = draft.table, draft.unit, draft.measure, draft.columns, draft.left_out
    return Started(config, key, *parts, ask)


def _draft(folder: Path, source: StarterSource, analyst: str) -> _Draft:
    if not analyst.strip():
        raise InvalidArgument("--name", "must not be empty")
    table = _table_name(source)
    schema = _schema(source, table)
    if source.unit not in schema:
        hint = nearest(source.unit, schema) or f"; there is {', '.join(schema)}"
        raise InvalidArgument("--unit", f"the table has no column {source.unit!r}{hint}")
    left_out = {name: why for name, kind in schema.items() if (why := _why_left_out(name, kind, source.unit))}
    return _Draft(
        source=source.source if source.database is not None else _path(source.source, folder),
        database=None if source.database is None else _path(source.database, folder),
        table=table,
        unit=source.unit,
        measure=_measure_name(source.unit, schema),
        columns={name: kind for name, kind in schema.items() if name != source.unit and name not in left_out},
        left_out=left_out,
        analyst=analyst,
    )


def _schema(source: StarterSource, table: str) -> Mapping[str, str]:
    """Names and types, from the engine; no row is read for them, but where a CSV has its types guessed."""
    where = "--source" if source.database is None else "--database"
    _check_local(where, source.database or source.source)
    if source.database is None:
        if source.source.lower().endswith(DATABASES):
            raise InvalidArgument("--source", "is a database; write --database FILE --source TABLE")
        if not source.source.lower().endswith(EXTENSIONS):
            raise InvalidArgument("--source", f"must end in {', '.join(EXTENSIONS)}, or name a table of --database")
    database = None if source.database is None else Path(source.database)
    here = _matches(source.source) if database is None else database.is_file()
    if not here:
        raise InvalidArgument(where, f"there is no file {str(database or source.source)!r} here")
    with DuckDBEngine({table: source.source}, database=database) as engine:
        return engine.schema(table)


def _matches(source: str) -> bool:
    return Path(source).is_file() or bool(glob.glob(source, recursive=True))  # noqa: PTH207  (it may be absolute)


def _check_local(argument: str, path: str) -> None:
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", path):
        raise InvalidArgument(argument, "local files are read, and nothing is fetched; copy it here first")


def _table_name(source: StarterSource) -> str:
    """What analysts call it: what the owner says, or the source's own name without its ending and its stars."""
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
    """A measure and a column never share a name."""
    taken = {name.casefold() for name in schema}
    names = ["members", "people"] if "member" in unit.casefold() else ["people", "members"]
    numbered = (f"{names[0]}_{number}" for number in range(2, len(taken) + 3))
    return next(name for name in (*names, *numbered) if name not in taken)


def _why_left_out(name: str, kind: str, unit: str) -> str:
    """Why a column cannot be asked about; nothing where it can."""
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


def _path(path: str, folder: Path) -> str:
    """From the configuration's folder if it lies below, from the root otherwise."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100  (a glob is not to be resolved)
    for base in (Path(os.path.abspath(folder)), folder.resolve()):  # noqa: PTH100
        if absolute.is_relative_to(base):
            return absolute.relative_to(base).as_posix()
    return str(absolute)


def _policy(text: str, folder: Path) -> Policy:
    """What the file will allow. A file that could not be asked is never written."""
    config: Config = read_config(text, folder.resolve(), {})
    catalog = Catalog(config)
    try:
        return catalog.policy(datetime.now(UTC))
    finally:
        catalog.close()


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


def _sql(draft: _Draft, policy: Policy) -> str:
    """A first question, with quotes only where names need them."""
    spellings = [_spelled(draft, quoted=quoted) for quoted in (False, True)]
    with suppress(NotSupported):
        if read_sql(spellings[0], policy) == read_sql(spellings[1], policy):
            return spellings[0]
    return spellings[1]


def _spelled(draft: _Draft, *, quoted: bool) -> str:
    def name(text: str) -> exp.Identifier:
        return exp.to_identifier(text, quoted=quoted or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text))

    people = exp.Count(this=exp.Distinct(expressions=[exp.Column(this=name(draft.unit))]))
    table = exp.Table(this=name(draft.table))
    if not draft.columns:
        return exp.select(people).from_(table).sql("duckdb")
    first = exp.Column(this=name(next(iter(draft.columns))))
    query = exp.select(first, people).from_(table).group_by(first.copy()).order_by("2 DESC").limit(10)
    return query.sql("duckdb")


def quoted(text: str) -> str:
    r"""`text` as a string of TOML, on one line, with everything that does not show written as an escape.

    >>> quoted('a "b"\n\x1b')
    '"a \\"b\\"\\u000A\\u001B"'
    """
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    category = unicodedata.category(char)
    if category.startswith("C") or category in ("Zl", "Zp"):
        return f"\\u{ord(char):04X}" if ord(char) < 0x10000 else f"\\U{ord(char):08X}"
    return char


def bare(name: str) -> str:
    """`name` as a key of TOML, in quotes where it needs them."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quoted(name)


def written(draft: _Draft) -> str:
    """The file."""
    table = f"tables.{bare(draft.table)}"
    database = "" if draft.database is None else f"database = {quoted(draft.database)}\n"
    columns = "".join(
        f'{bare(name)} = {{ type = "{kind}", domain = "unknown" }}\n' for name, kind in draft.columns.items()
    )
    left_out = "".join(f"# {quoted(name)} is left out: {why}.\n" for name, why in draft.left_out.items())
    return _TEMPLATE.format(
        source=quoted(draft.source) + (_GUESSED if draft.database is None and _is_csv(draft.source) else ""),
        database=database,
        table=table,
        unit=f"privacy_unit = {quoted(draft.unit)}".ljust(40),
        columns=columns + left_out,
        measure=bare(draft.measure),
        report=_report(draft),
        analyst=bare(draft.analyst),
    )


def _report(draft: _Draft) -> str:
    """A report that holds as soon as its lines are no comment; or what it lacks."""
    time = next((name for kind in ("timestamp", "date") for name, has in draft.columns.items() if has == kind), None)
    if time is None:
        return "# It needs a column of moments or of days, and this table has none.\n"
    by = [name for name, kind in draft.columns.items() if kind == "text" and name.casefold() not in _TAKEN]
    attributes = f"[reports.overview.attributes]\n{bare(by[0])} = {{ domain = [{_EXAMPLE}] }}\n" if by else ""
    lines = _REPORT.format(table=quoted(draft.table), time=quoted(time), attributes=attributes)
    return "".join(f"# {line}\n" for line in lines.splitlines())


def _is_csv(source: str) -> bool:
    return not source.lower().endswith(".parquet")


_GUESSED = """
# CSV has no types: those below were guessed from a sample of the rows, once; correct them. Without one it is text,
# and a cell that does not fit makes questions fail (a moment: is NULL). Better: Parquet, or a table of DuckDB."""

_TAKEN = ("start", "end", "events")  # columns of every row of the report below
_EXAMPLE = '"one", "another"'

_REPORT = """\
[reports.overview]
table = {table}
time = {time}
zone = "UTC"                           # whose midnights days begin at
levels = ["day", "month", "year"]
lag = "1d"                             # when all rows of a day are surely there; what comes later is not counted
epsilon = 0.1                          # of one cell; what they add up to: sfumato report explain
[reports.overview.statistics]
events = {{ count = "rows" }}
{attributes}"""

_TEMPLATE = """\
# What may be asked about your people, by whom, and how much of it.
# Written by `sfumato init` from the names and types of your columns; nothing else here comes from the data, and nothing
# that you add should: whatever this file says is public. After a change: sfumato policy check

[ledger]                                 # who has spent what; keep it and back it up
url = "sqlite:ledger.db"
# url = "postgresql://sfumato@db.example/sfumato"       # for several machines: pip install 'sfumato[postgres]'

[noise]
key_file = "noise.key"                   # secret: whoever has it can take the noise off

[engines.local]
type = "duckdb"
{database}
[{table}]
engine = "local"
source = {source}
{unit} # whose presence is hidden
version = "daily"                        # how often new rows count: hourly | daily | weekly | monthly
max_k = 100                              # the longest list
# cap = "everyone"                       # a budget for all analysts together, see below

# The columns that may be grouped and filtered by. A column that is not here cannot be asked about.
[{table}.columns]
{columns}\
# What is public makes answers cheaper or more accurate. A line above may become, for example:
# region = {{ domain = ["emea", "apac", "amer"] }}        # all values are known: every group is shown, however small
# title = {{ domain = "unknown", max_groups = 1 }}        # a person has one: a whole histogram costs one unit

# What is counted.
[{table}.measures]
{measure} = {{ count = "units" }}
# visits = {{ count = "rows", max_per_unit = 5 }}         # rows, at most 5 a person and group
# bought = {{ sum = "quantity", max_per_unit = 20 }}      # a column of whole numbers, at most 20 a person and group

# What is shown over time, to everybody the same and at no budget: sfumato report. It has a guarantee of its own, for
# one row. With entities = ["account", "campaign"], columns of yours, it is of one account or one campaign at a time.
{report}
# What this budget means for one person: sfumato policy explain
[budgets.partner]
epsilon_per = 0.15                       # smaller is more private and more noisy
delta_per = 1e-10
information = 3000                       # units; a list of ten costs at most 21, a histogram or a total 1
calls = 30                               # questions about columns whose values are not public
resets = "monthly"                       # never | daily | weekly | monthly
mode = "enforce"                         # "track" counts and never refuses

[analysts.{analyst}]
budget = "partner"
# organisation = "acme"                  # colleagues who share answers share a budget

# [organisations.acme]
# budget = "acme-shared"

# A shared budget has the epsilon_per and delta_per of the budgets of those who share it:
# [budgets.acme-shared]
# epsilon_per = 0.15
# delta_per = 1e-10
# information = 6000
# calls = 60
# resets = "monthly"

# [budgets.everyone]                     # for `cap`
# epsilon_per = 0.15
# delta_per = 1e-10
# information = 10000
# calls = 100
# resets = "monthly"
"""
