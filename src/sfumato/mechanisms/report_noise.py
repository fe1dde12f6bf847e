"""Canonical counts: one noise for each cell of a report, drawn once and stored."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sfumato.accounting.numbers import Number, positive
from sfumato.mechanisms.noise import DiscreteLaplace, Integers, blamed_on
from sfumato.mechanisms.random import Rng

CANONICAL = "canonical_laplace"


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
    source = rng.child(mechanism=CANONICAL, version=1, epsilon=1 / law.scale)
    return exact.astype(np.int64) + source.discrete_laplace(law.scale, exact.size).reshape(exact.shape)
