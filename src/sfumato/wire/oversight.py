"""What owners and auditors see: accounts with their pace, the ledger, and releases."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any, Literal

from msgspec import Meta

from sfumato.accounting.charges import Charge
from sfumato.wire.base import Record
from sfumato.wire.budget import AccountStanding, Mode, PolicyChangeRow
from sfumato.wire.keys import ActorInfo


class AccountRow(AccountStanding, frozen=True, kw_only=True):
    """An account in its current period, and when it would run dry."""

    mode: Mode
    dry: Annotated[
        date | None,
        Meta(
            description="The day on which nothing is left, at the average pace of this period (UTC); for an account "
            "that never resets, since its first charge. Null: not before it resets. Where `mode` is `track`, nothing "
            "is refused then."
        ),
    ]


class Accounts(Record, frozen=True):
    """All accounts of the configuration: of analysts, organisations, tables with a cap, and releases."""

    rows: list[AccountRow]


class CheckRow(Record, frozen=True, kw_only=True):
    """Something that a check of the policy has found."""

    setting: Annotated[str, Meta(description="The place in the file that it is about.")]
    verdict: Annotated[
        Literal["wrong", "doubtful"],
        Meta(description="`wrong`: it does not fit the tables. `doubtful`: a limit leaves something open."),
    ]
    text: str


class PolicyReport(Record, frozen=True, kw_only=True):
    """The policy in force, and what a check of it finds now."""

    file: Annotated[str, Meta(description="The SHA-256 of the file that is in force.")]
    settings: Annotated[
        dict[str, str],
        Meta(
            description="What bounds and promises, each setting as text by its place in the file. Secrets, sources of "
            "tables, and places of files and services are not in it."
        ),
    ]
    pad_ms: Annotated[int, Meta(description="Replies of /v1 begin at multiples of so many milliseconds.")]
    checks: list[CheckRow]
    changed: Annotated[
        PolicyChangeRow | None, Meta(description="The latest change that the journal has; null if there is none.")
    ]


class FenceState(Record, frozen=True, kw_only=True):
    """The high-water mark outside of the ledger, which detects a restored copy. Its place is not shown."""

    kind: Literal["file", "database"]
    rows: Annotated[int, Meta(description="So many rows of the journal have been seen.")]


class VerificationInfo(Record, frozen=True, kw_only=True):
    """A check of the whole ledger, as `sfumato budget verify` makes it."""

    state: Annotated[
        Literal["running", "ended", "lost"], Meta(description="`lost`: its process has ended before it did.")
    ]
    at: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    by: ActorInfo
    done: Annotated[int, Meta(description="Journal rows that are checked.")]
    of: Annotated[int, Meta(description="Journal rows in all.")]
    ended: str | None
    problems: Annotated[
        list[str], Meta(description="Everything that is wrong, in words. Empty once it ended: all right.")
    ]

    @classmethod
    def of_verification(cls, job: Any, now: datetime) -> VerificationInfo:
        """The record of a check at a moment."""
        return cls(
            state=job.state(now),
            at=job.at,
            by=ActorInfo.from_attributes(job.by),
            done=job.done,
            of=job.total,
            ended=job.ended,
            problems=[*job.problems],
        )


class LedgerState(Record, frozen=True, kw_only=True):
    """What the ledger is, and what is open in it."""

    id: str
    schema: Annotated[int, Meta(description="The version of its tables.")]
    rows: Annotated[int, Meta(description="The length of its journal.")]
    head: Annotated[str, Meta(description="The hash of the last row, which covers all rows before it.")]
    reservations: Annotated[int, Meta(description="Questions that are reserved and not answered yet.")]
    oldest: Annotated[str | None, Meta(description="When the oldest of them was reserved; null if there is none.")]
    fence: FenceState
    verification: Annotated[
        VerificationInfo | None, Meta(description="The check that was begun last; null if none was.")
    ] = None


class ReleaseRow(Record, frozen=True, kw_only=True):
    """A release that the ledger has paid for."""

    digest: str
    job: Annotated[str | None, Meta(description="The name under which it can be run again, at no charge.")]
    at: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    budget: str
    charges: Annotated[dict[str, Charge], Meta(description="What each account paid.")]
    method: str
    unit: str
    guarantee: dict[str, Any]

    @classmethod
    def of_release(cls, release: Any) -> ReleaseRow:
        """The record of a release with a statement."""
        return cls(**_of_release(release))


class Releases(Record, frozen=True):
    """A page of releases, the latest first."""

    rows: list[ReleaseRow]
    next: Annotated[str | None, Meta(description="The `cursor` of the next page; null on the last.")] = None


class ReleaseInfo(ReleaseRow, frozen=True, kw_only=True):
    """A release with its statement: what was guaranteed, what it cost, and what each column means."""

    statement: Annotated[dict[str, Any], Meta(description="As beside the table, without the facts of its file.")]

    @classmethod
    def of_release(cls, release: Any) -> ReleaseInfo:
        return cls(**_of_release(release), statement=dict(release.statement))


def _of_release(release: Any) -> dict[str, Any]:
    known = {name: getattr(release, name) for name in ("digest", "job", "at", "budget")}
    said = {name: release.statement[name] for name in ("method", "unit", "guarantee")}
    return {**known, "charges": dict(release.charges), **said}
