"""Public domains: the claimed epsilon or rho holds between all small neighbours, and no smaller one does."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

import pytest

from sfumato.accounting import Charge, zcdp_delta
from sfumato.mechanisms import KnownGaussian, KnownGumbel, KnownLaplace, Mechanism, UnknownGumbel
from sfumato.mechanisms.known_domain import KnownNoise
from tests.helpers.claims import assert_ledger, assert_private, assert_zcdp
from tests.helpers.laws import (
    TOLERANCE,
    Histogram,
    Law,
    NoiseLaw,
    Pair,
    exact_delta,
    neighbours,
    paired,
    peeling,
    renyi,
    shift_pair,
    with_counts,
    worst_delta,
)

EPSILONS = (0.5, 1.0, 4.0)
GROUPS = (1, 2, 3)


def noisy_counts(mechanism: Mechanism, most: int) -> list[Pair]:
    """All ways a person may move the counts of `most` groups. Noise that is added does not know the counts."""
    noise = NoiseLaw.of(mechanism.noise)
    moves = itertools.combinations_with_replacement(range(mechanism.tau + 1), most)
    return [shift_pair(noise, shifts) for shifts in moves]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("max_groups", GROUPS)
@pytest.mark.parametrize("tau", [1, 2, 3])
class TestKnownLaplace:
    def test_is_pure(self, epsilon: float, max_groups: int, tau: int) -> None:
        mechanism = KnownLaplace.of(epsilon=epsilon, max_groups=max_groups, tau=tau)
        assert_private(noisy_counts(mechanism, max_groups), max_groups * epsilon / 2, 0)

    def test_is_no_better(self, epsilon: float, max_groups: int, tau: int) -> None:
        mechanism = KnownLaplace.of(epsilon=epsilon, max_groups=max_groups, tau=tau)
        assert worst_delta(noisy_counts(mechanism, max_groups), 0.999 * max_groups * epsilon / 2) > 1e-7

    def test_pays_its_units(self, epsilon: float, max_groups: int, tau: int) -> None:
        mechanism = KnownLaplace.of(epsilon=epsilon, max_groups=max_groups, tau=tau)
        assert mechanism.reserve == Charge(max_groups)
        assert_zcdp(noisy_counts(mechanism, max_groups), float(mechanism.reserve.information) * epsilon**2 / 8)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("max_groups", GROUPS)
@pytest.mark.parametrize("tau", [1, 2])
class TestKnownGaussian:
    def test_pays_its_units(self, epsilon: float, max_groups: int, tau: int) -> None:
        mechanism = KnownGaussian.of(epsilon=epsilon, max_groups=max_groups, tau=tau)
        assert mechanism.reserve == Charge(max_groups)
        pairs = noisy_counts(mechanism, max_groups)
        assert_zcdp(pairs, float(mechanism.reserve.information) * epsilon**2 / 8)
        assert_ledger(pairs, mechanism.reserve.information, epsilon)

    def test_pays_no_unit_too_many(self, epsilon: float, max_groups: int, tau: int) -> None:
        """At whole orders the divergence of shifted discrete Gaussians is alpha rho, exactly."""
        mechanism = KnownGaussian.of(epsilon=epsilon, max_groups=max_groups, tau=tau)
        everything = shift_pair(NoiseLaw.of(mechanism.noise), (tau,) * max_groups)
        assert renyi(everything, 2) == pytest.approx(2 * max_groups * epsilon**2 / 8, rel=1e-9)


def test_one_gaussian_count_is_not_pure() -> None:
    """At the epsilon that a unit would be worth if it were pure, a Gaussian count leaks 6.9e-4."""
    mechanism = KnownGaussian.of(epsilon=0.15, max_groups=1)
    leak = worst_delta(noisy_counts(mechanism, 1), 0.15)
    assert leak == pytest.approx(6.9e-4, rel=0.01)
    assert leak <= zcdp_delta(mechanism.reserve.information * mechanism.epsilon**2 / 8, 0.15)


@pytest.mark.parametrize("tau", [1, 3])
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("kind", [KnownGumbel, partial(UnknownGumbel.of, delta=1e-3)])
def test_the_count_of_a_listed_row_is_one_unit(kind: Any, epsilon: float, tau: int) -> None:
    """Laplace: epsilon / 2, pure. Gaussian: epsilon^2 / 8 zCDP. Both exactly."""
    make = getattr(kind, "of", kind)
    laplace, gaussian = (make(k=1, epsilon=epsilon, tau=tau, count_noise=name) for name in ("laplace", "gaussian"))
    pair = shift_pair(NoiseLaw.of(laplace.noise), (tau,))
    assert exact_delta(pair, epsilon / 2) <= TOLERANCE
    assert exact_delta(pair, 0.999 * epsilon / 2) > 1e-5
    assert renyi(shift_pair(NoiseLaw.of(gaussian.noise), (tau,)), 2) == pytest.approx(2 * epsilon**2 / 8, rel=1e-9)


def ranking(h: Histogram, mechanism: KnownGumbel) -> Law:
    rate = float(mechanism.epsilon / mechanism.tau)
    return peeling({i: math.exp(rate * n) for i, n in enumerate(h)}, 0.0, min(mechanism.k, len(h)))


def rankings(mechanism: KnownGumbel) -> list[Pair]:
    """All small neighbours; the lists with counts if the mechanism releases them."""
    noise, keys = NoiseLaw.of(mechanism.noise), 4 if mechanism.tau == 1 else 3
    pairs = []
    for h, other in neighbours(keys, range(4), mechanism.tau):
        p, q, u = ranking(h, mechanism), ranking(other, mechanism), tuple(b - a for a, b in zip(h, other, strict=True))
        pairs.append(with_counts(p, q, u, noise) if mechanism.with_counts else paired(p, q))
    return pairs


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize(("k", "tau"), [(1, 1), (2, 1), (3, 1), (2, 2)])
class TestKnownGumbel:
    def test_list(self, epsilon: float, k: int, tau: int) -> None:
        mechanism = KnownGumbel.of(k=k, epsilon=epsilon, tau=tau, with_counts=False)
        assert mechanism.reserve == Charge(k)
        pairs = rankings(mechanism)
        assert_private(pairs, k * epsilon, 0)
        assert_zcdp(pairs, k * epsilon**2 / 8)

    def test_list_with_laplace_counts(self, epsilon: float, k: int, tau: int) -> None:
        mechanism = KnownGumbel.of(k=k, epsilon=epsilon, tau=tau)
        assert mechanism.reserve == Charge(2 * k)
        pairs = rankings(mechanism)
        assert_private(pairs, 3 * k * epsilon / 2, 0)
        assert_zcdp(pairs, 2 * k * epsilon**2 / 8)

    def test_list_with_gaussian_counts(self, epsilon: float, k: int, tau: int) -> None:
        mechanism = KnownGumbel.of(k=k, epsilon=epsilon, tau=tau, count_noise="gaussian")
        assert mechanism.reserve == Charge(2 * k)
        pairs = rankings(mechanism)
        assert_zcdp(pairs, 2 * k * epsilon**2 / 8)
        assert_ledger(pairs, mechanism.reserve.information, epsilon)


def test_a_selection_needs_its_whole_epsilon() -> None:
    """A heavy rival makes a key's chance grow by almost exp(epsilon) with one person: 0.99 epsilon is too little."""
    mechanism = KnownGumbel.of(k=1, epsilon=1.0, with_counts=False)
    p, q = ranking((12, 0), mechanism), ranking((12, 1), mechanism)
    assert exact_delta(paired(p, q), 0.99) > 1e-8
    assert exact_delta(paired(p, q), 1.0) <= TOLERANCE


@pytest.mark.parametrize("kind", [KnownLaplace, KnownGaussian])
@pytest.mark.parametrize("groups", [4, 10, 40])
def test_the_error_of_the_first_group_holds_for_equal_counts(kind: type[KnownNoise], groups: int) -> None:
    """The largest of so many draws, exactly: it is within the error of a list of one 95 times in 100."""
    mechanism = kind.of(epsilon=0.5, max_groups=1, k=1)

    def chance(half_width: int) -> float:
        return (1 - mechanism.noise.tail(half_width + 1)) ** groups - mechanism.noise.tail(half_width + 1) ** groups

    wide, narrow = mechanism.list_error95(groups), mechanism.error95
    assert narrow is not None
    assert chance(wide) >= 0.95
    assert chance(narrow) < 0.95
    assert mechanism.at(groups).list_error95(groups) == narrow
