"""Pages of `sfumato policy`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from sfumato.cli.terminal.tables import plain_table
from sfumato.cli.terminal.text import Words, bullets, indent, labelled_lines, paragraphs, stack
from sfumato.errors import ConfigError
from sfumato.explain import PolicyExplanation
from sfumato.explain.buying import BudgetPlan
from sfumato.explain.words import (
    ASKED,
    PERIODS,
    WINDOWS,
    describe_promise,
    describe_reports,
    describe_rights,
    describe_source,
    describe_source_parts,
    exclusions,
    is_nothing,
    percent,
)
from sfumato.show.text import describe_report_promise, join_words, plus_minus
from sfumato.wire import Visible
from sfumato.wire.guarantee import AccountPromise, PersonBound, SourceTotal
from sfumato.wire.tables import bounds_words


def render_differences(problems: Sequence[ConfigError]) -> RenderableType:
    """How the configuration and the live tables differ."""
    count = "1 difference" if len(problems) == 1 else f"{len(problems)} differences"
    head = f"{count} between the configuration and the tables:"
    return Group(paragraphs(head), "", bullets(map(str, problems)))


def render_questions(
    config: str, result: Mapping[str, Any], promised: Sequence[str] = (), warnings: Sequence[ConfigError] = ()
) -> RenderableType:
    """What can be asked of tables and of reports, what is promised over all of it, and what limits leave open."""
    tables = (block for table in result["tables"] for block in (Words(table["table"], "bold"), *_table_blocks(table)))
    public = (block for table in result["public"] for block in (Words(table["table"], "bold"), _public_block(table)))
    reports = (
        block
        for report in result["reports"]
        for block in (Words(f"report {report['report']}", "bold"), _report_block(report))
    )
    pad_ms = result["service"]["pad_ms"]
    steps = f"begin at multiples of {pad_ms:,} ms" if pad_ms else "are not padded"
    padding = paragraphs(f"Responses of the service {steps} ([service] pad_ms).")
    blocks = [paragraphs(f"{config} fits the tables. What can be asked:"), *tables, *public, *reports, padding]
    blocks += [paragraphs(*promised)] if promised else []
    blocks += [Group(paragraphs("Warnings:"), "", bullets(map(str, warnings)))] if warnings else []
    return stack(blocks)


def _public_block(table: Mapping[str, Any]) -> RenderableType:
    columns = ", ".join(f"{each['name']} ({each['type']})" for each in table["columns"])
    public = f"{table['rows']:,} rows, which everyone may read"
    return indent(
        labelled_lines(
            {"public": public, "key": table["key"], "columns": columns, "data": f"version {table['version']}"}
        )
    )


def _table_blocks(table: Mapping[str, Any]) -> list[RenderableType]:
    grid = plain_table("column", "type", "values", "groups per person", "mechanism")
    for column in table["columns"]:
        values = "in the data" if column["values"] is None else f"{column['values']:,} public"
        if column["bounds"] is not None:
            values += f"; averaged from {bounds_words(column['bounds'])}"
        groups = "any number" if column["max_groups"] is None else f"at most {column['max_groups']:,}"
        cells = column["name"], column["type"], values, groups, " or ".join(column["mechanisms"])
        grid.add_row(*map(Words, cells))
    measures = (
        f"{each['name']} (people)"
        if each["counts"] == "units"
        else f"{each['name']} ({each['counts']}, at most {each['max_per_unit']:,} per person and group)"
        for each in table["measures"]
    )
    lines = {
        "measures": ", ".join(measures),
        "total": " or ".join(table["total"]),
        "hidden": f"any one {table['unit']}",
        "data": f"version {table['version']}",
    }
    budgets = {name for each in table["visible"] for name in each["budgets"]}
    lines |= {
        f"shown {place}": _describe_sizes(each, one_budget={*each["budgets"]} == budgets)
        for place, each in enumerate(table["visible"], 1)
    }
    return [indent(grid), indent(labelled_lines(lines))]


def _describe_sizes(shown: Mapping[str, Any], *, one_budget: bool) -> str:
    """How large a group must be, in words. The first number has two digits: it is about that."""
    what = "people" if shown["counts"] == "units" else shown["measure"]
    rarely = shown["rarely"]
    about = rarely - rarely % 10 ** max(len(str(rarely)) - 2, 0)
    sizes = Visible(shown["half"], shown["most"], shown["above"])
    whose = "" if one_budget else f", with the budget {join_words(shown['budgets'])}"
    by = f"by {join_words(shown['columns'])}{whose}"
    small = f"groups under about {about:,} {what} will rarely appear; " if about else ""
    return f"{by}: {small}{sizes}"


def _report_block(report: Mapping[str, Any]) -> RenderableType:
    values = (f"{name} ({count:,} public)" for name, count in report["attributes"].items())
    promise = report["guarantee"]
    lines = {
        "statistics": ", ".join(report["statistics"]),
        "attributes": ", ".join(values) or "none",
        "entities": " / ".join(report["entities"]) or "none",
        "time": f"{', '.join(report['levels'])} in {report['zone']}",
        "guarantee": f"{describe_report_promise(promise)}; see: sfumato report explain",
    }
    return indent(labelled_lines(lines))


def render_explanation(explanation: PolicyExplanation) -> RenderableType:
    """The promises of a configuration, and what they do not cover."""
    blocks: list[RenderableType] = []
    for promise in explanation.guarantee.accounts:
        blocks.append(paragraphs(describe_promise(promise)))
        if not is_nothing(promise):
            blocks.append(indent(_bounds_table(promise)))
    if not explanation.guarantee.accounts:
        blocks.append(paragraphs("No analyst may ask: there is no [analysts.NAME] in the file."))
    for source in explanation.guarantee.sources:
        blocks += [paragraphs(describe_source(source)), indent(_source_table(source))]
        blocks += [bullets(parts)] if (parts := [*describe_source_parts(source)]) else []
    if reports := [*describe_reports(explanation)]:
        blocks += [paragraphs("Reports:"), bullets(reports)]
    if rights := [*describe_rights(explanation)]:
        blocks += [paragraphs("Who may see what:"), bullets(rights)]
    return stack([*blocks, paragraphs("What these numbers do not bound:"), bullets(exclusions(explanation))])


def _bounds_table(promise: AccountPromise) -> Table:
    grid = plain_table(
        *("what is asked", "units", "calls", "epsilon", "delta", "a bet at 50:50 wins"), numbers=range(1, 6)
    )
    for bound in promise.bounds:
        charges = bound.charge.information, bound.charge.calls
        amounts = (f"{each.numerator:,}" if each.denominator == 1 else f"{float(each):,.4g}" for each in charges)
        grid.add_row(ASKED[bound.what], *amounts, *_numbers(bound), percent(bound.wins) if bound.delta else "")
    return grid


def _numbers(bound: PersonBound) -> tuple[str, str]:
    """Epsilon and delta."""
    if bound.epsilon is None or bound.delta is None:
        return "no bound", ""
    return f"{bound.epsilon:,.2f}", f"{bound.delta:.0e}" if bound.delta else "0"


def _source_table(source: SourceTotal) -> Table:
    period = WINDOWS[source.window]
    grid = plain_table("results of", "from", f"epsilon {period}", "delta", "in a year", "delta", numbers=range(2, 6))
    parts = {"questions": source.questions, "releases": source.releases, "reports": source.reports}
    for name, part in parts.items():
        if part is not None and part.names:
            numbers = (*_numbers(part.period), *_numbers(part.year))
            grid.add_row(name, Words(", ".join(part.names), cropped=False), *numbers)
    grid.add_row("all together", "", *_numbers(source.total.period), *_numbers(source.total.year))
    return grid


def render_purchases(plan: BudgetPlan) -> RenderableType:
    """What all of a budget buys, if it is spent on one kind of question only."""
    period = PERIODS[plan.budget.resets]
    head = "costs", "noise", "epsilon", f"how many {period}"
    grid = plain_table("what is asked", *head, numbers=range(1, 5))
    for each in plan.buys():
        noise = "" if each.error95 is None else plus_minus(each.error95)
        epsilon = _numbers(each.one)[0]
        grid.add_row(
            ASKED[each.asked], str(each.charge), Words(noise), epsilon, f"{each.times:,}" if each.times else "none"
        )
    return grid
