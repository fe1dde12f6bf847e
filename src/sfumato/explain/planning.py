"""The whole answer of `sfumato policy plan`: a budget, other settings, the odds, and what attacks achieve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sfumato.explain.attacks import Attack, attacks
from sfumato.explain.buying import BudgetPlan, compare_settings, find_setting
from sfumato.explain.calls import TYPICAL
from sfumato.wire.guarantee import Asked, PersonBound


@dataclass(frozen=True, slots=True)
class PlanReport:
    """What an epsilon buys. `people` is how many the table is about.

    `settings` are plans for the same epsilon with other noise. `enough` has, for each kind of question, the one with
    the least noise that buys `questions` of it; None if none does.
    """

    plan: BudgetPlan
    people: int
    settings: list[BudgetPlan]
    odds: list[tuple[str, PersonBound]]
    attacks: list[Attack]
    questions: int | None = None
    enough: Mapping[Asked, BudgetPlan | None] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.plan.to_dict(),
            "people": self.people,
            "settings": [_setting(each) for each in self.settings],
            "odds": [
                {"what": what, "epsilon": odds.epsilon, "delta": odds.delta, "wins": odds.wins}
                for what, odds in self.odds
            ],
            "attacks": [asdict(each) for each in self.attacks],
            "questions": self.questions,
            "enough": {name: None if each is None else _setting(each) for name, each in self.enough.items()},
            "section": f"[budgets.NAME]\n{self.plan.to_toml()}",
        }


def _setting(plan: BudgetPlan) -> dict[str, Any]:
    serial = plan.to_dict()
    return {"budget": serial["budget"], "buys": serial["buys"]}


def report_plan(plan: BudgetPlan, people: int, questions: int | None = None) -> PlanReport:
    """Everything that `sfumato policy plan` says about a plan."""
    enough = {} if questions is None else {asked: find_setting(plan, asked, questions) for asked in TYPICAL}
    return PlanReport(
        plan=plan,
        people=people,
        settings=compare_settings(plan),
        odds=plan.odds(),
        attacks=[*attacks(plan.budget, people)],
        questions=questions,
        enough=enough,
    )
