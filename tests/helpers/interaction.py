"""The worst that an adaptive analyst can do: exact, by dynamic programming over what has been seen.

What was seen matters to privacy by its likelihood ratio only. So the largest hockey stick of a whole interaction is
found backwards: in every state the analyst asks what makes the rest worst.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sfumato.accounting import Charge, Filter
from tests.helpers.laws import Law


@dataclass(frozen=True, eq=False)
class Answer:
    """One possible answer: its chance under either neighbour, what it costs, and what may be asked on top of it."""

    p: float
    q: float
    charge: Charge
    unlocks: Question | None = None


@dataclass(frozen=True, eq=False)
class Question:
    """Something that may be asked as long as its reserve fits."""

    reserve: Charge
    answers: tuple[Answer, ...]

    def swapped(self) -> Question:
        return Question(self.reserve, tuple(map(_swapped, self.answers)))


def _swapped(answer: Answer) -> Answer:
    return Answer(answer.q, answer.p, answer.charge, answer.unlocks and answer.unlocks.swapped())


Continue: TypeAlias = Callable[[tuple[int, ...]], Question | None]


def ranking_question(
    p: Law, q: Law, reserve: Charge, charges: dict[int, Charge], unlocks: Continue = lambda _: None
) -> Question:
    """A ranking, whose answers are charged by their length."""
    outcomes = sorted(p.keys() | q.keys())
    answers = (Answer(p.get(o, 0.0), q.get(o, 0.0), charges[len(o)], unlocks(o)) for o in outcomes)
    return Question(reserve, tuple(answers))


def worst_interaction(
    menu: Sequence[Question], budget: Filter, epsilon: float, *, once: Sequence[Question] = ()
) -> float:
    """The exact delta at epsilon of the worst adaptive use of a menu under a budget, in either direction.

    What is on the menu gives a fresh answer every time; what is in `once` or was unlocked can be asked one time.
    """
    swapped = [tuple(asked.swapped() for asked in questions) for questions in (menu, once)]
    return max(
        _Analyst(tuple(menu), epsilon).value(budget, 0.0, tuple(once)),
        _Analyst(swapped[0], epsilon).value(budget, 0.0, swapped[1]),
    )


class _Analyst:
    """Knows, for every budget left and log likelihood ratio, the best that is still to be had."""

    def __init__(self, menu: tuple[Question, ...], epsilon: float) -> None:
        self.menu, self.epsilon = menu, epsilon
        self.known: dict[tuple[Filter, float, tuple[Question, ...]], float] = {}

    def value(self, budget: Filter, loss: float, once: tuple[Question, ...]) -> float:
        """The hockey stick from here on, per unit of P; `loss` is ln(P / Q) of what was seen."""
        state = budget, round(loss, 10), once
        if state not in self.known:
            fitting = (asked for asked in self.menu + once if budget.fits(asked.reserve))
            stop = max(0.0, -math.expm1(self.epsilon - loss))
            self.known[state] = max([stop, *(self._ask(asked, budget, loss, once) for asked in fitting)])
        return self.known[state]

    def _ask(self, asked: Question, budget: Filter, loss: float, once: tuple[Question, ...]) -> float:
        left = tuple(question for question in once if question is not asked)
        return sum(self._after(answer, budget, loss, left) for answer in asked.answers if answer.p)

    def _after(self, answer: Answer, budget: Filter, loss: float, once: tuple[Question, ...]) -> float:
        if not answer.q:
            return answer.p
        unlocked = (*once, answer.unlocks) if answer.unlocks else once
        return answer.p * self.value(budget.spend(answer.charge), loss + math.log(answer.p / answer.q), unlocked)
