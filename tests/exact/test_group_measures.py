"""Measures of released groups: what they claim of one person holds exactly, whatever the person adds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.accounting import Charge
from sfumato.mechanisms.estimates import Scale
from sfumato.mechanisms.group_measures import GroupCount, GroupMean, GroupQuantile, GroupSums, GroupVariance
from tests.helpers.claims import ORDERS, assert_ledger
from tests.helpers.laws import TOLERANCE, NoiseLaw, Pair, renyi, shift_pair

EPSILONS = (Fraction(1, 2), Fraction(1), Fraction(4))
SMALL = Scale(Fraction(0), Fraction(2), Fraction(1))
KINDS: dict[str, tuple[type[GroupSums], dict[str, Any]]] = {
    "one": (GroupCount, {"tau": 1}),
    "three": (GroupCount, {"tau": 3}),
    "mean": (GroupMean, {"scale": SMALL, "values": 1}),
    "mean of two": (GroupMean, {"scale": SMALL, "values": 2}),
    "variance": (GroupVariance, {"scale": SMALL, "values": 1}),
}


def measure(kind: str, **common: Any) -> GroupSums:
    make, own = KINDS[kind]
    return make(**own, **common)


def moved(drawn: GroupSums) -> Iterator[list[Pair]]:
    """The noisy sums of one group, for all that one person may add to them, in either direction: a pair per sum."""
    laws = [NoiseLaw.of(law) for law in drawn.laws.values()]
    ends = itertools.product(*({1, most // 2, most} for most in drawn.most.values()))
    for shifts in ends:
        pairs = [shift_pair(law, (shift,)) for law, shift in zip(laws, shifts, strict=True)]
        yield pairs
        yield [(q, p) for p, q in pairs]


def divergence(pairs: list[Pair], alpha: float) -> float:
    """Of independent sums together: Rényi divergences add up."""
    return sum(renyi(pair, alpha) for pair in pairs)


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_one_group_is_one_unit(kind: str, epsilon: Fraction) -> None:
    drawn = measure(kind, epsilon=epsilon, groups=None)
    assert drawn.charge == Charge(1)
    assert [step.charge for step in drawn.steps(3, "tag")] == [Charge(1)] * 3
    for pairs in moved(drawn):
        for alpha in ORDERS:
            assert divergence(pairs, alpha) <= alpha * float(epsilon) ** 2 / 8 + TOLERANCE
        if len(pairs) == 1:
            assert_ledger(pairs, Fraction(1), float(epsilon))


@pytest.mark.parametrize("kind", KINDS)
def test_no_unit_is_too_many(kind: str) -> None:
    """At whole orders the divergence of shifted discrete Gaussians is alpha rho, exactly."""
    drawn = measure(kind, epsilon=Fraction(1), groups=None)
    pairs = [
        shift_pair(NoiseLaw.of(law), (most,))
        for law, most in zip(drawn.laws.values(), drawn.most.values(), strict=True)
    ]
    assert divergence(pairs, 2) == pytest.approx(2 / 8, rel=1e-9)


@pytest.mark.parametrize("kind", ["one", "three", "mean"])
def test_laplace_noise_is_pure_within_a_unit(kind: str) -> None:
    drawn = measure(kind, epsilon=Fraction(1), groups=None, count_noise="laplace")
    assert drawn.charge == Charge(1)
    for pairs in moved(drawn):
        losses = [np.log(p[(p > 0) & (q > 0)] / q[(p > 0) & (q > 0)]) for p, q in pairs]
        assert sum(float(np.abs(loss).max()) for loss in losses) <= 0.5 + TOLERANCE
        for alpha in ORDERS:
            assert divergence(pairs, alpha) <= alpha / 8 + TOLERANCE


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("groups", [1, 2, 5])
def test_bounded_groups_have_one_price_and_the_noise_of_one_group(groups: int, noise: Any) -> None:
    alone = measure("mean", epsilon=Fraction(1), groups=None, count_noise=noise)
    drawn = measure("mean", epsilon=Fraction(1), groups=groups, count_noise=noise)
    assert drawn.laws == alone.laws
    assert drawn.share.rho == Fraction(groups, 8)
    assert [(step.place, step.charge) for step in drawn.steps(50, "tag")] == [(0, Charge(groups))]
    assert drawn.charge_of(50) == Charge(groups)
    assert alone.charge_of(50) == Charge(50)


@pytest.mark.parametrize(("groups", "units"), [(None, 1), (1, 1), (4, 4)])
def test_a_quantile_is_the_exponential_mechanism_at_its_price(groups: int | None, units: int) -> None:
    """The laws of that mechanism are in test_quantile_laws."""
    common = {"epsilon": Fraction(1, 2), "scale": SMALL, "values": 2}
    drawn = GroupQuantile(quantile=Fraction(1, 2), groups=groups, **common)
    assert drawn.choice.rho == units * Fraction(1, 2) ** 2 / 8
    assert drawn.charge == Charge(units)
    assert (drawn.choice.max_values, drawn.choice.grid.points, drawn.choice.epsilon) == (2, 3, Fraction(1, 2))
