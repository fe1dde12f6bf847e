"""Bound what one person adds: at most L keys each, chosen by a keyed order, then count or collect what is kept.

The rows of a query are read as words of codes, by disjoint sets of people, and each set is sorted (`pairs`).

Guarantee: for every secret and label, person p keeps exactly min(L, n) of p's n keys, and which ones is a function of
the secret, the label, p's value and the values of p's own keys. So one more person (or one less) changes what nobody
else keeps: at most L counts move, each by one, all in the same direction. No assumption on the hash is needed. The
same pairs are kept for `counts` and for `fold`; what `fold` tells of a pair is a function of that pair's own rows.

Argument. Behind every value stand 64 bits, a fixed function of the value: an integer of up to 64 bits is itself, all
else goes through MD5 of its text. p's keys are ordered by (h, bits, value), where h is ORDER_BITS of a mix of the
secret, the label, the bits of p and those of the key: a total order on p's keys that nobody else's rows enter. Codes
do depend on the whole table, and are used where that cannot be seen:

- A key's code breaks ties in h, and codes ascend by (bits, value): the code of an integer is its distance from the
  smallest one, every other code is its place in the sorted list. Another person's keys shift the codes of p's keys,
  and leave their order. An integer has the same place in both codings. Where the keys are public (`domain`), codes
  are places in the list of these keys, and do not depend on any row.
- A person's code only tells people apart. Codes are exact, not hashes, so nobody is merged with anybody; h comes
  from the bits of the person's value, not from the code. Hence neither the coding, nor the set in which a person is
  processed, nor the order or the number of equal rows, nor the number of threads can be seen in the choice.
- h has the same number of bits always. Were it as wide as the codes leave room for, a new person could change
  everybody's ties. Only the number of sets adapts to the data.

Two values with the same bits share their h, and remain two people, or two keys: a collision costs no privacy, only
independence.

Utility, not privacy, wants the order to look random: every key of p is kept with probability L/n, independently of
other people. The mix is a fixed one (secret odd multipliers, the finalizer of MurmurHash3), not a cryptographic
one; among n keys ties shift a key's chance by a factor of at most about 1 + n / 2^ORDER_BITS.

Rows with a NULL person, a NULL or NaN key or a NaN value are dropped, each by itself, before anything is chosen. A
NULL value is none: its row counts as a row, and adds nothing. Zero and negative zero are one key, and one value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np
from sqlglot import exp

from sfumato.engines.base import Workspace
from sfumato.errors import InvalidArgument, nearest
from sfumato.mechanisms.stream import Words
from sfumato.release.pairs import (
    CODE_BITS,
    ORDER_BITS,
    Affine,
    Codes,
    Counts,
    Floats,
    KeyOrder,
    Listed,
    Mask,
    Pairs,
    Values,
    kept_pairs,
    people_by_keys,
)

__all__ = ["MAX_KEYS", "ORDER_BITS", "Affine", "Contributions", "Counts", "KeyOrder", "Listed", "Pairs", "kept_pairs"]

T = TypeVar("T")

MAX_KEYS = 2**32

_INTEGERS = frozenset(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"))
_WIDE_INTEGERS = frozenset(("HUGEINT", "UHUGEINT"))
_FLOATS = frozenset(("FLOAT", "DOUBLE"))
_NUMBERS = _INTEGERS | _WIDE_INTEGERS | _FLOATS | {"DECIMAL"}
_BY_TEXT = (
    _WIDE_INTEGERS
    | _FLOATS
    | frozenset(("VARCHAR", "ENUM", "BOOLEAN", "DATE", "TIME", "DECIMAL", "UUID", "TIMESTAMP"))
    | frozenset(("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"))
)


@dataclass(frozen=True, slots=True)
class _Set:
    """The rows of a set of people: words person * 2^key_bits + key, values by column, and the bits of the people."""

    words: Words
    columns: Mapping[str, Floats]
    people: Values


class Contributions:
    """Who contributed what to which key: the rows of a query, with persons and keys as integer codes.

    Codes are made once, when it is opened, and name keys for as long as it is open: `counts` is indexed by them,
    `keys` gives the values back. Without `domain` they are those of the keys that occur; with it, those of the keys
    of this query, which must be public: rows with other keys are dropped, and a key without rows has a code as well.
    `values` are the numeric columns that `fold` is to read.

    Use it from one thread, and as a context manager: it keeps tables in the workspace. At most about `max_rows` rows
    are in memory at a time (25 bytes each; in `fold` with values 40, and 16 more for each column), and the codes'
    64-bit values; a single person's rows are never divided. `progress` hears the share of a pass that is done.
    """

    def __init__(
        self,
        workspace: Workspace,
        rows: exp.Query,
        *,
        unit: str,
        key: Sequence[str],
        values: Sequence[str] = (),
        domain: exp.Query | None = None,
        max_rows: int = 2**26,
        threads: int = 2,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        if max_rows < 1 or threads < 1:
            raise InvalidArgument("max_rows" if max_rows < 1 else "threads", "must be at least 1")
        self._workspace, self._max_rows, self._threads, self._progress = workspace, max_rows, threads, progress
        self._source = rows.subquery("source")
        self._tables: list[str] = []
        try:
            self._open(workspace.kinds(rows), unit, tuple(key), tuple(values), domain)
        except BaseException:
            self.close()
            raise

    def _open(
        self,
        kinds: dict[str, str],
        unit: str,
        key: tuple[str, ...],
        values: tuple[str, ...],
        domain: exp.Query | None,
    ) -> None:
        """Refuse first: what is wrong with the arguments is told before a row is read."""
        unit_columns, key_columns = _columns("unit", (unit,), kinds), _columns("key", key, kinds)
        self._values = _value_columns(values, kinds)
        public = None if domain is None else _public_columns(key_columns, self._workspace.kinds(domain))
        self._rows, ranges = self._ranges((*unit_columns, *(key_columns if public is None else ())))
        if domain is None or public is None:
            self._keys = self._coded(key_columns, ranges, most=min(2**26, max(2**16, 4 * self._rows)), ordered=True)
        else:
            self._keys = self._listed(domain.subquery("source"), public, ordered=True).read_by(key_columns)
        self.key_bits = max(1, (self._keys.size - 1).bit_length())
        self._people = self._coded(unit_columns, ranges, most=2 ** (CODE_BITS - self.key_bits), ordered=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Drop the tables of codes."""
        while self._tables:
            self._workspace.drop(self._tables.pop())

    @property
    def size(self) -> int:
        """How many codes there are for keys. Some may be nobody's."""
        return self._keys.size

    def keys(self, codes: Sequence[int] | Counts) -> list[tuple[Any, ...]]:
        """The keys of these codes, in their order, one tuple of values each."""
        return self._keys.named(self._workspace, np.asarray(codes, np.int64))

    def counts(self, order: KeyOrder, *, max_keys: int, within: Sequence[int] | Counts | None = None) -> Counts:
        """Distinct people by key code, each person counted for at most `max_keys` keys.

        `within` restricts the rows to the keys of these codes first, so that nobody spends a place on another key.
        """
        _check_max_keys(max_keys)
        chosen = self._mask(within)
        mask = np.uint64((1 << self.key_bits) - 1)

        def count(part: _Set) -> Counts:
            words = part.words if chosen is None else part.words[self._among(chosen, part.words)]
            kept = kept_pairs(words, self.key_bits, part.people, self._keys.values, order=order, max_keys=max_keys)
            kept &= mask
            return np.bincount(kept.view(np.int64), minlength=self.size)

        return self._total(count, self.size)

    def keys_per_person(self, most: int) -> Counts:
        """How many people have n distinct keys, by n; those with more than `most` are counted at `most`."""
        if not 1 <= most <= 2**26:
            raise InvalidArgument("most", f"must be from 1 to {2**26}")
        return self._total(lambda part: people_by_keys(part.words, self.key_bits, most), most + 1)

    def fold(
        self,
        work: Callable[[Pairs], T],
        order: KeyOrder,
        *,
        max_keys: int,
        within: Sequence[int] | Counts | None = None,
    ) -> Iterator[T]:
        """`work` on the kept pairs of each of some disjoint sets of people; its results, one by one.

        The pairs are those that `counts` counts for the same arguments. How many sets there are, and who is in which,
        depends on everybody: add the results up exactly. `work` is called in other threads, for several sets at once.
        """
        _check_max_keys(max_keys)
        chosen = self._mask(within)

        def fold(part: _Set) -> T:
            words, columns = part.words, part.columns
            if chosen is not None:
                here = self._among(chosen, words)
                words, columns = words[here], {name: values[here] for name, values in columns.items()}
            codes = Codes(self.key_bits, part.people, self._keys.values)
            return work(Pairs(words, columns, codes, order=order, max_keys=max_keys))

        return self._side_by_side(fold, self._values)

    def _mask(self, codes: Sequence[int] | Counts | None) -> Mask | None:
        if codes is None:
            return None
        chosen = np.zeros(self.size, np.bool_)
        chosen[np.asarray(codes, np.int64)] = True
        return chosen

    def _among(self, chosen: Mask, words: Words) -> Mask:
        return chosen.take((words & np.uint64((1 << self.key_bits) - 1)).view(np.int64))

    def _total(self, count: Callable[[_Set], Counts], size: int) -> Counts:
        total = np.zeros(size, np.int64)
        for part in self._side_by_side(count, ()):
            total += part
        return total

    def _side_by_side(self, work: Callable[[_Set], T], columns: Sequence[_Column]) -> Iterator[T]:
        """`work` on every set, as many at a time as there are threads, while the next set is being read."""
        sets = self._number_of_sets()
        with ThreadPoolExecutor(self._threads) as pool:
            running: deque[Future[T]] = deque()
            for number in range(sets):
                running.append(pool.submit(work, self._read(number, sets, columns)))
                while len(running) == self._threads or (running and number == sets - 1):
                    done = running.popleft().result()
                    if self._progress is not None:
                        self._progress((number + 1 - len(running)) / sets)
                    yield done

    def _number_of_sets(self) -> int:
        if not self._keys.size or not self._people.size:
            return 0
        # A set is read while as many as there are threads are being worked on.
        for_memory = -(-self._rows * (self._threads + 1) // self._max_rows) if self._rows > self._max_rows else 1
        for_room = -(-self._people.size // (1 << (CODE_BITS - self.key_bits)))
        return max(for_memory, for_room)

    def _read(self, number: int, sets: int, columns: Sequence[_Column]) -> _Set:
        code, member = self._people.divided(number, sets)
        word = exp.Add(this=exp.Mul(this=code, expression=_number(1 << self.key_bits)), expression=self._keys.code())
        values = [exp.alias_(column.number(), f"value{at}") for at, column in enumerate(columns)]
        query = exp.select(exp.alias_(word, "word"), *values).from_(self._source)
        query = query.where(*self._people.usable, *self._keys.usable)
        query = query.where(*(condition for column in self._values for condition in column.not_nan()))
        for table in (self._people, self._keys):
            query = table.joined(query)
        if member is not None:
            query = query.where(member)
        found = self._workspace.arrays(query)
        by_name = {column.name: found[f"value{at}"] for at, column in enumerate(columns)}
        return _Set(found["word"].view(np.uint64), by_name, self._people.part(number, sets))

    def _ranges(self, columns: Sequence[_Column]) -> tuple[int, dict[str, tuple[int, int] | None]]:
        """The number of rows, and the smallest and the largest value of integer columns."""
        integers = [column for column in dict.fromkeys(columns) if column.kind in _INTEGERS]
        ends = [end(this=column.value()) for column in integers for end in (exp.Min, exp.Max)]
        query = exp.select(exp.Count(this=exp.Star()), *ends).from_(self._source)
        rows, *found = self._workspace.rows(query)[0]
        pairs = zip(found[::2], found[1::2], strict=True)
        return rows, {
            column.name: None if low is None else (low, high)
            for column, (low, high) in zip(integers, pairs, strict=True)
        }

    def _coded(
        self, columns: tuple[_Column, ...], ranges: dict[str, tuple[int, int] | None], *, most: int, ordered: bool
    ) -> _Codes:
        """Distances from the smallest for integers whose range has at most `most` places, else a list of the values."""
        if len(columns) == 1 and columns[0].name in ranges:
            low, high = ranges[columns[0].name] or (0, -1)
            if high - low < most:
                return _Distances(columns[0], low, high - low + 1)
        return self._listed(self._source, columns, ordered=ordered)

    def _listed(self, source: exp.Subquery, columns: tuple[_Column, ...], *, ordered: bool) -> _List:
        table = self._workspace.keep(_distinct(source, columns, ordered=ordered))
        self._tables.append(table)
        found = self._workspace.arrays(exp.select("code", "bits", "hash").from_(table))
        bits = np.empty(len(found["code"]), np.uint64)
        bits[found["code"]] = found["bits"].view(np.uint64)
        integer = len(columns) == 1 and columns[0].kind in _INTEGERS
        return _List(columns, table, Listed(bits), by_hash=not integer and _all_different(found["hash"]))


def _check_max_keys(max_keys: int) -> None:
    if not 1 <= max_keys <= MAX_KEYS:
        raise InvalidArgument("max_keys", f"must be from 1 to {MAX_KEYS}")


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the source."""

    name: str
    kind: str

    @property
    def family(self) -> str:
        """What a column must share with another for their values to be compared."""
        if self.kind in _INTEGERS | _WIDE_INTEGERS:
            return "integer"
        return "VARCHAR" if self.kind == "ENUM" else self.kind

    def value(self, table: str = "source") -> exp.Expr:
        """The column in a form in which equal values are identical."""
        column: exp.Expr = exp.column(self.name, table, quoted=True)
        if self.kind == "ENUM":
            return exp.cast(column, "VARCHAR")  # else it would sort by the order of its declaration
        if self.kind in _FLOATS:
            return exp.Add(this=column, expression=exp.Literal.number("0.0"))  # no negative zero
        return column

    def usable(self) -> list[exp.Expr]:
        column = exp.column(self.name, "source", quoted=True)
        return [column.is_(exp.null()).not_(), *self.not_nan()]

    def not_nan(self) -> list[exp.Expr]:
        if self.kind not in _FLOATS:
            return []
        column = exp.column(self.name, "source", quoted=True)
        return [exp.Coalesce(this=exp.func("isnan", column), expressions=[exp.false()]).not_()]

    def number(self) -> exp.Expr:
        """The column in floating point, NaN for NULL."""
        column = exp.cast(exp.column(self.name, "source", quoted=True), "DOUBLE")
        return exp.Coalesce(this=column, expressions=[exp.cast(exp.Literal.string("nan"), "DOUBLE")])


@dataclass(frozen=True, slots=True)
class _Distances:
    """Integers by their distance from the smallest one. Values between two that occur have codes too."""

    column: _Column
    low: int
    size: int

    @property
    def values(self) -> Values:
        return Affine(self.low)

    @property
    def usable(self) -> list[exp.Expr]:
        """A row that came after the range was read would run over into its neighbour's bits."""
        ends = _number(self.low), _number(self.low + self.size - 1)
        return [*self.column.usable(), exp.Between(this=self.column.value(), low=ends[0], high=ends[1])]

    def code(self) -> exp.Expr:
        value = self.column.value()
        wide = value if self.column.kind == "UBIGINT" else exp.cast(value, "BIGINT")
        return exp.cast(exp.paren(exp.Sub(this=wide, expression=_number(self.low))), "BIGINT")

    def joined(self, query: exp.Select) -> exp.Select:
        return query

    def divided(self, number: int, sets: int) -> tuple[exp.Expr, exp.Expr | None]:
        """By a hash, because identifiers can have a step. Which set a person is in is never seen."""
        if sets == 1:
            return self.code(), None
        return self.code(), _in_set(exp.func("hash", self.column.value()), number, sets)

    def part(self, number: int, sets: int) -> Values:
        return self.values

    def named(self, workspace: Workspace, codes: Counts) -> list[tuple[Any, ...]]:
        return [(code + self.low,) for code in codes.tolist()]


@dataclass(frozen=True, slots=True)
class _List:
    """Values by their place in a table of codes.

    Where DuckDB's hashes of all of them are different, rows are matched by hash, which is faster for text and as exact,
    because every row's value is in the table.
    """

    columns: tuple[_Column, ...]
    table: str
    listed: Listed
    by_hash: bool

    @property
    def size(self) -> int:
        return len(self.listed.values)

    @property
    def values(self) -> Values:
        return self.listed

    @property
    def usable(self) -> list[exp.Expr]:
        return [condition for column in self.columns for condition in column.usable()]

    def code(self) -> exp.Expr:
        return exp.column("code", self.table)

    def joined(self, query: exp.Select) -> exp.Select:
        values = [column.value() for column in self.columns]
        same = [exp.EQ(this=value, expression=self._value(at)) for at, value in enumerate(values)]
        if self.by_hash:
            same = [exp.EQ(this=exp.func("hash", *values), expression=exp.column("hash", self.table))]
        return query.join(exp.to_table(self.table), on=exp.and_(*same))

    def read_by(self, columns: tuple[_Column, ...]) -> _List:
        """The same codes for the values of other columns: not by hash, as they may have values that are not listed."""
        return replace(self, columns=columns, by_hash=False)

    def _value(self, at: int) -> exp.Column:
        return exp.column(f"value{at}", self.table)

    def divided(self, number: int, sets: int) -> tuple[exp.Expr, exp.Expr | None]:
        if sets == 1:
            return self.code(), None
        return exp.IntDiv(this=self.code(), expression=_number(sets)), _in_set(self.code(), number, sets)

    def part(self, number: int, sets: int) -> Values:
        return Listed(np.ascontiguousarray(self.listed.values[number::sets]))

    def named(self, workspace: Workspace, codes: Counts) -> list[tuple[Any, ...]]:
        """Read by one scan of the table, whatever the number of codes."""
        wanted = np.zeros(self.size, np.bool_)
        wanted[codes] = True
        query = exp.select("code", *(self._value(at) for at in range(len(self.columns)))).from_(self.table)
        if len(codes) < self.size // 8:
            query = query.where(exp.column("code").isin(*codes.tolist()))
        by_code = {code: tuple(values) for code, *values in workspace.rows(query) if wanted[code]}
        return [by_code[code] for code in codes.tolist()]


_Codes: TypeAlias = "_Distances | _List"


def _distinct(source: exp.Subquery, columns: tuple[_Column, ...], *, ordered: bool) -> exp.Select:
    """The distinct values with their codes and 64 bits; `ordered` codes ascend by (64 bits, value)."""
    names = [f"value{at}" for at in range(len(columns))]
    values = [exp.alias_(column.value(), alias) for column, alias in zip(columns, names, strict=True)]
    usable = [condition for column in columns for condition in column.usable()]
    distinct = exp.select(*values).distinct().from_(source).where(*usable).subquery("found")
    hashes = (
        exp.alias_(_frozen(columns, names), "bits"),
        exp.alias_(exp.func("hash", *map(exp.column, names)), "hash"),
    )
    hashed = exp.select(*names, *hashes).from_(distinct).subquery("hashed")
    order = exp.Order(expressions=[exp.column(alias) for alias in ("bits", *names)])
    place = exp.Window(this=exp.RowNumber(), order=order if ordered else None)
    code = exp.alias_(exp.Sub(this=place, expression=_number(1)), "code")
    return exp.select(*names, "bits", "hash", code).from_(hashed)


def _all_different(hashes: Words) -> bool:
    hashes.sort()
    return not np.equal(hashes[1:], hashes[:-1]).any()


def _frozen(columns: Sequence[_Column], names: Sequence[str]) -> exp.Expr:
    """64 bits of a value, for ever: an integer of up to 64 bits as it is, else from the MD5 of texts with lengths."""
    if len(columns) == 1 and columns[0].kind in _INTEGERS:
        return exp.cast(exp.column(names[0]), "UBIGINT" if columns[0].kind == "UBIGINT" else "BIGINT", dialect="duckdb")
    texts = [exp.cast(exp.column(name), "VARCHAR") for name in names]
    pieces = [piece for text in texts for piece in (exp.func("length", text.copy()), exp.Literal.string(":"), text)]
    return exp.func("md5_number_lower", exp.func("concat", *pieces))


def _in_set(value: exp.Expr, number: int, sets: int) -> exp.Expr:
    return exp.EQ(this=exp.Mod(this=exp.paren(value), expression=_number(sets)), expression=_number(number))


def _number(value: int) -> exp.Expr:
    return exp.Literal.number(value) if value >= 0 else exp.paren(exp.Neg(this=exp.Literal.number(-value)))


def _columns(argument: str, names: tuple[str, ...], kinds: dict[str, str]) -> tuple[_Column, ...]:
    if not names:
        raise InvalidArgument(argument, "must be different columns, at least one")
    return _found(argument, names, kinds, _INTEGERS | _BY_TEXT, "which cannot tell people or keys apart")


def check_columns(kinds: dict[str, str], unit: str, key: Sequence[str], values: Sequence[str]) -> None:
    """Refuse columns that `Contributions` would refuse, by their types alone."""
    _columns("unit", (unit,), kinds)
    _columns("key", tuple(key), kinds)
    _value_columns(tuple(values), kinds)


def _value_columns(names: tuple[str, ...], kinds: dict[str, str]) -> tuple[_Column, ...]:
    return _found("values", names, kinds, _NUMBERS, "which is not a number")


def _public_columns(key: tuple[_Column, ...], kinds: dict[str, str]) -> tuple[_Column, ...]:
    """The key's columns in the query of public keys. Integers of all widths compare; other types must be the same."""
    columns = _columns("domain", tuple(column.name for column in key), kinds)
    for public, column in zip(columns, key, strict=True):
        if public.family != column.family:
            raise InvalidArgument(
                "domain", f"column {public.name!r} is {public.kind}, and {column.kind} in the rows; cast it"
            )
    return columns


def _found(
    argument: str, names: tuple[str, ...], kinds: dict[str, str], known: frozenset[str], problem: str
) -> tuple[_Column, ...]:
    if len(set(names)) < len(names):
        raise InvalidArgument(argument, "must be different columns")
    for name in names:
        if name not in kinds:
            there = f"no column {name!r}; there are {', '.join(kinds)}"
            raise InvalidArgument(argument, there + nearest(name, kinds))
        if _bare(kinds[name]) not in known:
            raise InvalidArgument(argument, f"column {name!r} is {kinds[name]}, {problem}")
    return tuple(_Column(name, _bare(kinds[name])) for name in names)


def _bare(kind: str) -> str:
    """DECIMAL(18,3) is a DECIMAL, ENUM('a', 'b') an ENUM; DECIMAL(18,3)[] is neither."""
    return kind.partition("(")[0] if kind.endswith(")") else kind
