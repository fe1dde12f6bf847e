"""After the core: an answer is made of released rows, in an engine that can read nothing else.

Where rows are only named, ordered and cut, that is done here. Otherwise a query runs in DuckDB, in memory. Its rows are
its parameters. Every name in it was resolved when it was read, and every function is on a closed list. The engine has
no access to files and networks, no extensions, and a configuration that is locked.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import duckdb
from msgspec.structs import replace

from sfumato.errors import EngineFailed, NotSupported
from sfumato.query.public import PublicTable
from sfumato.query.sql import Arrangement, ReleasedQuery, Statement
from sfumato.show.text import join_words
from sfumato.types import Type
from sfumato.wire import Note, StoredAnswer, note
from sfumato.wire import notes as codes

MAX_SECONDS = 5.0
PULSE_S = 0.05
MAX_CELLS = 500_000
MAX_INTEGER = 2**63

NOT_COMPUTED = (
    "the rows are released, but what the statement makes of them took too long or too much room; ask for less, which "
    "is free"
)

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "ieee_floating_point_ops": "false",
    "error_on_division_by_zero": "false",
    "max_temp_directory_size": "0KB",
    "memory_limit": "256MB",
    "threads": "1",
}
_KINDS: Mapping[str, Type] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"), "integer"),
    **dict.fromkeys(("FLOAT", "DOUBLE", "DECIMAL"), "number"),
    "VARCHAR": "text",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    '"NULL"': "text",
}
"""The types of columns, by DuckDB's names of them."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How the answer to a statement is made of the stored answer to its core. Thread-safe."""

    statement: Statement
    columns: Mapping[str, Type]

    def apply(self, stored: StoredAnswer, error_among: Callable[[str, int, int], float | None]) -> StoredAnswer:
        """The answer. Rows that are not those of this core, because the policy has changed since, stay as they are.

        `error_among` is the half-width of a measure for so many rows that are chosen from so many by their numbers.
        Raises EngineFailed where it takes too long or too much room. The core is paid for and stored all the same.
        """
        statement, rest = self.statement, self.statement.rest
        if rest is None or statement.columns != stored.columns:
            return stored
        if isinstance(rest, Arrangement):
            rows = arrange(stored.rows, rest, [*self.columns])
        else:
            rows = compute(rest, self.columns, list_rows([(statement.columns, stored.rows)], statement.public))
        error95, sizes = stored.receipt.error95, (len(rows), len(stored.rows))
        if sizes[0] < sizes[1]:
            among = {name: error_among(name, *sizes) if self._is_chosen_by(name) else 0.0 for name in error95}
            error95 = {name: max(error95[name], error) for name, error in among.items() if error is not None}
        errors = self.errors(error95)
        signed = self._signed(errors, stored.receipt.signed)
        noisy = (
            [each.name for each in self.statement.outputs if each.linear.is_noisy] if stored.receipt.measures else []
        )
        measures = [name for name in noisy if name != next(iter(errors), "")]
        receipt = replace(stored.receipt, error95=errors, signed=signed, measures=measures)
        notes = [*stored.notes, *self._notes(errors, stored.receipt.error95)]
        return replace(stored, columns={**self.columns}, rows=rows, receipt=receipt, notes=notes)

    def errors(self, error95: Mapping[str, float]) -> dict[str, int | float]:
        """The half-width of the 95 % interval of each output that has one, from those of the measures of the core."""
        linear = {each.name: each.linear for each in self.statement.outputs}
        widths = {name: each.half_width(error95[each.of]) for name, each in linear.items() if each.of in error95}
        return {name: width for name, width in widths.items() if width is not None}

    def _is_chosen_by(self, measure: str) -> bool:
        """Whether the rows that are left out may follow from the numbers of a measure, and so from their noise."""
        rest, core = self.statement.rest, self.statement.core
        if not isinstance(rest, Arrangement):
            return True
        return measure in dict(rest.order) if rest.order else measure == core.measure

    def _signed(self, errors: Mapping[str, object], signed: Sequence[str]) -> list[str]:
        """The outputs with an interval that may be below zero where the measure without noise is not."""
        outputs = [each for each in self.statement.outputs if each.name in errors]
        return [each.name for each in outputs if each.linear.may_be_negative or each.linear.of in signed]

    def _notes(self, errors: Mapping[str, object], error95: Mapping[str, object]) -> Iterator[Note]:
        """What to know of outputs that depend on noise and have no interval. Measures without one have their note."""
        noisy = [each for each in self.statement.outputs if each.linear.is_noisy and each.name not in errors]
        unknown = [each.name for each in noisy if error95 and (not each.linear.of or each.linear.of in error95)]
        if unknown:
            yield note(codes.NO_INTERVAL, columns=join_words(unknown))

    def combine(self, parts: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
        """The rows of the answer, from the released rows of each core."""
        statement, rest = self.statement, self.statement.rest
        if not isinstance(rest, ReleasedQuery):
            return [dict(row) for rows in parts for row in rows]
        columns = [each.columns for each in statement.cores]
        return compute(rest, self.columns, list_rows(zip(columns, parts, strict=True), statement.public))

    @property
    def noisy(self) -> list[str]:
        """The outputs that depend on noise."""
        return [each.name for each in self.statement.outputs if each.linear.is_noisy]


def list_rows(
    released: Iterable[tuple[Iterable[str], Sequence[Mapping[str, Any]]]], public: Iterable[PublicTable]
) -> list[list[Any]]:
    """The lists that a query takes: the columns of released rows, and those of public tables."""
    lists = [[row[name] for row in rows] for columns, rows in released for name in columns]
    for table in public:
        columns = zip(*table.rows.values(), strict=True) if table.rows else [() for _ in table.columns]
        lists += [[float(each) if isinstance(each, Fraction) else each for each in column] for column in columns]
    return lists


def compute(query: ReleasedQuery, columns: Mapping[str, Type], lists: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """The rows of a query, whose `columns` are these. Raises EngineFailed where it takes too long or too much room."""
    try:
        cells = run(query.text, lists)
    except duckdb.Error:
        try:
            cells = run(query.in_doubles or query.text, lists)
        except duckdb.Error:
            raise EngineFailed(NOT_COMPUTED) from None
    kinds = [*columns.items()]
    return [{name: read_cell(kind, value) for (name, kind), value in zip(kinds, row, strict=True)} for row in cells]


def find_shape(statement: Statement) -> Shape | None:
    """How the answer to a statement is made of the rows of its core; None where it is these rows as they are.

    A refusal depends on no row: the query is bound to relations without rows.
    """
    rest = statement.rest
    if rest is None:
        return None
    names = [output.name for output in statement.outputs]
    if isinstance(rest, Arrangement):
        columns = {name: statement.columns[column] for name, column in zip(names, rest.columns, strict=True)}
        as_stored = not rest.order and not rest.offset and [*columns] == [*statement.columns]
        is_whole = rest.limit is None or getattr(statement.core, "k", None) is not None
        return None if as_stored and is_whole and rest.columns == (*columns,) else Shape(statement, columns)
    return Shape(statement, describe(rest, names, statement.lists))


def describe(query: ReleasedQuery, names: Sequence[str], lists: int) -> dict[str, Type]:
    """The columns of a query with their types: it is bound to relations without rows."""
    try:
        with _engine() as engine:
            described = engine.execute(query.text, [[] for _ in range(lists)]).description
    except duckdb.Error as error:
        raise NotSupported(f"this cannot be computed from released rows: {_first_line(error)}") from None
    kinds = [str(each[1]).partition("(")[0] for each in described or ()]
    for name, kind in zip(names, kinds, strict=True):
        if kind not in _KINDS:
            raise NotSupported(f"{name[:60]} would be of the type {kind[:40]}, which is not supported yet; CAST it")
    return {name: _KINDS[kind] for name, kind in zip(names, kinds, strict=True)}


def arrange(rows: Sequence[Mapping[str, Any]], how: Arrangement, names: Sequence[str]) -> list[dict[str, Any]]:
    """Released rows under other names, ordered and cut. What has no order of its own stays in the order of the draw."""
    ordered = [*rows]
    for column, descends in reversed(how.order):
        ordered.sort(key=lambda row: row[column], reverse=descends)
    end = None if how.limit is None else how.offset + how.limit
    pairs = [*zip(names, how.columns, strict=True)]
    return [{name: row[column] for name, column in pairs} for row in ordered[how.offset : end]]


def run(query: str, lists: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """The rows of a query over released rows, whose columns are `lists`."""
    with _engine() as engine:
        result = engine.execute(query, lists)
        most = MAX_CELLS // max(len(result.description or ()), 1)
        cells = result.fetchmany(most + 1)
    if len(cells) > most:
        raise EngineFailed(NOT_COMPUTED)
    return cells


def read_cell(kind: Type, value: Any) -> Any:
    """A cell of a result as answers have it. What they cannot hold is null: infinities, integers beyond 64 bits."""
    if value is None or kind in ("text", "boolean", "date", "timestamp"):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if kind == "number":
        return float(value) + 0.0
    return int(value) if -MAX_INTEGER <= value < MAX_INTEGER else None


_OPENING = threading.Lock()


@contextmanager
def _engine() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection of its own, which is interrupted after `MAX_SECONDS`."""
    with _OPENING:
        connection, done = _database().cursor(), threading.Event()

    def watch() -> None:
        pause = MAX_SECONDS
        while not done.wait(pause):  # an interrupt before the query has begun is forgotten, so it is repeated
            connection.interrupt()
            pause = PULSE_S

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield connection
    finally:
        done.set()
        watcher.join()
        connection.close()


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """The engine. It has no tables, and nothing can be added to it that lasts."""
    connection = duckdb.connect(":memory:", config=_CONFIG)
    connection.execute("SET GLOBAL python_enable_replacements = false")
    connection.execute("SET GLOBAL lock_configuration = true")
    return connection


def _first_line(error: duckdb.Error) -> str:
    return str(error).splitlines()[0][:200]
