"""From stored cells to an answer that may leave: rows, the receipt with its guarantee, and notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting import NOTHING
from sfumato.answer import cell
from sfumato.ledger.cells import Place, Seal
from sfumato.mechanisms.report_noise import CANONICAL
from sfumato.query.reports.calendar import ALL
from sfumato.query.reports.entities import Family, Path
from sfumato.query.reports.policy import OPTIONS, ReportGuarantee, ReportPolicy, guarantee
from sfumato.query.reports.read import ReportRequest
from sfumato.reports.cells import vectors
from sfumato.reports.numbers import Array, Which, error95
from sfumato.reports.plan import PlannedReport
from sfumato.show import cut_short
from sfumato.wire import EXACT, Receipt, Report, Standing

EVENT_LEVEL = "the guarantee is for one event; a person with many events is hidden less"
PERSON_LEVEL = "the guarantee is for one person: her first {events} events count"
EXACT_TOTALS = "totals are exact, as the owner has it known to the reader; the guarantee does not cover them"
RAISED = "error95 is of the noise alone: {options}, which may be further above the truth"


def answered(question: PlannedReport, found: Mapping[Place, Seal], standing: Standing, *, repeat: bool) -> Report:
    """What stored cells tell about a question. `standing` is the asker's own account, which pays nothing."""
    asked, policy = question.asked, question.asked.policy
    cells: dict[Which, Array] = {}
    for block in question.blocks:
        for name, array in zip(block.statistics, vectors(block, found), strict=True):
            cells[name, block.attribute] = array
    made = question.numbers.made(cells)
    numbers = {name: made[name, asked.attribute][:, question.place] for name in asked.statistics}
    promise = guarantee(policy)
    report = Report(
        report=policy.name,
        entity=dict(zip(policy.levels, question.path, strict=False)),
        start=_wall(policy, asked.start),
        end=_wall(policy, asked.end),
        complete_until=_wall(policy, question.end),
        granularity=asked.granularity,
        columns=_columns(asked),
        rows=list(_rows(question, numbers)),
        stopped=False,
        receipt=Receipt(
            mechanism=EXACT if _exact(asked) else CANONICAL,
            unit=policy.unit if policy.cap is not None else "event",
            charge=NOTHING,
            left=standing.left,
            resets=standing.resets,
            error95=_errors(question),
            data_version=f"seal {max(seal.number for seal in found.values())}",
            digest=question.digest(found),
            repeat=repeat,
            guarantee=promise.to_dict(),
        ),
        options=asked.options,
        zone=policy.calendar.zone,
    )
    return replace(report, notes=tuple(_notes(question, promise, report.raised)))


def _exact(asked: ReportRequest) -> bool:
    return asked.attribute is None and asked.policy.exact_totals


def _columns(asked: ReportRequest) -> dict[str, str]:
    moment = "date" if asked.policy.calendar.days else "timestamp"
    columns: dict[str, str] = {"start": moment, "end": moment}
    if asked.attribute is not None:
        columns[asked.attribute] = asked.policy.attributes[asked.attribute].type
    return columns | dict.fromkeys(asked.statistics, "integer")


def _rows(question: PlannedReport, numbers: Mapping[str, NDArray[np.int64]]) -> Iterator[dict[str, Any]]:
    """Steps in order, and in each the values from the largest down; what is below the least count is not shown."""
    asked, policy = question.asked, question.asked.policy
    ranked = _ranked(numbers[asked.statistics[0]])[: asked.top]
    values = (None,) if asked.attribute is None else policy.attributes[asked.attribute].domain
    labels = [cell(values[place]) for place in ranked]
    keys = ("start", "end", asked.attribute or "", *numbers)
    for at, step in enumerate(question.steps):
        start, end = (_wall(policy, moment) for moment in step)
        counts = [_shown(array[at, ranked], policy.min_count) for array in numbers.values()]
        if asked.attribute is None:
            yield dict(zip(("start", "end", *numbers), (start, end, *(each[0] for each in counts)), strict=True))
            continue
        for label, *shown in zip(labels, *counts, strict=True):
            if shown.count(None) < len(shown):
                yield dict(zip(keys, (start, end, label, *shown), strict=True))


def _ranked(numbers: NDArray[np.int64]) -> list[int]:
    """The places of all values, by what is shown of the whole range; the one ranking that every `top` is a head of."""
    return [int(place) for place in np.argsort(-numbers.sum(axis=0), kind="stable")]


def _shown(counts: NDArray[np.int64], least: int) -> list[int | None]:
    return [count if count >= least else None for count in counts.tolist()]


def _wall(policy: ReportPolicy, moment: datetime) -> Any:
    wall = policy.calendar.wall(moment)
    return wall.date() if policy.calendar.days else wall


def _errors(question: PlannedReport) -> dict[str, int]:
    """Of the widest number in the answer, before anything was raised to a floor."""
    asked, policy = question.asked, question.asked.policy
    if _exact(asked):
        return dict.fromkeys(asked.statistics, 0)
    calendar = policy.calendar
    partitions = {calendar.partition(*step) for step in question.steps}
    if "monotone" in asked.options:
        partitions = {calendar.partition(asked.start, question.end)}
    below = sum(_measured_below(question.family, question.path))
    return {name: max(error95(policy, name, spans, below) for spans in partitions) for name in asked.statistics}


def _measured_below(family: Family, path: Path) -> Iterator[bool]:
    """Whose cells an entity's number is the sum of: its own, or those that stand for it."""
    place = family.paths.index(path)
    if family.measured[place]:
        yield True
        return
    for child, parent in enumerate(family.tree.parents):
        if parent == place:
            yield from _measured_below(family, family.paths[child])


def _notes(question: PlannedReport, promise: ReportGuarantee, raised: Sequence[str]) -> Iterator[str]:
    asked, policy = question.asked, question.asked.policy
    yield EVENT_LEVEL if promise.unit == "event" else PERSON_LEVEL.format(events=promise.events)
    if _exact(asked):
        yield EXACT_TOTALS
    if question.end < asked.end:
        until = policy.calendar.wall(question.end).isoformat(sep=" ", timespec="minutes")
        yield f"the range ends at {until}: what comes after is not complete yet"
    if cut := cut_short(_cut(question), len(question.steps), asked.granularity):
        yield cut
    if policy.min_count > 0:
        yield f"counts below {policy.min_count} are not shown"
    yield from (f"{option}: {OPTIONS[option]}" for option in asked.options)
    if raised:
        verb = "raise" if len(raised) > 1 else "raises"
        yield RAISED.format(options=f"{' and '.join(raised)} {verb} the numbers")


def _cut(question: PlannedReport) -> Iterator[int]:
    """The steps that the range cuts short."""
    calendar, asked = question.asked.policy.calendar, question.asked
    if asked.granularity == ALL:
        return
    first, last = 0, len(question.steps) - 1
    if calendar.floor(asked.start, asked.granularity) < asked.start:
        yield first
    if calendar.ceil(question.end, asked.granularity) > question.end:
        yield last
