"""Embedded use: one configuration, opened. `sf.open("sfumato.toml")`.

A session wires the parts together and knows which analyst asks. Every answer comes from `sfumato.answer`. Each call
reads the clock once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import partial
from typing import Any, Literal, Self, TypeAlias, Unpack, get_args

from msgspec.structs import replace as replace_fields

from sfumato.accounting import NOTHING
from sfumato.accounting.numbers import whole
from sfumato.answer import (
    PlannedRequest,
    Planner,
    answer,
    answer_listing,
    answer_metadata,
    answer_public,
    find_notes,
)
from sfumato.catalog import Catalog, describe_tables
from sfumato.config import RIGHTS, Config, Right, Role, load_config, noise_key, sort_roles
from sfumato.errors import Conflict, NotFound, NotSupported, Refused, SfumatoError, TableNotFound
from sfumato.explain import find_guarantee
from sfumato.ledger import (
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
from sfumato.ledger.types import KeptRequest, Movements
from sfumato.mechanisms import Step
from sfumato.oversight import Oversight
from sfumato.query.listing import read_listing
from sfumato.query.metadata import Metadata, read_explained, read_metadata
from sfumato.query.parameters import Params
from sfumato.query.policy import Policy
from sfumato.query.reports.request import ReportKeywords, report_question, takes_report_keywords
from sfumato.query.request import RequestLike
from sfumato.query.sql import bind_request, read_public
from sfumato.recall import Recalls, read_cursor
from sfumato.reports import Reports
from sfumato.reports.reseal import Reseal
from sfumato.spending import Runtime, forfeit
from sfumato.statements import CHANGED, count_answers, join_answers, join_estimates, reserve_parts
from sfumato.wire import (
    Answer,
    BudgetReport,
    ChargeRange,
    Charges,
    EntityPage,
    Estimate,
    Guarantee,
    Me,
    Questions,
    Report,
    ReportInfo,
    Tables,
    Visible,
)

CLOSED_CALL = "the call with this Idempotency-Key was closed without an answer; ask again with a new key"

SessionPart: TypeAlias = Literal["ledger", "engines"]
PARTS: tuple[SessionPart, ...] = get_args(SessionPart)
"""What every answer needs."""


class Session(Oversight):
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
        self._clock = clock or partial(datetime.now, UTC)
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
            self._recalls = Recalls(self.config, self._catalog, self._ledger)
            self._reports = Reports(self.config, self._catalog, Seals(self._ledger), key)
            if finish:
                self.finish()
        except BaseException:
            self.close()
            raise

    def under(self, config: Config) -> Session:
        """A session under another policy, over the engines and the ledger of this one. This one stays as it is.

        Raises `ConfigError` where the policy does not fit the live tables, or needs more of them than was opened. Only
        the first session is to be closed.
        """
        now, other = self._clock(), copy(self)
        other.config, other._catalog = config, Catalog(config, self._catalog)
        other._catalog.policy(now)
        for problem in other._catalog.right_problems(now):
            raise problem
        other._planner = Planner(config, other._catalog, self._runtime.epoch)
        other._recalls = Recalls(config, other._catalog, self.ledger)
        other._reports = Reports(config, other._catalog, Seals(self.ledger), self._runtime.key, self._reports.quota)
        record_policy(self.ledger, config, now)
        return other

    def ask(
        self, request: RequestLike, *, analyst: str, params: Params | None = None, call: IdempotentCall | None = None
    ) -> Answer:
        """A private answer to SQL, to a `TopK`, `Histogram` or `Total`, or to a request as JSON.

        `params` are the values of `?` or `:name` in SQL. A `call` that was made before gives the answer that it gave
        then, also where the data has a new version since.
        """
        self._check_right(analyst, "ask")
        request, now = bind_request(request, params), self._clock()
        if call is not None:
            earlier = self._runtime.ledger.earlier_parts(self._own(analyst), call)
            if earlier:
                return self._answer_again(earlier, request, analyst, now)
        try:
            free = self._answer_free(request, analyst, now)
            if free is not None:
                return free
            planned = self._cheapest(self._planner.plan(request, analyst, now))
        except (NotSupported, TableNotFound) as refusal:
            self._planner.offer(refusal, request, analyst, now)
            raise
        if call is not None:
            planned = planned.under(call)
        if not planned.parts:
            return answer(planned, self._runtime, now) if call is None else self._buy(planned, analyst, now)
        again = partial(self._planner.plan, analyst=analyst, now=now)
        reserve_parts(planned, request, self.ledger, now, lambda other: self._cheapest(again(other)))
        return join_answers(planned, [self._buy(part, analyst, now, resume=True) for part in planned.parts])

    def _buy(self, planned: PlannedRequest, analyst: str, now: datetime, *, resume: bool = False) -> Answer:
        reply, call = answer(planned, self._runtime, now, resume=resume), planned.debit.call
        if call is None or not reply.receipt.repeat:
            return reply
        # A repeat that another attempt of the same call has paid for is that attempt's answer.
        paid = self._runtime.ledger.earlier_call(self._own(analyst), call)
        return reply if paid is None or paid.free else self._recall_call(paid, planned, analyst, now) or reply

    def _answer_free(self, request: RequestLike, analyst: str, now: datetime) -> Answer | None:
        """What the policy and the ledger answer without a row; None where it is a question to the rows."""
        policy, explained = self._catalog.policy_of(analyst, now), read_explained(request)
        listing = None if explained is not None else read_listing(request, policy)
        if listing is not None:
            return answer_listing(listing, policy, self._budget(analyst, now).accounts[0])
        if explained is not None:
            lines = self._estimate(explained, analyst, now).lines()
            metadata: Metadata | None = Metadata({"name": "text", "value": "text"}, [*lines.items()])
        else:
            metadata = read_metadata(request, policy, analyst)
        if metadata is None and policy.public and (public := read_public(request, policy)) is not None:
            return answer_public(public, self._budget(analyst, now).accounts[0])
        return None if metadata is None else answer_metadata(metadata, self._budget(analyst, now).accounts[0])

    def _cheapest(self, planned: PlannedRequest) -> PlannedRequest:
        """A list of a domain whose histogram is paid for is read off that, for nothing."""
        if planned.parts:
            return replace(planned, parts=tuple(map(self._cheapest, planned.parts)))
        histogram = planned.histogram
        return planned if histogram is None or not self._runtime.ledger.has_paid(histogram.debit) else histogram

    def recall(self, digest: str, *, analyst: str, now: datetime | None = None) -> Answer:
        """An answer that this analyst was given before, with its first receipt. Free; no row is read.

        `NotFound` also where she may not ask about its table, or about all its rows, any more. `now` is when she asks.
        """
        self._check_right(analyst, "recall")
        return self._recall(digest, analyst, now or self._clock())

    def estimate(self, request: RequestLike, *, analyst: str, params: Params | None = None) -> Estimate:
        """What a request would cost this analyst and how accurate it would be. Free; no row is read."""
        self._check_right(analyst, "estimate")
        request, now = bind_request(request, params), self._clock()
        try:
            return self._estimate(request, analyst, now)
        except (NotSupported, TableNotFound) as refusal:
            self._planner.offer(refusal, request, analyst, now)
            raise

    def _estimate(self, request: RequestLike, analyst: str, now: datetime) -> Estimate:
        if self._answer_free(request, analyst, now) is not None:
            left = self._budget(analyst, now).accounts[0].left
            free = ChargeRange(NOTHING, NOTHING)
            return Estimate(mechanism="policy", charge=free, error95={}, left=left, answers_left=None)
        planned = self._cheapest(self._planner.plan(request, analyst, now))
        if not planned.parts:
            return self._estimate_planned(planned, now)
        return join_estimates(planned, [self._estimate_planned(part, now) for part in planned.parts], self.ledger, now)

    def _estimate_planned(self, planned: PlannedRequest, now: datetime) -> Estimate:
        plan, ledger = planned.plan, self._runtime.ledger
        mechanism = plan.mechanism

        def outcomes(seen: int) -> Iterator[tuple[Step, ...]]:
            yield plan.worst
            # The shortest list is the cheapest: noise ends it after the rows that the analyst has seen.
            shortest = mechanism.steps(seen, stopped=True) if seen < plan.k else ()
            if shortest and shortest[-1].kind == "stop":
                yield (*shortest, *plan.further_steps(seen))

        worst, *others = ledger.prices(planned.debit, outcomes)
        shape, (error95, visible, _) = planned.shape, plan.accuracy
        return Estimate(
            mechanism=" + ".join([mechanism.name, *dict.fromkeys(draw.measure.name for draw in plan.further)]),
            charge=ChargeRange(min([worst, *others], key=lambda charge: (charge.information, charge.calls)), worst),
            error95=error95 if shape is None else shape.errors(error95),
            visible=visible and Visible(*visible),
            left=ledger.standings([planned.debit.own], now)[0].left,
            answers_left=count_answers([planned.debit], worst, ledger, now),
            notes=[*find_notes(planned)],
        )

    def budget(self, analyst: str, *, now: datetime | None = None) -> BudgetReport:
        """What an analyst may still spend: the own account, the organisation's, and those of capped tables."""
        return self._budget(analyst, now or self._clock())

    def _budget(self, analyst: str, now: datetime) -> BudgetReport:
        accounts = budget_accounts(self.config, analyst)
        standings = self._runtime.ledger.standings(accounts, now)
        return BudgetReport.of_standings(analyst, accounts[0].budget.mode, standings)

    def charges(self, analyst: str, *, cursor: str | None = None, rows: int = 100) -> Charges:
        """What an analyst's requests have cost, the latest first. `cursor` is the `next` of the page before."""
        self.config.analyst(analyst)
        most = whole("rows", rows, at_least=1, at_most=10_000)
        return Charges.from_attributes(self._runtime.ledger.history(analyst, before=read_cursor(cursor), rows=most))

    def questions(
        self, analyst: str, *, cursor: str | None = None, rows: int = 100, role: Role | None = None
    ) -> Questions:
        """What an analyst asked, what it cost, and whether its answer can still be recalled; the latest first.

        `cursor` is the `next` of the page before. A `role` may narrow what she may recall.
        """
        self.config.analyst(analyst)
        return self._recalls.questions(Movements(analyst), self._clock(), cursor=cursor, rows=rows, role=role)

    def question(self, digest: str, *, analyst: str) -> KeptRequest:
        """The request behind an answer of an analyst, and the same as SQL."""
        return self._recalls.question(digest, analyst)

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

    def describe_report(self, report: str, *, analyst: str) -> ReportInfo:
        """What an analyst may ask of a report, and how far its data is complete."""
        self._check_right(analyst, "report")
        who, tables = self.config.analyst(analyst), self.config.tables_of(analyst)
        return self._reports.describe(report, who.entities, self._clock(), tables)

    def entities(
        self,
        report: str,
        under: Sequence[str] = (),
        *,
        analyst: str,
        find: str | None = None,
        cursor: str | None = None,
        rows: int = 100,
    ) -> EntityPage:
        """The entities that an analyst may ask a report about, level by level.

        `under` is the path of one, from the top down; without it, her topmost entities. With `find`, all below it whose
        names begin with this text, in any case. `cursor` is the `next` of the page before.
        """
        self._check_right(analyst, "report")
        who, tables = self.config.analyst(analyst), self.config.tables_of(analyst)
        skip, most = read_cursor(cursor) or 0, whole("rows", rows, at_least=1, at_most=10_000)
        return self._reports.list_entities(
            *(report, under, who.entities, self._clock(), tables), find=find, skip=skip, rows=most
        )

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
            policy, limit = self.policy_of(analyst, role), self.config.tables_of(analyst)
        tables, public = describe_tables(policy)
        return Tables(tables, [*self._reports.rows(limit)], public)

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
            tables=[*self.policy_of(analyst, role).tables],
            reports=[*self._reports.of_tables(limit)] if role in RIGHTS["report"] else [],
            entities=entities,
            where=who.where,
            rights=[right for right, roles in RIGHTS.items() if role in roles],
        )

    def guarantee(self, analyst: str | None = None, *, role: Role | None = None) -> Guarantee:
        """What an analyst's accounts and reports promise; without an analyst, what all of them and releases do.

        `sources` has one total for each source of rows. A `role` may narrow what the analyst is counted with.
        """
        if analyst is not None:
            self.config.analyst(analyst)
        views = self._catalog.views()
        return find_guarantee(self.config, self._reports.promises, views, analyst=analyst, role=role)

    def policy_of(self, analyst: str, role: Role | None) -> Policy:
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

    def check_part(self, part: SessionPart) -> None:
        """Raise unless this part is in order. No row is read."""
        (self._runtime.ledger if part == "ledger" else self._catalog).check()

    def _passes(self, part: SessionPart) -> bool:
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

    def _answer_again(self, earlier: list[EarlierCall], request: RequestLike, analyst: str, now: datetime) -> Answer:
        """The answer of an earlier call. Where it was not answered yet, it is answered now."""
        asked = None
        with suppress(Refused):  # under a policy that refuses it by now, the answer is the rows of its core
            asked = self._planner.plan(request, analyst, now)
        if len(earlier) == 1:
            return self._answer_part_again(earlier[0], asked, request, analyst, now)
        if asked is None or len(asked.parts) != len(earlier):
            raise Conflict(CHANGED)
        return join_answers(asked, [self._answer_part_again(each, None, request, analyst, now) for each in earlier])

    def _answer_part_again(
        self, earlier: EarlierCall, asked: PlannedRequest | None, request: RequestLike, analyst: str, now: datetime
    ) -> Answer:
        reply = self._recall_call(earlier, asked, analyst, now)
        if reply is not None:
            return reply
        reservation = self._runtime.ledger.reservation(self._own(analyst), earlier.digest)
        planned = None if reservation is None else self._planner.resume(reservation, now)
        if planned is not None:
            answer(planned, self._runtime, now, resume=True)
        reply = self._recall_call(earlier, asked, analyst, now)  # as it first left, also if another thread settled it
        if reply is None:
            self._planner.plan(request, analyst, now)  # raises where it may not be asked any more
            raise Conflict(CLOSED_CALL, reused=True)
        return reply

    def _recall_call(
        self, earlier: EarlierCall, asked: PlannedRequest | None, analyst: str, now: datetime
    ) -> Answer | None:
        """The answer of an earlier call with the receipt that the call had: the first one, or that of a repeat.

        The answer of its core is stored; what the statement `asked` makes of that is made again.
        """
        try:
            reply = self._recall(earlier.digest, analyst, now, asked)
        except NotFound:
            return None
        if not earlier.free:
            return reply
        left = self._budget(analyst, now).accounts[0].left
        return replace_fields(reply, receipt=replace_fields(reply.receipt, charge=NOTHING, left=left, repeat=True))

    def _recall(self, digest: str, analyst: str, now: datetime, asked: PlannedRequest | None = None) -> Answer:
        return self._recalls.recall(digest, analyst, now, finish=None if asked is None else asked.finish)

    def _own(self, analyst: str) -> str:
        """The name of an analyst's own account."""
        return accounts_of(self.config, analyst)[0].name

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
