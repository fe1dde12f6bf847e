"""The reports of one configuration."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from sfumato.catalog import Catalog
from sfumato.config import Config
from sfumato.engines.base import COULD_NOT_READ
from sfumato.errors import EngineFailed, NotFound, NotSupported, SfumatoError, find_nearest
from sfumato.ledger.cells import Place, Seal, Seals
from sfumato.query.reports.calendar import LAST_CLOCK
from sfumato.query.reports.entities import Entities, Tenancy
from sfumato.query.reports.policy import OPTIONS, Option, ReportPolicy, guarantee
from sfumato.query.reports.read import find_report, read_report
from sfumato.query.reports.ways_out import report_ways_out
from sfumato.query.values import json_value
from sfumato.reports.answers import make_report, wall_time
from sfumato.reports.cells import Cells
from sfumato.reports.plan import PlannedReport, plan_report
from sfumato.reports.policies import read_entities, report_policies
from sfumato.reports.quota import Quota
from sfumato.reports.reseal import Reseal, reseal
from sfumato.spending import SingleFlight
from sfumato.wire import AccountStanding, EntityPage, EntityRow, Report, ReportInfo, ReportRow

MAX_AGE = timedelta(minutes=1)  # of a table of entities, until it is read again


class Reports:
    """The reports of a configuration. Thread-safe."""

    def __init__(self, config: Config, catalog: Catalog, seals: Seals, key: bytes, quota: Quota | None = None) -> None:
        self.policies = report_policies(config, catalog)
        self.promises = {name: guarantee(policy) for name, policy in self.policies.items()}
        self._catalog, self._seals = catalog, seals
        self._cells = {
            name: Cells(policy, catalog.engine(policy.table), seals, key) for name, policy in self.policies.items()
        }
        self._mutex = threading.Lock()
        self._entities: dict[str, tuple[datetime, Entities]] = {}
        self._flights = SingleFlight(failure=COULD_NOT_READ)
        self.quota = quota or Quota()

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
        try:
            planned = self._plan(question, tenancy, now, tables)
        except NotSupported as refusal:
            refusal.instead = tuple(self._possible(refusal, question, tenancy, now, tables))
            raise
        cells, repeat = self._fetch_cells(planned, standing.account, now)
        return make_report(planned, cells, self.promises[planned.request.policy.name], standing, repeat=repeat)

    def _plan(
        self, question: Mapping[str, Any], tenancy: Tenancy | None, now: datetime, tables: frozenset[str] | None
    ) -> PlannedReport:
        request = read_report(question, self.of_tables(tables))
        entities = self.entities(request.policy, now)
        return plan_report(request, entities, entities.find(request.entity, tenancy), tenancy, now)

    def _possible(
        self,
        refusal: NotSupported,
        question: Mapping[str, Any],
        tenancy: Tenancy | None,
        now: datetime,
        tables: frozenset[str] | None,
    ) -> Iterator[dict[str, Any]]:
        """The proposals for a refused question that would be planned.

        Also those about an entity that there is not for her: a question is refused before its entity is looked up, and
        what she gets must not depend on whose it is.
        """
        if not isinstance(question, Mapping):
            return
        for each in report_ways_out(refusal, question):
            try:
                self._plan(each, tenancy, now, tables)
            except NotFound:
                yield each
            except SfumatoError:
                continue
            else:
                yield each

    def of_tables(self, tables: frozenset[str] | None) -> dict[str, ReportPolicy]:
        """The reports on these tables; None for all."""
        return {name: policy for name, policy in self.policies.items() if tables is None or policy.table in tables}

    def rows(self, tables: frozenset[str] | None = None) -> Iterator[ReportRow]:
        """What may be asked of each report on these tables."""
        for policy in self.of_tables(tables).values():
            yield ReportRow(**self._describe(policy))

    def _describe(self, policy: ReportPolicy) -> dict[str, Any]:
        return {
            "report": policy.name,
            "statistics": [*policy.statistics],
            "attributes": {name: [*map(json_value, each.domain)] for name, each in policy.attributes.items()},
            "entities": [*policy.levels],
            "levels": [*policy.calendar.levels],
            "zone": policy.calendar.zone,
            "guarantee": self.promises[policy.name].to_dict(),
        }

    def describe(
        self, report: str, tenancy: Tenancy | None, now: datetime, tables: frozenset[str] | None = None
    ) -> ReportInfo:
        """All that may be asked of one report, by an analyst who may see `tenancy`."""
        policy = self._named(report, tables)
        complete = policy.calendar.complete_until(min(now, LAST_CLOCK), policy.lag)
        return ReportInfo(
            **self._describe(policy),
            min_count=policy.min_count,
            options=[*self._options(policy, tenancy, now)],
            usual_options=[*policy.options],
            complete_until=wall_time(policy, complete).isoformat(),
            follows={each.name: each.of for each in policy.statistics.values() if each.of is not None},
        )

    def _options(self, policy: ReportPolicy, tenancy: Tenancy | None, now: datetime) -> Iterator[Option]:
        """The options that may be asked for and that can change a number."""
        entities = self.entities(policy, now)
        tops = entities.children(()) if policy.levels and entities.listed else ()
        possible = {
            "totals": bool(policy.attributes),
            "tree": any(entities.visible(top, tenancy) for top in tops),
            "actions": any(each.of is not None for each in policy.statistics.values()),
        }
        yield from (option for option in OPTIONS if possible.get(option, True))

    def list_entities(
        self,
        report: str,
        under: Sequence[str],
        tenancy: Tenancy | None,
        now: datetime,
        tables: frozenset[str] | None = None,
        *,
        find: str | None = None,
        skip: int = 0,
        rows: int = 100,
    ) -> EntityPage:
        """The entities of `tenancy` below one, or all below it whose names begin with `find`."""
        policy = self._named(report, tables)
        entities, path = self.entities(policy, now), tuple(under)
        if path and not (len(path) <= len(policy.levels) and entities.find(_names(policy, path), tenancy) == path):
            raise NotFound("there is no such entity that you may ask about")
        found = entities.below(path, tenancy) if find is None else entities.beginning_with(find, path, tenancy)
        page = [*islice(found, skip, skip + rows + 1)]
        return EntityPage(
            rows=[
                EntityRow(
                    level=policy.levels[len(each) - 1],
                    name=each[-1],
                    entity=_names(policy, each),
                    has_children=bool(entities.children(each)),
                )
                for each in page[:rows]
            ],
            next=str(skip + rows) if len(page) > rows else None,
            listed=entities.listed,
        )

    def _named(self, report: str, tables: frozenset[str] | None) -> ReportPolicy:
        """The report of this name; one on another table does not exist."""
        known = self.of_tables(tables)
        if report not in known:
            raise NotFound(f"there is no report {str(report)[:60]!r}", nearest=find_nearest(report, known))
        return known[report]

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
        seals = cells.read(planned.blocks)
        new = sum(len(cells.missing(block, seals)) for block in planned.blocks)
        if not new:
            return seals, True
        name = f"{planned.digest({})} {len(planned.numbers.spans)}"  # more of them when a longer range is complete
        self.quota.take(account, new, now)
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


def _names(policy: ReportPolicy, path: Sequence[str]) -> dict[str, str]:
    """An entity as a question names it: each name by its level."""
    return dict(zip(policy.levels, path, strict=False))
