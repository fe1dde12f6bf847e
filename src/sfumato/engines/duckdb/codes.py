"""Integer codes for the values of people and keys: distances from the smallest integer, or places in a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from sqlglot import exp

from sfumato.engines.contributions import Affine, CodeValues, Listed, check_present
from sfumato.engines.duckdb.types import FLOATS, IDENTIFYING, INTEGERS, NUMBERS, WIDE_INTEGERS, bare
from sfumato.engines.duckdb.workspace import Workspace
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.noise import Integers


@dataclass(frozen=True, slots=True)
class CodedColumn:
    """A column of the source."""

    name: str
    kind: str

    @property
    def family(self) -> str:
        """What a column must share with another for their values to be compared."""
        if self.kind in INTEGERS | WIDE_INTEGERS:
            return "integer"
        return "VARCHAR" if self.kind == "ENUM" else self.kind

    def value(self, table: str = "source") -> exp.Expr:
        """The column in a form in which equal values are identical."""
        column: exp.Expr = exp.column(self.name, table, quoted=True)
        if self.kind == "ENUM":
            return exp.cast(column, "VARCHAR")  # else it would sort by the order of its declaration
        if self.kind in FLOATS:
            return exp.Add(this=column, expression=exp.Literal.number("0.0"))  # no negative zero
        return column

    def usable(self) -> list[exp.Expr]:
        """Neither NULL nor NaN."""
        column = exp.column(self.name, "source", quoted=True)
        return [column.is_(exp.null()).not_(), *self.not_nan()]

    def not_nan(self) -> list[exp.Expr]:
        if self.kind not in FLOATS:
            return []
        column = exp.column(self.name, "source", quoted=True)
        return [exp.Coalesce(this=exp.func("isnan", column), expressions=[exp.false()]).not_()]

    def number(self) -> exp.Expr:
        """The column in floating point, NaN for NULL."""
        column = exp.cast(exp.column(self.name, "source", quoted=True), "DOUBLE")
        return exp.Coalesce(this=column, expressions=[exp.cast(exp.Literal.string("nan"), "DOUBLE")])


@dataclass(frozen=True, slots=True)
class DistanceCodes:
    """Integers by their distance from the smallest one. Values between two that occur have codes too."""

    column: CodedColumn
    low: int
    size: int

    @property
    def values(self) -> CodeValues:
        return Affine(self.low)

    @property
    def usable(self) -> list[exp.Expr]:
        """A row that came after the range was read would overflow into its neighbour's bits."""
        ends = number(self.low), number(self.low + self.size - 1)
        return [*self.column.usable(), exp.Between(this=self.column.value(), low=ends[0], high=ends[1])]

    def code(self) -> exp.Expr:
        value = self.column.value()
        wide = value if self.column.kind == "UBIGINT" else exp.cast(value, "BIGINT")
        return exp.cast(exp.paren(exp.Sub(this=wide, expression=number(self.low))), "BIGINT")

    def join(self, query: exp.Select) -> exp.Select:
        return query

    def divide(self, at: int, sets: int) -> tuple[exp.Expr, exp.Expr | None]:
        """The codes in set number `at`, and who is in it. By a hash, because identifiers can have a step."""
        if sets == 1:
            return self.code(), None
        return self.code(), _in_set(exp.func("hash", self.column.value()), at, sets)

    def part(self, at: int, sets: int) -> CodeValues:
        """The 64 bits behind the codes of set number `at`."""
        return self.values

    def decode(self, workspace: Workspace, codes: Integers) -> list[tuple[Any, ...]]:
        return [(code + self.low,) for code in codes.tolist()]


@dataclass(frozen=True, slots=True)
class TableCodes:
    """Values by their place in a table of codes.

    Where DuckDB's hashes of all of them are different, rows are matched by hash. That is faster for text, and as exact,
    because every row's value is in the table.
    """

    columns: tuple[CodedColumn, ...]
    table: str
    listed: Listed
    by_hash: bool

    @classmethod
    def make(
        cls, workspace: Workspace, source: exp.Subquery, columns: tuple[CodedColumn, ...], *, ordered: bool
    ) -> TableCodes:
        """Write the distinct values of `source` to a table of the workspace."""
        table = workspace.keep(_distinct(source, columns, ordered=ordered))
        found = workspace.arrays(exp.select("code", "bits", "hash").from_(table))
        bits = np.empty(len(found["code"]), np.uint64)
        bits[found["code"]] = found["bits"].view(np.uint64)
        integer = len(columns) == 1 and columns[0].kind in INTEGERS
        return cls(columns, table, Listed(bits), by_hash=not integer and all_different(found["hash"]))

    @property
    def size(self) -> int:
        return len(self.listed.values)

    @property
    def values(self) -> CodeValues:
        return self.listed

    @property
    def usable(self) -> list[exp.Expr]:
        return [condition for column in self.columns for condition in column.usable()]

    def code(self) -> exp.Expr:
        return exp.column("code", self.table)

    def join(self, query: exp.Select) -> exp.Select:
        values = [column.value() for column in self.columns]
        same = [exp.EQ(this=value, expression=self._value(at)) for at, value in enumerate(values)]
        if self.by_hash:
            same = [exp.EQ(this=exp.func("hash", *values), expression=exp.column("hash", self.table))]
        return query.join(exp.to_table(self.table), on=exp.and_(*same))

    def for_columns(self, columns: tuple[CodedColumn, ...]) -> TableCodes:
        """The same codes for the values of other columns: not by hash, as they may have values that are not listed."""
        return replace(self, columns=columns, by_hash=False)

    def _value(self, at: int) -> exp.Column:
        return exp.column(f"value{at}", self.table)

    def divide(self, at: int, sets: int) -> tuple[exp.Expr, exp.Expr | None]:
        """The codes in set number `at`, and who is in it."""
        if sets == 1:
            return self.code(), None
        return exp.IntDiv(this=self.code(), expression=number(sets)), _in_set(self.code(), at, sets)

    def part(self, at: int, sets: int) -> CodeValues:
        """The 64 bits behind the codes of set number `at`."""
        return Listed(np.ascontiguousarray(self.listed.values[at::sets]))

    def decode(self, workspace: Workspace, codes: Integers) -> list[tuple[Any, ...]]:
        """The values of these codes, by one scan of the table, whatever the number of codes."""
        wanted = np.zeros(self.size, np.bool_)
        wanted[codes] = True
        query = exp.select("code", *(self._value(at) for at in range(len(self.columns)))).from_(self.table)
        if len(codes) < self.size // 8:
            query = query.where(exp.column("code").isin(*codes.tolist()))
        by_code = {code: tuple(values) for code, *values in workspace.rows(query) if wanted[code]}
        return [by_code[code] for code in codes.tolist()]


Coding: TypeAlias = DistanceCodes | TableCodes


def _distinct(source: exp.Subquery, columns: tuple[CodedColumn, ...], *, ordered: bool) -> exp.Select:
    """The distinct values with their codes and 64 bits; `ordered` codes ascend by (64 bits, value)."""
    names = [f"value{at}" for at in range(len(columns))]
    values = [exp.alias_(column.value(), alias) for column, alias in zip(columns, names, strict=True)]
    usable = [condition for column in columns for condition in column.usable()]
    distinct = exp.select(*values).distinct().from_(source).where(*usable).subquery("found")
    hashes = (
        exp.alias_(_bits_of(columns, names), "bits"),
        exp.alias_(exp.func("hash", *map(exp.column, names)), "hash"),
    )
    hashed = exp.select(*names, *hashes).from_(distinct).subquery("hashed")
    order = exp.Order(expressions=[exp.column(alias) for alias in ("bits", *names)])
    place = exp.Window(this=exp.RowNumber(), order=order if ordered else None)
    code = exp.alias_(exp.Sub(this=place, expression=number(1)), "code")
    return exp.select(*names, "bits", "hash", code).from_(hashed)


def _bits_of(columns: Sequence[CodedColumn], names: Sequence[str]) -> exp.Expr:
    """64 bits of a value, for ever: an integer of up to 64 bits as it is, else from the MD5 of texts with lengths.

    By hexadecimal digits: `md5_number_lower` takes more than twice the time.
    """
    if len(columns) == 1 and columns[0].kind in INTEGERS:
        return exp.cast(exp.column(names[0]), "UBIGINT" if columns[0].kind == "UBIGINT" else "BIGINT", dialect="duckdb")
    texts = [exp.cast(exp.column(name), "VARCHAR") for name in names]
    pieces = [piece for text in texts for piece in (exp.func("length", text.copy()), exp.Literal.string(":"), text)]
    digits = exp.func("left", exp.MD5(this=exp.func("concat", *pieces)), number(16))
    bits = exp.cast(exp.func("concat", exp.Literal.string("0x"), digits), "UBIGINT", dialect="duckdb")
    return exp.cast(exp.cast(bits, "BIT", dialect="duckdb"), "BIGINT")  # the same bits, with a sign


def all_different(hashes: np.ndarray[Any, Any]) -> bool:
    """Whether no two hashes are equal. Sorts in place."""
    hashes.sort()
    return not np.equal(hashes[1:], hashes[:-1]).any()


def _in_set(value: exp.Expr, at: int, sets: int) -> exp.Expr:
    return exp.EQ(this=exp.Mod(this=exp.paren(value), expression=number(sets)), expression=number(at))


def number(value: int) -> exp.Expr:
    """A whole number, also a negative one."""
    return exp.Literal.number(value) if value >= 0 else exp.paren(exp.Neg(this=exp.Literal.number(-value)))


def identifying_columns(argument: str, names: tuple[str, ...], kinds: Mapping[str, str]) -> tuple[CodedColumn, ...]:
    """Columns that tell people or keys apart; refuses all others."""
    if not names:
        raise InvalidArgument(argument, "must be different columns, at least one")
    problem = "which cannot tell people or keys apart; cast it in the frame or in a view"
    return _find(argument, names, kinds, IDENTIFYING, problem)


def value_columns(names: tuple[str, ...], kinds: Mapping[str, str]) -> tuple[CodedColumn, ...]:
    """Columns of numbers; refuses all others."""
    return _find("values", names, kinds, NUMBERS, "which is not a number")


def public_columns(key: tuple[CodedColumn, ...], kinds: Mapping[str, str]) -> tuple[CodedColumn, ...]:
    """The key's columns in the query of public keys. Integers of all widths compare; other types must be the same."""
    columns = identifying_columns("domain", tuple(column.name for column in key), kinds)
    for public, column in zip(columns, key, strict=True):
        if public.family != column.family:
            raise InvalidArgument(
                "domain", f"column {public.name!r} is {public.kind}, and {column.kind} in the rows; cast it"
            )
    return columns


def _find(
    argument: str, names: tuple[str, ...], kinds: Mapping[str, str], known: frozenset[str], problem: str
) -> tuple[CodedColumn, ...]:
    if len(set(names)) < len(names):
        raise InvalidArgument(argument, "must be different columns")
    check_present(argument, names, kinds)
    for name in names:
        if bare(kinds[name]) not in known:
            raise InvalidArgument(argument, f"column {name!r} is {kinds[name]}, {problem}")
    return tuple(CodedColumn(name, bare(kinds[name])) for name in names)
