"""What owners and auditors see, and what owners change. A part of the session.

Nothing here asks who calls: the service checks the rights of its callers, and in this process it is the owner.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Literal

from msgspec.structs import replace as replace_fields

from sfumato.accounting import Charge
from sfumato.accounting.numbers import whole
from sfumato.catalog import Catalog
from sfumato.config import Config, Role
from sfumato.errors import ConfigError, NotFound
from sfumato.ledger import IdempotentCall, Ledger, all_accounts
from sfumato.ledger.accounts import find_account
from sfumato.ledger.api_keys import ApiKeys
from sfumato.ledger.policy_trail import policy_changes, settings_in_force
from sfumato.ledger.releases import list_releases
from sfumato.ledger.types import Actor, current_user
from sfumato.ledger.usage import find_dry_day, first_days, overview, read_budget, read_range
from sfumato.ledger.verification import Verifications
from sfumato.policy_check import PolicyCheck, check_policy
from sfumato.recall import Recalls, movements_of, read_cursor
from sfumato.wire import (
    AccountRow,
    Accounts,
    AccountStanding,
    CheckRow,
    FenceState,
    Keys,
    KeyState,
    LedgerState,
    NewKey,
    PolicyChangeRow,
    PolicyReport,
    Questions,
    ReleaseInfo,
    ReleaseRow,
    Releases,
    UsageReport,
    VerificationInfo,
)


class Oversight:
    """The calls of a session for owners and auditors."""

    config: Config
    _clock: Callable[[], datetime]
    _recalls: Recalls
    _catalog: Catalog

    @property
    def ledger(self) -> Ledger:
        """The ledger behind this session."""
        raise NotImplementedError

    def usage(
        self,
        since: date | str | None = None,
        until: date | str | None = None,
        budgets: Iterable[Charge | str] = (),
    ) -> UsageReport:
        """Spending by day (UTC), and who would run dry under `budgets`: charges, or text such as "3000,30".

        Default: the latest 31 days, and the budgets that analysts have.
        """
        tried = [budget if isinstance(budget, Charge) else read_budget(budget) for budget in budgets]
        first, last = read_range(*_days(since, until), self._clock())
        return UsageReport.of_overview(overview(self.ledger, self.config, first, last, budgets=tried))

    def all_questions(
        self,
        analyst: str | None = None,
        since: date | str | None = None,
        until: date | str | None = None,
        *,
        cursor: str | None = None,
        rows: int = 100,
    ) -> Questions:
        """What analysts asked from one day to another (UTC). Default: the latest 31 days."""
        now = self._clock()
        which = movements_of(analyst, *read_range(*_days(since, until), now))
        return self._recalls.questions(which, now, cursor=cursor, rows=rows)

    def accounts(self) -> Accounts:
        """Every account in its current period, and the day on which it would run dry at this pace."""
        now = self._clock()
        accounts, first, today = (
            [*all_accounts(self.config).values()],
            first_days(self.ledger),
            now.astimezone(UTC).date(),
        )
        rows = []
        for account, standing in zip(accounts, self.ledger.standings(accounts, now), strict=True):
            began, _ = account.budget.period(now)
            known = AccountStanding.from_attributes(standing)
            rows.append(
                AccountRow(
                    **{name: getattr(known, name) for name in AccountStanding.__struct_fields__},
                    mode=account.budget.mode,
                    dry=find_dry_day(standing, began or first.get(account.name, today), today),
                )
            )
        return Accounts(rows)

    def policy(self) -> PolicyReport:
        """The policy in force, without secrets and places, and what `sfumato policy check` says of it now.

        Public tables are read again; the columns are those that the tables had when they were opened.
        """
        try:
            found = check_policy(self.config, Catalog(self.config, self._catalog), self._clock())
        except ConfigError as problem:  # a public table that cannot be read any more
            found = PolicyCheck([problem])
        verdicts: list[tuple[Literal["wrong", "doubtful"], Sequence[ConfigError]]] = [
            *(("wrong", found.problems), ("doubtful", found.warnings))
        ]
        changes = [PolicyChangeRow.from_attributes(each) for each in policy_changes(self.ledger)[:1]]
        return PolicyReport(
            file=self.config.digest,
            settings={name: text for name, text in settings_in_force(self.config).items() if not _is_place(name)},
            pad_ms=self.config.pad_ms,
            checks=[
                CheckRow(setting=each.setting, verdict=verdict, text=each.problem)
                for verdict, errors in verdicts
                for each in errors
            ],
            changed=_without_places(changes[0]) if changes else None,
        )

    def ledger_state(self) -> LedgerState:
        """What the ledger is, how long its journal is, what is open, and what its last check has found."""
        status, fence, now = self.ledger.status(), self.ledger.fence, self._clock()
        job = Verifications(self.ledger, self._clock).latest()
        return LedgerState(
            id=status.head.id,
            schema=status.head.version,
            rows=status.head.sequence,
            head=status.head.hash,
            reservations=status.reservations,
            oldest=status.oldest,
            fence=FenceState(kind=fence.kind, rows=status.fenced),
            verification=None if job is None else VerificationInfo.of_verification(job, now),
        )

    def verify_ledger(self, *, by: Actor | None = None) -> VerificationInfo:
        """Begin a check of the whole ledger, in a thread of its own; if one is running, it is that one.

        `ledger_state` says how far it is, and what it has found.
        """
        jobs = Verifications(self.ledger, self._clock)
        job, is_new = jobs.begin(by or current_user())
        if is_new:
            threading.Thread(target=jobs.run, args=(job,), name=f"verification {job.number}", daemon=True).start()
        return VerificationInfo.of_verification(job, self._clock())

    def releases(self, *, cursor: str | None = None, rows: int = 100) -> Releases:
        """The releases that the ledger has paid for, the latest first."""
        skip, most = read_cursor(cursor) or 0, whole("rows", rows, at_least=1, at_most=10_000)
        found = list_releases(self.ledger)
        page = [ReleaseRow.of_release(each) for each in found[skip : skip + most]]
        return Releases(page, str(skip + most) if len(found) > skip + most else None)

    def release(self, digest: str) -> ReleaseInfo:
        """One of the releases, with its statement."""
        found = next((each for each in list_releases(self.ledger) if each.digest == digest), None)
        if found is None:
            raise NotFound("there is no such release")
        return ReleaseInfo.of_release(found)

    def keys(self, analyst: str | None = None) -> Keys:
        """The API keys that were made (for one analyst), with who made and who revoked them."""
        now = self._clock()
        return Keys([KeyState.at(key, now) for key in ApiKeys(self.ledger).list(analyst)])

    def create_key(
        self,
        analyst: str,
        role: Role | None = None,
        expires: date | datetime | None = None,
        *,
        by: Actor | None = None,
        call: tuple[str, IdempotentCall] | None = None,
    ) -> NewKey:
        """Make an API key, which is in this record and nowhere else. It gives no right that the analyst has not.

        By default it has the role of the analyst in the file. A key that expires on a day is valid to its end (UTC).
        The journal notes who made it: `by`, or the user of this process. A `call` that was made before makes no other
        key.
        """
        who, now, keys = self.config.analyst(analyst), self._clock(), ApiKeys(self.ledger)
        text, made = keys.create(analyst, role or who.role, expires, now, by=by or current_user(), call=call)
        return NewKey.of_state(self._key_state(made.id, now), text or None)

    def revoke_key(self, id: str, *, by: Actor | None = None) -> KeyState:  # noqa: A002
        """End an API key at once and for good. The journal notes who did it."""
        now = self._clock()
        ApiKeys(self.ledger).revoke(id, now, by=by or current_user())
        return self._key_state(id, now)

    def _key_state(self, id: str, now: datetime) -> KeyState:  # noqa: A002
        return next(KeyState.at(key, now) for key in ApiKeys(self.ledger).list() if key.id == id)

    def grant(
        self,
        account: str,
        amount: Charge,
        reason: str,
        *,
        by: Actor | None = None,
        call: tuple[str, IdempotentCall] | None = None,
    ) -> AccountStanding:
        """Add to what an account may spend until it resets: an analyst's own, or one by its full name.

        It weakens the promise of the budget until then. The journal holds the reason, and who granted it. A `call` that
        was made before grants nothing more.
        """
        granted = self.ledger.grant(
            *(find_account(self.config, account), amount, reason, self._clock()), by=by or current_user(), call=call
        )
        return AccountStanding.from_attributes(granted)


def _days(since: date | str | None, until: date | str | None) -> tuple[str | None, str | None]:
    return None if since is None else str(since), None if until is None else str(until)


def _is_place(setting: str) -> bool:
    """Whether a setting says where rows are: it may be the path of a file."""
    return setting.startswith("tables.") and setting.endswith(".source")


def _without_places(change: PolicyChangeRow) -> PolicyChangeRow:
    return replace_fields(
        change,
        changes=[each for each in change.changes if not _is_place(each.setting)],
        first_recorded={name: text for name, text in change.first_recorded.items() if not _is_place(name)},
    )
