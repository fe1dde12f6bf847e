"""One total per source: all that questions, releases and reports tell about the same rows.

    questions   every account that can ask about a table of the source; or the tables' caps, where these promise more
    releases    the account of every budget that can pay for one; a release debits the caps of the tables too. Releases
                of data frames that name no table are not counted: whose rows these have is not known
    reports     each its whole guarantee, once and for ever: for one person where events are capped, else no bound

A source is what tables with rows in common are (`sfumato.engines.places`). What is asked of two of them adds up, and so
do their caps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, TypeAlias

from sfumato.config import RIGHTS, Budget, Config, Role
from sfumato.engines.places import table_places, tables_by_source
from sfumato.explain.accounts import Reach
from sfumato.explain.losses import Loss, add, longest_window, periods, person_bound, round_up, smallest
from sfumato.ledger import Account, accounts_of
from sfumato.ledger.accounts import release_account
from sfumato.query.reports.policy import ReportGuarantee
from sfumato.wire.guarantee import PeriodBounds, PersonBound, SourceTotal, TotalPart, Unbounded, Window

PromiseSpan: TypeAlias = Window | Literal["year"]


def source_totals(
    config: Config,
    guarantees: Mapping[str, ReportGuarantee],
    views: Collection[str] = (),
    *,
    analyst: str | None = None,
    role: Role | None = None,
) -> list[SourceTotal]:
    """The total of each source; with an analyst, of what she can learn with her own accounts and reports.

    `guarantees` are those of reports, as far as they are known. `views` are the tables that are views. With a `role`,
    the analyst has no more rights than this role. Nothing here depends on tables that she may not use.
    """
    used = None if analyst is None else [table for table in config.tables if config.may_use(analyst, table)]
    sources = (_Source.of(config, tables, analyst, role) for tables in tables_by_source(config, used))
    return [each.total(guarantees, views) for each in sources if analyst is None or each.asking or each.reports]


@dataclass(frozen=True, slots=True)
class _Source:
    """The tables of one source, as an analyst sees them or, without one, as all do together.

    `asking` has the analysts who are counted, each with the tables that she may ask about; `reports` are those that
    are counted.
    """

    config: Config
    tables: tuple[str, ...]
    analyst: str | None
    asking: Mapping[str, Sequence[str]]
    reports: Sequence[str]

    @classmethod
    def of(cls, config: Config, tables: tuple[str, ...], analyst: str | None, role: Role | None) -> _Source:
        def may(name: str, table: str, right: Literal["ask", "report"]) -> bool:
            roles = {config.analysts[name].role, *([role] if role else [])}
            return roles <= RIGHTS[right] and config.may_use(name, table)

        names = config.analysts if analyst is None else [analyst]
        asked = [table for table in tables if config.tables[table].measures]  # the others are there for reports
        asking = {name: [table for table in asked if may(name, table, "ask")] for name in names}
        reports = [each for each in config.reports.values() if each.table in tables]
        return cls(
            config=config,
            tables=tables,
            analyst=analyst,
            asking={name: tables for name, tables in asking.items() if tables},
            reports=[each.name for each in reports if analyst is None or may(analyst, each.table, "report")],
        )

    @property
    def _tables_to_ask(self) -> list[str]:
        """The tables that the analysts who are counted may ask about."""
        return [table for table in self.tables if any(table in tables for tables in self.asking.values())]

    @property
    def _payers(self) -> dict[str, Account]:
        """The accounts that pay for questions, by name: those of analysts and organisations, and of caps."""
        asking = ((name, table) for name, tables in self.asking.items() for table in tables)
        return {each.name: each for name, table in asking for each in accounts_of(self.config, name, table)}

    @property
    def _release_payers(self) -> list[Account]:
        """The accounts that can pay for releases. An analyst's own accounts pay for none."""
        if self.analyst is not None:
            return []
        budgets = self.config.budgets.items()
        names = [name for name, each in budgets if each.tables is None or set(each.tables).intersection(self.tables)]
        return [release_account(self.config, name) for name in names]

    @property
    def _tables_with_cap(self) -> list[str]:
        """The tables whose cap refuses. A cap that is only tracked bounds nothing."""
        caps = {table: self.config.tables[table].cap for table in self.tables}
        return [table for table, cap in caps.items() if cap and self.config.budgets[cap].mode == "enforce"]

    # -- how much it is --

    def _loss(self, budget: Budget, span: PromiseSpan, tables: Sequence[str], times: int = 1) -> Loss | None:
        """What so many accounts with a budget let through about some tables in a span; None if it refuses nothing."""
        if budget.mode == "track":
            return None
        askers = [name for name, asked in self.asking.items() if set(asked).intersection(tables)]
        noises = {self.config.budgets[self.config.analysts[name].budget].prices.count_noise for name in askers}
        spent = replace(budget, cap=budget.cap * (times * periods(budget.resets, span)))
        return Reach(set(tables), noises).loss(self.config, spent)

    def _accounts_loss(self, span: PromiseSpan, tables: Sequence[str]) -> Loss | None:
        """What analysts' own accounts let through about some tables, or their organisations' where these have less."""
        members: dict[str, Counter[str]] = {}
        for name, asked in self.asking.items():
            if set(asked).intersection(tables):
                who = self.config.analysts[name]
                members.setdefault(who.organisation or "", Counter())[who.budget] += 1
        losses = []
        for organisation, budgets in members.items():
            apart = add(self._loss(self.config.budgets[name], span, tables, n) for name, n in budgets.items())
            shared = self.config.budgets[self.config.organisations[organisation]] if organisation else None
            losses.append(apart if shared is None else smallest([apart, self._loss(shared, span, tables)]))
        return add(losses)

    def _caps_loss(self, span: PromiseSpan, tables: Sequence[str]) -> Loss | None:
        """What the caps of some tables let through: an analyst's part of each, or the whole."""
        losses = []
        for table in tables:
            cap = self.config.budgets[self.config.tables[table].cap or ""]
            own = cap if self.analyst is None else accounts_of(self.config, self.analyst, table)[-1].budget
            losses.append(self._loss(own, span, [table]))
        return add(losses)

    def _questions(self, span: PromiseSpan) -> Loss | None:
        capped = [table for table in self._tables_to_ask if table in self._tables_with_cap]
        others = [table for table in self._tables_to_ask if table not in capped]
        by_caps = add([self._caps_loss(span, capped), self._accounts_loss(span, others)])
        return smallest([self._accounts_loss(span, self._tables_to_ask), by_caps])

    @property
    def _caps_releases(self) -> bool:
        """Whether every release debits a cap: each table has one, or all of its rows are in one that has."""
        places = {table: table_places(self.config, table) for table in self.tables}
        return all(any(places[table] <= places[capped] for capped in self._tables_with_cap) for table in self.tables)

    def _releases(self, span: PromiseSpan) -> Loss | None:
        spent = (
            replace(each.budget, cap=each.budget.cap * periods(each.budget.resets, span))
            for each in self._release_payers
        )
        apart = add(None if each.mode == "track" else Loss.of_charge(each.cap, each.prices, None) for each in spent)
        return smallest([apart, *([self._caps_loss(span, self._tables_with_cap)] if self._caps_releases else [])])

    def _questions_and_releases(self, span: PromiseSpan) -> Loss | None:
        """Questions and releases together: caps that pay for both bound their sum."""
        apart = add([self._questions(span), self._releases(span)])
        if self.analyst is not None or not self._caps_releases:
            return apart
        uncapped = [table for table in self.tables if table not in self._tables_with_cap]
        return smallest(
            [apart, add([self._caps_loss(span, self._tables_with_cap), self._accounts_loss(span, uncapped)])]
        )

    def _reports(self, guarantees: Mapping[str, ReportGuarantee]) -> Loss | None:
        """What reports tell of one person; None if one of them has no bound for a person."""
        known = [guarantees.get(name) for name in self.reports]
        bounded = (each is not None and each.unit == "person" and not each.exact_totals for each in known)
        losses = (Loss(each.rho) if each.rho else Loss.of_report(each.epsilon) for each in known if each)
        return add(losses) if all(bounded) else None

    def _event_epsilon(self, guarantees: Mapping[str, ReportGuarantee]) -> float | None:
        """What reports tell of one event."""
        known = [guarantees.get(name) for name in self.reports]
        if any(each is None or each.exact_totals for each in known):
            return None
        each_event = (each.after(each.versions, events=1) for each in known if each)
        return round_up(sum(each_event, Fraction(0)), 10_000)

    @property
    def _units(self) -> list[str]:
        """Who is hidden. Guarantees for two kinds of units do not add up."""
        return [*dict.fromkeys(unit for name in self.tables if (unit := self.config.tables[name].privacy_unit))]

    def _obstacles(self, loss: Loss | None, guarantees: Mapping[str, ReportGuarantee]) -> Iterator[Unbounded]:
        """Why there is no bound for one person. `loss` is that of questions and releases."""
        if len(self._units) > 1:
            yield "units"
        if loss is None:
            yield "tracked"
        elif loss.person().epsilon is None:
            yield "calls"
        known = [guarantees.get(name) for name in self.reports]
        if None in known:
            yield "unknown"
        if any(each is not None and each.unit == "event" for each in known):
            yield "events"
        if any(each is not None and each.exact_totals for each in known):
            yield "exact-totals"

    def total(self, guarantees: Mapping[str, ReportGuarantee], views: Collection[str]) -> SourceTotal:
        payers, releasers, reports = self._payers, self._release_payers, self._reports(guarantees)
        window = longest_window(each.budget.resets for each in (*payers.values(), *releasers))
        spans: tuple[PromiseSpan, PromiseSpan] = (window, "year")
        questions, without_reports = (
            [losses(span) for span in spans] for losses in (self._questions, self._questions_and_releases)
        )
        unbounded = [*self._obstacles(without_reports[0], guarantees)]
        group = add([questions[0], reports])
        return SourceTotal(
            tables=[*self.tables],
            unit=self._units[0] if len(self._units) == 1 else None,
            views=[name for name in self.tables if name in views],
            uncapped=[table for table in self._tables_to_ask if table not in self._tables_with_cap],
            window=window,
            questions=TotalPart(names=[*payers], **_bounds(questions)),
            releases=None
            if self.analyst is not None
            else TotalPart(names=[each.name for each in releasers], **_bounds(map(self._releases, spans))),
            reports=TotalPart(names=[*self.reports], **_bounds([reports, reports])),
            event_epsilon=self._event_epsilon(guarantees) if self.reports else None,
            event_delta=float(sum(each.delta for name in self.reports if (each := guarantees.get(name)))),
            total=PeriodBounds(**_bounds(None if unbounded else add([each, reports]) for each in without_reports)),
            unbounded=unbounded,
            groups=[] if group is None or len(self._units) > 1 else group.groups(),
        )


def _bounds(losses: Iterable[Loss | None]) -> dict[str, PersonBound]:
    return dict(zip(("period", "year"), map(person_bound, losses), strict=True))
