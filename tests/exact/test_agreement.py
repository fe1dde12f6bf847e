"""The implementation draws from the laws that the other tests judge.

The source is keyed, so each test gives the same draws for ever: it can fail when the code changes, and not by chance.
Laws are compared by chi-square, at a distance that a right sampler under a fresh key exceeds once in 10^8 times.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.mechanisms import (
    GaussianRule,
    GeometricRule,
    KnownGaussian,
    KnownGumbel,
    KnownLaplace,
    LaplaceRule,
    Release,
    Rng,
    ThresholdGaussian,
    ThresholdLaplace,
    UnknownGaussian,
    UnknownGumbel,
    UnknownLaplace,
    context,
)
from tests.helpers.laws import Histogram, Law, NoiseLaw, TopK, by_count, in_sight, outside, peeling, top_k_law

pytestmark = pytest.mark.slow

DRAWS = 5_000


def assert_follows(draw: Callable[[Rng], Hashable], law: Mapping[Hashable, float]) -> None:
    """Draws by the implementation against expected numbers; rare outcomes are taken together."""
    seen = Counter(draw(Rng.keyed(b"agreement", context(run=run))) for run in range(DRAWS))
    assert seen.keys() <= {outcome for outcome, chance in law.items() if chance > 0}
    common = [outcome for outcome, chance in law.items() if DRAWS * chance >= 10]
    rare = DRAWS * (1 - sum(law[outcome] for outcome in common))
    distance = sum((seen[o] - DRAWS * law[o]) ** 2 / (DRAWS * law[o]) for o in common)
    distance += (DRAWS - sum(seen[o] for o in common) - rare) ** 2 / max(rare, 10)
    # Wilson and Hilferty: the cube root of chi-square over its degrees of freedom is close to normal.
    share = 2 / (9 * len(common))
    assert distance <= len(common) * (1 - share + 5.6 * math.sqrt(share)) ** 3


def rows_of(h: Histogram, limit: int) -> list[tuple[int, int]]:
    """What an engine returns: the limit + 1 largest, ties by key, no zeros."""
    return [(i, h[i]) for i in by_count(h)[: limit + 1] if h[i]]


def items(release: Release[int]) -> tuple[int, ...]:
    return tuple(item for item, _ in release.rows)


@pytest.mark.parametrize("h", [(3, 2, 1, 1, 0), (1, 1, 1, 1, 1), (2, 2, 1, 0, 0), (0, 4, 3, 3, 2)])
@pytest.mark.parametrize(("k", "cutoff", "tau"), [(1, "fixed", 1), (2, "select", 1), (3, "select", 2)])
def test_unknown_gumbel(h: Histogram, k: int, cutoff: str, tau: int) -> None:
    """A large delta, so that everything happens."""
    mechanism = UnknownGumbel.of(k=k, limit=4, epsilon=1.0, delta=0.9, tau=tau, cutoff=cutoff, with_counts=False)
    rows = rows_of(h, 4)
    assert_follows(lambda rng: items(mechanism.release(rows, rng)), top_k_law(h, TopK.of(mechanism)))


@pytest.mark.parametrize("h", [(3, 1), (0, 0), (9, 9)])
def test_unknown_gumbel_with_fewer_rows_than_cutoffs(h: Histogram) -> None:
    """The candidates are the same for an almost empty table; a small epsilon tells their thresholds apart."""
    mechanism = UnknownGumbel.of(k=1, limit=8, epsilon=0.25, delta=0.9, with_counts=False)
    rows = rows_of(h, 8)
    assert_follows(lambda rng: items(mechanism.release(rows, rng)), top_k_law(h, TopK.of(mechanism)))


@pytest.mark.parametrize("count_noise", ["laplace", "gaussian"])
def test_counts_are_noised_afresh(count_noise: str) -> None:
    """The order, the first noise and the second, together: independent of one another."""
    mechanism = KnownGumbel.of(k=2, epsilon=4.0, count_noise=count_noise)
    noise, orders = pmf(NoiseLaw.of(mechanism.noise)), peeling({0: math.exp(4), 1: 1.0}, 0.0, 2)
    law = {(o, x, y): orders[o] * noise[x] * noise[y] for o, x, y in itertools.product(orders, noise, noise)}

    def draw(rng: Rng) -> Hashable:
        release = mechanism.release({0: 1, 1: 0}, rng)
        first, second = (int(noisy or 0) - (item == 0) for item, noisy in release.rows)
        return items(release), first, second

    assert_follows(draw, law)


def pmf(noise: NoiseLaw) -> dict[int, float]:
    values = np.arange(-noise.reach, noise.reach + 1)
    return dict(zip(values.tolist(), noise.mass(values).tolist(), strict=True))


@pytest.mark.parametrize("kind", [KnownLaplace, KnownGaussian])
@pytest.mark.parametrize("tau", [1, 3])
def test_known_noise(kind: type[KnownLaplace | KnownGaussian], tau: int) -> None:
    mechanism = kind.of(epsilon=2.0, max_groups=2, tau=tau)
    law = pmf(NoiseLaw.of(mechanism.noise))
    assert_follows(lambda rng: dict(mechanism.release({"a": 7, "b": 0}, rng).rows)["b"], law)


def histogram_law(h: Histogram, mechanism: UnknownLaplace | UnknownGaussian) -> Law:
    """The threshold and which keys are above it."""
    noise, law = NoiseLaw.of(mechanism.noise), {}
    start = outside(h, mechanism.limit) + mechanism.gap
    for x, chance in pmf(noise).items():
        shown: dict[tuple[int, ...], float] = {(): chance}
        for i in sorted(in_sight(h, mechanism.limit)):
            above = 1 - float(noise.at_most(np.array(start + x - h[i])))
            shown = {k: m * (1 - above) for k, m in shown.items()} | {(*k, i): m * above for k, m in shown.items()}
        law |= {(start + x, keys): mass for keys, mass in shown.items()}
    return law


@pytest.mark.parametrize("kind", [UnknownLaplace, UnknownGaussian])
@pytest.mark.parametrize(("h", "limit"), [((3, 2, 2, 0), 2), ((1, 4, 1, 1), 3), ((5, 0, 0, 0), 2)])
def test_unknown_noise(kind: type[UnknownLaplace | UnknownGaussian], h: Histogram, limit: int) -> None:
    mechanism = kind.of(limit=limit, epsilon=2.0, delta=0.3, max_groups=1)
    rows = rows_of(h, limit)

    def draw(rng: Rng) -> Hashable:
        release = mechanism.release(rows, rng)
        return release.threshold, tuple(sorted(items(release)))

    assert_follows(draw, histogram_law(h, mechanism))


@pytest.mark.parametrize("kind", [ThresholdLaplace, ThresholdGaussian])
@pytest.mark.parametrize("tau", [1, 2])
def test_noise_and_a_fixed_threshold(kind: type[ThresholdLaplace | ThresholdGaussian], tau: int) -> None:
    """The noisy counts of two groups, or their absence; a group without people beside them stays away."""
    mechanism = kind.of(epsilon=2.0, delta=0.3, max_groups=1, tau=tau)
    noise, law = pmf(NoiseLaw.of(mechanism.noise)), dict[Hashable, float]()
    for x, y in itertools.product(noise, noise):
        noisy = {"a": 1 + x, "b": 4 + y}
        shown = tuple((key, count) for key, count in noisy.items() if count >= mechanism.threshold)
        law[shown] = law.get(shown, 0.0) + noise[x] * noise[y]
    rows = [("b", 4), ("a", 1), ("c", 0)]
    assert_follows(lambda rng: tuple(sorted(mechanism.release(rows, rng).rows)), law)


@pytest.mark.parametrize("rule", ["laplace", "gaussian"])
@pytest.mark.parametrize("people", [1, 4])
def test_threshold_rules(rule: str, people: int) -> None:
    """The noisy count of a key, or its absence; a key without people beside it stays away."""
    arguments: dict[str, Any] = {"delta": Fraction(1, 5), "max_keys": 2}
    chosen = LaplaceRule(epsilon=Fraction(2), **arguments)
    chosen = chosen if rule == "laplace" else GaussianRule(total=Fraction(1, 2), **arguments)
    law: Law = {None: 0.0}
    for z, mass in pmf(NoiseLaw.of(chosen.noise)).items():
        seen = people + z if people + z >= chosen.threshold else None
        law[seen] = law.get(seen, 0.0) + mass

    def draw(rng: Rng) -> Hashable:
        selection = chosen.select(np.array([0, people]), rng)
        assert set(selection.kept) <= {1}
        return int(selection.counts[0]) if len(selection.kept) else None

    assert_follows(draw, law)


def test_geometric_rule() -> None:
    rule = GeometricRule(epsilon=Fraction(1), delta=Fraction(1, 10), max_keys=1)
    counts = np.array([0, 1, 2, 5])
    law: Law = {(): 1.0}
    for i, pi in enumerate(rule.probabilities(counts)):
        law = {kept: mass * (1 - pi) for kept, mass in law.items()} | {(*k, i): m * pi for k, m in law.items()}
    assert_follows(lambda rng: tuple(rule.select(counts, rng).kept.tolist()), law)
