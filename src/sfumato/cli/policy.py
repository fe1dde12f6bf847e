"""`sfumato policy`: whether the configuration fits the data, and what it promises."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.books import read_settings
from sfumato.cli.options import ExactNumber, chart_path, name_options, save_chart, with_chart, with_config
from sfumato.cli.output import DIFFERENT, Commands, now, print_result, with_json
from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from sfumato.catalog import Catalog
    from sfumato.config import Config
    from sfumato.config.settings import Resets
    from sfumato.query.policy import Policy, TablePolicy
    from sfumato.query.public import PublicTable
    from sfumato.query.reports.policy import ReportGuarantee, ReportPolicy


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
    source has several names. Reads the names and types of columns, and the public tables that hold domains. A noise
    key that can be guessed, or that others can read, is refused; where there is none yet, that is no difference.

    \b
      sfumato policy check --config sfumato.toml
    """
    from sfumato.cli.terminal.policy import render_differences, render_questions
    from sfumato.config.noise_key import read_key
    from sfumato.explain.words import describe_source
    from sfumato.ledger import check_fence_place
    from sfumato.policy_check import check_policy
    from sfumato.reports.explain import describe_sum

    settings = read_settings(config)
    check_fence_place(settings.ledger, settings.folder)
    if os.path.exists(settings.key_file):  # noqa: PTH110  on a machine that only checks, there may be none
        read_key(settings.key_file)
    with _open_catalog(settings) as catalog:
        found = check_policy(settings, catalog, now())
        tables = [describe_table(table, found.policy, settings) for table in found.policy.tables.values()]
    listed = {
        name: [{"setting": each.setting, "problem": each.problem} for each in errors]
        for name, errors in (("problems", found.problems), ("warnings", found.warnings))
    }
    result: dict[str, Any] = {
        "problems": listed["problems"],
        "tables": tables,
        "public": [describe_public(each) for each in found.policy.public.values()],
        "reports": [describe_report(each) for each in found.reports.values()],
        "sums": [each.to_dict() for each in found.sums],
        "totals": [each.to_dict() for each in found.totals],
        "warnings": listed["warnings"],
        "service": {"pad_ms": settings.pad_ms},
    }
    promises = [*map(describe_sum, found.sums), *map(describe_source, found.totals)]
    page = partial(render_questions, config, result, promises, found.warnings)
    print_result(result, lambda: render_differences(found.problems) if found.problems else page(), as_json=as_json)
    if found.problems:
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
    from sfumato.catalog import bounds_info
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
                "bounds": bounds_info(column),
                "mechanisms": mechanisms(column.name),
            }
            for column in table.columns.values()
        ],
        "measures": [
            {"name": measure.name, "counts": measure.counts, "max_per_unit": measure.max_per_unit}
            for measure in table.measures.values()
        ],
        "visible": _shown_sizes(table, policy, config),
    }


def describe_public(table: PublicTable) -> dict[str, Any]:
    """A public table: what it is joined by, and what is looked up there."""
    columns = [{"name": name, "type": kind} for name, kind in table.columns.items()]
    described = {"table": table.name, "key": table.key, "version": table.version}
    return {**described, "rows": len(table.rows), "columns": columns}


def _shown_sizes(table: TablePolicy, policy: Policy, config: Config) -> list[dict[str, Any]]:
    """How large a group of a private column must be to be shown: the columns and budgets by their sizes."""
    from sfumato.query.plan import plan
    from sfumato.query.request import Histogram

    measure = min(table.measures.values(), key=lambda each: each.counts != "units")
    columns: dict[Any, list[str]] = {}
    for name, budget in config.budgets.items():
        for column in table.columns:
            sizes = plan(Histogram(table.name, column, measure.name), policy, budget.prices).mechanism.visible
            if sizes is not None:
                columns.setdefault((name, sizes), []).append(column)
    budgets: dict[Any, list[str]] = {}
    for (name, sizes), listed in columns.items():
        budgets.setdefault((sizes, *listed), []).append(name)
    return [
        {
            "budgets": names,
            "columns": listed,
            "measure": measure.name,
            "counts": measure.counts,
            "half": sizes.half,
            "most": sizes.most,
            "above": sizes.above,
            "rarely": sizes.rarely,
        }
        for (sizes, *listed), names in budgets.items()
    ]


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
@click.option(
    "--people",
    type=click.IntRange(1, 10**12),
    default=1000,
    show_default=True,
    metavar="N",
    help="How many people a count is about: errors are also shown as a part of it.",
)
@click.option(
    "--questions",
    type=click.IntRange(1, 10**9),
    metavar="N",
    help="How many questions of one kind a period must buy: the least noise with which it does.",
)
@with_chart("--plot")
@with_json
@name_options()
def plan(
    as_json: bool,
    epsilon: Fraction,
    resets: Resets,
    epsilon_per: Fraction,
    delta_per: Fraction,
    people: int,
    questions: int | None,
    plot: str | None,
) -> None:
    """Say what an epsilon buys.

    The largest budget whose whole period promises at most this epsilon, at delta 1e-7: how many lists, histograms or
    totals it buys, their errors and the smallest groups that are shown, for several values of epsilon_per; with what
    chance a bet on one person is won at worst; how often known attacks succeed; and the section to paste. Reads and
    writes nothing but the plot.

    \b
      sfumato policy plan --epsilon 3
      sfumato policy plan --epsilon 3 --people 20000 --plot plan.svg
    """
    from sfumato.cli.terminal.plan import plan_panels, render_plan
    from sfumato.explain.buying import plan_budget
    from sfumato.explain.planning import report_plan
    from sfumato.explain.words import PERIODS
    from sfumato.query.policy import Prices
    from sfumato.show.vega import curves

    picture = chart_path(plot, "--plot")
    chosen = plan_budget(epsilon, Prices(epsilon_per, delta_per), resets)
    result = report_plan(chosen, people, questions)
    if picture is not None:
        title = f"What epsilon {float(epsilon):g} buys {PERIODS[resets]}"
        save_chart(curves(plan_panels(chosen), title=title, across="epsilon_per"), picture, option="--plot")
    print_result(result.to_dict(), lambda: render_plan(result), as_json=as_json)
