"""Spending per day, and a forecast: how many analysts would exceed other budgets.

All of it is read from the journal; no table is opened. The spending of an analyst depends on the lengths of the lists
that the analyst has seen. So it is for owners and auditors only.
"""

from __future__ import annotations

import itertools
import math
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache

from sfumato.accounting import NOTHING, Charge
from sfumato.config import Config
from sfumato.errors import InvalidArgument
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.types import OWN, Standing, moment_text, read_charge

DEFAULT_DAYS, MAX_DAYS, MAX_BUDGETS = 31, 366, 10
MONTH = 31

PARTS = ("information", "calls", "either")
"""What can be exceeded: one part of a budget, or either of them."""

ENFORCED, MONTH_INCOMPLETE = "enforced-budgets", "month-incomplete"  # codes of notes; their texts are in wire/notes.py


@dataclass(frozen=True, slots=True)
class Spent:
    """What an account paid on one day (UTC) for the requests of one analyst, in one of its periods.

    `analyst` is empty if a recovery charged a shared account. `period` is the first day of the account's period; None
    if it never resets.
    """

    day: date
    analyst: str
    account: str
    period: date | None
    charge: Charge


@dataclass(frozen=True, slots=True)
class Usage:
    """Spending from `since` to `until`, both included. `earlier` is that of the same month before `since`."""

    since: date
    until: date
    rows: Sequence[Spent]
    earlier: Sequence[Spent] = ()

    def totals(self) -> dict[tuple[str, str], Charge]:
        """The sum per (account, analyst)."""
        totals: dict[tuple[str, str], Charge] = defaultdict(lambda: NOTHING)
        for row in self.rows:
            totals[row.account, row.analyst] += row.charge
        return dict(sorted(totals.items()))


@dataclass(frozen=True, slots=True)
class DryAccount:
    """How many of `of` analyst-periods had spent more than a budget by the end of their day number `day`."""

    day: int
    information: int
    calls: int
    either: int
    of: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """Per budget, how many analyst-periods would have exceeded it by which day, of `periods` of `analysts` analysts."""

    budgets: Mapping[Charge, Sequence[DryAccount]]
    analysts: int
    periods: int
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Overview:
    """Spending, and the forecast that follows from it."""

    usage: Usage
    forecast: Forecast


def overview(ledger: Ledger, config: Config, since: date, until: date, *, budgets: Sequence[Charge] = ()) -> Overview:
    """Spending in a range, and a forecast for these budgets; without any, for those that analysts have."""
    if len(budgets) > MAX_BUDGETS:
        raise InvalidArgument("budget", f"at most {MAX_BUDGETS} can be compared at once")
    sums = usage(ledger, since, until)
    notes = [ENFORCED] if any(config.budgets[who.budget].mode == "enforce" for who in config.analysts.values()) else []
    rows = [*sums.earlier, *sums.rows]
    return Overview(
        sums, forecast(rows, budgets or own_budgets(config), since=_month(since), notes=[*notes, MONTH_INCOMPLETE])
    )


def usage(ledger: Ledger, since: date, until: date) -> Usage:
    """What was spent from `since` to `until`, both included, per day, analyst and account."""
    _check_range(since, until)
    rows = _spending(ledger, _month(since), until)
    return Usage(since, until, [row for row in rows if row.day >= since], [row for row in rows if row.day < since])


def forecast(
    rows: Iterable[Spent],
    budgets: Sequence[Charge],
    *,
    since: date = date.min,
    days: int = MONTH,
    notes: Sequence[str] = (),
) -> Forecast:
    """How many analyst-periods would have exceeded each budget, by days since the first charge of the period.

    One analyst in one period is one curve, as in figure 5 of the Audience Engagements paper. Day 1 is the day of the
    first charge. The period is the one in the journal, so it follows what `resets` was at the time. An account that
    never resets is split by month, as a monthly budget would. An analyst who spent nothing in a period has no curve.

    Only own accounts count, because a shared one is exceeded by several analysts together. Periods that began before
    `since` are left out: their first days may not be among the rows. The curve of a period that has ended stays where
    it ended. Units are compared as they are: they mean the same only if the budgets have the same epsilon_per.
    """
    curves = _curves((row for row in rows if row.account.startswith(OWN)), since)
    compared = {budget: _count_exceeded(curves.values(), budget, days) for budget in budgets}
    return Forecast(compared, len({account for account, _ in curves}), len(curves), notes)


def own_budgets(config: Config) -> list[Charge]:
    """The budgets that analysts have, the smallest first; without analysts, all budgets."""
    names = {who.budget for who in config.analysts.values()} or {*config.budgets}
    return sorted({config.budgets[name].cap for name in names}, key=lambda cap: (cap.information, cap.calls))


def read_budget(text: str) -> Charge:
    """Read a budget from a command or a URL: "3000,30" is 3000 units and 30 calls."""
    if not re.fullmatch(r"[0-9]{1,15},[0-9]{1,15}", text):
        raise InvalidArgument("budget", "write units and calls, such as 3000,30")
    information, calls = text.split(",")
    return Charge(int(information), int(calls))


def read_range(since: str | None, until: str | None, now: datetime) -> tuple[date, date]:
    """Read the first and the last day. Default: the 31 days that end today (UTC)."""
    last = now.astimezone(UTC).date() if until is None else _read_day("until", until)
    first = last - timedelta(days=DEFAULT_DAYS - 1) if since is None else _read_day("since", since)
    _check_range(first, last)
    return first, last


def _read_day(name: str, text: str) -> date:
    try:
        if not re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text) or not "1970" <= text < "9999":
            raise ValueError
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(name, "write a day, such as 2026-11-15") from None


def _check_range(since: date, until: date) -> None:
    if since > until:
        raise InvalidArgument("since", f"{since} is after {until}; give the earlier day first")
    if (until - since).days >= MAX_DAYS:
        raise InvalidArgument("since", f"at most {MAX_DAYS} days can be read at once; begin later, or end earlier")


def _month(day: date) -> date:
    return day.replace(day=1)


# -- the pace of an account --


def find_dry_day(standing: Standing, since: date, today: date) -> date | None:
    """The day on which an account has nothing left of a part, if each day costs what the days from `since` cost.

    None where it has enough until it resets. Of an account that is tracked, it is the day on which an enforced budget
    would be exhausted.
    """
    passed = (today - since).days + 1
    days = []
    for part in ("information", "calls"):
        used = getattr(standing.spent, part) + getattr(standing.reserved, part)
        if used > 0:
            days.append(max(math.ceil(getattr(standing.left, part) * passed / used), 0))
    if not days or min(days) > (date.max - today).days:
        return None
    dry = today + timedelta(days=min(days))
    return dry if standing.resets is None or dry < standing.resets or not min(days) else None


def first_days(ledger: Ledger) -> dict[str, date]:
    """The day of the first charge of each account that never resets."""
    with ledger.reading("upkeep") as books:
        rows = books.run(
            "SELECT account, MIN(at) FROM journal WHERE period = '' AND kind IN ('reserve', 'settle', 'recover') "
            "AND account <> '' GROUP BY account"
        )
    return {account: date.fromisoformat(at[:10]) for account, at in rows}


# -- the journal --


def _spending(ledger: Ledger, since: date, until: date) -> list[Spent]:
    """What was spent, per day, analyst, account and period.

    The store counts equal amounts, so a busy day is a few rows. Their sums are made here, because fractions are exact.
    """
    with ledger.reading("upkeep") as books:
        sums = books.run(
            "SELECT substr(at, 1, 10), analyst, account, period, spent, COUNT(*) FROM journal "
            "WHERE at >= ? AND at <= ? AND kind IN ('settle', 'keep', 'recover') AND spent <> '0 0' "
            "GROUP BY 1, 2, 3, 4, 5",
            *(moment_text(datetime.combine(day, at, UTC)) for day, at in ((since, time.min), (until, time.max))),
        )
        amount = cache(read_charge)
        totals: dict[tuple[str, ...], Charge] = defaultdict(lambda: NOTHING)
        for *key, spent, times in sums:
            each = amount(spent)
            totals[tuple(key)] += Charge(each.information * times, each.calls * times)
        return [
            Spent(date.fromisoformat(day), analyst, account, date.fromisoformat(period) if period else None, total)
            for (day, analyst, account, period), total in sorted(totals.items())
        ]


# -- running dry --


@dataclass(frozen=True, slots=True)
class _Curve:
    """What an analyst had spent in all by the end of some days of a period, which are counted from 1 and rise."""

    days: Sequence[int]
    spent: Sequence[Charge]

    def first_above(self, part: str, budget: Charge) -> int | None:
        """The day on which one part of a budget is exceeded."""
        place = bisect_left(self.spent, True, key=lambda spent: getattr(spent, part) > getattr(budget, part))
        return self.days[place] if place < len(self.days) else None

    def days_exceeded(self, budget: Charge) -> dict[str, int]:
        """The day on which each part of a budget is exceeded, and either of them; others are left out."""
        days_by_part = {part: self.first_above(part, budget) for part in ("information", "calls")}
        days = {part: day for part, day in days_by_part.items() if day is not None}
        return {**days, "either": min(days.values())} if days else {}


def _curves(rows: Iterable[Spent], since: date) -> dict[tuple[str, date], _Curve]:
    """One curve per own account and period."""
    spent: dict[tuple[str, date], dict[date, Charge]] = defaultdict(lambda: defaultdict(lambda: NOTHING))
    for row in rows:
        period = _month(row.day) if row.period is None else row.period
        if period >= since:
            spent[row.account, period][row.day] += row.charge
    curves: dict[tuple[str, date], _Curve] = {}
    for key, by_day in spent.items():
        days = sorted(by_day)
        totals = itertools.accumulate(by_day[day] for day in days)
        curves[key] = _Curve([(day - days[0]).days + 1 for day in days], [*totals])
    return curves


def _count_exceeded(curves: Collection[_Curve], budget: Charge, days: int) -> list[DryAccount]:
    """How many curves had exceeded a budget by each day."""
    ends = [curve.days_exceeded(budget) for curve in curves]
    counts = {part: Counter(end[part] for end in ends if part in end) for part in PARTS}
    rising = [list(itertools.accumulate(counts[part][day] for day in range(1, days + 1))) for part in PARTS]
    return [
        DryAccount(day, information, calls, either, len(ends))
        for day, (information, calls, either) in enumerate(zip(*rising, strict=True), start=1)
    ]
