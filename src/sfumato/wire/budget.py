"""What an analyst may spend, has spent, and would spend."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, UnsetType, field

from sfumato.accounting.charges import Charge
from sfumato.wire.answer import Visible
from sfumato.wire.base import DrawnRecord, Record
from sfumato.wire.notes import Note

if TYPE_CHECKING:
    from sfumato.show import TextTable

Mode: TypeAlias = Literal["enforce", "track"]
Role: TypeAlias = Literal["analyst", "reader", "owner", "auditor"]


class ChargeRange(Record, frozen=True):
    """The least and the most that an answer can cost."""

    least: Charge
    worst: Charge


class Estimate(DrawnRecord, frozen=True, kw_only=True):
    """What a request would cost and how accurate it would be: free, and the same whatever the data is."""

    mechanism: str
    charge: ChargeRange
    error95: dict[str, int | float]
    visible: Annotated[Visible | None, Meta(description="Null if no group is withheld for its size.")] = None
    left: Charge
    answers_left: Annotated[int | None, Meta(description="How many such answers fit; null: unlimited.")]
    notes: Annotated[
        list[Note],
        Meta(description="What the answer will say beside its numbers, such as where `error95` holds less often."),
    ] = field(default_factory=list)
    parts: Annotated[
        list[Estimate] | UnsetType,
        Meta(description="Of a statement with several questions, the estimate of each. Then `charge` is their sum."),
    ] = UNSET

    @property
    def least(self) -> Charge:
        return self.charge.least

    @property
    def worst(self) -> Charge:
        return self.charge.worst

    def grid(self) -> TextTable:
        """What it costs, and how accurate it is."""
        from sfumato.show import TextTable

        return TextTable(("estimate", ""), [*self.lines().items()])

    def lines(self) -> dict[str, str]:
        """The estimate in words, a label for each line."""
        least, worst, answers = self.least, self.worst, self.answers_left
        enough = ""
        if answers is not None:
            enough = f", enough for at least {answers:,} such answer{'' if answers == 1 else 's'}"
        if answers == 0:
            enough = ", not enough for this question"
        return {
            "mechanism": self.mechanism,
            "charge": f"{worst}" if least == worst else f"{least} at least, {worst} at most",
            **({"parts": "; ".join(str(part.worst) for part in self.parts)} if self.parts else {}),
            "error": _error_line(self),
            **({} if self.visible is None else {"shown": str(self.visible)}),
            "left": f"{self.left}{enough}",
            **({"notes": "; ".join(map(str, self.notes))} if self.notes else {}),
        }


def _error_line(estimate: Estimate) -> str:
    from sfumato.show.text import noise_within

    if estimate.parts:
        return "; ".join(noise_within(part.error95) if part.error95 else "without counts" for part in estimate.parts)
    return noise_within(estimate.error95) if estimate.error95 else "a list without counts"


class AccountStanding(Record, frozen=True, kw_only=True):
    """One account in its current period: left = limit + granted - spent - reserved."""

    account: str
    limit: Charge
    granted: Charge
    spent: Charge
    reserved: Charge
    left: Charge
    resets: date | None


class BudgetReport(DrawnRecord, frozen=True, kw_only=True):
    """What an analyst may still spend: the analyst's own account first, then shared ones."""

    analyst: str
    mode: Mode
    resets: date | None
    accounts: Annotated[list[AccountStanding], Meta(description="The analyst's own account first, then shared ones.")]

    @classmethod
    def of_standings(cls, analyst: str, mode: Mode, standings: Iterable[object]) -> BudgetReport:
        """A report on accounts whose standings have the attributes of `AccountStanding`."""
        accounts = [AccountStanding.from_attributes(standing) for standing in standings]
        return cls(analyst=analyst, mode=mode, resets=accounts[0].resets, accounts=accounts)

    def grid(self) -> TextTable:
        """A row per account. The limit includes what was granted."""
        from sfumato.show import TextTable

        heads = "account", "limit", "spent", "reserved", "left"
        rows = [
            (each.account, *map(str, (each.limit + each.granted, each.spent, each.reserved, each.left)))
            for each in self.accounts
        ]
        resets = "never resets" if self.resets is None else f"resets on {self.resets}"
        return TextTable(heads, rows, title=f"{self.analyst}: {self.mode}, {resets}")


RequestJson: TypeAlias = Annotated[
    dict[str, Any] | None, Meta(description="What was asked, in its one form per meaning; null where it is not known.")
]
RequestSql: TypeAlias = Annotated[str | None, Meta(description="The same as SQL; null where there is no such form.")]


class ChargeRow(Record, frozen=True, kw_only=True):
    """One movement on one account."""

    at: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    digest: str
    account: str
    charge: Charge
    state: Literal["reserved", "settled", "kept", "granted", "recovered"]
    request: RequestJson = None
    sql: RequestSql = None
    reason: Annotated[str | None, Meta(description="Why it was granted; null for what is no grant.")] = None


class Charges(DrawnRecord, frozen=True):
    """A page of movements, the latest first."""

    rows: list[ChargeRow]
    next: Annotated[str | None, Meta(description="The `cursor` of the next page; null on the last.")] = None

    def grid(self) -> TextTable:
        """A row per movement, with what was asked where that is known."""
        from sfumato.show import TextTable

        rows = [
            (
                row.at[:19].replace("T", " "),
                row.state,
                str(row.charge),
                row.account,
                row.sql or row.reason or row.digest,
            )
            for row in self.rows
        ]
        more = "" if self.next is None else f"There are more, from {self.next} on."
        title = more if self.rows else "Nothing was charged."
        return TextTable(("at", "state", "charge", "account", "what"), rows, title=title)


class QuestionRow(Record, frozen=True, kw_only=True):
    """A question, what the analyst's own account paid for it, and what became of it. Never its answer."""

    at: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    analyst: str
    state: Annotated[
        Literal["settled", "reserved", "kept"],
        Meta(
            description="`settled`: answered. `reserved`: not answered yet; the worst case is reserved, and asking "
            "again costs no more. `kept`: closed without an answer; the worst case is spent."
        ),
    ]
    request: RequestJson
    sql: RequestSql
    charge: Annotated[Charge, Meta(description="What it cost; of a `reserved` one, what is reserved.")]
    error95: Annotated[
        dict[str, int | float] | None, Meta(description="As in the answer's receipt; null if there is no answer.")
    ]
    digest: Annotated[str, Meta(description="Of the answer's receipt.")]
    recallable: Annotated[
        bool, Meta(description="Whether GET /v1/answers/{digest} still gives the analyst the answer.")
    ]

    @property
    def outcome(self) -> str:
        """What became of it, in words."""
        return {
            "settled": "answered",
            "reserved": "not answered yet; asking again costs no more",
            "kept": "closed without an answer",
        }[self.state]


class Questions(Record, frozen=True):
    """A page of questions: first those that are not answered yet, then the others, each with the latest first."""

    rows: list[QuestionRow]
    next: Annotated[str | None, Meta(description="The `cursor` of the next page; null on the last.")] = None


class SettingChangeRow(Record, frozen=True, kw_only=True):
    """One setting before and after; null where it was not there."""

    setting: str
    before: str | None
    after: str | None


class PolicyChangeRow(Record, frozen=True, kw_only=True):
    """What changed at once: when it was first seen, the user of that process if known, and the file's SHA-256.

    `first_recorded` are settings that earlier versions did not record: they may have been the same for long.
    """

    at: str
    user: str
    file: str
    changes: list[SettingChangeRow]
    first_recorded: dict[str, str] = field(default_factory=dict)


class PolicyHistory(Record, frozen=True):
    """The changes of limits, prices, modes, rights, reports and tables, the latest first."""

    rows: list[PolicyChangeRow]
