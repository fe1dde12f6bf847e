"""What `sfumato policy check` warns of: where guarantees of the same rows add up without one bound for all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sfumato.config import Config
from sfumato.errors import ConfigError
from sfumato.show.text import join_words
from sfumato.wire.guarantee import SourceTotal


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
