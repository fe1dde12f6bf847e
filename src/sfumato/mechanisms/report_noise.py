"""Canonical counts: one noise for each cell of a report, drawn once and stored."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

import numpy as np

from sfumato.accounting.numbers import Number, positive
from sfumato.mechanisms.noise import DiscreteGaussian, DiscreteLaplace, Integers, blamed_on
from sfumato.mechanisms.random import Rng

CellNoise: TypeAlias = DiscreteLaplace | DiscreteGaussian

CANONICAL: dict[str, str] = {"laplace": "canonical_laplace", "gaussian": "canonical_gaussian"}
"""The mechanism of a report, by the family of its noise."""


def canonical_laplace(counts: Integers, *, epsilon: Number, rng: Rng) -> Integers:
    """Each count with discrete Laplace noise of scale 1 / epsilon of its own: unbiased, and not clamped.

    Guarantee: epsilon-DP for one event, if it moves one of these counts, by one; n epsilon, if it moves n of them.
               That holds if every cell of the domain is here, also those without an event, and if each is drawn once.
    Source:    Kenthapadi and Tran (2018), with the corrections of proofs/reports.md, where the proof is.

    >>> canonical_laplace(np.array([7, 0, 3]), epsilon=1, rng=Rng.keyed(b"0" * 32, b"docs")).tolist()
    [8, 0, 3]
    """
    exact = np.asarray(counts)
    with blamed_on("epsilon"):
        law = DiscreteLaplace(1 / Fraction(positive("epsilon", epsilon)))
    source = rng.child(mechanism=CANONICAL["laplace"], version=1, epsilon=1 / law.scale)
    return exact.astype(np.int64) + source.discrete_laplace(law.scale, exact.size).reshape(exact.shape)


def canonical_gaussian(counts: Integers, *, sigma_squared: Number, rng: Rng) -> Integers:
    """Each count with discrete Gaussian noise of its own: unbiased, and not clamped.

    Guarantee: 1 / (2 sigma_squared) zCDP for one event, if it moves one of these counts, by one; n times that, if it
               moves n of them; and c^2 times that for c events in the same counts. Not pure DP.
               That holds if every cell of the domain is here, also those without an event, and if each is drawn once.
    Source:    Canonne, Kamath, Steinke (2020); proof in proofs/reports.md.

    >>> canonical_gaussian(np.array([7, 0, 3]), sigma_squared=4, rng=Rng.keyed(b"0" * 32, b"docs")).tolist()
    [10, -3, 4]
    """
    exact = np.asarray(counts)
    with blamed_on("sigma_squared"):
        law = DiscreteGaussian(positive("sigma_squared", sigma_squared))
    source = rng.child(mechanism=CANONICAL["gaussian"], version=1, sigma_squared=law.sigma_squared)
    return exact.astype(np.int64) + source.discrete_gaussian(law.sigma_squared, exact.size).reshape(exact.shape)


def draw_cells(counts: Integers, law: CellNoise, rng: Rng) -> Integers:
    """Counts with the noise of a report's cells. The two kinds never share a random word."""
    if isinstance(law, DiscreteGaussian):
        return canonical_gaussian(counts, sigma_squared=law.sigma_squared, rng=rng)
    return canonical_laplace(counts, epsilon=1 / law.scale, rng=rng)
