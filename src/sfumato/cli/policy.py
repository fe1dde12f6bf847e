"""`sfumato policy`: whether the configuration fits the data, and what it promises."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.output import DIFFERENT, Commands, answering, items, now, paragraphs, read, show, with_config
from sfumato.errors import ConfigError, InvalidArgument, NotSupported, SfumatoError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from sfumato.catalog import Catalog
    from sfumato.config import Config
    from sfumato.explain import Bound, PolicyExplanation, Promise
    from sfumato.query.policy import Column, Policy, TablePolicy
    from sfumato.query.reports.policy import ReportGuarantee


_NO_TABLES = "there is no [tables.NAME] in the file, so that nothing can be asked; `sfumato init` writes one"


@click.group("policy", cls=Commands)
def policy() -> None:
    """See what may be asked, and what that promises."""


@policy.command("check")
@with_config
@answering
def check(as_json: bool, config: str) -> None:
    """Compare the configuration with the live tables.

    Lists every difference and exits with 1 if there is one, or if there is no table; otherwise says what can be
    asked. Reads names and types of columns, and the public tables that list domains.

    \b
      sfumato policy check --config sfumato.toml
    """
    from sfumato.catalog import Catalog
    from sfumato.reports.policies import report_problems

    settings = read(config)
    catalog = Catalog(settings)
    try:
        problems = list(catalog.problems()) if settings.tables else [ConfigError("tables", _NO_TABLES)]
        problems += report_problems(settings, catalog)
        tables: Mapping[str, Any] = {}
        reports: list[dict[str, Any]] = []
        if not problems:
            try:
                found = catalog.policy(now())
                tables = {name: _described(table, found, settings) for name, table in found.tables.items()}
                reports = list(_reports(settings, catalog))
            except (InvalidArgument, NotSupported) as fault:  # a policy that makes no sense, whatever the table is
                problems = [ConfigError("tables", str(fault))]
    finally:
        catalog.close()
    told = [{"setting": problem.setting, "problem": problem.problem} for problem in problems]
    serial = {"problems": told, "tables": list(tables.values()), "reports": reports}
    show(serial, lambda: _differences(problems) if problems else _askable(config, tables, reports), as_json=as_json)
    if problems:
        sys.exit(DIFFERENT)


def _reports(config: Config, catalog: Catalog) -> Iterator[dict[str, Any]]:
    from sfumato.query.reports.policy import guarantee
    from sfumato.reports.policies import report_policies

    for policy in report_policies(config, catalog).values():
        yield {
            "report": policy.name,
            "table": policy.table,
            "statistics": list(policy.statistics),
            "attributes": {name: len(each.domain) for name, each in policy.attributes.items()},
            "entities": list(policy.levels),
            "levels": list(policy.calendar.levels),
            "zone": policy.calendar.zone,
            "guarantee": guarantee(policy).to_dict(),
        }


def _described(table: TablePolicy, policy: Policy, config: Config) -> dict[str, Any]:
    return {
        "table": table.name,
        "unit": table.privacy_unit,
        "version": table.version,
        "columns": [
            {
                "name": column.name,
                "type": column.type,
                "values": None if column.domain is None else len(column.domain),
                "max_groups": column.max_groups,
                "mechanisms": sorted(_mechanisms(column, table, policy, config)),
            }
            for column in table.columns.values()
        ],
        "measures": [
            {"name": measure.name, "counts": measure.counts, "max_per_unit": measure.max_per_unit}
            for measure in table.measures.values()
        ],
    }


def _mechanisms(column: Column, table: TablePolicy, policy: Policy, config: Config) -> Iterator[str]:
    """What the plan looks up for a question by this column; budgets may differ in their noise."""
    from sfumato.query.plan import plan
    from sfumato.query.request import Histogram

    for measure in list(table.measures)[:1]:
        request = Histogram(table.name, column.name, measure)
        yield from {plan(request, policy, budget.prices).mechanism.name for budget in config.budgets.values()}


def _differences(problems: list[ConfigError]) -> RenderableType:
    from rich.console import Group

    count = "1 difference" if len(problems) == 1 else f"{len(problems)} differences"
    head = f"{count} between the configuration and the tables:"
    return Group(paragraphs(head), "", items(map(str, problems)))


def _askable(config: str, tables: Mapping[str, Any], reports: Sequence[Mapping[str, Any]]) -> RenderableType:
    from rich.console import Group

    parts: list[RenderableType] = [paragraphs(f"{config} fits the tables. What can be asked:")]
    for table in tables.values():
        parts += ["", *_table(table)]
    for report in reports:
        parts += ["", *_report(report)]
    return Group(*parts)


def _report(report: Mapping[str, Any]) -> Iterator[RenderableType]:
    from sfumato.cli.terminal import Words, indented, lines

    yield Words(f"report {report['report']}", "bold")
    yield ""
    values = (f"{name} ({count:,} public)" for name, count in report["attributes"].items())
    promise = report["guarantee"]
    told = {
        "statistics": ", ".join(report["statistics"]),
        "attributes": ", ".join(values) or "none",
        "entities": " / ".join(report["entities"]) or "none",
        "time": f"{', '.join(report['levels'])} in {report['zone']}",
        "guarantee": f"epsilon {promise['epsilon']:,.6g} for one {promise['unit']}; see: sfumato report explain",
    }
    yield indented(lines(told))


def _table(table: Mapping[str, Any]) -> Iterator[RenderableType]:
    from sfumato.cli.terminal import Words, indented, lines

    yield Words(table["table"], "bold")
    yield ""
    grid = _grid("column", "type", "values", "groups a person", "mechanism")
    for column in table["columns"]:
        values = "in the data" if column["values"] is None else f"{column['values']:,} public"
        groups = "any number" if column["max_groups"] is None else f"at most {column['max_groups']:,}"
        cells = column["name"], column["type"], values, groups, " or ".join(column["mechanisms"])
        grid.add_row(*map(Words, cells))
    yield indented(grid)
    yield ""
    measures = ", ".join(map(_measure, table["measures"]))
    told = {"measures": measures, "total": "known_laplace", "hidden": f"any one {table['unit']}"}
    yield indented(lines(told | {"data": f"version {table['version']}"}))


def _measure(measure: Mapping[str, Any]) -> str:
    bound = "" if measure["counts"] == "units" else f", at most {measure['max_per_unit']:,} a person and group"
    return f"{measure['name']} ({'people' if measure['counts'] == 'units' else measure['counts']}{bound})"


def _grid(*names: str) -> Table:
    from rich.table import Table

    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in names:
        grid.add_column(name)
    return grid


@policy.command("explain")
@click.option("--analyst", metavar="NAME", help="One analyst, with the accounts that her questions debit.")
@with_config
@answering
def explain(as_json: bool, config: str, analyst: str | None) -> None:
    """Say in plain words what one analyst can learn about one person.

    Follows from the budgets in the file: no table is opened, unless there are reports, whose guarantee depends on
    the types of columns.

    \b
      sfumato policy explain --analyst anna
    """
    from sfumato.explain import explain as explained

    settings = read(config)
    if analyst is not None:
        settings.analyst(analyst)
    found = explained(settings, analyst, _guarantees(settings))
    show(found.to_dict(), lambda: _explained(found), as_json=as_json)


def _guarantees(config: Config) -> dict[str, ReportGuarantee]:
    """What reports promise; nothing is told of them here where their tables are out of reach."""
    from sfumato.catalog import Catalog
    from sfumato.query.reports.policy import guarantee
    from sfumato.reports.policies import report_policies

    if not config.reports:
        return {}
    try:
        catalog = Catalog(config)
        try:
            return {name: guarantee(policy) for name, policy in report_policies(config, catalog).items()}
        finally:
            catalog.close()
    except SfumatoError:
        return {}


def _explained(found: PolicyExplanation) -> RenderableType:
    from rich.console import Group

    from sfumato.cli.terminal import indented
    from sfumato.explain import in_words, not_bounded, of_reports

    parts: list[RenderableType] = []
    for promise in found.promises:
        parts += [paragraphs(in_words(promise)), ""]
        if not promise.nothing:
            parts += [indented(_numbers(promise)), ""]
    if not parts:
        parts = [paragraphs("Nobody may ask: there is no [analysts.NAME] in the file."), ""]
    if told := [*of_reports(found)]:
        parts += [paragraphs("Reports:"), "", items(told), ""]
    parts += [paragraphs("What is not bounded by these numbers:"), ""]
    return Group(*parts, items(not_bounded(found)))


def _numbers(promise: Promise) -> Table:
    from rich.table import Table

    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    grid.add_column("what is asked")
    for name in ("units", "calls", "epsilon", "delta", "a bet at 50:50 wins"):
        grid.add_column(name, justify="right")
    for bound in promise.bounds:
        grid.add_row(*_cells(bound))
    return grid


def _cells(bound: Bound) -> tuple[str, ...]:
    from sfumato.explain import percent

    amounts = () if bound.charge is None else (bound.charge.information, bound.charge.calls)
    shown = tuple(f"{amount.numerator:,}" if amount.denominator == 1 else f"{float(amount):,.4g}" for amount in amounts)
    if bound.epsilon is None or bound.delta is None:
        return bound.words, *shown, "no bound", "", ""
    return bound.words, *shown, f"{bound.epsilon:,.2f}", f"{float(bound.delta):.0e}", percent(bound.wins)
