"""What a release promises and spends: rho of zCDP and delta, from rho or from epsilon, converted once at the end.

A release is delta-approximate rho-zCDP: rho pays for noise, delta for naming keys that are not public. Most readers
expect (epsilon, delta). Of a given (epsilon, delta), half of delta pays for naming keys and the other half for the
conversion; where no key is named, the conversion has all of it. Of a given (rho, delta), delta is what naming keys may
take, and the statement gives epsilon at twice that.

Where epsilon was given and all noise is Gaussian or Laplace noise, the conversion of zCDP is not needed: the noise is
accounted exactly, and less of it is enough. The epsilons of Laplace noise add up, what is left of epsilon is that of
all Gaussian noise together, and thresholds add their delta (proofs/gaussian.md). rho is then the zCDP of the noise that
is drawn, which is what a ledger is charged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from sfumato.accounting import Charge
from sfumato.accounting.composition import zcdp_epsilon, zcdp_rho
from sfumato.accounting.gaussian import GaussianStep
from sfumato.accounting.groups import group_promise
from sfumato.accounting.numbers import Number, positive, probability
from sfumato.errors import InvalidArgument
from sfumato.explain.losses import GROUPS
from sfumato.query.policy import Prices

Accounting: TypeAlias = Literal["zcdp", "exact"]

CONVERSIONS: dict[Accounting, str] = {
    "zcdp": "optimal conversion of zCDP (Canonne, Kamath, Steinke 2020), rounded up",
    "exact": "exact accounting of the noise that is drawn, rounded up",
}
TOLD_AT = Fraction(1, 10**6)
"""The delta at which epsilon is stated, where none was given."""

MIN_RHO = Fraction(1, 10**12)
MAX_RHO = 1250
"""What a single pick costs at an epsilon of 100: more is no privacy at all."""


@dataclass(frozen=True, slots=True)
class ReleaseGuarantee:
    """`delta`-approximate `rho`-zCDP, which is (`epsilon`, `epsilon_delta`)-DP."""

    rho: Fraction
    delta: Fraction
    epsilon: float
    epsilon_delta: Fraction
    given: str = field(default="rho", compare=False)
    """What the caller gave, for refusals."""

    asked: Fraction | None = field(default=None, compare=False)
    """The epsilon that the caller gave, if it was that, as a float that is not above it."""

    accounting: Accounting = "zcdp"

    @classmethod
    def of(
        cls, rho: Number | None, epsilon: Number | None, delta: Number | None, *, names_keys: bool
    ) -> ReleaseGuarantee:
        """From what the caller gave: rho, or epsilon, and delta."""
        if (rho is None) == (epsilon is None):
            raise InvalidArgument("rho", "give a budget: rho, or epsilon, and only one of the two")
        if delta is None and (names_keys or epsilon is not None):
            raise InvalidArgument("delta", "is needed, such as 1e-6: well below one over the number of people")
        whole = TOLD_AT if delta is None else probability("delta", as_written(delta))
        if epsilon is not None:
            spent = whole / 2 if names_keys else Fraction(0)
            given = positive("epsilon", as_written(epsilon), at_most=100)
            found = cls._convert(Fraction(zcdp_rho(given, whole - spent)), spent, whole, "epsilon")
            near = float(given)
            return replace(found, asked=Fraction(near if near <= given else math.nextafter(near, 0)))
        spent = whole if names_keys else Fraction(0)
        if whole + spent >= 1:
            raise InvalidArgument("delta", "must be below 1/2; use 1e-6 or so")
        return cls._convert(positive("rho", as_written(rho or 0), at_most=MAX_RHO), spent, whole + spent, "rho")

    @classmethod
    def _convert(cls, rho: Fraction, delta: Fraction, whole: Fraction, given: str) -> ReleaseGuarantee:
        if rho < MIN_RHO:
            raise InvalidArgument(given, "is so small that it buys nothing; 0.1 to 5 are usual")
        return cls(rho, delta, zcdp_epsilon(rho, whole - delta), whole, given)

    def exact(self, spent: Sequence[Spending]) -> ReleaseGuarantee:
        """The epsilon that was asked for, by exact accounting of what is spent. Laplace noise alone needs no delta."""
        rho, delta = (sum((getattr(each, name) for each in spent), Fraction(0)) for name in ("rho", "delta"))
        whole = self.epsilon_delta if any(each.gaussian for each in spent) else delta
        return replace(
            self, rho=rho, delta=delta, epsilon=float(self.asked or 0), epsilon_delta=whole, accounting="exact"
        )

    def to_dict(self) -> dict[str, Any]:
        record = {
            "rho": str(self.rho),
            "delta": str(self.delta),
            "epsilon": self.epsilon,
            "epsilon_delta": str(self.epsilon_delta),
            "conversion": CONVERSIONS[self.accounting],
        }
        return record if self.accounting == "zcdp" else {**record, "accounting": self.accounting}

    def __str__(self) -> str:
        """The conversion that was used, in one line."""
        approximate = f" but for delta {float(self.delta):.3g}" if self.delta else ""
        pair = f"epsilon {self.epsilon:.4g} at delta {float(self.epsilon_delta):.3g}"
        zcdp, by = f"rho {float(self.rho):.5g} of zCDP{approximate}", f"by the {CONVERSIONS[self.accounting]}"
        return f"{zcdp}, which is {pair} {by}" if self.accounting == "zcdp" else f"{pair}, {by}; {zcdp}"

    def to_groups(self, spent: Sequence[Spending]) -> list[dict[str, Any]]:
        """What is promised to several people together; empty if a step does not say what it shows of them.

        For k people rho is k^2 times as large, and the delta of naming keys is that of each step. The conversion has
        the delta that it has for one person; where it has none, all noise is pure, and epsilon is k times as large.
        """
        naming, spare = [each.group_delta for each in spent if each.delta], self.epsilon_delta - self.delta
        record = []
        for people in GROUPS if None not in naming else ():
            shown = min(math.fsum(each(people) for each in naming if each is not None), 1.0)
            epsilon, delta = people * self.epsilon, shown
            if spare:
                found = group_promise(self.rho, shown, people, delta=spare)
                epsilon, delta = found.epsilon, found.delta
            bounded = math.isfinite(epsilon) and delta < 1
            bound = {"epsilon": epsilon if bounded else None, "delta": delta if bounded else None}
            record.append({"people": people, **bound, "shown": shown})
        return record

    def charge(self, prices: Prices) -> Charge:
        """What it takes of a ledger: a unit is epsilon_per^2 / 8 of rho, a call is delta_per. Rounded up."""
        information = 8 * self.rho / prices.epsilon_per**2
        return Charge(math.ceil(information), math.ceil(self.delta / prices.delta_per))


@dataclass(frozen=True, slots=True)
class Spending:
    """One thing that the budget is spent on. `group_delta` is its delta for several people, if it names keys.

    For exact accounting: `gaussian` is its Gaussian noise, or `epsilon` what its Laplace noise promises.
    """

    purpose: str
    law: str
    rho: Fraction
    delta: Fraction = Fraction(0)
    group_delta: Callable[[int], float] | None = field(default=None, compare=False, repr=False)
    gaussian: tuple[GaussianStep, ...] = ()
    epsilon: Fraction | None = None

    def to_dict(self, accounting: Accounting = "zcdp") -> dict[str, Any]:
        record = {"purpose": self.purpose, "law": self.law, "rho": str(self.rho), "delta": str(self.delta)}
        if accounting == "zcdp":
            return record
        if self.epsilon is not None:
            return {**record, "epsilon": str(self.epsilon)}
        return {**record, "gaussian": [step.to_dict() for step in self.gaussian]}


def root(square: Fraction) -> Fraction:
    """The largest multiple of 2^-64 whose square is not above `square`."""
    return Fraction(math.isqrt(math.floor(square * 2**128)), 2**64)


def as_written(number: Number) -> Number:
    """0.1 is a tenth, as it was written: a budget is a decimal that was chosen by its digits."""
    return Fraction(repr(number)) if type(number) is float and math.isfinite(number) else number
