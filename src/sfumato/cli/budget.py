"""`sfumato budget`: what was spent, and by whom. Opens the ledger and nothing else: no table, no noise key."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.cli import output
from sfumato.cli.books import open_books
from sfumato.cli.options import Amount, chart_path, name_options, save_chart, with_chart, with_config, with_options
from sfumato.cli.output import DIFFERENT, Commands, now, print_result, with_json
from sfumato.errors import InvalidArgument, LedgerFailed, LedgerSetBack

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sfumato.ledger import Account, Ledger
    from sfumato.ledger.fence import Mark

DRY_TITLE = "Analysts who would run out of budget"
NOTHING_SPENT = "No analyst has spent anything in these days, so nothing can be said about other budgets."

_with_range = with_options(
    click.option("--since", metavar="DAY", help="The first day (UTC); by default 31 days are taken."),
    click.option("--until", metavar="DAY", help="The last day (UTC); by default today."),
)


@click.group("budget", cls=Commands)
def budget() -> None:
    """Show what was spent, grant more, and check the books."""


@budget.command("show")
@click.option("--analyst", metavar="NAME", help="One analyst; without it, all of them.")
@click.option("--releases", is_flag=True, help="Instead: what releases may still spend, per budget.")
@with_config
@with_json
def show(as_json: bool, config: str, analyst: str | None, releases: bool) -> None:
    """Show what may still be spent.

    An analyst's own account comes first, then the shared ones: the organisation's and those of tables with a cap.

    \b
      sfumato budget show --analyst anna
      sfumato budget show --releases
    """
    from sfumato.cli.terminal.budget import render_budget
    from sfumato.cli.terminal.text import paragraphs, stack
    from sfumato.ledger.accounts import budget_accounts, release_account
    from sfumato.wire import BudgetReport

    if releases and analyst is not None:
        raise InvalidArgument("--releases", "belong to no analyst: leave --analyst out")
    with open_books(config) as (settings, ledger):
        if releases:
            paying = [release_account(settings, name) for name in settings.budgets]
            owners: dict[str, Sequence[Account]] = {account.name: [account] for account in paying}
        else:
            names = list(settings.analysts) if analyst is None else [analyst]
            owners = {name: budget_accounts(settings, name) for name in names}
        moment = now()
        reports = [
            BudgetReport.of_standings(name, accounts[0].budget.mode, ledger.standings(accounts, moment))
            for name, accounts in owners.items()
        ]
    serial = {"rows": [each.to_dict() for each in reports]} if analyst is None else reports[0].to_dict()
    none = paragraphs("There are no analysts in the file.")
    print_result(serial, lambda: stack(map(render_budget, reports)) if reports else none, as_json=as_json)


@budget.command("history")
@click.option("--analyst", metavar="NAME", help="One analyst; without it, all of them.")
@click.option("--cursor", metavar="N", help="Go on from here: the `next` of the page before.")
@click.option("--rows", default=20, show_default=True, type=click.IntRange(1, 10_000), metavar="N", help="How many.")
@click.option("--policy", is_flag=True, help="Limits, prices, rights, reports, tables: when they changed.")
@with_config
@with_json
def history(as_json: bool, config: str, analyst: str | None, cursor: str | None, rows: int, policy: bool) -> None:
    """List what was asked, charged and granted, the latest first.

    \b
      sfumato budget history --analyst anna --rows 50
      sfumato budget history --policy
    """
    from sfumato.cli.terminal.budget import render_charges, render_policy_changes
    from sfumato.wire import Charges, PolicyChangeRow, PolicyHistory

    if policy:
        if analyst is not None or cursor is not None:
            raise InvalidArgument("--policy", "lists changes for all; leave out --analyst and --cursor")
        from sfumato.ledger.policy_trail import policy_changes

        with open_books(config) as (_, ledger):
            trail = PolicyHistory([PolicyChangeRow.from_attributes(each) for each in policy_changes(ledger)[:rows]])
        print_result(trail.to_dict(), lambda: render_policy_changes(trail), as_json=as_json)
        return
    if cursor is not None and not re.fullmatch("[0-9]{1,18}", cursor):
        raise InvalidArgument("--cursor", "must be the `next` of the page before")
    with open_books(config) as (settings, ledger):
        if analyst is not None:
            settings.analyst(analyst)
        page = ledger.history(analyst, before=None if cursor is None else int(cursor), rows=rows)
    charges = Charges.from_attributes(page)
    print_result(charges.to_dict(), lambda: render_charges(charges), as_json=as_json)


@budget.command("usage")
@_with_range
@with_config
@with_json
def usage(as_json: bool, config: str, since: str | None, until: str | None) -> None:
    """Show what was spent, by account and analyst.

    With --json also by day. For owners only: what an analyst spent shows how long her lists were.

    \b
      sfumato budget usage --since 2026-11-01 --until 2026-11-30
    """
    from rich.console import Group

    from sfumato.cli.terminal.budget import render_spending
    from sfumato.cli.terminal.text import indent, paragraphs
    from sfumato.ledger.usage import read_range
    from sfumato.ledger.usage import usage as spending
    from sfumato.wire import SpendingReport

    with name_options():
        days = read_range(since, until, now())
    with open_books(config) as (_, ledger):
        sums = spending(ledger, *days)
    rows = [(account, who, charge.information, charge.calls) for (account, who), charge in sums.totals().items()]

    def page() -> RenderableType:
        head = paragraphs(f"Spent from {sums.since} to {sums.until}")
        return Group(head, "", indent(render_spending(rows)))

    print_result(SpendingReport.from_attributes(sums).to_dict(), page, as_json=as_json)


@budget.command("forecast")
@_with_range
@click.option(
    "--budget",
    "budgets",
    multiple=True,
    metavar="UNITS,CALLS",
    help="A budget to try; may be repeated. Without it, those that analysts have.",
)
@with_chart("--plot")
@with_config
@with_json
def forecast(
    as_json: bool, config: str, since: str | None, until: str | None, budgets: tuple[str, ...], plot: str | None
) -> None:
    """Show how many analysts would run out of budget under other limits.

    For each budget: the share of analysts who had spent more than that, by days since their first charge in a period.
    An enforced budget is never exceeded, so run with mode = "track" first, then choose.

    \b
      sfumato budget forecast --budget 1000,10 --budget 3000,30
      sfumato budget forecast --since 2026-09-01 --plot dry.svg
    """
    from rich.console import Group

    from sfumato.cli.terminal.budget import render_shares
    from sfumato.cli.terminal.text import paragraphs
    from sfumato.ledger.usage import overview, read_budget, read_range
    from sfumato.show.text import plural
    from sfumato.show.vega import steps
    from sfumato.wire import UsageReport

    with name_options():
        days = read_range(since, until, now())
        charges = [read_budget(text) for text in budgets]
        picture = chart_path(plot, "--plot")
        with open_books(config) as (settings, ledger):
            result = overview(ledger, settings, *days, budgets=charges)
    report = UsageReport.of_overview(result)
    panels = report.panels()
    whole = f"{plural(result.forecast.periods, 'period')} of {plural(result.forecast.analysts, 'analyst')}"
    share = f"share of {whole} in which more than the budget was spent"
    begun = result.usage.since.replace(day=1)  # periods are counted from the first of the month, so a month is whole
    when = f"periods begun since {begun}, as far as {result.usage.until}"
    about = [share, when] if result.forecast.periods else [NOTHING_SPENT]
    if picture is not None:
        save_chart(steps(panels[:2], title=DRY_TITLE, about=about), picture, option="--plot")

    def page() -> RenderableType:
        if not result.forecast.periods:
            return paragraphs(NOTHING_SPENT)
        head = paragraphs(f"{DRY_TITLE}: {share}, by days since its first charge; {when}")
        below = paragraphs(*(f"{note.text[:1].upper()}{note.text[1:]}." for note in report.notes))
        return Group(head, "", render_shares(panels), "", below)

    print_result(report.to_dict(), page, as_json=as_json)


@budget.command("verify")
@with_config
@with_json
def verify(as_json: bool, config: str) -> None:
    """Check that the books follow from their journal.

    Checks the whole journal: its chain of hashes, every balance, every reservation, every stored answer, every sealed
    cell of a report, and the fence, a high-water mark outside the ledger that detects a restored copy. Lists every
    problem and exits with 1 if there is one.

    \b
      sfumato budget verify
    """
    from sfumato.cli.terminal.budget import render_verification

    with open_books(config) as (_, ledger):
        problems, fence, mark = ledger.verify(), ledger.fence.place, ledger.fence.mark()
    seen = 0 if mark is None else mark.sequence
    serial = {"problems": problems, "fence": fence}
    print_result(serial, lambda: render_verification(problems, fence, seen), as_json=as_json)
    if problems:
        sys.exit(DIFFERENT)


@budget.command("fence")
@with_config
@with_json
def fence(as_json: bool, config: str) -> None:
    """Print what this machine's fence has seen.

    For `budget join -` on another machine. The mark says how far the ledger had come, and what each account had spent.
    It holds no answer and no key.

    \b
      sfumato budget fence > mark.json
      ssh first.example.com sfumato budget fence | sfumato budget join -
    """
    from sfumato.ledger.fence import GONE

    with open_books(config) as (_, ledger):
        ledger.reservations()  # raises where the ledger does not follow this fence
        mark = ledger.fence.mark()
        if mark is None:
            raise LedgerFailed(GONE)
    click.echo(mark.to_line())


@budget.command("join")
@click.argument("source", metavar="FROM")
@with_config
@with_json
def join(as_json: bool, config: str, source: str) -> None:
    """Take over what another fence of this ledger has seen. Nothing is spent.

    For a machine without a fence, and for a new place of the fence. FROM is a fence: its file, its folder,
    postgresql://... or - for what `sfumato budget fence` prints on a machine that answers. The ledger must continue it.
    The fence of [ledger] fence is written; if it exists, it keeps all that it has seen.

    \b
      sfumato budget join /mnt/old/ledger.fence
      ssh first.example.com sfumato budget fence | sfumato budget join -
    """
    from sfumato.cli.terminal.text import paragraphs

    with name_options(mark="FROM"), open_books(config) as (_, ledger):
        ledger.join(_read_mark(source))
        place, mark = ledger.fence.place, ledger.fence.mark()
    seen = 0 if mark is None else mark.sequence
    done = f"Joined. The fence, which has seen {seen:,} row{'' if seen == 1 else 's'} of the ledger, is {place}"
    print_result({"fence": place, "seen": seen}, lambda: paragraphs(done), as_json=as_json)


def _read_mark(source: str) -> Mark | None:
    """The mark at FROM; None if there is no fence."""
    from sfumato.config import read_fence
    from sfumato.ledger import find_fence
    from sfumato.ledger.fence import NO_MARK, Mark

    if source == "-":
        try:
            return Mark.from_line(sys.stdin.buffer.read())
        except NO_MARK:
            raise InvalidArgument("FROM", "what came is no mark; pipe into this: sfumato budget fence") from None
    place = read_fence(source, Path(), "FROM")
    if place is None:
        raise InvalidArgument("FROM", "must name a fence: a file, a folder, postgresql://... or -")
    fence = find_fence(place)
    try:
        mark = fence.mark()
    finally:
        fence.close()
    if mark is None:
        raise InvalidArgument("FROM", f"there is no fence ({fence.place})")
    return mark


@budget.command("recover")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_config
@with_json
def recover(as_json: bool, config: str, yes: bool) -> None:
    """Make a ledger that was restored from a copy safe to use again.

    An older copy would return budget that is already spent. So spending is raised to what the fence has seen; without
    a fence, nothing is left until the next reset. Reservations are closed at their worst case. If only the API keys
    are an older copy, those that have changed are revoked. If there is a newer copy, restore that instead; if another
    machine has the fence, `budget join` takes it over and spends nothing. A ledger that is in order is not changed.

    \b
      sfumato budget recover
    """
    from sfumato.cli.terminal.budget import render_recovery
    from sfumato.cli.terminal.text import paragraphs
    from sfumato.ledger import all_accounts

    with open_books(config) as (settings, ledger):
        why = _setback(ledger)
        if why is not None and not yes:
            _confirm(why)
        rows = [] if why is None else ledger.recover(list(all_accounts(settings).values()), now())
        if why is not None and (left := _setback(ledger)) is not None:
            raise left
    moves = [
        {
            "at": row.at,
            "kind": row.kind,
            "account": row.account,
            "period": row.period,
            "digest": row.digest,
            "charge": row.spent.to_dict(),
        }
        for row in rows
    ]
    none = paragraphs("Nothing to recover: the ledger is where its fence says it should be.")
    serial = {"why": None if why is None else str(why), "rows": moves}
    print_result(serial, lambda: none if why is None else render_recovery(rows), as_json=as_json)


def _setback(ledger: Ledger) -> LedgerSetBack | None:
    """Why the ledger must be recovered; None if it need not."""
    try:
        ledger.reservations()
    except LedgerSetBack as error:
        return error
    return None


def _confirm(why: LedgerSetBack) -> None:
    if not output.is_interactive():
        raise InvalidArgument("--yes", "is needed without a terminal: what is recovered counts as spent")
    click.echo(f"{str(why).partition('. ')[0].capitalize()}.", err=True)
    if not click.confirm("Count what may be lost as spent, and go on with this ledger?", err=True):
        raise why


@budget.command("migrate")
@with_config
@with_json
def migrate(as_json: bool, config: str) -> None:
    """Bring the ledger of an older Sfumato to this version. Back it up first.

    \b
      sfumato budget migrate
    """
    from sfumato.cli.terminal.text import paragraphs

    with open_books(config) as (_, ledger):
        steps = ledger.migrate()
    done = (
        f"Migrated, in {steps} step{'' if steps == 1 else 's'}." if steps else "Nothing to migrate: it is up to date."
    )
    print_result({"steps": steps}, lambda: paragraphs(done), as_json=as_json)


@budget.command("grant")
@click.argument("account")
@click.option("--information", type=Amount(), default="0", metavar="N", help="Units to add.")
@click.option("--calls", type=Amount(), default="0", metavar="N", help="Calls to add.")
@click.option("--reason", required=True, metavar="TEXT", help="Why; it is written to the journal.")
@with_config
@with_json
def grant(as_json: bool, config: str, account: str, information: Fraction, calls: Fraction, reason: str) -> None:
    """Add to what an account may spend until it resets.

    ACCOUNT is an analyst, or the full name of an account, such as organisation:acme or table:engagements. A grant
    weakens the promise of the budget until it resets; `sfumato policy explain` does not include grants.

    \b
      sfumato budget grant anna --information 300 --reason "the board meets"
    """
    from sfumato.accounting import Charge
    from sfumato.cli.terminal.text import paragraphs
    from sfumato.ledger.accounts import find_account
    from sfumato.ledger.types import current_user
    from sfumato.wire import AccountStanding

    amount = Charge(information, calls)
    if not amount:
        raise InvalidArgument("grant", "write --information N, --calls N, or both")
    if not reason.strip():
        raise InvalidArgument("--reason", "must not be empty")
    with open_books(config) as (settings, ledger):
        standing = ledger.grant(find_account(settings, account), amount, reason, now(), by=current_user())
    until = "" if standing.resets is None else f" until {standing.resets}"
    done = f"Granted {amount} to {standing.account}. It has {standing.left} left{until}."
    print_result(AccountStanding.from_attributes(standing).to_dict(), lambda: paragraphs(done), as_json=as_json)
