"""What a configuration promises to one person, in numbers and in words: `sfumato policy explain`, `GET /v1/guarantee`.

`losses` turns privacy losses into (epsilon, delta), `calls` has the mechanisms behind them, `accounts` the promise of
each account, `sources` one total per source, `buying` what an epsilon buys, `words` the sentences. Everything follows
from the file, but for the guarantees of reports and for views, which the caller looks up in the live tables.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from sfumato.config import RIGHTS, Config, Role
from sfumato.explain.accounts import Reach, promise, reaches
from sfumato.explain.sources import source_totals
from sfumato.ledger import all_accounts, budget_accounts
from sfumato.ledger.accounts import RELEASE
from sfumato.query.reports.policy import ReportGuarantee
from sfumato.wire import Guarantee, ReportPromise

__all__ = ["AnalystRights", "PolicyExplanation", "explain", "find_guarantee", "guaranteed_columns"]


def find_guarantee(
    config: Config,
    guarantees: Mapping[str, ReportGuarantee],
    views: Collection[str] = (),
    *,
    analyst: str | None = None,
    role: Role | None = None,
) -> Guarantee:
    """What all accounts and reports promise; with an analyst, hers, in a `role` that may be narrower than her own.

    `guarantees` are those of reports, as far as they are known. `views` are the tables that are views.
    """
    if analyst is None:
        accounts = [each for name, each in all_accounts(config).items() if not name.startswith(RELEASE)]
    else:
        accounts = budget_accounts(config, analyst)
    reach = reaches(config, config.analysts if analyst is None else [analyst])
    sources = source_totals(config, guarantees, views, analyst=analyst, role=role)
    reports = [name for source in sources for name in source.reports.names]
    promises = {name: guarantees.get(name) for name in config.reports if name in reports}
    return Guarantee(
        analyst=analyst,
        accounts=[promise(config, account, reach.get(account.name, Reach())) for account in accounts],
        reports={
            name: None if each is None else cast(ReportPromise, each.to_dict()) for name, each in promises.items()
        },
        sources=sources,
    )


@dataclass(frozen=True, slots=True)
class AnalystRights:
    """What an analyst may ask about. With `where`, some rows only; with `some_entities`, reports show some only."""

    role: Role
    tables: tuple[str, ...]
    reports: tuple[str, ...]
    where: str | None
    some_entities: bool


@dataclass(frozen=True, slots=True)
class PolicyExplanation:
    """A configuration's guarantee, and who may see what.

    `readers` are the analysts who may read every entity of reports. `rights` are what each analyst may ask about.
    `guaranteed` are columns whose bound no query enforces.
    """

    guarantee: Guarantee
    guaranteed: tuple[str, ...]
    readers: tuple[str, ...] = ()
    rights: Mapping[str, AnalystRights] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from sfumato.explain.words import exclusions

        return {
            **self.guarantee.to_dict(),
            "read_every_entity": list(self.readers),
            "rights": {name: asdict(each) for name, each in self.rights.items()},
            "not_bounded": list(exclusions(self)),
        }


def explain(
    config: Config,
    analyst: str | None = None,
    guarantees: Mapping[str, ReportGuarantee] | None = None,
    views: Collection[str] = (),
) -> PolicyExplanation:
    """The promises of a configuration; with an analyst, those of the accounts that her questions debit."""
    has_entities = any(report.levels for report in config.reports.values())
    return PolicyExplanation(
        guarantee=find_guarantee(config, guarantees or {}, views, analyst=analyst),
        guaranteed=guaranteed_columns(config),
        readers=tuple(
            name
            for name, each in config.analysts.items()
            if has_entities and each.entities is None and analyst in (None, name) and _rights(config, name).reports
        ),
        rights={name: _rights(config, name) for name in config.analysts if analyst in (None, name)},
    )


def guaranteed_columns(config: Config) -> tuple[str, ...]:
    """The columns whose bound no query enforces, because the file calls it guaranteed."""
    return tuple(
        f"{name}.{column}"
        for name, table in config.tables.items()
        for column, settings in table.columns.items()
        if settings.guaranteed
    )


def _rights(config: Config, analyst: str) -> AnalystRights:
    who, limit = config.analyst(analyst), config.tables_of(analyst)
    asks, reads = who.role in RIGHTS["ask"], who.role in RIGHTS["report"]
    tables = [name for name, table in config.tables.items() if asks and table.measures]
    reports = [name for name in config.reports if reads]
    return AnalystRights(
        role=who.role,
        tables=tuple(name for name in tables if limit is None or name in limit),
        reports=tuple(name for name in reports if limit is None or config.reports[name].table in limit),
        where=who.where,
        some_entities=who.entities is not None,
    )
