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
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import islice
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace as replace_fields

from sfumato.accounting import NOTHING
from sfumato.catalog import Catalog
from sfumato.config import Config
from sfumato.errors import BudgetExhausted, Failed, NotSupported, SfumatoError, TableNotFound
from sfumato.ledger import Debit, IdempotentCall, Reservation, Revealed, accounts_of
from sfumato.measured import cell, compute_draw, domain_key, measure_notes, show_draw
from sfumato.mechanisms import Release, Rng, context
from sfumato.mechanisms.known_domain import PublicGroups
from sfumato.postprocess import Shape, compute, describe, find_shape, list_rows
from sfumato.query.listing import Listing
from sfumato.query.metadata import RELATION, Metadata, read_explained
from sfumato.query.plan import Plan, plan
from sfumato.query.policy import Policy, TablePolicy
from sfumato.query.predicate import EVERYTHING
from sfumato.query.request import REQUESTS, Request, RequestLike
from sfumato.query.serial import read_question, read_request
from sfumato.query.sql import PublicQuery, write_select
from sfumato.query.ways_out import ways_out
from sfumato.spending import Purchase, Runtime, spend, without_frames
from sfumato.wire import AccountStanding, Answer, Note, ReceiptCore, StoredAnswer, Visible, note
from sfumato.wire import notes as codes
from sfumato.wire.frames import select_rows


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """A request with its plan, and what the ledger is asked to debit for it.

    `histogram` is the same request, read off the histogram of its whole domain, where picks cost less than that.
    `shape` is how the answer is made of the rows; None where it is these rows. `notes` are about the statement. Of a
    statement with several cores, `parts` are all of them, and this is the first.
    """

    plan: Plan
    debit: Debit
    histogram: PlannedRequest | None = None
    shape: Shape | None = None
    notes: tuple[Note, ...] = ()
    parts: tuple[PlannedRequest, ...] = ()

    def under(self, call: IdempotentCall) -> PlannedRequest:
        """The same for a call with an idempotency key."""
        parts = tuple(part.under(call.part(place)) for place, part in enumerate(self.parts))
        return replace(self, debit=replace(self.debit, call=call), parts=parts)

    def finish(self, stored: StoredAnswer) -> StoredAnswer:
        """What the statement makes of the stored answer to its core."""
        shaped = stored if self.shape is None else self.shape.apply(stored, self.plan.error95_among)
        return replace_fields(shaped, notes=[*shaped.notes, *self.notes])


@without_frames
def answer(planned: PlannedRequest, runtime: Runtime, now: datetime, *, resume: bool = False) -> Answer:
    """Answer, or raise: `Refused` changes nothing, `Failed` keeps what was reserved.

    With `resume`, only what is reserved already is answered. The guarantee is that of `spending.spend`.
    """
    plan, debit, revealed = planned.plan, planned.debit, dict[str, StoredAnswer]()
    purchase = Purchase(
        debit,
        partial(_compute, plan, runtime),
        partial(_reveal, planned, revealed),
        draws=tuple(partial(compute_draw, plan, draw, runtime) for draw in plan.further),
    )
    try:
        settled = spend(purchase, runtime.ledger, runtime.flights, now, resume=resume)
    except BudgetExhausted as refusal:
        raise _add_way_out(refusal, debit, plan, runtime, now) from None
    stored = revealed.get(settled.body) or StoredAnswer.from_json(settled.body)
    if planned.shape is not None or planned.notes:
        stored = planned.finish(stored)
    return stored.complete(settled)


def answer_listing(listing: Listing, policy: Policy, standing: AccountStanding) -> Answer:
    """The values that the policy lists. Free: no row is read, so there is nothing to hide."""
    table = policy.table(listing.table)
    values = [cell(value) for value in listing.values]
    in_policy = [{listing.column: value} for value in values]
    encoded = context(table=table.name, listing=json.dumps(in_policy))
    core = _free_receipt(encoded, unit=table.privacy_unit, version=table.version)
    columns = {listing.name: table.column(listing.column).type}
    rows: list[dict[str, Any]] = [{listing.name: value} for value in values]
    said: list[Note | str] = [note(codes.FROM_POLICY)]
    return StoredAnswer(columns=columns, rows=rows, stopped=False, receipt=core, notes=said).complete(_free(standing))


def answer_public(query: PublicQuery, standing: AccountStanding) -> Answer:
    """What a query makes of rows that are public. Free: no row of a table of people is read."""
    columns = describe(
        query.rest, [output.name for output in query.outputs], sum(len(each.columns) for each in query.public)
    )
    rows = compute(query.rest, columns, list_rows([], query.public))
    versions = [*dict.fromkeys(table.version for table in query.public)]
    core = _free_receipt(context(public=query.rest.text, versions=versions), version=", ".join(versions))
    said: list[Note | str] = [note(codes.PUBLIC)]
    return StoredAnswer(columns=columns, rows=rows, stopped=False, receipt=core, notes=said).complete(_free(standing))


def answer_metadata(metadata: Metadata, standing: AccountStanding) -> Answer:
    """Names and types that the policy has. Free: no row is read."""
    columns, rows = dict(metadata.columns), [dict(zip(metadata.columns, row, strict=True)) for row in metadata.rows]
    if metadata.statement is not None:
        shape = find_shape(metadata.statement)
        columns = dict(metadata.statement.columns if shape is None else shape.columns)
    if metadata.select is not None:
        try:
            columns, found = select_rows(columns, metadata.rows, RELATION, metadata.select.sql("duckdb"))
        except ValueError:
            raise NotSupported("this cannot be computed from names and types: compare columns with literals") from None
        rows = [{name: cell(value) for name, value in row.items()} for row in found]
    core = _free_receipt(context(columns=list(columns.items()), metadata=json.dumps(rows)))
    said: list[Note | str] = [note(codes.METADATA)]
    return StoredAnswer(columns=columns, rows=rows, stopped=False, receipt=core, notes=said).complete(_free(standing))


def _free_receipt(encoded: bytes, *, unit: str = "", version: str = "") -> ReceiptCore:
    digest = f"sha256:{hashlib.sha256(encoded).hexdigest()}"
    return ReceiptCore(mechanism="policy", unit=unit, error95={}, data_version=version, digest=digest)


def _free(standing: AccountStanding) -> SimpleNamespace:
    """What the moment adds to the receipt of an answer that nothing is paid for."""
    return SimpleNamespace(charge=NOTHING, left=standing.left, resets=standing.resets, repeat=False)


def _compute(plan: Plan, runtime: Runtime, nonce: bytes) -> str:
    """Exact counts from the engine go in, the noisy ones come out as the text to store."""
    rows = [] if isinstance(plan.full, PublicGroups) else runtime.engines[plan.table].run(plan.query)
    exact: Any  # counts by key: of the whole public domain, or the largest of a private one in their order
    if plan.domain is None:
        exact = [(row[0] if len(row) == 2 else row[:-1], row[-1]) for row in rows]
    else:
        counts = {key: row[-1] for row in rows if (key := domain_key(plan, row[:-1])) is not None}
        exact = {key: counts.get(key, 0) for key in plan.domain}
    release = plan.full.release(exact, Rng.keyed(runtime.key, context(atom=plan.atom, nonce=nonce)))
    noisy = [[[cell(part) for part in (key if isinstance(key, tuple) else (key,))], n] for key, n in release.rows]
    ending = {"stopped": release.stopped, "complete": release.complete}
    return json.dumps({"rows": noisy, **ending}, separators=(",", ":"))


def _reveal(planned: PlannedRequest, revealed: dict[str, StoredAnswer], payload: str, *drawn: str) -> Revealed:
    """What this request shows of a stored atom: a prefix of its rows, with their counts or without.

    `drawn` are the payloads of further measures. The answer is added to `revealed`, by its JSON.
    """
    plan, stored = planned.plan, json.loads(payload)
    release: Release[tuple[Any, ...]] = Release(
        mechanism=plan.full.name,
        rows=tuple([(tuple(cells), count) for cells, count in stored["rows"]]),
        steps=plan.full.steps(len(stored["rows"]), stopped=stored["stopped"]),
        reserve=plan.full.reserve,
        stopped=stored["stopped"],
        complete=stored["complete"],
    )
    shown = release.prefix(plan.k)
    if not plan.counts:
        shown = shown.without_counts()
    columns = dict(zip(plan.columns, plan.types, strict=True))
    rows = [dict(zip(columns, cells, strict=True)) for cells, _ in shown.rows]
    errors, visible, signed = plan.accuracy
    if plan.counts and plan.selecting is not None:
        is_plain = plan.selecting.bounds is None
        columns[plan.measure] = "integer" if is_plain else plan.selecting.type
        for row, (_, count) in zip(rows, shown.rows, strict=True):
            row[plan.measure] = count if is_plain or count is None else plan.selecting.shown(count)
    for shown_measure in (
        each for pair in zip(plan.further, drawn, strict=True) for each in show_draw(*pair, len(rows))
    ):
        columns[shown_measure.name] = shown_measure.type
        for row, value in zip(rows, shown_measure.values, strict=True):
            row[shown_measure.name] = value
        if shown_measure.error is not None:
            errors[shown_measure.name] = shown_measure.error
    receipt = ReceiptCore(
        mechanism=" + ".join([shown.mechanism, *dict.fromkeys(draw.measure.name for draw in plan.further)]),
        unit=plan.unit,
        error95=errors,
        data_version=plan.data_version,
        digest=plan.digest,
        public_versions=plan.public_versions if plan.counting.expressions else {},
        visible=visible and Visible(*visible),
        signed=signed,
        measures=[name for name in columns if name not in plan.columns and name != plan.measure],
    )
    notes: list[Note | str] = [*find_notes(planned, shown)]
    stored_answer = StoredAnswer(columns=columns, rows=rows, stopped=shown.stopped, receipt=receipt, notes=notes)
    body = stored_answer.to_json().decode()
    revealed[body] = stored_answer
    return Revealed(body, shown.steps if not plan.further else (*shown.steps, *plan.further_steps(len(rows))))


def find_notes(planned: PlannedRequest, shown: Release[Any] | None = None) -> Iterator[Note]:
    """What an answer says beside its numbers; without what is shown, as far as that is known before."""
    plan = planned.plan
    if plan.domain is None:
        yield note(codes.SMALL_GROUPS_ABSENT)
    if plan.domain is None and plan.counts and plan.mechanism.name != "unknown_gumbel":
        yield note(codes.NEAR_THRESHOLD)
    if shown is not None and plan.domain is not None and not shown.complete:
        yield note(codes.FIRST_GROUPS, shown=len(shown.rows), groups=len(plan.domain))
    if plan.further or plan.mechanism.tau > 1 or (plan.selecting and plan.selecting.bounds):
        yield from measure_notes(plan)
    if planned.debit.row_filter:
        yield note(codes.OWN_ROWS)
    if planned.debit.own.budget.mode == "track":
        yield note(codes.TRACKED)


def _add_way_out(
    refusal: BudgetExhausted, debit: Debit, plan: Plan, runtime: Runtime, now: datetime
) -> BudgetExhausted:
    """The refusal with the longest list that would still fit, also as a request."""
    longest = runtime.ledger.longest_fitting(plan.k - 1, lambda k: replace(debit, worst=plan.worst_at(k)), now)
    instead = [] if longest is None else [{**plan.request, "k": longest}]
    return BudgetExhausted(refusal.asked, refusal.left, refusal.account, refusal.resets, longest, instead)


def filter_text(table: TablePolicy) -> str:
    """The row filter of a table as the ledger stores it with an answer; "" where there is none."""
    return "" if table.row_filter == EVERYTHING else str(table.row_filter)


PLAIN = frozenset((str, int, float, bool, type(None), date, Decimal, Fraction))


def is_plain(value: Any) -> bool:
    """Whether values are of Python's own types, so values that differ are written differently."""
    if type(value) is dict:
        return is_plain([*value, *value.values()])
    if type(value) in (list, tuple):
        return all(type(each) in PLAIN or is_plain(each) for each in value)
    return type(value) in PLAIN


class Planner:
    """From what was asked to a planned request. Keeps the latest plans: reading SQL takes longer than a repeat."""

    MAX_PLANS, MAX_DOMAIN, MAX_SPELLING = 512, 1000, 4096  # large plans and long requests are not kept
    MAX_PROPOSED, MAX_OFFERED = 4, 2

    def __init__(self, config: Config, catalog: Catalog, epoch: str) -> None:
        self._config, self._catalog, self._epoch = config, catalog, epoch
        self._lock = threading.Lock()
        self._plans: OrderedDict[tuple[str, str], tuple[Policy, PlannedRequest]] = OrderedDict()

    def plan(self, request: RequestLike, analyst: str, now: datetime) -> PlannedRequest:
        """The plan of a request under what the analyst may ask at `now`, or a refusal in the analyst's words."""
        policy = self._catalog.policy_of(analyst, now)
        spelling = f"sql {request}" if isinstance(request, str) else None  # a text that no other request has
        with suppress(TypeError, ValueError, RecursionError):
            if type(request) is dict:
                spelling = json.dumps(request, separators=(",", ":"))
            elif (
                isinstance(request, Request)
                and type(request) in REQUESTS.values()
                and is_plain([getattr(request, name) for name in request.__slots__])
            ):
                spelling = repr(request)
        with self._lock:
            known = None if spelling is None else self._plans.get((analyst, spelling))
            if known is not None and known[0] is policy:
                self._plans.move_to_end((analyst, spelling or ""))
                return known[1]
        statement = read_question(request, policy)
        shape = find_shape(statement)
        planned = self._plan(statement.core, policy, analyst)
        longest, groups = planned.plan.k, planned.plan.domain
        notes = []
        if statement.limit is not None and statement.limit > longest and (groups is None or len(groups) > longest):
            notes.append(note(codes.LIMIT_ABOVE, limit=statement.limit, most=longest))
        if statement.further:
            further = [self._plan(each.core, policy, analyst) for each in statement.further]
            planned = replace(planned, parts=(planned, *further), histogram=None)
        if shape is not None or notes:
            histogram = planned.histogram and replace(planned.histogram, shape=shape, notes=(*notes,))
            planned = replace(planned, shape=shape, notes=(*notes,), histogram=histogram)
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

    def offer(self, refusal: NotSupported | TableNotFound, request: RequestLike, analyst: str, now: datetime) -> None:
        """Put into a refusal the requests that this analyst can send instead: each of them is planned first."""
        asked = read_explained(request) or request
        refusal.instead = tuple(islice(self._possible(refusal, asked, analyst, now), self.MAX_OFFERED))

    def _possible(
        self,
        refusal: NotSupported | TableNotFound,
        request: RequestLike,
        analyst: str,
        now: datetime,
        mistakes: int = 2,
    ) -> Iterator[dict[str, Any]]:
        """The proposals for a request that would be planned; where a proposal is refused too, those for it."""
        proposed = ways_out(refusal, request, self._catalog.policy_of(analyst, now))
        for each in islice(proposed, self.MAX_PROPOSED):
            try:
                self.plan(each, analyst, now)
            except (NotSupported, TableNotFound) as another:
                if mistakes > 1:
                    yield from self._possible(another, each, analyst, now, mistakes - 1)
            except SfumatoError:
                continue
            else:
                yield each

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
        table, keys = policy.tables[query_plan.table], query_plan.columns
        length = query_plan.k if keys else None
        debit = Debit(
            analyst=analyst,
            accounts=accounts_of(self._config, analyst, query_plan.table),
            digest=query_plan.digest,
            atom=query_plan.atom,
            epoch=self._epoch,
            version=query_plan.data_version,
            request=query_plan.request,
            worst=query_plan.worst if query_plan.further else query_plan.mechanism.worst,
            row_filter=filter_text(table),
            write_sql=partial(
                write_select,
                table,
                keys,
                [query_plan.asked, *(query_plan.measures if query_plan.further else ())],
                query_plan.where,
                length,
                counts=query_plan.counts,
            ),
            draws=tuple((draw.tag, draw.atom) for draw in query_plan.further),
        )
        by_picks = query_plan.mechanism.name == "known_gumbel"
        histogram = self._plan(request, policy, analyst, whole_domain=True) if by_picks else None
        return PlannedRequest(query_plan, debit, histogram)
