"""Bound what one person adds: at most L keys each, chosen by a keyed order, then count the people of every key.

One 64-bit word a row, from the top: the person's code, ORDER_BITS of the keyed order, the key's code. One sort, and
duplicates are neighbours, each person's keys stand in that person's own order, and a key is among the first L if the
word L places before it belongs to another person. The key's code is there to be counted.

Guarantee: for every secret and label, person p keeps exactly min(L, n) of p's n keys, and which ones is a function of
the secret, the label, p's value and the values of p's own keys. So one more person (or one less) changes what nobody
else keeps: at most L counts move, each by one, all in the same direction. No assumption on the hash is needed.

Argument. Behind every value stand 64 bits, a fixed function of the value: an integer of up to 64 bits is itself, all
else goes through MD5 of its text. p's keys are ordered by (h, bits, value), where h is ORDER_BITS of a mix of the
secret, the label, the bits of p and those of the key: a total order on p's keys that nobody else's rows enter. Codes
do depend on the whole table, and are used where that cannot be seen:

- A key's code breaks ties in h, and codes ascend by (bits, value): the code of an integer is its distance from the
  smallest one, every other code is its place in the sorted list. Another person's keys shift the codes of p's keys,
  and leave their order. An integer has the same place in both codings.
- A person's code only tells people apart. Codes are exact, not hashes, so nobody is merged with anybody; h comes
  from the bits of the person's value, not from the code. Hence neither the coding, nor the set in which a person is
  processed, nor the order or the number of equal rows, nor the number of threads can be seen in the choice.
- h has the same number of bits always. Were it as wide as the codes leave room for, a new person could change
  everybody's ties. Only the number of sets adapts to the data.

Two values with the same bits share their h, and remain two people, or two keys: a collision costs no privacy, only
independence.

Utility, not privacy, wants the order to look random: every key of p is kept with probability L/n, independently of
other people. The mix is a fixed one (two secret odd multipliers, the finalizer of MurmurHash3), not a cryptographic
one; among n keys ties shift a key's chance by a factor of at most about 1 + n / 2^ORDER_BITS.

Rows with a NULL person or a NULL or NaN key are dropped. Zero and negative zero are one key.
"""

from __future__ import annotations

import hmac
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeAlias

import duckdb
import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from sfumato.errors import InvalidArgument
from sfumato.mechanisms.stream import Words, context

Counts: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

ORDER_BITS = 20
CODE_BITS = 64 - ORDER_BITS
"""What a person's and a key's code share."""

MAX_KEYS = 2**32
BLOCK = 2**15

_WORD = 2**64
_MURMUR = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))
_TABLE_NUMBERS = itertools.count()

_INTEGERS = frozenset(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"))
_BY_TEXT = frozenset(
    ("VARCHAR", "ENUM", "BOOLEAN", "DATE", "TIME", "DECIMAL", "HUGEINT", "UHUGEINT", "UUID", "FLOAT", "DOUBLE")
) | frozenset(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"))
_FLOATS = frozenset(("FLOAT", "DOUBLE"))


@dataclass(frozen=True, slots=True)
class Affine:
    """The 64 bits behind every code: code c stands for the integer `first` + c."""

    first: int

    def times(self, factor: int, codes: Words) -> Words:
        scaled: Words = codes * np.uint64(factor)
        scaled += np.uint64(self.first * factor % _WORD)
        return scaled


@dataclass(frozen=True, slots=True)
class Listed:
    """The 64 bits behind every code: those of code c are `values[c]`."""

    values: Words

    def times(self, factor: int, codes: Words) -> Words:
        scaled: Words = self.values.take(codes.view(np.int64))
        scaled *= np.uint64(factor)
        return scaled


Values: TypeAlias = "Affine | Listed"


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """Every person's order of keys: h = the upper ORDER_BITS of mix(a * person + b * key + c), modulo 2^64."""

    a: int
    b: int
    c: int

    @classmethod
    def of(cls, secret: bytes, label: str) -> KeyOrder:
        """The order of one job and one purpose. Different labels give unrelated orders."""
        if not isinstance(secret, bytes | bytearray) or not secret:
            raise InvalidArgument("secret", "must be bytes, and not empty; use 32 random bytes")
        seed = hmac.digest(secret, context(purpose="bounding", label=label), "sha256")
        a, b, c = (int.from_bytes(seed[place : place + 8], "little") for place in (0, 8, 16))
        return cls(a | 1, b | 1, c)

    def __repr__(self) -> str:
        return "KeyOrder(...)"

    def ranks(self, people: Values, persons: Words, keys: Values, codes: Words) -> Words:
        """h of pairs of codes."""
        x = people.times(self.a, persons)
        x += keys.times(self.b, codes)
        x += np.uint64(self.c)
        for factor in _MURMUR:
            x ^= x >> np.uint64(33)
            x *= factor
        x >>= np.uint64(CODE_BITS)
        return x


def kept_pairs(words: Words, key_bits: int, people: Values, keys: Values, *, order: KeyOrder, max_keys: int) -> Words:
    """The pairs that are kept, each once, as words person * 2^key_bits + key, of words of the same form.

    Sorts in place: `words` is used up. Persons have CODE_BITS - key_bits bits.
    """
    _insert_order(words, key_bits, people, keys, order)
    words.sort()
    if not len(words):
        return words
    fresh = np.empty(len(words), np.bool_)
    fresh[0] = True
    np.not_equal(words[1:], words[:-1], out=fresh[1:])
    pairs = words[fresh]
    return _first(pairs, max_keys, key_bits + ORDER_BITS)


def _first(pairs: Words, max_keys: int, person_shift: int) -> Words:
    """The first `max_keys` of every person, of sorted distinct words."""
    if len(pairs) <= max_keys:
        return pairs
    # Two words are one person's if they differ in the lower bits only.
    within = np.ones(len(pairs), np.bool_)
    np.greater_equal(pairs[max_keys:] ^ pairs[:-max_keys], np.uint64(1 << person_shift), out=within[max_keys:])
    return pairs[within]


def _insert_order(words: Words, key_bits: int, people: Values, keys: Values, order: KeyOrder) -> None:
    """Put h between person and key, block by block so that the arrays stay in the cache."""
    shift, mask, wider = np.uint64(key_bits), np.uint64((1 << key_bits) - 1), np.uint64(ORDER_BITS)
    for start in range(0, len(words), BLOCK):
        block = words[start : start + BLOCK]
        persons, codes = block >> shift, block & mask
        ranks = order.ranks(people, persons, keys, codes)
        persons <<= wider
        persons |= ranks
        persons <<= shift
        np.bitwise_or(persons, codes, out=block)


class Contributions:
    """Who contributed to which key: the rows of a query, with persons and keys as integer codes.

    Codes are made once, when it is opened, and name keys for as long as it is open: `counts` is indexed by them,
    `keys` gives the values back. Use it from one thread, and as a context manager: it owns tables in the temporary
    schema of `connection`. At most about `max_rows` rows are in memory at a time (25 bytes each), and the codes'
    64-bit values; a single person's rows are never divided.

    What DuckDB raises on the way can quote a cell: the caller must not show it.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        rows: exp.Query,
        *,
        unit: str,
        key: Sequence[str],
        max_rows: int = 2**26,
        threads: int = 2,
    ) -> None:
        if max_rows < 1 or threads < 1:
            raise InvalidArgument("max_rows" if max_rows < 1 else "threads", "must be at least 1")
        self._connection, self._max_rows, self._threads = connection, max_rows, threads
        self._source = rows.subquery("source")
        self._tables: list[str] = []
        try:
            self._open(unit, tuple(key))
        except BaseException:
            self.close()
            raise

    def _open(self, unit: str, key: tuple[str, ...]) -> None:
        kinds = _kinds(self._connection, self._source)
        unit_columns, key_columns = _columns("unit", (unit,), kinds), _columns("key", key, kinds)
        self._rows, ranges = self._ranges((*unit_columns, *key_columns))
        self._keys = self._coded(key_columns, ranges, most=min(2**26, max(2**16, 4 * self._rows)), ordered=True)
        self.key_bits = max(1, (self._keys.size - 1).bit_length())
        self._people = self._coded(unit_columns, ranges, most=2 ** (CODE_BITS - self.key_bits), ordered=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Drop the tables of codes."""
        while self._tables:
            drop = exp.Drop(tables=[exp.to_table(self._tables.pop())], kind="TABLE", exists=True)
            self._connection.execute(drop.sql(dialect="duckdb"))

    @property
    def size(self) -> int:
        """How many codes there are for keys. Some may be nobody's."""
        return self._keys.size

    def keys(self, codes: Sequence[int] | Counts) -> list[tuple[Any, ...]]:
        """The keys of these codes, in their order, one tuple of values each."""
        return self._keys.named(self._connection, np.asarray(codes, np.int64))

    def counts(self, order: KeyOrder, *, max_keys: int, within: Sequence[int] | Counts | None = None) -> Counts:
        """Distinct people by key code, each person counted for at most `max_keys` keys.

        `within` restricts the rows to the keys of these codes first, so that nobody spends a place on another key.
        """
        if not 1 <= max_keys <= MAX_KEYS:
            raise InvalidArgument("max_keys", f"must be from 1 to {MAX_KEYS}")
        chosen = None if within is None else self._mask(np.asarray(within, np.int64))
        mask = np.uint64((1 << self.key_bits) - 1)

        def count(words: Words, people: Values) -> Counts:
            if chosen is not None:
                words = words[chosen.take((words & mask).view(np.int64))]
            kept = kept_pairs(words, self.key_bits, people, self._keys.values, order=order, max_keys=max_keys)
            kept &= mask
            return np.bincount(kept.view(np.int64), minlength=self.size)

        total = np.zeros(self.size, np.int64)
        for part in _side_by_side(count, self._sets(), self._threads):
            total += part
        return total

    def _mask(self, codes: Counts) -> Mask:
        chosen = np.zeros(self.size, np.bool_)
        chosen[codes] = True
        return chosen

    def _sets(self) -> Iterator[tuple[Words, Values]]:
        """The rows by disjoint sets of people: words person * 2^key_bits + key, and the people's values."""
        if not self._keys.size or not self._people.size:
            return
        # A set is read while as many as there are threads are being worked on.
        for_memory = -(-self._rows * (self._threads + 1) // self._max_rows) if self._rows > self._max_rows else 1
        for_room = -(-self._people.size // (1 << (CODE_BITS - self.key_bits)))
        sets = max(for_memory, for_room)
        for number in range(sets):
            yield self._read(number, sets), self._people.part(number, sets)

    def _read(self, number: int, sets: int) -> Words:
        code, member = self._people.divided(number, sets)
        word = exp.Add(this=exp.Mul(this=code, expression=_number(1 << self.key_bits)), expression=self._keys.code())
        query = exp.select(exp.alias_(word, "word")).from_(self._source).where(*self._people.usable, *self._keys.usable)
        for table in (self._people, self._keys):
            query = table.joined(query)
        if member is not None:
            query = query.where(member)
        words: NDArray[Any] = self._connection.execute(query.sql(dialect="duckdb")).fetchnumpy()["word"]
        return words.view(np.uint64)

    def _ranges(self, columns: Sequence[_Column]) -> tuple[int, dict[str, tuple[int, int] | None]]:
        """The number of rows, and the smallest and the largest value of integer columns."""
        integers = [column for column in dict.fromkeys(columns) if column.kind in _INTEGERS]
        ends = [end(this=column.value()) for column in integers for end in (exp.Min, exp.Max)]
        query = exp.select(exp.Count(this=exp.Star()), *ends).from_(self._source)
        rows, *found = self._connection.execute(query.sql(dialect="duckdb")).fetchall()[0]
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
        name = f"sfumato_codes_{next(_TABLE_NUMBERS)}"
        self._tables.append(name)
        return _list_values(self._connection, self._source, columns, name, ordered=ordered)


def _side_by_side(
    work: Callable[[Words, Values], Counts], sets: Iterator[tuple[Words, Values]], threads: int
) -> Iterator[Counts]:
    """`work` on every set, `threads` at a time, while the next set is being read."""
    with ThreadPoolExecutor(threads) as pool:
        running: deque[Future[Counts]] = deque()
        for words, people in sets:
            running.append(pool.submit(work, words, people))
            del words
            if len(running) == threads:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the source that tells people or keys apart."""

    name: str
    kind: str

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
        there: list[exp.Expr] = [column.is_(exp.null()).not_()]
        return [*there, exp.func("isnan", column.copy()).not_()] if self.kind in _FLOATS else there


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
        return self.column.usable()

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

    def named(self, connection: duckdb.DuckDBPyConnection, codes: Counts) -> list[tuple[Any, ...]]:
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

    def _value(self, at: int) -> exp.Column:
        return exp.column(f"value{at}", self.table)

    def divided(self, number: int, sets: int) -> tuple[exp.Expr, exp.Expr | None]:
        if sets == 1:
            return self.code(), None
        return exp.IntDiv(this=self.code(), expression=_number(sets)), _in_set(self.code(), number, sets)

    def part(self, number: int, sets: int) -> Values:
        return Listed(np.ascontiguousarray(self.listed.values[number::sets]))

    def named(self, connection: duckdb.DuckDBPyConnection, codes: Counts) -> list[tuple[Any, ...]]:
        """Read by one scan of the table, whatever the number of codes."""
        wanted = np.zeros(self.size, np.bool_)
        wanted[codes] = True
        query = exp.select("code", *(self._value(at) for at in range(len(self.columns)))).from_(self.table)
        if len(codes) < self.size // 8:
            query = query.where(exp.column("code").isin(*codes.tolist()))
        found = connection.execute(query.sql(dialect="duckdb")).fetchall()
        by_code = {code: tuple(values) for code, *values in found if wanted[code]}
        return [by_code[code] for code in codes.tolist()]


_Codes: TypeAlias = "_Distances | _List"


def _list_values(
    connection: duckdb.DuckDBPyConnection,
    source: exp.Subquery,
    columns: tuple[_Column, ...],
    name: str,
    *,
    ordered: bool,
) -> _List:
    """Write the distinct values with their codes and 64 bits to a table; `ordered` codes ascend by (64 bits, value)."""
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
    table = exp.Create(
        this=exp.to_table(name),
        kind="TABLE",
        properties=exp.Properties(expressions=[exp.TemporaryProperty()]),
        expression=exp.select(*names, "bits", "hash", code).from_(hashed),
    )
    connection.execute(table.sql(dialect="duckdb"))
    found = connection.execute(exp.select("code", "bits", "hash").from_(name).sql(dialect="duckdb")).fetchnumpy()
    bits = np.empty(len(found["code"]), np.uint64)
    bits[found["code"]] = found["bits"].view(np.uint64)
    integer = len(columns) == 1 and columns[0].kind in _INTEGERS
    return _List(columns, name, Listed(bits), by_hash=not integer and _all_different(found["hash"]))


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


def _kinds(connection: duckdb.DuckDBPyConnection, source: exp.Subquery) -> dict[str, str]:
    """Columns and DuckDB's types, without running anything."""
    statement = exp.Describe(this=exp.select("*").from_(source)).sql(dialect="duckdb")
    return {name: kind for name, kind, *_ in connection.execute(statement).fetchall()}


def _columns(argument: str, names: tuple[str, ...], kinds: dict[str, str]) -> tuple[_Column, ...]:
    if not names or len(set(names)) < len(names):
        raise InvalidArgument(argument, "must be different columns, at least one")
    for name in names:
        if name not in kinds:
            raise InvalidArgument(argument, f"no column {name!r}; there are {', '.join(kinds)}")
        if _bare(kinds[name]) not in _INTEGERS | _BY_TEXT:
            raise InvalidArgument(argument, f"column {name!r} is {kinds[name]}, which cannot tell people or keys apart")
    return tuple(_Column(name, _bare(kinds[name])) for name in names)


def _bare(kind: str) -> str:
    """DECIMAL(18,3) is a DECIMAL, ENUM('a', 'b') an ENUM; DECIMAL(18,3)[] is neither."""
    return kind.partition("(")[0] if kind.endswith(")") else kind
