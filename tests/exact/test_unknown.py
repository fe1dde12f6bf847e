"""Domains that are part of the data: the claimed (epsilon, delta) and the ledger's claim between small neighbours.

Two ranges of counts are searched: 0 to 3, where keys come into sight and leave it, and a few values about the
threshold, where keys in sight on both sides are likely to be released.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest

from sfumato.accounting import Charge
from sfumato.mechanisms import Rng, UnknownGaussian, UnknownGumbel, UnknownLaplace
from tests.helpers.claims import assert_ledger, assert_private, assert_zcdp
from tests.helpers.laws import (
    TOLERANCE,
    Change,
    NoiseLaw,
    Pair,
    TopK,
    exact_delta,
    labelled_neighbours,
    neighbours,
    renyi,
    shift_pair,
    threshold_pair,
    top_k_law,
    top_k_pair,
    with_counts,
    worst_delta,
)
from tests.helpers.repeats import repeats

pytestmark = pytest.mark.slow

Thresholded = UnknownLaplace | UnknownGaussian


# --- Histograms above a noisy threshold, which is released too ---------------------------------------------------


@lru_cache(maxsize=64)
def changes(limit: int, tau: int, max_groups: int, gap: int) -> frozenset[Change]:
    """All that can distinguish labelled neighbours of 4 or 5 keys: small counts, and counts about the threshold."""
    ranges = ((4, range(4)), (5, range(3)), (4, (0, 1, gap, gap + 1)))
    cases = (case for keys, counts in ranges for case in labelled_neighbours(keys, counts, tau, max_groups))
    return frozenset(Change.between(h, other, limit) for h, other in cases)


def thresholded(mechanism: Thresholded) -> list[Pair]:
    gap, noise = mechanism.gap, NoiseLaw.of(mechanism.noise)
    found = changes(mechanism.limit, mechanism.tau, mechanism.max_groups, gap)
    return [threshold_pair(change, gap, noise) for change in found]


@pytest.mark.parametrize("limit", [1, 2, 3])
@pytest.mark.parametrize(("epsilon", "delta", "tau"), [(2.0, 1e-2, 1), (4.0, 1e-3, 1), (4.0, 1e-2, 2), (1.0, 0.1, 1)])
class TestOneGroup:
    def test_laplace_is_private(self, limit: int, epsilon: float, delta: float, tau: int) -> None:
        mechanism = UnknownLaplace.of(limit=limit, epsilon=epsilon, delta=delta, tau=tau, max_groups=1)
        assert mechanism.reserve == Charge(1, 1)
        assert_private(thresholded(mechanism), epsilon / 2, delta)

    def test_laplace_delta_is_the_chance_of_a_lone_row(
        self, limit: int, epsilon: float, delta: float, tau: int
    ) -> None:
        """The worst neighbours differ in a row that only one of them has; its chance is the tail of a difference."""
        mechanism = UnknownLaplace.of(limit=limit, epsilon=epsilon, delta=delta, tau=tau, max_groups=1)
        lone = NoiseLaw.of(mechanism.noise).difference_tail(mechanism.gap - tau + 1)
        assert worst_delta(thresholded(mechanism), epsilon / 2) == pytest.approx(lone, rel=1e-9)

    def test_a_lower_threshold_would_not_do(self, limit: int, epsilon: float, delta: float, tau: int) -> None:
        for kind in (UnknownLaplace, UnknownGaussian):
            mechanism = kind.of(limit=limit, epsilon=epsilon, delta=delta, tau=tau, max_groups=1)
            lone = Change.between((0,) * 4, (tau, 0, 0, 0), limit)
            noise = NoiseLaw.of(mechanism.noise)
            assert exact_delta(threshold_pair(lone, mechanism.gap - 1, noise), 20.0) > delta

    def test_gaussian_pays_one_unit(self, limit: int, epsilon: float, delta: float, tau: int) -> None:
        mechanism = UnknownGaussian.of(limit=limit, epsilon=epsilon, delta=delta, tau=tau, max_groups=1)
        assert mechanism.reserve == Charge(1, 1)
        assert_ledger(thresholded(mechanism), mechanism.reserve.information, epsilon, delta)


@pytest.mark.parametrize("limit", [1, 2, 3])
@pytest.mark.parametrize("kind", [UnknownLaplace, UnknownGaussian])
@pytest.mark.parametrize(("epsilon", "delta"), [(2.0, 1e-2), (4.0, 1e-3)])
def test_two_groups_pay_one_unit(kind: type[Thresholded], limit: int, epsilon: float, delta: float) -> None:
    mechanism = kind.of(limit=limit, epsilon=epsilon, delta=delta, max_groups=2)
    assert mechanism.reserve == Charge(1, 1)
    assert_ledger(thresholded(mechanism), mechanism.reserve.information, epsilon, delta)


@pytest.mark.parametrize("max_groups", [1, 2])
@pytest.mark.parametrize("kind", [UnknownLaplace, UnknownGaussian])
@pytest.mark.parametrize(("epsilon", "tau"), [(2.0, 1), (4.0, 1), (4.0, 2)])
class TestRowsInSightOfBoth:
    """Where no row comes into sight or leaves it there is no delta: the rest is zCDP, to the unit."""

    def test_one_unit(self, kind: type[Thresholded], max_groups: int, epsilon: float, tau: int) -> None:
        mechanism = kind.of(limit=2, epsilon=epsilon, delta=1e-2, tau=tau, max_groups=max_groups)
        gap, noise = mechanism.gap, NoiseLaw.of(mechanism.noise)
        kept = [change for change in changes(2, tau, max_groups, gap) if not change.gone + change.new]
        assert len(kept) > 5
        assert_zcdp([threshold_pair(change, gap, noise) for change in kept], epsilon**2 / 8)

    def test_no_less(self, kind: type[Thresholded], max_groups: int, epsilon: float, tau: int) -> None:
        """Rows far above the threshold are counts with noise: the order-2 divergence is what such noise has."""
        mechanism = kind.of(limit=2, epsilon=epsilon, delta=1e-2, tau=tau, max_groups=max_groups)
        noise = NoiseLaw.of(mechanism.noise)
        far = mechanism.gap + 3 * noise.reach
        change = Change(rise=0, common=((far, far + tau),) * max_groups, gone=(), new=())
        root = epsilon / (2 * tau * math.sqrt(max_groups))  # one over the scale, or over sigma
        due = NoiseLaw(1, root) if kind is UnknownLaplace else NoiseLaw(2, root**2 / 2)
        divergence = renyi(threshold_pair(change, mechanism.gap, noise), 2)
        assert divergence == pytest.approx(renyi(shift_pair(due, (tau,) * max_groups), 2), rel=1e-9)
        if kind is UnknownGaussian:
            assert divergence == pytest.approx(2 * epsilon**2 / 8, rel=1e-9)


@pytest.mark.parametrize("kind", [UnknownLaplace, UnknownGaussian])
@pytest.mark.parametrize("max_groups", [1, 2, 3])
@pytest.mark.parametrize(("epsilon", "delta", "tau"), [(0.5, 1e-3, 1), (1.0, 1e-2, 2), (4.0, 1e-3, 1)])
def test_rows_of_one_person_show_with_delta_at_most(
    kind: type[Thresholded], max_groups: int, epsilon: float, delta: float, tau: int
) -> None:
    """A person alone in the table is in max_groups rows; any of them shown gives the person away."""
    mechanism = kind.of(limit=5, epsilon=epsilon, delta=delta, tau=tau, max_groups=max_groups)
    noise = NoiseLaw.of(mechanism.noise)
    alone = Change(rise=0, common=(), gone=(), new=(tau,) * max_groups)
    shown = exact_delta(threshold_pair(alone, mechanism.gap, noise), 20.0)
    assert shown <= delta
    assert max_groups * noise.difference_tail(mechanism.gap - tau) > delta  # a threshold lower by one is too low


# --- Rankings up to a bottom element ----------------------------------------------------------------------------


def gumbel(**arguments: Any) -> UnknownGumbel:
    return UnknownGumbel.of(**{"epsilon": 1.0, "delta": 1e-2, "with_counts": False, "cutoff": "fixed"} | arguments)


def rankings(mechanism: UnknownGumbel, keys: int = 4) -> Iterator[Pair]:
    """All neighbours of few keys: counts 0 to 3, and counts about the bottom element."""
    rule = TopK.of(mechanism)
    top = mechanism.gap(mechanism.limit)
    for counts in (range(4), (0, mechanism.tau, top - 1, top + 1)):
        for h, other in neighbours(keys, counts, mechanism.tau):
            yield ranking_pair(mechanism, rule, h, other)


def ranking_pair(mechanism: UnknownGumbel, rule: TopK, h: tuple[int, ...], other: tuple[int, ...]) -> Pair:
    if not mechanism.with_counts:
        return top_k_pair(h, other, rule)
    u = tuple(b - a for a, b in zip(h, other, strict=True))
    return with_counts(top_k_law(h, rule), top_k_law(other, rule), u, NoiseLaw.of(mechanism.noise))


SHAPES = [(1, 1), (1, 3), (2, 2), (2, 4), (3, 3)]


@pytest.mark.parametrize(("k", "limit"), SHAPES)
@pytest.mark.parametrize(("epsilon", "delta", "tau"), [(0.5, 1e-2, 1), (1.0, 1e-3, 1), (2.0, 1e-2, 2), (4.0, 1e-2, 1)])
@pytest.mark.parametrize("cutoff", ["fixed", "select"])
def test_list(k: int, limit: int, epsilon: float, delta: float, tau: int, cutoff: str) -> None:
    """A step of epsilon for every pick, and for the cutoff where it is selected."""
    mechanism = gumbel(k=k, limit=limit, epsilon=epsilon, delta=delta, tau=tau, cutoff=cutoff)
    steps = k + (cutoff == "select")
    assert mechanism.reserve == Charge(steps, 1)
    pairs = list(rankings(mechanism, keys=4 if tau == 1 else 3))
    assert_private(pairs, steps * epsilon, delta)
    assert_ledger(pairs, mechanism.reserve.information, epsilon, delta)


@pytest.mark.slow
@pytest.mark.parametrize(("k", "limit"), [(1, 2), (3, 4), *repeats([], [(2, 3), (2, 4)])])
@pytest.mark.parametrize(("epsilon", "tau"), [(0.5, 1), (2.0, 2), (4.0, 1)])
@pytest.mark.parametrize("count_noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("cutoff", ["select", "fixed"])
def test_list_with_counts(k: int, limit: int, epsilon: float, tau: int, count_noise: str, cutoff: str) -> None:
    """With a selected cutoff, the product's form: 2k + 1 units; ((2k + 1) epsilon, delta) with Laplace counts.

    A Laplace count is pure at half of epsilon, so even (3k / 2 + 1) epsilon will do.
    """
    mechanism = gumbel(
        k=k, limit=limit, epsilon=epsilon, tau=tau, cutoff=cutoff, with_counts=True, count_noise=count_noise
    )
    selects = cutoff == "select"
    assert mechanism.reserve == Charge(2 * k + selects, 1)
    pairs = list(rankings(mechanism, keys=4 if tau == 1 else 3))
    if count_noise == "laplace":
        assert_private(pairs, (2 * k + selects) * epsilon, 1e-2)
        assert_private(pairs, (1.5 * k + selects) * epsilon, 1e-2)
    assert_ledger(pairs, mechanism.reserve.information, epsilon, 1e-2)


@pytest.mark.parametrize("max_k", [2, 3])
def test_the_range_of_cutoffs_need_not_start_at_k(max_k: int) -> None:
    """A range that does not depend on k is what lets a longer list continue a shorter one."""
    mechanism = gumbel(k=1, max_k=max_k, limit=4, cutoff="select")
    assert TopK.of(mechanism).cutoffs == tuple(range(max_k, 5))
    pairs = list(rankings(mechanism))
    assert_private(pairs, 2 * 1.0, 1e-2)
    assert_ledger(pairs, mechanism.reserve.information, 1.0, 1e-2)


@pytest.mark.slow
@pytest.mark.parametrize(("k", "limit"), [(1, 4), (3, 5), *repeats([], [(2, 4), (3, 4)])])
@pytest.mark.parametrize("cutoff", ["fixed", "select"])
@pytest.mark.parametrize(("epsilon", "tau"), [(0.5, 1), (1.0, 2), *repeats([], [(2.0, 1)])])
def test_list_of_five_keys(k: int, limit: int, cutoff: str, epsilon: float, tau: int) -> None:
    """Small counts beside counts about the bottom element."""
    mechanism = gumbel(k=k, limit=limit, epsilon=epsilon, tau=tau, cutoff=cutoff)
    rule, top = TopK.of(mechanism), mechanism.gap(limit)
    counts = (0, 1, 2, 3, top - 1, top) if tau == 1 else (0, 1, 2, top)
    pairs = [top_k_pair(h, other, rule) for h, other in neighbours(5, counts, tau)]
    assert_private(pairs, (k + (cutoff == "select")) * epsilon, 1e-2)
    assert_ledger(pairs, mechanism.reserve.information, epsilon, 1e-2)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_published_cutoff_is_covered(k: int) -> None:
    """The cutoff pays for itself: it might be shown, and everything would still hold."""
    mechanism = gumbel(k=k, limit=4, cutoff="select")
    rule = TopK.of(mechanism)
    shown = TopK(rule.k, rule.rate, rule.cutoffs, rule.gap, revealed=True)
    pairs = [top_k_pair(h, other, shown) for h, other in neighbours(4, range(4), 1)]
    assert_private(pairs, (k + 1) * 1.0, 1e-2)
    assert_ledger(pairs, mechanism.reserve.information, 1.0, 1e-2)


@pytest.mark.parametrize(("k", "limit"), SHAPES)
@pytest.mark.parametrize(("epsilon", "tau"), [(0.5, 1), (1.0, 1), (1.0, 2), (4.0, 1)])
def test_the_constant_is_tight(k: int, limit: int, epsilon: float, tau: int) -> None:
    """delta / (1 + delta) is reached, to 1 %, where the threshold happens to be whole and needs no rounding up."""
    delta = limit * math.exp(-epsilon * math.ceil(6 / epsilon) / tau) * (1 + 1e-9)
    mechanism = gumbel(k=k, limit=limit, epsilon=epsilon, delta=delta, tau=tau)
    worst = worst_delta(rankings(mechanism, keys=4 if tau == 1 else 3), k * epsilon)
    reached = delta / (1 + delta) if limit <= 4 - (tau > 1) else 0
    assert 0.99 * reached <= worst <= delta / (1 + delta) + TOLERANCE


@pytest.mark.parametrize("cutoff", ["fixed", "select"])
@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_every_step_is_charged(cutoff: str, counts: bool, k: int) -> None:
    """One unit for the cutoff, each pick, each count and the bottom element; one call, even for an empty list."""
    mechanism = gumbel(k=k, limit=8, cutoff=cutoff, with_counts=counts, epsilon=4.0)
    for rows in range(k + 1):
        release = mechanism.release([(i, 10**6) for i in range(rows)], Rng.keyed(b"key", b"context"))
        stopped = rows < k
        assert (len(release.rows), release.stopped) == (rows, stopped)
        assert release.charge == Charge((cutoff == "select") + rows * (1 + counts) + stopped, 1)
        assert release.charge <= release.reserve == mechanism.reserve
