"""How often known attacks succeed: what a budget means against what people really try.

The promise bounds every attack, with anything else that is known. These are the attacks by which Rogers et al. (2021,
section 8.3) chose their parameters, computed for the noise that is drawn here. They are computed and not bounded, so
they say what to expect and promise nothing. docs/explanation/attacks.md has the formulas with their derivation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, TypeAlias

import numpy as np

from sfumato.config import Budget
from sfumato.explain.calls import mechanism
from sfumato.explain.losses import periods
from sfumato.mechanisms.noise import Noise

AttackName: TypeAlias = Literal["averaging", "overlap", "differencing", "reconstruction", "single"]

DAYS = 30
"""How often a count is asked again in the paper: once per day, in data that does not change."""


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack with so many `answers`, and with what chance it `succeeds`; `blind` is the chance without an answer."""

    attack: AttackName
    answers: int
    succeeds: float
    blind: float = 0.0
    people: int | None = None


def averaging(noise: Noise, answers: int) -> float:
    """The chance that the average of so many noisy answers to one count, rounded, is the count.

    P[|X_1 + ... + X_n| < n / 2], exactly: by the inverse Fourier transform of E[cos(a X)]^n. The paper takes a normal
    law instead, 2 Phi(sqrt(n) / (2 deviation)) - 1.
    """
    reach = (answers - 1) // 2  # the largest sum of which the average is rounded to zero
    # On a ring of so many places, sums that are further apart than the law is wide do not meet.
    size = 1 << math.ceil(math.log2(80 * noise.deviation * math.sqrt(answers) + 2 * reach + 64))
    angles = 2 * np.pi * np.arange(size) / size
    masses = np.fft.fft(noise.characteristic(angles) ** answers).real / size
    return float(min(max(masses[0] + 2 * masses[1 : reach + 1].sum(), 0.0), 1.0))


def overlap(noise: Noise, rows: int) -> float:
    """The chance that of two lists of the same groups some group has two exact counts, so an exact difference.

    A count is exact with p = P[X = 0], in both lists with p^2: 1 - (1 - p^2)^rows. The paper wants p^2 * rows, which is
    how many such groups are expected, to be below 1. The attacker does not learn which groups they are.
    """
    return float(-math.expm1(rows * math.log1p(-(averaging(noise, 1) ** 2))))


def differencing(noise: Noise) -> float:
    """The chance to guess right whether one person is in a group, from a count with her and a count without her.

    The guess is yes if the first is larger: right with P[X - Y <= 0] = (1 + P[X - Y = 0]) / 2. No other guess from
    these two counts is better, because the law of X - Y is symmetric and falls on both sides of zero.
    """
    return (1 + averaging(noise, 2)) / 2


def reconstruction(noise: Noise, people: int, answers: int) -> tuple[int, float]:
    """How many people's secrets can be estimated, and the share of them that is guessed right.

    Each person has a secret of one bit. The attacker counts sets of them, and estimates all bits by least squares.
    The best designs (S-matrices) estimate a bit with the variance v = 4 m^2 deviation^2 / ((m + 1)^2 answers), for m
    people, who are at most as many as the answers. The share that is right is Phi(1 / (2 sqrt(v))).
    """
    known = min(people, answers)
    if not known:
        return 0, 0.5
    deviation = 2 * known * noise.deviation / ((known + 1) * math.sqrt(answers))
    return known, NormalDist().cdf(1 / (2 * deviation))


def attacks(budget: Budget, people: int) -> Iterator[Attack]:
    """What the attacks achieve with all of a month of a budget, each alone."""
    month = budget.cap * periods(budget.resets, "month")
    total, listed = (mechanism(what, budget.prices) for what in ("total", "top_ten"))
    counts = int(month.information // total.reserve.information)
    for answers in sorted({min(DAYS, counts), counts} - {0}):
        yield Attack("averaging", answers, averaging(total.noise, answers))
    rows = int((month.information // 2 - 1) // 2) if month.calls >= 2 else 0  # two lists: a cutoff, picks and counts
    if rows > 0:
        yield Attack("overlap", 2 * rows, overlap(listed.noise, rows))
    if counts >= 2:
        yield Attack("differencing", 2, differencing(total.noise), blind=0.5)
    if counts:
        known, share = reconstruction(total.noise, people, counts)
        yield Attack("reconstruction", counts, share, blind=0.5, people=known)
    if month.calls:
        # By the lemma of proofs/unknown_gumbel.md; the paper multiplies by e^-epsilon, which does not hold.
        yield Attack("single", int(month.calls), min(float(month.calls * budget.prices.delta_per), 1.0))
