"""Pages of `sfumato release`."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType

from sfumato.accounting import Charge
from sfumato.cli.terminal.answer import render_figures
from sfumato.cli.terminal.tables import plain_table
from sfumato.cli.terminal.text import Words, indent, labelled_lines, paragraphs
from sfumato.release.table import groups_line

if TYPE_CHECKING:
    from sfumato.release import Job, Released


def render_release(released: Released, *, top: int = 20, statistic: str | None = None) -> RenderableType:
    """The `top` rows of a statistic with bars and intervals, and below them the guarantee."""
    figures = released.figures(top, statistic)
    about = [indent(Words(figures.about().replace(" · ", "; "), "dim", cropped=False)), ""] if figures.keys else []
    return Group(indent(render_figures(figures)), "", *about, indent(labelled_lines(released.lines())))


def render_plan(job: Job, plan: dict[str, Any]) -> RenderableType:
    """What a release would do and what it would cost."""
    grid = plain_table("what it is spent on", "noise", "rho", numbers=(2,))
    for step in plan["steps"]:
        rho = f"{float(Fraction(step['rho'])):.4g}"
        grid.add_row(*(Words(step[name], cropped=False) for name in ("purpose", "law")), rho)
    cost = []
    if "charge" in plan:
        charge = Charge.from_dict(plan["charge"])
        left = [f"{each['account']}, where {Charge.from_dict(each['left'])} are left" for each in plan["accounts"]]
        paid = "This job is begun or finished, and costs no more when it is run again."
        cost = [f"It would take {charge} of {'; and of '.join(left)}." if charge else paid]
    several = [f"Several people together: {words}." for words in groups_line(plan["groups"]).values()]
    unread = "No row was read and nothing was charged."
    promised = f"Guarantee: {job.request.promised}."
    return Group(grid, "", paragraphs(promised, *several, *cost, *job.request.assumptions, unread))
