"""The rows of a release, read from DuckDB as words of codes, one disjoint set of people after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from sqlglot import exp

from sfumato.engines.contributions import CODE_BITS, CodedContributions, CodedRows, CodeValues, DistinctPairs, PairCodes
from sfumato.engines.duckdb.codes import (
    CodedColumn,
    Coding,
    DistanceCodes,
    TableCodes,
    identifying_columns,
    number,
    public_columns,
    value_columns,
)
from sfumato.engines.duckdb.types import INTEGERS
from sfumato.engines.duckdb.workspace import Workspace
from sfumato.engines.sorting import fresh, sort_words
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.noise import Integers

P = TypeVar("P")
T = TypeVar("T")

MAX_HELD = 2**27
"""Up to so many distinct pairs are held for the next pass: 8 bytes each."""

MIN_DIVIDED = 2**18
"""From so many rows on, a set is divided among threads."""

SAMPLED = 2**10
"""Words that tell where to divide a set."""


@dataclass(frozen=True, slots=True)
class Part:
    """Of some rows, those with a word from `low` on and below `high`; or all of them."""

    all_rows: CodedRows
    low: int = 0
    high: int | None = None

    def rows(self) -> CodedRows:
        """Made where it is needed: each thread makes its own."""
        rows = self.all_rows
        if self.high is None:
            return rows
        return rows.only((rows.words >= np.uint64(self.low)) & (rows.words < np.uint64(self.high)))


class DuckDBContributions(CodedContributions):
    """The rows of a query over the tables of a workspace.

    Without `domain`, codes are those of the keys that occur; with it, those of the keys of this query, which must be
    public. `values` are the numeric columns to read. At most about `max_rows` rows are in memory at a time (25 bytes
    each; with values 40, and 16 more per column), the pairs that are held, and the 64 bits behind the codes. A single
    person's rows are never divided. `progress` gets the share of a pass that is done.

    Closing drops the tables of codes, and then calls `then`.
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
        then: Callable[[], None] | None = None,
    ) -> None:
        if max_rows < 1 or threads < 1:
            raise InvalidArgument("max_rows" if max_rows < 1 else "threads", "must be at least 1")
        self._workspace, self._max_rows, self._threads, self._progress = workspace, max_rows, threads, progress
        self._query, self._source, self._then = rows, rows.subquery("source"), then
        self._coded: list[TableCodes] = []
        self._held: list[DistinctPairs] = []
        try:
            self._open(unit, tuple(key), tuple(values), domain)
        except BaseException:
            self.close()
            raise

    def _open(self, unit: str, key: tuple[str, ...], values: tuple[str, ...], domain: exp.Query | None) -> None:
        """Refuse first: arguments that are wrong are refused before a row is read."""
        self._kinds = self._workspace.kinds(self._query)
        [self._unit] = unit_columns = identifying_columns("unit", (unit,), self._kinds)
        self._key = identifying_columns("key", key, self._kinds)
        self._values = value_columns(values, self._kinds)
        public = None if domain is None else public_columns(self._key, self._workspace.kinds(domain))
        self._rows, ranges = self._ranges((*unit_columns, *(self._key if public is None else ())))
        if domain is None or public is None:
            self._keys = self._code(self._key, ranges, most=min(2**26, max(2**16, 4 * self._rows)), ordered=True)
        else:
            self._keys = self._table(domain.subquery("source"), public, ordered=True).for_columns(self._key)
        self._people = self._code(unit_columns, ranges, most=2 ** (CODE_BITS - self.key_bits), ordered=False)

    def close(self) -> None:
        self._held = []
        while self._coded:
            self._workspace.drop(self._coded.pop().table)
        if self._then is not None:
            self._then()

    @property
    def size(self) -> int:
        return self._keys.size

    @property
    def key_values(self) -> CodeValues:
        return self._keys.values

    def keys(self, codes: Sequence[int] | Integers) -> list[tuple[Any, ...]]:
        return self._keys.decode(self._workspace, np.asarray(codes, np.int64))

    def restrict(self, codes: Sequence[int] | Integers) -> DuckDBContributions:
        names = [column.name for column in self._key]
        cells = [
            tuple(
                exp.cast(exp.Literal.string(str(cell)), self._kinds[name], dialect="duckdb")
                for name, cell in zip(names, key, strict=True)
            )
            for key in self.keys(codes)
        ]
        chosen = exp.values(cells, alias="chosen", columns=names)
        return DuckDBContributions(
            self._workspace,
            self._query,
            unit=self._unit.name,
            key=names,
            values=[column.name for column in self._values],
            domain=exp.select(*(exp.column(name, quoted=True) for name in names)).from_(chosen),
            max_rows=self._max_rows,
            threads=self._threads,
            progress=self._progress,
        )

    def map_rows(self, work: Callable[[CodedRows], T]) -> Iterator[T]:
        return self._map(lambda part: work(part.rows()), *self._parts(self._values))

    def map_pairs(self, work: Callable[[DistinctPairs], T]) -> Iterator[T]:
        if self._held:
            yield from self._map(work, len(self._held), self._held)
            return

        def sort_and_work(part: Part) -> tuple[DistinctPairs, T]:
            rows = part.rows()
            sort_words(rows.words)
            pairs = DistinctPairs(rows.words[fresh(rows.words)], rows.codes)
            pairs.words.flags.writeable = False
            return pairs, work(pairs)

        held, size = list[DistinctPairs](), 0
        for pairs, done in self._map(sort_and_work, *self._parts(())):
            size += len(pairs.words)
            held = [*held, pairs] if size <= MAX_HELD else []
            yield done
        self._held = held

    def _map(self, work: Callable[[P], T], number: int, parts: Iterable[P]) -> Iterator[T]:
        """`work` on a number of parts, in as many threads as there are, while the next set is being read."""
        with ThreadPoolExecutor(self._threads) as pool:
            running: deque[Future[T]] = deque()
            for at, part in enumerate(parts, 1):
                running.append(pool.submit(work, part))
                while len(running) == self._threads or (running and at == number):
                    done = running.popleft().result()
                    if self._progress is not None:
                        self._progress((at - len(running)) / number)
                    yield done

    def _parts(self, columns: Sequence[CodedColumn]) -> tuple[int, Iterator[Part]]:
        """What is read: one set after the other, each divided where there are fewer sets than threads."""
        sets = self._number_of_sets()
        many = -(-self._threads // sets) if sets and self._rows >= MIN_DIVIDED else 1
        read = (self._read(at, sets, columns) for at in range(sets))
        return sets * many, (part for rows in read for part in self._divide(rows, many))

    def _divide(self, rows: CodedRows, many: int) -> Iterator[Part]:
        """So many parts of about the same size, by the codes of people."""
        some = np.sort(rows.words[:: len(rows.words) // SAMPLED + 1])
        if many == 1 or not len(some):
            return iter([Part(rows)] * many)
        first = [int(some[len(some) * part // many]) >> self.key_bits << self.key_bits for part in range(1, many)]
        return (Part(rows, low, high) for low, high in pairwise([0, *first, 1 << CODE_BITS]))

    def _number_of_sets(self) -> int:
        if not self._keys.size or not self._people.size:
            return 0
        # One set is read while `threads` others are worked on.
        for_memory = -(-self._rows * (self._threads + 1) // self._max_rows) if self._rows > self._max_rows else 1
        for_room = -(-self._people.size // (1 << (CODE_BITS - self.key_bits)))
        return max(for_memory, for_room)

    def _read(self, at: int, sets: int, columns: Sequence[CodedColumn]) -> CodedRows:
        code, member = self._people.divide(at, sets)
        word = exp.Add(this=exp.Mul(this=code, expression=number(1 << self.key_bits)), expression=self._keys.code())
        values = [exp.alias_(column.number(), f"value{place}") for place, column in enumerate(columns)]
        query = exp.select(exp.alias_(word, "word"), *values).from_(self._source)
        query = query.where(*self._people.usable, *self._keys.usable)
        query = query.where(*(condition for column in self._values for condition in column.not_nan()))
        for coding in (self._people, self._keys):
            query = coding.join(query)
        if member is not None:
            query = query.where(member)
        found = self._workspace.arrays(query)
        by_name = {column.name: found[f"value{place}"] for place, column in enumerate(columns)}
        codes = PairCodes(self.key_bits, self._people.part(at, sets), self.key_values)
        return CodedRows(found["word"].view(np.uint64), codes, by_name)

    def _ranges(self, columns: Sequence[CodedColumn]) -> tuple[int, dict[str, tuple[int, int] | None]]:
        """The number of rows, and the smallest and the largest value of integer columns."""
        integers = [column for column in dict.fromkeys(columns) if column.kind in INTEGERS]
        ends = [end(this=column.value()) for column in integers for end in (exp.Min, exp.Max)]
        query = exp.select(exp.Count(this=exp.Star()), *ends).from_(self._source)
        rows, *found = self._workspace.rows(query)[0]
        pairs = zip(found[::2], found[1::2], strict=True)
        return rows, {
            column.name: None if low is None else (low, high)
            for column, (low, high) in zip(integers, pairs, strict=True)
        }

    def _code(
        self, columns: tuple[CodedColumn, ...], ranges: dict[str, tuple[int, int] | None], *, most: int, ordered: bool
    ) -> Coding:
        """Distances from the smallest for integers whose range has at most `most` places, else a table of values."""
        if len(columns) == 1 and columns[0].name in ranges:
            low, high = ranges[columns[0].name] or (0, -1)
            if high - low < most:
                return DistanceCodes(columns[0], low, high - low + 1)
        return self._table(self._source, columns, ordered=ordered)

    def _table(self, source: exp.Subquery, columns: tuple[CodedColumn, ...], *, ordered: bool) -> TableCodes:
        codes = TableCodes.make(self._workspace, source, columns, ordered=ordered)
        self._coded.append(codes)
        return codes
