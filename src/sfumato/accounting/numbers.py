"""Exact numbers at the door: what a caller passes becomes a Fraction or an int, or an error that names it."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational
from typing import TypeAlias

from sfumato.errors import InvalidArgument

Number: TypeAlias = int | float | Fraction | Decimal

MAX_BITS = 200
FINEST_BITS = 2000


def rational(name: str, value: Number, *, between: tuple[float, float] | None = None) -> Fraction:
    """`value` as an exact Fraction within its bounds; a float counts at its exact binary value."""
    if type(value) is Fraction:
        exact = value
    elif isinstance(value, bool) or not isinstance(value, int | Fraction | float | Decimal | Rational):
        raise InvalidArgument(name, f"must be a number (int, float, Fraction or Decimal), not {type(value).__name__}")
    elif isinstance(value, float | Decimal):
        if not (value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)):
            raise InvalidArgument(name, "must be finite, not NaN or infinite")
        if isinstance(value, Decimal) and abs(value.adjusted()) > FINEST_BITS // 4:
            raise InvalidArgument(name, "has more digits than can be computed with")
        exact = Fraction(value)
    else:  # with Python's own integers inside: a numpy integer would overflow later
        exact = Fraction(int(value.numerator), int(value.denominator))
    if exact.numerator.bit_length() - exact.denominator.bit_length() > MAX_BITS:
        raise InvalidArgument(name, "is too large to compute with")
    if exact.denominator.bit_length() > FINEST_BITS:
        raise InvalidArgument(name, "has more digits than can be computed with")
    if between is not None and not between[0] <= float(exact) <= between[1]:
        raise InvalidArgument(name, f"must lie between {between[0]:.2g} and {between[1]:.2g}")
    return exact


def positive(name: str, value: Number, *, at_most: int | Fraction | None = None) -> Fraction:
    """`value` as an exact Fraction above zero, and not above `at_most`."""
    exact = rational(name, value)
    if exact <= 0:
        raise InvalidArgument(name, "must be greater than zero")
    if at_most is not None and exact > at_most:
        raise InvalidArgument(name, f"must be at most {float(at_most):.4g}")
    return exact


def probability(name: str, value: Number) -> Fraction:
    """`value` as an exact Fraction strictly between 0 and 1, and large enough for a float to hold."""
    exact = rational(name, value)
    if not 0 < exact < 1 or float(exact) == 1:
        raise InvalidArgument(name, "must lie strictly between 0 and 1")
    if exact < Fraction(1, 2**900):
        raise InvalidArgument(name, "is too small to compute with; use at least 1e-270")
    return exact


def whole(name: str, value: int, *, at_least: int = 0, at_most: int | None = None) -> int:
    """`value` as an int within its bounds; 3.0 and True are not whole numbers here."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidArgument(name, f"must be a whole number, not {type(value).__name__}")
    if value < at_least:
        raise InvalidArgument(name, f"must be at least {at_least}")
    if at_most is not None and value > at_most:
        raise InvalidArgument(name, f"must be at most {at_most}")
    return int(value)
