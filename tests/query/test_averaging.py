"""Averaging gains nothing: all ranges of 64 days together tell no more than the cells of the grid.

Exact linear algebra, and no noise is drawn. The true counts of the days are x. A noisy cell of the grid is the sum of
its days plus its one stored noise: y = B x + z. An answer is the sum of the cells of its partition: a = A y. How well
x can be known is the covariance of the best linear unbiased estimate, of x from a and of x from y.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from itertools import combinations, pairwise

import numpy as np
import pytest

from sfumato.query.reports.calendar import Calendar, Span

pytestmark = pytest.mark.slow  # linear algebra over 2,080 ranges

DAYS = 64
HIERARCHIES = [
    (("day", "month"), "2026-01-15"),  # one whole month
    (("day", "month"), "2026-03-01"),  # two, and the day on which clocks change
    (("day", "week"), "2026-01-15"),
    (("day", "month", "quarter"), "2026-01-31"),
]
VARIANCES = [
    {"day": 1.84, "week": 1.84, "month": 1.84, "quarter": 1.84},  # epsilon 1
    {"day": 8.0, "week": 1.0, "month": 0.5, "quarter": 0.25},
]


@cache
def partitions(calendar: Calendar, edges: tuple[datetime, ...]) -> list[tuple[Span, ...]]:
    return [calendar.partition(low, high) for low, high in combinations(edges, 2)]


class Window:
    """All ranges of 64 days, and the cells that they are made of."""

    def __init__(self, levels: tuple[str, ...], start: str, variances: dict[str, float]) -> None:
        calendar = Calendar(levels, "Europe/Berlin")
        first = calendar.instant("start", start)
        self.edges = [first, *calendar.ends(first, first + timedelta(days=DAYS + 1))][: DAYS + 1]
        self.ranges = list(combinations(self.edges, 2))
        self.partitions = partitions(calendar, tuple(self.edges))
        self.cells = sorted({span for spans in self.partitions for span in spans})
        self.variances = np.array([variances[cell.level] for cell in self.cells])

    def truth(self) -> np.ndarray:
        """B: which days a cell counts."""
        days = list(pairwise(self.edges))
        return np.array([[cell.start <= low and high <= cell.end for low, high in days] for cell in self.cells], float)

    def answers(self) -> np.ndarray:
        """A: which cells an answer adds up."""
        places = {cell: place for place, cell in enumerate(self.cells)}
        found = np.zeros((len(self.ranges), len(self.cells)))
        for row, spans in zip(found, self.partitions, strict=True):
            row[[places[span] for span in spans]] = 1
        return found


@pytest.fixture(scope="module", params=[(*one, variances) for one in HIERARCHIES for variances in VARIANCES])
def window(request) -> Window:
    return Window(*request.param)


def covariance(design: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Of the best linear unbiased estimate of x from `design` x + `factor` e, where e has variance 1 each.

    Also where the noises depend on each other, as long as no answer is without noise: (X' V^+ X)^-1, V = F F'.
    """
    left, singular, _ = np.linalg.svd(factor, full_matrices=False)
    left, singular = left[:, singular > 1e-9 * singular[0]], singular[singular > 1e-9 * singular[0]]
    assert np.allclose(left @ (left.T @ design), design, atol=1e-9), "an answer without noise"
    scaled = (left / singular).T @ design
    return np.linalg.inv(scaled.T @ scaled)


def range_variances(known: np.ndarray) -> np.ndarray:
    """How well the true count of every range of days is known, given the covariance of the days."""
    whole = np.zeros((DAYS + 1, DAYS + 1))
    whole[1:, 1:] = known.cumsum(0).cumsum(1)
    own = np.diag(whole)
    low, high = np.triu_indices(DAYS + 1, 1)
    return own[low] + own[high] - 2 * whole[low, high]


def test_there_are_2080_ranges_of_64_days(window):
    assert len(window.edges) == DAYS + 1
    assert len(window.ranges) == DAYS * (DAYS + 1) // 2 == 2080
    assert len(window.cells) < 2 * DAYS


def test_every_answer_adds_up_cells_and_every_cell_is_an_answer(window):
    """So the answers span what the cells span, no more and no less: as many numbers as there are cells."""
    answers, cells = window.answers(), len(window.cells)
    assert np.linalg.matrix_rank(answers) == cells
    singles = answers[answers.sum(axis=1) == 1]
    assert (np.sort(singles.argmax(axis=1)) == np.arange(cells)).all()
    assert np.array_equal(
        answers @ window.truth(),
        [[low <= a and b <= high for a, b in pairwise(window.edges)] for low, high in window.ranges],
    )


def test_least_squares_over_all_ranges_is_no_better_than_the_grid(window):
    deviations = np.diag(np.sqrt(window.variances))
    grid = covariance(window.truth(), deviations)
    all_ranges = covariance(window.answers() @ window.truth(), window.answers() @ deviations)
    assert np.allclose(all_ranges, grid, rtol=0, atol=1e-9)
    assert np.allclose(range_variances(all_ranges), range_variances(grid), rtol=1e-9, atol=1e-9)


def test_a_day_is_known_as_well_as_its_own_cell_and_what_holds_it(window):
    """The grid's own accuracy: a day in a range of n days gains at most the share 1/n that the range's cell tells."""
    known = np.diag(covariance(window.truth(), np.diag(np.sqrt(window.variances))))
    by_day = dict(zip(window.edges, known, strict=False))
    day = max(window.variances[[cell.level == "day" for cell in window.cells]])
    inside = {start for cell in window.cells if cell.level != "day" for start in within(cell, window.edges)}
    assert inside
    assert all(abs(by_day[start] - day) < 1e-9 for start in by_day if start not in inside)
    assert all(day * (1 - 1 / 7) <= by_day[start] < day for start in inside)


def within(cell: Span, edges: list[datetime]) -> list[datetime]:
    return [start for start in edges[:-1] if cell.start <= start < cell.end]


def test_fresh_noise_in_every_answer_would_average_away(window):
    """What the stored cells prevent: the same answers, each with noise of its own."""
    answers = window.answers()
    grid = covariance(window.truth(), np.diag(np.sqrt(window.variances)))
    as_noisy = independent(answers @ window.truth(), answers @ window.variances)
    assert np.diag(as_noisy).max() < np.diag(grid).min() / 3
    assert (range_variances(as_noisy) < range_variances(grid)).all()
    as_one_cell = independent(answers @ window.truth(), np.full(len(answers), window.variances.max()))
    assert np.diag(as_one_cell).max() < np.diag(grid).min() / 20


def independent(design: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """As `covariance`, for noises that do not depend on each other."""
    return np.linalg.inv(design.T @ (design / variances[:, None]))


@pytest.mark.parametrize(("levels", "start"), HIERARCHIES)
def test_one_answer_with_noise_of_its_own_would_be_found(levels, start):
    """The test above can fail: a single range outside of the grid already tells more."""
    window = Window(levels, start, VARIANCES[0])
    deviations, truth = np.diag(np.sqrt(window.variances)), window.truth()
    grid = covariance(truth, deviations)
    extra = np.zeros((1, DAYS))
    extra[0, 2:5] = 1
    noise = np.pad(deviations, (0, 1))
    noise[-1, -1] = np.sqrt(VARIANCES[0]["day"])
    assert np.diag(grid - covariance(np.vstack([truth, extra]), noise)).max() > 0.1
