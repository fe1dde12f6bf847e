"""Key selection: exact thresholds, exact probabilities, and nothing that one person could not deny."""

from __future__ import annotations

import math
from decimal import Context
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import InvalidArgument
from sfumato.mechanisms import (
    GaussianRule,
    GeometricRule,
    LaplaceRule,
    Rng,
    key_selection,
    select_gaussian,
    select_geometric,
    select_laplace,
)
from sfumato.mechanisms.noise import CERTAIN
from sfumato.mechanisms.stream import Uniform
from tests.helpers.chosen import ChosenStream
from tests.helpers.false_alarms import unlikely

EPSILON = Fraction(math.log(3) / 2)
DELTA = Fraction(1e-5)

RULES = {
    "laplace": (select_laplace, {"epsilon": 1, "delta": 1e-3}),
    "geometric": (select_geometric, {"epsilon": 1, "delta": 1e-3}),
    "gaussian": (select_gaussian, {"rho": 0.5, "delta": 1e-3}),
}


def recursion(epsilon: float, d: float, n: int) -> list[float]:
    """pi(0..n) as it is defined, one step after another."""
    pi = [0.0]
    for _ in range(n):
        last = pi[-1]
        pi.append(min(math.exp(epsilon) * last + d, 1 - math.exp(-epsilon) * (1 - last - d), 1.0))
    return pi


@given(st.floats(0.01, 3), st.floats(1e-8, 0.2), st.integers(1, 8))
def test_the_closed_form_is_the_recursion(epsilon, delta, max_keys):
    rule = GeometricRule(epsilon=Fraction(epsilon), delta=Fraction(delta), max_keys=max_keys)
    exact = recursion(float(rule.epsilon / max_keys), float(rule.per_key), 400)
    assert rule.probabilities(np.arange(401)) == pytest.approx(exact, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-9, 0.1), (1e-6, 0.01), (1e-11, 1e-9), (1.0, 0.5)])
def test_no_step_of_the_float_probabilities_breaks_the_guarantee(epsilon, delta):
    """d / epsilon may be huge: what a cancellation loses there must not decide a key."""
    rule = GeometricRule(epsilon=Fraction(epsilon), delta=Fraction(delta), max_keys=1)
    counts = np.unique(np.concatenate([np.arange(3000), rule.law._turn + np.arange(-2, 3000)]))
    counts = counts[counts >= 0]
    pi = rule.probabilities(counts)
    for i in range(len(counts) - 1):
        if counts[i + 1] == counts[i] + 1:
            assert pi[i + 1] <= math.exp(epsilon) * pi[i] + delta + CERTAIN
            assert 1 - pi[i] <= math.exp(epsilon) * (1 - pi[i + 1]) + delta + CERTAIN
    for count in (1, 3, rule.law._turn, rule.law._turn + 1, rule.law._turn + 40):
        low, _ = rule.law.bounds(count, Context(prec=60))
        assert abs(min(float(low), 1.0) - float(rule.probabilities(np.array([count]))[0])) < CERTAIN / 4


@given(st.integers(1, 300))
def test_decimal_and_float_probabilities_agree(count):
    rule = GeometricRule(epsilon=Fraction(1), delta=DELTA, max_keys=3)
    low, high = rule.law.bounds(count, Context(prec=60))
    assert low < high
    assert float(low) == pytest.approx(min(1.0, float(rule.probabilities(np.array([count]))[0])), abs=1e-13) or low > 1


def test_thresholds_at_a_published_setting():
    """The count at which a key is kept half the time, epsilon = ln(3) / 2 and delta = 1e-5."""
    laplace = {n: LaplaceRule(epsilon=EPSILON, delta=DELTA, max_keys=n).threshold for n in (1, 3, 8, 64)}
    assert laplace == {1: 22, 3: 67, 8: 190, 64: 1747}
    halves = {}
    for n in (1, 3, 8):
        probabilities = GeometricRule(epsilon=EPSILON, delta=DELTA, max_keys=n).probabilities(np.arange(300))
        halves[n] = int(np.argmax(probabilities >= 0.5))
    assert halves == {1: 20, 3: 57, 8: 150}
    rho = Fraction(0.07**2)
    assert (
        GaussianRule(total=rho, delta=DELTA, max_keys=1).threshold
        < GaussianRule(total=rho, delta=DELTA, max_keys=8).threshold
    )


@pytest.mark.parametrize("max_keys", [1, 2, 3, 64])
def test_a_key_of_one_person_is_kept_as_seldom_as_stated(max_keys):
    d = 1 - (1 - 1e-3) ** (1 / max_keys)
    for rule in (
        LaplaceRule(epsilon=Fraction(1), delta=Fraction(1e-3), max_keys=max_keys),
        GaussianRule(total=Fraction(1, 2), delta=Fraction(1e-3), max_keys=max_keys),
    ):
        assert rule.noise.tail(rule.threshold - 1) <= d < rule.noise.tail(rule.threshold - 2)
    geometric = GeometricRule(epsilon=Fraction(1), delta=Fraction(1e-3), max_keys=max_keys)
    assert 0.999 * d < geometric.probabilities(np.array([1]))[0] <= d


def test_what_each_rule_costs():
    assert LaplaceRule(epsilon=Fraction(1), delta=DELTA, max_keys=4).rho == Fraction(1, 8)
    assert GeometricRule(epsilon=Fraction(1), delta=DELTA, max_keys=4).rho == Fraction(1, 8)
    assert GaussianRule(total=Fraction(1, 3), delta=DELTA, max_keys=4).rho == Fraction(1, 3)
    assert GaussianRule(total=Fraction(1, 3), delta=DELTA, max_keys=4).noise.parameter == 6


@pytest.mark.parametrize("name", RULES)
def test_keys_without_people_are_never_kept_and_popular_ones_always(name):
    """If they could be, of so many keys without people more than ten would be kept."""
    select, arguments = RULES[name]
    counts = np.array([0] * 50_000 + [10_000] * 50)
    for max_keys in (1, 4):
        selection = select(counts, **arguments, max_keys=max_keys, rng=Rng.system())
        assert selection.kept.tolist() == list(range(50_000, 50_050))
        assert selection.delta == Fraction(1e-3)


@pytest.mark.parametrize("name", RULES)
def test_a_keyed_source_repeats_and_parameters_change_the_noise(name):
    select, arguments = RULES[name]
    counts = np.arange(200) % 40
    kept = [
        select(counts, **arguments, max_keys=max_keys, rng=Rng.keyed(b"k", b"c")).kept.tolist()
        for max_keys in (2, 2, 3)
    ]
    assert kept[0] == kept[1] != kept[2]


def test_noisy_counts_come_with_the_threshold_rules_only():
    counts = np.full(100, 500)
    laplace = select_laplace(counts, epsilon=1, delta=1e-3, max_keys=2, rng=Rng.system())
    assert laplace.counts is not None
    assert len(laplace.counts) == 100
    assert laplace.counts.std() > 0
    assert select_geometric(counts, epsilon=1, delta=1e-3, max_keys=2, rng=Rng.system()).counts is None


def test_a_decision_next_to_equality_is_settled_by_further_words():
    rule = GeometricRule(epsilon=Fraction(1), delta=Fraction(1e-3), max_keys=2)
    low, high = rule.law.bounds(3, Context(prec=80))
    edge = int((low + high) / 2 * 2**128)
    head, tail = edge >> 64, edge & (2**64 - 1)
    for word, keeps in ((tail - 2**30, True), (tail + 2**30, False)):
        stream = ChosenStream({0: {0: head}, 1: {0: word}})
        assert Uniform(stream, 0).below(partial(rule.law.bounds, 3)) is keeps
        assert (rule.law._settled(3, stream, 0) <= 3) is keeps


def test_the_float_filter_only_says_where_to_look_closer(monkeypatch):
    counts = np.arange(1, 60)
    fast = select_geometric(counts, epsilon=1, delta=1e-3, max_keys=3, rng=Rng.keyed(b"k", b"c"))
    monkeypatch.setattr(key_selection, "CERTAIN", 2.0)
    slow = select_geometric(counts, epsilon=1, delta=1e-3, max_keys=3, rng=Rng.keyed(b"k", b"c"))
    assert fast.kept.tolist() == slow.kept.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_keys_are_kept_with_their_exact_probability(name):
    """100,000 keys for each of seven counts; false alarm once in a million for each rule (Chernoff)."""
    select, arguments = RULES[name]
    ladder = [1, 2, 4, 6, 8, 10, 14]
    counts = np.repeat(ladder, 100_000)
    kept = select(counts, **arguments, max_keys=2, rng=Rng.system()).kept
    law = {"laplace": kept_by_threshold, "gaussian": kept_by_threshold, "geometric": kept_by_rule}[name](name, ladder)
    law |= {None: 1 - sum(law.values())}
    outcomes = [None] * (len(counts) - len(kept)) + counts[kept].tolist()
    assert not unlikely(outcomes, law)
    assert unlikely(outcomes, dict(zip(law, [*(1.05 * p for p in list(law.values())[:-1]), 0.0], strict=True)))


def kept_by_threshold(name: str, ladder: list[int]) -> dict[int | None, float]:
    rule = (
        LaplaceRule(epsilon=Fraction(1), delta=Fraction(1e-3), max_keys=2)
        if name == "laplace"
        else GaussianRule(total=Fraction(1, 2), delta=Fraction(1e-3), max_keys=2)
    )
    return {count: rule.noise.tail(rule.threshold - count) / len(ladder) for count in ladder}


def kept_by_rule(name: str, ladder: list[int]) -> dict[int | None, float]:
    pi = recursion(0.5, 1 - (1 - 1e-3) ** 0.5, max(ladder))
    return {count: pi[count] / len(ladder) for count in ladder}


BAD = [("delta", 0), ("delta", 1), ("delta", float("nan")), ("max_keys", 0), ("max_keys", 1.5), ("max_keys", True)]


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize(("argument", "value"), BAD)
def test_bad_arguments_are_refused_by_name(name, argument, value):
    select, arguments = RULES[name]
    with pytest.raises(InvalidArgument, match=rf"^{argument}: "):
        select(np.array([3]), **(arguments | {"max_keys": 2} | {argument: value}), rng=Rng.system())


def test_noise_that_cannot_be_drawn_is_refused():
    for name, budget in (("laplace", "epsilon"), ("geometric", "epsilon"), ("gaussian", "rho")):
        select, arguments = RULES[name]
        with pytest.raises(InvalidArgument, match=rf"^{budget}: asks for noise that cannot be drawn"):
            select(
                np.array([3]),
                **(dict.fromkeys(arguments, 1e-60) | {"delta": 0.1}),
                max_keys=2**39,
                rng=Rng.system(),
            )


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("counts", [[-1], [0.5], ["a"], [[1]], [2**60], [None]], ids=str)
def test_bad_counts_are_refused(name, counts):
    select, arguments = RULES[name]
    with pytest.raises(InvalidArgument, match=r"^counts: "):
        select(counts, **arguments, max_keys=2, rng=Rng.system())


@pytest.mark.parametrize(("name", "budget"), [("laplace", "epsilon"), ("geometric", "epsilon"), ("gaussian", "rho")])
@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan"), "1", None])
def test_bad_budgets_are_refused_by_name(name, budget, value):
    select, arguments = RULES[name]
    with pytest.raises(InvalidArgument, match=rf"^{budget}: "):
        select(np.array([3]), **(arguments | {"max_keys": 2, budget: value}), rng=Rng.system())
