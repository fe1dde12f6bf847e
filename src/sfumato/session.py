"""Embedded use: one configuration, opened. `sf.open("sfumato.toml")`.

A session wires the parts together and knows who asks; every answer comes from `sfumato.answer`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any, Self, TypeAlias, Unpack

from sfumato.accounting import NOTHING, Charge
from sfumato.accounting.numbers import whole
from sfumato.answer import PlannedRequest, Runtime, answer, answered, cell
from sfumato.catalog import Catalog
from sfumato.config import Config, load_config, noise_key
from sfumato.errors import Conflict, Failed, InvalidArgument, NotFound, NotSupported, SfumatoError
from sfumato.ledger import (
    Account,
    EarlierCall,
    IdempotentCall,
    Ledger,
    Reservation,
    Settled,
    accounts_of,
    open_ledger,
    report,
)
from sfumato.ledger.cells import Seals
from sfumato.mechanisms import Step, context
from sfumato.query.listing import Listing, read_listing
from sfumato.query.plan import plan
from sfumato.query.policy import Policy, TablePolicy
from sfumato.query.reports.request import ReportKeywords, report_question, takes_report_keywords
from sfumato.query.request import NOT_A_REQUEST, Request
from sfumato.query.serial import read_request
from sfumato.query.sql import read_sql
from sfumato.query.values import json_value
from sfumato.reports import Reports
from sfumato.reports.reseal import Reseal
from sfumato.wire import Answer, BudgetReport, Charges, Estimate, Report, TableRow, Tables

RequestLike: TypeAlias = str | Request | Mapping[str, Any]

POLICY = "policy"
FROM_POLICY = "the values that the policy lists; no row was read"
CLOSED_CALL = "the call with this Idempotency-Key was closed without an answer; ask again with a new key"

_DIGEST = re.compile("sha256:[0-9a-f]{64}")
_PLANS, _LARGEST_DOMAIN, _LONGEST = 512, 1000, 4096  # plans that are kept, unless they or their question are large


class Session:
    """The doors of one configuration. Thread-safe; a context manager."""

    def __init__(
        self,
        config: str | os.PathLike[str] | Config = "sfumato.toml",
        *,
        clock: Callable[[], datetime] | None = None,
        finish: bool = True,
    ) -> None:
        """Open a configuration for asking. Requests that were reserved and never answered are finished first."""
        self.config = config if isinstance(config, Config) else load_config(config)
        self._clock = clock or _utc_now
        key = noise_key.read_key(self.config.key_file)
        self._catalog = Catalog(self.config)
        self._plans = _Plans()
        self._ledger: Ledger | None = None
        try:
            self._catalog.policy(self._clock())  # a configuration that does not fit the live schema is told now
            self._ledger = open_ledger(self.config.ledger, self.config.folder)
            engines = {name: self._catalog.engine(name) for name in self.config.tables}
            self._desk = Runtime(engines, self._ledger, key, noise_key.epoch(key), self._clock)
            self._reports = Reports(self.config, self._catalog, Seals(self._ledger), key, self._clock)
            if finish:
                self.finish()
        except BaseException:
            self.close()
            raise

    def ask(self, question: RequestLike, *, analyst: str, call: IdempotentCall | None = None) -> Answer:
        """A private answer to SQL, to a `TopK`, `Histogram` or `Total`, or to a request as JSON.

        A `call` that was made before gives what it gave then, even where the data has a new version since.
        """
        if call is not None and (begun := self._desk.ledger.called(self._own(analyst), call)) is not None:
            return self._called_again(begun, analyst)
        listing = self._listing(question)
        if listing is not None:
            return self._listed(listing, analyst)
        inquiry = self._inquiry(question, analyst)
        if call is None:
            return answer(inquiry, self._desk)
        found = answer(replace(inquiry, call=call), self._desk)
        return found if not found.receipt.repeat else self._receipted(call, found, analyst)

    def recall(self, digest: str, *, analyst: str) -> Answer:
        """An answer that this analyst was given before, with its first receipt. Free; no row is read."""
        settled = None
        if _DIGEST.fullmatch(digest):  # a store may not take any text
            settled = self._desk.ledger.recall(
                self._own(analyst), digest, lambda table: self._paying(analyst, table), self._clock()
            )
        if settled is None:
            raise NotFound("there is no such answer; ask the question again, which is free where it was answered")
        return answered(settled)

    def estimate(self, question: RequestLike, *, analyst: str) -> Estimate:
        """What a question would cost this analyst and how accurate it would be. Free; no row is read."""
        if self._listing(question) is not None:
            return Estimate(POLICY, NOTHING, NOTHING, {}, self.budget(analyst).accounts[0].left, None)
        inquiry = self._inquiry(question, analyst)
        mechanism, k, ledger = inquiry.plan.mechanism, inquiry.plan.k, self._desk.ledger

        def outcomes(seen: int) -> Iterator[tuple[Step, ...]]:
            yield mechanism.worst
            # The shortest list is the cheapest: one that noise ends where hers did.
            shortest = mechanism.steps(seen, stopped=True) if seen < k else ()
            if shortest and shortest[-1].kind == "stop":
                yield shortest

        worst, *others = ledger.prices(inquiry.ask(self._desk.epoch), outcomes)
        standings = ledger.left(inquiry.accounts, self._clock())
        enforced = [
            standing.left
            for standing, account in zip(standings, inquiry.accounts, strict=True)
            if account.budget.mode == "enforce"
        ]
        shown = mechanism.error95 if inquiry.plan.counts else None
        return Estimate(
            mechanism=mechanism.name,
            least=min([worst, *others], key=lambda charge: (charge.information, charge.calls)),
            worst=worst,
            error95={} if shown is None else {inquiry.plan.measure: shown},
            left=standings[0].left,
            answers_left=min((_times(left, worst) for left in enforced), default=None) if worst else None,
        )

    def budget(self, analyst: str) -> BudgetReport:
        """What an analyst may still spend: her own account, her organisation's, and those of capped tables."""
        return report(self.config, self._desk.ledger, analyst, self._clock())

    def charges(self, analyst: str, *, cursor: str | None = None, rows: int = 100) -> Charges:
        """What an analyst's questions have cost, the latest first. `cursor` is the `next` of the page before."""
        self.config.analyst(analyst)
        if cursor is not None and not (
            isinstance(cursor, str) and cursor.isascii() and cursor.isdigit() and len(cursor) < 19
        ):
            raise InvalidArgument("cursor", "must be the `next` of the page before")
        before = None if cursor is None else int(cursor)
        return self._desk.ledger.history(analyst, before=before, rows=whole("rows", rows, at_least=1, at_most=10_000))

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
        question, reader = report_question(report, keywords), self.config.analyst(analyst)
        return self._reports.report(question, reader.entities, self.budget(analyst).accounts[0])

    def reseal(
        self,
        report: str | None = None,
        *,
        start: str | date,
        end: str | date,
        entity: Mapping[str, str] | None = None,
        dry: bool = False,
    ) -> Reseal:
        """Let rows in that came too late for the numbers of [start, end): these are drawn anew when next asked for.

        For owners: it is another version, and each adds the whole guarantee of a version once more, up to what the
        report has promised; `NotSupported` beyond that. With an entity, all above it and all below it go with it: its
        late rows are in their numbers too. With `dry` nothing is changed, and the cost is told.
        """
        return self._reports.reseal(report, start=start, end=end, entity=entity, dry=dry)

    def tables(self) -> Tables:
        """What may be asked about."""
        tables = [_described(table) for table in self._catalog.policy(self._clock()).tables.values()]
        return Tables(tables, tuple(self._reports.rows()))

    @property
    def ledger(self) -> Ledger:
        """The books behind this session."""
        return self._desk.ledger

    def now(self) -> datetime:
        """The moment, by the clock of this session."""
        return self._clock()

    def check(self) -> dict[str, str]:
        """Whether the parts that every answer needs are in order, each "ok" or not. No row is read."""
        parts = {"ledger": self._desk.ledger.check, "engines": self._catalog.check}
        return {name: _fine(check) for name, check in parts.items()}

    def finish(self, which: Callable[[Reservation], bool] = lambda _: True) -> int:
        """Answer what was reserved and never answered, so that asking again is free; how many were finished.

        Where the key or the policy is no longer the one it was reserved under, no such answer can be made any more,
        and its worst case is spent. `which` leaves alone what may be in the hands of another process.
        """
        finished = 0
        for hold in self._desk.ledger.holds():
            if hold.request.get("type") == "release" or not which(hold):
                continue  # whoever began a release runs it again, by its name
            try:
                inquiry = self._resumed(hold)
                if inquiry is None:
                    self._desk.ledger.keep(hold, self._clock())
                    continue
                answer(inquiry, self._desk, resume=True)
                finished += 1
            except SfumatoError:
                continue  # it stays reserved: the next start, or the next identical request, tries again
        return finished

    def _resumed(self, hold: Reservation) -> PlannedRequest | None:
        """The inquiry behind a reservation, if it still means the same."""
        try:
            policy = self._catalog.policy_at(hold.request["table"], hold.version, self._clock())
            inquiry = self._planned(read_request(hold.request, policy), policy, hold.analyst)
        except Failed:
            raise  # which says nothing of the policy
        except SfumatoError:
            return None
        same = (hold.digest, hold.epoch) == (inquiry.plan.digest, self._desk.epoch)
        return inquiry if same else None

    def _called_again(self, begun: EarlierCall, analyst: str) -> Answer:
        """What a call has begun: its answer, or the rest of the way to it."""
        found = self._as_called(begun, analyst)
        if found is not None:
            return found
        hold = self._desk.ledger.hold(self._own(analyst), begun.digest)
        inquiry = None if hold is None else self._resumed(hold)
        if inquiry is not None:
            answer(inquiry, self._desk, resume=True)
        found = self._as_called(begun, analyst)  # as it first left, whoever settled it in the meantime
        if found is None:
            raise Conflict(CLOSED_CALL, reused=True)
        return found

    def _receipted(self, call: IdempotentCall, found: Answer, analyst: str) -> Answer:
        """A repeat that another attempt of the same call has paid for is that attempt's answer."""
        begun = self._desk.ledger.called(self._own(analyst), call)
        return found if begun is None or begun.free else self._as_called(begun, analyst) or found

    def _as_called(self, begun: EarlierCall, analyst: str) -> Answer | None:
        """An answer with the receipt that the call had: its first one, or that of a repeat."""
        try:
            found = self.recall(begun.digest, analyst=analyst)
        except NotFound:
            return None
        if not begun.free:
            return found
        left = self.budget(analyst).accounts[0].left
        return replace(found, receipt=replace(found.receipt, charge=NOTHING, left=left, repeat=True))

    def _listing(self, question: RequestLike) -> Listing | None:
        """The listing that a question in SQL asks for, if it is one."""
        sql = question.get("sql") if isinstance(question, Mapping) and len(question) == 1 else question
        return read_listing(sql, self._catalog.policy(self._clock())) if isinstance(sql, str) else None

    def _listed(self, listing: Listing, analyst: str) -> Answer:
        """What the policy says, for nothing: no row is read, so that there is nothing to hide and nothing to pay."""
        table = self._catalog.policy(self._clock()).table(listing.table)
        rows = [{listing.column: cell(value)} for value in listing.values]
        digest = hashlib.sha256(context(table=table.name, listing=json.dumps(rows))).hexdigest()
        body = {
            "columns": {listing.column: table.column(listing.column).type},
            "rows": rows,
            "stopped": False,
            "receipt": {
                "mechanism": POLICY,
                "unit": table.privacy_unit,
                "error95": {},
                "data_version": table.version,
                "digest": f"sha256:{digest}",
            },
            "notes": [FROM_POLICY],
        }
        standing = self.budget(analyst).accounts[0]
        return answered(Settled(json.dumps(body), NOTHING, standing.left, standing.resets, repeat=False))

    def _inquiry(self, question: RequestLike, analyst: str) -> PlannedRequest:
        policy = self._catalog.policy(self._clock())
        return self._plans.get(question, analyst, policy) or self._plans.keep(
            question, policy, self._planned(_read(question, policy), policy, analyst)
        )

    def _planned(self, request: Request, policy: Policy, analyst: str) -> PlannedRequest:
        prices = self.config.budgets[self.config.analyst(analyst).budget].prices
        made = plan(request, policy, prices, self._desk.epoch)
        return PlannedRequest(analyst, accounts_of(self.config, analyst, made.table), made)

    def _own(self, analyst: str) -> str:
        """The name of an analyst's own account."""
        return accounts_of(self.config, analyst)[0].name

    def _paying(self, analyst: str, table: str) -> tuple[Account, ...]:
        """Who would pay for a question about a table, which may not be in the configuration any more."""
        return accounts_of(self.config, analyst, table if table in self.config.tables else None)

    def close(self) -> None:
        """Let go of the engines and the ledger. What is being answered stays reserved, and is finished next time."""
        self._catalog.close()
        if self._ledger is not None:
            self._ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _fine(check: Callable[[], None]) -> str:
    try:
        check()
    except SfumatoError:
        return "not ok"
    return "ok"


class _Plans:
    """The latest questions with their plans: reading SQL takes longer than looking a repeat up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], tuple[Policy, PlannedRequest]] = OrderedDict()

    def get(self, question: RequestLike, analyst: str, policy: Policy) -> PlannedRequest | None:
        name = _spelled(question)
        with self._lock:
            found = None if name is None else self._kept.get((analyst, name))
            if found is None or found[0] is not policy:
                return None
            self._kept.move_to_end((analyst, name or ""))
            return found[1]

    def keep(self, question: RequestLike, policy: Policy, inquiry: PlannedRequest) -> PlannedRequest:
        name = _spelled(question)
        if name is not None and len(name) <= _LONGEST and len(inquiry.plan.domain or ()) <= _LARGEST_DOMAIN:
            with self._lock:
                self._kept[inquiry.analyst, name] = policy, inquiry
                while len(self._kept) > _PLANS:
                    self._kept.popitem(last=False)
        return inquiry


def _spelled(question: RequestLike) -> str | None:
    """A question as text that no other question has; None where it has none."""
    if isinstance(question, str):
        return f"sql {question}"
    try:
        return json.dumps(question, separators=(",", ":")) if type(question) is dict else None
    except (TypeError, ValueError, RecursionError):
        return None


def _read(question: RequestLike, policy: Policy) -> Request:
    if isinstance(question, str):
        return read_sql(question, policy)
    if isinstance(question, Mapping):
        return read_request(question, policy)
    if not isinstance(question, Request):
        raise NotSupported(NOT_A_REQUEST)
    return question


def _described(table: TablePolicy) -> TableRow:
    columns = [
        {
            "name": column.name,
            "type": column.type,
            "domain": "unknown" if column.domain is None else [json_value(value) for value in column.domain],
            "max_groups": column.max_groups,
        }
        for column in table.columns.values()
    ]
    measures = [
        {"name": measure.name, "counts": measure.counts, "max_per_unit": measure.max_per_unit}
        for measure in table.measures.values()
    ]
    return TableRow(table.name, table.privacy_unit, columns, measures)


def _times(left: Charge, price: Charge) -> int:
    """How often a price fits into what is left."""
    pairs = (left.information, price.information), (left.calls, price.calls)
    return min(max(int(amount // each), 0) for amount, each in pairs if each)


def _utc_now() -> datetime:
    return datetime.now(UTC)
