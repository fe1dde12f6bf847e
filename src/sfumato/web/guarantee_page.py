"""The guarantee for the board: what an epsilon means as a bet, with the numbers of `sfumato policy explain`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from sfumato.errors import InvalidArgument
from sfumato.explain import PolicyExplanation, guaranteed_columns
from sfumato.explain.losses import chance
from sfumato.explain.words import (
    ASKED,
    WEAK,
    WINDOWS,
    describe_groups,
    describe_promise,
    describe_source,
    describe_source_parts,
    exclusions,
    is_nothing,
    percent,
)
from sfumato.show.drawing import MARGIN, Drawing
from sfumato.show.text import describe_report_promise, join_words
from sfumato.web.frame import PageCall
from sfumato.web.owner_pages import MAX_LISTED, asked, describe_refusal, owner_page
from sfumato.web.rendering import picture
from sfumato.wire import Guarantee
from sfumato.wire.guarantee import AccountPromise

MAX_EPSILON, MAX_DELTA, MAX_BEFORE = 40.0, 0.999, 99
EVEN = 50  # of 100: what is believed of a bet at 50:50
FEW = {ASKED["total"], ASKED["histogram"], ASKED["top_ten"]}


@dataclass(frozen=True, slots=True)
class Bet:
    """An epsilon with its delta, and what is believed before: so many of 100 that one person is in the data."""

    epsilon: float
    delta: float
    before: float = EVEN

    @property
    def after(self) -> int:
        """What is believed with all answers, at most. From 50 of 100: how many of 100 bets are won."""
        return out_of_100(chance(self.epsilon, self.delta, self.before / 100))

    @property
    def rarely(self) -> str:
        return describe_delta(self.delta)


@dataclass(frozen=True, slots=True)
class MarkedBet:
    """A place to look at: what is asked, and the bet that it allows."""

    words: str
    bet: Bet

    @property
    def query(self) -> str:
        """The part of the address that chooses it."""
        return f"epsilon={self.bet.epsilon}&delta={self.bet.delta}"


def show_guarantee(call: PageCall) -> Response:
    """What is promised, in plain words; the address chooses an account, an epsilon, a delta and a belief before."""
    guarantee, name = call.session.guarantee(), asked(call, "account")["account"]
    own = _find_account(guarantee, name)
    marks = [*find_marks(guarantee, own)]
    bet, refused, status = _first_bet(marks), "", 200
    most = max([MAX_EPSILON, *(mark.bet.epsilon for mark in marks)])
    try:
        bet = _read_bet(call, bet, most)
        if own is not None and name not in (None, own.account):
            raise InvalidArgument("account", "there is no such account")
    except InvalidArgument as error:
        refused, status = describe_refusal(call, error)
    explained = PolicyExplanation(guarantee, guaranteed_columns(call.session.config))
    return owner_page(
        call,
        "guarantee.html",
        "Guarantee",
        status,
        here="/guarantee",
        refused=refused,
        accounts=[each.account for each in guarantee.accounts],
        listed=MAX_LISTED,
        own=own,
        marks=marks,
        bet=bet,
        most=most,
        top=MAX_EPSILON,
        even=EVEN,
        weak=WEAK,
        few=[mark for mark in marks if mark.words in FEW],
        dots=draw_dots(bet),
        promise=None if own is None else _describe_account(own),
        sources=[(describe_source(each), [*describe_source_parts(each)]) for each in guarantee.sources],
        reports={
            name: "not known: a table cannot be opened" if each is None else describe_report_promise(each)
            for name, each in guarantee.reports.items()
        },
        exclusions=[*exclusions(explained)],
    )


def _find_account(guarantee: Guarantee, name: str | None) -> AccountPromise | None:
    """The account of this name; the first that bounds something, where there is none."""
    found = [each for each in guarantee.accounts if each.account == name]
    bounded = [each for each in guarantee.accounts if each.mode == "enforce" and not is_nothing(each)]
    return next(iter([*found, *bounded, *guarantee.accounts]), None)


def find_marks(guarantee: Guarantee, own: AccountPromise | None) -> Iterator[MarkedBet]:
    """The places to look at: of an account, of all analysts together, and of each report."""
    for bound in own.bounds if own else ():
        if bound.epsilon is not None and bound.delta is not None:
            yield MarkedBet(ASKED[bound.what], Bet(bound.epsilon, bound.delta))
    for source in guarantee.sources:
        together, tables = source.total.period, join_words(source.tables)
        if together.epsilon is not None and together.delta is not None:
            window = WINDOWS[source.window]
            yield MarkedBet(f"all together, about {tables}, {window}", Bet(together.epsilon, together.delta))
    for name, promise in guarantee.reports.items():
        if promise is not None:
            words = f"the report {name}, for one {promise['unit']}"
            yield MarkedBet(words, Bet(promise["epsilon"], promise.get("delta", 0.0)))


def _first_bet(marks: list[MarkedBet]) -> Bet:
    """What the page begins with: a list of ten, where it can be asked."""
    lists = (mark.bet for mark in marks if mark.words == ASKED["top_ten"])
    return next(iter([*lists, *(mark.bet for mark in marks), Bet(1.0, 0.0)]))


def _read_bet(call: PageCall, first: Bet, most: float) -> Bet:
    """The bet of the address."""

    def number(name: str, default: float, least: float, most: float) -> float:
        text = asked(call, name)[name]
        try:
            value = default if text is None else float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise InvalidArgument(name, f"must be a number from {least:g} to {most:g}")
        return value

    return Bet(
        number("epsilon", first.epsilon, 0, most),
        number("delta", first.delta, 0, MAX_DELTA),
        number("before", first.before, 1, MAX_BEFORE),
    )


def out_of_100(share: float) -> int:
    """A chance as a number of 100, rounded up: more is never promised. The script of the page has the same formula."""
    return math.ceil(round(share * 1e8) / 1e6)


def describe_delta(delta: float) -> str:
    """How often the promise may not hold, in words.

    >>> describe_delta(1e-7), describe_delta(1 / 140e6), describe_delta(1e-3), describe_delta(0)
    ('at most once in 10 million', 'at most once in 140 million', 'at most once in 1,000', 'never')
    """
    if not delta:
        return "never"
    times = math.floor(1 / delta * (1 + 1e-12))
    times -= times % 10 ** max(len(str(times)) - 3, 0)  # three digits; rounded down, it holds
    return f"at most once in {times / 1e6:,g} million" if times >= 1_000_000 else f"at most once in {times:,}"


def draw_dots(bet: Bet) -> Markup:
    """100 dots: those that are won without an answer, those that answers add, and the others as rings."""
    step, across, before, after = 16, 20, math.floor(bet.before), bet.after
    drawing = Drawing(f"{after} of 100 dots are filled", 2 * MARGIN + across * step)
    for place in range(100):
        look = "dot8" if place < before else "dot1" if place < after else "edge0"
        x, y = MARGIN + (place % across + 0.5) * step, MARGIN + (place // across + 0.5) * step
        drawing.dot(look, x, y, radius=5.5)
    drawing.height = MARGIN + 100 // across * step
    return picture(drawing.with_classes("dots"))


def _describe_account(promise: AccountPromise) -> dict[str, Any]:
    """An account in words, and its bounds as `sfumato policy explain` has them."""
    return {
        "words": describe_promise(promise),
        "groups": describe_groups(promise.groups),
        "bounds": [
            {
                "what": ASKED[each.what],
                "epsilon": "no bound" if each.epsilon is None else f"{each.epsilon:,.2f}",
                "rarely": "" if each.delta is None else describe_delta(each.delta),
                "wins": "" if each.delta is None else percent(each.wins),
            }
            for each in promise.bounds
        ],
    }
