"""From units and calls to (epsilon, delta), and back.

The information of a budget composes as zero-concentrated differential privacy (zCDP): a unit is
rho = epsilon_per^2 / 8, whatever step it paid for, chosen adaptively or not. The calls add delta_per
each, once (the bad-event lemma, proofs/unknown_gumbel.md). The total is turned into (epsilon, delta)
once, for the cap: see proofs/composition.md, which also says why not for "what is spent so far".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Literal, get_args

from sfumato.accounting.numbers import Number, positive, probability, rational
from sfumato.errors import InvalidArgument

Method = Literal["tight", "theorem2"]
Conversion = Literal["optimal", "bun-steinke"]

MAX_UNITS = 2**62

# Guarantees are evaluated with fifty digits, at an alpha that floats have found, and rounded up to a float.
_DIGITS = Context(prec=50, rounding=ROUND_HALF_EVEN, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])


def epsilon(
    information: Number,
    calls: Number,
    epsilon_per: Number,
    delta_per: Number,
    delta: Number,
    method: Method = "tight",
    *,
    pure: bool = False,
) -> float:
    """The epsilon that a cap of `information` units and `calls` calls guarantees at a total `delta`.

    "tight" spends `calls * delta_per` of `delta` on the calls and converts zCDP optimally with the rest;
    "theorem2" is the printed bound of Rogers et al. (2021), which spends twice that and converts less well.
    `pure=True` states that every step was epsilon_per-bounded-range or (epsilon_per / 2)-DP: then
    `information * epsilon_per` is a bound too. One Gaussian count makes that statement false.

    >>> round(epsilon(3000, 30, 0.15, 1e-10, 7e-9, method="theorem2"), 2)
    34.88
    >>> round(epsilon(3000, 30, 0.15, 1e-10, 7e-9), 2)
    32.86
    """
    per_call, conversion = _method(method)
    units = _not_negative("information", information)
    step = positive("epsilon_per", epsilon_per)
    spare = _spare_delta(_not_negative("calls", calls), delta_per, probability("delta", delta), per_call)
    bound = zcdp_epsilon(units * step**2 / 8, spare, conversion)
    return min(bound, _up(_decimal(units * step))) if pure else bound


_epsilon_of_cap = epsilon


def units(
    epsilon: Number,
    calls: Number,
    epsilon_per: Number,
    delta_per: Number,
    delta: Number,
    method: Method = "tight",
    *,
    pure: bool = False,
) -> int:
    """How many units a cap may hold if they and `calls` calls are to stay within (`epsilon`, `delta`).

    >>> units(34.884, 30, 0.15, 1e-10, 7e-9), units(34.885, 30, 0.15, 1e-10, 7e-9, method="theorem2")
    (3294, 3000)
    """
    target = positive("epsilon", epsilon)
    return _largest(lambda n: _epsilon_of_cap(n, calls, epsilon_per, delta_per, delta, method, pure=pure) <= target)


def zcdp_epsilon(rho: Number, delta: Number, conversion: Conversion = "optimal") -> float:
    """The epsilon at which every rho-zCDP mechanism is (epsilon, `delta`)-DP.

    "optimal" minimises, over alpha > 1, the bound of Canonne, Kamath and Steinke (2020); each alpha gives a
    valid epsilon, so the search need not be exact. "bun-steinke" is rho + 2 sqrt(rho ln(1 / delta)).
    """
    exact, spare = _not_negative("rho", rho), probability("delta", delta)
    if conversion not in get_args(Conversion):
        raise InvalidArgument("conversion", f"must be one of {', '.join(map(repr, get_args(Conversion)))}")
    if exact == 0:
        return 0.0
    r, log_delta = _decimal(exact), _DIGITS.ln(_decimal(spare))
    if conversion == "bun-steinke":
        return _up(_DIGITS.add(r, _DIGITS.multiply(2, _DIGITS.sqrt(_DIGITS.multiply(r, log_delta.copy_negate())))))
    floats = float(r), float(log_delta)
    return max(0.0, _up(_renyi_epsilon(r, log_delta, _best(lambda alpha: _float_epsilon(*floats, alpha)))))


def zcdp_delta(rho: Number, epsilon: Number) -> float:
    """The delta at which every rho-zCDP mechanism is (`epsilon`, delta)-DP (Canonne, Kamath, Steinke 2020)."""
    exact, target = _not_negative("rho", rho), _not_negative("epsilon", epsilon)
    if exact == 0:
        return 0.0
    r, e = _decimal(exact), _decimal(target)
    floats = float(r), float(e)
    log_delta = _log_renyi_delta(r, e, _best(lambda alpha: _float_log_delta(*floats, alpha)))
    return 1.0 if log_delta >= 0 else min(1.0, _up(_DIGITS.exp(log_delta)))


def zcdp_rho(epsilon: Number, delta: Number, conversion: Conversion = "optimal") -> float:
    """The largest rho whose zCDP is (`epsilon`, `delta`)-DP, rounded down."""
    target, spare = float(positive("epsilon", epsilon)), probability("delta", delta)
    low, high = 0.0, 1.0
    while zcdp_epsilon(high, spare, conversion) <= target:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if zcdp_epsilon(middle, spare, conversion) <= target else (low, middle)
    return low


def approximate_zcdp_epsilon(
    rho: Number, approximation: Number, delta: Number, conversion: Conversion = "optimal"
) -> float:
    """The epsilon at which an `approximation`-approximate rho-zCDP mechanism is (epsilon, `delta`)-DP.

    The bad event takes its `approximation` off `delta`; the rest converts as zCDP.
    """
    spare = probability("delta", delta) - _not_negative("approximation", approximation)
    if spare <= 0:
        raise InvalidArgument("delta", "must be larger than the approximation, which is part of it")
    return zcdp_epsilon(rho, spare, conversion)


def pure_to_zcdp(epsilon: Number) -> Fraction:
    """An epsilon-DP mechanism is (epsilon^2 / 2)-zCDP (Bun and Steinke 2016)."""
    return _not_negative("epsilon", epsilon) ** 2 / 2


def bounded_range_to_zcdp(epsilon: Number) -> Fraction:
    """An epsilon-bounded-range mechanism is (epsilon^2 / 8)-zCDP (Cesar and Rogers 2021)."""
    return _not_negative("epsilon", epsilon) ** 2 / 8


def _method(method: Method) -> tuple[int, Conversion]:
    """How often a call pays its delta_per, and how the rest converts."""
    methods: dict[Method, tuple[int, Conversion]] = {"tight": (1, "optimal"), "theorem2": (2, "bun-steinke")}
    if not isinstance(method, str) or method not in methods:
        raise InvalidArgument("method", f"must be one of {', '.join(map(repr, methods))}")
    return methods[method]


def _spare_delta(calls: Fraction, delta_per: Number, delta: Fraction, per_call: int) -> Fraction:
    """What is left of `delta` for the conversion once every call has paid."""
    if calls == 0:
        return delta
    spent = calls * per_call * probability("delta_per", delta_per)
    if spent >= delta:
        raise InvalidArgument("delta", f"must be larger than what the calls take of it, {float(spent):.4g}")
    return delta - spent


def _not_negative(name: str, value: Number) -> Fraction:
    exact = rational(name, value)
    if exact < 0:
        raise InvalidArgument(name, "must not be negative")
    return exact


def _renyi_epsilon(rho: Decimal, log_delta: Decimal, alpha: Decimal) -> Decimal:
    """alpha rho + (alpha ln(1 - 1/alpha) - ln(alpha - 1) - ln delta) / (alpha - 1)."""
    less = _DIGITS.subtract(alpha, 1)
    log_less = _DIGITS.ln(less)
    share = _DIGITS.multiply(alpha, _DIGITS.subtract(log_less, _DIGITS.ln(alpha)))
    rest = _DIGITS.subtract(_DIGITS.subtract(share, log_less), log_delta)
    return _DIGITS.add(_DIGITS.multiply(alpha, rho), _DIGITS.divide(rest, less))


def _log_renyi_delta(rho: Decimal, epsilon: Decimal, alpha: Decimal) -> Decimal:
    """(alpha - 1)(alpha rho - epsilon) + alpha ln(1 - 1/alpha) - ln(alpha - 1)."""
    less = _DIGITS.subtract(alpha, 1)
    log_less = _DIGITS.ln(less)
    share = _DIGITS.multiply(alpha, _DIGITS.subtract(log_less, _DIGITS.ln(alpha)))
    gain = _DIGITS.multiply(less, _DIGITS.subtract(_DIGITS.multiply(alpha, rho), epsilon))
    return _DIGITS.subtract(_DIGITS.add(gain, share), log_less)


def _float_epsilon(rho: float, log_delta: float, alpha: float) -> float:
    return alpha * rho + (alpha * math.log1p(-1 / alpha) - math.log(alpha - 1) - log_delta) / (alpha - 1)


def _float_log_delta(rho: float, epsilon: float, alpha: float) -> float:
    return (alpha - 1) * (alpha * rho - epsilon) + alpha * math.log1p(-1 / alpha) - math.log(alpha - 1)


def _best(bound: Callable[[float], float]) -> Decimal:
    """The alpha > 1 at which `bound` is about least, by golden section on ln(alpha - 1)."""
    shrink = (math.sqrt(5) - 1) / 2
    low, high = -30.0, 60.0
    left, right = high - shrink * (high - low), low + shrink * (high - low)
    at_left, at_right = bound(1 + math.exp(left)), bound(1 + math.exp(right))
    for _ in range(80):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - shrink * (high - low)
            at_left = bound(1 + math.exp(left))
        else:
            low, left, at_left = left, right, at_right
            right = low + shrink * (high - low)
            at_right = bound(1 + math.exp(right))
    return Decimal(1 + math.exp(left if at_left < at_right else right))


def _decimal(value: Fraction) -> Decimal:
    return _DIGITS.divide(Decimal(value.numerator), Decimal(value.denominator))


def _up(value: Decimal) -> float:
    """The next float above, which fifty digits cannot have missed."""
    return math.nextafter(float(value), math.inf) if value else 0.0


def _largest(fits: Callable[[int], bool]) -> int:
    """The largest n >= 0 with fits(n), for a predicate that holds up to some n and not beyond."""
    high = 1
    while fits(high):
        high *= 2
        if high > MAX_UNITS:
            raise InvalidArgument("epsilon", "is too large: any number of units fits")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
