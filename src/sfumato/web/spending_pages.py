"""Who spends what, and who would run dry under which budget."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from sfumato.accounting import Charge
from sfumato.errors import InvalidArgument
from sfumato.ledger.accounts import RELEASE
from sfumato.ledger.types import OWN
from sfumato.ledger.usage import MAX_BUDGETS
from sfumato.show import Panel, steps, visible
from sfumato.show.bars import Heading
from sfumato.show.stacks import MAX_LAYERS, StackPanel, draw_stacks
from sfumato.show.text import day_name, join_words, percent, plural
from sfumato.web import words
from sfumato.web.frame import PageCall
from sfumato.web.owner_pages import MAX_LISTED, asked, describe_refusal, owner_page
from sfumato.web.rendering import NARROW, WIDE, picture
from sfumato.wire import AccountRow, BudgetForecast, SpentRow, UsageReport

DAYS_SHOWN = (1, 2, 3, 7, 14, 21, 31)
MAX_ROWS = 500
RELEASES, OTHERS = "releases", "all others"


def show_overview(call: PageCall) -> Response:
    """Every account, and what was spent on each of the latest days."""
    rows = call.session.accounts().rows
    if len(rows) > MAX_LISTED:
        rows = sorted(rows, key=lambda row: row.dry or date.max)
    return owner_page(
        call,
        "overview.html",
        "Overview",
        here="/overview",
        accounts=[_account(row) for row in rows[:MAX_LISTED]],
        more=max(len(rows) - MAX_LISTED, 0),
        spending=add_up_spending(call.session.usage()),
        can_grant=call.may("govern") and call.session.config.console.govern,
    )


def _account(row: AccountRow) -> dict[str, Any]:
    whole = row.limit + row.granted
    meters = [
        words.Meter("units", row.left.information, whole.information),
        words.Meter("calls", row.left.calls, whole.calls),
    ]
    return {
        "name": row.account,
        "is_tracked": row.mode == "track",
        "granted": words.price(row.granted) if row.granted else "",
        "spent": words.price(row.spent),
        "reserved": words.price(row.reserved) if row.reserved else "",
        "meters": meters,
        "share": min(meter.share for meter in meters),
        "dry": row.dry,
        "resets": row.resets,
    }


@dataclass(frozen=True, slots=True)
class SpendingByDay:
    """What was spent by day and by who: the pictures, the numbers behind them, and how many more of these there are."""

    since: date
    until: date
    pictures: tuple[Markup, ...]
    rows: tuple[tuple[date, str, Charge], ...]
    more: int


def add_up_spending(usage: UsageReport) -> SpendingByDay:
    """What own accounts and releases paid: what shared accounts pay beside them is the same questions."""
    paid: dict[tuple[date, str], Charge] = defaultdict(Charge)
    for row in usage.rows:
        if row.account.startswith((OWN, RELEASE)):
            paid[row.day, _payer(row)] += row.charge
    rows = tuple(
        (day, who, charge)
        for (day, who), charge in sorted(paid.items(), key=lambda item: (-item[0][0].toordinal(), item[0][1]))
    )
    drawn = _draw_spending(usage, paid) if rows else ()
    return SpendingByDay(usage.since, usage.until, drawn, rows[:MAX_ROWS], max(len(rows) - MAX_ROWS, 0))


def _payer(row: SpentRow) -> str:
    return RELEASES if row.account.startswith(RELEASE) else row.account.removeprefix(OWN)


def _draw_spending(usage: UsageReport, paid: Mapping[tuple[date, str], Charge]) -> tuple[Markup, ...]:
    """Columns by day, stacked by who spent most; on wide paper and on narrow."""
    totals: dict[str, Charge] = defaultdict(Charge)
    for (_, who), charge in paid.items():
        totals[who] += charge
    order = sorted(totals, key=lambda who: (totals[who].information, totals[who].calls), reverse=True)
    shown = order if len(order) <= MAX_LAYERS else [*order[: MAX_LAYERS - 1], OTHERS]
    days = [usage.since + timedelta(days=at) for at in range((usage.until - usage.since).days + 1)]

    def layers(part: str) -> dict[str, list[float]]:
        sums = {who: dict.fromkeys(days, 0.0) for who in shown}
        for (day, who), charge in paid.items():
            sums[who if who in sums else OTHERS][day] += float(getattr(charge, part))
        return {visible(who): [*by_day.values()] for who, by_day in sums.items()}

    head = Heading(("What was spent on each day, by analyst",), ())
    panels = [StackPanel("units", layers("information")), StackPanel("calls", layers("calls"))]
    names = [day_name(day) for day in days]
    return tuple(
        picture(draw_stacks(head, names, panels, width).with_classes(name))
        for width, name in ((WIDE, "wide"), (NARROW, "narrow"))
    )


# -- who would run dry --


def show_dry(call: PageCall) -> Response:
    """The forecast: how many analysts would have spent more than each of some budgets, by days since they began."""
    typed = [text.replace(" ", "") for text in call.request.query_params.getlist("budget") if text.strip()]
    chosen, usage, refused, status = asked(call, "since", "until"), None, "", 200
    try:
        usage = call.session.usage(**chosen, budgets=typed)
    except InvalidArgument as error:
        refused, status = describe_refusal(call, error)
    known = typed or [f"{each.budget.information},{each.budget.calls}" for each in (usage.forecast if usage else ())]
    panels = usage.panels() if usage else []
    has_lines = any(panel.lines for panel in panels)
    return owner_page(
        call,
        "dry.html",
        "Who would run dry",
        status,
        here="/dry",
        refused=refused,
        chosen=chosen,
        budgets=[*known, "", ""][:MAX_BUDGETS],
        most=MAX_BUDGETS,
        usage=usage,
        pictures=_draw_dry(panels) if has_lines else (),
        tables=[_shares(panel) for panel in panels] if has_lines else [],
        sentences=[_describe_budget(each) for each in usage.forecast] if usage and has_lines else [],
        notes=[f"{note.text[:1].upper()}{note.text[1:]}." for note in usage.notes] if usage else [],
    )


def _draw_dry(panels: Iterable[Panel]) -> tuple[Markup, ...]:
    titles = {"information": "units", "calls": "calls", "either": "units or calls"}
    named = [Panel(titles[panel.title], panel.lines) for panel in panels]
    drawn = steps(named, title="Share of analysts who would have spent more than the budget", about=())
    return tuple(
        picture(drawn.to_page_svg(width=width, classes=(name,))) for width, name in ((WIDE, "wide"), (NARROW, "narrow"))
    )


def _shares(panel: Panel) -> dict[str, Any]:
    """A panel as a table: a row per budget, and some of the days."""
    days = [day for day in DAYS_SHOWN if day <= max(map(len, panel.lines.values()))]
    title = {"information": "More units than the budget", "calls": "More calls", "either": "More of either"}[
        panel.title
    ]
    return {
        "title": title,
        "days": days,
        "rows": [(label, [percent(line[day - 1]) for day in days]) for label, line in panel.lines.items()],
    }


def _describe_budget(forecast: BudgetForecast) -> str:
    """How many never notice a budget.

    >>> from sfumato.wire import DryCounts, DryDay
    >>> _describe_budget(BudgetForecast(Charge(3000, 30), [DryDay(31, DryCounts(5, 4, 7), 100)]))
    'With 3,000 units and 30 calls, 93.0% never notice.'
    """
    budget, last = forecast.budget, forecast.days[-1]
    amounts = join_words([plural(budget.information, "unit"), plural(budget.calls, "call")])
    return f"With {amounts}, {percent(1 - last.dry.either / last.of)} never notice."
