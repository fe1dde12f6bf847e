"""From exact counts to stored cells: the only place where a report reads rows.

Exact counts live between the engine and the noise, inside `_draw`, and nowhere else. What a question misses is opened
in the store first, each vector with a nonce of its own. Then rows are read and noise is drawn. Every answer is made of
the numbers that were stored first, now and later.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.engines.base import COULD_NOT_READ, Engine
from sfumato.errors import EngineFailed
from sfumato.ledger.cells import CellCounts, Place, Seal, Seals
from sfumato.mechanisms import DiscreteGaussian, Rng, context
from sfumato.mechanisms.report_noise import draw_cells
from sfumato.query.reports.calendar import Span
from sfumato.query.reports.counting import cap_definition
from sfumato.query.reports.entities import Entities, Path
from sfumato.query.reports.policy import Attribute, ReportPolicy
from sfumato.query.values import json_value
from sfumato.reports.exact import exact_counts

TOTAL = ("",)
CHUNK = 2000  # places in one transaction

T = TypeVar("T")


@dataclass(frozen=True)
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
        return _domain_texts(self.policy.attributes[self.attribute])

    @property
    def cells(self) -> int:
        values = 1 if self.attribute is None else len(self.policy.attributes[self.attribute].domain)
        return len(self.statistics) * len(self.paths) * len(self.spans) * values

    @cached_property
    def places(self) -> Mapping[Place, str]:
        """Every vector with the definition that it is drawn under."""
        entities = [(json.dumps(path), len(path)) for path in self.paths]
        border = self.policy.border_name
        times = [(span.level, border(span.start), border(span.end)) for span in self.spans]
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
def _domain_texts(attribute: Attribute) -> tuple[str, ...]:
    return tuple(json.dumps(json_value(value)) for value in attribute.domain)


def definition(policy: ReportPolicy, statistic: str, attribute: str | None, level: str, depth: int) -> str:
    """A hash of what a vector means, but for the values of its domain. Another definition is another release.

    `depth` is that of its entity.
    """
    counted = policy.statistics[statistic]
    settings = None if attribute is None else policy.attributes[attribute]
    several = None if settings is None or not settings.several else (settings.max_values, settings.separator)
    law = policy.law(statistic, level)
    noise = {"sigma_squared": law.sigma_squared} if isinstance(law, DiscreteGaussian) else {"epsilon": 1 / law.scale}
    fields = context(
        version=1,
        source=policy.source,
        time=policy.time,
        zone=policy.calendar.zone,
        column=counted.column,
        where=str(counted.where),
        **noise,
        values=None if settings is None else settings.type,
        several=several,
        cap=None if policy.cap is None else cap_definition(policy),
        entity=[*policy.levels[:depth], policy.reach],
        exact=attribute is None and policy.exact_totals,
    )
    return hashlib.sha256(fields).hexdigest()


def current_definition(policy: ReportPolicy, place: Place) -> str | None:
    """The definition under which a place is served now; None where the policy no longer has such a place."""
    depth, attribute = len(json.loads(place.entity)), place.attribute or None
    known = place.statistic in policy.statistics and (attribute is None or attribute in policy.attributes)
    if not known or place.level not in policy.calendar.levels or depth > len(policy.levels):
        return None
    return definition(policy, place.statistic, attribute, place.level, depth)


def definitions(policy: ReportPolicy) -> frozenset[str]:
    """The definitions of all vectors that a policy can need."""
    return frozenset(
        definition(policy, statistic, attribute, level, depth)
        for statistic in policy.statistics
        for attribute in (None, *policy.attributes)
        for level in policy.calendar.levels
        for depth in range(len(policy.levels) + 1)
    )


class Cells:
    """The stored cells of one report. They are drawn when they are first needed."""

    def __init__(self, policy: ReportPolicy, engine: Engine, seals: Seals, key: bytes) -> None:
        self._policy, self._engine, self._seals, self._key = policy, engine, seals, key

    def read(self, blocks: Iterable[Block]) -> dict[Place, Seal]:
        """The stored vectors of these blocks."""
        return {place: seal for block in blocks for place, seal in self._seals.read(block.places).items()}

    def missing(self, block: Block, seals: Mapping[Place, Seal]) -> dict[Place, str]:
        """The vectors of which a value has no cell yet."""
        values = block.values

        def covers(seal: Seal) -> bool:
            return any(part.values == values for part in seal.parts) or _counts_by_value(seal).keys() >= set(values)

        return {
            place: defined for place, defined in block.places.items() if place not in seals or not covers(seals[place])
        }

    def seal(self, block: Block, missing: Mapping[Place, str], entities: Entities, now: datetime) -> dict[Place, Seal]:
        """Draw and store what is missing of a block. Nothing leaves before it is stored.

        Guarantee: (epsilon, delta)-DP for one event (or person) over all that is ever stored of a report, as
        `sfumato.query.reports.policy.guarantee` states them; delta is 0 with Laplace noise. Proof: proofs/reports.md.
        """
        seals: dict[Place, Seal] = {}
        for some in _chunks(missing):
            seals |= self._seals.open(some, most=self._policy.max_versions, now=now)
        drawn = self._draw(block, missing, seals, entities)
        if drawn is None:
            raise EngineFailed(COULD_NOT_READ)
        stored: dict[Place, Seal] = {}
        for part in _chunks(drawn):
            stored |= self._seals.store(self._policy.name, part, now)
        return stored

    def _draw(
        self, block: Block, missing: Mapping[Place, str], opened: Mapping[Place, Seal], entities: Entities
    ) -> dict[Place, tuple[int, CellCounts]] | None:
        """Noisy vectors, made from the engine's exact ones; None where that failed."""
        try:
            return {
                place: self._draw_vector(place, missing[place], opened[place], counts, block)
                for place, counts in self._exact_vectors(block, missing, entities)
            }
        except Exception:
            return None

    def _draw_vector(
        self, place: Place, defined: str, seal: Seal, counts: NDArray[np.int64], block: Block
    ) -> tuple[int, CellCounts]:
        """The values of one vector that have no cell yet, each with a noise of its own."""
        values, exact = block.values, counts
        if seal.parts:
            stored = _counts_by_value(seal)
            wanted = [at for at, value in enumerate(values) if value not in stored]
            values, exact = tuple(values[at] for at in wanted), counts[wanted]
        if block.attribute is None and self._policy.exact_totals:
            return seal.number, CellCounts(values, tuple(exact.tolist()))
        source = context(
            cell=place.key, seal=seal.number, nonce=seal.nonce, definition=defined, values=_values_digest(values)
        )
        law = self._policy.law(place.statistic, place.level)
        noisy = draw_cells(exact, law, Rng.keyed(self._key, source))
        return seal.number, CellCounts(values, tuple(noisy.tolist()))

    def _exact_vectors(
        self, block: Block, missing: Mapping[Place, str], entities: Entities
    ) -> Iterable[tuple[Place, NDArray[np.int64]]]:
        """The exact vector of every missing place, from one query."""
        statistics = [name for name in block.statistics if any(place.statistic == name for place in missing)]
        wanted = {place.entity for place in missing}
        paths = [path for path in block.paths if json.dumps(path) in wanted]
        times = {(place.level, place.start) for place in missing}
        spans = [span for span in block.spans if (span.level, self._policy.border_name(span.start)) in times]
        counts = exact_counts(self._engine, self._policy, block.attribute, statistics, paths, spans, entities)
        for s, name in enumerate(statistics):
            for p, path in enumerate(paths):
                for t, span in enumerate(spans):
                    ends = self._policy.border_name(span.start), self._policy.border_name(span.end)
                    place = Place(self._policy.name, name, json.dumps(path), block.attribute or "", span.level, *ends)
                    if place in missing:
                        yield place, counts[s, p, t]


def _chunks(places: Mapping[Place, T]) -> Iterator[dict[Place, T]]:
    """`CHUNK` places at a time: no transaction holds the ledger for long."""
    items = iter(places.items())
    while some := dict(itertools.islice(items, CHUNK)):
        yield some


def vectors(block: Block, seals: Mapping[Place, Seal]) -> NDArray[np.int64]:
    """The stored cells of a block as one array: statistics x entities x ranges x values."""
    values = block.values

    def row(seal: Seal) -> Sequence[int]:
        if len(seal.parts) == 1 and seal.parts[0].values == values:
            return seal.parts[0].counts
        stored = _counts_by_value(seal)
        return [stored[value] for value in values]

    shape = len(block.statistics), len(block.paths), len(block.spans), len(values)
    return np.array([row(seals[place]) for place in block.places], np.int64).reshape(shape)


def _counts_by_value(seal: Seal) -> dict[str, int]:
    return {value: count for part in seal.parts for value, count in zip(part.values, part.counts, strict=True)}


@lru_cache(64)
def _values_digest(values: tuple[str, ...]) -> str:
    return hashlib.sha256(context(values=list(values))).hexdigest()
