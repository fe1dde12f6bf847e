"""What is promised to k people together, where what is promised to one person is known.

A group of k people is k steps of one person. Along these steps

    rho of zCDP                    becomes k^2 rho
    mu of exact Gaussian noise     becomes k mu
    epsilon of pure DP             becomes k epsilon

and delta, the chance that a mechanism shows what only these people have, is computed again for each mechanism: k people
stand k times as far above the place where nothing is shown. "k times epsilon at the same delta" is not true of
(epsilon, delta). Every function here returns a bound, rounded up. Proofs: proofs/groups.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato.accounting.composition import zcdp_epsilon
from sfumato.accounting.numbers import Number, positive, probability, rational, whole

Tail = Callable[[int], float]
"""P[noise >= n], rounded up."""

MAX_PEOPLE = 10_000

# Far more than a handful of operations in float64 can be off, as a share of the result.
_UP = 1 + 2.0**-36


@dataclass(frozen=True, slots=True)
class GroupPromise:
    """Any `people` people together are (`epsilon`, `delta`)-indistinguishable from their absence.

    `shown` is the part of `delta` that no larger epsilon can reduce: the chance that something is shown that only these
    people have. Where it is 1, nothing is promised, and `epsilon` is infinite.
    """

    people: int
    epsilon: float
    delta: float
    shown: float


def group_promise(rho: Number, shown: float, people: int, *, delta: Number) -> GroupPromise:
    """The promise of delta-approximate `rho`-zCDP to `people` people.

    `shown` is the delta of the mechanisms for that many people, from the functions below. `delta` is what the
    conversion takes beside it.

    >>> one, ten = (group_promise(0.02, 1e-7, people, delta=1e-6) for people in (1, 10))
    >>> round(one.epsilon, 2), round(ten.epsilon, 2)
    (0.9, 11.69)
    """
    spare = probability("delta", delta)
    group = group_rho(rho, people)
    if shown + float(spare) >= 1:
        return GroupPromise(people, math.inf, 1.0, min(shown, 1.0))
    return GroupPromise(people, zcdp_epsilon(group, spare), (shown + float(spare)) * _UP, shown)


def group_rho(rho: Number, people: int) -> Fraction:
    """zCDP of k people: k^2 rho (Bun and Steinke 2016)."""
    return rational("rho", rho) * _people(people) ** 2


def group_pure(epsilon: Number, people: int) -> Fraction:
    """Pure DP of k people: k epsilon."""
    return rational("epsilon", epsilon) * _people(people)


def group_delta(epsilon: Number, delta: Number, people: int) -> float:
    """Of any (epsilon, delta)-DP mechanism at k epsilon: delta (1 + e^epsilon + ... + e^((k - 1) epsilon))."""
    step, one = float(rational("epsilon", epsilon)), float(probability("delta", delta))
    return _at_most_one(one * math.fsum(_exp(j * step) for j in range(_people(people))))


def gumbel_group_delta(epsilon: Number, delta: Number, people: int) -> float:
    """Of a Gumbel call with a bottom element: delta e^((k - 1) epsilon)."""
    step, one = float(positive("epsilon", epsilon)), float(probability("delta", delta))
    return _at_most_one(one * _exp((_people(people) - 1) * step))


def passes_group_delta(passes: Iterable[tuple[Number, Number]], people: int) -> float:
    """Of several Gumbel calls, each given by its epsilon and its delta, such as the passes of PCR: their sum."""
    return _at_most_one(math.fsum(gumbel_group_delta(epsilon, delta, people) for epsilon, delta in passes))


def threshold_group_delta(tail: Tail, threshold: int, max_keys: int, people: int) -> float:
    """Of a rule that shows a key iff its count plus noise reaches `threshold`, each person in `max_keys` keys at most.

    1 - (1 - P[noise >= threshold - j])^(k max_keys / j) at the worst j: of keys that j of the k people share there are
    at most k max_keys / j.
    """
    return weighted_group_delta(tail, threshold, [(max_keys, 1)], people)


def weighted_group_delta(tail: Tail, threshold: int, weights: Sequence[tuple[int, int]], people: int) -> float:
    """The same where a person with `t` keys adds `weight` to each of them, `weights` having every (t, weight).

    1 - (1 - P[noise >= threshold - j weight])^(k t / j) at the worst j and t. Where k people of the largest weight
    reach the threshold without noise, nothing is promised.
    """
    group = _people(people)
    if group * max(weight for _, weight in weights) >= threshold:
        return 1.0
    worst = 0.0
    for keys, weight in weights:
        for together in range(1, group + 1):
            chance = tail(threshold - together * weight)
            worst = max(worst, -math.log1p(-min(chance, 1 - 2.0**-53)) * keys / together)
    return _at_most_one(-math.expm1(-group * worst))


def difference_group_delta(tail: Tail, threshold: int, max_groups: int, tau: int, people: int) -> float:
    """Of a histogram above a noisy threshold: k max_groups P[X - Y >= threshold - k tau + 1].

    `tail` is that of a difference of two draws; `threshold` is counted from the first count out of sight.
    """
    group = _people(people)
    place = threshold - group * tau + 1
    return 1.0 if place <= 0 else _at_most_one(group * max_groups * tail(place))


def _people(people: int) -> int:
    return whole("people", people, at_least=1, at_most=MAX_PEOPLE)


def _exp(exponent: float) -> float:
    return math.exp(exponent) if exponent < 700 else math.inf


def _at_most_one(bound: float) -> float:
    return min(bound * _UP, 1.0)
