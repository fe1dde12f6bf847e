"""Whether a configuration fits its live tables, and where a limit leaves something open: `sfumato policy check`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sfumato.catalog import Catalog
from sfumato.config import Config
from sfumato.engines.places import tables_by_source
from sfumato.errors import ConfigError, InvalidArgument, NotSupported
from sfumato.explain.checks import right_warnings, source_warnings
from sfumato.explain.sources import source_totals
from sfumato.query.policy import Policy
from sfumato.query.reports.policy import ReportPolicy, SourceGuarantee, guarantee, guarantees_by_source
from sfumato.reports.policies import report_policies, report_problems
from sfumato.wire.guarantee import SourceTotal

NO_TABLES = "there is no [tables.NAME] in the file, so nothing can be asked; `sfumato init` writes one"


@dataclass(frozen=True, slots=True)
class PolicyCheck:
    """What is wrong with a configuration and what is doubtful. If nothing is wrong, also what can be asked of it.

    `sums` and `totals` are what reports, and all results, promise about the same rows.
    """

    problems: Sequence[ConfigError]
    warnings: Sequence[ConfigError] = ()
    policy: Policy = field(default_factory=Policy)
    reports: Mapping[str, ReportPolicy] = field(default_factory=dict)
    sums: Sequence[SourceGuarantee] = ()
    totals: Sequence[SourceTotal] = ()


def check_policy(config: Config, catalog: Catalog, now: datetime) -> PolicyCheck:
    """Compare a configuration with the tables of its catalog. No row about people is read."""
    problems = [*catalog.problems()] if config.tables else [ConfigError("tables", NO_TABLES)]
    problems += report_problems(config, catalog)
    if problems:
        return PolicyCheck(problems)
    try:
        policy, reports = catalog.policy(now), report_policies(config, catalog)
        totals = source_totals(config, {name: guarantee(each) for name, each in reports.items()}, catalog.views())
        sums = guarantees_by_source(reports.values(), [each.tables for each in totals])
        warnings = [*source_warnings(config, totals)]
        problems = [*catalog.right_problems(now)]
        if not problems:
            asked = {analyst: catalog.policy_of(analyst, now) for analyst in config.analysts}
            warnings = [*right_warnings(config, asked, tables_by_source(config)), *warnings]
    except ConfigError as fault:  # the rows of a public table do not fit
        return PolicyCheck([fault])
    except (InvalidArgument, NotSupported) as fault:  # a policy that makes no sense for any table
        return PolicyCheck([ConfigError("tables", str(fault))])
    return PolicyCheck(problems, warnings, policy, reports, sums, totals)
