"""Embedded use: one configuration, opened. `sf.open("sfumato.toml")`.

A session wires the parts together and knows which analyst asks. Every answer comes from `sfumato.answer`. Each call
reads the clock once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import partial
from typing import Any, Literal, Self, TypeAlias, Unpack, get_args

from msgspec.structs import replace as replace_fields

from sfumato.accounting import NOTHING, Charge
from sfumato.accounting.numbers import whole
from sfumato.answer import PlannedRequest, Planner, answer, answer_listing, filter_text
from sfumato.catalog import Catalog
from sfumato.config import RIGHTS, Config, Right, Role, load_config, noise_key, sort_roles
from sfumato.errors import Conflict, InvalidArgument, NotFound, SfumatoError
from sfumato.explain import find_guarantee
from sfumato.ledger import (
    Account,
    EarlierCall,
    IdempotentCall,
    Ledger,
    Reservation,
    accounts_of,
    budget_accounts,
    open_ledger,
)
from sfumato.ledger.cells import Seals
from sfumato.ledger.policy_trail import record_policy
from sfumato.mechanisms import Step
from sfumato.query.listing import read_listing
from sfumato.query.policy import Policy, TablePolicy
from sfumato.query.reports.request import ReportKeywords, report_question, takes_report_keywords
from sfumato.query.request import RequestLike
from sfumato.query.values import json_value
from sfumato.reports import Reports
from sfumato.reports.reseal import Reseal
from sfumato.spending import Runtime, forfeit
from sfumato.wire import (
    Answer,
    BudgetReport,
    ChargeRange,
    Charges,
    ColumnInfo,
    Estimate,
    Guarantee,
    Me,
    MeasureInfo,
    Report,
    StoredAnswer,
    TableRow,
    Tables,
    Visible,
)

CLOSED_CALL = "the call with this Idempotency-Key was closed without an answer; ask again with a new key"

Part: TypeAlias = Literal["ledger", "engines"]
PARTS: tuple[Part, ...] = get_args(Part)
"""What every answer needs."""

_DIGEST = re.compile("sha256:[0-9a-f]{64}")


class Session:
    """The doors of one configuration. Thread-safe; a context manager."""

    def __init__(
        self,
        config: str | os.PathLike[str] | Config = "sfumato.toml",
        *,
        clock: Callable[[], datetime] | None = None,
        finish: bool = True,
    ) -> None:
        """Open a configuration. Requests that were reserved and never answered are finished first."""
        self.config = config if isinstance(config, Config) else load_config(config)
        self._clock = clock or _utc_now
        key = noise_key.read_key(self.config.key_file)
        self._catalog = Catalog(self.config)
        self._ledger: Ledger | None = None
        try:
            now = self._clock()
            self._catalog.policy(now)  # raises where the configuration does not fit the live schema
            for problem in self._catalog.right_problems(now):
                raise problem
            self._ledger = open_ledger(self.config.ledger, self.config.folder)
            record_policy(self._ledger, self.config, now)
            engines = {name: self._catalog.engine(name) for name in self.config.tables}
            self._runtime = Runtime(engines, self._ledger, key, noise_key.epoch(key))
            self._planner = Planner(self.config, self._catalog, self._runtime.epoch)
            self._reports = Reports(self.config, self._catalog, Seals(self._ledger), key)
            if finish:
                self.finish()
        except BaseException:
            self.close()
            raise

    def ask(self, request: RequestLike, *, analyst: str, call: IdempotentCall | None = None) -> Answer:
        """A private answer to SQL, to a `TopK`, `Histogram` or `Total`, or to a request as JSON.

        A `call` that was made before gives the answer that it gave then, also where the data has a new version since.
        """
        self._check_right(analyst, "ask")
        now = self._clock()
        if call is not None:
            earlier = self._runtime.ledger.earlier_call(self._own(analyst), call)
            if earlier is not None:
                return self._answer_again(earlier, request, analyst, now)
        listing = read_listing(request, self._catalog.policy_of(analyst, now))
        if listing is not None:
            return answer_listing(listing, self._catalog.policy(now), self._budget(analyst, now).accounts[0])
        planned = self._plan(request, analyst, now)
        if call is None:
            return answer(planned, self._runtime, now)
        reply = answer(replace(planned, debit=replace(planned.debit, call=call)), self._runtime, now)
        if not reply.receipt.repeat:
            return reply
        # A repeat that another attempt of the same call has paid for is that attempt's answer.
        paid = self._runtime.ledger.earlier_call(self._own(analyst), call)
        return reply if paid is None or paid.free else self._recall_call(paid, analyst, now) or reply

    def _plan(self, request: RequestLike, analyst: str, now: datetime) -> PlannedRequest:
        """The planned request. A list of a domain whose histogram is paid for is read off that, for nothing."""
        planned = self._planner.plan(request, analyst, now)
        histogram = planned.histogram
        return planned if histogram is None or not self._runtime.ledger.has_paid(histogram.debit) else histogram

    def recall(self, digest: str, *, analyst: str) -> Answer:
        """An answer that this analyst was given before, with its first receipt. Free; no row is read.

        `NotFound` also where she may not ask about its table, or about all its rows, any more.
        """
        self._check_right(analyst, "recall")
        return self._recall(digest, analyst, self._clock())

    def estimate(self, request: RequestLike, *, analyst: str) -> Estimate:
        """What a request would cost this analyst and how accurate it would be. Free; no row is read."""
        self._check_right(analyst, "estimate")
        now = self._clock()
        if read_listing(request, self._catalog.policy_of(analyst, now)) is not None:
            left = self._budget(analyst, now).accounts[0].left
            free = ChargeRange(NOTHING, NOTHING)
            return Estimate(mechanism="policy", charge=free, error95={}, left=left, answers_left=None)
        planned = self._plan(request, analyst, now)
        mechanism, k, ledger = planned.plan.mechanism, planned.plan.k, self._runtime.ledger

        def outcomes(seen: int) -> Iterator[tuple[Step, ...]]:
            yield mechanism.worst
            # The shortest list is the cheapest: noise ends it after the rows that the analyst has seen.
            shortest = mechanism.steps(seen, stopped=True) if seen < k else ()
            if shortest and shortest[-1].kind == "stop":
                yield shortest

        worst, *others = ledger.prices(planned.debit, outcomes)
        standings = ledger.standings(planned.debit.accounts, now)
        enforced = [
            standing.left
            for standing, account in zip(standings, planned.debit.accounts, strict=True)
            if account.budget.mode == "enforce"
        ]
        error = mechanism.error95 if planned.plan.counts else None
        return Estimate(
            mechanism=mechanism.name,
            charge=ChargeRange(min([worst, *others], key=lambda charge: (charge.information, charge.calls)), worst),
            error95={} if error is None else {planned.plan.measure: error},
            visible=None if mechanism.visible is None else Visible(*mechanism.visible),
            left=standings[0].left,
            answers_left=min((_times(left, worst) for left in enforced), default=None) if worst else None,
        )

    def budget(self, analyst: str) -> BudgetReport:
        """What an analyst may still spend: the own account, the organisation's, and those of capped tables."""
        return self._budget(analyst, self._clock())

    def _budget(self, analyst: str, now: datetime) -> BudgetReport:
        accounts = budget_accounts(self.config, analyst)
        standings = self._runtime.ledger.standings(accounts, now)
        return BudgetReport.of_standings(analyst, accounts[0].budget.mode, standings)

    def charges(self, analyst: str, *, cursor: str | None = None, rows: int = 100) -> Charges:
        """What an analyst's requests have cost, the latest first. `cursor` is the `next` of the page before."""
        self.config.analyst(analyst)
        if cursor is not None and not (
            isinstance(cursor, str) and cursor.isascii() and cursor.isdigit() and len(cursor) < 19
        ):
            raise InvalidArgument("cursor", "must be the `next` of the page before")
        before, most = None if cursor is None else int(cursor), whole("rows", rows, at_least=1, at_most=10_000)
        return Charges.from_attributes(self._runtime.ledger.history(analyst, before=before, rows=most))

    @takes_report_keywords
    def report(
        self,
        report: str | Mapping[str, Any] | None = None,
        *,
        analyst: str,
        **keywords: Unpack[ReportKeywords],
    ) -> Report:
        """Numbers of an entity over time, which stay what they are. Free; the receipt carries the report's guarantee.

        The range is [start, end), as clocks show it in the report's zone. Or hand over the whole question as the HTTP
        interface takes it.
        """
        question = report_question(report, keywords)
        self._check_right(analyst, "report")
        tenancy, tables, now = self.config.analyst(analyst).entities, self.config.tables_of(analyst), self._clock()
        return self._reports.report(question, tenancy, self._budget(analyst, now).accounts[0], now, tables)

    def reseal(
        self,
        report: str | None = None,
        *,
        start: str | date,
        end: str | date,
        entity: Mapping[str, str] | None = None,
        dry: bool = False,
    ) -> Reseal:
        """Let rows in that came too late for the numbers of [start, end): these are drawn again when next asked for.

        For owners: it is another version, and each adds the whole guarantee of a version once more, up to what the
        report has promised; `NotSupported` beyond that. With an entity, all above it and all below it go with it: its
        late rows are in their numbers too. With `dry` nothing is changed, and the cost is returned.
        """
        return self._reports.reseal(report, start=start, end=end, entity=entity, dry=dry, now=self._clock())

    def tables(self, analyst: str | None = None, *, role: Role | None = None) -> Tables:
        """What may be asked about; with an analyst, by her, and with a `role`, by her in this role."""
        if analyst is None:
            policy, limit = self._catalog.policy(self._clock()), None
        else:
            policy, limit = self._policy_of(analyst, role), self.config.tables_of(analyst)
        return Tables([_describe(table) for table in policy.tables.values()], [*self._reports.rows(limit)])

    def me(self, analyst: str, *, role: Role | None = None) -> Me:
        """An analyst's own record: her role, her budget, and what she may ask about. A `role` may narrow it."""
        who, limit = self.config.analyst(analyst), self.config.tables_of(analyst)
        role = sort_roles(role or who.role, who.role)[0]
        entities = None
        if who.entities is not None:
            entities = {
                level: [name if isinstance(name, str) else [*name] for name in names]
                for level, names in who.entities.items()
            }
        return Me(
            analyst=analyst,
            role=role,
            organisation=who.organisation,
            budget=who.budget,
            tables=[*self._policy_of(analyst, role).tables],
            reports=[*self._reports.of_tables(limit)] if role in RIGHTS["report"] else [],
            entities=entities,
            where=who.where,
        )

    def guarantee(self, analyst: str | None = None, *, role: Role | None = None) -> Guarantee:
        """What an analyst's accounts and reports promise; without an analyst, what all of them and releases do.

        `sources` has one total for each source of rows. A `role` may narrow what the analyst is counted with.
        """
        if analyst is not None:
            self.config.analyst(analyst)
        views = self._catalog.views()
        return find_guarantee(self.config, self._reports.promises, views, analyst=analyst, role=role)

    def _policy_of(self, analyst: str, role: Role | None) -> Policy:
        """What an analyst may ask about: nothing, in a role without questions and estimates."""
        return self._catalog.policy_of(analyst, self._clock()) if role in (None, *RIGHTS["estimate"]) else Policy()

    @property
    def ledger(self) -> Ledger:
        """The ledger behind this session."""
        return self._runtime.ledger

    def now(self) -> datetime:
        """The moment, by the clock of this session."""
        return self._clock()

    def check(self) -> dict[str, str]:
        """Whether the parts that every answer needs are in order, each "ok" or "not ok". No row is read."""
        return {part: "ok" if self._passes(part) else "not ok" for part in PARTS}

    def check_part(self, part: Part) -> None:
        """Raise unless this part is in order. No row is read."""
        (self._runtime.ledger if part == "ledger" else self._catalog).check()

    def _passes(self, part: Part) -> bool:
        try:
            self.check_part(part)
        except SfumatoError:
            return False
        return True

    def finish(self, which: Callable[[Reservation], bool] = lambda _: True) -> int:
        """Answer what was reserved and never answered. Then a repeat is free. Returns how many were finished.

        Where the key or the policy is not the one of the reservation any more, no such answer can be made, and its
        worst case is spent. `which` leaves out what another process may be answering.
        """
        finished, now = 0, self._clock()
        for reservation in self._runtime.ledger.reservations():
            if reservation.request.get("type") == "release" or not which(reservation):
                continue  # a release is run again by its name
            try:
                planned = self._planner.resume(reservation, now)
                if planned is None:
                    forfeit(reservation, self._runtime.ledger, now)
                    continue
                answer(planned, self._runtime, now, resume=True)
                finished += 1
            except SfumatoError:
                continue  # it stays reserved: the next start, or the next identical request, tries again
        return finished

    def _answer_again(self, earlier: EarlierCall, request: RequestLike, analyst: str, now: datetime) -> Answer:
        """The answer of an earlier call. Where it was not answered yet, it is answered now."""
        reply = self._recall_call(earlier, analyst, now)
        if reply is not None:
            return reply
        reservation = self._runtime.ledger.reservation(self._own(analyst), earlier.digest)
        planned = None if reservation is None else self._planner.resume(reservation, now)
        if planned is not None:
            answer(planned, self._runtime, now, resume=True)
        reply = self._recall_call(earlier, analyst, now)  # as it first left, also if another thread settled it
        if reply is None:
            self._planner.plan(request, analyst, now)  # raises where it may not be asked any more
            raise Conflict(CLOSED_CALL, reused=True)
        return reply

    def _recall_call(self, earlier: EarlierCall, analyst: str, now: datetime) -> Answer | None:
        """The answer of an earlier call with the receipt that the call had: the first one, or that of a repeat."""
        try:
            reply = self._recall(earlier.digest, analyst, now)
        except NotFound:
            return None
        if not earlier.free:
            return reply
        left = self._budget(analyst, now).accounts[0].left
        return replace_fields(reply, receipt=replace_fields(reply.receipt, charge=NOTHING, left=left, repeat=True))

    def _recall(self, digest: str, analyst: str, now: datetime) -> Answer:
        settled = None
        if _DIGEST.fullmatch(digest):  # a store may not take any text
            own = self._own(analyst)
            allowed = partial(self._may_recall, analyst, now)
            settled = self._runtime.ledger.recall(own, digest, partial(self._paying, analyst), now, allowed=allowed)
        if settled is None:
            raise NotFound("there is no such answer; ask again, which is free where it was answered before")
        return StoredAnswer.from_json(settled.body).complete(settled)

    def _own(self, analyst: str) -> str:
        """The name of an analyst's own account."""
        return accounts_of(self.config, analyst)[0].name

    def _paying(self, analyst: str, table: str) -> tuple[Account, ...]:
        """The accounts that pay for requests about a table, which may not be in the configuration any more."""
        return accounts_of(self.config, analyst, table if table in self.config.tables else None)

    def _may_recall(self, analyst: str, now: datetime, table: str, row_filter: str) -> bool:
        """Whether an analyst may still ask for what a stored answer of hers counts: its table, and these rows of it."""
        tables = self.config.tables_of(analyst)
        if tables is not None and table not in tables:
            return False
        if self.config.analyst(analyst).where is None:
            return True
        asked = self._catalog.policy_of(analyst, now).tables.get(table)
        return asked is not None and filter_text(asked) == row_filter

    def _check_right(self, analyst: str, right: Right) -> None:
        """Refuse what the analyst's role does not include."""
        role = self.config.analyst(analyst).role
        if role not in RIGHTS[right]:
            able = ", ".join(name for name, roles in RIGHTS.items() if role in roles)
            raise NotFound(
                f"{analyst} has the role {role}, which may {able} and may not {right}; "
                f"the owner can change analysts.{analyst}.role"
            )

    def close(self) -> None:
        """Close the engines and the ledger. What is being answered stays reserved, and is finished next time."""
        self._catalog.close()
        if self._ledger is not None:
            self._ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _describe(table: TablePolicy) -> TableRow:
    columns = [
        ColumnInfo(
            name=column.name,
            type=column.type,
            domain="unknown" if column.domain is None else [json_value(value) for value in column.domain],
            max_groups=column.max_groups,
        )
        for column in table.columns.values()
    ]
    measures = [
        MeasureInfo(name=measure.name, counts=measure.counts, max_per_unit=measure.max_per_unit)
        for measure in table.measures.values()
    ]
    return TableRow(table.name, table.privacy_unit, columns, measures)


def _times(left: Charge, price: Charge) -> int:
    """How often a price fits into what is left."""
    pairs = (left.information, price.information), (left.calls, price.calls)
    return min(max(int(amount // each), 0) for amount, each in pairs if each)


def _utc_now() -> datetime:
    return datetime.now(UTC)
