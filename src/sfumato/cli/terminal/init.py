"""Page of `sfumato init`."""

from __future__ import annotations

from rich.console import Group, RenderableType

from sfumato.cli.first_config import FirstConfig
from sfumato.cli.terminal.policy import render_purchases
from sfumato.cli.terminal.text import command_line, indent, labelled_lines, paragraphs
from sfumato.explain.words import describe_bound


def render_first_config(made: FirstConfig) -> RenderableType:
    """What was written, and what to type next."""
    lines = {
        "table": f"{made.table}: no answer shows whether any one {made.unit} is in it",
        "columns": ", ".join(f"{name} ({kind})" for name, kind in made.columns.items())
        or "none but the unit: people can be counted",
        "measure": f"{made.measure}, which counts people",
    }
    if made.left_out:
        lines["left out"] = ", ".join(f"{name} ({why})" for name, why in made.left_out.items())
    if made.dates_as_text:
        names = ", ".join(made.dates_as_text)
        lines["look"] = f"{names}: text by its type, a date by its name. If it is one, make it a date in a view"
    promised = f"{describe_bound(made.plan.period)} per month to one {made.unit}"
    year = "" if made.plan.year is None else f", and {describe_bound(made.plan.year)} in a year"
    return Group(
        paragraphs(f"Wrote {made.config} and {made.key}, a key that only you can read."),
        "",
        indent(labelled_lines(lines)),
        "",
        paragraphs(f"The budget, {made.plan.budget.cap}, promises {promised}{year}. All of it buys one of these:"),
        "",
        indent(render_purchases(made.plan)),
        "",
        paragraphs("Ask a first question:"),
        command_line(*made.ask),
        "",
        paragraphs(
            f"The comments in {made.config} say what makes answers better. What one analyst can learn about one person:"
        ),
        command_line("sfumato", "policy", "explain", "--config", str(made.config)),
    )
