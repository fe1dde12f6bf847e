"""Printed errors of the source papers: each one fails the check that our mechanisms pass.

AEA is Rogers et al. (2021), DR is Durfee and Rogers (2019), PCR is Rogers (2024). Thresholds written here are the
printed ones, unrounded; ours come from the implementation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato.accounting import Charge, Filter, epsilon, zcdp_delta, zcdp_epsilon
from sfumato.mechanisms import GeometricRule, KnownGaussian, Rng, UnknownGumbel, UnknownLaplace, context, known_laplace
from tests.helpers.interaction import Answer, Question, worst_interaction
from tests.helpers.laws import (
    Change,
    Floats,
    Histogram,
    Law,
    NoiseLaw,
    Pair,
    TopK,
    bounded_range,
    exact_delta,
    exponential_cutoff,
    in_sight,
    labelled_neighbours,
    neighbours,
    outside,
    paired,
    peeling,
    shift_pair,
    threshold_pair,
    top_k_law,
    top_k_pair,
    worst_delta,
)

RNG = Rng.keyed(b"key", b"errata")


def printed_gap(epsilon: float, delta: float, rows: Callable[[int], float]) -> Callable[[int], float]:
    """1 + ln(rows(cutoff) / delta) / epsilon; no threshold at all where that logarithm is of zero."""

    def gap(cutoff: int) -> float:
        return 1 + math.log(rows(cutoff) / delta) / epsilon if rows(cutoff) > 0 else -math.inf

    return gap


def swap_rule(cutoff: int, rows: Callable[[int], float], **variant: bool) -> TopK:
    """One row, a fixed cutoff, epsilon 1 and delta 1e-3, with a threshold for so many rows that may swap."""
    return TopK(1, 1.0, (cutoff,), printed_gap(1.0, 1e-3, rows), **variant)


# --- AEA, Algorithm 4 -------------------------------------------------------------------------------------------


class TestThresholdForTheRowsBeyondTheCutoff:
    """AEA, Algorithm 4: ln(min{kbar, dbar - kbar} / delta) in the threshold, where ln(kbar / delta) is due."""

    ALL_BUT_ONE, ALL = (1,) * 8 + (0,), (1,) * 9

    def printed(self) -> TopK:
        return TopK(1, 1.0, tuple(range(1, 9)), printed_gap(1.0, 1e-6, lambda cutoff: min(cutoff, 8 - cutoff)))

    def test_printed(self) -> None:
        """At kbar = dbar the threshold vanishes: a list that only one neighbour can give has chance 0.116."""
        assert exact_delta(top_k_pair(self.ALL_BUT_ONE, self.ALL, self.printed()), 2.0) == pytest.approx(
            0.116, abs=5e-4
        )

    def test_corrected(self) -> None:
        unrounded = replace(self.printed(), gap=printed_gap(1.0, 1e-6, float))
        assert exact_delta(top_k_pair(self.ALL_BUT_ONE, self.ALL, unrounded), 2.0) == pytest.approx(1.2e-7, rel=0.05)

    def test_ours(self) -> None:
        ours = TopK.of(UnknownGumbel.of(k=1, limit=8, epsilon=1.0, delta=1e-6))
        assert exact_delta(top_k_pair(self.ALL_BUT_ONE, self.ALL, ours), 2.0) <= 1.2e-7

    def test_tied_counts_choose_the_last_cutoff(self) -> None:
        """k = 50, dbar = 1000: the cutoff without a threshold has chance 3.3e-4 on tied counts."""
        law = exponential_cutoff({i: math.log(i) for i in range(50, 1001)})
        assert law[1000] == pytest.approx(3.3e-4, rel=0.01)

    @pytest.mark.parametrize("cutoff", [3, 5])
    def test_one_row_beyond_the_cutoff(self, cutoff: int) -> None:
        """kbar = dbar - 1: kbar rows swap where the threshold reckons with one."""
        rule = swap_rule(cutoff, lambda _: 1)
        pair = top_k_pair((1,) * cutoff + (0,), (1,) * (cutoff + 1), rule)
        assert exact_delta(pair, 1.0) == pytest.approx(cutoff * 1e-3, rel=0.01)


def smallest_with_gumbel_added(costs: Mapping[int, float]) -> Law:
    """argmin{cost + Gumbel}, by inclusion and exclusion over who else would be smaller.

    exp(-Gumbel) is exponential, so the smallest is whoever comes last of exponentials of rate exp(cost).
    """
    rates = {i: math.exp(cost) for i, cost in costs.items()}
    return {i: _comes_last(rate, [r for j, r in rates.items() if j != i]) for i, rate in rates.items()}


def _comes_last(rate: float, others: list[float]) -> float:
    sums, signs = np.zeros(1), np.ones(1)
    for other in others:
        sums, signs = np.concatenate([sums, sums + other]), np.concatenate([signs, -signs])
    return float((signs * rate / (rate + sums)).sum())


def last_of_many(candidates: int, raised: float) -> Pair:
    """The same law by integration, equal costs but for one that a person may raise: the raised one, and any other."""
    s = np.exp(np.linspace(-16, 5, 200_001))
    step = math.log(s[1] / s[0])

    def chances(rate: float) -> Floats:
        first, rest = np.log1p(-np.exp(-rate * s)), np.log1p(-np.exp(-s))
        one = rate * s * np.exp(-rate * s + (candidates - 1) * rest)
        other = s * np.exp(-s + first + (candidates - 2) * rest)
        return np.array([one.sum(), other.sum()]) * step

    return chances(1.0), chances(math.exp(raised))


class TestCutoffWithGumbelAdded:
    """AEA, Algorithm 4: argmin{cost + Gumbel}, where argmin{cost - Gumbel} is the exponential mechanism."""

    EPSILON = 0.15

    def range_of(self, law: Callable[[Mapping[int, float]], Law], candidates: int, raised: int) -> float:
        equal = dict.fromkeys(range(candidates), 0.0)
        higher = equal | dict.fromkeys(range(raised), self.EPSILON)
        return bounded_range(*paired(law(equal), law(higher)))

    @pytest.mark.parametrize(("candidates", "found"), [(2, 0.150), (3, 0.190), (10, 0.334)])
    def test_printed(self, candidates: int, found: float) -> None:
        """With more than two candidates the range exceeds epsilon, the more the more there are."""
        ranges = [self.range_of(smallest_with_gumbel_added, candidates, raised) for raised in range(1, candidates)]
        assert max(ranges) == pytest.approx(found, abs=5e-4)

    @pytest.mark.parametrize(("candidates", "found"), [(3, 0.190), (10, 0.334), (951, 1.03)])
    def test_printed_with_many_candidates(self, candidates: int, found: float) -> None:
        assert bounded_range(*last_of_many(candidates, self.EPSILON)) == pytest.approx(found, abs=5e-3)

    @pytest.mark.parametrize("candidates", [2, 3, 10])
    def test_corrected(self, candidates: int) -> None:
        for raised in range(1, candidates):
            assert self.range_of(exponential_cutoff, candidates, raised) <= self.EPSILON + 1e-12

    def test_on_histograms(self) -> None:
        """Over all small neighbours: the printed cutoff exceeds its range, ours never does."""
        ours = TopK.of(UnknownGumbel.of(k=1, limit=4, epsilon=self.EPSILON, delta=1e-3))
        printed = replace(ours, choose=smallest_with_gumbel_added)
        cases = list(neighbours(5, range(4), 1))

        def widest(rule: TopK) -> float:
            return max(bounded_range(*paired(rule.cutoff_law(h), rule.cutoff_law(other))) for h, other in cases)

        assert widest(ours) <= self.EPSILON + 1e-12
        assert widest(printed) > 1.8 * self.EPSILON

    def test_on_nine_rows(self) -> None:
        """Nine tied rows and a person in the first few of them: 0.29 to 0.44 instead of 0.15."""
        rule = TopK(1, self.EPSILON, tuple(range(1, 9)), float, choose=smallest_with_gumbel_added)
        h = (1,) * 9
        laws = {rows: rule.cutoff_law((2,) * rows + (1,) * (9 - rows)) for rows in range(3, 9)}
        ranges = [bounded_range(*paired(rule.cutoff_law(h), law)) for law in laws.values()]
        assert min(ranges) == pytest.approx(0.295, abs=5e-4)
        assert max(ranges) == pytest.approx(0.435, abs=5e-4)


# --- AEA, charges -----------------------------------------------------------------------------------------------


class TestPreCheck:
    """AEA, Algorithm 5: a query is let in if 2k units are left; a full answer costs 2k + 1."""

    @pytest.mark.parametrize("k", [1, 2, 5])
    def test_overspends_by_one_unit(self, k: int) -> None:
        mechanism = UnknownGumbel.of(k=k, limit=10, epsilon=4.0, delta=1e-3)
        budget = Filter(Charge(2 * k, 1))
        full = mechanism.release([(i, 10**6) for i in range(k)], RNG)
        assert not budget.fits(mechanism.reserve)
        assert full.charge == mechanism.reserve
        assert full.charge - budget.left == Charge(1)

    @pytest.mark.parametrize("k", [1, 2, 5])
    def test_a_list_that_was_stopped_costs_2k_at_most(self, k: int) -> None:
        mechanism = UnknownGumbel.of(k=k, limit=10, epsilon=4.0, delta=1e-3)
        for rows in range(k):
            stopped = mechanism.release([(i, 10**6) for i in range(rows)], RNG)
            assert stopped.stopped
            assert stopped.charge.information <= 2 * k


class TestChargeByRowsReturned:
    """AEA, section 6.1: 2|o| for |o| rows returned, and max_groups for every restricted query."""

    @pytest.mark.parametrize("rows", [0, 1, 2])
    def test_undercharges_a_stopped_list_by_two(self, rows: int) -> None:
        """That an empty answer then costs nothing is what test_composition breaks a cap with."""
        mechanism = UnknownGumbel.of(k=3, limit=10, epsilon=4.0, delta=1e-3)
        release = mechanism.release([(i, 10**6) for i in range(rows)], RNG)
        assert release.stopped
        assert release.charge.information - 2 * rows == 2

    @pytest.mark.parametrize("max_groups", [1, 2, 5])
    def test_overcharges_a_thresholded_histogram(self, max_groups: int) -> None:
        """One unit covers it; test_unknown shows that it does."""
        assert UnknownLaplace.of(epsilon=1.0, delta=1e-3, max_groups=max_groups).reserve == Charge(1, 1)


class TestReplicas:
    """AEA, section 4.2: replicas that agree on what was spent only afterwards."""

    def test_each_spends_the_whole_budget(self) -> None:
        """Four replicas of a budget of 4 units at epsilon 1 let 16 through: far more than 4 units may tell."""
        # Randomised response of epsilon 1/2: one unit at epsilon 1.
        true = math.exp(0.5) / (1 + math.exp(0.5))
        response = Question(Charge(1), (Answer(true, 1 - true, Charge(1)), Answer(1 - true, true, Charge(1))))
        claim = zcdp_delta(4 / 8, 2.0)
        assert worst_interaction([response], Filter(Charge(4)), 2.0) <= claim
        assert worst_interaction([response], Filter(Charge(4 * 4)), 2.0) > 5 * claim


# --- AEA, Algorithm 3 and the sums of delta ---------------------------------------------------------------------


def aea_gap(epsilon: float, delta: float, max_groups: int) -> float:
    """1 + (2 Delta / epsilon) ln(Delta / d), where delta = (d / 4) (exp(epsilon / 2) + 1) (3 + ln(Delta / d))."""
    low, high = -200.0, 0.0
    for _ in range(200):
        middle = (low + high) / 2
        total = math.exp(middle) / 4 * (math.exp(epsilon / 2) + 1) * (3 + math.log(max_groups) - middle)
        low, high = (middle, high) if total <= delta else (low, middle)
    return 1 + 2 * max_groups / epsilon * (math.log(max_groups) - low)


def smallest_gap(noise: NoiseLaw, max_groups: int, delta: float) -> int:
    """By a search over the convolution, independent of the implementation's closed form."""
    gap = 0
    while max_groups * noise.difference_tail(gap) > delta:
        gap += 1
    return gap


class TestLooseThreshold:
    """AEA, Algorithm 3: a valid threshold, but a higher one than privacy needs."""

    @pytest.mark.parametrize(("max_groups", "printed", "same_scale"), [(1, 344.1, 333), (5, 1827, 1774)])
    def test_at_the_printed_scale(self, max_groups: int, printed: float, same_scale: int) -> None:
        assert aea_gap(0.15, 1e-10, max_groups) == pytest.approx(printed, rel=2e-4)
        assert smallest_gap(NoiseLaw(1, 0.15 / (2 * max_groups)), max_groups, 1e-10) == same_scale

    @pytest.mark.parametrize(("max_groups", "gap"), [(1, 333), (5, 794)])
    def test_ours(self, max_groups: int, gap: int) -> None:
        ours = UnknownLaplace.of(epsilon=0.15, delta=1e-10, max_groups=max_groups)
        assert ours.gap == gap
        assert smallest_gap(NoiseLaw.of(ours.noise), max_groups, 1e-10) == gap

    @pytest.mark.parametrize("epsilon", [1.0, 2.0])
    def test_the_exponential_factor_is_not_needed(self, epsilon: float) -> None:
        """The printed proof counts a bad row 1 + exp(epsilon / 2) times; its chance alone is the exact delta."""
        noise, gap = NoiseLaw(1, epsilon / 2), math.ceil(aea_gap(epsilon, 1e-3, 1))
        cases = labelled_neighbours(3, range(4), 1, 1)
        changes = {Change.between(h, other, limit) for h, other in cases for limit in (1, 2)}
        worst = worst_delta([threshold_pair(change, gap, noise) for change in changes], epsilon / 2)
        bad = noise.difference_tail(gap)
        assert worst == pytest.approx(bad, rel=1e-9)
        assert (1 + math.exp(epsilon / 2)) * bad <= 1e-3

    def test_the_exact_delta_of_a_threshold(self) -> None:
        """At epsilon 2 and a threshold 8 above what is out of sight: 1.1214e-3, counts and threshold released."""
        change = Change.between((1, 0), (1, 1), 2)
        assert exact_delta(threshold_pair(change, 8, NoiseLaw(1, 1.0)), 1.0) == pytest.approx(1.1214e-3, abs=5e-8)


class TestChanceOfABadRow:
    """AEA, section 8.3.3: delta exp(-epsilon) a call; with fewer than dbar + 1 rows it is delta."""

    def test_one_call(self) -> None:
        """A person alone in kbar rows: one of them is shown with chance delta / (1 + delta)."""
        cutoff, delta = 3, 1e-3
        law = top_k_law((1,) * cutoff, swap_rule(cutoff, float))
        shown = 1 - law[()]
        assert shown == pytest.approx(delta / (1 + delta), rel=1e-9)
        assert shown > delta * math.exp(-1.0)

    def test_thirty_calls(self) -> None:
        """One in 333 million, not one in 400 million."""
        printed, correct = 30 * 1e-10 * math.exp(-0.15), 30 * 1e-10
        assert round(1 / correct / 1e6) == 333
        assert round(1 / printed / 1e6, -2) == 400

    def test_ours_stays_below(self) -> None:
        mechanism = UnknownGumbel.of(k=1, limit=3, epsilon=1.0, delta=1e-3, cutoff="fixed")
        assert 1 - top_k_law((1, 1, 1), TopK.of(mechanism))[()] <= 1e-3


class TestTwiceDelta:
    """AEA, Theorem 2: 2 l delta for l calls; l delta suffices, and is what test_composition shows to be needed."""

    def test_what_it_costs(self) -> None:
        """The same 3000 units and 30 calls: 34.88 as printed, 32.86 with each call's delta counted once."""
        assert epsilon(3000, 30, 0.15, 1e-10, 7e-9, method="theorem2") == pytest.approx(34.884, abs=1e-3)
        assert epsilon(3000, 30, 0.15, 1e-10, 7e-9) == pytest.approx(32.861, abs=1e-3)

    @pytest.mark.parametrize("calls", [2, 3])
    def test_calls_of_bad_rows_alone(self, calls: int) -> None:
        """Nothing but bad rows, again and again: the chance of any is below calls * delta and above half of that."""
        pair = top_k_pair((1, 1, 1), (0, 0, 0), swap_rule(3, float))
        any_shown = 1 - (1 - exact_delta(pair, 1.0)) ** calls
        assert 0.99 * calls * 1e-3 < any_shown <= calls * 1e-3


# --- DR, Algorithm 1 --------------------------------------------------------------------------------------------


class TestMultiplicity:
    """DR, Algorithm 1: min{Delta, kbar, d - kbar} rows may swap. True only if zeros are eligible and ties go by key."""

    def worst(self, rule: TopK, keys: int, most: int | None = None) -> float:
        cases = labelled_neighbours(keys, range(3), 1, most)
        return worst_delta((top_k_pair(h, other, rule) for h, other in cases), 1.0)

    def test_with_the_strict_filter(self) -> None:
        """d = 5, kbar = 4: one more row at the cutoff hides four, 3.98e-3."""
        rule = swap_rule(4, lambda cutoff: min(cutoff, 5 - cutoff))
        assert self.worst(rule, 5) == pytest.approx(3.98e-3, abs=5e-6)

    def test_with_zeros_dropped(self) -> None:
        """d = 4, kbar = 3: a person alone brings three rows, 2.99e-3."""
        rule = swap_rule(3, lambda cutoff: min(cutoff, 4 - cutoff), strict=False)
        assert self.worst(rule, 4) == pytest.approx(2.99e-3, abs=5e-6)

    def test_with_zeros_eligible(self) -> None:
        """The setting in which it was proved: 0.999e-3, it holds."""
        rule = swap_rule(3, lambda cutoff: min(cutoff, 4 - cutoff), strict=False, zeros=True)
        assert self.worst(rule, 4) == pytest.approx(0.999e-3, abs=1e-6)

    @pytest.mark.parametrize("max_groups", [1, 2])
    def test_groups_of_a_person(self, max_groups: int) -> None:
        """Delta may stand for kbar where ties go by key and no row is filtered out: 0.999e-3, zeros dropped."""
        rule = swap_rule(3, lambda _: max_groups, strict=False)
        assert self.worst(rule, 4, max_groups) == pytest.approx(0.999e-3, abs=1e-6)

    @pytest.mark.parametrize(("keys", "cutoff"), [(5, 4), (4, 3)])
    def test_ours(self, keys: int, cutoff: int) -> None:
        mechanism = UnknownGumbel.of(k=1, limit=cutoff, epsilon=1.0, delta=1e-3, cutoff="fixed", with_counts=False)
        assert self.worst(TopK.of(mechanism), keys) <= 1e-3


# --- Thresholded histograms -------------------------------------------------------------------------------------


class TestSightOfAHistogram:
    """At most max_groups rows come into sight or leave it: only with ties by key and without the strict filter."""

    LIMIT = 4

    def mechanism(self) -> UnknownLaplace:
        return UnknownLaplace.of(limit=self.LIMIT, epsilon=1.0, delta=1e-3, max_groups=1)

    def delta(self, change: Change) -> float:
        mechanism = self.mechanism()
        return exact_delta(threshold_pair(change, mechanism.gap, NoiseLaw.of(mechanism.noise)), 0.5)

    def test_strict_filter(self) -> None:
        """Rows tied with the first row out of sight may not be hidden: one more such row would hide four.

        With Gumbel noise that makes delta four times too large. Here the rows share one noisy threshold and are
        shown together more often, so it is a little more than twice.
        """
        h, other = (1, 1, 1, 1, 0), (1, 1, 1, 1, 1)
        hidden = Change.of_sights(h, other, self.LIMIT, self.above(h), self.above(other))
        assert hidden.gone == (1,) * 4
        assert self.delta(hidden) == pytest.approx(2.154e-3, abs=2e-6)
        assert self.delta(Change.between(h, other, self.LIMIT)) <= 1e-3

    def above(self, h: Histogram) -> set[int]:
        return {i for i, n in enumerate(h) if n > outside(h, self.LIMIT)}

    def test_arbitrary_ties(self) -> None:
        """Eight tied rows, four in sight: if the engine may choose which, the other four come with one person."""
        h, other = (2,) * 8, (2,) * 7 + (3,)
        chosen = Change.of_sights(h, other, self.LIMIT, {0, 1, 2, 3}, {4, 5, 6, 7})
        assert self.delta(chosen) > 1.5e-3
        assert self.delta(Change.between(h, other, self.LIMIT)) <= 1e-3

    def test_by_key_at_most_one_row_swaps(self) -> None:
        for h, other in labelled_neighbours(5, range(3), 1, 1):
            before, after = in_sight(h, 3), in_sight(other, 3)
            assert max(len(before - after), len(after - before)) <= 1


# --- PCR --------------------------------------------------------------------------------------------------------


class TestCutoffReadAgain:
    """PCR, Algorithm 2: the (kbar + 1)-th count read again after removals, from a table of kbar + 1 rows, is 0."""

    EPSILON, DELTA, CUTOFF = 1.0, 1e-6, 2
    # One heavy row; the person brings key 1 level with keys 2 and 3, and ahead of them by key.
    BEFORE, AFTER = (100, 39, 40, 40), (100, 40, 40, 40)

    def two_rows(self, h: Histogram, *, again: bool) -> Law:
        """Two calls for one row each, the first row removed in between."""
        rule = TopK.of(UnknownGumbel.of(k=1, limit=self.CUTOFF, epsilon=self.EPSILON, delta=self.DELTA, cutoff="fixed"))
        table = {i: h[i] for i in sorted(range(len(h)), key=lambda i: (-h[i], i))[: self.CUTOFF + 1]}
        law: Law = {}
        for first, chance in self.one_row(table, outside(h, self.CUTOFF), rule).items():
            left = {i: n for i, n in table.items() if i not in first}
            c = 0 if again and first else outside(h, self.CUTOFF)
            second = self.one_row(left, c, rule) if first else {(): 1.0}
            law |= {first + then: chance * mass for then, mass in second.items()}
        return law

    def one_row(self, table: Mapping[int, int], c: int, rule: TopK) -> Law:
        weights = {i: math.exp(self.EPSILON * (n - c)) for i, n in table.items() if n > c}
        return peeling(weights, math.exp(self.EPSILON * rule.gap(self.CUTOFF)), 1)

    def delta(self, *, again: bool) -> float:
        laws = [self.two_rows(h, again=again) for h in (self.BEFORE, self.AFTER)]
        return exact_delta(paired(*laws), 2 * self.EPSILON)

    def test_read_again(self) -> None:
        """The table itself depends on the person, and its last rows are now far above the threshold."""
        assert self.delta(again=True) == pytest.approx(0.5, abs=1e-3)

    def test_read_once(self) -> None:
        assert self.delta(again=False) <= self.DELTA


class TestConversion:
    """PCR, Theorem 6: rho + 2 sqrt(2 ln(1 / delta)), where rho + 2 sqrt(rho ln(1 / delta)) is due."""

    # sigma = 1 and a person who moves the count by 10: rho = 50.
    DELTA, RHO = 1e-6, 50.0

    def gaussian(self) -> Pair:
        mechanism = KnownGaussian.of(epsilon=20, tau=10, max_groups=1)
        assert float(mechanism.epsilon**2 / 8) == self.RHO
        return shift_pair(NoiseLaw.of(mechanism.noise), (10,))

    def test_printed(self) -> None:
        printed = self.RHO + 2 * math.sqrt(2 * math.log(1 / self.DELTA))
        assert exact_delta(self.gaussian(), printed) > 0.05

    def test_corrected(self) -> None:
        corrected = self.RHO + 2 * math.sqrt(self.RHO * math.log(1 / self.DELTA))
        assert corrected == pytest.approx(zcdp_epsilon(self.RHO, self.DELTA, "bun-steinke"))
        assert exact_delta(self.gaussian(), corrected) <= self.DELTA

    def test_ours(self) -> None:
        assert exact_delta(self.gaussian(), zcdp_epsilon(self.RHO, self.DELTA)) <= self.DELTA


# --- Plume ------------------------------------------------------------------------------------------------------


class TestOneBoundForTwoSteps:
    """Plume, section 4.3, has one L. Bounding anew on the selected keys, each step pays with its own.

    A person has two keys, and counts for one when keys are selected (L_S = 1) but for both when the selected keys are
    counted (L_M = 2). Both keys are kept or not, and every kept key gets its noisy count.
    """

    RULE = GeometricRule(epsilon=Fraction(1), delta=Fraction(1, 1000), max_keys=1)
    EPSILON, DELTA = 0.5, 1e-3

    def release(self, people: int, *, drop_empty: bool = False) -> Pair:
        """`people` others have the person's first key, nine others the second."""
        counts = NoiseLaw(1, self.EPSILON)
        first, grown, second = self.RULE.probabilities(np.array([people, people + 1, 9]))
        parts = []
        for keeps_first, keeps_second in itertools.product((True, False), repeat=2):
            p = (first if keeps_first else 1 - first) * (second if keeps_second else 1 - second)
            q = (grown if keeps_first else 1 - grown) * (second if keeps_second else 1 - second)
            shown = shift_pair(counts, (1,) * (keeps_first + keeps_second))
            if drop_empty and keeps_second:
                # The second key has lost its other people to the bounding: without the person it has no row at all.
                shown = np.array([1.0, 0.0]), np.array([0.0, 1.0])
            parts.append((p * shown[0], q * shown[1]))
        return np.concatenate([p for p, _ in parts]), np.concatenate([q for _, q in parts])

    @pytest.mark.parametrize("people", range(12))
    def test_each_step_pays_its_own(self, people: int) -> None:
        assert exact_delta(self.release(people), 1.0 + 2 * self.EPSILON) <= self.DELTA + 1e-12

    def test_the_bound_of_the_selection_is_too_little(self) -> None:
        assert worst_delta(map(self.release, range(12)), 1.0 + 1 * self.EPSILON) > self.DELTA

    def test_kept_keys_without_rows_must_be_shown(self) -> None:
        assert exact_delta(self.release(3, drop_empty=True), 1.0 + 2 * self.EPSILON) > 0.5


class TestSeedWithoutNonce:
    """AEA, section 3.2, and PriPeARL: noise seeded by secret, query and date meets two states of the data."""

    @staticmethod
    def counts(table: dict[str, int], **context_of_release: str) -> dict[str, int]:
        source = Rng.keyed(b"secret", context(query="by region", day="2026-11-15", **context_of_release))
        return dict(known_laplace(table, epsilon=0.01, max_groups=1, rng=source).rows)

    def test_two_answers_of_one_seed_show_the_exact_change(self) -> None:
        before, after = self.counts({"a": 10, "b": 7}), self.counts({"a": 10, "b": 8})
        assert {key: after[key] - before[key] for key in before} == {"a": 0, "b": 1}

    def test_a_nonce_for_each_stored_release_does_not(self) -> None:
        before = self.counts({"a": 10, "b": 7}, nonce="first")
        after = self.counts({"a": 10, "b": 8}, nonce="second")
        assert all(after[key] - before[key] not in (0, 1) for key in before)
