"""The mechanisms of typical questions, and what a call takes of delta for several people. The planner chooses them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from sfumato.config import TableSettings
from sfumato.errors import InvalidArgument
from sfumato.explain.losses import GROUPS
from sfumato.mechanisms import Mechanism
from sfumato.mechanisms.mechanism import CountNoise
from sfumato.query.abilities import Abilities
from sfumato.query.plan import plan
from sfumato.query.policy import Column, Measure, Policy, Prices, TablePolicy
from sfumato.query.request import Histogram, Request, TopK, Total
from sfumato.wire.guarantee import Asked

Shape = tuple[int, int]
"""How many groups of a question one person can be in, and by how much a person moves each: max_groups and tau."""

MAX_SHAPES = 256

_TABLE, _BOUNDED, _OPEN, _MEASURE = "table", "bounded", "open", "people"

TYPICAL: dict[Asked, Request] = {
    "total": Total(_TABLE, _MEASURE),
    "histogram": Histogram(_TABLE, _BOUNDED, _MEASURE),
    "top_ten": TopK(_TABLE, _OPEN, _MEASURE, k=10),
}
"""One total, one histogram of a column of which a person has one value, and one list of ten of any other column."""


@lru_cache(maxsize=1024)
def mechanism(asked: Asked, prices: Prices, shape: Shape = (1, 1), *, every_group: bool = True) -> Mechanism:
    """What answers a typical question, about a column with private values; `every_group`: as in `Abilities`."""
    max_groups, tau = shape
    columns = {_BOUNDED: Column(_BOUNDED, max_groups=max_groups), _OPEN: Column(_OPEN)}
    measures = {_MEASURE: Measure(_MEASURE, max_per_unit=tau)}
    table = TablePolicy(_TABLE, "person", columns, measures, abilities=Abilities(every_group=every_group))
    return plan(TYPICAL[asked], Policy({_TABLE: table}), prices).mechanism


def pure_epsilon(answering: Mechanism) -> Fraction | None:
    """The epsilon of a mechanism that is pure but for the delta of its call; None if it is not."""
    if answering.noise.family != "laplace":
        return None
    units = answering.reserve.information
    return answering.epsilon / 2 if units == 1 else units * answering.epsilon


def has_histograms(table: TableSettings) -> bool:
    """Whether the typical histogram can be asked: of a column of which a person has one value."""
    return any(column.max_groups == 1 for column in table.columns.values())


def shapes(tables: Iterable[TableSettings]) -> frozenset[Shape] | None:
    """The shapes of all histograms of private values that can be asked about some tables; None if they are too many."""
    private_shapes: set[Shape] = set()
    for table in tables:
        products = {(1, False)}  # of some of the columns, and whether the values of one of them are private
        for column in table.columns.values():
            if column.max_groups is not None:
                private = column.domain is None
                products |= {(groups * column.max_groups, other or private) for groups, other in products}
            if len(products) > MAX_SHAPES:
                return None
        taus = {measure.max_per_unit for measure in table.measures.values()}
        taus |= {column.most_steps for column in table.columns.values() if column.most_steps}  # sums that select
        private_shapes |= {(groups, tau) for groups, private in products if private for tau in taus}
    return frozenset(private_shapes) if len(private_shapes) <= MAX_SHAPES else None


@lru_cache(maxsize=256)
def call_deltas(
    prices: Prices, noises: frozenset[CountNoise], asked: frozenset[Shape] | None
) -> tuple[Fraction, ...] | None:
    """What a call takes of delta for each of GROUPS, whichever mechanism it needs; None if it is not known.

    `noises` are those that counts may have; `asked` the shapes of histograms, None if they are too many.
    """
    if asked is None:
        return None
    answering = []
    for noise in noises:
        noisy = replace(prices, count_noise=noise)
        answering.append(mechanism("top_ten", noisy))
        for shape, every_group in itertools.product(asked, (True, False)):
            with suppress(InvalidArgument):  # noise that cannot be drawn: such a question is refused
                answering.append(mechanism("histogram", noisy, shape, every_group=every_group))
    deltas = ([each.group_delta(people) for each in answering] for people in GROUPS)
    return tuple(Fraction(max(each, default=0.0)) for each in deltas)
