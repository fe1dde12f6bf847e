"""What is promised to one person: by accounts, by reports, and in all for each source of rows."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from sfumato.accounting.charges import Charge
from sfumato.wire.answer import ReportPromise
from sfumato.wire.base import Record
from sfumato.wire.budget import Mode

Asked: TypeAlias = Literal["total", "histogram", "top_ten", "tenth", "period", "year"]
Window: TypeAlias = Literal["day", "week", "month", "all"]
Unbounded: TypeAlias = Literal["tracked", "calls", "events", "exact-totals", "units", "unknown"]

Epsilon: TypeAlias = Annotated[float | None, Meta(description="Rounded up. Null: there is no bound.")]
Delta: TypeAlias = Annotated[float | None, Meta(description="The delta of `epsilon`. Null: there is no bound.")]


class PersonBound(Record, frozen=True, kw_only=True):
    """(epsilon, delta)-differential privacy for one person."""

    epsilon: Epsilon
    delta: Delta
    wins: Annotated[
        float,
        Meta(description="With what chance, at most, a bet at 50:50 on one person's presence is won."),
    ]


class AccountBound(PersonBound, frozen=True, kw_only=True):
    """What an account promises if so much is asked: one question, a tenth of it, all of one period, or of a year."""

    what: Asked
    charge: Charge


class GroupBound(Record, frozen=True, kw_only=True):
    """(epsilon, delta)-differential privacy for several people together."""

    people: int
    epsilon: Epsilon
    delta: Delta
    shown: Annotated[
        float,
        Meta(description="The part of delta with which a call may show a group that only these people are in."),
    ]
    same_delta: Annotated[
        float | None,
        Meta(description="The epsilon at the delta that holds for one person. Null: at that delta there is none."),
    ]


class AccountPromise(Record, frozen=True, kw_only=True):
    """What an account promises, whatever is asked with it."""

    account: str
    mode: Mode
    resets: Literal["never", "daily", "weekly", "monthly"]
    limit: Charge
    epsilon_per: Fraction
    delta_per: Fraction
    bounds: Annotated[
        list[AccountBound],
        Meta(description="From one question to a year. A budget that is tracked bounds one question at a time only."),
    ]
    groups: Annotated[
        list[GroupBound], Meta(description="What questions promise to several people together, over one period.")
    ]

    def bound(self, what: Asked) -> AccountBound | None:
        """The bound of one of its rows, if it has this row."""
        return next((each for each in self.bounds if each.what == what), None)


class PeriodBounds(Record, frozen=True, kw_only=True):
    """What is promised to one person over one period, and over a year."""

    period: PersonBound
    year: PersonBound


class TotalPart(PeriodBounds, frozen=True, kw_only=True):
    """A part of the results about a source."""

    names: Annotated[list[str], Meta(description="The accounts, or the reports, that are counted.")]


class SourceTotal(Record, frozen=True, kw_only=True):
    """All results about the rows of one source, under all of its names.

    `total` bounds questions, releases and reports together. It may be less than their sum, because a cap bounds
    questions and releases together.
    """

    tables: Annotated[list[str], Meta(description="The tables that have rows of this source.")]
    unit: Annotated[str | None, Meta(description="The privacy unit. Null: the tables have none, or several.")]
    views: Annotated[list[str], Meta(description="Those of the tables that are views: what they read is not added.")]
    uncapped: Annotated[list[str], Meta(description="Those of the tables that can be asked about and have no cap.")]
    window: Annotated[Window, Meta(description="The period of `period`: the longest of the budgets that are counted.")]
    questions: TotalPart
    releases: Annotated[TotalPart | None, Meta(description="Null: not counted, as this is what one analyst can learn.")]
    reports: TotalPart
    event_epsilon: Annotated[
        float | None, Meta(description="What all reports promise for one event. Null: totals are exact, or not known.")
    ]
    event_delta: Annotated[float, Meta(description="The delta of `event_epsilon`. 0 if no noise is Gaussian.")] = 0.0
    total: PeriodBounds
    unbounded: Annotated[list[Unbounded], Meta(description="Why there is no bound for one person, if there is none.")]
    groups: Annotated[
        list[GroupBound], Meta(description="What questions and reports promise to several people, over one period.")
    ]


class Guarantee(Record, frozen=True, kw_only=True):
    """What is promised: of one analyst's accounts and reports, or of all."""

    analyst: Annotated[str | None, Meta(description="Null: of all analysts and releases.")]
    accounts: list[AccountPromise]
    reports: Annotated[
        dict[str, ReportPromise | None],
        Meta(description="By name. Null: it is not known, as a table cannot be opened."),
    ]
    sources: list[SourceTotal]
