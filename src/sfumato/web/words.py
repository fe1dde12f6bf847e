"""Amounts, questions and the time that is left, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from typing import Any

from sfumato.accounting import Charge
from sfumato.show import heading, noise_within
from sfumato.show.text import day_name, join_words
from sfumato.wire import Estimate
from sfumato.wire.budget import AccountStanding, Mode

SCARCE = Fraction(1, 10)
"""Below this share of the limit, what is left has a sign."""


def amount(number: Fraction) -> str:
    """An amount of units or calls. What is no whole number is rounded down: more is never promised.

    >>> amount(Fraction(2979)), amount(Fraction(5, 2))
    ('2,979', '2.5')
    """
    if number.denominator == 1:
        return f"{number.numerator:,}"
    tenths = number * 10 // 1
    return f"{float(Fraction(tenths, 10)):,}"


def price(charge: Charge) -> str:
    """What is paid, in words.

    >>> price(Charge(21, 1)), price(Charge(11))
    ('21 units and 1 call', '11 units')
    """
    parts = [
        f"{amount(number)} {noun}{'' if number == 1 else 's'}"
        for number, noun in ((charge.information, "unit"), (charge.calls, "call"))
        if number
    ]
    return " and ".join(parts) or "nothing"


def price_range(least: Charge, worst: Charge) -> str:
    return price(worst) if least == worst else f"at least {price(least)}, at most {price(worst)}"


def days_until(day: date, now: datetime) -> str:
    """How many days it is until the beginning of a day.

    >>> days_until(date(2026, 12, 1), datetime(2026, 11, 16, 9))
    '15 days'
    """
    days = (day - now.date()).days
    return "1 day" if days == 1 else f"{days} days"


def count_fitting(left: Charge, each: Charge) -> int | None:
    """How often a price fits into what is left; None where it costs nothing."""
    pairs = (left.information, each.information), (left.calls, each.calls)
    return min((max(int(amount // one), 0) for amount, one in pairs if one), default=None)


@dataclass(frozen=True, slots=True)
class Meter:
    """One kind of what is left, of how much."""

    name: str
    left: Fraction
    limit: Fraction

    @property
    def text(self) -> str:
        return f"{amount(self.left)} of {amount(self.limit)} {self.name}"

    @property
    def share(self) -> float:
        """For the width of a meter; nothing is decided by it."""
        return float(min(max(self.left / self.limit, Fraction(0)), Fraction(1))) if self.limit else 0.0

    @property
    def is_scarce(self) -> bool:
        return bool(self.limit) and self.left < self.limit * SCARCE


@dataclass(frozen=True, slots=True)
class Gauge:
    """What is left of an account, as every page shows it."""

    meters: tuple[Meter, ...]
    notes: tuple[str, ...]
    is_scarce: bool

    @classmethod
    def of(cls, account: AccountStanding, mode: Mode, last: Charge | None, now: datetime) -> Gauge:
        """`last` is the price of the analyst's last question."""
        whole = account.limit + account.granted
        meters = (
            Meter("units", account.left.information, whole.information),
            Meter("calls", account.left.calls, whole.calls),
        )
        if mode == "track":
            return cls(meters, ("counted, not limited",), False)
        notes = []
        times = None if last is None else count_fitting(account.left, last)
        if times is not None:
            notes.append(f"about {times:,} question{'' if times == 1 else 's'} like your last one")
        if account.resets is not None:
            notes.append(f"full again on {day_name(account.resets)} ({days_until(account.resets, now)})")
        scarce = any(meter.is_scarce for meter in meters)
        return cls(meters, (*(["less than a tenth is left"] if scarce else []), *notes), scarce)


def describe_request(request: Mapping[str, Any] | None, sql: str | None) -> str:
    """What was asked, as a sentence; the condition stands as in SQL."""
    if request is None or request.get("type") not in ("top_k", "histogram", "total"):
        return sql or "a question of an earlier version"
    measure, table, where = heading(str(request["measure"])), heading(str(request["table"])), find_condition(sql or "")
    keys = request.get("by", ())
    by = join_words([heading(name) for name in ([keys] if isinstance(keys, str) else keys)] or ["all"])
    if request["type"] == "total":
        words = f"the total of {measure}"
    elif request["type"] == "histogram":
        words = f"{measure} of every group by {by}"
    else:
        names = "" if request.get("counts", True) else "the names of "
        longest = f"the {request['k']} largest groups" if request.get("k") else "the largest groups"
        words = f"{names}{longest} of {measure} by {by}"
    return f"{words}, in {table}{f', where {where}' if where else ''}"


def find_condition(sql: str) -> str:
    """What stands after WHERE in SQL of ours."""
    start = sql.find(" WHERE ")
    end = sql.rfind(" GROUP BY ")
    return "" if start < 0 else sql[start + 7 : end if end > start else len(sql)]


def describe_estimate(estimate: Estimate) -> dict[str, str]:
    """What a question costs and how accurate its answer will be: a line for each."""
    if estimate.mechanism == "policy":
        return {"price": "free: the policy lists these, and no row is read"}
    worst, left = estimate.worst, estimate.left
    lines = {"price": price_range(estimate.least, worst) if worst else "free: you have asked this before"}
    lines["accuracy"] = (
        noise_within(estimate.error95) if estimate.error95 else "names alone, in order and without counts"
    )
    if estimate.visible is not None:
        lines["shown"] = str(estimate.visible)
    if worst and estimate.answers_left is None:
        lines["afterwards"] = "counted, not limited"
    elif worst and worst <= left:
        times = estimate.answers_left or 0
        lines["afterwards"] = f"{price(left - worst)} left, enough for {max(times - 1, 0):,} more of these"
    elif worst:
        lines["afterwards"] = f"this is more than is left: {price(left)}"
    if estimate.notes:
        lines["notes"] = "; ".join(map(str, estimate.notes))
    return lines


def fits(estimate: Estimate) -> bool:
    """Whether the worst case of a question can be paid."""
    return not estimate.worst or estimate.answers_left is None or estimate.answers_left > 0
