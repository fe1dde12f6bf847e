"""The reports of one configuration."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, cast

from sfumato.catalog import Catalog
from sfumato.config import Config
from sfumato.engines.base import COULD_NOT_READ
from sfumato.errors import EngineFailed
from sfumato.ledger.cells import Place, Seal, Seals
from sfumato.query.reports.entities import Entities, Tenancy
from sfumato.query.reports.policy import ReportPolicy, guarantee
from sfumato.query.reports.read import find_report, read_report
from sfumato.query.values import json_value
from sfumato.reports.answers import make_report
from sfumato.reports.cells import Cells
from sfumato.reports.plan import PlannedReport, plan_report
from sfumato.reports.policies import read_entities, report_policies
from sfumato.reports.quota import Quota
from sfumato.reports.reseal import Reseal, reseal
from sfumato.spending import SingleFlight
from sfumato.wire import AccountStanding, Report, ReportPromise, ReportRow

MAX_AGE = timedelta(minutes=1)  # of a table of entities, until it is read again


class Reports:
    """The reports of a configuration. Thread-safe."""

    def __init__(self, config: Config, catalog: Catalog, seals: Seals, key: bytes) -> None:
        self.policies = report_policies(config, catalog)
        self.promises = {name: guarantee(policy) for name, policy in self.policies.items()}
        self._catalog, self._seals = catalog, seals
        self._cells = {
            name: Cells(policy, catalog.engine(policy.table), seals, key) for name, policy in self.policies.items()
        }
        self._mutex = threading.Lock()
        self._entities: dict[str, tuple[datetime, Entities]] = {}
        self._flights = SingleFlight(failure=COULD_NOT_READ)
        self._quota = Quota()

    def report(
        self,
        question: Mapping[str, Any],
        tenancy: Tenancy | None,
        standing: AccountStanding,
        now: datetime,
        tables: frozenset[str] | None = None,
    ) -> Report:
        """The answer to a question, for an analyst who may see `tenancy`. Free; `standing` is for the receipt.

        Reports on other tables than `tables` do not exist for her.
        """
        request = read_report(question, self.of_tables(tables))
        entities = self.entities(request.policy, now)
        planned = plan_report(request, entities, entities.find(request.entity, tenancy), tenancy, now)
        cells, repeat = self._fetch_cells(planned, standing.account, now)
        return make_report(planned, cells, self.promises[request.policy.name], standing, repeat=repeat)

    def of_tables(self, tables: frozenset[str] | None) -> dict[str, ReportPolicy]:
        """The reports on these tables; None for all."""
        return {name: policy for name, policy in self.policies.items() if tables is None or policy.table in tables}

    def rows(self, tables: frozenset[str] | None = None) -> Iterator[ReportRow]:
        """What may be asked of each report on these tables."""
        for policy in self.of_tables(tables).values():
            yield ReportRow(
                report=policy.name,
                statistics=[*policy.statistics],
                attributes={name: [*map(json_value, each.domain)] for name, each in policy.attributes.items()},
                entities=[*policy.levels],
                levels=[*policy.calendar.levels],
                zone=policy.calendar.zone,
                guarantee=cast(ReportPromise, self.promises[policy.name].to_dict()),
            )

    def reseal(
        self, report: str | None, *, start: Any, end: Any, entity: Mapping[str, str] | None, dry: bool, now: datetime
    ) -> Reseal:
        """Let late rows of a range in, as another version: of all entities, or of one with all above and below it."""
        policy = find_report(report, self.policies)
        entities = self.entities(policy, now)
        return reseal(policy, self._seals, entities, start=start, end=end, entity=entity, now=now, dry=dry)

    def entities(self, policy: ReportPolicy, now: datetime) -> Entities:
        """The entities of a report, as their table listed them within the last minute."""
        with self._mutex:
            known = self._entities.get(policy.name)
            if known is None or not timedelta() <= now - known[0] < MAX_AGE:
                try:
                    known = self._entities[policy.name] = now, read_entities(policy, self._catalog)
                except EngineFailed:
                    raise EngineFailed(COULD_NOT_READ) from None
        return known[1]

    def _fetch_cells(self, planned: PlannedReport, account: str, now: datetime) -> tuple[dict[Place, Seal], bool]:
        """The stored cells behind a question, after drawing those that are missing; and whether none was missing."""
        cells = self._cells[planned.request.policy.name]
        name = f"{planned.digest({})} {len(planned.numbers.spans)}"  # more of them when a longer range is complete
        seals = cells.read(planned.blocks)
        new = sum(len(cells.missing(block, seals)) for block in planned.blocks)
        if not new:
            return seals, True
        self._quota.take(account, new, now)
        with self._flights.lock(name) as waited:
            if waited:  # another thread has drawn the same cells meanwhile
                seals = cells.read(planned.blocks)
            try:
                for block in planned.blocks:
                    missing = cells.missing(block, seals)
                    if missing and waited:
                        raise EngineFailed(COULD_NOT_READ)
                    if missing:
                        seals |= cells.seal(block, missing, planned.entities, now)
            except EngineFailed:
                self._flights.record(name, succeeded=False)
                raise
            self._flights.record(name, succeeded=True)
        return seals, False
