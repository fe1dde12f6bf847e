"""What a release costs, as an exact value whose meaning never changes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from sfumato.accounting.numbers import Number, rational
from sfumato.errors import InvalidArgument

AMOUNT = "-?[0-9]{1,300}(/[1-9][0-9]{0,299})?"
"""An exact number as text."""


@dataclass(frozen=True, slots=True)
class Charge:
    """The price of a release in units of information and unknown-domain calls.

    One unit of information is one epsilon_per-bounded-range step, or anything else that is
    epsilon_per^2 / 8 zCDP. One call is one unknown-domain release, which adds delta_per once.
    Both are exact: ten charges of 1/10 spend a budget of 1.

    Charges are partially ordered: `a <= b` when both parts are, which is what "a fits into b" means.

    >>> Charge(21, 1) + Charge(2)
    Charge(information=23, calls=1)
    >>> Charge(21, 1) <= Charge(3000, 0)
    False
    """

    information: Fraction
    calls: Fraction

    def __init__(self, information: Number = 0, calls: Number = 0) -> None:
        object.__setattr__(self, "information", rational("information", information))
        object.__setattr__(self, "calls", rational("calls", calls))

    def __add__(self, other: Charge) -> Charge:
        if not isinstance(other, Charge):
            return NotImplemented
        return Charge(self.information + other.information, self.calls + other.calls)

    def __sub__(self, other: Charge) -> Charge:
        if not isinstance(other, Charge):
            return NotImplemented
        return Charge(self.information - other.information, self.calls - other.calls)

    def __mul__(self, times: int | Fraction) -> Charge:
        return Charge(self.information * times, self.calls * times)

    def __le__(self, other: Charge) -> bool:
        if not isinstance(other, Charge):
            return NotImplemented
        return self.information <= other.information and self.calls <= other.calls

    def __lt__(self, other: Charge) -> bool:
        return self <= other and self != other

    def __ge__(self, other: Charge) -> bool:
        return other <= self

    def __gt__(self, other: Charge) -> bool:
        return other < self

    def __bool__(self) -> bool:
        return bool(self.information or self.calls)

    def __str__(self) -> str:
        return f"{_with_noun(self.information, 'unit')} and {_with_noun(self.calls, 'call')}"

    def __repr__(self) -> str:
        return f"Charge(information={self.information}, calls={self.calls})"

    def to_dict(self) -> dict[str, str]:
        """The stable serial form: exact numbers as text, `{"information": "21", "calls": "1"}`."""
        return {"information": str(self.information), "calls": str(self.calls)}

    @classmethod
    def from_dict(cls, serial: Mapping[str, str]) -> Charge:
        """The inverse of `to_dict`, which refuses anything `to_dict` would not write."""
        if not isinstance(serial, Mapping) or set(serial) != {"information", "calls"}:
            raise InvalidArgument("charge", "must hold exactly 'information' and 'calls', as text")
        return cls(read_amount("information", serial["information"]), read_amount("calls", serial["calls"]))


NOTHING = Charge()


def total_charge(charges: Iterable[Charge]) -> Charge:
    """The sum. Whole amounts, which most are, are added as integers: a list has two hundred of them.

    >>> total_charge([Charge(2), Charge(Fraction(1, 2), 1), Charge(2)])
    Charge(information=9/2, calls=1)
    """
    information, calls, parts = 0, 0, NOTHING
    for charge in charges:
        if charge.information.denominator == 1 == charge.calls.denominator:
            information += charge.information.numerator
            calls += charge.calls.numerator
        else:
            parts += charge
    return parts + Charge(information, calls)


def _with_noun(amount: Fraction, noun: str) -> str:
    return f"{amount} {noun}" if amount == 1 else f"{amount} {noun}s"


def read_amount(name: str, text: str) -> Fraction:
    """An exact number from its text in lowest terms."""
    if not isinstance(text, str) or not re.fullmatch(AMOUNT, text):
        raise InvalidArgument(name, "must be an exact number as text, such as '21' or '3/2'")
    amount = Fraction(text)
    if str(amount) != text:
        raise InvalidArgument(name, "must be written in lowest terms, such as '21' or '3/2'")
    return amount
