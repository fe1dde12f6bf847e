"""Statements with several cores: one answer and one estimate, made of those of the cores.

    reserve all, or none ──► answer each, on the one paid path ──► combine their released rows

Each core has its own price, digest, draw and receipt, as if it were asked alone. What fails between two of them leaves
the others reserved: asking again costs no more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from itertools import islice
from typing import Any

from msgspec.structs import replace as replace_fields

from sfumato.accounting import Charge, total_charge
from sfumato.answer import PlannedRequest
from sfumato.errors import BudgetExhausted, Conflict, NotSupported
from sfumato.ledger import Debit, Ledger
from sfumato.mechanisms import Noise
from sfumato.query.plan import Plan
from sfumato.query.request import RequestLike
from sfumato.query.sql.linear import Linear, Noisy, as_width
from sfumato.query.ways_out import shorten_lists
from sfumato.show.text import join_words
from sfumato.spending import reserve_together
from sfumato.wire import Answer, ChargeRange, Estimate, Note, Receipt, note
from sfumato.wire import notes as codes

CHANGED = "the policy has changed what this statement means; its parts can still be recalled by their digests"
MAX_OFFERED = 2
MISSED = 0.05


def reserve_parts(
    planned: PlannedRequest,
    request: RequestLike,
    ledger: Ledger,
    now: datetime,
    plan_again: Callable[[RequestLike], PlannedRequest],
) -> None:
    """Reserve all cores before a row is read, or raise `BudgetExhausted` with requests that would fit.

    These are the statement with shorter lists, or else single questions of it. Each is planned before it is offered.
    """
    try:
        reserve_together([part.debit for part in planned.parts], ledger, now)
    except BudgetExhausted as refusal:
        sql = str(request.get("sql") if isinstance(request, Mapping) else request)
        longest, instead = _shorter(planned, sql, ledger, now, plan_again)
        if longest is None:
            instead = [*islice(_single(planned, ledger, now, plan_again), MAX_OFFERED)]
        raise BudgetExhausted(refusal.asked, refusal.left, refusal.account, refusal.resets, longest, instead) from None


def _shorter(
    planned: PlannedRequest,
    sql: str,
    ledger: Ledger,
    now: datetime,
    plan_again: Callable[[RequestLike], PlannedRequest],
) -> tuple[int | None, list[dict[str, Any]]]:
    """The statement with the longest lists that all fit together, and their length; no statement where none do."""
    tables, asked = {part.plan.table for part in planned.parts}, [_unlimited(part) for part in planned.parts]
    longest, most, found = 0, max(part.plan.k for part in planned.parts), ""
    while most - longest > 1:
        middle = (longest + most) // 2
        try:
            text = shorten_lists(sql, middle, tables)
            again = plan_again(text)
            fits = [_unlimited(part) for part in again.parts] == asked
            fits = fits and ledger.fit_together([part.debit for part in again.parts], now)
        except NotSupported:
            fits = False
        longest, most, found = (middle, most, text) if fits else (longest, middle, found)
    return (longest, [{"sql": found}]) if found else (None, [])


def _unlimited(part: PlannedRequest) -> dict[str, Any]:
    """What a core asks, but for the length of its list."""
    return {**part.plan.request, "k": None}


def _single(
    planned: PlannedRequest, ledger: Ledger, now: datetime, plan_again: Callable[[RequestLike], PlannedRequest]
) -> Iterator[dict[str, Any]]:
    """The cores that can be asked alone, each as long as it fits."""
    for part in planned.parts:
        plan, debit = part.plan, part.debit
        longest = ledger.longest_fitting(plan.k, lambda k: replace(debit, worst=plan.worst_at(k)), now)  # noqa: B023
        if longest is not None:
            request = {**plan.request, "k": longest} if plan.columns else plan.request
            if ledger.fit_together([plan_again(request).debit], now):
                yield request


def join_answers(planned: PlannedRequest, answers: Sequence[Answer]) -> Answer:
    """The answer to a statement from the answers to its cores. It costs nothing beyond these."""
    shape = planned.shape
    if shape is None or [each.columns for each in answers] != [dict(each.columns) for each in shape.statement.cores]:
        raise Conflict(CHANGED)
    rows = shape.combine([each.rows for each in answers])
    notes: list[Note] = [each for answer in answers for each in answer.notes]
    receipts = [each.receipt for each in answers]
    errors = find_errors(planned, [each.error95 for each in receipts], len(rows))
    unknown = [name for name in shape.noisy if name not in errors]
    if unknown and any(each.error95 for each in receipts):
        notes.append(note(codes.NO_INTERVAL, columns=join_words(unknown)))
    linear = {each.name: each.linear for each in shape.statement.outputs}
    below = {(core, name) for core, each in enumerate(receipts) for name in each.signed}
    receipt = replace_fields(
        join_receipts(receipts),
        error95=errors,
        signed=[
            name for name in errors if linear[name].may_be_negative or below & {*map(_measure, linear[name].numbers)}
        ],
        measures=[name for name in shape.noisy if errors and name != next(iter(errors))],
    )
    return Answer(
        columns={**shape.columns},
        rows=rows,
        stopped=any(each.stopped for each in answers),
        receipt=receipt,
        notes=[*dict.fromkeys([*notes, *planned.notes])],
    )


def find_errors(
    planned: PlannedRequest, errors: Sequence[Mapping[str, int | float]], rows: int | None = None
) -> dict[str, int | float]:
    """The half-width of the 95 % interval of each output that has one, from those of the measures of each core.

    None has one where noise may decide which rows are there. How many there are is not known beforehand.
    """
    statement = None if planned.shape is None else planned.shape.statement
    if statement is None or statement.chosen or (statement.cut is not None and (rows is None or rows >= statement.cut)):
        return {}
    plans = [part.plan for part in planned.parts]
    widths = {each.name: _half_width(each.linear, plans, errors) for each in statement.outputs}
    return {name: width for name, width in widths.items() if width is not None}


def _half_width(
    linear: Linear, plans: Sequence[Plan], errors: Sequence[Mapping[str, int | float]]
) -> int | float | None:
    """The half-width of the 95 % interval of an output; None where none is known, or where it has no noise."""
    if linear.either:
        widths = [_half_width(each, plans, errors) for each in linear.either if each.is_noisy]
        known = [width for width in widths if width is not None]
        return max(known) if len(known) == len(widths) else None
    if not linear.factors or not linear.is_within:
        return None
    if len(linear.factors) > 1:
        return _width_of_sum(linear.factors, plans)
    [(noisy, factor)] = linear.factors
    error, is_joined = errors[noisy.core].get(noisy.measure), any(noisy.read)
    if error is None or (is_joined and plans[noisy.core].is_chosen_by(noisy.measure)):
        return None
    return as_width(abs(factor) * Fraction(error))


def _width_of_sum(factors: Sequence[tuple[Noisy, Fraction]], plans: Sequence[Plan]) -> int | float | None:
    """The half-width of the 95 % interval of a sum of several counts and sums.

    Each of m is within its half-width at 1 - 0.05 / m, so the sum of these holds all of them (union bound). Two numbers
    with independent noise of one law have the exact half-width of their difference.
    """
    laws = list[tuple[Noise, Fraction]]()
    for noisy, factor in factors:
        plan, (law, step) = plans[noisy.core], plans[noisy.core].law_of(noisy.measure) or (None, Fraction(1))
        if law is None or plan.is_chosen_by(noisy.measure):
            return None
        laws.append((law, abs(factor) * step))
    (first, weight), *others = laws
    if [*others] == [(first, weight)] and len({*map(_measure, (noisy for noisy, _ in factors))}) == 2:
        return as_width(weight * (first.smallest_difference_tail(MISSED / 2) - 1))
    confidence = 1 - MISSED / len(laws)
    return as_width(sum((by * law.half_width(confidence) for law, by in laws), Fraction(0)))


def _measure(noisy: Noisy) -> tuple[int, str]:
    return noisy.core, noisy.measure


def join_receipts(parts: Sequence[Receipt]) -> Receipt:
    """The receipt of a statement with these cores. Where one value cannot be that of all, the parts have it."""
    return Receipt(
        mechanism=_each([part.mechanism for part in parts], " + "),
        unit=_each([part.unit for part in parts]),
        error95={},
        data_version=_each([part.data_version for part in parts]),
        digest=join_digests([part.digest for part in parts]),
        charge=total_charge(part.charge for part in parts),
        left=parts[-1].left,
        resets=_first([part.resets for part in parts]),
        repeat=all(part.repeat for part in parts),
        pays_again=_first([part.pays_again for part in parts]),
        parts=[*parts],
    )


def join_digests(digests: Sequence[str]) -> str:
    """The digest of a statement with several cores: the hash of theirs, in a line each."""
    return f"sha256:{hashlib.sha256(chr(10).join(digests).encode()).hexdigest()}"


def join_estimates(planned: PlannedRequest, parts: Sequence[Estimate], ledger: Ledger, now: datetime) -> Estimate:
    """What a statement with several cores would cost: all of them."""
    least, worst = [part.charge.least for part in parts], [part.charge.worst for part in parts]
    charge = ChargeRange(total_charge(least), total_charge(worst))
    return Estimate(
        mechanism=_each([part.mechanism for part in parts], " + "),
        charge=charge,
        error95=find_errors(planned, [part.error95 for part in parts]),
        left=parts[0].left,
        answers_left=count_answers([part.debit for part in planned.parts], charge.worst, ledger, now),
        notes=[*dict.fromkeys([*(each for part in parts for each in part.notes), *planned.notes])],
        parts=[*parts],
    )


def count_answers(debits: Sequence[Debit], price: Charge, ledger: Ledger, now: datetime) -> int | None:
    """How many answers of a price fit into what is left of all accounts that pay; None for any number."""
    accounts = {account.name: account for debit in debits for account in debit.accounts}.values()
    enforced = [account for account in accounts if account.budget.mode == "enforce"]
    standings = ledger.standings(enforced, now) if price else ()
    return min((_times(standing.left, price) for standing in standings), default=None)


def _times(left: Charge, price: Charge) -> int:
    """How often a price fits into what is left."""
    pairs = (left.information, price.information), (left.calls, price.calls)
    return min(max(int(amount // each), 0) for amount, each in pairs if each)


def _each(values: Sequence[str], between: str = ", ") -> str:
    """The values, each once."""
    return between.join(dict.fromkeys(values))


def _first(days: Sequence[date | None]) -> date | None:
    """The first of some days; None where there is none."""
    return min((day for day in days if day is not None), default=None)
