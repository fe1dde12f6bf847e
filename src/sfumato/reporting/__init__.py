"""Reports: numbers of entities by attribute and over time, which stay what they were.

    question -> calendar and entities -> cells (stored, or counted, drawn and stored now) -> consistency -> answer

A report debits nobody: whatever is asked, however often and by whomever, all that ever leaves is a function of its
stored cells, and these have one guarantee (`sfumato.query.reports.guarantee`), which every answer carries.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting import NOTHING
from sfumato.answer import Turns, cell
from sfumato.budget.seals import Place, Seal, Seals
from sfumato.catalog import Catalog
from sfumato.config import Config
from sfumato.engines.base import COULD_NOT_READ
from sfumato.errors import EngineFailed, NotSupported
from sfumato.mechanisms import context
from sfumato.mechanisms.canonical import CANONICAL
from sfumato.query.calendar import ALL, Span
from sfumato.query.entities import Entities, Family, Path, Tenancy
from sfumato.query.report_request import Asked, find_report, read_report
from sfumato.query.reports import OPTIONS, Guarantee, ReportPolicy, guarantee
from sfumato.query.values import plain
from sfumato.records import Receipt, Report, ReportRow, Standing
from sfumato.reporting.cells import Block, Cells, vectors
from sfumato.reporting.numbers import Array, Numbers, Which, error95
from sfumato.reporting.policies import read_entities, report_policies
from sfumato.reporting.resealing import Resealing, reseal

MOST_CELLS = 2_000_000  # that one question may rest on
MOST_ROWS = 100_000
MOST_ENDS, MOST_SPANS = 20_000, 20_000  # epochs of running counts; ranges that an answer is made of
MOST_ENDS_TOGETHER = 2000  # of entities that are settled together, one end after the other
FRESH = timedelta(minutes=1)  # how long a table of entities is taken as read

EVENT_LEVEL = "the guarantee is for one event; a person with many events is hidden less"
PERSON_LEVEL = "the guarantee is for one person: her first {events} events count"
EXACT = "totals are exact, as the owner has it known to the reader; the guarantee does not cover them"


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its place among the cells: the range that is complete, the family, and what it rests on."""

    asked: Asked
    path: Path
    family: Family
    entities: Entities
    numbers: Numbers
    blocks: tuple[Block, ...]
    steps: tuple[tuple[datetime, datetime], ...]
    end: datetime

    @property
    def which(self) -> list[Which]:
        return [(name, self.asked.attribute) for name in self.asked.statistics]

    @property
    def place(self) -> int:
        return self.family.paths.index(self.path)


class Reports:
    """The reports of a configuration. Thread-safe."""

    def __init__(
        self, config: Config, catalog: Catalog, seals: Seals, key: bytes, clock: Callable[[], datetime]
    ) -> None:
        self.policies = report_policies(config, catalog)
        self._catalog, self._seals, self._clock = catalog, seals, clock
        self._cells = {
            name: Cells(policy, catalog.engine(policy.table), seals, key) for name, policy in self.policies.items()
        }
        self._mutex = threading.Lock()
        self._entities: dict[str, tuple[datetime, Entities]] = {}
        self._turns = Turns(words=COULD_NOT_READ)

    def report(self, question: Mapping[str, Any], tenancy: Tenancy | None, standing: Standing) -> Report:
        """The answer to a question, for somebody who may see these entities. Free; `standing` is for the receipt."""
        asked = read_report(question, self.policies)
        placed = self._placed(asked, tenancy)
        found, repeat = self._found(placed)
        return _answered(placed, found, standing, repeat=repeat)

    def rows(self) -> Iterator[ReportRow]:
        """What may be asked, as the policies have it."""
        for policy in self.policies.values():
            yield ReportRow(
                report=policy.name,
                statistics=tuple(policy.statistics),
                attributes={name: [plain(value) for value in each.domain] for name, each in policy.attributes.items()},
                entities=policy.levels,
                levels=policy.calendar.levels,
                zone=policy.calendar.zone,
                guarantee=guarantee(policy).to_dict(),
            )

    def reseal(
        self, report: str | None, *, start: Any, end: Any, entity: Mapping[str, str] | None, dry: bool
    ) -> Resealing:
        """Let late rows of a range in, as another version: of an entity, all above and below it, or of all of them."""
        policy = find_report(report, self.policies)
        entities = self.entities(policy)
        options: dict[str, Any] = {"start": start, "end": end, "entity": entity, "dry": dry}
        return reseal(policy, self._seals, entities, now=self._clock(), **options)

    def entities(self, policy: ReportPolicy) -> Entities:
        """Its entities, as their table listed them within the last minute."""
        now = self._clock()
        with self._mutex:
            known = self._entities.get(policy.name)
        if known is None or not timedelta() <= now - known[0] < FRESH:
            known = now, self._read_entities(policy)
            with self._mutex:
                self._entities[policy.name] = known
        return known[1]

    def _read_entities(self, policy: ReportPolicy) -> Entities:
        try:
            return read_entities(policy, self._catalog)
        except EngineFailed:
            raise EngineFailed(COULD_NOT_READ) from None

    def _placed(self, asked: Asked, tenancy: Tenancy | None) -> Question:
        policy, entities = asked.policy, self.entities(asked.policy)
        path = entities.find(asked.entity, tenancy)
        if "tree" in asked.options and policy.levels and not entities.listed:
            raise NotSupported("options: tree needs a table of entities, which says whose children there are")
        family = entities.family(path, policy.fanout, whole="tree" in asked.options)
        end = min(asked.end, policy.calendar.complete(self._clock(), policy.lag))
        if end <= asked.start:
            latest = policy.calendar.wall(end).isoformat(sep=" ", timespec="minutes")
            raise NotSupported(
                f"start: nothing of this range is complete yet; the last complete epoch ends at {latest}"
            )
        numbers, steps = _numbers(asked, family, end)
        question = Question(asked, path, family, entities, numbers, _blocks(asked, family, numbers.spans), steps, end)
        _check_size(question)
        return question

    def _found(self, question: Question) -> tuple[dict[Place, Seal], bool]:
        """The stored cells behind a question; and whether they all were there already."""
        cells = self._cells[question.asked.policy.name]
        found = {place: seal for block in question.blocks for place, seal in cells.read(block).items()}
        if not any(cells.missing(block, found) for block in question.blocks):
            return found, True
        with self._turns.of(_digest(question, {})) as waited:
            if waited:  # somebody has asked the same meanwhile
                found = {place: seal for block in question.blocks for place, seal in cells.read(block).items()}
            try:
                for block in question.blocks:
                    missing = cells.missing(block, found)
                    if missing and waited:
                        raise EngineFailed(COULD_NOT_READ)
                    if missing:
                        found |= cells.seal(block, missing, question.entities, self._clock())
            except EngineFailed:
                self._turns.ended(_digest(question, {}), well=False)
                raise
            self._turns.ended(_digest(question, {}), well=True)
        return found, False


def _numbers(asked: Asked, family: Family, end: datetime) -> tuple[Numbers, tuple[tuple[datetime, datetime], ...]]:
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


def _running(asked: Asked, family: Family, steps: tuple[tuple[datetime, datetime], ...], end: datetime) -> Numbers:
    """Each end has the ranges of an earlier one, and one more: the last of its own partition."""
    calendar = asked.policy.calendar
    ends = calendar.ends(asked.start, end)
    lasts = [calendar.last(asked.start, each) for each in ends]
    place = {span: at for at, span in enumerate(dict.fromkeys(lasts))}
    at = {each: number for number, each in enumerate(ends)} | {asked.start: -1}
    chained = tuple((at[last.start], place[last]) for last in lasts)
    upto = frozenset(at[step_end] + 1 for _, step_end in steps)
    return Numbers(asked.policy, family, tuple(place), asked.options, ends=chained, upto=upto)


def _check_length(asked: Asked, family: Family, end: datetime) -> None:
    """Before a long list is made: how long it would be."""
    calendar = asked.policy.calendar
    most = MOST_ENDS if len(family.paths) == 1 else MOST_ENDS_TOGETHER
    if "monotone" in asked.options and calendar.about(asked.start, end, calendar.levels[0]) > most:
        raise NotSupported(f"options: monotone looks at each {calendar.levels[0]}, at most {most:,}; shorten the range")
    level = calendar.levels[-1] if asked.granularity == ALL else asked.granularity
    if calendar.about(asked.start, end, level) > MOST_SPANS:
        raise NotSupported(f"start and end: this is more than {MOST_SPANS:,} times a {level}; shorten the range")


def _blocks(asked: Asked, family: Family, spans: tuple[Span, ...]) -> tuple[Block, ...]:
    """All vectors that the answer rests on, also those that only hold others up."""
    policy = asked.policy
    names = policy.following(asked.statistics) if "actions" in asked.options else asked.statistics
    attributes: list[str | None] = [asked.attribute]
    if "totals" in asked.options and asked.attribute is None:
        attributes += [name for name, each in policy.attributes.items() if each.max_values == 1]
    paths = tuple(path for path, own in zip(family.paths, family.measured, strict=True) if own)
    return tuple(Block(policy, attribute, tuple(names), paths, spans) for attribute in attributes)


def _check_size(question: Question) -> None:
    asked = question.asked
    if sum(block.cells for block in question.blocks) > MOST_CELLS:
        ways = "ask for a shorter range, or without monotone, totals or tree"
        raise NotSupported(f"this rests on more than {MOST_CELLS:,} cells; {ways}")
    values = 1 if asked.attribute is None else len(asked.policy.attributes[asked.attribute].domain)
    if len(question.steps) * min(values, asked.top or values) > MOST_ROWS:
        raise NotSupported(f"granularity: this gives more than {MOST_ROWS:,} rows; take a coarser one, or a top")


def _answered(question: Question, found: Mapping[Place, Seal], standing: Standing, *, repeat: bool) -> Report:
    asked, policy = question.asked, question.asked.policy
    cells: dict[Which, Array] = {}
    for block in question.blocks:
        for name, array in zip(block.statistics, vectors(block, found), strict=True):
            cells[name, block.attribute] = array
    made = question.numbers.made(cells)
    numbers = {name: made[name, asked.attribute][:, question.place] for name in asked.statistics}
    promise = guarantee(policy)
    return Report(
        columns=_columns(asked),
        rows=list(_rows(question, numbers)),
        stopped=False,
        receipt=Receipt(
            mechanism=CANONICAL,
            unit=policy.unit if policy.cap is not None else "event",
            charge=NOTHING,
            left=standing.left,
            resets=standing.resets,
            error95=_errors(question),
            data_version=f"seal {max(seal.number for seal in found.values())}",
            digest=_digest(question, found),
            repeat=repeat,
            guarantee=promise.to_dict(),
        ),
        notes=tuple(_notes(question, promise)),
        options=asked.options,
        zone=policy.calendar.zone,
    )


def _columns(asked: Asked) -> dict[str, str]:
    moment = "date" if asked.policy.calendar.days else "timestamp"
    columns: dict[str, str] = {"start": moment, "end": moment}
    if asked.attribute is not None:
        columns[asked.attribute] = asked.policy.attributes[asked.attribute].type
    return columns | dict.fromkeys(asked.statistics, "integer")


def _rows(question: Question, numbers: Mapping[str, NDArray[np.int64]]) -> Iterator[dict[str, Any]]:
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


def _errors(question: Question) -> dict[str, int]:
    """Of the widest number in the answer, before anything was raised to a floor."""
    asked, policy = question.asked, question.asked.policy
    if asked.attribute is None and policy.exact_totals:
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


def _notes(question: Question, promise: Guarantee) -> Iterator[str]:
    asked, policy = question.asked, question.asked.policy
    yield EVENT_LEVEL if promise.unit == "event" else PERSON_LEVEL.format(events=promise.events)
    if asked.attribute is None and policy.exact_totals:
        yield EXACT
    if question.end < asked.end:
        until = policy.calendar.wall(question.end).isoformat(sep=" ", timespec="minutes")
        yield f"the range ends at {until}: what comes after is not complete yet"
    if policy.min_count > 0:
        yield f"counts below {policy.min_count} are not shown"
    yield from (f"{option}: {OPTIONS[option]}" for option in asked.options)


def _digest(question: Question, found: Mapping[Place, Seal]) -> str:
    """A name for the answer: the question, how far it goes, and the stored cells it is made of."""
    sealed = sorted(f"{place.key} {seal.number} {seal.nonce.hex()}" for place, seal in found.items())
    end = question.end.isoformat()
    encoded = context(question=question.asked.encoded(question.path), end=end, sealed=json.dumps(sealed))
    return f"sha256:{hashlib.sha256(encoded).hexdigest()}"


__all__ = ["ALL", "Reports"]
