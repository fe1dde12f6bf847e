"""What owners and auditors see: who spent what, and who would have run dry under other budgets."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from msgspec import Meta

from sfumato.accounting.charges import Charge
from sfumato.wire.base import Record


class SpentRow(Record, frozen=True, kw_only=True):
    """What an account paid in one day (UTC) for one analyst's requests, in one of its periods."""

    day: date
    analyst: Annotated[str, Meta(description="Empty where a recovery charged a shared account.")]
    account: str
    period: Annotated[date | None, Meta(description="When the account's period began; null where it never resets.")]
    charge: Charge


class DryCounts(Record, frozen=True):
    """How many analysts and periods had spent more than a budget: a part of it, or either part."""

    information: int
    calls: int
    either: int


class DryDay(Record, frozen=True):
    """How many had run dry by the end of a day."""

    day: Annotated[int, Meta(description="Since the first charge of a period.")]
    dry: DryCounts
    of: Annotated[int, Meta(description="How many analysts and periods there are.")]


class BudgetForecast(Record, frozen=True):
    """Who would have run dry under one budget, by day."""

    budget: Charge
    days: list[DryDay]


class UsageReport(Record, frozen=True, kw_only=True):
    """Spending by day, analyst and account, and how many would have run dry by each day."""

    since: date
    until: date
    rows: list[SpentRow]
    forecast: list[BudgetForecast]
    notes: list[str]
