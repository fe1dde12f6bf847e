"""From stored cells to an answer: rows, the receipt with its guarantee, and notes. All of it may leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting import NOTHING
from sfumato.answer import cell
from sfumato.ledger.cells import Place, Seal
from sfumato.mechanisms.report_noise import CANONICAL
from sfumato.query.reports.calendar import ALL
from sfumato.query.reports.entities import Family, Path
from sfumato.query.reports.policy import OPTIONS, Attribute, ReportGuarantee, ReportPolicy
from sfumato.reports.cells import vectors
from sfumato.reports.errors import error95
from sfumato.reports.numbers import Array, Which
from sfumato.reports.plan import PlannedReport
from sfumato.show.text import partial_steps
from sfumato.types import Type
from sfumato.wire import EXACT, AccountStanding, Note, Receipt, Report, ReportPromise, note
from sfumato.wire import notes as codes
from sfumato.wire.report import raising_options, raising_words


def make_report(
    planned: PlannedReport,
    seals: Mapping[Place, Seal],
    promise: ReportGuarantee,
    standing: AccountStanding,
    *,
    repeat: bool,
) -> Report:
    """The answer that stored cells give. `standing` is the analyst's own account, which pays nothing."""
    request, policy = planned.request, planned.request.policy
    cells: dict[Which, Array] = {}
    for block in planned.blocks:
        for name, array in zip(block.statistics, vectors(block, seals), strict=True):
            cells[name, block.attribute] = array
    shown, other_rows = planned.numbers.compute(cells), planned.numbers.saw_other_rows(cells)
    numbers = {name: shown[name, request.attribute][:, planned.place] for name in request.statistics}
    moment: Type = "date" if policy.calendar.days else "timestamp"
    columns: dict[str, Type] = {"start": moment, "end": moment}
    if request.attribute is not None:
        columns[request.attribute] = policy.attributes[request.attribute].type
    columns.update(dict.fromkeys(request.statistics, "integer"))
    return Report(
        report=policy.name,
        entity=dict(zip(policy.levels, planned.path, strict=False)),
        start=_wall(policy, request.start),
        end=_wall(policy, request.end),
        complete_until=_wall(policy, planned.end),
        granularity=request.granularity,
        columns=columns,
        rows=list(_rows(planned, numbers)),
        stopped=False,
        receipt=Receipt(
            mechanism=EXACT if request.exact else CANONICAL["laplace" if policy.gaussian is None else "gaussian"],
            unit=policy.unit if policy.cap is not None else "event",
            charge=NOTHING,
            left=standing.left,
            resets=standing.resets,
            error95=_errors(planned, plain=other_rows),
            data_version=f"seal {max(seal.number for seal in seals.values())}",
            digest=planned.digest(seals),
            repeat=repeat,
            guarantee=cast(ReportPromise, promise.to_dict()),
        ),
        options=[*request.options],
        zone=policy.calendar.zone,
        notes=[*_notes(planned, promise, other_rows=other_rows)],
    )


def _wall(policy: ReportPolicy, moment: datetime) -> Any:
    wall = policy.calendar.wall(moment)
    return wall.date() if policy.calendar.days else wall


def _rows(planned: PlannedReport, numbers: Mapping[str, NDArray[np.int64]]) -> Iterator[dict[str, Any]]:
    """Steps in order, and in each the values from the largest down. Counts below the least count are None."""
    request, policy = planned.request, planned.request.policy
    # One ranking by the first statistic over the whole range: every `top` is a head of it.
    order = np.argsort(-numbers[request.statistics[0]].sum(axis=0), kind="stable")
    places = [int(place) for place in order][: request.top]
    values = (None,) if request.attribute is None else _labels(policy.attributes[request.attribute])
    labels = [values[place] for place in places]
    keys = ("start", "end", request.attribute or "", *numbers)
    for at, step in enumerate(planned.steps):
        start, end = (_wall(policy, moment) for moment in step)
        counts = [
            [count if count >= policy.min_count else None for count in array[at, places].tolist()]
            for array in numbers.values()
        ]
        if request.attribute is None:
            yield dict(zip(("start", "end", *numbers), (start, end, *(each[0] for each in counts)), strict=True))
            continue
        for label, *shown in zip(labels, *counts, strict=True):
            if shown.count(None) < len(shown):
                yield dict(zip(keys, (start, end, label, *shown), strict=True))


@lru_cache(64)
def _labels(attribute: Attribute) -> tuple[Any, ...]:
    """The values of a domain as rows have them."""
    return tuple(map(cell, attribute.domain))


def _errors(planned: PlannedReport, *, plain: bool) -> dict[str, int]:
    """The error of the widest number in the answer, before a floor raises any number.

    With `plain`, some numbers are plain sums of cells although the others are weighed.
    """
    request, policy, numbers = planned.request, planned.request.policy, planned.numbers
    if request.exact:
        return dict.fromkeys(request.statistics, 0)
    below, alone = sum(_cells_below(planned.family, planned.path)), len(planned.family.paths) == 1
    partitions = [[numbers.spans[place] for place in places] for places in numbers.steps]
    if "monotone" in request.options:
        partitions = [[*policy.calendar.partition(request.start, planned.end)]]
    by_level = {tuple(sorted(Counter(span.level for span in spans).items())) for spans in partitions}

    def widest(name: str) -> int:
        noises = [*numbers.noise(name, below)] if numbers.trees else []
        if plain or not noises:
            noises += [numbers.sum_noise(name, dict(cells), below) for cells in by_level]
        return max(error95(noise, alone=alone) for noise in noises)

    return {name: widest(name) for name in request.statistics}


def _cells_below(family: Family, path: Path) -> Iterator[bool]:
    """One True for each entity whose cells an entity's number is the sum of: its own, or those below it."""
    place = family.paths.index(path)
    if family.measured[place]:
        yield True
        return
    for child, parent in enumerate(family.tree.parents):
        if parent == place:
            yield from _cells_below(family, family.paths[child])


def _notes(planned: PlannedReport, promise: ReportGuarantee, *, other_rows: bool) -> Iterator[Note]:
    request, policy = planned.request, planned.request.policy
    yield note(codes.EVENT_LEVEL) if promise.unit == "event" else note(codes.PERSON_LEVEL, events=promise.events)
    if request.exact:
        yield note(codes.EXACT_TOTALS)
    if planned.end < request.end:
        until = policy.calendar.wall(planned.end).isoformat(sep=" ", timespec="minutes")
        yield note(codes.INCOMPLETE, until=until)
    if cut := partial_steps(_cut_steps(planned), len(planned.steps), request.granularity):
        yield note(codes.CUT_SHORT, text=cut)
    if policy.min_count > 0:
        yield note(codes.SMALL_COUNTS_HIDDEN, least=policy.min_count)
    yield from (note(codes.OPTION, option=option, meaning=OPTIONS[option]) for option in request.options)
    if planned.open_since is not None:
        since = policy.calendar.wall(planned.open_since).isoformat(sep=" ", timespec="minutes")
        yield note(codes.MAY_CHANGE, since=since, levels=", ".join(policy.calendar.levels[1:]))
    if other_rows:
        yield note(codes.OTHER_ROWS)
    if raised := () if request.exact else raising_options(request.options, request.attribute):
        yield note(codes.RAISED, options=raising_words(raised))


def _cut_steps(planned: PlannedReport) -> Iterator[int]:
    """The steps that the range cuts short: perhaps the first and the last."""
    request, calendar = planned.request, planned.request.policy.calendar
    if request.granularity == ALL:
        return
    if calendar.floor(request.start, request.granularity) < request.start:
        yield 0
    if calendar.ceil(planned.end, request.granularity) > planned.end:
        yield len(planned.steps) - 1
