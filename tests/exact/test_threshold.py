"""Every group with noise, shown above a fixed threshold: the claims between all small neighbours.

Groups are independent, and a group whose count did not change has the same law on both sides. So neighbours are the
changed groups: at most max_groups of them, each with n here and n + 1 to n + tau there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from sfumato.accounting import Charge
from sfumato.mechanisms import ThresholdGaussian, ThresholdLaplace
from tests.helpers.claims import assert_ledger, assert_private, assert_zcdp
from tests.helpers.laws import NoiseLaw, Pair, exact_delta, key_pair, product, renyi, worst_delta

Thresholded = ThresholdLaplace | ThresholdGaussian

BOTH = pytest.mark.parametrize("kind", [ThresholdLaplace, ThresholdGaussian])
BUDGETS = pytest.mark.parametrize(("epsilon", "delta"), [(2.0, 1e-2), (4.0, 1e-3), (1.0, 0.1)])


def changes(mechanism: Thresholded) -> Iterator[tuple[tuple[int, int], ...]]:
    """All multisets of changed groups: small counts, and counts about the threshold."""
    about = range(max(mechanism.threshold - 1, 1), mechanism.threshold + 2)
    counts = {0, 1, 2, *about}
    steps = [(n, n + rise) for n in sorted(counts) for rise in range(1, mechanism.tau + 1)]
    for size in range(1, mechanism.max_groups + 1):
        yield from itertools.combinations_with_replacement(steps, size)


def pairs(mechanism: Thresholded, *, lower: int = 0) -> list[Pair]:
    threshold, noise = mechanism.threshold - lower, NoiseLaw.of(mechanism.noise)
    return [product(key_pair(*step, threshold, noise) for step in change) for change in changes(mechanism)]


@BUDGETS
@pytest.mark.parametrize("tau", [1, 2])
class TestOneGroup:
    def test_laplace_is_private(self, epsilon: float, delta: float, tau: int) -> None:
        mechanism = ThresholdLaplace.of(epsilon=epsilon, delta=delta, tau=tau, max_groups=1)
        assert_private(pairs(mechanism), epsilon / 2, delta)

    @BOTH
    def test_it_pays_one_unit_and_one_call(
        self, kind: type[Thresholded], epsilon: float, delta: float, tau: int
    ) -> None:
        mechanism = kind.of(epsilon=epsilon, delta=delta, tau=tau, max_groups=1)
        assert mechanism.reserve == Charge(1, 1)
        assert_ledger(pairs(mechanism), mechanism.reserve.information, epsilon, delta)

    @BOTH
    def test_a_lower_threshold_would_not_do(
        self, kind: type[Thresholded], epsilon: float, delta: float, tau: int
    ) -> None:
        mechanism = kind.of(epsilon=epsilon, delta=delta, tau=tau, max_groups=1)
        assert worst_delta(pairs(mechanism), 30.0) <= delta < worst_delta(pairs(mechanism, lower=1), 30.0)


@pytest.mark.slow
@BOTH
@BUDGETS
def test_several_groups_pay_one_unit_and_one_call(kind: type[Thresholded], epsilon: float, delta: float) -> None:
    for max_groups, tau in ((2, 1), (3, 1), (2, 2)):
        mechanism = kind.of(epsilon=epsilon, delta=delta, max_groups=max_groups, tau=tau)
        assert_ledger(pairs(mechanism), mechanism.reserve.information, epsilon, delta)


@BOTH
@pytest.mark.parametrize("max_groups", [1, 2])
def test_groups_that_both_have_cost_one_unit_and_no_less(kind: type[Thresholded], max_groups: int) -> None:
    mechanism = kind.of(epsilon=2, delta=1e-2, max_groups=max_groups)
    noise = NoiseLaw.of(mechanism.noise)
    far = mechanism.threshold + noise.reach
    for n in (1, 2, mechanism.threshold, far):
        pair = product([key_pair(n, n + 1, mechanism.threshold, noise)] * max_groups)
        assert_zcdp([pair], 2**2 / 8)
    if kind is ThresholdGaussian:
        assert renyi(pair, 2) == pytest.approx(2 * 2**2 / 8, rel=1e-9)


def test_rows_that_a_limit_cut_off_would_not_do() -> None:
    """With LIMIT 1, a person who raises one group from 9 to 10 puts another one of 9 out of sight: it is not hers."""
    mechanism = ThresholdGaussian.of(epsilon=4, delta=1e-3, max_groups=1)
    noise, near = NoiseLaw.of(mechanism.noise), mechanism.threshold
    assert exact_delta(key_pair(0, near, mechanism.threshold, noise), 8.0) > 100 * 1e-3
