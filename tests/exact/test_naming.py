"""Noise and names, accounted together: exact divergences of tables whose keys are old, new, or chosen by a census."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.accounting import GaussianLoss, GaussianStep
from sfumato.accounting.naming import NamingLoss, NamingPart
from sfumato.mechanisms import GaussianRule
from tests.helpers.laws import NoiseLaw, Pair, exact_delta, hockey_stick, key_pair, merged, product, shift_pair

KEYS = (1, 2, 3)


def rule_of(keys: int, variance: int, delta: Fraction) -> GaussianRule:
    return GaussianRule(total=Fraction(keys, 2 * variance), delta=delta, max_keys=keys)


def keys_pair(rule: GaussianRule, new: int, old: int) -> Pair:
    """So many keys that only one of two tables has, and so many that both have, with one more person in one of them."""
    noise, threshold = NoiseLaw.of(rule.noise), rule.threshold
    alone, common = (key_pair(n, n + 1, threshold, noise) for n in (0, 2 * threshold))
    pair = product([])
    for key in [alone] * new + [common] * old:
        pair = merged(product([pair, key]))
    return pair


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize(("delta", "least"), [(Fraction(1, 100), 0.5), (Fraction(1, 10**5), 1.5)], ids=str)
def test_people_with_any_number_of_new_keys_are_covered(keys: int, delta: Fraction, least: float) -> None:
    """A census that everybody is in, and a rule. Where both weigh as much, less is stated than the sum of both."""
    rule, census = rule_of(keys, 9 * keys, delta), GaussianStep.counts(150, 1)
    loss = NamingLoss.of_any([[NamingPart((census,)), NamingPart((rule.step,), delta)]])
    seen = shift_pair(NoiseLaw(2, 1 / 300), (1,))
    added = GaussianLoss((census, rule.step))
    for epsilon in (0.0, 0.2, 0.5, 1.0, 1.5, 3.0):
        for new, old in itertools.product(range(keys + 1), repeat=2):
            if new + old <= keys:
                exact = exact_delta(product([seen, keys_pair(rule, new, old)]), epsilon)
                assert exact <= loss.delta(epsilon) * (1 + 1e-9)
        assert loss.delta(epsilon) <= (added.delta(epsilon) + float(delta)) * (1 + 1e-9)
    assert loss.delta(least) < 0.95 * (added.delta(least) + float(delta))


CENSUS, RULE = 4_000, 400
AT = 0.2


def of_a_census(rule: GaussianRule) -> tuple[float, float, NamingLoss]:
    """The exact delta where a census decides, for the worst, whether a person's key is new; that of the worse of both
    tables whose key is what it is; and what is stated.
    """
    seen = shift_pair(NoiseLaw(2, 1 / (2 * CENSUS)), (1,))
    tables = [keys_pair(rule, 1, 0), keys_pair(rule, 0, 1)]
    told = []
    for p, q in (seen, seen[::-1]):
        near, flip = np.minimum(p, q) > 1e-30, p is seen[1]
        each = [
            [mass * hockey_stick(*(pair[::-1] if flip else pair), AT - math.log(mass / other)) for pair in tables]
            for mass, other in zip(p[near].tolist(), q[near].tolist(), strict=True)
        ]
        told.append((math.fsum(map(max, each)), max(map(math.fsum, zip(*each, strict=True)))))
    shown = Fraction(rule.noise.tail(rule.threshold - 1))  # a whole threshold takes a little less than rule.delta
    steps = NamingPart((GaussianStep.counts(CENSUS, 1),)), NamingPart((rule.step,), shown)
    chosen, fixed = map(max, zip(*told, strict=True))
    return chosen, fixed, NamingLoss.of_any([steps])


def test_a_census_may_choose_which_keys_are_new() -> None:
    """That tells nearly half more than the worse of both tables by itself. It is what is stated, and hardly more."""
    delta = GaussianLoss((GaussianStep.counts(CENSUS, 1), GaussianStep.counts(RULE, 1))).delta(AT)
    chosen, fixed, loss = of_a_census(rule_of(1, RULE, Fraction(delta)))
    assert chosen > 1.4 * fixed
    assert chosen <= loss.delta(AT) < 1.05 * chosen


def test_one_round_shares_and_rounds_before_it_add_up() -> None:
    step, delta = GaussianStep.counts(100, 1), Fraction(1, 10**6)
    one = NamingLoss.of_any([[NamingPart((step,), delta)]]).delta(0.5)
    two = NamingLoss.of_any(
        [[NamingPart((GaussianStep.counts(10**9, 1),), delta / 4), NamingPart((step,), delta)]]
    ).delta(0.5)
    assert one + 2.4e-7 < two < one + 2.8e-7


def test_a_plan_that_is_chosen_on_the_way_tells_no_more_than_stated() -> None:
    """One has more noise before keys are named, and as much in all."""
    census, delta = NamingPart((GaussianStep.counts(500, 1),)), Fraction(1, 10**5)
    once = [census, NamingPart((GaussianStep.counts(101, 4),), delta)]
    again = [
        census,
        NamingPart((GaussianStep.counts(401, 4),), delta / 1000),
        NamingPart((GaussianStep.counts(134, 4),), delta),
    ]
    both = NamingLoss.of_any([once, again])
    for epsilon in (0.1, 0.7, 0.8, 0.9, 2.0):
        assert max(NamingLoss.of_any([plan]).delta(epsilon) for plan in (once, again)) <= both.delta(epsilon)


def test_without_names_it_is_the_loss_of_the_noise() -> None:
    steps = GaussianStep.counts(30, 1), GaussianStep.counts(50, 2)
    loss = NamingLoss.of_any([[NamingPart(steps[:1]), NamingPart(steps[1:])]])
    assert loss.delta(1) == GaussianLoss(steps).delta(1)


def test_noise_that_is_too_small_for_a_bound_is_added_to_names() -> None:
    step, delta = GaussianStep.counts(1, 1), Fraction(1, 10**6)
    loss = NamingLoss.of_any([[NamingPart((step,), delta)]])
    assert loss.delta(2) == pytest.approx(GaussianLoss((step,)).delta(2) + 1e-6)
