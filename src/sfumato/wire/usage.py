"""What owners and auditors see: who spent what, and who would have run dry under other budgets."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta

from sfumato.accounting.charges import Charge
from sfumato.wire.base import Record
from sfumato.wire.notes import Note, note

if TYPE_CHECKING:
    from sfumato.show import Panel


class SpentRow(Record, frozen=True, kw_only=True):
    """What an account paid in one day (UTC) for one analyst's requests, in one of its periods."""

    day: date
    analyst: Annotated[str, Meta(description="Empty if a recovery charged a shared account.")]
    account: str
    period: Annotated[date | None, Meta(description="First day of the account's period; null if it never resets.")]
    charge: Charge


class DryCounts(Record, frozen=True):
    """How many analyst-periods had spent more than a budget: than a part of it, or than either part."""

    information: int
    calls: int
    either: int


class DryDay(Record, frozen=True):
    """How many had exhausted a budget by the end of a day."""

    day: Annotated[int, Meta(description="Days since the first charge of a period; the first is 1.")]
    dry: DryCounts
    of: Annotated[int, Meta(description="Number of analyst-periods in all.")]


class BudgetForecast(Record, frozen=True):
    """How many would have exhausted one budget, by day."""

    budget: Charge
    days: list[DryDay]


class SpendingReport(Record, frozen=True, kw_only=True):
    """Spending per day, analyst and account."""

    since: date
    until: date
    rows: list[SpentRow]


class UsageReport(SpendingReport, frozen=True, kw_only=True):
    """Spending per day, analyst and account, and how many would have exhausted a budget by each day."""

    forecast: list[BudgetForecast]
    notes: list[Note]

    @classmethod
    def of_overview(cls, overview: Any) -> UsageReport:
        """The record of a ledger's overview: its `usage` has the rows, its `forecast` the days by budget."""
        usage, forecast = overview.usage, overview.forecast
        return cls(
            since=usage.since,
            until=usage.until,
            rows=[SpentRow.from_attributes(row) for row in usage.rows],
            forecast=[
                BudgetForecast(budget, [DryDay(day.day, DryCounts.from_attributes(day), day.of) for day in days])
                for budget, days in forecast.budgets.items()
            ],
            notes=[note(code) for code in forecast.notes],
        )

    def panels(self) -> list[Panel]:
        """The forecast as a picture needs it: a panel per part of a budget, a line per budget that differs in it."""
        from sfumato.show import Panel

        shown = [each for each in self.forecast if each.days and each.days[0].of]
        return [
            Panel(
                part,
                {
                    _label(each.budget, part): tuple(getattr(day.dry, part) / day.of for day in each.days)
                    for each in shown
                },
            )
            for part in DryCounts.__struct_fields__
        ]


def _label(budget: Charge, part: str) -> str:
    from sfumato.show.text import plural

    units, calls = plural(budget.information, "unit"), plural(budget.calls, "call")
    return {"information": units, "calls": calls, "either": f"{units}, {calls}"}[part]
