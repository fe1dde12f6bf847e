"""Laplace noise that ends: its law, its draws, and where it ends."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import InvalidArgument
from sfumato.mechanisms import DiscreteLaplace, LaplaceRule, Rng, TruncatedLaplaceRule, select_truncated_laplace
from sfumato.mechanisms import truncated_laplace as module
from sfumato.mechanisms.stream import Uniform
from sfumato.mechanisms.truncated_laplace import TruncatedLaplace

LAWS = [(0.5, 0.3), (1, 1e-6), (3, 0.01), (40, 1e-8), (2, 0.4)]


def recursion(scale: float, missed: float) -> list[float]:
    """P[N <= n] from its definition, up to where it is 1."""
    e, found = 1 / scale, [0.0]
    while found[-1] < 1:
        found.append(min(math.exp(e) * found[-1] + missed, 1 - math.exp(-e) * (1 - found[-1] - missed), 1.0))
    return found


def masses(scale: float, missed: float) -> tuple[np.ndarray, np.ndarray]:
    """The values of X and their probabilities, from the definition."""
    found = np.array(recursion(scale, missed))
    threshold = int(np.argmax(found >= 0.5))
    return threshold - np.arange(1, len(found)), np.diff(found)


@pytest.mark.parametrize(("scale", "missed"), LAWS)
def test_tails_are_sums_of_the_law(scale: float, missed: float) -> None:
    law = TruncatedLaplace(Fraction(scale), Fraction(missed))
    values, exact = masses(scale, missed)
    assert (law.threshold - 1, law.least) == (values[0], values[-1])
    for n in range(law.least - 1, law.threshold + 2):
        assert law.tail(n) == pytest.approx(exact[values >= n].sum(), rel=1e-9)
    assert law.tail(law.threshold) == 0
    both = np.convolve(exact, exact[::-1])
    differences = np.arange(len(exact) - 1, -len(exact), -1)
    for n in (0, 1, law.threshold, 2 * law.threshold):
        assert law.difference_tail(n) == pytest.approx(both[differences >= n].sum(), rel=1e-7, abs=1e-15)
    assert law.deviation == pytest.approx(math.sqrt(float(np.sum(exact * values**2.0))), rel=1e-9)
    width = law.half_width()
    assert exact[np.abs(values) <= width].sum() >= 0.95
    assert not width or max(exact[values >= width].sum(), exact[values <= -width].sum()) > 0.025
    assert exact[values >= 0].sum() >= 0.5 >= exact[values >= 1].sum()


def test_a_wide_law_is_not_summed() -> None:
    wide = TruncatedLaplace(Fraction(2**30), Fraction(1, 10**20))
    endless = DiscreteLaplace(Fraction(2**30))
    assert endless.deviation < wide.deviation <= endless.deviation + 1
    assert abs(wide.half_width() - endless.half_width()) <= 2


@pytest.mark.parametrize(("scale", "missed"), LAWS)
def test_draws_are_inversions_and_the_first_ones_do_not_depend_on_how_many_there_are(
    scale: float, missed: float
) -> None:
    """Each draw is the smallest n with U < P[N <= n], for the uniform number behind its word."""
    law, stream = TruncatedLaplace(Fraction(scale), Fraction(missed)), Rng.keyed(b"k", b"c").stream(purpose="test")
    draws = law.sample(stream, 3000)
    uniform = [Uniform(stream, i).numerator * 2.0**-64 for i in range(3000)]
    expected = law.threshold - np.searchsorted(recursion(scale, missed), uniform, side="right")
    assert draws.tolist() == expected.tolist()
    assert law.sample(stream, 10).tolist() == draws[:10].tolist()


def test_draws_that_floats_cannot_decide_are_decided_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a margin that leaves nothing to floats, draws are the same."""
    law, stream = TruncatedLaplace(Fraction(3), Fraction(1, 100)), Rng.keyed(b"k", b"c").stream(purpose="test")
    fast = law.sample(stream, 500).tolist()
    monkeypatch.setattr(module, "CERTAIN", 1.0)
    assert law.sample(stream, 500).tolist() == fast
    monkeypatch.setattr(TruncatedLaplace, "_inverse", lambda self, uniform: np.full(len(uniform), 5))
    assert law.sample(stream, 500).tolist() == fast


def test_a_published_setting() -> None:
    """(1, 1e-6): deviation 1.4 and threshold 14 for one key per person; at eight keys 18 less than endless noise."""
    one, eight = (TruncatedLaplaceRule(epsilon=Fraction(1), delta=Fraction(1, 10**6), max_keys=keys) for keys in (1, 8))
    assert one.threshold == 14
    assert one.noise.deviation == pytest.approx(1.38, abs=0.01)
    endless = LaplaceRule(epsilon=Fraction(1), delta=Fraction(1, 10**6), max_keys=8)
    assert (eight.threshold, endless.threshold) == (106, 124)
    assert eight.rho == endless.rho == Fraction(1, 16)


def test_keys_without_people_are_never_kept_and_noisy_counts_come_with_the_others() -> None:
    counts = np.array([0] * 5000 + [10_000] * 50)
    selection = select_truncated_laplace(counts, epsilon=1, delta=1e-3, max_keys=2, rng=Rng.system())
    assert selection.kept.tolist() == list(range(5000, 5050))
    assert np.abs(selection.counts - 10_000).max() <= 20


def test_what_makes_no_sense_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match=r"^missed: "):
        TruncatedLaplace(Fraction(1), Fraction(0))
    with pytest.raises(InvalidArgument, match=r"^scale: "):
        TruncatedLaplace(Fraction(0), Fraction(1, 10))
    with pytest.raises(InvalidArgument, match=r"^epsilon: "):
        select_truncated_laplace(np.array([3]), epsilon=0, delta=1e-3, max_keys=2, rng=Rng.system())
