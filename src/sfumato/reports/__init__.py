"""Reports: numbers of entities by attribute and over time, which stay what they were.

    question -> calendar and entities -> cells (stored, or counted, drawn and stored now) -> consistency -> answer

A report debits nobody: whatever is asked, however often and by whomever, all that ever leaves is a function of its
stored cells, and these have one guarantee (`sfumato.query.reports.policy.guarantee`), which every answer carries.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from sfumato.answer import SingleFlight
from sfumato.catalog import Catalog
from sfumato.config import Config
from sfumato.engines.base import COULD_NOT_READ
from sfumato.errors import EngineFailed
from sfumato.ledger.cells import Place, Seal, Seals
from sfumato.query.reports.entities import Entities, Tenancy
from sfumato.query.reports.policy import ReportPolicy, guarantee
from sfumato.query.reports.read import find_report, read_report
from sfumato.query.values import json_value
from sfumato.reports.answers import answered
from sfumato.reports.cells import Cells
from sfumato.reports.plan import PlannedReport, placed
from sfumato.reports.policies import read_entities, report_policies
from sfumato.reports.quota import Quota
from sfumato.reports.reseal import Reseal, reseal
from sfumato.wire import Report, ReportRow, Standing

FRESH = timedelta(minutes=1)  # how long a table of entities is taken as read


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
        self._turns = SingleFlight(words=COULD_NOT_READ)
        self._quota = Quota()

    def report(self, question: Mapping[str, Any], tenancy: Tenancy | None, standing: Standing) -> Report:
        """The answer to a question, for somebody who may see these entities. Free; `standing` is for the receipt."""
        asked = read_report(question, self.policies)
        entities = self.entities(asked.policy)
        asking = placed(asked, entities, entities.find(asked.entity, tenancy), tenancy, self._clock())
        found, repeat = self._found(asking, standing.account)
        return answered(asking, found, standing, repeat=repeat)

    def rows(self) -> Iterator[ReportRow]:
        """What may be asked, as the policies have it."""
        for policy in self.policies.values():
            yield ReportRow(
                report=policy.name,
                statistics=tuple(policy.statistics),
                attributes={name: [*map(json_value, each.domain)] for name, each in policy.attributes.items()},
                entities=policy.levels,
                levels=policy.calendar.levels,
                zone=policy.calendar.zone,
                guarantee=guarantee(policy).to_dict(),
            )

    def reseal(
        self, report: str | None, *, start: Any, end: Any, entity: Mapping[str, str] | None, dry: bool
    ) -> Reseal:
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
                known = self._entities[policy.name] = now, self._read_entities(policy)
        return known[1]

    def _read_entities(self, policy: ReportPolicy) -> Entities:
        try:
            return read_entities(policy, self._catalog)
        except EngineFailed:
            raise EngineFailed(COULD_NOT_READ) from None

    def _found(self, question: PlannedReport, asker: str) -> tuple[dict[Place, Seal], bool]:
        """The stored cells behind a question; and whether they all were there already."""
        cells, name = self._cells[question.asked.policy.name], question.digest({})
        found = cells.read(question.blocks)
        new = sum(len(cells.missing(block, found)) for block in question.blocks)
        if not new:
            return found, True
        self._quota.take(asker, new, self._clock())
        with self._turns.of(name) as waited:
            if waited:  # somebody has asked the same meanwhile
                found = cells.read(question.blocks)
            try:
                for block in question.blocks:
                    missing = cells.missing(block, found)
                    if missing and waited:
                        raise EngineFailed(COULD_NOT_READ)
                    if missing:
                        found |= cells.seal(block, missing, question.entities, self._clock())
            except EngineFailed:
                self._turns.ended(name, well=False)
                raise
            self._turns.ended(name, well=True)
        return found, False
