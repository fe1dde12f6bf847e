"""Reports with Gaussian noise: how far one event, or one person, moves all cells, and the exact delta of that.

Moves are counted as in `test_reports_exact`, through the code that counts cells. Two neighbours whose cells are u apart
are told apart by discrete Gaussian noise on each of them; the delta of that is summed up here from its definition.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.accounting.gaussian import gaussian_delta
from sfumato.mechanisms import DiscreteGaussian
from sfumato.query.reports.calendar import Calendar
from sfumato.query.reports.gaussian import GaussianCells
from sfumato.query.reports.policy import ReportPolicy, guarantee, with_gaussian_noise
from tests.exact import test_reports_exact as reports
from tests.exact.test_reports_exact import (
    BASES,
    CLICKS,
    LEVEL,
    SKILLS,
    TIMES,
    TITLE,
    VIEWS,
    Counts,
    Live,
    cells,
    owned,
    policy,
    row,
    statistic,
    universe,
)
from tests.helpers.laws import Pair, exact_delta, product

pytestmark = pytest.mark.slow  # all small neighbours, through the engine

DELTA = Fraction(1, 10**6)
BOTH = {"views": statistic("views", {}, VIEWS), "clicks": statistic("clicks", {}, CLICKS)}
Moves = Counter[tuple[Fraction, int]]


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with Live() as opened:
        yield opened


def gaussian(*, epsilon: str = "1", delta: Fraction = DELTA, statistics: Any = BOTH, **more: Any) -> ReportPolicy:
    return with_gaussian_noise(policy(statistics, **more), Fraction(epsilon), delta)


def moves(over: ReportPolicy, before: Counts, after: Counts) -> Moves:
    """How many cells of each variance move, and by how much."""
    moved = ((cell, abs(after[cell] - before[cell])) for cell in before)
    variances = {level: over.law("views", level).parameter for level in over.calendar.levels}
    return Counter((variances[cell[4].level], by) for cell, by in moved if by)


def rho(moved: Moves) -> Fraction:
    return sum((n * by**2 / (2 * variance) for (variance, by), n in moved.items()), Fraction(0))


def loss_pair(moved: Moves, versions: int = 1) -> Pair:
    """All these cells under two neighbours: outcomes by the sum of the noise over the cells that move alike.

    The log likelihood ratio of n cells of variance v that move by d is (2 d x + n d^2) / 2v at a sum of x.
    """

    def alike(variance: Fraction, by: int, n: int) -> Pair:
        reach = math.ceil(9 * math.sqrt(variance)) + by
        x = np.arange(-reach, reach + 1)
        one, p = np.exp(-(x**2) / (2 * float(variance))), np.ones(1)
        for _ in range(n):
            p = np.convolve(p, one / one.sum())
        sums = np.arange(-n * reach, n * reach + 1)
        return p, p * np.exp(-(2 * by * sums + n * by**2) / (2 * float(variance)))

    return product(alike(variance, by, n * versions) for (variance, by), n in moved.items())


# -- how far --


class TestOneEvent:
    """The rho of every event is at most the claim, and that of some event is all of it."""

    def worst(self, live: Live, over: ReportPolicy, events: list[Any]) -> Fraction:
        found = Fraction(0)
        for base in BASES:
            before = cells(live, over, base)
            found = max([found, *(rho(moves(over, before, cells(live, over, [*base, event]))) for event in events)])
        return found

    def test_filters_that_exclude_each_other(self, live: Live) -> None:
        over = gaussian(attributes=[TITLE, LEVEL])
        events = universe(at=TIMES[::2], title=("x", "o"), kind=("view", "click", None))
        assert self.worst(live, over, [*events, *owned(universe(level=("v", "o")))]) == guarantee(over).rho

    def test_filters_that_can_hold_at_once(self, live: Live) -> None:
        over = gaussian(statistics={**BOTH, "any": statistic("any", {})}, attributes=[TITLE])
        assert guarantee(over).statistics == ("views", "any")
        assert self.worst(live, over, universe(title=("x", None), kind=("view", "click", None))) == guarantee(over).rho

    def test_several_values(self, live: Live) -> None:
        over = gaussian(attributes=[SKILLS])
        assert guarantee(over).attributes == 3
        assert self.worst(live, over, universe(skills=(["x"], ["x", "z"], ["z", "o", "x"], []))) == guarantee(over).rho


@pytest.mark.parametrize("cap", [1, 2, 3])
def test_events_of_a_person_count_squared(live: Live, cap: int) -> None:
    """They may all be in the same cells. `cap` times the rho of one would not do."""
    over, one = (gaussian(attributes=[TITLE], **more) for more in ({"cap": cap}, {}))
    claim = guarantee(over)
    before = cells(live, over, reports.TestOnePerson.OTHERS)
    found = [
        rho(moves(over, before, cells(live, over, [*reports.TestOnePerson.OTHERS, *hers])))
        for hers in reports.TestOnePerson.persons(cap + (cap < 3))
    ]
    assert (claim.unit, max(found)) == ("person", claim.rho)
    assert claim.rho == cap**2 * guarantee(one).rho


# -- what that tells --

SMALL: dict[str, Any] = {"attributes": [TITLE], "calendar": Calendar(("day",), "UTC"), "levels": ()}


def moved_by_one(live: Live, over: ReportPolicy) -> Moves:
    nobody, one = (cells(live, over, rows, paths=[()]) for rows in ([], [row()]))
    return moves(over, nobody, one)


@pytest.mark.parametrize("epsilon", ["1/2", "1", "4", "15"])
def test_the_exact_delta_of_an_event_is_the_one_that_is_promised(live: Live, epsilon: str) -> None:
    """At the promised epsilon; and noise of 3 % less deviation breaks the promise."""
    over = gaussian(epsilon=epsilon, **SMALL)
    moved = moved_by_one(live, over)
    assert sum(moved.values()) == 2
    assert exact_delta(loss_pair(moved), float(Fraction(epsilon))) <= DELTA
    less: Moves = Counter({(variance * Fraction(97, 100) ** 2, by): n for (variance, by), n in moved.items()})
    assert exact_delta(loss_pair(less), float(Fraction(epsilon))) > DELTA


def test_versions_add_up(live: Live) -> None:
    """With the claim for one version two would have more than ten times the delta."""
    over = gaussian(**SMALL, max_versions=2)
    claim, moved = guarantee(over), moved_by_one(live, over)
    assert claim.seal == 1 < claim.epsilon
    assert exact_delta(loss_pair(moved, 2), float(claim.epsilon)) <= DELTA
    assert exact_delta(loss_pair(moved, 2), float(claim.seal)) > 10 * DELTA


@pytest.mark.parametrize("levels", [("day", "month"), ("12h", "day", "month")], ids="-".join)
def test_levels_of_unlike_noise(live: Live, levels: tuple[str, ...]) -> None:
    """Each level has its share of rho. Two are counted with exactly, three by a bound, which takes more noise."""
    over = gaussian(epsilon="3", **{**SMALL, "calendar": Calendar(levels, "UTC"), "attributes": []})
    moved = moved_by_one(live, over)
    assert len(moved) == len(levels)
    assert DELTA / 5 < exact_delta(loss_pair(moved), 3.0) <= DELTA
    less: Moves = Counter({(variance * Fraction(9, 10) ** 2, by): n for (variance, by), n in moved.items()})
    assert exact_delta(loss_pair(less), 3.0) > DELTA


@pytest.mark.parametrize("cap", [2, 3])
def test_the_exact_delta_of_a_person(live: Live, cap: int) -> None:
    """All of her events in the same cells, at the claim; n times the epsilon of one event is not enough."""
    over = gaussian(**SMALL, cap=cap)
    nobody, hers = (cells(live, over, rows, paths=[()]) for rows in ([], [row()] * cap))
    moved, claim = moves(over, nobody, hers), guarantee(over)
    assert moved == {(over.law("views", "day").parameter, cap): 2}
    assert exact_delta(loss_pair(moved), float(claim.epsilon)) <= DELTA
    assert claim.epsilon > cap * claim.seal
    assert exact_delta(loss_pair(moved), float(cap * claim.seal)) > DELTA


def test_the_formula_of_continuous_noise_is_not_enough() -> None:
    """One cell of variance 1 that moves by one has twice the delta of the formula. What is promised here holds."""
    one: Moves = Counter({(Fraction(1), 1): 1})
    assert exact_delta(loss_pair(one), 5.25) > 1.9 * gaussian_delta(1, 5.25)
    for epsilon, several in itertools.product(("5", "21/4", "8", "20"), (1, 2, 4)):
        found = GaussianCells.of_promise(("day",), several, Fraction(epsilon), DELTA)
        assert exact_delta(loss_pair(Counter({(found.variance("day"), 1): several})), float(Fraction(epsilon))) <= DELTA


def test_the_law_of_a_cell_is_the_one_that_is_counted_with() -> None:
    law = DiscreteGaussian(Fraction(9, 4))
    assert [law.tail(n) - law.tail(n + 1) for n in (0, 1, 2)] == pytest.approx(
        [math.exp(-(n**2) / 4.5) / sum(math.exp(-(x**2) / 4.5) for x in range(-40, 41)) for n in (0, 1, 2)], rel=1e-9
    )
