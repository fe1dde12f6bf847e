"""Printed 95 % intervals hold the number that they say they are for, and the true one wherever they say that.

For every shape of data and every option, over some releases: the share of rows whose interval holds the number after
bounding and clamping is at least 93 %. Where an interval is said to be for the true number, the same share holds that.
Otherwise the table says what the number is, and what bounding dropped.

False alarms: intervals hold with 95 % or more. A share below 93 % of ROWS independent rows then has a probability of at
most exp(-ROWS KL(0.93, 0.95)) < 1e-8 (Chernoff), and all checks of this file together less than 1e-6. The secrets are
fixed, so the outcome is too.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from sfumato.mechanisms import LaplaceRule, TruncatedLaplaceRule
from sfumato.mechanisms.key_selection import KeySelection
from sfumato.release import Count, Mean, Sum, Units
from sfumato.release.selection import selection_columns
from sfumato.release.statistics.base import SummedStatistic
from tests.helpers.aggregating import Row, Seen, exactly, request_of, source_of
from tests.helpers.false_alarms import FALSE_ALARM, divergence
from tests.helpers.repeats import repeats

pytestmark = pytest.mark.slow

KEYS, PEOPLE, LEAST, ROWS = 900, 30, 0.93, 5200
"""Keys of a table, people of a key, and how many rows a share is taken of."""

CHECKS = 250
"""More than there are shares in this file."""


def spread(keys_of: Any, value: Any) -> list[Row]:
    """KEYS keys of about PEOPLE people each: person n has `keys_of(n)` keys in a row, with a value each."""
    rows: list[Row] = []
    person = key = 0
    while len(rows) < KEYS * PEOPLE:
        for _ in range(keys_of(person)):
            rows.append((person, f"k{key % KEYS}", float(value(person, key))))
            key += 1
        person += 1
    return rows


def four(person: int) -> int:
    return 4


def tail(person: int) -> int:
    """A third of the people have two keys, and one in fifty has a hundred."""
    return min(int(2 / (1 - (person * 0.618034) % 1)), 100)


SHAPES: dict[str, tuple[Callable[[], list[Row]], int, int]] = {  # rows, and bounds of the values
    "one key each": (lambda: spread(lambda person: 1, lambda person, key: person % 9), 0, 9),
    "many keys": (lambda: spread(four, lambda person, key: person % 9), 0, 9),
    "heavy tail": (lambda: spread(tail, lambda person, key: 2 ** (key % 8)), 0, 100),
    "zeros": (lambda: spread(four, lambda person, key: 0), 0, 1),
    "yes or no": (lambda: spread(four, lambda person, key: key % 2), 0, 1),
    "ratings": (lambda: spread(four, lambda person, key: 1 + (person * 7 + key) % 5), 1, 5),
    "ties": (lambda: spread(four, lambda person, key: 7), 0, 10),
    "negative": (lambda: spread(four, lambda person, key: (person * 31 + key) % 41 - 20), -20, 20),
    "several rows": (
        lambda: [row for row in spread(four, lambda person, key: person % 5) for _ in range(1 + row[0] % 3)],
        *(0, 15),
    ),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "given": {"max_keys": 4},
    "too few": {"max_keys": 2},
    "stated": {"max_keys": 100, "within_max_keys": True},
    "auto": {"max_keys": "auto"},
    "recount": {"max_keys": 4, "rebound": True},
    "one release": {"max_keys": 2, "rebound": False},
    "public": {"max_keys": 2, "keys": "k.csv"},
    "public, auto": {"max_keys": "auto", "keys": "k.csv"},
    "naive": {"max_keys": 3, "pipeline": "naive"},
    "fast": {"max_keys": 3, "pipeline": "fast"},
    "little noise": {"max_keys": 4, "rho": 60},
    # A deviation of 1.015: 1.96 of them are just below 2, and noise is whole.
    "unlucky noise": {"max_keys": 4, "within_max_keys": True, "keys": "k.csv", "rho": Fraction(777, 100)},
}
# Every shape with one option at least, and the hardest shape with every option.
CASES = [(shape, option) for shape in SHAPES for option in ("too few", *repeats((), ("auto", "public")))]
CASES += [
    (shape, option)
    for shape in ("heavy tail", *repeats((), ("many keys",)))
    for option in OPTIONS
    if option != "unlucky noise"
]
CASES += [(shape, "unlucky noise") for shape in ("zeros", "yes or no", "ratings")]  # no person has more than four keys


@dataclass
class Shares:
    """For each statistic: whether the interval of a row holds the number after bounding, and whether the true one."""

    bounded: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    true: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    claimed: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))


def true_numbers(rows: list[Row]) -> dict[str, dict[str, float]]:
    people, values = defaultdict(set), defaultdict(list)
    for person, key, x in rows:
        people[key].add(person)
        values[key].append(x)
    return {
        key: {"units": len(people[key]), "count": len(each), "x_sum": sum(each), "x_mean": fmean(each)}
        for key, each in values.items()
    }


def bounded_numbers(seen: Seen) -> dict[str, dict[str, float]]:
    """What the noise was added to, by key."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for key, count in seen.counts.items():
        found[key]["units"] = count  # if it is not counted again
    for statistic, sums in seen.sums.items():
        assert isinstance(statistic, SummedStatistic)
        [name] = statistic.names
        number = _without_noise(statistic)
        for key, exact in sums.items():
            found[key][name] = number(exact)
    return found


def _without_noise(statistic: Any) -> Callable[[tuple[int, ...]], float]:
    if isinstance(statistic, Mean):
        middle, step = statistic.scale.middle, float(statistic.scale.step)
        return lambda exact: middle + step * exact[1] / max(exact[0], 1)
    return lambda exact: exact[0] * statistic._units[0]


def look(shares: Shares, seen: Seen, truth: dict[str, dict[str, float]]) -> None:
    bounded, rows = bounded_numbers(seen), seen.table.rows
    for name in seen.table.statistics:
        estimand = seen.table.estimand(name)
        claimed = estimand.bounded_by is None and not estimand.clamped
        for row in rows:
            low, high, key = row[f"{name}_low"] - 1e-6, row[f"{name}_high"] + 1e-6, row["key"]
            shares.bounded[name].append(low <= bounded[key][name] <= high)
            shares.true[name].append(low <= truth[key][name] <= high)
            shares.claimed[name].append(claimed)


def assert_held(hits: list[bool], what: str) -> None:
    share = fmean(hits)
    assert len(hits) >= ROWS
    assert CHECKS * math.exp(-len(hits) * divergence(LEAST, 0.95)) <= FALSE_ALARM
    assert share >= LEAST, f"{what}: {share:.3f} of {len(hits)}"


@pytest.mark.parametrize(("shape", "option"), dict.fromkeys(CASES))
def test_intervals_hold_what_they_are_for(shape: str, option: str) -> None:
    make, low, high = SHAPES[shape]
    rows = make()
    statistics = (Units(), Count(2), Sum("x", low, high, step=1), Mean("x", low, high, step=1))
    asked = {"rho": Fraction(8), "aggregates": statistics, "delta": 1e-6, **OPTIONS[option]}
    request, truth, shares = request_of(**asked), true_numbers(rows), Shares()
    public = [(f"k{key}",) for key in range(KEYS)] if "keys" in asked else None
    source = source_of(rows, keys=public)
    number = 0
    while len(shares.bounded["units"]) < ROWS:
        seen = exactly(request, source, bytes([number]) * 32)
        assert len(seen.table) > KEYS / 8
        look(shares, seen, truth)
        number += 1
    for name in seen.table.statistics:
        assert_held(shares.bounded[name], f"{name} after bounding")
        if any(shares.claimed[name]):
            assert all(shares.claimed[name])
            assert_held(shares.true[name], f"the true {name}")
    if asked.get("within_max_keys"):
        assert any(shares.claimed["units"])
    else:
        assert_says_why(seen, truth)


def assert_says_why(seen: Seen, truth: dict[str, dict[str, float]]) -> None:
    """A number that was bounded or clamped is called so, and what bounding dropped is told."""
    released = {row["key"] for row in seen.table.rows}
    bounded = bounded_numbers(seen)
    for name in ("units", "count"):
        estimand = seen.table.estimand(name)
        lost = 1 - sum(bounded[key][name] for key in released) / sum(truth[key][name] for key in released)
        if lost > 0:
            assert estimand.number != "the true number"
        if lost > 0.2:
            assert estimand.dropped is not None
            assert "too low by about" in str(estimand)
            assert estimand.dropped.share == pytest.approx(lost, abs=0.15)
    assert seen.table.estimand("x_sum").clamped


@pytest.mark.parametrize("kind", [LaplaceRule, TruncatedLaplaceRule])
@pytest.mark.parametrize(
    ("epsilon", "delta", "max_keys"),
    [(1, 1e-6, 1), (1, 1e-6, 2), (2, 1e-3, 1), (3, 1e-2, 1), (1, 1e-2, 3), (5, 0.1, 1)],
)
def test_intervals_of_kept_keys_hold_for_every_number_of_people(
    kind: type[LaplaceRule], epsilon: float, delta: float, max_keys: int
) -> None:
    """Exactly, given that the key is kept: small keys are kept only with a high draw, large ones with any."""
    rule = kind(epsilon=Fraction(epsilon), delta=Fraction(delta), max_keys=max_keys)
    for people in range(1, 4 * rule.threshold + 20):
        noisy = np.arange(rule.threshold, people + 12 * math.ceil(rule.noise.deviation + 2) + rule.threshold)
        tails = [rule.noise.tail(y - people) for y in [*noisy.tolist(), noisy[-1] + 1]]
        columns = selection_columns(rule, KeySelection(np.arange(len(noisy)), noisy, rule.rho, rule.delta))
        held = (columns["units_low"] <= people) & (people <= columns["units_high"])
        assert (-np.diff(tails) * held).sum() >= 0.95 * tails[0]
