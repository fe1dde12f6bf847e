"""How an account has gone down in its period, and on which day it would be empty at this pace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction

from markupsafe import Markup

from sfumato.accounting import Charge
from sfumato.session import Session
from sfumato.show.bars import Heading
from sfumato.show.drawing import round_steps
from sfumato.show.lines import Axis, Line, LinePanel, Point, draw_lines
from sfumato.show.text import day_name
from sfumato.web.rendering import NARROW, WIDE, picture
from sfumato.wire import BudgetReport, ChargeRow

MAX_CHARGES = 5000
DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Burning:
    """The pictures, the numbers behind them by day, and the day that the pace leads to, in words."""

    pictures: tuple[Markup, ...]
    days: tuple[tuple[date, Charge], ...]
    pace: str


def draw_burning(session: Session, analyst: str, budget: BudgetReport, now: datetime) -> Burning | None:
    """The analyst's own account in this period; None where there is nothing to draw."""
    own = budget.accounts[0]
    page = session.charges(analyst, rows=MAX_CHARGES)
    who = session.config.analyst(analyst)
    begins, ends = session.config.budgets[who.budget].period(now)
    rows = [row for row in page.rows if row.account == own.account and row.state != "granted"]
    moved = [row for row in rows if begins is None or datetime.fromisoformat(row.at).date() >= begins]
    if page.next is not None or not moved:
        return None
    first = begins or datetime.fromisoformat(moved[-1].at).date()
    days = _left_by_day(own.limit + own.granted, moved, first, now.date())
    pace = _describe_pace(own.left, own.spent + own.reserved, first, ends, now) if budget.mode == "enforce" else ""
    last = ends or now.date() + timedelta(days=1)
    panels = [
        _panel(
            name,
            [(day, getattr(left, kind)) for day, left in days],
            first,
            last,
            getattr(own.limit + own.granted, kind),
        )
        for name, kind in (("units left", "information"), ("calls left", "calls"))
    ]
    heading = Heading(("What was left on each day",), ())
    return Burning(
        tuple(
            picture(draw_lines(heading, panels, width, columns=2, headed=False).with_classes(name))
            for width, name in ((WIDE, "wide"), (NARROW, "narrow"))
        ),
        tuple(days),
        pace,
    )


def _left_by_day(whole: Charge, rows: Sequence[ChargeRow], first: date, last: date) -> list[tuple[date, Charge]]:
    """What was left at the end of each day."""
    spent: dict[date, Charge] = {}
    for row in rows:
        day = datetime.fromisoformat(row.at).date()
        spent[day] = spent.get(day, Charge(0)) + row.charge
    days, left = list[tuple[date, Charge]](), whole
    for number in range((last - first).days + 1):
        day = first + timedelta(days=number)
        left = left - spent.get(day, Charge(0))
        days.append((day, left))
    return days


def _panel(name: str, days: Sequence[tuple[date, Fraction]], first: date, last: date, whole: Fraction) -> LinePanel:
    """A line that is level on each day; drawn to the pixel, so it may be rounded."""
    start = Point(0, float(whole), float(whole), float(whole))
    points = [Point((day - first).days + 1, float(left), float(left), float(left)) for day, left in days]
    top = max(float(whole), 1.0)
    low = min(0.0, *(point.y for point in points))
    length = max((last - first).days, 1)
    ticks = tuple((at, day_name(first + timedelta(days=at))) for at in range(0, length, max(1, length // 4)))
    steps = tuple((step, f"{step:,g}") for step in round_steps(low, top, 4))
    return LinePanel(
        name,
        (Line(name, 0, ((start, *points),)),),
        Axis(0, length, ticks),
        Axis(low, top, steps),
        steps=True,
        height=150,
    )


def _describe_pace(left: Charge, used: Charge, first: date, ends: date | None, now: datetime) -> str:
    """When the account would be empty if it went on like this; "" where nothing was used."""
    passed = Fraction(max((now - datetime.combine(first, time(), UTC)).total_seconds(), 1)).limit_denominator(1)
    paces = ((left.information, used.information), (left.calls, used.calls))
    times = [passed * have / spent for have, spent in paces if spent > 0]
    if not times:
        return ""
    days = int(min(times) // DAY_S)
    if days > 3650:
        return "At this pace it lasts for more than ten years."
    dry = (now + timedelta(days=days)).date()
    if ends is not None and dry >= ends:
        return f"At this pace it lasts until it is full again on {day_name(ends)}."
    return f"At this pace it is empty on {day_name(dry)}."
