"""A small world of adverts to report on: rows that follow from a seed, and a `sfumato.toml`, all in one folder."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from sfumato.ledger.cells import Place, Seal, Seals
from sfumato.reports.cells import Block
from sfumato.session import Session
from sfumato.wire import Report
from tests.helpers.worlds import key_bytes

NOW = datetime(2026, 2, 1, tzinfo=UTC)
TITLES, SIZES, SKILLS = ("dentist", "engineer", "nurse"), ("large", "small"), ("cobol", "rust", "sql")
PROBLEM_TYPES = ("impression", "click", "conversion")

STATISTICS = """
impressions = { count = "rows", where = { kind = "impression" } }
clicks = { count = "rows", where = { kind = "click" }, of = "impressions" }
conversions = { count = "rows", where = { kind = "conversion" }, of = "clicks" }
"""
ATTRIBUTES = """
title = { domain = ["dentist", "engineer", "nurse"] }
size = { domain = ["large", "small"] }
skills = { domain = ["cobol", "rust", "sql"], max_values = 2 }
"""
LISTED = '{ levels = ["account", "campaign", "creative"], table = "creatives" }'
BY_COLUMNS = '["account", "campaign"]'
LEVELS = '["12h", "day", "month"]'

_BUDGET = "[budgets.small]\nepsilon_per = 0.1\ndelta_per = 1e-9\ninformation = 100\ncalls = 10\n"


@dataclass
class Adverts:
    """A folder that a `Session` can be opened on. Every `write_*` may be called again, to change the world."""

    folder: Path
    database: Path = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.database = self.folder / "rows.duckdb"

    @property
    def path(self) -> Path:
        return self.folder / "sfumato.toml"

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.db"

    def write_rows(self, *statements: str) -> None:
        """A database made by these statements, in the place of the one that was there."""
        beside = self.folder / "rows.new"
        beside.unlink(missing_ok=True)
        with duckdb.connect(str(beside)) as connection:
            for statement in statements:
                connection.execute(statement)
        beside.replace(self.database)

    def write_key(self, fill: int = 7) -> None:
        path = self.folder / "noise.key"
        path.write_bytes(key_bytes(fill))
        path.chmod(0o600)

    def write_config(
        self,
        *,
        report: str = "",
        statistics: str = STATISTICS,
        attributes: str = ATTRIBUTES,
        entities: str = LISTED,
        levels: str = LEVELS,
        zone: str = "UTC",
        epsilon: str = "1",
        source: str = "ads",
        unit: str = "member",
        others: str = "",
    ) -> None:
        self.path.write_text(
            f'[ledger]\nurl = "sqlite:ledger.db"\nfence = "../{self.fence.parent.name}/fence"\n'
            f'[engines.local]\ntype = "duckdb"\ndatabase = "{self.database}"\n'
            f'[tables.ads]\nengine = "local"\nsource = "{source}"\nprivacy_unit = "{unit}"\n'
            f'[reports.ads]\ntable = "ads"\ntime = "at"\nzone = "{zone}"\nlevels = {levels}\n'
            f"entities = {entities}\nepsilon = {epsilon}\n{report}\n"
            f"[reports.ads.attributes]{attributes}\n[reports.ads.statistics]{statistics}\n"
            f'{_BUDGET}[analysts.own]\nbudget = "small"\n{others}\n'
        )

    def open(self, now: datetime | Callable[[], datetime] = NOW) -> Session:
        return Session(self.path, clock=now if callable(now) else lambda: now)

    @property
    def fence(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.state") / "fence"

    def forget(self) -> None:
        """A new ledger."""
        for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
            (self.folder / name).unlink(missing_ok=True)
        shutil.rmtree(self.fence.parent, ignore_errors=True)

    def tables(self) -> dict[str, list[tuple[Any, ...]]]:
        """What is sealed, read past all of Sfumato's code."""
        import sqlite3

        with closing(sqlite3.connect(self.ledger)) as connection:
            names = ("places", "seals", "cells", "journal")
            return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in names}


def new_adverts(folder: Path, *statements: str, **config: Any) -> Adverts:
    world = Adverts(folder)
    world.write_rows(*(statements or [*hierarchy(1), *events(1)]))
    world.write_key()
    world.write_config(**config)
    return world


def tree(seed: int, accounts: int = 2, most: int = 3) -> list[tuple[str, str, str]]:
    """Every account has 1 to `most` campaigns, and each of these as many creatives."""
    dice = random.Random(seed)
    campaigns = [(account, campaign) for account in range(accounts) for campaign in range(dice.randint(1, most))]
    owners = [pair for pair in campaigns for _ in range(dice.randint(1, most))]
    return [(f"a{account}", f"a{account}c{campaign}", f"n{at}") for at, (account, campaign) in enumerate(owners)]


def hierarchy(seed: int, name: str = "creatives", **shape: int) -> list[str]:
    """A public table of creatives."""
    values = ", ".join(str(path) for path in tree(seed, **shape))
    return [f"CREATE TABLE {name} AS SELECT * FROM (VALUES {values}) AS rows (account, campaign, creative)"]


def events(
    seed: int, name: str = "ads", count: int = 300, beside: str = "creatives", first: str = "2026-01-10"
) -> list[str]:
    """Events of 12 days, fewer of each kind than of the one before, with NULLs and unknown values and creatives."""
    size = f"(SELECT count(*) FROM {beside})"

    def roll(salt: int, sides: str | int) -> str:
        return f"(hash(i, {seed}, {salt}) % ({sides})::UBIGINT)::INTEGER"

    made = f"""
    CREATE TABLE {name} AS SELECT
        {roll(1, 40)} AS member,
        TIMESTAMP '{first}' + to_minutes({roll(2, 12 * 1440)}) AS at,
        {list(PROBLEM_TYPES)}[1 + greatest(0, {roll(3, 10)} - 6) // 2] AS kind,
        {[*TITLES, "other", None]}[1 + {roll(4, 5)}] AS title,
        {[*SIZES, None]}[1 + {roll(5, 3)}] AS size,
        [{list(SKILLS)}[1 + {roll(6, 3)}], {[*SKILLS, "other", None]}[1 + {roll(7, 5)}]] AS skills,
        'n' || {roll(8, f"{size} + 1")} AS creative
    FROM range({count}) AS numbers (i)
    """.replace("None", "NULL")
    return [made]


def ask(session: Session, analyst: str = "own", **question: Any) -> Report:
    return session.report(
        "ads", analyst=analyst, **{"start": "2026-01-10", "end": "2026-01-22", "statistics": "clicks", **question}
    )


def lasting(report: Report) -> str:
    """The bytes of a report that never change."""
    serial = report.to_dict()
    for moment in ("left", "resets", "repeat"):
        del serial["receipt"][moment]
    return json.dumps(serial)


def cells(
    session: Session,
    path: Sequence[str],
    *,
    attribute: str | None = None,
    statistic: str = "clicks",
    start: str = "2026-01-10",
    end: str = "2026-01-22",
) -> Mapping[Place, Seal]:
    """The stored cells of a range, read through `Seals`."""
    policy = session._reports.policies["ads"]
    calendar = policy.calendar
    spans = calendar.partition(calendar.instant("start", start), calendar.instant("end", end))
    block = Block(policy, attribute, (statistic,), (tuple(path),), spans)
    return Seals(session.ledger).read(block.places)


def added(seals: Iterable[Seal]) -> dict[str, int]:
    """The sum of these cells, value by value."""
    totals: dict[str, int] = {}
    for seal in seals:
        for part in seal.parts:
            for value, count in zip(part.values, part.counts, strict=True):
                totals[value] = totals.get(value, 0) + count
    return totals
