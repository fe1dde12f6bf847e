"""Answers: a planned request is bought on the one paid path, and what it reveals becomes an answer.

    request -> canonical form -> plan -> reserve -> engine -> mechanism -> settle + store -> answer

Exact counts live between the engine and the mechanism, inside `_compute`, and nowhere else: not in the ledger, not in
an exception, not in a log.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

from sfumato.accounting import NOTHING
from sfumato.catalog import Catalog
from sfumato.config import Config
from sfumato.errors import BudgetExhausted, Failed, NotSupported, SfumatoError
from sfumato.ledger import Debit, Reservation, Revealed, accounts_of
from sfumato.mechanisms import Release, Rng, context
from sfumato.query.listing import Listing
from sfumato.query.plan import Key, Plan, plan
from sfumato.query.policy import Policy, TablePolicy
from sfumato.query.predicate import EVERYTHING
from sfumato.query.request import NOT_A_REQUEST, Request, RequestLike
from sfumato.query.serial import read_request
from sfumato.query.sql import read_sql
from sfumato.query.values import read_value
from sfumato.spending import Purchase, Runtime, spend, without_frames
from sfumato.wire import AccountStanding, Answer, Note, Receipt, ReceiptCore, StoredAnswer, Visible, note
from sfumato.wire import notes as codes


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """A request with its plan, and what the ledger is asked to debit for it.

    `histogram` is the same request, read off the histogram of its whole domain, where picks cost less than that.
    """

    plan: Plan
    debit: Debit
    histogram: PlannedRequest | None = None


@without_frames
def answer(planned: PlannedRequest, runtime: Runtime, now: datetime, *, resume: bool = False) -> Answer:
    """Answer, or raise: `Refused` changes nothing, `Failed` keeps what was reserved.

    With `resume`, only what is reserved already is answered. The guarantee is that of `spending.spend`.
    """
    plan, debit, revealed = planned.plan, planned.debit, dict[str, StoredAnswer]()
    purchase = Purchase(debit, partial(_compute, plan, runtime), partial(_reveal, planned, revealed))
    try:
        settled = spend(purchase, runtime.ledger, runtime.flights, now, resume=resume)
    except BudgetExhausted as refusal:
        raise _add_way_out(refusal, debit, plan, runtime, now) from None
    stored = revealed.get(settled.body) or StoredAnswer.from_json(settled.body)
    return stored.complete(settled)


def answer_listing(listing: Listing, policy: Policy, standing: AccountStanding) -> Answer:
    """The values that the policy lists. Free: no row is read, so there is nothing to hide."""
    table = policy.table(listing.table)
    rows: list[dict[str, Any]] = [{listing.column: cell(value)} for value in listing.values]
    digest = hashlib.sha256(context(table=table.name, listing=json.dumps(rows))).hexdigest()
    receipt = Receipt(
        mechanism="policy",
        unit=table.privacy_unit,
        error95={},
        data_version=table.version,
        digest=f"sha256:{digest}",
        charge=NOTHING,
        left=standing.left,
        resets=standing.resets,
        repeat=False,
    )
    columns = {listing.column: table.column(listing.column).type}
    return Answer(columns=columns, rows=rows, stopped=False, receipt=receipt, notes=[note(codes.FROM_POLICY)])


def _compute(plan: Plan, runtime: Runtime, nonce: bytes) -> str:
    """Exact counts from the engine go in, the noisy ones come out as the text to store."""
    rows = runtime.engines[plan.table].run(plan.query)
    exact: Any  # counts by key: of the whole public domain, or the largest of a private one in their order
    if plan.domain is None:
        exact = [(row[0] if len(row) == 2 else row[:-1], row[-1]) for row in rows]
    else:
        counts = {key: row[-1] for row in rows if (key := _key(plan, row[:-1])) is not None}
        exact = {key: counts.get(key, 0) for key in plan.domain}
    release = plan.full.release(exact, Rng.keyed(runtime.key, context(atom=plan.atom, nonce=nonce)))
    noisy = [[[cell(part) for part in (key if isinstance(key, tuple) else (key,))], n] for key, n in release.rows]
    ending = {"stopped": release.stopped, "complete": release.complete}
    return json.dumps({"rows": noisy, **ending}, separators=(",", ":"))


def _key(plan: Plan, cells: tuple[Any, ...]) -> Key | None:
    """None for what no domain holds: a number of too many digits, which the engine took for one of the domain."""
    triples = zip(plan.columns, plan.types, cells, strict=True)
    try:
        return tuple(read_value(name, kind, cell) for name, kind, cell in triples)
    except NotSupported:
        if "number" in plan.types:
            return None
        raise


def cell(value: Any) -> Any:
    """A value as answers are stored and sent."""
    if isinstance(value, date):
        return value.isoformat()
    # + 0.0, because the engine groups -0.0 with 0.0 and shows the one it met first: one person's row.
    return float(value) + 0.0 if isinstance(value, Fraction | Decimal | float) else value


def _reveal(planned: PlannedRequest, revealed: dict[str, StoredAnswer], payload: str) -> Revealed:
    """What this request shows of a stored atom: a prefix of its rows, with their counts or without.

    The answer is added to `revealed`, by its JSON.
    """
    plan, stored = planned.plan, json.loads(payload)
    release: Release[tuple[Any, ...]] = Release(
        mechanism=plan.full.name,
        rows=tuple([(tuple(cells), count) for cells, count in stored["rows"]]),
        steps=plan.full.steps(len(stored["rows"]), stopped=stored["stopped"]),
        reserve=plan.full.reserve,
        stopped=stored["stopped"],
        complete=stored["complete"],
        error95=plan.full.error95,
    )
    shown = release.prefix(plan.k)
    if not plan.counts:
        shown = shown.without_counts()
    columns = dict(zip(plan.columns, plan.types, strict=True))
    rows = [dict(zip(columns, cells, strict=True)) for cells, _ in shown.rows]
    if plan.counts:
        columns[plan.measure] = "integer"
        for row, (_, count) in zip(rows, shown.rows, strict=True):
            row[plan.measure] = count
    receipt = ReceiptCore(
        mechanism=shown.mechanism,
        unit=plan.unit,
        error95={plan.measure: shown.error95} if plan.counts and shown.error95 is not None else {},
        data_version=plan.data_version,
        digest=plan.digest,
        visible=None if plan.full.visible is None else Visible(*plan.full.visible),
    )
    notes: list[Note | str] = [*_notes(planned, shown)]
    stored_answer = StoredAnswer(columns=columns, rows=rows, stopped=shown.stopped, receipt=receipt, notes=notes)
    body = stored_answer.to_json().decode()
    revealed[body] = stored_answer
    return Revealed(body, shown.steps)


def _notes(planned: PlannedRequest, shown: Release[Any]) -> Iterator[Note]:
    plan = planned.plan
    if plan.domain is None:
        yield note(codes.SMALL_GROUPS_ABSENT)
    if plan.domain is None and plan.counts and plan.mechanism.name != "unknown_gumbel":
        yield note(codes.NEAR_THRESHOLD)
    if plan.domain is not None and not shown.complete:
        yield note(codes.FIRST_GROUPS, shown=len(shown.rows), groups=len(plan.domain))
    if plan.mechanism.tau > 1:
        yield note(codes.CAPPED, tau=plan.mechanism.tau)
    if planned.debit.row_filter:
        yield note(codes.OWN_ROWS)
    if planned.debit.own.budget.mode == "track":
        yield note(codes.TRACKED)


def _add_way_out(
    refusal: BudgetExhausted, debit: Debit, plan: Plan, runtime: Runtime, now: datetime
) -> BudgetExhausted:
    """The refusal with the longest list that would still fit, also as a request."""
    longest = runtime.ledger.longest_fitting(
        plan.k - 1, lambda k: replace(debit, worst=plan.mechanism.at(k).worst), now
    )
    instead = [] if longest is None else [{**plan.request, "k": longest}]
    return BudgetExhausted(refusal.asked, refusal.left, refusal.account, refusal.resets, longest, instead)


def filter_text(table: TablePolicy) -> str:
    """The row filter of a table as the ledger stores it with an answer; "" where there is none."""
    return "" if table.row_filter == EVERYTHING else str(table.row_filter)


class Planner:
    """From what was asked to a planned request. Keeps the latest plans: reading SQL takes longer than a repeat."""

    MAX_PLANS, MAX_DOMAIN, MAX_SPELLING = 512, 1000, 4096  # large plans and long requests are not kept

    def __init__(self, config: Config, catalog: Catalog, epoch: str) -> None:
        self._config, self._catalog, self._epoch = config, catalog, epoch
        self._lock = threading.Lock()
        self._plans: OrderedDict[tuple[str, str], tuple[Policy, PlannedRequest]] = OrderedDict()

    def plan(self, request: RequestLike, analyst: str, now: datetime) -> PlannedRequest:
        """The plan of a request under what the analyst may ask at `now`, or a refusal in the analyst's words."""
        policy = self._catalog.policy_of(analyst, now)
        spelling = f"sql {request}" if isinstance(request, str) else None  # a text that no other request has
        if type(request) is dict:
            with suppress(TypeError, ValueError, RecursionError):
                spelling = json.dumps(request, separators=(",", ":"))
        with self._lock:
            known = None if spelling is None else self._plans.get((analyst, spelling))
            if known is not None and known[0] is policy:
                self._plans.move_to_end((analyst, spelling or ""))
                return known[1]
        if isinstance(request, str):
            asked = read_sql(request, policy)
        elif isinstance(request, Mapping):
            asked = read_request(request, policy)
        elif isinstance(request, Request):
            asked = request
        else:
            raise NotSupported(NOT_A_REQUEST)
        planned = self._plan(asked, policy, analyst)
        if (
            spelling is not None
            and len(spelling) <= self.MAX_SPELLING
            and len(planned.plan.domain or ()) <= self.MAX_DOMAIN
        ):
            with self._lock:
                self._plans[analyst, spelling] = policy, planned
                while len(self._plans) > self.MAX_PLANS:
                    self._plans.popitem(last=False)
        return planned

    def resume(self, reservation: Reservation, now: datetime) -> PlannedRequest | None:
        """The planned request behind a reservation, if it still means the same."""
        try:
            asked, analyst = reservation.request, reservation.analyst
            policy = self._catalog.policy_at(analyst, asked["table"], reservation.version, now)
            planned = self._plan(read_request(asked, policy), policy, analyst)
        except Failed:
            raise  # which says nothing about the policy
        except SfumatoError:
            return None
        same = (reservation.digest, reservation.epoch) == (planned.plan.digest, self._epoch)
        return planned if same else None

    def _plan(self, request: Request, policy: Policy, analyst: str, *, whole_domain: bool = False) -> PlannedRequest:
        prices = self._config.budgets[self._config.analyst(analyst).budget].prices
        query_plan = plan(request, policy, prices, self._epoch, whole_domain=whole_domain)
        debit = Debit(
            analyst=analyst,
            accounts=accounts_of(self._config, analyst, query_plan.table),
            digest=query_plan.digest,
            atom=query_plan.atom,
            epoch=self._epoch,
            version=query_plan.data_version,
            request=query_plan.request,
            worst=query_plan.mechanism.worst,
            row_filter=filter_text(policy.tables[query_plan.table]),
        )
        by_picks = query_plan.mechanism.name == "known_gumbel"
        histogram = self._plan(request, policy, analyst, whole_domain=True) if by_picks else None
        return PlannedRequest(query_plan, debit, histogram)
