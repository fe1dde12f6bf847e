"""Page of `sfumato policy plan`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction

from rich.console import Group, RenderableType
from rich.table import Table

from sfumato.cli.terminal.policy import render_purchases
from sfumato.cli.terminal.tables import plain_table
from sfumato.cli.terminal.text import Words, indent, paragraphs, stack
from sfumato.errors import InvalidArgument
from sfumato.explain.attacks import Attack
from sfumato.explain.buying import Affordable, BudgetPlan, compare_settings
from sfumato.explain.planning import PlanReport
from sfumato.explain.words import ASKED, PERIODS, describe_bound, percent
from sfumato.show.figures import CurvePanel
from sfumato.show.text import figure, plus_minus
from sfumato.wire.guarantee import PersonBound

_PLOTTED = tuple(Fraction(each, 100) for each in range(3, 51))


def render_plan(report: PlanReport) -> RenderableType:
    """What a budget promises, what it buys at several settings, the odds, the attacks, and the section to paste."""
    plan = report.plan
    period = PERIODS[plan.budget.resets]
    year = "" if plan.year is None else f"; a year of it: {describe_bound(plan.year)}"
    head = f"{plan.budget.cap} {period}, which promise {describe_bound(plan.period)} to one person{year}."
    blocks = [
        paragraphs(head),
        indent(render_purchases(plan)),
        paragraphs(f"The same epsilon with other noise, of counts of {report.people:,} people:"),
        indent(_settings_table(report)),
    ]
    if report.questions is not None:
        blocks += [paragraphs(f"For {report.questions:,} questions {period}:"), indent(_enough_table(report))]
    blocks += [
        paragraphs(
            "At worst, whatever else is known, a bet at 50:50 on whether one person is in the data is won with:"
        ),
        indent(_odds_table(report.odds)),
        paragraphs("What known attacks achieve with all of a month, each alone (docs/explanation/attacks.md):"),
        indent(_attacks_table(report.attacks)),
        paragraphs("The section to paste:"),
        indent(Group(Words("[budgets.NAME]"), *map(Words, plan.to_toml().splitlines()))),
    ]
    return stack(blocks)


def _settings_table(report: PlanReport) -> Table:
    names = "epsilon_per", "totals", "lists", "noise", "part", "shown half", "95 %", "in lists", "95 %"
    grid = plain_table(*names, numbers=range(len(names)))
    for plan in report.settings:
        bought = {each.asked: each for each in plan.buys()}
        total = bought["total"]
        mark = " *" if plan.budget == report.plan.budget else "  "
        grid.add_row(
            Words(f"{float(plan.budget.prices.epsilon_per):g}{mark}"),
            *(f"{bought[kind].times:,}" if bought[kind].times else "none" for kind in ("total", "top_ten")),
            Words(plus_minus(total.error95 or 0)),
            percent((total.error95 or 0) / report.people),
            *_sizes(bought["histogram"]),
            *_sizes(bought["top_ten"]),
        )
    return grid


def _sizes(bought: Affordable) -> tuple[str, str]:
    """The groups that are shown half of the time and 95 % of the time."""
    return ("", "") if bought.visible is None else (figure(bought.visible.half), figure(bought.visible.most))


def _enough_table(report: PlanReport) -> Table:
    grid = plain_table("of this kind", "largest epsilon_per", "noise", "shown half", "95 %", numbers=range(1, 5))
    for asked, plan in report.enough.items():
        if plan is None:
            grid.add_row(ASKED[asked].replace("one ", ""), "none buys so many", "", "", "")
            continue
        bought = next(each for each in plan.buys() if each.asked == asked)
        epsilon_per = f"{float(plan.budget.prices.epsilon_per):g}"
        noise = Words(plus_minus(bought.error95 or 0))
        grid.add_row(ASKED[asked].replace("one ", ""), epsilon_per, noise, *_sizes(bought))
    return grid


def _odds_table(odds: list[tuple[str, PersonBound]]) -> Table:
    grid = plain_table("what is asked", "epsilon", "delta", "won with at most", numbers=range(1, 4))
    for what, bound in odds:
        epsilon = "no bound" if bound.epsilon is None else f"{bound.epsilon:,.2f}"
        delta = "" if not bound.delta else f"{bound.delta:.0e}"
        grid.add_row(_ODDS[what], epsilon, delta, percent(bound.wins))
    return grid


_ODDS: dict[str, str] = {**dict[str, str](ASKED.items()), "month": "a month of it"}


def _attacks_table(found: list[Attack]) -> Table:
    grid = plain_table("attack", "what succeeds", "chance", "without answers", numbers=(2, 3))
    for attack in found:
        blind = percent(attack.blind) if attack.blind else ""
        chance = percent(attack.succeeds) if attack.succeeds >= 0.0001 else f"{attack.succeeds:.0e}"
        grid.add_row(attack.attack, Words(_meaning(attack), cropped=False), chance, blind)
    return grid


def _meaning(attack: Attack) -> str:
    n = f"{attack.answers:,}"
    return {
        "averaging": f"the average of {n} answers to one count, rounded, is the count",
        "overlap": f"of two lists of {attack.answers // 2:,} groups, some group is exact in both",
        "differencing": "from a count with a person and one without: is she in the group?",
        "reconstruction": f"share of {attack.people or 0:,} secrets guessed right from {n} counts",
        "single": f"in {n} questions with a call, a group of one person is shown",
    }[attack.attack]


def plan_panels(plan: BudgetPlan) -> list[CurvePanel]:
    """How many questions an epsilon buys, and how precise they are, across epsilon_per."""
    plans = [*_plans(plan)]
    across = tuple(float(each.budget.prices.epsilon_per) for each in plans)
    bought = [{each.asked: each for each in plan.buys()} for plan in plans]
    sizes = [each["top_ten"].visible for each in bought]
    return [
        CurvePanel(
            f"how many {PERIODS[plan.budget.resets]}",
            across,
            {
                "totals": tuple(float(each["total"].times) for each in bought),
                "lists of ten": tuple(float(each["top_ten"].times) for each in bought),
            },
        ),
        CurvePanel(
            "people",
            across,
            {
                "noise of a count, 19 times in 20": tuple(float(each["total"].error95 or 0) for each in bought),
                "group that a list shows half of the time": tuple(float(each.half) if each else 0.0 for each in sizes),
                "group that a list shows 95 % of the time": tuple(float(each.most) if each else 0.0 for each in sizes),
            },
        ),
    ]


def _plans(plan: BudgetPlan) -> Iterator[BudgetPlan]:
    with suppress(InvalidArgument):
        yield from compare_settings(plan, _PLOTTED)
