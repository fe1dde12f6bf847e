"""Would this charge still fit?"""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.accounting.charges import NOTHING, Charge
from sfumato.accounting.composition import Method, epsilon
from sfumato.accounting.numbers import Number
from sfumato.errors import BudgetExhausted, InvalidArgument


@dataclass(frozen=True, slots=True)
class Filter:
    """A cap fixed in advance and a running total below it.

    Guarantee: as long as every step is checked by `fits` with a worst-case charge before it runs, the
    whole adaptive interaction satisfies `guarantee(...)` of the cap (proofs/composition.md).
    The running total is in units and calls only: an epsilon for "what is spent so far", read at a
    moment that was chosen by looking at answers, would not be a guarantee.

    >>> budget = Filter(Charge(50, 2)).spend(Charge(21, 1))
    >>> budget.left, budget.fits(Charge(21, 1)), budget.fits(Charge(30, 1))
    (Charge(information=29, calls=1), True, False)
    """

    cap: Charge
    spent: Charge = NOTHING

    def __post_init__(self) -> None:
        _check(self.cap, "cap")
        _check(self.spent, "spent")

    @property
    def left(self) -> Charge:
        return self.cap - self.spent

    def fits(self, charge: Charge) -> bool:
        """Whether `charge` may still be spent: both totals stay within the cap."""
        return self.spent + _check(charge) <= self.cap

    def spend(self, charge: Charge) -> Filter:
        """The filter after `charge`; `BudgetExhausted` if it does not fit."""
        if not self.fits(charge):
            raise BudgetExhausted(charge, self.left)
        return Filter(self.cap, self.spent + charge)

    def guarantee(
        self,
        epsilon_per: Number,
        delta_per: Number,
        delta: Number,
        method: Method = "tight",
        *,
        pure: bool = False,
    ) -> float:
        """The epsilon, at `delta`, of everything this filter will ever let through: that of its cap."""
        return epsilon(self.cap.information, self.cap.calls, epsilon_per, delta_per, delta, method, pure=pure)


def _check(charge: Charge, name: str = "charge") -> Charge:
    if not isinstance(charge, Charge):
        raise InvalidArgument(name, f"must be a Charge, not {type(charge).__name__}")
    if not charge >= NOTHING:
        raise InvalidArgument(name, "must not be negative: nothing gives budget back")
    return charge
