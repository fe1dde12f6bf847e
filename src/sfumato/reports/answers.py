"""From stored cells to an answer: rows, the receipt with its guarantee, and notes. All of it may leave."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import repeat
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting import NOTHING
from sfumato.ledger.cells import Place, Seal
from sfumato.measured import cell
from sfumato.mechanisms.report_noise import CANONICAL
from sfumato.query.reports.calendar import ALL
from sfumato.query.reports.entities import Family, Path
from sfumato.query.reports.policy import OPTIONS, Attribute, ReportGuarantee, ReportPolicy
from sfumato.reports.cells import vectors
from sfumato.reports.errors import MISSED, error95
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
    estimates, other_rows = planned.numbers.estimate(cells), planned.numbers.saw_other_rows(cells)
    shown = planned.numbers.settle(estimates)
    moved = {name: _most_moved(planned, estimates, shown, name) for name in request.statistics}
    numbers = {name: shown[name, request.attribute][:, planned.place] for name in request.statistics}
    moment: Type = "date" if policy.calendar.days else "timestamp"
    columns: dict[str, Type] = {"start": moment, "end": moment}
    if request.attribute is not None:
        columns[request.attribute] = policy.attributes[request.attribute].type
    columns.update(dict.fromkeys(request.statistics, "integer"))
    chosen = {name: _count_shown(planned, numbers, name) for name in request.statistics}
    errors = _errors(planned, chosen, plain=other_rows)
    return Report(
        report=policy.name,
        entity=dict(zip(policy.levels, planned.path, strict=False)),
        start=wall_time(policy, request.start),
        end=wall_time(policy, request.end),
        complete_until=wall_time(policy, planned.end),
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
            error95={name: each + moved[name] for name, each in errors.items()},
            data_version=f"seal {max(seal.number for seal in seals.values())}",
            digest=planned.digest(seals),
            repeat=repeat,
            guarantee=cast(ReportPromise, promise.to_dict()),
        ),
        options=[*request.options],
        zone=policy.calendar.zone,
        notes=[*_notes(planned, promise, [*chosen.values()], other_rows=other_rows, moved=max(moved.values()))],
    )


def wall_time(policy: ReportPolicy, moment: datetime) -> Any:
    """A moment as the rows of a report show it: a day, or what the clocks of its zone show."""
    wall = policy.calendar.wall(moment)
    return wall.date() if policy.calendar.days else wall


def _rows(planned: PlannedReport, numbers: Mapping[str, NDArray[np.int64]]) -> Iterator[dict[str, Any]]:
    """Steps in order, and in each the values from the largest down. Counts below the least count are None."""
    request, policy = planned.request, planned.request.policy
    places = _places(planned, numbers)
    values = (None,) if request.attribute is None else _labels(policy.attributes[request.attribute])
    labels = [values[place] for place in places]
    keys = ("start", "end", request.attribute or "", *numbers)
    for at, step in enumerate(planned.steps):
        start, end = (wall_time(policy, moment) for moment in step)
        counts = [_hide_small(array[at, places], policy.min_count) for array in numbers.values()]
        if request.attribute is None:
            yield dict(zip(("start", "end", *numbers), (start, end, *(each[0] for each in counts)), strict=True))
            continue
        for cells in zip(repeat(start), repeat(end), labels, *counts, strict=False):
            if cells.count(None) < len(counts):  # a label is never None
                yield dict(zip(keys, cells, strict=True))


def _hide_small(counts: NDArray[np.int64], least: int) -> list[int | None]:
    shown: list[int | None] = counts.tolist()
    for at in np.flatnonzero(counts < least).tolist():
        shown[at] = None
    return shown


def _places(planned: PlannedReport, numbers: Mapping[str, NDArray[np.int64]]) -> list[int]:
    """Which values are shown: one ranking by the first statistic over the whole range, of which `top` is a head."""
    order = np.argsort(-numbers[planned.request.statistics[0]].sum(axis=0), kind="stable")
    return [int(place) for place in order][: planned.request.top]


def _count_shown(planned: PlannedReport, numbers: Mapping[str, NDArray[np.int64]], statistic: str) -> tuple[int, int]:
    """How many numbers of a statistic are shown, and out of how many they were chosen by their own noise too.

    `min_count` looks at every number, and the ranking at those of the first statistic.
    """
    every, places = numbers[statistic], _places(planned, numbers)
    shown = int(np.count_nonzero(every[:, places] >= planned.request.policy.min_count))
    return shown, every.size if statistic == planned.request.statistics[0] else len(every) * len(places)


@lru_cache(64)
def _labels(attribute: Attribute) -> tuple[Any, ...]:
    """The values of a domain as rows have them."""
    return tuple(map(cell, attribute.domain))


def _errors(planned: PlannedReport, chosen: Mapping[str, tuple[int, int]], *, plain: bool) -> dict[str, int]:
    """The error of the widest number in the answer, before a floor raises any number.

    Numbers that are shown because they are large had noise that was high. Where s of n are `chosen`, each interval may
    miss in s / n of 5 %: of those that are shown, one in 20 is outside then, on average over answers (Benjamini and
    Yekutieli, 2005). With `plain`, some numbers are plain sums of cells although the others are weighed.
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
        shown, every = chosen[name]
        # In quarters of a power of two, rounded down: a law has few widths, and they are remembered.
        missed = MISSED * 2 ** (math.floor(4 * math.log2(shown / every)) / 4) if shown else MISSED
        return max(error95(noise, alone=alone, missed=missed) for noise in noises)

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


def _notes(
    planned: PlannedReport,
    promise: ReportGuarantee,
    chosen: Sequence[tuple[int, int]],
    *,
    other_rows: bool,
    moved: int,
) -> Iterator[Note]:
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
    if moved:
        yield note(codes.MOVED, most=moved)
    if raised := _raised(planned):
        yield note(codes.RAISED, options=raising_words(raised))
    elif not request.exact and any(0 < shown < every for shown, every in chosen):
        yield note(codes.CHOSEN)


def _raised(planned: PlannedReport) -> tuple[str, ...]:
    """The options that raise the numbers. Then no interval bounds them."""
    request = planned.request
    return () if request.exact else raising_options(request.options, request.attribute)


def _most_moved(
    planned: PlannedReport,
    estimates: Mapping[Which, NDArray[np.float64]],
    shown: Mapping[Which, Array],
    statistic: str,
) -> int:
    """How far siblings moved a number of the answer at most; 0 where no interval is shown."""
    which = statistic, planned.request.attribute
    if planned.request.exact or _raised(planned):
        return 0
    return planned.numbers.most_moved(estimates[which], shown[which], planned.place)


def _cut_steps(planned: PlannedReport) -> Iterator[int]:
    """The steps that the range cuts short: perhaps the first and the last."""
    request, calendar = planned.request, planned.request.policy.calendar
    if request.granularity == ALL:
        return
    if calendar.floor(request.start, request.granularity) < request.start:
        yield 0
    if calendar.ceil(planned.end, request.granularity) > planned.end:
        yield len(planned.steps) - 1
