"""The plan of a report: the complete part of its range, the family of its entity, and the cells behind it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sfumato.errors import NotSupported
from sfumato.ledger.cells import Place, Seal
from sfumato.mechanisms import context
from sfumato.query.reports.calendar import ALL, LAST_CLOCK
from sfumato.query.reports.entities import Entities, Family, Path, Tenancy
from sfumato.query.reports.read import ReportRequest
from sfumato.query.reports.timetrees import time_trees
from sfumato.reports.cells import Block
from sfumato.reports.numbers import Numbers, Steps, step_numbers

MAX_CELLS = 2_000_000  # behind one question
MAX_ROWS = 100_000
MAX_ENDS, MAX_SPANS = 20_000, 20_000  # epochs of running counts; ranges that an answer is made of
MAX_TOGETHER = 50_000  # epochs times entities that are made consistent, epoch by epoch


@dataclass(frozen=True, slots=True)
class PlannedReport:
    """A question and all that its answer is made of. `end` is where the complete part of its range ends.

    `open_since`: later numbers are weighed again when the longer ranges around them are complete; None if none is.
    """

    request: ReportRequest
    path: Path
    family: Family
    entities: Entities
    numbers: Numbers
    blocks: tuple[Block, ...]
    steps: Steps
    end: datetime
    open_since: datetime | None = None

    @property
    def place(self) -> int:
        """The place of the entity in its family."""
        return self.family.paths.index(self.path)

    def digest(self, seals: Mapping[Place, Seal]) -> str:
        """A name for the answer: the question, how far it goes, and the stored cells it is made of."""
        texts = sorted(f"{place.key} {seal.number} {seal.nonce.hex()}" for place, seal in seals.items())
        question, end = self.request.encode(self.path), self.end.isoformat()
        encoded = context(question=question, end=end, sealed=json.dumps(texts))
        return f"sha256:{hashlib.sha256(encoded).hexdigest()}"


def plan_report(
    request: ReportRequest, entities: Entities, path: Path, tenancy: Tenancy | None, now: datetime
) -> PlannedReport:
    """The plan for one entity at a moment. Refuses a range of which nothing is complete, and one that is too long."""
    policy, options = request.policy, request.options
    if "tree" in options and policy.levels and not entities.listed:
        raise NotSupported("tree needs a table of entities, which says whose children there are", field="options")
    family = entities.family(path, policy.fanout, whole="tree" in options)
    if "tree" in options and not entities.visible(family.paths[0], tenancy):
        raise NotSupported(f"tree is for those who may see the whole {policy.levels[0]}; leave it out", field="options")
    complete = policy.calendar.complete_until(min(now, LAST_CLOCK), policy.lag)
    end = min(request.end, complete)
    if end <= request.start:
        latest = policy.calendar.wall(end).isoformat(sep=" ", timespec="minutes")
        problem = f"nothing of this range is complete yet; the last complete epoch ends at {latest}"
        raise NotSupported(problem, field="start")
    _check_length(request, family, end)
    steps = policy.calendar.steps(request.start, end, request.granularity)
    trees = time_trees(policy.calendar, request.start, end, complete) if request.weighs_time else ()
    if "monotone" in options:
        numbers = _running_numbers(request, family, steps, end)
    else:
        numbers = step_numbers(policy, family, options, steps, trees)
    names = policy.with_dependents(request.statistics) if "actions" in options else request.statistics
    attributes: list[str | None] = [request.attribute]
    if "totals" in options and request.attribute is None:  # the parts that a total must not be below
        attributes += [name for name, each in policy.attributes.items() if each.max_values == 1]
    paths = tuple(path for path, own in zip(family.paths, family.measured, strict=True) if own)
    blocks = tuple(Block(policy, attribute, tuple(names), paths, numbers.spans) for attribute in attributes)
    if sum(block.cells for block in blocks) > MAX_CELLS:
        ways = "ask for a shorter range, or without monotone, totals, tree or calendar"
        raise NotSupported(f"this rests on more than {MAX_CELLS:,} cells; {ways}")
    values = 1 if request.attribute is None else len(policy.attributes[request.attribute].domain)
    if len(steps) * min(values, request.top or values) > MAX_ROWS:
        raise NotSupported(f"this gives more than {MAX_ROWS:,} rows; take a coarser one, or a top", field="granularity")
    still_open = (tree.spans[0].start for tree in trees if tree.spans[0].level != policy.calendar.levels[-1])
    open_since = next((max(start, request.start) for start in still_open), None)
    return PlannedReport(request, path, family, entities, numbers, blocks, steps, end, open_since)


def _check_length(request: ReportRequest, family: Family, end: datetime) -> None:
    """Refuse a long list before it is made."""
    calendar = request.policy.calendar
    most = MAX_ENDS if len(family.paths) == 1 else MAX_TOGETHER // len(family.paths)
    if "monotone" in request.options and calendar.rough_count(request.start, end, calendar.levels[0]) > most:
        problem = f"monotone looks at each {calendar.levels[0]}, at most {most:,}; shorten the range"
        raise NotSupported(problem, field="options")
    level = calendar.levels[-1] if request.granularity == ALL else request.granularity
    level = calendar.levels[0] if request.weighs_time else level
    if calendar.rough_count(request.start, end, level) > MAX_SPANS:
        raise NotSupported(f"this is more than {MAX_SPANS:,} times a {level}; shorten the range", field="start and end")


def _running_numbers(request: ReportRequest, family: Family, steps: Steps, end: datetime) -> Numbers:
    """Each end has the ranges of an earlier one, and one more: the last of its own partition."""
    calendar = request.policy.calendar
    ends = calendar.ends(request.start, end)
    lasts = [calendar.last(request.start, each) for each in ends]
    place = {span: at for at, span in enumerate(dict.fromkeys(lasts))}
    at = {each: number for number, each in enumerate(ends)} | {request.start: -1}
    chain = tuple((at[last.start], place[last]) for last in lasts)
    upto = frozenset(at[step_end] + 1 for _, step_end in steps)
    return Numbers(request.policy, family, tuple(place), request.options, ends=chain, upto=upto)
