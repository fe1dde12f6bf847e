"""Intervals of entities whose numbers add up with those of their siblings: they hold 95 times in 100.

Siblings below zero are set to zero, and the others give up as much, so a number can be far from what its own noise
explains. The stated interval includes that. A correct report fails a test here once in a million runs, by Hoeffding's
bound.
"""

from __future__ import annotations

import math
import os
from datetime import UTC, datetime
from fractions import Fraction

import numpy as np
import pytest

from sfumato.mechanisms import Rng
from sfumato.mechanisms.report_noise import draw_cells
from sfumato.query.reports.calendar import Calendar
from sfumato.query.reports.entities import Entities, Path
from sfumato.query.reports.policy import Option, ReportPolicy, ReportStatistic
from sfumato.reports.errors import error95
from sfumato.reports.numbers import step_numbers
from tests.helpers.false_alarms import FALSE_ALARM
from tests.helpers.repeats import repeats

pytestmark = pytest.mark.slow

DRAWS = repeats(2000, 20_000)
DAY = datetime(2025, 1, 1, tzinfo=UTC), datetime(2025, 1, 2, tzinfo=UTC)
SIBLINGS = {
    "one is large among a few": [500, 0, 0, 0, 0],
    "one is large among many": [500] + [0] * 99,
    "all are small": [1] * 50,
    "all are large": [400, 300, 900],
}
CHECKS = 2 * len(SIBLINGS) * 3
SLACK = math.sqrt(math.log(CHECKS / FALSE_ALARM) / (2 * DRAWS))


def shares(exact: list[int], options: tuple[Option, ...], fanout: int, path: Path) -> tuple[float, float]:
    """How often the interval of an entity holds: as it is stated, and that of its noise alone."""
    names = [f"c{number}" for number in range(len(exact))]
    entities = Entities(("account", "campaign"), [("a", name) for name in names])
    statistics = {"n": ReportStatistic("n", {"day": Fraction(1, 2)})}
    calendar, levels = Calendar(("day",), "UTC"), ("account", "campaign")
    policy = ReportPolicy("ads", "ads", "at", calendar, statistics, levels=levels, fanout=fanout)
    family = entities.family(path, fanout, whole="tree" in options)
    numbers = step_numbers(policy, family, options, (DAY,), ())
    truth = {("a",): sum(exact)} | {("a", name): count for name, count in zip(names, exact, strict=True)}
    measured = [own for own, has_cells in zip(family.paths, family.measured, strict=True) if has_cells]
    rng = Rng.keyed(os.urandom(32), b"tests of families")
    cells = np.empty((len(measured), 1, DRAWS), np.int64)
    for place, own in enumerate(measured):
        cells[place, 0] = draw_cells(np.full(DRAWS, truth[own]), policy.law("n", "day"), rng.child(place=place))
    estimates = numbers.estimate({("n", None): cells})
    [shown] = numbers.settle(estimates).values()
    entity = family.paths.index(path)
    [noise] = numbers.noise("n", 1 if family.measured[entity] else len(exact))
    width = error95(noise, alone=len(family.paths) == 1)
    moved = [numbers.most_moved(estimates["n", None][..., [draw]], shown[..., [draw]], entity) for draw in range(DRAWS)]
    errors = np.abs(shown[0, entity] - truth[path])
    return float(np.mean(errors <= width + np.array(moved))), float(np.mean(errors <= width))


@pytest.mark.parametrize("siblings", SIBLINGS)
@pytest.mark.parametrize("way", ["tree", "fanout"])
@pytest.mark.parametrize("path", [("a",), ("a", "c0"), ("a", "c1")], ids="/".join)
def test_the_stated_interval_holds_as_often_as_it_says(siblings: str, way: str, path: Path) -> None:
    exact = SIBLINGS[siblings]
    options: tuple[Option, ...] = ("tree",) if way == "tree" else ()
    stated, _ = shares(exact, options, len(exact) if way == "fanout" else 0, path)
    assert stated >= 0.95 - SLACK


@pytest.mark.parametrize("way", ["tree", "fanout"])
def test_the_interval_of_the_noise_alone_is_noticed(way: str) -> None:
    exact = SIBLINGS["one is large among many"]
    options: tuple[Option, ...] = ("tree",) if way == "tree" else ()
    _, alone = shares(exact, options, len(exact) if way == "fanout" else 0, ("a", "c0"))
    assert alone < 0.95 - SLACK
