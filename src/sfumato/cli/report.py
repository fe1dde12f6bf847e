"""`sfumato report`: numbers of an entity over time; what they promise; and letting late rows in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli import output
from sfumato.cli.output import Commands, answering, paragraphs, read, show, with_config
from sfumato.errors import InvalidArgument, LedgerFailed, NotSupported
from sfumato.query.reports.request import FIELDS

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sfumato.config import Config
    from sfumato.ledger.cells import Seals
    from sfumato.query.reports.policy import ReportPolicy
    from sfumato.reports.explain import ReportExplanation
    from sfumato.reports.reseal import Reseal
    from sfumato.wire import Report

# From a field of a question to the option that it comes from.
OPTIONS = {field: f"--{field}" for field in FIELDS} | {
    "statistics": "--statistic",
    "options": "--option",
    "start and end": "--start and --end",
}

_which = click.option("--report", "name", metavar="NAME", help="Which report; not needed where there is one.")
_range = (
    click.option("--start", metavar="WHEN", help="A day or a moment, as clocks show it in the report's zone."),
    click.option("--end", metavar="WHEN", help="The end of the range, which is not in it."),
)
_of = click.option(
    "--entity",
    "entities",
    multiple=True,
    metavar="LEVEL=NAME",
    help="Whose numbers, such as campaign=7; again for a level above it.",
)


def _options(*options: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


@click.group("report", cls=Commands, invoke_without_command=True, no_args_is_help=True)
@_options(
    click.option("--analyst", metavar="NAME", help="Who asks."),
    click.option("--statistic", "statistics", multiple=True, metavar="NAME", help="What is counted; several times."),
    _of,
    click.option("--attribute", metavar="NAME", help="Break the numbers down by this; without it, totals."),
    *_range,
    click.option("--granularity", metavar="LEVEL", help="A level of time, such as day; all, the default: one number."),
    click.option("--top", type=click.IntRange(min=1), metavar="N", help="Only the N largest values."),
    click.option("--option", "options", multiple=True, metavar="NAME", help="monotone, totals, tree or actions."),
    click.option("--no-options", is_flag=True, help="None of them, whatever the report has by default."),
    _which,
    click.option("--chart", metavar="FILE", help="Save a chart too: FILE.svg, .png, .html, or .json (Vega-Lite)."),
    with_config,
)
@answering
def report(as_json: bool, **given: Any) -> None:
    """Show numbers of an entity by attribute and over time. Free.

    A report debits nobody: its numbers are noisy once, and then stay what they are, for everybody and however often
    they are asked for. What all of them together tell is bounded by one guarantee: see `sfumato report explain`.

    \b
    Who clicks on campaign 7?
      sfumato report --analyst anna --statistic clicks --entity campaign=7 \\
        --attribute job_title --start 2026-10-01 --end 2026-11-01 --top 10
    Its impressions and clicks, day by day:
      sfumato report --analyst anna --statistic impressions \\
        --statistic clicks --entity campaign=7 --start 2026-10-01 \\
        --end 2026-11-01 --granularity day --chart october.svg
    """
    context = click.get_current_context()
    if context.invoked_subcommand is not None:
        _check_nothing_before(context, as_json=as_json)
        return
    question = _question(context, given)
    picture = None
    if given["chart"] is not None:
        from sfumato.cli.ask import chart_path

        picture = chart_path(given["chart"])
    from sfumato.session import Session

    with _spelled(), Session(given["config"]) as session:
        found = session.report(question, analyst=given["analyst"])
    if picture is not None:
        _save(found, picture)
    from sfumato.cli.terminal.reports import render_report

    show(found.to_dict(), lambda: render_report(found), as_json=as_json)


def _check_nothing_before(context: click.Context, *, as_json: bool) -> None:
    """An option of the group would be lost on its command."""
    told = [option for option in context.params if context.get_parameter_source(option) is _TYPED]
    if told or as_json:
        option = "--json" if as_json else _typed_name(context, told[0])
        raise InvalidArgument(option, f"write it behind {context.invoked_subcommand}")


_TYPED = click.core.ParameterSource.COMMANDLINE


def _typed_name(context: click.Context, name: str) -> str:
    return next(parameter.opts[0] for parameter in context.command.params if parameter.name == name)


def _question(context: click.Context, given: dict[str, Any]) -> dict[str, Any]:
    """The question as the HTTP interface takes it."""
    for name, option in (("analyst", "--analyst"), *((name, OPTIONS[name]) for name in ("statistics", "start", "end"))):
        if not given[name]:
            raise click.UsageError(f"Missing option '{option}'.", context)
    if given["no_options"] and given["options"]:
        raise InvalidArgument("--no-options", "stands beside --option; leave one of them out")
    fields = {"report": given["name"], **{name: given[name] for name in ("attribute", "start", "end", "granularity")}}
    question = {name: value for name, value in fields.items() if value is not None}
    question["statistics"] = list(given["statistics"])
    if given["entities"]:
        question["entity"] = _entity(given["entities"])
    if given["top"] is not None:
        question["top"] = given["top"]
    if given["options"] or given["no_options"]:
        question["options"] = list(given["options"])
    return question


def _entity(texts: Sequence[str]) -> dict[str, str]:
    entity: dict[str, str] = {}
    for text in texts:
        level, equals, name = text.partition("=")
        if not (level and equals and name):
            raise InvalidArgument("--entity", "write a level and a name, such as campaign=7")
        if entity.setdefault(level, name) != name:
            raise InvalidArgument("--entity", f"names two of level {level[:60]}; a report is of one")
    return entity


@contextmanager
def _spelled() -> Iterator[None]:
    """Name the option that a refused field comes from, and write an entity as the option takes it."""
    try:
        yield
    except NotSupported as refused:
        problem = re.sub(r"\{'([^']*)': '([^']*)'\}", r"\1=\2", refused.problem)
        raise NotSupported(problem, field=OPTIONS.get(refused.field, refused.field)) from None
    except InvalidArgument as refused:
        raise InvalidArgument(OPTIONS.get(refused.argument, refused.argument), refused.problem) from None


def _save(found: Report, path: Path) -> None:
    try:
        found.chart().save(path)
    except OSError:
        raise InvalidArgument("--chart", f"{str(path)!r} cannot be written") from None


# -- explain --


@report.command("explain")
@_which
@with_config
@answering
def explain(as_json: bool, config: str, name: str | None) -> None:
    """Say what a report promises: the sum that its guarantee is.

    Follows from the policy. Reads names and types of columns and public tables, and, if the ledger is there, how much
    of the report is sealed.

    \b
      sfumato report explain --report ads
    """
    from sfumato.catalog import Catalog
    from sfumato.query.reports.read import find_report
    from sfumato.reports.policies import report_policies

    settings = read(config)
    catalog = Catalog(settings)
    try:
        policies = report_policies(settings, catalog)
    finally:
        catalog.close()
    with _spelled():
        wanted = list(policies.values()) if policies and name is None else [find_report(name, policies)]
    found, standing = _explained(settings, wanted)
    serial = {"rows": [each.to_dict() for each in found]} if name is None else found[0].to_dict()
    show(serial, lambda: _explanations(found, standing), as_json=as_json)


def _explained(settings: Config, policies: Sequence[ReportPolicy]) -> tuple[list[ReportExplanation], str]:
    """Every report with what is sealed of it; and why that is not known, if it is not."""
    from sfumato.ledger import open_ledger
    from sfumato.ledger.cells import Seals
    from sfumato.reports.explain import explain_report

    if not _has_ledger(settings):
        return [explain_report(policy) for policy in policies], "There is no ledger yet: nothing is sealed."
    try:
        with open_ledger(settings.ledger, settings.folder) as ledger:
            seals = Seals(ledger)
            return [_standing(policy, seals) for policy in policies], ""
    except LedgerFailed as failed:
        return [explain_report(policy) for policy in policies], f"What is sealed is not known: {failed}"


def _has_ledger(settings: Config) -> bool:
    """Looking must not begin a ledger."""
    kind, _, place = settings.ledger.url.partition(":")
    return kind != "sqlite" or (settings.folder / place).exists()


def _standing(policy: ReportPolicy, seals: Seals) -> ReportExplanation:
    from sfumato.reports.cells import definitions
    from sfumato.reports.explain import explain_report

    return explain_report(policy, seals.standing(policy.name), seals.others(policy.name, definitions(policy)))


def _explanations(found: Sequence[ReportExplanation], standing: str) -> RenderableType:
    from rich.console import Group

    from sfumato.cli.terminal.report_explanation import explanation

    parts = [part for each in found for part in ("", explanation(each, standing))]
    return Group(*parts[1:])


# -- reseal --


@report.command("reseal")
@_options(
    _which,
    *(
        click.option(f"--{name}", required=True, metavar="WHEN", help=words)
        for name, words in (
            ("start", "A day or a moment, as clocks show it in the report's zone."),
            ("end", "The end of the range, which is not in it."),
        )
    ),
    _of,
    click.option("--yes", is_flag=True, help="Do not ask."),
    with_config,
)
@answering
def reseal(
    as_json: bool, config: str, name: str | None, start: str, end: str, entities: tuple[str, ...], yes: bool
) -> None:
    """Let rows in that came too late: seal a range anew. For owners.

    Everything that is sealed and meets the range is drawn once more when it is next asked for; with --entity, that of
    the entity, of all above it and of all below it. Each version adds the guarantee of a version once more, and
    max_versions of the report bounds how many there may be. What that comes to is told first; where nobody can be
    asked, and without --yes, that is all, and nothing is changed.

    \b
      sfumato report reseal --report ads \\
        --start 2026-10-03 --end 2026-10-04 --entity campaign=7
    """
    from sfumato.session import Session

    options: dict[str, Any] = {"start": start, "end": end, "entity": _entity(entities) or None}
    with _spelled(), Session(config, finish=False) as session:
        found = session.reseal(name, dry=True, **options)
        if found.places and (yes or (not as_json and _confirmed(found))):
            found = session.reseal(name, **options)
    asked = not yes and not as_json and output.on_a_terminal()
    show(found.to_dict(), lambda: _resealed(found, asked=asked), as_json=as_json)


def _confirmed(found: Reseal) -> bool:
    if not output.on_a_terminal():
        return False
    output.console().print(_costs(found))
    return click.confirm("\nSeal this range anew?", err=True)


def _costs(found: Reseal) -> RenderableType:
    from rich.console import Group

    from sfumato.cli.terminal import indented, lines
    from sfumato.reports.explain import amount

    ends = (moment.isoformat(sep=" ", timespec="minutes") for moment in (found.start, found.end))
    whose = f", {' / '.join(found.entity)} with all above and below it" if found.entity else ""
    before, after, promised = map(amount, (found.before, found.after, found.promised))
    told = {
        "report": f"{found.report}{whose}",
        "range": f"{' to '.join(ends)} ({found.zone}), with every longer range that meets it",
        "sealed": f"{found.places:,} place{'' if found.places == 1 else 's'} with {found.cells:,} cells",
        "version": f"{found.version} of at most {found.versions}",
        "guarantee": f"epsilon {before} before, {after} after, for one {found.unit} of this range",
        "promised": f"epsilon {promised}, with all {found.versions:,} versions",
    }
    return Group(paragraphs("What sealing anew comes to:"), "", indented(lines(told)))


def _resealed(found: Reseal, *, asked: bool) -> RenderableType:
    from rich.console import Group

    if not found.places:
        return paragraphs("There is nothing to seal anew: nothing of this range is sealed, or it is open already.")
    if found.done:
        told = "Sealed anew: the numbers are drawn when they are next asked for, and then stay."
        return paragraphs(told) if asked else Group(_costs(found), "", paragraphs(told))
    if asked:
        return paragraphs("Nothing was changed.")
    return Group(_costs(found), "", paragraphs("Nothing was changed. To do it, run the same with --yes."))


__all__ = ["report"]
