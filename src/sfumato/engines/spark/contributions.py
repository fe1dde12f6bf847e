"""The rows of a release, bounded and counted by Spark: only numbers by key leave it.

Nothing here depends on the order of rows, on partitions, or on a random number, so a task that runs twice has the same
rows: a person never has more than L keys, whatever executors do. The driver holds what is released of each key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from sqlglot import exp

from sfumato.engines.base import COULD_NOT_ANSWER
from sfumato.engines.contributions import (
    MAX_VALUE_STEPS,
    Addend,
    Contributions,
    Order,
    PairTotals,
    PairValues,
    PersonKeys,
    Terms,
    Totals,
)
from sfumato.engines.spark.bounding import (
    CODED,
    Frame,
    Identity,
    as_sets,
    as_windows,
    bits_of,
    chosen_values,
    expression,
    functions_of,
    sets_of,
)
from sfumato.engines.spark.dialect import SparkSql
from sfumato.engines.spark.keys import KeyList
from sfumato.errors import EngineFailed
from sfumato.mechanisms.noise import Integers

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

MAX_COLLECTED = 20_000_000
"""More keys than this are not brought to the driver, if the owner says nothing else."""

MAX_SET = 2**31 - 1
"""A person counts for all keys from here on."""

WIDE = "DECIMAL(38, 0)"
"""A sum of BIGINTs could overflow for one person, and fail."""


@dataclass(frozen=True)
class PushedRows:
    """Rows as `person`, `key0`, ..., `value0`, ...: the types of the first two, and the columns behind the values."""

    frame: Frame
    person: str
    kinds: Mapping[str, str]
    values: tuple[str, ...]

    @property
    def identity(self) -> Identity:
        return Identity(tuple(self.kinds), self.kinds)

    @property
    def person_bits(self) -> str:
        return bits_of(["person"], [self.person])

    def value(self, column: str) -> str:
        return f"value{self.values.index(column)}"


class SparkContributions(Contributions):
    """`run` does a piece of work with the session, and raises `EngineFailed` for what fails in it.

    With `domain`, the rows are those of its keys. Else the first pass lists the keys, and has codes for those that are
    kept; a later pass may keep fewer. What bounds again asks for `within`, and weights are added to all keys.
    """

    def __init__(
        self,
        rows: PushedRows,
        run: Callable[[Callable[[], Any]], Any],
        *,
        domain: KeyList | None = None,
        max_collected: int = MAX_COLLECTED,
        progress: Callable[[float], None] | None = None,
        then: Callable[[], None] | None = None,
    ) -> None:
        self._rows, self._run, self._then = rows, run, then
        self._listed, self._is_domain = domain, domain is not None
        self._max_collected, self._progress = max_collected, progress
        self._by_windows = False

    @property
    def size(self) -> int:
        return self._keys.size

    @property
    def _keys(self) -> KeyList:
        if self._listed is None:
            self._list(self.collect(lambda: self._with_bits(self._rows.frame.groupBy(*self._rows.kinds).count())))
        assert self._listed is not None  # noqa: S101
        return self._listed

    def keys(self, codes: Sequence[int] | Integers) -> list[tuple[Any, ...]]:
        return self._keys.keys(codes)

    def count_people(self, order: Order, *, max_keys: int, within: Sequence[int] | Integers | None = None) -> Integers:
        rows, identity = self._some(within)
        kept = self._bounded(rows, identity, order, max_keys)
        return self._by_code(lambda by_windows: kept(by_windows).groupBy(*identity.columns).count(), identity)

    def keys_per_person(self, most: int, *, within: Sequence[int] | Integers | None = None) -> Integers:
        rows, identity = self._some(within)

        def count() -> Frame:
            people = rows.groupBy("person").agg(
                expression(rows, f"count(DISTINCT {', '.join(identity.columns)})").alias("n")
            )
            return people.selectExpr(f"least(n, {most}) AS n").groupBy("n").count()

        found, degrees = self.collect(count), np.zeros(most + 1, np.int64)
        degrees[_array(found, "n")] = _array(found, "count")
        return degrees

    def sum_weights(self, order: Order, weights: Integers, *, without: Sequence[int] | Integers = ()) -> Integers:
        rows, identity = self._some(None)
        if len(without):
            left = self._frame_of(np.asarray(without, np.int64))
            rows = rows.join(left, [*identity.columns], "left_anti")
        most, table = len(weights) - 1, ", ".join(f"{weight}L" for weight in weights.tolist())

        def add(by_windows: bool) -> Frame:
            if by_windows:
                placed = as_windows(_pairs(rows, identity), identity, self._rows.person_bits, order, MAX_SET)
                each = placed.selectExpr("*", "count(*) OVER (PARTITION BY person) AS n")
                of_all = f"element_at(array({table}), CAST(least(n, {most}) + 1 AS INT))"
                each = each.selectExpr(*identity.columns, f"CASE WHEN place <= {most} THEN {of_all} ELSE 0L END AS w")
            else:
                weight = f"element_at(array({table}), least(size(keys), {most}) + 1)"
                few = f"transform(keys, x -> struct(x AS key, {weight} AS w))"
                ranked = identity.ranked(order, "keys")
                many = f"transform({ranked}, (x, i) -> struct(x.key AS key, IF(i < {most}, {weight}, 0L) AS w))"
                sets = sets_of(rows, identity, self._rows.person_bits)
                each = sets.selectExpr(f"explode(CASE WHEN size(keys) <= {most} THEN {few} ELSE {many} END) AS e")
                each = each.selectExpr(*identity.all_columns("e.key"), "e.w AS w")
            return each.groupBy(*identity.columns).agg(expression(each, "sum(w)").alias("count"))

        return self._by_code(add, identity)

    def add_up(
        self, addends: Sequence[Addend], order: Order, *, max_keys: int, codes: Integers, within: bool = True
    ) -> list[Any]:
        found: dict[int, Any] = {}
        terms = [addend.terms() for addend in addends]
        together = [at for at, each in enumerate(terms) if not isinstance(each.reads, PairValues | PersonKeys)]
        together = [at for at in together if terms[at].point is None]
        size, adder = len(codes) + 1, _Adder(self, order, max_keys, codes, within)
        if together:
            added = adder.of_pairs([terms[at] for at in together])
            found |= {at: addends[at].exact(each, size) for at, each in zip(together, added, strict=True)}
        for at, each in enumerate(terms):
            if isinstance(each.reads, PersonKeys):
                degrees = self.keys_per_person(each.reads.most, within=codes)
                found[at] = addends[at].exact(Totals(_NONE, np.arange(len(degrees)), (degrees,)), size)
            elif at not in found:
                [totals_of_one] = (
                    adder.of_values(each) if isinstance(each.reads, PairValues) else adder.of_pairs([each])
                )
                found[at] = addends[at].exact(totals_of_one, size)
        return [found[at] for at in range(len(addends))]

    def restrict(self, codes: Sequence[int] | Integers) -> SparkContributions:
        domain, _ = KeyList.of(self._keys.values.take(np.asarray(codes)), self._keys.bits[np.asarray(codes)])
        given = {"max_collected": self._max_collected, "progress": self._progress}
        return SparkContributions(self._rows, self._run, domain=domain, **given)  # type: ignore[arg-type]

    def close(self) -> None:
        then, self._then = self._then, None
        if then is not None:
            then()

    def _some(self, within: Sequence[int] | Integers | None) -> tuple[Frame, Identity]:
        """All rows, or those of some keys, by code."""
        if within is None and not self._is_domain:
            return self._rows.frame, self._rows.identity
        codes = np.arange(self.size) if within is None else np.asarray(within, np.int64)
        return self.joined(self._rows.frame, codes), CODED

    def joined(self, frame: Frame, codes: Integers) -> Frame:
        """The rows of these keys, with `code` and `bits`."""
        return frame.join(functions_of(frame).broadcast(self._frame_of(codes)), [*self._rows.kinds])

    def _frame_of(self, codes: Integers) -> Frame:
        return self._run(lambda: self._rows.frame.sparkSession.createDataFrame(self._keys.table(codes)))

    def _bounded(self, rows: Frame, identity: Identity, order: Order, most: int) -> Callable[[bool], Frame]:
        def kept(by_windows: bool) -> Frame:
            if most >= MAX_SET:
                return _pairs(rows, identity)
            if by_windows:
                return as_windows(_pairs(rows, identity), identity, self._rows.person_bits, order, most)
            return as_sets(sets_of(rows, identity, self._rows.person_bits), identity, order, most)

        return kept

    def _by_code(self, query: Callable[[bool], Frame], identity: Identity) -> Integers:
        """The numbers `count` of keys, by code."""
        if identity == CODED:
            found = self._collect_either(query)
            counts = np.zeros(self.size, np.int64)
            counts[_array(found, "code")] = _array(found, "count")
            return counts
        found = self._collect_either(lambda by_windows: self._with_bits(query(by_windows)))
        counts = np.zeros(0, np.int64)
        if self._listed is None:
            counts = _array(found, "count")[self._list(found)]
        else:
            codes = self._listed.codes(found.select([*self._rows.kinds]), _array(found, "bits"))
            counts = np.zeros(self._listed.size, np.int64)
            counts[codes] = _array(found, "count")
        return counts

    def _with_bits(self, counted: Frame) -> Frame:
        return counted.selectExpr(*self._rows.kinds, f"{self._rows.identity.bits()} AS bits", "count")

    def _list(self, found: pyarrow.Table) -> Integers:
        """Give codes to keys; returns where each was."""
        self._listed, order = KeyList.of(found.select([*self._rows.kinds]), _array(found, "bits"))
        return order

    def _collect_either(self, query: Callable[[bool], Frame]) -> pyarrow.Table:
        """The rows of a query, by sets; where these fail, by windows from then on."""
        if not self._by_windows:
            try:
                return self.collect(lambda: query(False))
            except EngineFailed:
                self._by_windows = True
        return self.collect(lambda: query(True))

    def collect(self, query: Callable[[], Frame]) -> pyarrow.Table:
        """The rows of a query, which are one per key at most."""
        found = self._run(lambda: query().limit(self._max_collected + 1).toArrow())
        if len(found) > self._max_collected:
            raise EngineFailed(COULD_NOT_ANSWER)
        if self._progress is not None:
            self._progress(1)
        return found


_NONE = np.zeros(0, np.int64)

Reads: TypeAlias = PairTotals | PairValues | PersonKeys | None


@dataclass(frozen=True)
class _Adder:
    """Sums over the pairs that are kept of `codes`."""

    contributions: SparkContributions
    order: Order
    max_keys: int
    codes: Integers
    within: bool

    @property
    def rows(self) -> PushedRows:
        return self.contributions._rows

    @property
    def _bounds(self) -> bool:
        """Whether a person can have too many keys."""
        return not self.within or self.max_keys < len(self.codes)

    def of_pairs(self, terms: Sequence[Terms]) -> list[Totals]:
        """Of terms about pairs. If one has points, it is alone."""
        reads = list(dict.fromkeys(each.reads for each in terms if isinstance(each.reads, PairTotals)))
        aggregates, names = ["count(*) AS rows"], dict[Reads, dict[str, str]]()
        for read in reads:
            names[read] = {f"total{at}": f"total{len(aggregates) + at}" for at in range(len(read.steps))}
            for step, name in zip(read.steps, names[read].values(), strict=True):
                aggregates.append(f"{_sum_of_steps(self.rows.value(read.column), step)} AS {name}")
        amounts = [[_text(amount, names.get(each.reads, {})) for amount in each.amounts] for each in terms]
        point = None if terms[0].point is None else _text(terms[0].point, names.get(terms[0].reads, {}))
        return self._totals(lambda: self._kept_pairs(aggregates), amounts, point)

    def of_values(self, term: Terms) -> list[Totals]:
        reads = term.reads
        assert isinstance(reads, PairValues)  # noqa: S101
        point = None if term.point is None else _text(term.point, {})
        value = self.rows.value(reads.column)

        def values() -> Frame:
            rows = self._kept_rows().where(f"{value} IS NOT NULL").selectExpr("*", f"{value} + 0.0D AS value")
            return chosen_values(rows, self.order, reads.most)

        return self._totals(values, [[_text(amount, {}) for amount in term.amounts]], point)

    def _totals(self, rows: Callable[[], Frame], amounts: Sequence[Sequence[str]], point: str | None) -> list[Totals]:
        """The sums of each list of amounts, by key and point."""
        every = [amount for some in amounts for amount in some]
        found = self.contributions.collect(lambda: _grouped(rows(), every, point))
        order = np.argsort(self.codes, kind="stable")
        places = order[np.searchsorted(self.codes[order], _array(found, "code"))]
        arrays = iter([_array(found, f"amount{at}") for at in range(len(every))])
        return [Totals(places, _array(found, "point"), tuple(islice(arrays, len(some)))) for some in amounts]

    def _kept_rows(self) -> Frame:
        rows, bits = self.rows, self.rows.person_bits
        if not self._bounds:
            coded = self.contributions.joined(rows.frame, self.codes)
            return coded.selectExpr("*", f"{bits} AS person_bits", "bits AS key_bits")
        if self.within:
            coded = self.contributions.joined(rows.frame, self.codes)
            return as_windows(coded, CODED, bits, self.order, self.max_keys, place="dense_rank")
        kept = as_windows(rows.frame, rows.identity, bits, self.order, self.max_keys, place="dense_rank")
        return self.contributions.joined(kept, self.codes)

    def _kept_pairs(self, aggregates: Sequence[str]) -> Frame:
        rows, bits = self.rows, self.rows.person_bits
        summed = [expression(rows.frame, each) for each in aggregates]
        if self.within:
            coded = self.contributions.joined(rows.frame, self.codes)
            pairs = coded.groupBy("person", *CODED.columns).agg(*summed)
            return as_windows(pairs, CODED, bits, self.order, self.max_keys) if self._bounds else pairs
        pairs = rows.frame.groupBy("person", *rows.kinds).agg(*summed)
        kept = as_windows(pairs, rows.identity, bits, self.order, self.max_keys)
        return self.contributions.joined(kept, self.codes)


def _grouped(rows: Frame, amounts: Sequence[str], point: str | None) -> Frame:
    given = [f"CAST({amount} AS {WIDE}) AS amount{n}" for n, amount in enumerate(amounts)]
    wide = rows.selectExpr("code", f"{point or '0L'} AS point", *given)
    most = f"{2**63 - 1}"
    sums = [
        expression(rows, f"CAST(greatest(least(sum(amount{n}), {most}), -{most}) AS BIGINT)").alias(f"amount{n}")
        for n in range(len(amounts))
    ]
    return wide.groupBy("code", "point").agg(*sums)


def _sum_of_steps(value: str, step: float) -> str:
    inside = f"greatest(least({value} / {step!r}D, {MAX_VALUE_STEPS}.0D), -{MAX_VALUE_STEPS}.0D)"
    return f"coalesce(sum(CAST(CASE WHEN {value} IS NULL THEN 0.0D ELSE rint({inside}) END AS {WIDE})), 0)"


def _pairs(rows: Frame, identity: Identity) -> Frame:
    return rows.select("person", *identity.columns).distinct()


def _text(expression: exp.Expr, renamed: Mapping[str, str]) -> str:
    """An expression of terms; totals of several statistics have different names."""
    copy = expression.copy()
    for column in list(copy.find_all(exp.Column)):
        if column.name in renamed:
            column.set("this", exp.to_identifier(renamed[column.name], quoted=True))
    return copy.sql(dialect=SparkSql, identify=True)


def _array(found: pyarrow.Table, name: str) -> Integers:
    array: Integers = found.column(name).to_numpy().astype(np.int64)
    return array
