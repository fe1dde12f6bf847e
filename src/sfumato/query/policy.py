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
from sfumato.errors import InvalidArgument, NotSupported, Refused, TableNotFound, nearest
from sfumato.mechanisms.mechanism import MAX_TAU, CountNoise
from sfumato.query.abilities import USUAL, Abilities
from sfumato.query.predicate import EVERYTHING, Predicate
from sfumato.query.values import read_value
from sfumato.types import Type, Value

CountKind: TypeAlias = Literal["units", "rows", "sum"]

MAX_DOMAIN = 100_000
RESERVED = "sfumato_"
CONNECTIVES = ("and", "or", "not")


@dataclass(frozen=True, slots=True)
class Column:
    """A column that may be filtered and grouped by.

    `domain` lists its values if they are public; None if they are part of the data. `max_groups` is how many of its
    values one person can have; None for any number. The query enforces it, unless it is `guaranteed` by the data.
    """

    name: str
    type: Type = "text"
    domain: tuple[Value, ...] | None = None
    max_groups: int | None = None
    guaranteed: bool = False

    def __post_init__(self) -> None:
        if self.domain is not None:
            values = tuple(sorted({read_value(self.name, self.type, value) for value in self.domain}))
            object.__setattr__(self, "domain", values)
            whole(f"{self.name}.domain", len(values), at_least=1, at_most=MAX_DOMAIN)
        if self.max_groups is not None:
            whole(f"{self.name}.max_groups", self.max_groups, at_least=1)


@dataclass(frozen=True, slots=True)
class Measure:
    """What is counted: people, rows, or the sum of a count column; at most `max_per_unit` per person and group."""

    name: str
    counts: CountKind = "units"
    column: str | None = None
    max_per_unit: int = 1

    def __post_init__(self) -> None:
        whole(f"{self.name}.max_per_unit", self.max_per_unit, at_least=1, at_most=MAX_TAU)


@dataclass(frozen=True, slots=True)
class TablePolicy:
    """A table: whose presence is hidden (`privacy_unit`), and what may be asked.

    `version` names the state of its rows. `source` is where they come from: rows from another place are other rows.
    Every question gets the `row_filter` in addition: the analyst may count no other rows. `abilities` are those of its
    engine.
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
        """The column of this name, in the case it was written in the policy; a refusal names the nearest."""
        if isinstance(name, str) and name.casefold() == self.privacy_unit.casefold():
            raise NotSupported(
                f"people are counted, not named: {name[:60]} can only stand in COUNT(DISTINCT {name[:60]})"
            )
        return self.columns[_find(name, self.columns, f"{self.name} has no column")]

    def measure(self, name: str) -> Measure:
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
    """Every table that may be asked about. `reports` are names of reports, which a refusal calls by what they are."""

    tables: Mapping[str, TablePolicy] = field(default_factory=dict)
    reports: tuple[str, ...] = ()

    def table(self, name: str) -> TablePolicy:
        if name in self.reports and name not in self.tables:
            raise NotSupported(f"{name} is a report and no table; ask `sfumato report --report {name}` for its numbers")
        return self.tables[_find(name, self.tables, "there is no table", partial(TableNotFound, table=name))]


def _find(name: str, known: Iterable[str], complaint: str, refusal: Callable[[str], Refused] = NotSupported) -> str:
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
    hint = nearest(name, names) or f"; there is {', '.join(names) or 'none'}"
    raise refusal(f"{complaint} {name[:60]!r}{hint}")
