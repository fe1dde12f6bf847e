"""Laplace noise that ends: its law, its draws, and where it ends."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import InvalidArgument
from sfumato.mechanisms import DiscreteLaplace, LaplaceRule, Rng, TruncatedLaplaceRule, select_truncated_laplace
from sfumato.mechanisms.truncated_laplace import TruncatedLaplace


def masses(scale: float, reach: int) -> np.ndarray:
    weights = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    return weights / weights.sum()


@pytest.mark.parametrize(("scale", "reach"), [(0.5, 1), (1, 14), (3, 5), (40, 600)])
def test_tails_are_sums_of_the_law(scale: float, reach: int) -> None:
    law, exact = TruncatedLaplace(Fraction(scale), reach), masses(scale, reach)
    tails = np.cumsum(exact[::-1])[::-1]
    for n in range(-reach + 1, reach + 1):
        assert law.tail(n) == pytest.approx(tails[n + reach], rel=1e-10)
    assert law.tail(reach + 1) == 0
    both = np.convolve(exact, exact)
    for n in (0, 1, reach, 2 * reach):
        assert law.difference_tail(n) == pytest.approx(both[n + 2 * reach :].sum(), rel=1e-9)
    assert law.difference_tail(2 * reach + 1) == 0
    assert math.sqrt(float(np.sum(exact * np.arange(-reach, reach + 1) ** 2.0))) <= law.deviation * (1 + 1e-12)


def test_draws_are_laplace_draws_without_those_beyond_the_end() -> None:
    law, source = TruncatedLaplace(Fraction(3), 4), Rng.keyed(b"k", b"c")
    draws = law.sample(source.stream(purpose="test"), 1000)
    every = DiscreteLaplace(Fraction(3)).sample(source.stream(purpose="test"), 3000)
    assert draws.tolist() == every[np.abs(every) <= 4][:1000].tolist()
    assert law.sample(source.stream(purpose="test"), 10).tolist() == draws[:10].tolist()


def test_a_published_setting() -> None:
    """(1, 1e-6): deviation 1.4 and threshold 15 for one key per person; at eight keys 18 less than endless noise."""
    one, eight = (TruncatedLaplaceRule(epsilon=Fraction(1), delta=Fraction(1, 10**6), max_keys=keys) for keys in (1, 8))
    assert one.threshold == 15
    assert one.noise.deviation == pytest.approx(1.36, abs=0.01)
    endless = LaplaceRule(epsilon=Fraction(1), delta=Fraction(1, 10**6), max_keys=8)
    assert (eight.threshold, endless.threshold) == (106, 124)
    assert eight.rho == endless.rho == Fraction(1, 16)


def test_keys_without_people_are_never_kept_and_noisy_counts_come_with_the_others() -> None:
    counts = np.array([0] * 5000 + [10_000] * 50)
    selection = select_truncated_laplace(counts, epsilon=1, delta=1e-3, max_keys=2, rng=Rng.system())
    assert selection.kept.tolist() == list(range(5000, 5050))
    assert np.abs(selection.counts - 10_000).max() <= 20


def test_what_makes_no_sense_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match=r"^reach: "):
        TruncatedLaplace(Fraction(1), 0)
    with pytest.raises(InvalidArgument, match=r"^scale: "):
        TruncatedLaplace(Fraction(0), 3)
    with pytest.raises(InvalidArgument, match=r"^epsilon: "):
        select_truncated_laplace(np.array([3]), epsilon=0, delta=1e-3, max_keys=2, rng=Rng.system())
