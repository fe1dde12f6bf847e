"""What the owner sees: who spent what on which day, and who would have run dry under other budgets.

All of it is read from the journal; no table is opened. An analyst's own spending depends on the lengths of the lists
that she has seen, so this is for owners and auditors, and for nobody else.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from functools import cache
from typing import Any

from sfumato.accounting import NOTHING, Charge
from sfumato.config import Config
from sfumato.errors import InvalidArgument
from sfumato.ledger.ledger import OWN, Ledger
from sfumato.ledger.tables import charge
from sfumato.show import Panel

DEFAULT_DAYS, MAX_DAYS, MAX_BUDGETS = 31, 366, 10
MONTH = 31

# What can run dry: a part of the budget, or either part of it.
PROBLEM_TYPES = ("information", "calls", "either")

ENFORCED = (
    "budgets that are enforced hide what people would have asked for: nobody exceeds them, so that larger ones seem to "
    'be enough for everybody. Set mode = "track" for a while, then look again'
)
WHOLE = "a month that is not over yet can only add to its later days"


@dataclass(frozen=True, slots=True)
class Spent:
    """What an account paid in one day (UTC) for one analyst's questions, in one of its periods.

    `analyst` is empty where a recovery charged a shared account. `period` is the day on which the account's period
    began; None where it never resets.
    """

    day: date
    analyst: str
    account: str
    period: date | None
    charge: Charge

    def to_dict(self) -> dict[str, Any]:
        return {
            "day": self.day.isoformat(),
            "analyst": self.analyst,
            "account": self.account,
            "period": None if self.period is None else self.period.isoformat(),
            "charge": self.charge.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class Usage:
    """Spending from one day to another, both included. `earlier` is what came before in the month it begins in."""

    since: date
    until: date
    rows: Sequence[Spent]
    earlier: Sequence[Spent] = ()

    def totals(self) -> dict[tuple[str, str], Charge]:
        """What each account paid for each analyst, by (account, analyst)."""
        totals: dict[tuple[str, str], Charge] = defaultdict(lambda: NOTHING)
        for row in self.rows:
            totals[row.account, row.analyst] += row.charge
        return dict(sorted(totals.items()))

    def to_dict(self) -> dict[str, Any]:
        """{"since": day, "until": day, "rows": [{"day", "analyst", "account", "period", "charge": C}, ...]}"""
        rows = [row.to_dict() for row in self.rows]
        return {"since": self.since.isoformat(), "until": self.until.isoformat(), "rows": rows}


@dataclass(frozen=True, slots=True)
class DryAccount:
    """How many of `of` had spent more than a budget by the end of their day number `day`."""

    day: int
    information: int
    calls: int
    either: int
    of: int

    def to_dict(self) -> dict[str, Any]:
        dry = {"information": self.information, "calls": self.calls, "either": self.either}
        return {"day": self.day, "dry": dry, "of": self.of}


@dataclass(frozen=True, slots=True)
class Forecast:
    """For each budget, who would have run dry by when, over `periods` analyst-periods of `analysts` analysts."""

    budgets: Mapping[Charge, Sequence[DryAccount]]
    analysts: int
    periods: int
    notes: Sequence[str] = ()

    def to_dict(self) -> dict[str, Any]:
        """{"forecast": [{"budget": C, "days": [D, ...]}, ...], "notes": [...]}

        D = {"day": 1, "dry": {"information": 2, "calls": 1, "either": 2}, "of": 40}: numbers of analyst-periods.
        """
        listed = [
            {"budget": budget.to_dict(), "days": [day.to_dict() for day in days]}
            for budget, days in self.budgets.items()
        ]
        return {"forecast": listed, "notes": list(self.notes)}

    def whole(self) -> str:
        """Whose shares these are."""
        return f"{_number(self.periods, 'period')} of {_number(self.analysts, 'analyst')}"

    def panels(self) -> list[Panel]:
        """The shares as a picture needs them: one panel for each kind, one line for each budget that differs in it."""
        return [Panel(kind, self._lines(kind)) for kind in PROBLEM_TYPES]

    def _lines(self, kind: str) -> dict[str, tuple[float, ...]]:
        if not self.periods:
            return {}
        return {
            _label(budget, kind): tuple(getattr(day, kind) / day.of for day in days)
            for budget, days in self.budgets.items()
        }


@dataclass(frozen=True, slots=True)
class Overview:
    """What `GET /v1/admin/usage` sends: spending, and the forecast that follows from it."""

    usage: Usage
    forecast: Forecast

    def to_dict(self) -> dict[str, Any]:
        return {**self.usage.to_dict(), **self.forecast.to_dict()}


def overview(ledger: Ledger, config: Config, since: date, until: date, *, budgets: Sequence[Charge] = ()) -> Overview:
    """Spending in a range, and who would have run dry under these budgets; without any, under the analysts' own."""
    if len(budgets) > MAX_BUDGETS:
        raise InvalidArgument("budget", f"at most {MAX_BUDGETS} can be compared at once")
    found = usage(ledger, since, until)
    notes = [ENFORCED] if any(config.budgets[who.budget].mode == "enforce" for who in config.analysts.values()) else []
    rows = [*found.earlier, *found.rows]
    return Overview(found, forecast(rows, budgets or own_budgets(config), since=_month(since), notes=[*notes, WHOLE]))


def usage(ledger: Ledger, since: date, until: date) -> Usage:
    """What was spent from `since` to `until`, both included, by day, analyst and account."""
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
    """Who would have spent more than each budget, by days since their first charge of a period.

    One analyst in one of her periods is one curve, as in figure 5 of the Audience Engagements paper: day 1 is the day
    of her first charge in it, because nobody's clock starts before she asks. A period is the one that the journal has
    her charges in, so that it follows what `resets` said at the time; an account that never resets is looked at month
    by month, which is how a monthly budget would have met it. An analyst who spent nothing in a period has no curve.

    Only her own account counts: what she shares runs dry for others. Periods that began before `since` are left out,
    as their first days may not be among the rows. The curve of a period that has ended stays where it ended. Units are
    compared as they are: they mean the same only where the analysts' budgets have the same epsilon_per.
    """
    curves = _curves((row for row in rows if row.account.startswith(OWN)), since)
    compared = {budget: _dry([_runs_dry(curve, budget) for curve in curves.values()], days) for budget in budgets}
    return Forecast(compared, len({account for account, _ in curves}), len(curves), notes)


def own_budgets(config: Config) -> list[Charge]:
    """The budgets that analysts have, the smallest first; without analysts, all there are."""
    names = {who.budget for who in config.analysts.values()} or {*config.budgets}
    return sorted({config.budgets[name].cap for name in names}, key=lambda cap: (cap.information, cap.calls))


def read_budget(text: str) -> Charge:
    """A budget as it is written in a command or in a URL: "3000,30" is 3000 units and 30 calls."""
    if not re.fullmatch(r"[0-9]{1,15},[0-9]{1,15}", text):
        raise InvalidArgument("budget", "write units and calls, such as 3000,30")
    information, calls = text.split(",")
    return Charge(int(information), int(calls))


def read_range(since: str | None, until: str | None, now: datetime) -> tuple[date, date]:
    """The days that two texts mean: until today and the 31 days that end there, unless they say otherwise."""
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
        raise InvalidArgument("since", f"at most {MAX_DAYS} days can be looked at; begin later, or end earlier")


def _month(day: date) -> date:
    return day.replace(day=1)


# -- the journal --


def _spending(ledger: Ledger, since: date, until: date) -> list[Spent]:
    """What was spent, by day, analyst, account and period.

    The store counts equal amounts, and only their sums are made here: fractions are exact, and a busy day is few rows.
    """
    with ledger._books(ledger._store.reading) as books:
        found = books.run(
            "SELECT substr(at, 1, 10), analyst, account, period, spent, COUNT(*) FROM journal "
            "WHERE at >= ? AND at < ? AND kind IN ('settle', 'keep', 'recover') AND spent <> '0 0' "
            "GROUP BY 1, 2, 3, 4, 5",
            *(_midnight(since), _midnight(until + timedelta(days=1))),
        )
    amount = cache(charge)
    totals: dict[tuple[str, ...], Charge] = defaultdict(lambda: NOTHING)
    for *key, spent, times in found:
        each = amount(spent)
        totals[tuple(key)] += Charge(each.information * times, each.calls * times)
    return [
        Spent(date.fromisoformat(day), analyst, account, date.fromisoformat(period) if period else None, total)
        for (day, analyst, account, period), total in sorted(totals.items())
    ]


def _midnight(day: date) -> str:
    """As long as the journal writes its moments, so that every collation compares them place by place."""
    return f"{day.isoformat()}T00:00:00.000000+00:00"


# -- running dry --


@dataclass(frozen=True, slots=True)
class _Curve:
    """What an analyst had spent by the end of some of her days, which rise."""

    days: Sequence[int]
    spent: Sequence[Charge]

    def first_above(self, kind: str, budget: Charge) -> int | None:
        """The day on which she had spent more than the budget, in one of its parts."""
        place = bisect_left(self.spent, True, key=lambda spent: getattr(spent, kind) > getattr(budget, kind))
        return self.days[place] if place < len(self.days) else None


def _curves(rows: Iterable[Spent], since: date) -> dict[tuple[str, date], _Curve]:
    """One curve for each own account and period."""
    spent: dict[tuple[str, date], dict[date, Charge]] = defaultdict(lambda: defaultdict(lambda: NOTHING))
    for row in rows:
        period = _month(row.day) if row.period is None else row.period
        if period >= since:
            spent[row.account, period][row.day] += row.charge
    return {key: _Curve(*zip(*_cumulated(by_day), strict=True)) for key, by_day in spent.items()}


def _cumulated(by_day: Mapping[date, Charge]) -> Iterator[tuple[int, Charge]]:
    """Days counted from the first, each with all that was spent so far."""
    days = sorted(by_day)
    for day, total in zip(days, itertools.accumulate(by_day[day] for day in days), strict=True):
        yield (day - days[0]).days + 1, total


def _runs_dry(curve: _Curve, budget: Charge) -> dict[str, int]:
    """The day on which each kind runs dry, for those that do."""
    parts = {kind: curve.first_above(kind, budget) for kind in ("information", "calls")}
    dry = {kind: day for kind, day in parts.items() if day is not None}
    return {**dry, "either": min(dry.values())} if dry else {}


def _dry(ends: Sequence[Mapping[str, int]], days: int) -> list[DryAccount]:
    """How many had run dry by each day."""
    counts = {kind: Counter(end[kind] for end in ends if kind in end) for kind in PROBLEM_TYPES}
    rising = [list(itertools.accumulate(counts[kind][day] for day in range(1, days + 1))) for kind in PROBLEM_TYPES]
    return [
        DryAccount(day, information, calls, either, len(ends))
        for day, (information, calls, either) in enumerate(zip(*rising, strict=True), start=1)
    ]


def _label(budget: Charge, kind: str) -> str:
    units, calls = _counted(budget.information, "unit"), _counted(budget.calls, "call")
    return {"information": units, "calls": calls, "either": f"{units}, {calls}"}[kind]


def _counted(amount: Fraction, noun: str) -> str:
    if amount.denominator == 1:
        return _number(amount.numerator, noun)
    return f"{amount} {noun}s"


def _number(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
