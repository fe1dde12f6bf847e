"""What may be asked of a table, column by column.

These records say what is public: names, types, domains, and how much one person can contribute. The owner writes them;
nothing in them comes from the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Literal, TypeAlias

from sfumato.accounting.numbers import positive, probability, whole
from sfumato.errors import InvalidArgument, NotSupported, Refused, TableNotFound, find_nearest
from sfumato.mechanisms.estimates import Scale
from sfumato.mechanisms.mechanism import MAX_TAU, CountNoise
from sfumato.query.abilities import USUAL, Abilities
from sfumato.query.expressions.tree import Expression
from sfumato.query.predicate import EVERYTHING, Predicate
from sfumato.query.public import PublicTable
from sfumato.query.values import decimal, describe_bounds, read_value
from sfumato.types import Type, Value

Function: TypeAlias = Literal["mean", "variance", "deviation", "quantile"]
CountKind: TypeAlias = Literal["units", "rows", "sum"]

MAX_DOMAIN = 100_000
RESERVED = "sfumato_"
CONNECTIVES = ("and", "or", "not")


MAX_STEPS = 2**30
MAX_LEVEL = 10**15
MAX_VALUES_PER_UNIT = 1000


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between which values a column counts, in whole steps, and how many values of one person in a group.

    They are public: the owner knows them without looking at the rows. Values beyond them are moved to the nearest end.
    """

    low: Fraction
    high: Fraction
    step: Fraction
    max_per_unit: int = 1

    def __post_init__(self) -> None:
        whole("max_per_unit", self.max_per_unit, at_least=1, at_most=MAX_VALUES_PER_UNIT)
        positive("step", self.step)
        if self.low >= self.high:
            raise InvalidArgument("min", "must be below max")
        if any((end / self.step).denominator > 1 for end in (self.low, self.high)):
            raise InvalidArgument("step", "must divide min and max: they are whole numbers of steps")
        if self.high - self.low > MAX_STEPS * self.step:
            raise InvalidArgument("step", "is too small: there are at most 2^30 steps from min to max")
        if max(abs(self.low), abs(self.high)) > MAX_LEVEL or self.step < Fraction(1, MAX_LEVEL):
            raise InvalidArgument(
                "max", f"and min must lie within {MAX_LEVEL:g}, in steps of at least {1 / MAX_LEVEL:g}"
            )
        if self.max_per_unit * max(map(abs, self.scale.ends)) > MAX_TAU:
            raise InvalidArgument("step", "is too small for this max, or max_per_unit too large: at most 2^31 steps")

    def texts(self) -> tuple[str, str, str]:
        """The lowest value, the highest and the step, in decimal digits."""
        return decimal(self.low), decimal(self.high), decimal(self.step)

    def __str__(self) -> str:
        return describe_bounds(*self.texts(), self.max_per_unit)

    @property
    def scale(self) -> Scale:
        return Scale(self.low, self.high, self.step)

    @property
    def total(self) -> tuple[int, int]:
        """Between which whole numbers of steps one person's total of a group lies."""
        low, high = self.scale.ends
        return self.max_per_unit * min(low, 0), self.max_per_unit * max(high, 0)


@dataclass(frozen=True, slots=True)
class Column:
    """A column that may be filtered and grouped by.

    `domain` lists its values if they are public; None if they are part of the data. `max_groups` is how many of its
    values one person can have; None for any number. The query enforces it, unless it is `guaranteed` by the data.

    A column that an `expression` of others makes is called by its canonical text. The query computes it per row. With
    `bounds` its values can be added up.
    """

    name: str
    type: Type = "text"
    domain: tuple[Value, ...] | None = None
    max_groups: int | None = None
    guaranteed: bool = False
    expression: Expression | None = None
    bounds: Bounds | None = None

    def __post_init__(self) -> None:
        if self.domain is not None:
            values = tuple(sorted({read_value(self.name, self.type, value) for value in self.domain}))
            object.__setattr__(self, "domain", values)
            whole(f"{self.name}.domain", len(values), at_least=1, at_most=MAX_DOMAIN)
        if self.max_groups is not None:
            whole(f"{self.name}.max_groups", self.max_groups, at_least=1)


@dataclass(frozen=True, slots=True)
class Measure:
    """What is counted: people, rows, or the sum of a column; at most `max_per_unit` per person and group.

    Rows with a `column` are those where it is not NULL. A sum with `bounds` is one of their steps.
    """

    name: str
    counts: CountKind = "units"
    column: str | None = None
    max_per_unit: int = 1
    bounds: Bounds | None = None

    def __post_init__(self) -> None:
        whole(f"{self.name}.max_per_unit", self.max_per_unit, at_least=1, at_most=MAX_TAU)

    @property
    def selects(self) -> bool:
        """Whether one person can only raise it: then it can decide which groups are shown."""
        return self.bounds is None or self.bounds.low >= 0

    @property
    def step(self) -> Fraction:
        """What one of it stands for."""
        return Fraction(1) if self.bounds is None else self.bounds.step

    @property
    def type(self) -> Type:
        return "integer" if self.step.denominator == 1 else "number"

    def shown(self, number: int) -> int | float:
        """So many steps as what is summed."""
        exact = number * self.step
        return int(exact) if self.type == "integer" else float(exact)


@dataclass(frozen=True, slots=True)
class ValueMeasure:
    """A mean, a variance, a deviation or a quantile of the values of a column. It selects no groups."""

    name: str
    function: Function
    column: str
    bounds: Bounds
    quantile: Fraction = Fraction(0)

    @property
    def type(self) -> Type:
        return "number"


GroupNumber: TypeAlias = Measure | ValueMeasure
"""A number of a group that can be asked for."""


@dataclass(frozen=True, slots=True)
class TablePolicy:
    """A table: whose presence is hidden (`privacy_unit`), and what may be asked.

    `version` names the state of its rows. `source` is where they come from: rows from another place are other rows.
    Every question gets the `row_filter` in addition: the analyst may count no other rows. `abilities` are those of its
    engine, and `public` are the public tables there, which it can be joined to.
    """

    name: str
    privacy_unit: str
    columns: Mapping[str, Column]
    measures: Mapping[str, Measure]
    max_k: int = 100
    limit: int = 0
    version: str = ""
    source: str = ""
    row_filter: Predicate = EVERYTHING
    abilities: Abilities = USUAL
    public: Mapping[str, PublicTable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.privacy_unit.casefold() in {name.casefold() for name in self.columns}:
            raise InvalidArgument(
                f"{self.name}.columns", "must not hold the privacy unit: people are counted, not named"
            )
        for name in (*self.columns, *self.measures, self.privacy_unit):
            if name.casefold().startswith(RESERVED):
                raise InvalidArgument(self.name, f"names must not begin with {RESERVED}: {name}")
        for name in (name for name in self.columns if name.casefold() in CONNECTIVES):
            raise InvalidArgument(f"{self.name}.columns", f"must not hold {name}: filters use that word")
        for name in {name.casefold() for name in self.columns} & {name.casefold() for name in self.measures}:
            raise InvalidArgument(f"{self.name}.measures", f"must not be called like a column: {name}")
        whole(f"{self.name}.max_k", self.max_k, at_least=1)
        if not self.limit:
            object.__setattr__(self, "limit", max(10 * self.max_k, 1000))
        whole(f"{self.name}.limit", self.limit, at_least=self.max_k)

    def column(self, name: str) -> Column:
        """The column that a name means: one of the policy, or the one that an expression of them makes."""
        folded = name.casefold() if isinstance(name, str) else ""
        if any(sign in folded for sign in " (") and all(folded != each.casefold() for each in self.columns):
            from sfumato.query.sql.scope import column_of_text  # which needs this class

            if (derived := column_of_text(name, self)) is not None:
                return derived
        return self.named(name)

    def named(self, name: str) -> Column:
        """The policy's column of this name, in the case it was written there; a refusal names the nearest."""
        if isinstance(name, str) and name.casefold() == self.privacy_unit.casefold():
            raise NotSupported(
                f"people are counted, not named: {name[:60]} can only stand in COUNT(DISTINCT {name[:60]})"
            )
        return self.columns[_find(name, self.columns, f"{self.name} has no column")]

    def measure(self, name: str) -> GroupNumber:
        """The measure that a name means: one of the policy, or an aggregate of a column, such as AVG(amount)."""
        if isinstance(name, str) and "(" in name and name not in self.measures:
            from sfumato.query.sql.aggregates import measure_of_text  # which needs this class

            if (made := measure_of_text(name, self)) is not None:
                return made
        return self.measures[_find(name, self.measures, f"{self.name} has no measure")]


@dataclass(frozen=True, slots=True)
class Prices:
    """What one unit and one call mean, and which noise counts get."""

    epsilon_per: Fraction
    delta_per: Fraction
    count_noise: CountNoise = "gaussian"

    def __post_init__(self) -> None:
        positive("epsilon_per", self.epsilon_per)
        probability("delta_per", self.delta_per)


@dataclass(frozen=True, slots=True)
class Policy:
    """Every table that may be asked about. `reports` are names of reports, which a refusal calls by what they are.

    `public` are the tables whose rows everyone may read.
    """

    tables: Mapping[str, TablePolicy] = field(default_factory=dict)
    reports: tuple[str, ...] = ()
    public: Mapping[str, PublicTable] = field(default_factory=dict)

    def public_table(self, name: str) -> PublicTable | None:
        """The public table of this name, in any case; None where there is none."""
        return next((each for each in self.public.values() if each.name.casefold() == name.casefold()), None)

    def table(self, name: str) -> TablePolicy:
        if name in self.reports and name not in self.tables:
            raise NotSupported(f"{name} is a report and no table; ask `sfumato report --report {name}` for its numbers")
        if self.public and isinstance(name, str) and (public := self.public_table(name)) is not None:
            raise NotSupported(
                f"{public.name} is a public table, and people are counted in tables of people: JOIN it to one of them, "
                "or SELECT its rows alone, which is free"
            )
        return self.tables[_find(name, self.tables, "there is no table", partial(TableNotFound, table=name))]


def _find(name: str, known: Iterable[str], complaint: str, refusal: Callable[..., Refused] = NotSupported) -> str:
    """The known name that `name` means: itself, or the only one that differs in case."""
    names = list(known)
    if not isinstance(name, str):
        raise NotSupported(
            f"{complaint} that is {type(name).__name__} and not text; there is {', '.join(names) or 'none'}"
        )
    if name in names:
        return name
    candidates = [candidate for candidate in names if candidate.casefold() == name.casefold()]
    if len(candidates) == 1:
        return candidates[0]
    near = find_nearest(name, names)
    there = "" if near else f"; there is {', '.join(names) or 'none'}"
    unknown = {"unknown": name} if refusal is NotSupported else {}
    raise refusal(f"{complaint} {name[:60]!r}{there}", nearest=near, **unknown)
