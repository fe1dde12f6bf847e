"""Private Count Release: the exact law of what it picks, in which pass, and where each pass ends.

The law is that of one draw after another, as the paper runs it; the implementation runs a race a pass. Epsilons,
thresholds, noise and prices are the implementation's.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import pytest

from sfumato.accounting import zcdp_delta
from sfumato.mechanisms import DiscreteGaussian, PrivateCountRelease, Rng, context
from sfumato.mechanisms.pcr import Level
from sfumato.mechanisms.unknown_domain import bottom_gap
from tests.helpers.false_alarms import unlikely
from tests.helpers.laws import (
    TOLERANCE,
    Histogram,
    Law,
    NoiseLaw,
    Pair,
    by_count,
    exact_delta,
    neighbours,
    outside,
    paired,
    product,
    shift_pair,
    worst_delta,
)
from tests.helpers.repeats import repeats

pytestmark = pytest.mark.slow  # all outcomes of many passes

# What was seen, in its order: (level, key), the key being None for the bottom element.
Step: TypeAlias = tuple[int, int | None]
Transcript: TypeAlias = tuple[Step, ...]
Reading: TypeAlias = Callable[[Histogram, int, frozenset[int]], int]


def read_once(h: Histogram, limit: int, removed: frozenset[int]) -> int:
    return outside(h, limit)


def read_again(h: Histogram, limit: int, removed: frozenset[int]) -> int:
    """The (limit + 1)-th count of what is left of a table of limit + 1 rows: zero after the first removal."""
    left = [h[i] for i in by_count(h)[: limit + 1] if i not in removed]
    return left[limit] if limit < len(left) else 0


@dataclass(frozen=True)
class Passes:
    """The mechanism without its counts. `read` says what the first count out of sight is."""

    rho: Fraction
    limit: int
    levels: tuple[Level, ...]
    read: Reading = read_once

    @classmethod
    def of(cls, mechanism: PrivateCountRelease) -> Passes:
        return cls(mechanism.rho, mechanism.limit, mechanism.levels)

    def next(self, h: Histogram, level: Level, removed: frozenset[int]) -> Law:
        """One call for one row: its key, or None."""
        c = self.read(h, self.limit, removed)
        table = by_count(h)[: self.limit + 1]
        weights: Law = {i: math.exp(float(level.epsilon) * (h[i] - c)) for i in table if h[i] > c and i not in removed}
        weights[None] = math.exp(float(level.epsilon) * level.gap)
        total = sum(weights.values())
        return {key: weight / total for key, weight in weights.items()}

    def price(self, step: Step) -> Fraction:
        """A place in the race, epsilon^2 / 8, and for a row its count, 1 / (2 sigma^2)."""
        level = self.levels[step[0]]
        return level.epsilon**2 / 8 + (0 if step[1] is None else 1 / (2 * level.variance))

    def spent(self, seen: Transcript) -> Fraction:
        return sum(map(self.price, seen), Fraction(0))

    def epsilon(self, seen: Transcript) -> float:
        """What the picks of a transcript add up to, each being a step of bounded range."""
        return sum(float(self.levels[i].epsilon) for i, _ in seen)


@lru_cache(maxsize=10_000)
def transcripts(h: Histogram, rule: Passes) -> Law:
    """One draw after another; before each it is asked whether a row can be paid."""
    law: Law = defaultdict(float)

    def draw(seen: Transcript, number: int, left: Fraction, chance: float) -> None:
        if number == len(rule.levels) or rule.price((number, 0)) > left:
            law[seen] += chance
            return
        removed = frozenset(key for _, key in seen if key is not None)
        for key, share in rule.next(h, rule.levels[number], removed).items():
            step = number, key
            draw((*seen, step), number + (key is None), left - rule.price(step), chance * share)

    draw((), 0, rule.rho, 1.0)
    return law


def pair(h: Histogram, other: Histogram, rule: Passes) -> Pair:
    return paired(transcripts(h, rule), transcripts(other, rule))


def run_levels(rule: Passes) -> int:
    """How many passes there are at most: if each meets the bottom element at once."""
    return max(len({i for i, _ in seen}) for seen in transcripts((0,), rule))


def most_epsilon(rule: Passes, pairs: Iterable[tuple[Histogram, ...]]) -> float:
    """The most that the picks of any transcript can add up to."""
    return max(map(rule.epsilon, possible(rule, pairs)))


def possible(rule: Passes, pairs: Iterable[tuple[Histogram, ...]]) -> set[Transcript]:
    return {seen for both in pairs for h in both for seen in transcripts(h, rule)}


def cases(rule: Passes, keys: int) -> Iterator[tuple[Histogram, ...]]:
    """All neighbours of few keys: small counts, and counts about the bottom element of the first and last pass."""
    first, last = rule.levels[0].gap, rule.levels[run_levels(rule) - 1].gap
    for counts in (range(4), (0, 1, last, first + 1)):
        yield from neighbours(keys, counts, 1)


def release(**arguments: Any) -> PrivateCountRelease:
    return PrivateCountRelease(**{"delta": 3e-2, "limit": 3, "relative_error": 1, "first_epsilon": 0.5} | arguments)


# rho, first_epsilon, limit, keys, passes. Counts are coarse here, so that a row costs little more than its pick.
SETTINGS = [
    (Fraction(1, 7), 0.5, 2, 4, 3),
    (Fraction(1, 7), 0.5, 3, 4, 3),
    (Fraction(5, 4), 2.0, 3, 4, 2),
    (Fraction(2), 2.0, 1, 3, 3),
    (Fraction(1, 20), 0.5, 3, 4, 1),
]


@pytest.mark.parametrize(("rho", "first", "limit", "keys", "passes"), SETTINGS)
@pytest.mark.parametrize("delta", [3e-2, 1e-3])
def test_picks(rho: Fraction, first: float, limit: int, keys: int, passes: int, delta: float) -> None:
    """All neighbours: beyond the epsilons that can be spent there is delta_level for every pass, both ways."""
    mechanism = release(rho=rho, first_epsilon=first, limit=limit, delta=delta)
    rule = Passes.of(mechanism)
    found = list(cases(rule, keys))
    assert run_levels(rule) == passes <= len(mechanism.levels)
    claim = passes * float(mechanism.delta_level)
    assert claim <= delta
    worst = worst_delta((pair(h, other, rule) for h, other in found), most_epsilon(rule, found))
    assert 0 < worst <= claim + TOLERANCE
    assert max(map(rule.spent, possible(rule, found))) <= rho


@pytest.mark.parametrize("relative_error", [1, 0.4])
@pytest.mark.parametrize(("rho", "first", "limit"), [(Fraction(1, 7), 0.5, 2), (Fraction(5, 4), 2.0, 3), (2, 2.0, 1)])
def test_the_ledger(rho: Fraction, first: float, limit: int, relative_error: float) -> None:
    """The claim itself, with the counts: delta, and rho converted at several epsilons."""
    mechanism = release(rho=rho, first_epsilon=first, limit=limit, relative_error=relative_error)
    rule = Passes.of(mechanism)
    claims = {at * first: 3e-2 + zcdp_delta(rho, at * first) for at in (0.0, 0.5, 1.0, 2.0, 4.0)}
    for h, other in cases(rule, 3):
        both = with_counts(h, other, rule)
        for at, claimed in claims.items():
            assert exact_delta(both, at) <= claimed + TOLERANCE


def with_counts(h: Histogram, other: Histogram, rule: Passes, less: int = 1) -> Pair:
    """Transcripts with a freshly noised count for every key in them, grouped by what moved in which pass.

    The noise on counts has a variance `less` times smaller than what is paid for.
    """
    p, q = transcripts(h, rule), transcripts(other, rule)
    groups: dict[Hashable, list[tuple[float, float]]] = defaultdict(list)
    for seen in p.keys() | q.keys():
        moved = tuple(i for i, key in seen if key is not None and other[key] != h[key])
        groups[moved].append((p.get(seen, 0.0), q.get(seen, 0.0)))
    parts = [
        product([tuple(np.array(masses).T), *(one_count(rule.levels[i].variance / less) for i in moved)])
        for moved, masses in groups.items()
    ]
    return np.concatenate([left for left, _ in parts]), np.concatenate([right for _, right in parts])


@lru_cache(maxsize=64)
def one_count(variance: Fraction) -> Pair:
    return shift_pair(NoiseLaw.of(DiscreteGaussian(variance)), (1,))


# --- What would be wrong ----------------------------------------------------------------------------------------


def whole(rho: Fraction, first: float, limit: int, room: int = 6) -> PrivateCountRelease:
    """A delta for which the first threshold is whole without rounding, so that nothing is given away."""
    per_level = limit * math.exp(-first * math.ceil(room / first)) * (1 + 1e-9)
    passes = len(release(rho=rho, first_epsilon=first, limit=limit).levels)
    return release(rho=rho, first_epsilon=first, limit=limit, delta=passes * per_level)


def alone(limit: int) -> tuple[Histogram, Histogram]:
    """A person alone in as many rows as may be looked at."""
    return (0,) * limit, (1,) * limit


def lower(rule: Passes, by: Callable[[Level], float]) -> Passes:
    """The same with other thresholds."""
    return replace(rule, levels=tuple(replace(level, gap=level.gap - by(level)) for level in rule.levels))


class TestThreshold:
    RHO, FIRST, LIMIT = Fraction(1, 20), 0.5, 3

    def delta(self, change: Callable[[Passes], Passes]) -> tuple[float, float]:
        mechanism = whole(self.RHO, self.FIRST, self.LIMIT)
        rule = change(Passes.of(mechanism))
        assert run_levels(rule) == 1
        both = pair(*alone(self.LIMIT), rule)
        return exact_delta(both, most_epsilon(rule, [alone(self.LIMIT)])), float(mechanism.delta_level)

    def test_ours_is_tight(self) -> None:
        """delta / (1 + delta), to the promille."""
        reached, claim = self.delta(lambda rule: rule)
        assert reached == pytest.approx(claim / (1 + claim), rel=1e-3)

    def test_one_lower(self) -> None:
        reached, claim = self.delta(lambda rule: lower(rule, lambda level: 1))
        assert reached > 1.5 * claim

    def test_without_the_limit(self) -> None:
        """1 + ln(1 / delta_level) / epsilon: as many times too much as rows may be looked at."""
        reached, claim = self.delta(lambda rule: lower(rule, lambda level: math.log(self.LIMIT) / level.epsilon))
        assert reached > 0.95 * self.LIMIT * claim


@pytest.mark.parametrize(("rho", "first", "limit", "passes"), [(Fraction(1, 7), 0.5, 3, 3), (Fraction(2), 2.0, 1, 3)])
def test_every_pass_has_its_own_delta(rho: Fraction, first: float, limit: int, passes: int) -> None:
    """Somebody alone in the table may show in any pass: one delta_level does not cover three of them."""
    mechanism = whole(rho, first, limit, room=8)
    rule = Passes.of(mechanism)
    assert run_levels(rule) == passes
    reached = exact_delta(pair(*alone(limit), rule), most_epsilon(rule, [alone(limit)]))
    assert 1.5 * mechanism.delta_level < reached <= passes * mechanism.delta_level


def test_delta_is_divided_among_the_passes() -> None:
    """Finer passes are more passes: thresholds for the whole delta in each of them give more than that."""
    mechanism = release(rho=Fraction(1, 7), delta=0.01)
    gaps = [bottom_gap(level.epsilon, mechanism.delta, 1, mechanism.limit) for level in mechanism.levels]
    rule = Passes.of(mechanism)
    whole_delta = replace(rule, levels=tuple(map(lambda level, gap: replace(level, gap=gap), rule.levels, gaps)))
    both = alone(mechanism.limit)
    divided, undivided = (exact_delta(pair(*both, each), most_epsilon(each, [both])) for each in (rule, whole_delta))
    assert divided <= mechanism.delta < undivided


def test_counts_have_the_noise_that_they_are_charged_for() -> None:
    """A person in all rows, which all stand out: with a quarter of the variance the ledger's claim breaks."""
    mechanism = release(rho=Fraction(2), first_epsilon=1.0, relative_error=0.2, limit=2)
    rule, (h, other) = Passes.of(mechanism), ((30, 30), (31, 31))
    claims = {at: float(mechanism.delta) + zcdp_delta(mechanism.rho, at) for at in (1.0, 2.0, 4.0, 6.0)}
    for less, kept in ((1, True), (4, False)):
        both = with_counts(h, other, rule, less)
        assert all(exact_delta(both, at) <= claimed + TOLERANCE for at, claimed in claims.items()) is kept


class TestCutoffReadAgain:
    """Four keys, two may be looked at. Under one neighbour key 1 is in the table of three rows, under the other not."""

    BEFORE, AFTER = (100, 39, 40, 40), (100, 40, 40, 40)
    DELTA = 1e-6

    def delta(self, read: Reading) -> float:
        # Two rows at epsilon 1, and then no budget.
        rule = replace(Passes.of(release(rho=Fraction(1, 3), first_epsilon=1.0, limit=2, delta=self.DELTA)), read=read)
        found = self.BEFORE, self.AFTER
        return exact_delta(pair(*found, rule), most_epsilon(rule, [found]))

    def test_read_once(self) -> None:
        assert self.delta(read_once) <= self.DELTA

    def test_read_again(self) -> None:
        assert self.delta(read_again) == pytest.approx(0.5, abs=1e-3)


# --- The implementation draws from this law ---------------------------------------------------------------------


def seen_in(mechanism: PrivateCountRelease, rows: list[tuple[int, int]], run: int) -> Hashable:
    """What a release shows of its transcript: items by level, how many passes, and what they cost."""
    released = mechanism.release(rows, Rng.keyed(b"agreement", context(run=run)))
    return tuple((row.level, row.key) for row in released.rows), released.levels, released.rho


def shown(seen: Transcript, rule: Passes) -> Hashable:
    return tuple(step for step in seen if step[1] is not None), len({i for i, _ in seen}), rule.spent(seen)


LITTLE, MUCH = (Fraction(1, 7), 0.5), (Fraction(5, 4), 2.0)
CASES = [((3, 2, 1, 1), LITTLE), ((1, 1, 1, 0), MUCH), ((9, 4, 4, 2), LITTLE), ((), MUCH)]
OTHERS = [(h, LITTLE if budget is MUCH else MUCH) for h, budget in CASES]


@pytest.mark.parametrize(("h", "budget"), [*CASES, *repeats([], OTHERS)])
def test_frequencies(h: Histogram, budget: tuple[Fraction, float]) -> None:
    """A large delta, so that everything happens. False alarm once in a million (Chernoff), under a fixed key.

    A thousand draws tell a probability of 1/2 from 0.6, ten thousand from 0.53.
    """
    rho, first = budget
    mechanism = release(rho=rho, first_epsilon=first, delta=0.99)
    rule, law = Passes.of(mechanism), defaultdict(float)
    for seen, mass in transcripts(h, rule).items():
        law[shown(seen, rule)] += mass
    assert len(law) == len(transcripts(h, rule))
    rows = [(i, h[i]) for i in by_count(h)[:4] if h[i]]
    draws = [seen_in(mechanism, rows, run) for run in range(repeats(1000, 10_000))]
    assert not unlikely(draws, law)
    assert set(draws) <= law.keys()
