"""Pages of `sfumato policy`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from sfumato.cli.terminal.tables import plain_table
from sfumato.cli.terminal.text import Words, bullets, indent, labelled_lines, paragraphs, stack
from sfumato.errors import ConfigError
from sfumato.explain import (
    PolicyExplanation,
    Promise,
    describe_promise,
    describe_reports,
    describe_rights,
    exclusions,
    percent,
)
from sfumato.query.reports.policy import SourceGuarantee
from sfumato.reports.explain import describe_sum


def render_differences(problems: Sequence[ConfigError]) -> RenderableType:
    """How the configuration and the live tables differ."""
    count = "1 difference" if len(problems) == 1 else f"{len(problems)} differences"
    head = f"{count} between the configuration and the tables:"
    return Group(paragraphs(head), "", bullets(map(str, problems)))


def render_questions(
    config: str, found: Mapping[str, Any], sums: Sequence[SourceGuarantee] = (), warnings: Sequence[ConfigError] = ()
) -> RenderableType:
    """What can be asked of tables and of reports, what reports promise together, and what limits leave open."""
    tables = (block for table in found["tables"] for block in (Words(table["table"], "bold"), *_table_blocks(table)))
    reports = (
        block
        for report in found["reports"]
        for block in (Words(f"report {report['report']}", "bold"), _report_block(report))
    )
    pad_ms = found["service"]["pad_ms"]
    steps = f"begin at multiples of {pad_ms:,} ms" if pad_ms else "are not padded"
    padding = paragraphs(f"Responses of the service {steps} ([service] pad_ms).")
    blocks = [paragraphs(f"{config} fits the tables. What can be asked:"), *tables, *reports, padding]
    blocks += [paragraphs(*map(describe_sum, sums))] if sums else []
    blocks += [Group(paragraphs("Warnings:"), "", bullets(map(str, warnings)))] if warnings else []
    return stack(blocks)


def _table_blocks(table: Mapping[str, Any]) -> list[RenderableType]:
    grid = plain_table("column", "type", "values", "groups per person", "mechanism")
    for column in table["columns"]:
        values = "in the data" if column["values"] is None else f"{column['values']:,} public"
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
        "total": "known_laplace",
        "hidden": f"any one {table['unit']}",
        "data": f"version {table['version']}",
    }
    return [indent(grid), indent(labelled_lines(lines))]


def _report_block(report: Mapping[str, Any]) -> RenderableType:
    values = (f"{name} ({count:,} public)" for name, count in report["attributes"].items())
    promise = report["guarantee"]
    lines = {
        "statistics": ", ".join(report["statistics"]),
        "attributes": ", ".join(values) or "none",
        "entities": " / ".join(report["entities"]) or "none",
        "time": f"{', '.join(report['levels'])} in {report['zone']}",
        "guarantee": f"epsilon {promise['epsilon']:,.6g} for one {promise['unit']}; see: sfumato report explain",
    }
    return indent(labelled_lines(lines))


def render_explanation(found: PolicyExplanation) -> RenderableType:
    """The promises of a configuration, and what they do not cover."""
    blocks: list[RenderableType] = []
    for promise in found.promises:
        blocks.append(paragraphs(describe_promise(promise)))
        if not promise.nothing:
            blocks.append(indent(_bounds_table(promise)))
    if not found.promises:
        blocks.append(paragraphs("No analyst may ask: there is no [analysts.NAME] in the file."))
    if reports := [*describe_reports(found)]:
        blocks += [paragraphs("Reports:"), bullets(reports)]
    if rights := [*describe_rights(found)]:
        blocks += [paragraphs("Who may see what:"), bullets(rights)]
    return stack([*blocks, paragraphs("What these numbers do not bound:"), bullets(exclusions(found))])


def _bounds_table(promise: Promise) -> Table:
    grid = plain_table(
        *("what is asked", "units", "calls", "epsilon", "delta", "a bet at 50:50 wins"), numbers=range(1, 6)
    )
    for bound in promise.bounds:
        charges = () if bound.charge is None else (bound.charge.information, bound.charge.calls)
        amounts = (f"{each.numerator:,}" if each.denominator == 1 else f"{float(each):,.4g}" for each in charges)
        if bound.epsilon is None or bound.delta is None:
            grid.add_row(bound.words, *amounts, "no bound", "", "")
        else:
            chance = percent(bound.wins)
            grid.add_row(bound.words, *amounts, f"{bound.epsilon:,.2f}", f"{float(bound.delta):.0e}", chance)
    return grid
