"""The error of ranges, from exact variances and exact laws. No noise is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import numpy as np
import pytest

from benchmarks import ranges
from sfumato.accounting.gaussian import gaussian_delta
from sfumato.mechanisms import DiscreteGaussian, DiscreteLaplace
from sfumato.mechanisms.consistency import Tree
from sfumato.query.reports.calendar import Calendar
from sfumato.query.reports.entities import Family
from sfumato.query.reports.policy import Attribute, ReportPolicy, ReportStatistic, guarantee, with_gaussian_noise
from sfumato.query.reports.shares import split_epsilon
from sfumato.query.reports.timetrees import time_trees
from sfumato.reports.accuracy import RangeVariances, compare_noise, largest_mu, usual_errors
from sfumato.reports.errors import ErrorTerms, deviation, error95, half_width_of_sum, half_width_of_weighted_sum
from sfumato.reports.numbers import step_numbers

FIRST = datetime(2025, 1, 1, tzinfo=UTC)
ALONE = Family(((),), Tree((-1,)), (True,))


def policy(
    levels: Sequence[str] = ("day", "month"), epsilon: str = "1", attributes: int = 0, cap: int | None = None
) -> ReportPolicy:
    each = dict.fromkeys(levels, Fraction(epsilon))
    named = {f"a{n}": Attribute(f"a{n}", "text", ("x", "y")) for n in range(attributes)}
    calendar = Calendar(tuple(levels), "UTC")
    return ReportPolicy("ads", "ads", "at", calendar, {"n": ReportStatistic("n", each)}, named, cap=cap)


# -- all ranges of a year, at a total epsilon of 1 --


def equal(*levels: str) -> dict[str, Fraction]:
    return dict.fromkeys(levels, Fraction(1, len(levels)))


FOUR, TWO = ("day", "month", "quarter", "year"), ("day", "month")


@pytest.mark.slow
def test_two_levels_with_least_squares_have_a_third_of_the_error_of_four_levels_of_sums():
    found = {
        "four levels, sums": ranges.fewest_cells(equal(*FOUR)),
        "two levels, sums": ranges.fewest_cells(equal(*TWO)),
        "four levels": ranges.root_mean_square(ranges.calendar_days(equal(*FOUR))),
        "binary tree": ranges.root_mean_square(ranges.binary_days()),
        "two levels": ranges.root_mean_square(ranges.calendar_days(equal(*TWO))),
        "two levels, divided for usual ranges": ranges.root_mean_square(
            ranges.calendar_days(split_epsilon(TWO, Fraction(1)))
        ),
    }
    assert {name: round(error, 1) for name, error in found.items()} == {
        "four levels, sums": 30.9,
        "two levels, sums": 15.6,
        "four levels": 18.4,
        "binary tree": 18.4,
        "two levels": 10.2,
        "two levels, divided for usual ranges": 9.9,
    }


@pytest.mark.parametrize("levels", [TWO, FOUR, ("12h", "day", "week")], ids="-".join)
def test_the_noise_of_a_range_has_the_variance_of_the_best_linear_estimate(levels):
    """Against the inverse of the whole normal matrix, for ranges that end in open and in complete months."""
    report = policy(levels, "1/3")
    calendar = report.calendar
    for first, last, until in [(0, 9, 9), (3, 40, 75), (20, 100, 181), (31, 59, 59), (5, 6, 365)]:
        start, end, complete = (calendar.ceil(FIRST + timedelta(days=n)) for n in (first, last, until))
        trees = time_trees(calendar, start, end, complete)
        [terms] = step_numbers(report, ALONE, (), ((start, end),), trees).noise("n", 1)
        leaves = sorted(
            (span.start, span.end)
            for tree in trees
            for at, span in enumerate(tree.spans)
            if at not in tree.tree.parents
        )
        precision = np.zeros((len(leaves), len(leaves)))
        for span in (span for tree in trees for span in tree.spans):
            inside = np.array([span.start <= low and high <= span.end for low, high in leaves], float)
            precision += np.outer(inside, inside) / DiscreteLaplace(Fraction(3)).deviation ** 2
        wanted = np.array([start <= low and high <= end for low, high in leaves], float)
        best = wanted @ np.linalg.inv(precision) @ wanted
        assert deviation(terms) ** 2 == pytest.approx(best)
        assert RangeVariances(report, "n").variance((start, end), trees) == pytest.approx(best)


# -- from the law of the noise to its half-width --


def exact_half_width(terms: ErrorTerms, grid: Fraction, confidence: float = 0.95) -> float:
    """By convolution, for weights that lie on a grid."""
    law = np.ones(1)
    for noise, weight, n in terms:
        step = int(Fraction(weight) / grid)
        reach = noise.smallest_tail(1e-15)
        one = np.zeros(2 * reach * step + 1)
        one[::step] = [noise.tail(x) - noise.tail(x + 1) for x in range(-reach, reach + 1)]
        for _ in range(n):
            law = np.convolve(law, one)
    middle = len(law) // 2
    inside = law[middle] + 2 * np.concatenate([[0.0], law[middle + 1 :].cumsum()])
    return float(int(np.argmax(inside >= confidence)) * grid)


def laplace(scale: str) -> DiscreteLaplace:
    return DiscreteLaplace(Fraction(scale))


def gaussian(deviation: str) -> DiscreteGaussian:
    return DiscreteGaussian(Fraction(deviation) ** 2)


SUMS: list[ErrorTerms] = [
    ((laplace("1"), 0.75, 1), (laplace("1"), 0.25, 5)),
    ((laplace("2"), 0.5, 3), (laplace("3"), 1.0, 2)),
    ((laplace("10"), 0.125, 8), (laplace("5"), 0.875, 1)),
    ((laplace("1/3"), 0.25, 4), (laplace("1/2"), 0.5, 2)),
    ((gaussian("3"), 0.75, 1), (gaussian("5"), 0.25, 5)),
    ((gaussian("1/2"), 0.5, 3), (gaussian("4/5"), 1.0, 2)),
    ((gaussian("1"), 0.125, 8), (gaussian("1/5"), 0.875, 1)),
]


@pytest.mark.parametrize("terms", SUMS, ids=str)
def test_the_half_width_of_a_weighted_sum_is_that_of_its_law(terms):
    """Never below the exact one, and above it by the width of the grid at most."""
    exact, found = exact_half_width(terms, Fraction(1, 8)), half_width_of_weighted_sum(terms)
    assert exact - 1 / 16 <= found <= exact + 1 / 8


@pytest.mark.parametrize("confidence", [0.95, 1 - 1e-9])
def test_the_half_width_of_a_sum_is_that_of_its_law(confidence):
    for terms in [
        ((laplace("1"), 1.0, 4), (laplace("5/2"), 1.0, 2)),
        ((gaussian("1/3"), 1.0, 4), (gaussian("6"), 1.0, 2)),
        ((gaussian("7"), 1.0, 3),),
    ]:
        assert half_width_of_sum(terms, confidence) == exact_half_width(terms, Fraction(1), confidence)


def test_a_large_noise_has_the_half_width_of_its_shape():
    """A hundredth of the epsilon, a hundred times the error."""
    for law in (laplace, gaussian):
        small = half_width_of_weighted_sum(((law("20"), 0.9, 1), (law("20"), 0.1, 9)))
        large = half_width_of_weighted_sum(((law("2000"), 0.9, 1), (law("2000"), 0.1, 9)))
        assert large / small == pytest.approx(100, rel=0.01)


def test_weights_of_one_are_a_plain_sum():
    terms = ((laplace("1"), 1.0, 4), (laplace("5/2"), 1.0, 2))
    assert error95(terms) == half_width_of_sum(terms)


# -- usual ranges --


def test_the_errors_of_usual_ranges():
    found = {each.range: (each.sums, each.calendar, each.final) for each in usual_errors(policy(epsilon="1/2"))}
    assert found == {
        "last 7 days": ((15, 15), (15, 15), (13, 14)),
        "last 28 days": ((29, 29), (26, 29), (19, 22)),
        "last 90 days": ((31, 43), (27, 32), (21, 23)),
        "last month": ((6, 6), (6, 6), (6, 6)),
        "year to date": ((25, 33), (25, 33), (18, 24)),
    }


def test_least_squares_is_never_worse_and_better_later():
    report = policy(("day", "month", "quarter", "year"), "1/4")
    for each in usual_errors(report):
        for at in (0, 1):
            assert each.final[at] <= each.calendar[at] <= each.sums[at]


def test_ranges_off_the_grid_are_left_out():
    assert [each.range for each in usual_errors(policy(("week",)))] == ["last 7 days", "last 28 days"]
    assert [each.range for each in usual_errors(policy(("quarter",)))] == ["last 90 days", "year to date"]


def test_statistics_with_another_epsilon_have_rows_of_their_own():
    report = policy()
    several = {
        name: ReportStatistic(name, dict.fromkeys(("day", "month"), Fraction(epsilon)))
        for name, epsilon in {"views": "1", "clicks": "1/2", "buys": "1"}.items()
    }
    found = usual_errors(ReportPolicy("ads", "ads", "at", report.calendar, several))
    assert [each.statistics for each in found[::5]] == [("views", "buys"), ("clicks",)]


# -- Gaussian noise --


@pytest.mark.parametrize(("epsilon", "cells"), [("1/10", 9), ("1/2", 14), ("1", 22)])
def test_gaussian_noise_is_better_from_so_many_cells_on(epsilon, cells):
    def ratio(count: int) -> float:
        report = policy(("day",), epsilon, attributes=count - 1)
        found = compare_noise(report, guarantee(report))
        assert (found.noise, found.cells) == ("gaussian", count)
        return found.ratio

    assert ratio(cells) < 1 < ratio(cells - 1)
    assert 0.12 < 1 - ratio(40) < 0.48


@pytest.mark.parametrize(("epsilon", "gain"), [("1/10", 0.48), ("1/2", 0.31), ("1", 0.15)])
def test_gaussian_noise_has_the_error_that_was_foretold(epsilon, gain):
    """42 cells, as in the paper: the deviations that keep the same promise, and the comparison the other way round."""
    laplace = policy(("day",), epsilon, attributes=41)
    promise = guarantee(laplace)
    made = with_gaussian_noise(laplace, promise.epsilon, Fraction(1, 10**6))
    ratio = float(made.gaussian.deviations["day"]) / laplace.law("n", "day").deviation
    assert 1 - ratio == pytest.approx(gain, abs=0.01)
    assert compare_noise(laplace, promise).ratio == pytest.approx(ratio, rel=5e-3)
    back = compare_noise(made, guarantee(made))
    assert (back.noise, back.cells) == ("laplace", 42)
    assert 1 / back.ratio == pytest.approx(ratio, rel=5e-3)
    assert "Laplace noise at the same epsilon and no delta would have" in str(back)


def test_errors_of_usual_ranges_with_gaussian_noise():
    """From the law of a sum of Gaussian cells; least squares makes them smaller."""
    made = with_gaussian_noise(policy(attributes=20), Fraction(21), Fraction(1, 10**6))
    found = {each.range: each for each in usual_errors(made)}
    day = float(made.gaussian.deviations["day"])
    assert found["last 7 days"].sums[0] == pytest.approx(1.96 * day * math.sqrt(7), abs=1)
    for each in found.values():
        assert each.final[0] <= each.calendar[0] <= each.sums[0]


def test_a_person_with_many_events_is_better_off_with_laplace_noise():
    one, many = (policy(attributes=19, cap=cap) for cap in (1, 50))
    assert compare_noise(one, guarantee(one)).ratio < 1 < compare_noise(many, guarantee(many)).ratio


@pytest.mark.parametrize(("epsilon", "mu"), [(1, 0.5), (8, 2), (0.1, 0.02), (700, 30)])
def test_the_delta_of_a_gaussian_is_the_integral_of_what_is_above(epsilon, mu):
    """The integral of (p - e^epsilon q)+ over a fine grid, in logarithms where it would overflow."""
    x = np.linspace(-40, 80, 1_200_001)
    above = np.exp(-(x**2) / 2) * -np.expm1(np.minimum(epsilon - mu * x - mu**2 / 2, 0))
    assert gaussian_delta(mu**2, epsilon) == pytest.approx(
        above.sum() * 1e-4 / math.sqrt(2 * math.pi), rel=1e-6, abs=1e-15
    )


@pytest.mark.parametrize("epsilon", [0.01, 1, 50, 5000])
def test_the_largest_mu_is_the_largest(epsilon):
    mu = largest_mu(epsilon, 1e-6)
    assert gaussian_delta(mu**2, epsilon) <= 1e-6 < gaussian_delta((mu * 1.001) ** 2, epsilon)
