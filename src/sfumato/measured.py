"""Further measures of released groups: exact sums and values of the groups go in, noisy numbers come out.

The groups are those of the stored core. Exact numbers live inside `compute_draw`, and nowhere else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sfumato.errors import NotSupported
from sfumato.mechanisms import Rng, context
from sfumato.mechanisms.group_measures import GroupQuantile, GroupSums
from sfumato.query.counting import Counting, count_query
from sfumato.query.measures import FurtherDraw
from sfumato.query.measuring import measure_query
from sfumato.query.plan import Key, Plan
from sfumato.query.policy import Measure
from sfumato.query.values import read_value
from sfumato.show.text import figure
from sfumato.spending import Runtime
from sfumato.types import Type
from sfumato.wire import Note, note
from sfumato.wire import notes as codes

MAX_LISTED = 1000
"""More released keys are not listed in the query: it computes all groups."""

_LISTED_TYPES = ("text", "integer", "boolean", "date")


@dataclass(frozen=True, slots=True)
class ShownMeasure:
    """The numbers of a measure in the shown rows; `error` is the half-width of their 95 % intervals, None without."""

    name: str
    type: Type
    values: Sequence[int | float]
    error: int | float | None


def compute_draw(plan: Plan, draw: FurtherDraw, runtime: Runtime, nonce: bytes, core: str) -> str:
    """The noisy numbers of a measure for all groups of the stored `core`, as the text to store."""
    groups = [tuple(cells) for cells, _ in json.loads(core)["rows"]]
    counting = _of_groups(plan, groups)
    measure = draw.exact
    if isinstance(measure, Measure):
        query = count_query(replace(counting, measure=measure))
    else:
        query = measure_query(replace(counting, measure=Measure(measure.name, "rows", measure.column)), measure)
    found: dict[Any, list[tuple[Any, ...]]] = {}
    width = len(plan.columns)
    for row in runtime.engines[plan.table].run(query):
        key = row[:width] if plan.domain is None else domain_key(plan, row[:width])
        if key is not None:
            found.setdefault(tuple(key_cells(key)), []).append(row[width:])
    exact = [_exact(draw, found.get(group, [])) for group in groups]
    noisy = draw.measure.release(exact, Rng.keyed(runtime.key, context(atom=draw.atom, nonce=nonce)))
    return json.dumps({"numbers": noisy}, separators=(",", ":"))


def _of_groups(plan: Plan, groups: Sequence[tuple[Any, ...]]) -> Counting:
    """What the core counts, of the released groups alone where they can be listed."""
    public = dict(plan.counting.public)
    for place, (name, kind) in enumerate(zip(plan.counting.keys, plan.types, strict=True)):
        cells = {group[place] for group in groups}
        if name not in public and kind in _LISTED_TYPES and 0 < len(cells) <= MAX_LISTED:
            public[name] = tuple(read_value(name, kind, cell) for cell in sorted(cells))
    return replace(plan.counting, limit=None, public=tuple(public.items()))


def _exact(draw: FurtherDraw, rows: Sequence[tuple[Any, ...]]) -> Any:
    """The exact numbers of one group as its mechanism takes them; those of a group without rows are 0."""
    if isinstance(draw.measure, GroupQuantile):
        return {int(point): int(count) for point, count in rows}
    sums = len(draw.measure.most) if isinstance(draw.measure, GroupSums) else 0
    return [int(number) for number in rows[0]] if rows else [0] * sums


def show_draw(draw: FurtherDraw, payload: str, rows: int) -> Iterator[ShownMeasure]:
    """The measures that a stored draw has of the first `rows` groups."""
    noisy = json.loads(payload)["numbers"][:rows]
    exact = draw.exact
    if isinstance(exact, Measure):
        error = exact.shown(draw.measure.width) if hasattr(draw.measure, "width") else None
        yield ShownMeasure(exact.name, exact.type, [exact.shown(number) for [number] in noisy], error)
        return
    found = draw.measure.estimate(noisy)
    for name in draw.shown:
        columns = [each.tolist() for each in found[:3]]
        if name.startswith("STDDEV_POP("):
            columns = [[math.sqrt(max(number, 0.0)) for number in column] for column in columns]
        values, low, high = columns
        widths = [max(value - start, end - value) for value, start, end in zip(values, low, high, strict=True)]
        is_known = not isinstance(draw.measure, GroupQuantile)
        yield ShownMeasure(name, exact.type, values, max(widths, default=0.0) if is_known else None)


def measure_notes(plan: Plan) -> Iterator[Note]:
    """What to know of the measures of an answer: bounds on what a person adds, and numbers without an interval."""
    numbers = [each for each in (plan.selecting, *(draw.exact for draw in plan.further)) if each is not None]
    taus = {each.max_per_unit for each in numbers if isinstance(each, Measure) and each.bounds is None}
    for tau in sorted(taus - {1}):
        yield note(codes.CAPPED, tau=tau)
    bounded = {getattr(each, "column", ""): each.bounds for each in numbers if each.bounds is not None}
    for column, bounds in sorted(bounded.items()):
        low, high, step = (figure(float(number)) for number in (bounds.low, bounds.high, bounds.step))
        values = bounds.max_per_unit
        yield note(codes.BOUNDED, column=column, low=low, high=high, step=step, values=values)
    if plan.selecting is not None and plan.measure not in (plan.asked, *plan.measures):
        yield note(codes.BY_PEOPLE)
    quantiles = [name for draw in plan.further if isinstance(draw.measure, GroupQuantile) for name in draw.shown]
    if quantiles:
        yield note(codes.NO_INTERVAL, columns=", ".join(quantiles))


def domain_key(plan: Plan, cells: tuple[Any, ...]) -> Key | None:
    """None for what no domain holds: a number of too many digits, which the engine took for one of the domain."""
    triples = zip(plan.columns, plan.types, cells, strict=True)
    try:
        return tuple(read_value(name, kind, cell) for name, kind, cell in triples)
    except NotSupported:
        if "number" in plan.types:
            return None
        raise


def key_cells(key: Any) -> list[Any]:
    """The cells of a key as answers are stored and sent."""
    return [cell(part) for part in (key if isinstance(key, tuple) else (key,))]


def cell(value: Any) -> Any:
    """A value as answers are stored and sent."""
    if isinstance(value, date):
        return value.isoformat()
    # + 0.0, because the engine groups -0.0 with 0.0 and shows the one it met first: one person's row.
    return float(value) + 0.0 if isinstance(value, Fraction | Decimal | float) else value
