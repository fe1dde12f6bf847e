"""What `sfumato policy check` warns of.

Limits of one kind that leave the other kind open, and guarantees of the same rows that add up without a bound for all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sfumato.config import RIGHTS, Analyst, Config
from sfumato.errors import ConfigError
from sfumato.query.policy import Policy
from sfumato.query.predicate import AllOf, AnyOf, In, Predicate
from sfumato.query.reports.entities import Entities, Tenancy
from sfumato.show.text import join_words
from sfumato.wire.guarantee import SourceTotal

MAX_LISTED = 1000  # entities of a condition that are looked at one by one


def right_warnings(
    config: Config, policies: Mapping[str, Policy], sources: Sequence[Sequence[str]]
) -> Iterator[ConfigError]:
    """`entities` bind reports only, `where` binds questions only.

    `policies` are what each analyst may ask; `sources` are the tables, those with rows in common together.
    """
    for name, who in config.analysts.items():
        here, tables = f"analysts.{name}", config.tables_of(name)
        reports = [key for key, each in config.reports.items() if tables is None or each.table in tables]
        asked = [*_open_tables(config, who, policies[name], sources)] if who.role in RIGHTS["ask"] else []
        if asked:
            yield ConfigError(
                f"{here}.entities",
                f"binds reports and not questions: {name} can count the rows of all entities in {', '.join(asked)}; "
                f"leave them out of {here}.tables, let {here}.where list the same entities, or set "
                f'{here}.role = "reader"',
            )
        if who.where is not None and who.entities is None and who.role in RIGHTS["report"] and reports:
            yield ConfigError(
                f"{here}.where",
                f"binds questions and not reports: {name} can read every entity of {', '.join(reports)}; "
                f"write {here}.entities, or leave their tables out of {here}.tables",
            )


def _open_tables(config: Config, who: Analyst, policy: Policy, sources: Sequence[Sequence[str]]) -> Iterator[str]:
    """The tables of this analyst with rows of reports, where questions count entities that reports hide from her."""
    for table, askable in policy.tables.items():
        if who.entities is None or not config.tables[table].measures:
            continue
        [same] = [tables for tables in sources if table in tables]
        levels = [report.levels for report in config.reports.values() if report.table in same]
        if not all(_lists_entities(askable.row_filter, (*each, *who.entities), who.entities) for each in levels):
            yield table


def _lists_entities(condition: Predicate, levels: Iterable[str], tenancy: Tenancy) -> bool:
    """Whether only rows of entities in a tenancy pass. No where that cannot be seen from the condition alone."""
    if isinstance(condition, AnyOf):
        return all(_lists_entities(part, levels, tenancy) for part in condition.parts)
    levels = tuple(dict.fromkeys(levels))
    parts = condition.parts if isinstance(condition, AllOf) else (condition,)
    if any(_lists_entities(part, levels, tenancy) for part in parts if isinstance(part, AnyOf)):
        return True
    listed = {part.column: part.values.list_values(MAX_LISTED) for part in parts if isinstance(part, In)}
    names = [[str(value) for value in listed.get(level) or ()] or [""] for level in levels]  # "" is any: it fits none
    paths = itertools.product(*names)
    return math.prod(map(len, names)) <= MAX_LISTED and all(Entities(levels).visible(path, tenancy) for path in paths)


def source_warnings(config: Config, totals: Iterable[SourceTotal]) -> Iterator[ConfigError]:
    """Several names for one source; units that differ; and reports beside questions that no cap bounds."""
    for total in totals:
        first, *others = total.tables
        for other in others:
            yield ConfigError(
                f"tables.{other}.source",
                f"has rows of tables.{first} too: results under both names add up, and so do their caps; keep "
                "one of the two tables, if it is the same rows",
            )
        if "units" in total.unbounded:
            units = dict.fromkeys(config.tables[table].privacy_unit for table in total.tables)
            yield ConfigError(
                f"tables.{first}.privacy_unit",
                f"{join_words([unit for unit in units if unit])} are hidden by tables with the same rows: there is no "
                "bound for one person over all of them; choose one",
            )
        for report in total.reports.names if total.uncapped else ():
            yield ConfigError(
                f"reports.{report}.table",
                f"{join_words(total.uncapped)} can be asked about too, without a cap: what all analysts ask adds to "
                f"what this report tells; write tables.{total.uncapped[0]}.cap",
            )
