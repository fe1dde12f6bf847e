"""`sfumato report`: numbers of an entity over time; what they promise; and sealing a range again for late rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli import output
from sfumato.cli.books import read_settings
from sfumato.cli.options import (
    chart_path,
    command_options,
    name_options,
    save_chart,
    with_chart,
    with_config,
    with_options,
)
from sfumato.cli.output import Commands, print_result, with_json
from sfumato.errors import InvalidArgument, LedgerFailed, NotSupported
from sfumato.query.reports.request import FIELDS

if TYPE_CHECKING:
    from sfumato.config import Config
    from sfumato.query.reports.policy import ReportPolicy, SourceGuarantee
    from sfumato.reports.explain import ReportExplanation
    from sfumato.reports.reseal import Reseal

__all__ = ["report"]


_NEEDED = ("analyst", "statistics", "start", "end")

_with_name = click.option("--report", metavar="NAME", help="Which report; not needed if there is only one.")
_with_entity = click.option(
    "--entity",
    multiple=True,
    metavar="LEVEL=NAME",
    help="Whose numbers, such as campaign=7; again for a level above it.",
)


def _with_range(*, required: bool) -> Any:
    start = "A day or a moment, in the time zone of the report."
    return with_options(
        click.option("--start", required=required, metavar="WHEN", help=start),
        click.option("--end", required=required, metavar="WHEN", help="The end of the range, which is not in it."),
    )


@click.group("report", cls=Commands, invoke_without_command=True, no_args_is_help=True)
@with_options(
    click.option("--analyst", metavar="NAME", help="Who asks."),
    click.option("--statistic", "statistics", multiple=True, metavar="NAME", help="What is counted; may be repeated."),
    _with_entity,
    click.option("--attribute", metavar="NAME", help="Break the numbers down by this; without it, totals."),
    _with_range(required=False),
    click.option("--granularity", metavar="LEVEL", help="A level of time, such as day; all, the default: one number."),
    click.option("--top", type=click.IntRange(min=1), metavar="N", help="Only the N largest values."),
    click.option(
        "--option", "options", multiple=True, metavar="NAME", help="monotone, totals, tree, actions or calendar."
    ),
    click.option("--no-options", is_flag=True, help="None of them, whatever the report has by default."),
    _with_name,
    with_chart(),
    with_config,
)
@with_json
def report(as_json: bool, **given: Any) -> None:
    """Show numbers of an entity by attribute and over time. Free.

    A report costs no budget. Its numbers get their noise once, and then stay the same, for every analyst and however
    often they are asked for. One guarantee bounds what all of them together tell: see `sfumato report explain`.

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
        _check_no_options(context, as_json=as_json)
        return
    question = _read_question(context, given)
    picture = chart_path(given["chart"])
    from sfumato.cli.terminal.report import render_report
    from sfumato.session import Session

    with _name_report_options(), Session(given["config"]) as session:
        result = session.report(question, analyst=given["analyst"])
    if picture is not None:
        save_chart(result.chart(), picture)
    print_result(result.to_dict(), lambda: render_report(result), as_json=as_json)


def _check_no_options(context: click.Context, *, as_json: bool) -> None:
    """Refuse an option between `report` and its command: the command would not get it."""
    by_caller = click.core.ParameterSource.COMMANDLINE
    before = [
        each.opts[0] for each in context.command.params if context.get_parameter_source(each.name or "") is by_caller
    ]
    if as_json:
        before = ["--json"]
    if before:
        raise InvalidArgument(before[0], f"write it behind {context.invoked_subcommand}")


def _read_question(context: click.Context, given: dict[str, Any]) -> dict[str, Any]:
    """The question in the form of the HTTP interface."""
    for name in _NEEDED:
        if not given[name]:
            raise click.UsageError(f"Missing option '{command_options()[name]}'.", context)
    if given["no_options"] and given["options"]:
        raise InvalidArgument("--no-options", "stands beside --option; leave one of them out")
    question = {name: given[name] for name in FIELDS if given[name] not in (None, ())}
    if "entity" in question:
        question["entity"] = _read_entity(question["entity"])
    return question | ({"options": []} if given["no_options"] else {})


def _read_entity(texts: Sequence[str]) -> dict[str, str]:
    entity: dict[str, str] = {}
    for text in texts:
        level, equals, name = text.partition("=")
        if not (level and equals and name):
            raise InvalidArgument("--entity", "write a level and a name, such as campaign=7")
        if entity.setdefault(level, name) != name:
            raise InvalidArgument("--entity", f"names two of level {level[:60]}; a report is about one")
    return entity


@contextmanager
def _name_report_options() -> Iterator[None]:
    """Errors about a field of the question name the option that it came from."""
    try:
        with name_options():
            yield
    except NotSupported as error:
        options = command_options() | {"start and end": "--start and --end"}
        field = options.get(error.field, error.field)
        raise NotSupported(error.problem, field=field, nearest=error.nearest) from None


@report.command("explain")
@_with_name
@with_config
@with_json
def explain(as_json: bool, config: str, report: str | None) -> None:
    """Say what a report promises, and how accurate it is.

    That is the sum behind its guarantee, and the error of the ranges that are usually asked for: of sums of the fewest
    cells; with the option calendar, on the day that a range ends; and with it later, when the longer ranges around it
    are complete. Follows from the policy. Reads the names and types of columns, public tables, and, if there is a
    ledger, how much of the report is sealed.

    \b
      sfumato report explain --report ads
    """
    from sfumato.catalog import Catalog
    from sfumato.cli.terminal.report_explanation import render_report_explanation
    from sfumato.cli.terminal.text import stack
    from sfumato.engines.places import tables_by_source
    from sfumato.query.reports.policy import guarantees_by_source
    from sfumato.query.reports.read import find_report
    from sfumato.reports.policies import report_policies

    settings = read_settings(config)
    catalog = Catalog(settings)
    try:
        policies = report_policies(settings, catalog)
    finally:
        catalog.close()
    with _name_report_options():
        wanted = list(policies.values()) if policies and report is None else [find_report(report, policies)]
    sums = guarantees_by_source(policies.values(), tables_by_source(settings))
    explanations, unknown = _explain_reports(settings, wanted, sums)
    serial = {"rows": [each.to_dict() for each in explanations]} if report is None else explanations[0].to_dict()
    pages = (render_report_explanation(each, unknown) for each in explanations)
    print_result(serial, lambda: stack(pages), as_json=as_json)


def _explain_reports(
    settings: Config, policies: Sequence[ReportPolicy], sums: Sequence[SourceGuarantee]
) -> tuple[list[ReportExplanation], str]:
    """Every report with what is sealed of it; and if that is not known, why. Never creates a ledger."""
    from sfumato.ledger import find_store, open_ledger
    from sfumato.ledger.cells import Seals
    from sfumato.reports.cells import definitions
    from sfumato.reports.explain import explain_report

    unsealed = [explain_report(policy, sums=sums) for policy in policies]
    try:
        if not find_store(settings.ledger, settings.folder).exists:
            return unsealed, "There is no ledger yet: nothing is sealed."
        with open_ledger(settings.ledger, settings.folder) as ledger:
            seals = Seals(ledger)
            explanations = [
                explain_report(
                    policy, seals.standing(policy.name), seals.others(policy.name, definitions(policy)), sums
                )
                for policy in policies
            ]
            return explanations, ""
    except LedgerFailed as failed:
        return unsealed, f"What is sealed is not known: {failed}"


@report.command("reseal")
@with_options(
    _with_name,
    _with_range(required=True),
    _with_entity,
    click.option("--yes", is_flag=True, help="Do not ask."),
    with_config,
)
@with_json
def reseal(
    as_json: bool, config: str, report: str | None, start: str, end: str, entity: tuple[str, ...], yes: bool
) -> None:
    """Include rows that came too late: seal a range again. For owners.

    Every sealed number that overlaps the range is drawn again when it is next asked for; with --entity, only those of
    the entity, of all above it and of all below it. Each version adds the guarantee of one version, and max_versions of
    the report limits their number. The cost is shown first. Without a terminal and without --yes, the cost is only
    shown, and nothing is changed.

    \b
      sfumato report reseal --report ads \\
        --start 2026-10-03 --end 2026-10-04 --entity campaign=7
    """
    from sfumato.cli.terminal.report import render_reseal
    from sfumato.session import Session

    options: dict[str, Any] = {"start": start, "end": end, "entity": _read_entity(entity) or None}
    asks = not yes and not as_json and output.is_interactive()
    with _name_report_options(), Session(config, finish=False) as session:
        result = session.reseal(report, dry=True, **options)
        if result.places and (yes or (asks and _confirm(result))):
            result = session.reseal(report, **options)
    print_result(result.to_dict(), lambda: render_reseal(result, asked=asks), as_json=as_json)


def _confirm(cost: Reseal) -> bool:
    from sfumato.cli.terminal.report import render_reseal_cost

    output.open_console().print(render_reseal_cost(cost))
    return click.confirm("\nSeal this range again?", err=True)
