"""From exact counts to stored cells: the only place where a report reads rows.

Exact counts live between the engine and the noise, inside `_drawn`, and nowhere else. What is missing of a question is
opened in the store first, each vector with a nonce of its own; then rows are read, noise is drawn, and what was stored
first is what everybody is told, now and later.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.engines.base import COULD_NOT_READ, Engine
from sfumato.errors import EngineFailed, NotSupported
from sfumato.ledger.cells import CellCounts, Place, Seal, Seals
from sfumato.mechanisms import Rng, context
from sfumato.mechanisms.report_noise import canonical_laplace
from sfumato.query.predicate import EVERYTHING, In, Predicate, Values, all_of, prune
from sfumato.query.reports.calendar import Span
from sfumato.query.reports.counting import ReportCounting, segment_query, selection, values_of
from sfumato.query.reports.entities import Entities, Path
from sfumato.query.reports.policy import Attribute, ReportPolicy
from sfumato.query.values import json_value, read_value
from sfumato.types import Value

MAX_COUNT = 2**40
TOTAL = ("",)
CHUNK = 2000  # places in one transaction

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Block:
    """All vectors of one attribute (None: of totals) that a question needs: statistics x entities x ranges."""

    policy: ReportPolicy
    attribute: str | None
    statistics: tuple[str, ...]
    paths: tuple[Path, ...]
    spans: tuple[Span, ...]

    @property
    def values(self) -> tuple[str, ...]:
        """The domain as it is stored: JSON texts, or one empty text for a total."""
        if self.attribute is None:
            return TOTAL
        return _texts(self.policy.attributes[self.attribute])

    @property
    def cells(self) -> int:
        values = 1 if self.attribute is None else len(self.policy.attributes[self.attribute].domain)
        return len(self.statistics) * len(self.paths) * len(self.spans) * values

    def places(self) -> dict[Place, str]:
        """Every vector with the definition that it is drawn under."""
        entities = [(json.dumps(path), len(path)) for path in self.paths]
        named = self.policy.named
        times = [(span.level, named(span.start), named(span.end)) for span in self.spans]
        defined = {
            (name, level, depth): definition(self.policy, name, self.attribute, level, depth)
            for name in self.statistics
            for level in {span.level for span in self.spans}
            for depth in {len(path) for path in self.paths}
        }
        return {
            Place(self.policy.name, name, entity, self.attribute or "", *time): defined[name, time[0], depth]
            for name in self.statistics
            for entity, depth in entities
            for time in times
        }


@lru_cache(64)
def _texts(attribute: Attribute) -> tuple[str, ...]:
    return tuple(json.dumps(json_value(value)) for value in attribute.domain)


def definition(policy: ReportPolicy, statistic: str, attribute: str | None, level: str, depth: int) -> str:
    """What a vector means, but for the values of its domain: with another definition it would be another release.

    `depth` is that of its entity.
    """
    counted = policy.statistics[statistic]
    described = None if attribute is None else policy.attributes[attribute]
    several = None if described is None or not described.several else (described.max_values, described.separator)
    fields = context(
        version=1,
        source=policy.source,
        time=policy.time,
        zone=policy.calendar.zone,
        column=counted.column,
        where=str(counted.where),
        epsilon=counted.epsilon[level],
        values=None if described is None else described.type,
        several=several,
        cap=None if policy.cap is None else selection(policy),
        entity=[*policy.levels[:depth], policy.reach],
        exact=attribute is None and policy.exact_totals,
    )
    return hashlib.sha256(fields).hexdigest()


def definition_of(policy: ReportPolicy, place: Place) -> str | None:
    """The definition under which a place is served now; None where the policy has no such thing any more."""
    depth, attribute = len(json.loads(place.entity)), place.attribute or None
    known = place.statistic in policy.statistics and (attribute is None or attribute in policy.attributes)
    if not known or place.level not in policy.calendar.levels or depth > len(policy.levels):
        return None
    return definition(policy, place.statistic, attribute, place.level, depth)


def definitions(policy: ReportPolicy) -> frozenset[str]:
    """Of all vectors that a policy can ask for."""
    return frozenset(
        definition(policy, statistic, attribute, level, depth)
        for statistic in policy.statistics
        for attribute in (None, *policy.attributes)
        for level in policy.calendar.levels
        for depth in range(len(policy.levels) + 1)
    )


class Cells:
    """The stored cells of one report, which are drawn when they are first needed."""

    def __init__(self, policy: ReportPolicy, engine: Engine, seals: Seals, key: bytes) -> None:
        self._policy, self._engine, self._seals, self._key = policy, engine, seals, key

    def read(self, blocks: Iterable[Block]) -> dict[Place, Seal]:
        """What is stored of these blocks."""
        return {place: seal for block in blocks for place, seal in self._seals.read(block.places()).items()}

    def missing(self, block: Block, found: Mapping[Place, Seal]) -> dict[Place, str]:
        """The vectors of which some value has no cell yet."""
        values = block.values
        return {
            place: defined
            for place, defined in block.places().items()
            if place not in found or not _covers(found[place], values)
        }

    def seal(self, block: Block, missing: Mapping[Place, str], entities: Entities, now: datetime) -> dict[Place, Seal]:
        """Draw and store what is missing of a block. Nothing of it has left before, and nothing leaves unless stored.

        Guarantee: epsilon-DP for one event (or person) over all that is ever stored of a report, with the epsilon of
        `sfumato.query.reports.policy.guarantee`. Proof: proofs/reports.md.
        """
        opened: dict[Place, Seal] = {}
        for some in _chunks(missing):
            opened |= self._seals.open(some, most=self._policy.max_versions, now=now)
        drawn = self._drawn(block, missing, opened, entities)
        if drawn is None:
            raise EngineFailed(COULD_NOT_READ)
        stored: dict[Place, Seal] = {}
        for part in _chunks(drawn):
            stored |= self._seals.store(self._policy.name, part, now)
        return stored

    def _drawn(
        self, block: Block, missing: Mapping[Place, str], opened: Mapping[Place, Seal], entities: Entities
    ) -> dict[Place, tuple[int, CellCounts]] | None:
        """Exact counts from the engine go in, noisy ones come out; None where that failed."""
        try:
            return {
                place: self._part(place, missing[place], opened[place], counts, block)
                for place, counts in self._exact(block, missing, entities)
            }
        except Exception:
            return None

    def _part(
        self, place: Place, defined: str, seal: Seal, counts: NDArray[np.int64], block: Block
    ) -> tuple[int, CellCounts]:
        """One vector: the values that have no cell yet, each with a noise of its own."""
        values, exact = block.values, counts
        if seal.parts:
            stored = _stored(seal)
            wanted = [at for at, value in enumerate(values) if value not in stored]
            values, exact = tuple(values[at] for at in wanted), counts[wanted]
        if block.attribute is None and self._policy.exact_totals:
            return seal.number, CellCounts(values, tuple(exact.tolist()))
        source = context(cell=place.key, seal=seal.number, nonce=seal.nonce, definition=defined, values=_digest(values))
        epsilon = self._policy.epsilon(place.statistic, place.level)
        noisy = canonical_laplace(exact, epsilon=epsilon, rng=Rng.keyed(self._key, source))
        return seal.number, CellCounts(values, tuple(noisy.tolist()))

    def _exact(
        self, block: Block, missing: Mapping[Place, str], entities: Entities
    ) -> Iterable[tuple[Place, NDArray[np.int64]]]:
        """The exact vector of every missing place, from one query."""
        statistics = [name for name in block.statistics if any(place.statistic == name for place in missing)]
        wanted = {place.entity for place in missing}
        paths = [path for path in block.paths if json.dumps(path) in wanted]
        times = {(place.level, place.start) for place in missing}
        spans = [span for span in block.spans if (span.level, self._policy.named(span.start)) in times]
        counts = exact_counts(self._engine, self._policy, block.attribute, statistics, paths, spans, entities)
        for s, name in enumerate(statistics):
            for p, path in enumerate(paths):
                for t, span in enumerate(spans):
                    ends = self._policy.named(span.start), self._policy.named(span.end)
                    place = Place(self._policy.name, name, json.dumps(path), block.attribute or "", span.level, *ends)
                    if place in missing:
                        yield place, counts[s, p, t]


def _chunks(places: Mapping[Place, T]) -> Iterator[dict[Place, T]]:
    """So many at a time that nobody waits long for the ledger."""
    items = iter(places.items())
    while some := dict(itertools.islice(items, CHUNK)):
        yield some


def vectors(block: Block, found: Mapping[Place, Seal]) -> NDArray[np.int64]:
    """The stored cells of a block as one array: statistics x entities x ranges x values."""
    values = block.values
    rows = [_row(found[place], values) for place in block.places()]
    shape = len(block.statistics), len(block.paths), len(block.spans), len(values)
    return np.array(rows, np.int64).reshape(shape)


def _row(seal: Seal, values: tuple[str, ...]) -> Sequence[int]:
    if len(seal.parts) == 1 and seal.parts[0].values == values:
        return seal.parts[0].counts
    stored = _stored(seal)
    return [stored[value] for value in values]


def _covers(seal: Seal, values: tuple[str, ...]) -> bool:
    return any(part.values == values for part in seal.parts) or _stored(seal).keys() >= set(values)


def _stored(seal: Seal) -> dict[str, int]:
    return {value: count for part in seal.parts for value, count in zip(part.values, part.counts, strict=True)}


@lru_cache(64)
def _digest(values: tuple[str, ...]) -> str:
    return hashlib.sha256(context(values=list(values))).hexdigest()


# -- exact counts --


def exact_counts(
    engine: Engine,
    policy: ReportPolicy,
    attribute: str | None,
    statistics: Sequence[str],
    paths: Sequence[Path],
    spans: Sequence[Span],
    entities: Entities,
) -> NDArray[np.int64]:
    """Exact counts: statistics x entities x ranges x values. Not for showing."""
    edges = sorted({edge for span in spans for edge in (span.start, span.end)})
    within, by = _within(policy, paths, entities), _by(policy, paths)
    counted = tuple(policy.statistics[name] for name in statistics)
    rows = engine.run(segment_query(ReportCounting(policy, counted, attribute, tuple(edges), within, by)))
    by_segment = np.zeros((len(statistics), len(paths), len(edges), _width(policy, attribute)), np.int64)
    if rows:
        segments, *columns = zip(*rows, strict=True)
        counts, pieces = [_whole(column) for column in columns[-len(counted) :]], np.array(segments, np.intp)
        row, value = _values(policy, attribute, columns[len(by)] if attribute is not None else segments)
        for owner in _owners(policy, paths, entities, list(zip(*columns[: len(by)], strict=True)), len(rows)):
            mine = owner[row] >= 0
            at = row[mine]
            for statistic, count in enumerate(counts):
                np.add.at(by_segment[statistic], (owner[at], pieces[at], value[mine]), count[at])
    return _summed(by_segment, edges, spans)


def _whole(column: Sequence[int]) -> NDArray[np.int64]:
    try:
        return np.minimum(np.array(column, np.int64), MAX_COUNT)
    except OverflowError:
        return np.array([min(int(count), MAX_COUNT) for count in column], np.int64)


def _width(policy: ReportPolicy, attribute: str | None) -> int:
    return 1 if attribute is None else len(policy.attributes[attribute].domain)


def _values(
    policy: ReportPolicy, attribute: str | None, cells: Sequence[Any]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Which row counts for which value of the domain: pairs of their places."""
    if attribute is None:
        return np.arange(len(cells)), np.zeros(len(cells), np.intp)
    described = policy.attributes[attribute]
    index: dict[Value, int] = {value: at for at, value in enumerate(described.domain)}
    if described.several:
        lists = (values_of(cell, described.separator, described.max_values) for cell in cells)
        pairs = [(row, index[value]) for row, values in enumerate(lists) for value in values if value in index]
        found = np.array(pairs, np.intp).reshape(-1, 2)
        return found[:, 0], found[:, 1]
    if described.type == "number":
        cells = [_number(described.name, cell) for cell in cells]
    value = np.fromiter(map(index.get, cells, itertools.repeat(-1)), np.intp, len(cells))
    return np.flatnonzero(value >= 0), value[value >= 0]


def _number(name: str, cell: Any) -> Value | None:
    try:
        return read_value(name, "number", cell)
    except NotSupported:  # of more digits than a domain can hold
        return None


def _owners(
    policy: ReportPolicy, paths: Sequence[Path], entities: Entities, names: Sequence[tuple[Any, ...]], rows: int
) -> Iterator[NDArray[np.intp]]:
    """The entity, by its place, that each row counts for, on one level after the other; -1 for none."""
    if not names:
        yield np.zeros(rows, np.intp)
        return
    place = {path: at for at, path in enumerate(paths)}
    leaves = {leaf[-1]: leaf for leaf in entities.leaves(_above(paths))} if policy.reach == "leaf" else {}
    own = [tuple(itertools.takewhile(bool, (_named(name) for name in each))) for each in names]
    if policy.reach == "leaf":
        own = [leaves.get(each[0], ()) if each else () for each in own]
    for depth in sorted({len(path) for path in paths}):
        yield np.array([place.get(path[:depth], -1) if len(path) >= depth else -1 for path in own], np.intp)


def _named(name: Any) -> str:
    return "" if name is None else str(name)


def _summed(by_segment: NDArray[np.int64], edges: Sequence[datetime], spans: Sequence[Span]) -> NDArray[np.int64]:
    """Segments added up to ranges: differences of their running sums."""
    upto = np.zeros_like(by_segment)
    upto[:, :, 1:] = by_segment[:, :, :-1].cumsum(axis=2)
    place = {edge: at for at, edge in enumerate(edges)}
    starts, ends = [place[span.start] for span in spans], [place[span.end] for span in spans]
    return upto[:, :, ends] - upto[:, :, starts]


def _by(policy: ReportPolicy, paths: Sequence[Path]) -> tuple[str, ...]:
    """The columns that tell these entities apart."""
    if len(paths) == 1:
        return ()
    return policy.levels[-1:] if policy.reach == "leaf" else policy.levels[: max(map(len, paths))]


def _within(policy: ReportPolicy, paths: Sequence[Path], entities: Entities) -> Predicate:
    """The rows of these entities: those of the one that is above them all."""
    top = _above(paths)
    if not top:
        return EVERYTHING
    named = list(zip(policy.levels, ([name] for name in top), strict=False))
    if policy.reach == "leaf":
        named = [(policy.levels[-1], [leaf[-1] for leaf in entities.leaves(top)])]
    held = [(column, [read_value(column, policy.types[column], name) for name in names]) for column, names in named]
    return prune(all_of([In(column, Values.of(*names)) for column, names in held]))


def _above(paths: Sequence[Path]) -> Path:
    top = min(paths, key=len)
    while any(path[: len(top)] != top for path in paths):
        top = top[:-1]
    return top
