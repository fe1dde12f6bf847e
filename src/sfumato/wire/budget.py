"""What an analyst may spend, has spent, and would spend."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta

from sfumato.accounting.charges import Charge
from sfumato.wire.answer import Visible
from sfumato.wire.base import Record

Mode: TypeAlias = Literal["enforce", "track"]
Role: TypeAlias = Literal["analyst", "reader", "owner", "auditor"]


class ChargeRange(Record, frozen=True):
    """The least and the most that an answer can cost."""

    least: Charge
    worst: Charge


class Estimate(Record, frozen=True, kw_only=True):
    """What a request would cost and how accurate it would be: free, and the same whatever the data is."""

    mechanism: str
    charge: ChargeRange
    error95: dict[str, int]
    visible: Annotated[Visible | None, Meta(description="Null if no group is withheld for its size.")] = None
    left: Charge
    answers_left: Annotated[int | None, Meta(description="How many such answers fit; null: unlimited.")]

    @property
    def least(self) -> Charge:
        return self.charge.least

    @property
    def worst(self) -> Charge:
        return self.charge.worst


class AccountStanding(Record, frozen=True, kw_only=True):
    """One account in its current period: left = limit + granted - spent - reserved."""

    account: str
    limit: Charge
    granted: Charge
    spent: Charge
    reserved: Charge
    left: Charge
    resets: date | None


class BudgetReport(Record, frozen=True, kw_only=True):
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


class ChargeRow(Record, frozen=True, kw_only=True):
    """One movement on one account."""

    at: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    digest: str
    account: str
    charge: Charge
    state: Literal["reserved", "settled", "kept", "granted", "recovered"]


class Charges(Record, frozen=True):
    """A page of movements, the latest first."""

    rows: list[ChargeRow]
    next: Annotated[str | None, Meta(description="The `cursor` of the next page; null on the last.")] = None


class SettingChangeRow(Record, frozen=True, kw_only=True):
    """One setting before and after; null where it was not there."""

    setting: str
    before: str | None
    after: str | None


class PolicyChangeRow(Record, frozen=True, kw_only=True):
    """What changed at once: when it was first seen, the user of that process if known, and the file's SHA-256."""

    at: str
    user: str
    file: str
    changes: list[SettingChangeRow]


class PolicyHistory(Record, frozen=True):
    """The changes of limits, prices, modes and rights, the latest first."""

    rows: list[PolicyChangeRow]


class KeyRow(Record, frozen=True, kw_only=True):
    """What is known of an API key, which is not the key: its `prefix` only tells it from others."""

    id: str
    prefix: str
    analyst: str
    role: Role
    created: str
    expires: str | None
    revoked: str | None

    @classmethod
    def of_key(cls, key: Any) -> KeyRow:
        """The record of a key whose moments are date-times."""
        values = {name: getattr(key, name) for name in cls.__struct_fields__}
        moments = {name: each for name, each in values.items() if isinstance(each, datetime)}
        return cls(**values | {name: each.isoformat(timespec="microseconds") for name, each in moments.items()})
