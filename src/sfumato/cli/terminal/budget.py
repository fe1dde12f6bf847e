"""Pages of `sfumato budget`."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import partial

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sfumato.cli.terminal.bars import Bar, BarTable, add_bars
from sfumato.cli.terminal.tables import plain_table
from sfumato.cli.terminal.text import Words, bullets, indent, paragraphs, stack
from sfumato.ledger import Row
from sfumato.show.figures import Panel
from sfumato.show.text import heading, percent
from sfumato.wire import AccountStanding, BudgetReport, ChargeRow, Charges, PolicyChangeRow, PolicyHistory

_DAYS = (1, 2, 3, 7, 14, 21, 31)


def render_budget(report: BudgetReport) -> RenderableType:
    """What may still be spent. A bar is solid for what is spent, and shaded for what is reserved."""
    resets = "never resets" if report.resets is None else f"resets on {report.resets}"
    head = Words(f"{report.analyst}: {report.mode}, {resets}", "bold", cropped=False)
    labels = [[Words("account"), *(Words(standing.account) for standing in report.accounts)]]
    return Group(head, "", indent(BarTable(partial(_accounts_table, report), labels, bars=8)))


def _accounts_table(report: BudgetReport, bars: int) -> Table:
    grid = plain_table("account", "", "limit", "spent", "reserved", "left", numbers=range(2, 6), whole=(1,))
    add_bars(grid, bars)
    for standing in report.accounts:
        for *cells, bar in _account_rows(standing):
            grid.add_row(*cells, *([bar] if bars else []))
    return grid


def _account_rows(standing: AccountStanding) -> Iterator[Sequence[RenderableType]]:
    """An account as two rows: its information and its calls. The limit includes what was granted."""
    parts = standing.limit + standing.granted, standing.spent, standing.reserved, standing.left
    for name, noun, amounts in (
        (standing.account, "units", [part.information for part in parts]),
        ("", "calls", [part.calls for part in parts]),
    ):
        limit, spent, reserved, _ = amounts
        bar = Bar(spent, spent + reserved, max(limit, spent + reserved, Fraction(1)))
        yield Words(name), Words(noun), *map(_amount, amounts), bar


def render_charges(charges: Charges) -> RenderableType:
    """Charges and grants, the latest first; where the question is known, the accounts that paid stand below it."""
    if not charges.rows:
        return Text("Nothing was charged.")
    blocks: list[RenderableType] = [
        Group(Words(sql, cropped=False), indent(_charges_table(rows))) if sql else _charges_table(rows)
        for sql, rows in itertools.groupby(charges.rows, lambda row: row.sql)
    ]
    if charges.next is not None:
        blocks.append(Words(f"There are more, from {charges.next} on.", "dim", cropped=False))
    return stack(blocks)


def _charges_table(rows: Iterable[ChargeRow]) -> Table:
    grid = plain_table("at", "state", "units", "calls", "account", "digest", numbers=(2, 3), whole=(0, 1))
    for row in rows:
        moment, state = Words(row.at[:19].replace("T", " ")), Words(row.state)
        units, calls = _amount(row.charge.information), _amount(row.charge.calls)
        grid.add_row(moment, state, units, calls, Words(row.account), Words(row.digest or row.reason or ""))
    return grid


def render_policy_changes(trail: PolicyHistory) -> RenderableType:
    """What changed in the policy, the latest first."""
    if not trail.rows:
        return Text("No policy was seen yet: it is written down with the first question, or when the service starts.")
    return stack(_policy_change(row) for row in trail.rows)


def _policy_change(row: PolicyChangeRow) -> RenderableType:
    grid = plain_table("setting", "before", "after")
    for each in row.changes:
        grid.add_row(Words(each.setting), Words(each.before or "-"), Words(each.after or "-"))
    who = f", by {row.user}" if row.user else ""
    file = f", file {row.file[:12]}" if row.file else ""
    title = Words(f"{row.at[:19].replace('T', ' ')}{who}{file}", cropped=False)
    if not row.first_recorded:
        return Group(title, indent(grid))
    first = plain_table("recorded from here on", "value")
    for name, text in row.first_recorded.items():
        first.add_row(Words(name), Words(text))
    return Group(title, *([indent(grid)] if row.changes else []), indent(first))


def render_shares(panels: Sequence[Panel]) -> RenderableType:
    """Shares that rise by day, one table per panel: a row per line, and some of the days."""
    return stack(indent(_shares_table(panel)) for panel in panels if panel.lines)


def _shares_table(panel: Panel) -> Table:
    days = [day for day in _DAYS if day <= max(map(len, panel.lines.values()))]
    # The first column always has this width: the days of all panels are below one another.
    grid = plain_table(f"{heading(panel.title):<24}")
    for day in days:
        grid.add_column(Words(f"day {day}", cropped=False), justify="right", no_wrap=True)
    for label, line in panel.lines.items():
        grid.add_row(Words(label), *(Words(percent(line[day - 1]), cropped=False) for day in days))
    return grid


def render_spending(rows: Sequence[tuple[str, str, Fraction, Fraction]]) -> RenderableType:
    """What accounts have paid for which analyst: (account, analyst, units, calls)."""
    if not rows:
        return Text("Nothing was charged.")
    grid = plain_table("account", "analyst", "units", "calls", numbers=(2, 3))
    for account, analyst, units, calls in rows:
        grid.add_row(Words(account), Words(analyst), _amount(units), _amount(calls))
    return grid


def render_verification(problems: Sequence[str], fence: str, seen: int) -> RenderableType:
    """Whether the books are right; `seen` is how many rows of the journal the fence has seen."""
    if not problems:
        return paragraphs(
            "The books are right: every balance, every stored answer and every cell of a report follows from a whole "
            "journal.",
            f"Its fence, which has seen {seen:,} row{'' if seen == 1 else 's'} of it, is {fence}",
        )
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return Group(paragraphs(f"The books are wrong, {count}:"), "", bullets(problems))


def render_recovery(rows: Sequence[Row]) -> RenderableType:
    """What counts as spent from now on."""

    def sentence(row: Row) -> str:
        period = f" in the period from {row.period}" if row.period else ""
        if row.kind == "key":
            return f"the API key {json.loads(row.note)['id']} was not as the journal has it, and is revoked"
        if row.kind == "keep":
            return f"{row.account}: a question without its answer was closed at its worst case, {row.spent}{period}"
        return f"{row.account}: {row.spent} more count as spent{period}"

    moved = [sentence(row) for row in rows] or ["all that was spent is in this copy"]
    keys = ["API keys that were revoked after the copy was made may be valid again; see: sfumato keys list"]
    below = paragraphs(*(keys * all(row.kind != "key" for row in rows)), "Now run: sfumato budget verify")
    return Group(paragraphs("Recovered:"), "", bullets(moved), "", below)


def _amount(amount: Fraction) -> Words:
    """Exact where that is short; otherwise rounded, and marked with ~."""
    exact = f"{amount.numerator:,}" if amount.denominator == 1 else str(amount)
    return Words(exact if len(exact) <= 12 else f"~{float(amount):,.6g}")
