"""Embedded use: one configuration, opened. `sf.open("sfumato.toml")`.

A session wires the parts together and knows who asks; every answer comes from `sfumato.answer`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Self, TypeAlias

from sfumato import noise_key
from sfumato.accounting import Charge
from sfumato.accounting.numbers import whole
from sfumato.answer import Desk, Inquiry, answer
from sfumato.budget import Hold, Ledger, accounts_of, open_ledger, report
from sfumato.catalog import Catalog
from sfumato.config import Config, load_config
from sfumato.errors import InvalidArgument, NotSupported, SfumatoError
from sfumato.query.plan import plan
from sfumato.query.policy import Policy, TablePolicy
from sfumato.query.request import Request
from sfumato.query.serial import read_request
from sfumato.query.sql import read_sql
from sfumato.query.values import plain
from sfumato.records import Answer, BudgetReport, Charges, Estimate, TableRow, Tables

Question: TypeAlias = str | Request | Mapping[str, Any]


class Session:
    """The doors of one configuration. Thread-safe; a context manager."""

    def __init__(
        self,
        config: str | os.PathLike[str] | Config = "sfumato.toml",
        *,
        clock: Callable[[], datetime] | None = None,
        finish: bool = True,
    ) -> None:
        """Open a configuration for asking. Requests that were reserved and never answered are finished first."""
        self.config = config if isinstance(config, Config) else load_config(config)
        self._clock = clock or _utc_now
        key = noise_key.read_key(self.config.key_file)
        self._catalog = Catalog(self.config)
        self._ledger: Ledger | None = None
        try:
            self._catalog.policy(self._clock())  # a configuration that does not fit the live schema is told now
            self._ledger = open_ledger(self.config.ledger, self.config.folder)
            engines = {name: self._catalog.engine(name) for name in self.config.tables}
            self._desk = Desk(engines, self._ledger, key, noise_key.epoch(key), self._clock)
            if finish:
                self.finish()
        except BaseException:
            self.close()
            raise

    def ask(self, question: Question, *, analyst: str) -> Answer:
        """A private answer to SQL, to a `TopK`, `Histogram` or `Total`, or to a request as JSON."""
        return answer(self._inquiry(question, analyst), self._desk)

    def estimate(self, question: Question, *, analyst: str) -> Estimate:
        """What a question would cost this analyst and how accurate it would be. Free; no row is read."""
        inquiry = self._inquiry(question, analyst)
        mechanism, k, ledger = inquiry.plan.mechanism, inquiry.plan.k, self._desk.ledger
        shorter = [mechanism.steps(rows, stopped=True) for rows in range(k)]
        outcomes = [mechanism.worst, *(steps for steps in shorter if steps and steps[-1].kind == "stop")]
        worst, *others = ledger.prices(inquiry.ask(self._desk.epoch), outcomes)
        standings = ledger.left(inquiry.accounts, self._clock())
        enforced = [
            standing.left
            for standing, account in zip(standings, inquiry.accounts, strict=True)
            if account.budget.mode == "enforce"
        ]
        shown = mechanism.error95 if inquiry.plan.counts else None
        return Estimate(
            mechanism=mechanism.name,
            least=min([worst, *others], key=lambda charge: (charge.information, charge.calls)),
            worst=worst,
            error95={} if shown is None else {inquiry.plan.measure: shown},
            left=standings[0].left,
            answers_left=min((_times(left, worst) for left in enforced), default=None) if worst else None,
        )

    def budget(self, analyst: str) -> BudgetReport:
        """What an analyst may still spend: her own account, her organisation's, and those of capped tables."""
        return report(self.config, self._desk.ledger, analyst, self._clock())

    def charges(self, analyst: str, *, cursor: str | None = None, rows: int = 100) -> Charges:
        """What an analyst's questions have cost, the latest first. `cursor` is the `next` of the page before."""
        self.config.analyst(analyst)
        if cursor is not None and not (
            isinstance(cursor, str) and cursor.isascii() and cursor.isdigit() and len(cursor) < 19
        ):
            raise InvalidArgument("cursor", "must be the `next` of the page before")
        before = None if cursor is None else int(cursor)
        return self._desk.ledger.history(analyst, before=before, rows=whole("rows", rows, at_least=1, at_most=10_000))

    def tables(self) -> Tables:
        """What may be asked about."""
        return Tables([_described(table) for table in self._catalog.policy(self._clock()).tables.values()])

    def finish(self) -> int:
        """Answer what was reserved and never answered, so that asking again is free; how many were finished.

        Where the key or the policy is no longer the one it was reserved under, no such answer can be made any more,
        and its worst case is spent.
        """
        finished = 0
        for hold in self._desk.ledger.holds():
            if hold.request.get("type") == "release":
                continue  # whoever began it runs it again, by its name
            inquiry = self._resumed(hold)
            if inquiry is None:
                self._desk.ledger.keep(hold, self._clock())
                continue
            try:
                answer(inquiry, self._desk, resume=True)
                finished += 1
            except SfumatoError:
                continue  # it stays reserved: the next start, or the next identical request, tries again
        return finished

    def _resumed(self, hold: Hold) -> Inquiry | None:
        """The inquiry behind a reservation, if it still means the same."""
        try:
            policy = self._catalog.policy_at(hold.request["table"], hold.version, self._clock())
            inquiry = self._planned(read_request(hold.request, policy), policy, hold.analyst)
        except SfumatoError:
            return None
        same = (hold.digest, hold.epoch) == (inquiry.plan.digest, self._desk.epoch)
        return inquiry if same else None

    def _inquiry(self, question: Question, analyst: str) -> Inquiry:
        policy = self._catalog.policy(self._clock())
        return self._planned(_read(question, policy), policy, analyst)

    def _planned(self, request: Request, policy: Policy, analyst: str) -> Inquiry:
        prices = self.config.budgets[self.config.analyst(analyst).budget].prices
        made = plan(request, policy, prices, self._desk.epoch)
        return Inquiry(analyst, accounts_of(self.config, analyst, made.table), made)

    def close(self) -> None:
        """Let go of the engines and the ledger. What is being answered stays reserved, and is finished next time."""
        self._catalog.close()
        if self._ledger is not None:
            self._ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _read(question: Question, policy: Policy) -> Request:
    if isinstance(question, str):
        return read_sql(question, policy)
    if isinstance(question, Mapping):
        return read_request(question, policy)
    if not isinstance(question, Request):
        raise NotSupported("a question is SQL, a TopK, a Histogram or a Total, or one of these as a dictionary")
    return question


def _described(table: TablePolicy) -> TableRow:
    columns = [
        {
            "name": column.name,
            "type": column.type,
            "domain": "unknown" if column.domain is None else [plain(value) for value in column.domain],
            "max_groups": column.max_groups,
        }
        for column in table.columns.values()
    ]
    measures = [
        {"name": measure.name, "counts": measure.counts, "max_per_unit": measure.max_per_unit}
        for measure in table.measures.values()
    ]
    return TableRow(table.name, table.privacy_unit, columns, measures)


def _times(left: Charge, price: Charge) -> int:
    """How often a price fits into what is left."""
    pairs = (left.information, price.information), (left.calls, price.calls)
    return min(max(int(amount // each), 0) for amount, each in pairs if each)


def _utc_now() -> datetime:
    return datetime.now(UTC)
