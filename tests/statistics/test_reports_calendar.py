"""Errors of least squares over time, drawn as a report draws them, against the interval that a report states.

A correct report fails a test here once in a million runs, by Hoeffding's bound.
"""

from __future__ import annotations

import math
import os
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import numpy as np
import pytest

from sfumato.mechanisms import Rng
from sfumato.mechanisms.consistency import Tree
from sfumato.mechanisms.report_noise import draw_cells
from sfumato.query.reports.calendar import Calendar
from sfumato.query.reports.entities import Family
from sfumato.query.reports.gaussian import GaussianCells
from sfumato.query.reports.policy import ReportPolicy, ReportStatistic
from sfumato.query.reports.timetrees import time_trees
from sfumato.reports.errors import error95
from sfumato.reports.numbers import Numbers, step_numbers
from tests.helpers.false_alarms import FALSE_ALARM
from tests.helpers.repeats import repeats

pytestmark = pytest.mark.slow

FIRST, DRAWS = datetime(2025, 1, 1, tzinfo=UTC), 40_000
EPSILONS = {"day": Fraction(1, 2), "month": Fraction(1, 4), "quarter": Fraction(1), "year": Fraction(1, 10)}
CASES = {
    "a day of a complete month": (("day", "month"), 40, 41, 59),
    "a week of a complete month": (("day", "month"), 40, 47, 90),
    "four weeks, half of them in an open month": (("day", "month"), 76, 104, 104),
    "a complete month": (("day", "month"), 31, 59, 59),
    "ninety days of a complete year": (("day", "month", "quarter", "year"), 100, 190, 365),
    "a year to date": (("day", "month", "quarter", "year"), 0, 200, 200),
}
SLACK = math.sqrt(math.log(2 * 3 * 2 * len(CASES) / FALSE_ALARM) / (2 * DRAWS))
GAUSSIAN = GaussianCells(
    Fraction(1),
    Fraction(1, 10**6),
    {"day": Fraction(4), "month": Fraction(7), "quarter": Fraction(1, 2), "year": Fraction(12)},
)


def numbers(levels: tuple[str, ...], start: int, end: int, complete: int, *, gaussian: bool) -> Numbers:
    calendar = Calendar(levels, "UTC")
    low, high, until = (FIRST + timedelta(days=day) for day in (start, end, complete))
    epsilon = {level: EPSILONS[level] for level in levels}
    statistics = {"n": ReportStatistic("n", epsilon)}
    policy = ReportPolicy("ads", "ads", "at", calendar, statistics, gaussian=GAUSSIAN if gaussian else None)
    alone = Family(((),), Tree((-1,)), (True,))
    return step_numbers(policy, alone, (), ((low, high),), time_trees(calendar, low, high, until))


@pytest.mark.parametrize(
    ("case", "gaussian"), [*((case, False) for case in CASES), *((case, True) for case in [*CASES][:: repeats(2, 1)])]
)
def test_the_stated_interval_holds_as_often_as_it_says(case: str, gaussian: bool) -> None:
    """Cells are 50 a day and their noise, so that no number is clamped; what is shown is off by the noise alone.

    95 % and no less, and two less than the width no more, by Hoeffding's bound for all cases together. Half the width
    would be found out.
    """
    asked = numbers(*CASES[case], gaussian=gaussian)
    rng = Rng.keyed(os.urandom(32), b"tests of calendars")
    cells = np.empty((1, len(asked.spans), DRAWS), np.int64)
    for place, span in enumerate(asked.spans):
        exact = np.full(DRAWS, 50 * (span.end - span.start).days)
        cells[0, place] = draw_cells(exact, asked.policy.law("n", span.level), rng.child(place=place))
    shown = asked.compute({("n", None): cells})["n", None][0, 0]
    days = CASES[case][2] - CASES[case][1]
    errors = shown - 50 * days
    [noise] = asked.noise("n", 1)
    width = error95(noise)
    assert np.mean(np.abs(errors) <= width) >= 0.95 - SLACK
    assert np.mean(np.abs(errors) <= width - 2) < 0.95 + SLACK
    assert np.mean(np.abs(errors) <= width // 2) < 0.95 - SLACK
