"""`sfumato policy`: whether the configuration fits the data, and what it promises."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.books import read_settings
from sfumato.cli.options import ExactNumber, name_options, with_config
from sfumato.cli.output import DIFFERENT, Commands, now, print_result, with_json
from sfumato.errors import ConfigError, InvalidArgument, NotSupported, SfumatoError

if TYPE_CHECKING:
    from sfumato.catalog import Catalog
    from sfumato.config import Config
    from sfumato.config.settings import Resets
    from sfumato.query.policy import Policy, TablePolicy
    from sfumato.query.reports.policy import ReportGuarantee, ReportPolicy, SourceGuarantee
    from sfumato.wire.guarantee import SourceTotal


@click.group("policy", cls=Commands)
def policy() -> None:
    """Show what may be asked, and what that promises."""


@policy.command("check")
@with_config
@with_json
def check(as_json: bool, config: str) -> None:
    """Compare the configuration with the live tables.

    Lists every difference and exits with 1 if there is one, or if there is no table; otherwise lists what can be
    asked, what all results about the same rows promise together, and where a limit leaves something open or one
    source has several names. Reads the names and types of columns, and the public tables that hold domains.

    \b
      sfumato policy check --config sfumato.toml
    """
    from sfumato.cli.terminal.policy import render_differences, render_questions
    from sfumato.config.rights import right_warnings
    from sfumato.explain.checks import source_warnings
    from sfumato.explain.sources import source_totals
    from sfumato.explain.words import describe_source
    from sfumato.ledger import check_fence_place
    from sfumato.query.reports.policy import guarantee, guarantees_by_source
    from sfumato.reports.explain import describe_sum
    from sfumato.reports.policies import report_policies, report_problems

    settings = read_settings(config)
    check_fence_place(settings.ledger, settings.folder)
    result: dict[str, Any] = {"problems": [], "tables": [], "reports": [], "sums": [], "totals": [], "warnings": []}
    result["service"] = {"pad_ms": settings.pad_ms}
    totals: list[SourceTotal] = []
    sums: list[SourceGuarantee] = []
    warnings = list(right_warnings(settings))
    with _open_catalog(settings) as catalog:
        none = "there is no [tables.NAME] in the file, so nothing can be asked; `sfumato init` writes one"
        problems = list(catalog.problems()) if settings.tables else [ConfigError("tables", none)]
        problems += report_problems(settings, catalog)
        if not problems:
            try:
                whole = catalog.policy(now())
                tables = [describe_table(table, whole, settings) for table in whole.tables.values()]
                policies = report_policies(settings, catalog)
                promised = {name: guarantee(each) for name, each in policies.items()}
                totals = source_totals(settings, promised, catalog.views())
                sums = guarantees_by_source(policies.values(), [each.tables for each in totals])
                warnings += source_warnings(settings, totals)
                result |= {"tables": tables, "reports": [describe_report(each) for each in policies.values()]}
                problems = list(catalog.right_problems(now()))
            except (InvalidArgument, NotSupported) as fault:  # a policy that makes no sense for any table
                problems = [ConfigError("tables", str(fault))]
    for name, listed in (("problems", problems), ("warnings", warnings)):
        result[name] = [{"setting": each.setting, "problem": each.problem} for each in listed]
    result |= {"sums": [each.to_dict() for each in sums], "totals": [each.to_dict() for each in totals]}
    promises = [*map(describe_sum, sums), *map(describe_source, totals)]
    page = partial(render_questions, config, result, promises, warnings)
    print_result(result, lambda: render_differences(problems) if problems else page(), as_json=as_json)
    if problems:
        sys.exit(DIFFERENT)


@contextmanager
def _open_catalog(settings: Config) -> Iterator[Catalog]:
    from sfumato.catalog import Catalog

    catalog = Catalog(settings)
    try:
        yield catalog
    finally:
        catalog.close()


def describe_report(policy: ReportPolicy) -> dict[str, Any]:
    from sfumato.query.reports.policy import guarantee

    return {
        "report": policy.name,
        "table": policy.table,
        "statistics": list(policy.statistics),
        "attributes": {name: len(each.domain) for name, each in policy.attributes.items()},
        "entities": list(policy.levels),
        "levels": list(policy.calendar.levels),
        "zone": policy.calendar.zone,
        "guarantee": guarantee(policy).to_dict(),
    }


def describe_table(table: TablePolicy, policy: Policy, config: Config) -> dict[str, Any]:
    """A table; of a total and per column, the mechanisms of a question. Budgets may differ in their noise."""
    from sfumato.query.plan import plan
    from sfumato.query.request import Histogram, Total

    def mechanisms(column: str | None = None) -> list[str]:
        measure = next(iter(table.measures))
        request = Total(table.name, measure) if column is None else Histogram(table.name, column, measure)
        return sorted({plan(request, policy, budget.prices).mechanism.name for budget in config.budgets.values()})

    return {
        "table": table.name,
        "unit": table.privacy_unit,
        "version": table.version,
        "total": mechanisms(),
        "columns": [
            {
                "name": column.name,
                "type": column.type,
                "values": None if column.domain is None else len(column.domain),
                "max_groups": column.max_groups,
                "mechanisms": mechanisms(column.name),
            }
            for column in table.columns.values()
        ],
        "measures": [
            {"name": measure.name, "counts": measure.counts, "max_per_unit": measure.max_per_unit}
            for measure in table.measures.values()
        ],
    }


@policy.command("explain")
@click.option("--analyst", metavar="NAME", help="One analyst, with the accounts that her questions debit.")
@with_config
@with_json
def explain(as_json: bool, config: str, analyst: str | None) -> None:
    """Say in plain words what can be learned about one person.

    Of each account what it promises, and of each source one total: by questions, by releases and by reports, for one
    period and for a year, and for several people together. With --analyst, what she can learn. Follows from the file,
    and from the names and types of columns for the guarantees of reports.

    \b
      sfumato policy explain --analyst anna
    """
    from sfumato.cli.terminal.policy import render_explanation
    from sfumato.explain import explain as explain_policy

    settings = read_settings(config)
    if analyst is not None:
        settings.analyst(analyst)
    guarantees, views = _look_up(settings)
    explanation = explain_policy(settings, analyst, guarantees, views)
    print_result(explanation.to_dict(), lambda: render_explanation(explanation), as_json=as_json)


def _look_up(settings: Config) -> tuple[dict[str, ReportGuarantee], frozenset[str]]:
    """What reports promise, and which tables are views; nothing if the tables cannot be opened."""
    from sfumato.query.reports.policy import guarantee
    from sfumato.reports.policies import report_policies

    try:
        with _open_catalog(settings) as catalog:
            policies = report_policies(settings, catalog)
            return {name: guarantee(policy) for name, policy in policies.items()}, catalog.views()
    except SfumatoError:
        return {}, frozenset()


@policy.command("plan")
@click.option("--epsilon", type=ExactNumber(), required=True, metavar="E", help="What a whole period may promise.")
@click.option(
    "--resets",
    type=click.Choice(["daily", "weekly", "monthly", "never"]),
    default="monthly",
    show_default=True,
    help="When a new period begins.",
)
@click.option("--epsilon-per", type=ExactNumber(), default="0.15", show_default=True, metavar="E", help="Of one unit.")
@click.option("--delta-per", type=ExactNumber(), default="1e-10", show_default=True, metavar="D", help="Of one call.")
@with_json
@name_options()
def plan(as_json: bool, epsilon: Fraction, resets: Resets, epsilon_per: Fraction, delta_per: Fraction) -> None:
    """Say what an epsilon buys.

    The largest budget whose whole period promises at most this epsilon, at delta 1e-7, and how many lists, histograms
    or totals can be asked with it. Reads and writes nothing.

    \b
      sfumato policy plan --epsilon 3
    """
    from sfumato.cli.terminal.policy import render_budget_plan
    from sfumato.explain.buying import plan_budget
    from sfumato.query.policy import Prices

    result = plan_budget(epsilon, Prices(epsilon_per, delta_per), resets)
    print_result(result.to_dict(), lambda: render_budget_plan(result), as_json=as_json)
