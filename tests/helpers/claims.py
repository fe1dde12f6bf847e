"""The guarantees, as one assertion each."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from sfumato.accounting import zcdp_delta
from tests.helpers.laws import TOLERANCE, Pair, exact_delta, renyi, worst_delta

# Where a ledger's claim is checked: epsilon at these multiples of the mechanism's own.
MULTIPLES = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
# Orders of Rényi divergence. Beyond these, what counts would lie outside the truncated noise.
ORDERS = (1.01, 1.5, 2.0, 3.0, 5.0)


def assert_private(pairs: Iterable[Pair], epsilon: float, delta: float) -> None:
    """(epsilon, delta)-DP between all these neighbours."""
    assert worst_delta(pairs, epsilon) <= delta + TOLERANCE


def assert_zcdp(pairs: Iterable[Pair], rho: float) -> None:
    """rho-zCDP: the Rényi divergence of order alpha is at most alpha rho."""
    for pair in pairs:
        for alpha in ORDERS:
            assert renyi(pair, alpha) <= alpha * rho + TOLERANCE


def assert_ledger(pairs: Iterable[Pair], units: Fraction, epsilon: float, delta: float = 0.0) -> None:
    """What a ledger is told: delta once, and `units` units of epsilon^2 / 8 zCDP, converted at several epsilons."""
    claims = {at * epsilon: delta + zcdp_delta(units * Fraction(epsilon) ** 2 / 8, at * epsilon) for at in MULTIPLES}
    for pair in pairs:
        for at, claimed in claims.items():
            assert exact_delta(pair, at) <= claimed + TOLERANCE
