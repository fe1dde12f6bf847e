"""How large a group must be to be shown: the stated size has its probability, and one smaller has not.

Probabilities are sums over the noise laws and over all outcomes of a race, not the code's own tails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sfumato.mechanisms import (
    MECHANISMS,
    ShownSizes,
    ThresholdGaussian,
    ThresholdLaplace,
    UnknownGaussian,
    UnknownGumbel,
    UnknownLaplace,
)
from tests.helpers.laws import TOLERANCE, NoiseLaw, TopK, top_k_law

SETTINGS = pytest.mark.parametrize(
    "at",
    [
        {"epsilon": 2.0, "delta": 1e-2},
        {"epsilon": 4.0, "delta": 1e-3, "tau": 2},
        {"epsilon": 0.15, "delta": 1e-10},
        {"epsilon": 0.5, "delta": 1e-6, "tau": 3},
    ],
    ids=str,
)
GROUPS = pytest.mark.parametrize("max_groups", [1, 2, 5])


def assert_smallest(sizes: ShownSizes, shown: Callable[[int], float]) -> None:
    """`shown(n)` is the probability that a group of n is shown."""
    for size, share in ((sizes.half, 0.5), (sizes.most, 0.95)):
        assert shown(size) >= share - TOLERANCE
        assert shown(size - 1) < share
    if sizes.rarely:
        assert shown(sizes.rarely - 1) <= 0.05 + TOLERANCE


@SETTINGS
@GROUPS
@pytest.mark.parametrize("kind", [ThresholdLaplace, ThresholdGaussian])
def test_a_fixed_threshold(kind: type[ThresholdLaplace | ThresholdGaussian], max_groups: int, at: Any) -> None:
    mechanism = kind.of(max_groups=max_groups, **at)
    noise = NoiseLaw.of(mechanism.noise)
    assert mechanism.visible.above == "zero"
    # n + X >= threshold, and X has the law of -X
    assert_smallest(mechanism.visible, lambda n: float(noise.at_most(np.array(n - mechanism.threshold))))


@SETTINGS
@GROUPS
@pytest.mark.parametrize("kind", [UnknownLaplace, UnknownGaussian])
def test_a_noisy_threshold(kind: type[UnknownLaplace | UnknownGaussian], max_groups: int, at: Any) -> None:
    """n above the first count out of sight, of which there are `limit` rows before."""
    mechanism = kind.of(max_groups=max_groups, limit=3, **at)
    noise = NoiseLaw.of(mechanism.noise)
    assert mechanism.visible.above == "cutoff"
    assert_smallest(mechanism.visible, lambda n: noise.difference_tail(mechanism.gap + 1 - n))


@SETTINGS
@pytest.mark.parametrize("others", [(), (0, 1), (7, 2, 2)])
@pytest.mark.parametrize("outside", [0, 2])
def test_a_bottom_element(others: tuple[int, ...], outside: int, at: Any) -> None:
    """One group beside others, in a list that is long enough for all of them: the others do not matter."""
    limit = len(others) + 1
    mechanism = UnknownGumbel.of(k=limit, limit=limit, cutoff="fixed", with_counts=False, **at)
    assert mechanism.visible.above == "cutoff"

    def shown(n: int) -> float:
        h = (outside + n, *(outside + other for other in others), outside)
        return sum(chance for listed, chance in top_k_law(h, TopK.of(mechanism)).items() if 0 in listed)

    assert_smallest(mechanism.visible, shown)


@SETTINGS
def test_a_cutoff_that_is_selected_shows_such_groups_more_often(at: Any) -> None:
    """The sizes are those of the last cutoff. Here the count below each cutoff is the same."""
    fixed, selected = (
        UnknownGumbel.of(k=1, max_k=1, limit=4, cutoff=cutoff, with_counts=False, **at)
        for cutoff in ("fixed", "select")
    )
    assert fixed.visible == selected.visible
    for size, share in ((selected.visible.half, 0.5), (selected.visible.most, 0.95)):
        law = top_k_law((1 + size, 1, 1, 1, 1), TopK.of(selected))
        assert share <= law[(0,)] < 1


def test_the_sizes_of_the_specification() -> None:
    at: dict[str, Any] = {"epsilon": 0.15, "delta": 1e-10}
    assert UnknownGumbel.of(k=10, limit=1000, **at).visible.rarely == 181
    assert ShownSizes(10, 30, "zero").rarely == 0
    assert ThresholdGaussian.of(max_groups=1, **at).visible == ShownSizes(87, 109, "zero")
    assert ThresholdGaussian.of(max_groups=5, **at).visible == ShownSizes(199, 248, "zero")
    assert UnknownGaussian.of(max_groups=1, **at).visible == ShownSizes(122, 153, "cutoff")
    assert UnknownGumbel.of(k=10, limit=1000, **at).visible == ShownSizes(201, 221, "cutoff")


@pytest.mark.parametrize("name", ["known_laplace", "known_gaussian", "known_gumbel"])
def test_a_public_domain_withholds_nothing(name: str) -> None:
    bound = {"k": 3} if name == "known_gumbel" else {"max_groups": 1}
    assert MECHANISMS[name].of(epsilon=1, **bound).visible is None


@pytest.mark.parametrize("name", [name for name in MECHANISMS if not name.startswith("known")])
def test_sizes_depend_on_parameters_and_not_on_the_length_of_a_list(name: str) -> None:
    bound = {"max_k": 9} if name == "unknown_gumbel" else {"max_groups": 2}
    mechanism = MECHANISMS[name].of(k=3, epsilon=1, delta=1e-3, **bound)
    assert mechanism.visible == mechanism.at(9).visible is not None
