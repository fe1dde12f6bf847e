"""A question in its place: the range that is complete, the entities it is settled with, and the cells it rests on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from sfumato.errors import NotSupported
from sfumato.ledger.cells import Place, Seal
from sfumato.mechanisms import context
from sfumato.query.reports.calendar import ALL, Span
from sfumato.query.reports.entities import Entities, Family, Path, Tenancy
from sfumato.query.reports.read import ReportRequest
from sfumato.reports.cells import Block
from sfumato.reports.numbers import Numbers

Steps: TypeAlias = tuple[tuple[datetime, datetime], ...]

MAX_CELLS = 2_000_000  # that one question may rest on
MAX_ROWS = 100_000
MAX_ENDS, MAX_SPANS = 20_000, 20_000  # epochs of running counts; ranges that an answer is made of
MAX_TOGETHER = 50_000  # epochs times entities that are settled together, one epoch after the other


@dataclass(frozen=True, slots=True)
class PlannedReport:
    """A question and all that its answer is made of. `end` is where the complete part of its range ends."""

    asked: ReportRequest
    path: Path
    family: Family
    entities: Entities
    numbers: Numbers
    blocks: tuple[Block, ...]
    steps: Steps
    end: datetime

    @property
    def place(self) -> int:
        return self.family.paths.index(self.path)

    def digest(self, found: Mapping[Place, Seal]) -> str:
        """A name for the answer: the question, how far it goes, and the stored cells it is made of."""
        sealed = sorted(f"{place.key} {seal.number} {seal.nonce.hex()}" for place, seal in found.items())
        asked, end = self.asked.encode(self.path), self.end.isoformat()
        encoded = context(question=asked, end=end, sealed=json.dumps(sealed))
        return f"sha256:{hashlib.sha256(encoded).hexdigest()}"


def placed(
    asked: ReportRequest, entities: Entities, path: Path, tenancy: Tenancy | None, now: datetime
) -> PlannedReport:
    """The question about one entity, at a moment; a refusal where nothing is complete, or where it is too long."""
    policy = asked.policy
    if "tree" in asked.options and policy.levels and not entities.listed:
        raise NotSupported("tree needs a table of entities, which says whose children there are", field="options")
    family = entities.family(path, policy.fanout, whole="tree" in asked.options)
    if "tree" in asked.options and not entities.visible(family.paths[0], tenancy):
        raise NotSupported(f"tree is for those who may see the whole {policy.levels[0]}; leave it out", field="options")
    end = min(asked.end, policy.calendar.complete(now, policy.lag))
    if end <= asked.start:
        latest = policy.calendar.wall(end).isoformat(sep=" ", timespec="minutes")
        raise NotSupported(
            f"nothing of this range is complete yet; the last complete epoch ends at {latest}", field="start"
        )
    numbers, steps = _numbers(asked, family, end)
    question = PlannedReport(asked, path, family, entities, numbers, _blocks(asked, family, numbers.spans), steps, end)
    _check_size(question)
    return question


def _numbers(asked: ReportRequest, family: Family, end: datetime) -> tuple[Numbers, Steps]:
    """How the numbers are made, and the steps that they are of."""
    calendar = asked.policy.calendar
    _check_length(asked, family, end)
    steps = calendar.steps(asked.start, end, asked.granularity)
    if "monotone" in asked.options:
        return _running(asked, family, steps, end), steps
    sums = [calendar.partition(*step) for step in steps]
    place = {span: at for at, span in enumerate(dict.fromkeys(span for each in sums for span in each))}
    placed = tuple(tuple(place[span] for span in each) for each in sums)
    return Numbers(asked.policy, family, tuple(place), asked.options, steps=placed), steps


def _running(asked: ReportRequest, family: Family, steps: Steps, end: datetime) -> Numbers:
    """Each end has the ranges of an earlier one, and one more: the last of its own partition."""
    calendar = asked.policy.calendar
    ends = calendar.ends(asked.start, end)
    lasts = [calendar.last(asked.start, each) for each in ends]
    place = {span: at for at, span in enumerate(dict.fromkeys(lasts))}
    at = {each: number for number, each in enumerate(ends)} | {asked.start: -1}
    chained = tuple((at[last.start], place[last]) for last in lasts)
    upto = frozenset(at[step_end] + 1 for _, step_end in steps)
    return Numbers(asked.policy, family, tuple(place), asked.options, ends=chained, upto=upto)


def _check_length(asked: ReportRequest, family: Family, end: datetime) -> None:
    """Before a long list is made: how long it would be."""
    calendar = asked.policy.calendar
    most = MAX_ENDS if len(family.paths) == 1 else MAX_TOGETHER // len(family.paths)
    if "monotone" in asked.options and calendar.about(asked.start, end, calendar.levels[0]) > most:
        raise NotSupported(
            f"monotone looks at each {calendar.levels[0]}, at most {most:,}; shorten the range", field="options"
        )
    level = calendar.levels[-1] if asked.granularity == ALL else asked.granularity
    if calendar.about(asked.start, end, level) > MAX_SPANS:
        raise NotSupported(f"this is more than {MAX_SPANS:,} times a {level}; shorten the range", field="start and end")


def _blocks(asked: ReportRequest, family: Family, spans: tuple[Span, ...]) -> tuple[Block, ...]:
    """All vectors that the answer rests on, also those that only hold others up."""
    policy = asked.policy
    names = policy.following(asked.statistics) if "actions" in asked.options else asked.statistics
    attributes: list[str | None] = [asked.attribute]
    if "totals" in asked.options and asked.attribute is None:
        attributes += [name for name, each in policy.attributes.items() if each.max_values == 1]
    paths = tuple(path for path, own in zip(family.paths, family.measured, strict=True) if own)
    return tuple(Block(policy, attribute, tuple(names), paths, spans) for attribute in attributes)


def _check_size(question: PlannedReport) -> None:
    asked = question.asked
    if sum(block.cells for block in question.blocks) > MAX_CELLS:
        ways = "ask for a shorter range, or without monotone, totals or tree"
        raise NotSupported(f"this rests on more than {MAX_CELLS:,} cells; {ways}")
    values = 1 if asked.attribute is None else len(asked.policy.attributes[asked.attribute].domain)
    if len(question.steps) * min(values, asked.top or values) > MAX_ROWS:
        raise NotSupported(f"this gives more than {MAX_ROWS:,} rows; take a coarser one, or a top", field="granularity")
