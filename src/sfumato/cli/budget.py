"""`sfumato budget`: who has spent what. Opens the ledger and nothing else: no table, no noise key."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli import output
from sfumato.cli.output import DIFFERENT, Commands, answering, items, now, paragraphs, read, show, with_config
from sfumato.errors import InvalidArgument, LedgerSetBack, NotFound, nearest

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType

    from sfumato.config import Config
    from sfumato.ledger import Account, Ledger, Row
    from sfumato.ledger.usage import Overview


class Amount(click.ParamType[Fraction]):
    """An exact number that is not negative: 21, 3/2 or 0.5."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Fraction:
        if isinstance(value, Fraction):
            return value
        if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15}|/[1-9][0-9]{0,14})?", value):
            self.fail("write a number such as 300, 0.5 or 3/2", param, ctx)
        return Fraction(value)


@click.group("budget", cls=Commands)
def budget() -> None:
    """See what was spent, grant more, and keep the books right."""


@budget.command("show")
@click.option("--analyst", metavar="NAME", help="One analyst; without it, all of them.")
@click.option("--releases", is_flag=True, help="What releases may still spend, for every budget, instead.")
@with_config
@answering
def standing(as_json: bool, config: str, analyst: str | None, releases: bool) -> None:
    """Show what may still be spent.

    An analyst's own account comes first, then those that are shared: the organisation's and those of tables with a cap.

    \b
      sfumato budget show --analyst anna
      sfumato budget show --releases
    """
    from rich.console import Group

    from sfumato.cli.terminal import render_budget
    from sfumato.ledger.accounts import budget_accounts, release_account
    from sfumato.wire import BudgetReport

    if releases and analyst is not None:
        raise InvalidArgument("--releases", "are nobody's: leave --analyst out")
    with _opened(config) as (settings, ledger):
        if releases:
            owners: dict[str, tuple[Account, ...]] = {
                f"release:{name}": (release_account(settings, name),) for name in settings.budgets
            }
        else:
            names = list(settings.analysts) if analyst is None else [analyst]
            owners = {name: budget_accounts(settings, name) for name in names}
        moment = now()
        reports = [
            BudgetReport.of_standings(name, accounts[0].budget.mode, ledger.left(accounts, moment))
            for name, accounts in owners.items()
        ]
    serial = {"rows": [each.to_dict() for each in reports]} if analyst is None else reports[0].to_dict()

    def page() -> RenderableType:
        parts = [part for each in reports for part in ("", render_budget(each))]
        return Group(*parts[1:]) if parts else paragraphs("There are no analysts in the file.")

    show(serial, page, as_json=as_json)


@budget.command("history")
@click.option("--analyst", metavar="NAME", help="One analyst; without it, everybody.")
@click.option("--cursor", metavar="N", help="Go on from here: the `next` of the page before.")
@click.option("--rows", default=20, show_default=True, type=click.IntRange(1, 10_000), metavar="N", help="How many.")
@with_config
@answering
def history(as_json: bool, config: str, analyst: str | None, cursor: str | None, rows: int) -> None:
    """List what was charged and granted, the latest first.

    \b
      sfumato budget history --analyst anna --rows 50
    """
    from sfumato.cli.terminal import render_charges
    from sfumato.wire import Charges

    if cursor is not None and not re.fullmatch("[0-9]{1,18}", cursor):
        raise InvalidArgument("--cursor", "must be the `next` of the page before")
    with _opened(config) as (settings, ledger):
        if analyst is not None:
            settings.analyst(analyst)
        page = ledger.history(analyst, before=None if cursor is None else int(cursor), rows=rows)
    charges = Charges.from_attributes(page)
    show(charges.to_dict(), lambda: render_charges(charges), as_json=as_json)


def _range(command: Callable[..., None]) -> Callable[..., None]:
    """The days that are looked at."""
    since = "The first day (UTC); without it, 31 days are looked at."
    for option in (
        click.option("--until", metavar="DAY", help="The last day (UTC); without it, today."),
        click.option("--since", metavar="DAY", help=since),
    ):
        command = option(command)
    return command


@budget.command("usage")
@_range
@with_config
@answering
def usage(as_json: bool, config: str, since: str | None, until: str | None) -> None:
    """Show what was spent, by account and analyst.

    With --json also by day. For owners: what somebody spent tells how long her lists were.

    \b
      sfumato budget usage --since 2026-11-01 --until 2026-11-30
    """
    from rich.console import Group

    from sfumato.cli.terminal import indented, render_spending
    from sfumato.ledger.usage import read_range
    from sfumato.ledger.usage import usage as spending

    with _as_options("since", "until"):
        days = read_range(since, until, now())
    with _opened(config) as (_, ledger):
        found = spending(ledger, *days)
    rows = [(account, who, charge.information, charge.calls) for (account, who), charge in found.totals().items()]

    def page() -> RenderableType:
        head = paragraphs(f"Spent from {found.since} to {found.until}")
        return Group(head, "", indented(render_spending(rows)))

    show(found.to_dict(), page, as_json=as_json)


@budget.command("forecast")
@_range
@click.option(
    "--budget",
    "budgets",
    multiple=True,
    metavar="UNITS,CALLS",
    help="A budget to try; several times if several. Without it, those that analysts have.",
)
@click.option("--plot", metavar="FILE", help="Save a picture too: FILE.svg, .png, .html, or .json (Vega-Lite).")
@with_config
@answering
def forecast(
    as_json: bool, config: str, since: str | None, until: str | None, budgets: tuple[str, ...], plot: str | None
) -> None:
    """Show how many analysts would run dry under other budgets.

    For each budget, the share of analysts who had spent more than that, by days since their first charge in a period.
    Nobody exceeds a budget that is enforced: run with mode = "track" first, then choose.

    \b
      sfumato budget forecast --budget 1000,10 --budget 3000,30
      sfumato budget forecast --since 2026-09-01 --plot dry.svg
    """
    from sfumato.cli.ask import chart_path
    from sfumato.ledger.usage import overview, read_budget, read_range

    with _as_options("since", "until", "budget", chart="plot"):
        days = read_range(since, until, now())
        tried = [read_budget(text) for text in budgets]
        picture = None if plot is None else chart_path(plot)
        with _opened(config) as (settings, ledger):
            found = overview(ledger, settings, *days, budgets=tried)
    if picture is not None:
        _draw(found, picture)
    show(found.to_dict(), lambda: _forecast(found), as_json=as_json)


@contextmanager
def _as_options(*names: str, **others: str) -> Iterator[None]:
    """What is wrong with an argument, told of the option that it came from."""
    options = {name: f"--{name}" for name in names} | {f"--{name}": f"--{option}" for name, option in others.items()}
    try:
        yield
    except InvalidArgument as refused:
        raise InvalidArgument(options.get(refused.argument, refused.argument), refused.problem) from None


_TITLE = "Analysts who would run dry"


def _about(found: Overview) -> list[str]:
    """Whose shares these are. Periods count from the first of the month on, so that a month is whole."""
    begun, until = found.usage.since.replace(day=1), found.usage.until
    return [
        f"share of {found.forecast.whole()} in which more than the budget was spent",
        f"periods begun since {begun}, as far as {until}",
    ]


def _draw(found: Overview, path: Path) -> None:
    from sfumato.show import steps

    about = _about(found) if found.forecast.periods else [NOBODY]
    picture = steps(found.forecast.panels()[:2], title=_TITLE, about=about)
    try:
        picture.save(path)
    except OSError:
        raise InvalidArgument("--plot", f"{str(path)!r} cannot be written") from None


def _forecast(found: Overview) -> RenderableType:
    from rich.console import Group

    from sfumato.cli.terminal import render_shares

    if not found.forecast.periods:
        return paragraphs(NOBODY)
    notes = [f"{note[:1].upper()}{note[1:]}." for note in found.forecast.notes]
    whole, when = _about(found)
    head = paragraphs(f"{_TITLE}: {whole}, by days since its first charge; {when}")
    return Group(head, "", render_shares(found.forecast.panels()), "", paragraphs(*notes))


NOBODY = "No analyst has spent anything in these days, so that nothing can be said about other budgets."


@budget.command("verify")
@with_config
@answering
def verify(as_json: bool, config: str) -> None:
    """Check that the books follow from their journal.

    Walks the whole journal: its chain of hashes, every balance, every reservation, every stored answer, every sealed
    cell of a report, and the fence outside the ledger that notices a restored copy. Lists every problem and exits with
    1 if there is one.

    \b
      sfumato budget verify
    """
    with _opened(config) as (_, ledger):
        problems, fence, mark = ledger.verify(), str(ledger.fence.path), ledger.fence.mark()
    seen = 0 if mark is None else mark.sequence
    serial = {"problems": problems, "fence": fence}
    show(serial, lambda: _verified(problems, fence, seen), as_json=as_json)
    if problems:
        sys.exit(DIFFERENT)


def _verified(problems: list[str], fence: str, seen: int) -> RenderableType:
    from rich.console import Group

    if not problems:
        return paragraphs(
            "The books are right: every balance, every stored answer and every cell of a report follows from a whole "
            "journal.",
            f"Its fence, which has seen {seen:,} row{'' if seen == 1 else 's'} of it, is {fence}",
        )
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return Group(paragraphs(f"The books are wrong, {count}:"), "", items(problems))


@budget.command("recover")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_config
@answering
def recover(as_json: bool, config: str, yes: bool) -> None:
    """Make a ledger that was restored from a copy safe to use again.

    An older copy would give everybody their spent budget back. So spending is raised to what the fence has seen;
    without a fence, nothing is left until the next reset. Reservations are closed at their worst case. Where a newer
    copy exists, put that in place instead. A ledger that is as it should be stays as it is.

    \b
      sfumato budget recover
    """
    from sfumato.ledger import all_accounts

    with _opened(config) as (settings, ledger):
        why = _distrust(ledger)
        if why is not None and not yes:
            _confirm(why)
        rows = [] if why is None else ledger.recover(list(all_accounts(settings).values()), now())
    serial = {"why": None if why is None else str(why), "rows": [_recovered(row) for row in rows]}
    show(serial, lambda: _recovery(rows, recovered=why is not None), as_json=as_json)


@budget.command("migrate")
@with_config
@answering
def migrate(as_json: bool, config: str) -> None:
    """Bring a ledger of an older Sfumato to this version. Back it up first.

    \b
      sfumato budget migrate
    """
    with _opened(config) as (_, ledger):
        steps = ledger.migrate()
    told = (
        f"Migrated, in {steps} step{'' if steps == 1 else 's'}." if steps else "Nothing to migrate: it is up to date."
    )
    show({"steps": steps}, lambda: paragraphs(told), as_json=as_json)


@budget.command("grant")
@click.argument("account")
@click.option("--information", type=Amount(), default="0", metavar="N", help="Units to add.")
@click.option("--calls", type=Amount(), default="0", metavar="N", help="Calls to add.")
@click.option("--reason", required=True, metavar="TEXT", help="Why; it is written into the journal.")
@with_config
@answering
def grant(as_json: bool, config: str, account: str, information: Fraction, calls: Fraction, reason: str) -> None:
    """Add to what an account may spend until it resets.

    ACCOUNT is an analyst, or an account by its full name such as organisation:acme or table:engagements. What is
    granted weakens the promise for as long as it lasts: `sfumato policy explain` does not know of it.

    \b
      sfumato budget grant anna --information 300 --reason "the board meets"
    """
    from sfumato.accounting import Charge
    from sfumato.wire import AccountStanding

    amount = Charge(information, calls)
    if not amount:
        raise InvalidArgument("grant", "write --information N, --calls N, or both")
    if not reason.strip():
        raise InvalidArgument("--reason", "must not be empty")
    with _opened(config) as (settings, ledger):
        found = ledger.grant(_account(settings, account), amount, reason, now())
    until = "" if found.resets is None else f" until {found.resets}"
    told = f"Granted {amount} to {found.account}. It has {found.left} left{until}."
    show(AccountStanding.from_attributes(found).to_dict(), lambda: paragraphs(told), as_json=as_json)


@contextmanager
def _opened(config: str) -> Iterator[tuple[Config, Ledger]]:
    from sfumato.ledger import open_ledger

    settings = read(config)
    with open_ledger(settings.ledger, settings.folder) as ledger:
        yield settings, ledger


def _account(config: Config, name: str) -> Account:
    """The account of this full name, or an analyst's own."""
    from sfumato.ledger import accounts_of, all_accounts

    accounts = all_accounts(config)
    if name in accounts:
        return accounts[name]
    if name in config.analysts:
        return accounts_of(config, name)[0]
    known = [*config.analysts, *accounts]
    raise NotFound(f"there is no account {name[:60]!r}{nearest(name, known) or '; there is ' + ', '.join(known)}")


def _distrust(ledger: Ledger) -> LedgerSetBack | None:
    """Why the ledger refuses to go on from where it is, if that is something to recover from."""
    try:
        ledger.holds()
    except LedgerSetBack as error:
        return error
    return None


def _confirm(why: LedgerSetBack) -> None:
    if not output.on_a_terminal():
        raise InvalidArgument("--yes", "is needed where nobody can be asked: what is recovered counts as spent")
    click.echo(f"{str(why).partition('. ')[0].capitalize()}.", err=True)
    if not click.confirm("Count what may be lost as spent, and go on with this ledger?", err=True):
        raise why


def _recovered(row: Row) -> dict[str, Any]:
    return {
        "at": row.at,
        "kind": row.kind,
        "account": row.account,
        "period": row.period,
        "digest": row.digest,
        "charge": row.spent.to_dict(),
    }


def _recovery(rows: list[Row], *, recovered: bool) -> RenderableType:
    from rich.console import Group

    if not recovered:
        return paragraphs("Nothing to recover: the ledger is where its fence says it should be.")
    told = [_movement(row) for row in rows] or ["nobody had spent anything that this copy does not know of"]
    return Group(paragraphs("Recovered:"), "", items(told), "", paragraphs("Now run: sfumato budget verify"))


def _movement(row: Row) -> str:
    period = f" in the period from {row.period}" if row.period else ""
    if row.kind == "keep":
        return f"{row.account}: a question without its answer was closed at its worst case, {row.spent}{period}"
    return f"{row.account}: {row.spent} more count as spent{period}"
