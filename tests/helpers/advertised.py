"""A world with reports: advertisements of two accounts, rows that follow from a seed, and who may see what of them.

acme: spring (s1, s2, s3), autumn (a1)        globex: launch (l1, l2), autumn (b1)
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from tests.helpers.worlds import World, new_world

TITLES = ("analyst", "designer", "engineer", "nurse", "teacher", "welder")
CREATIVES = (
    *(("acme", "spring", "s1"), ("acme", "spring", "s2"), ("acme", "spring", "s3"), ("acme", "autumn", "a1")),
    *(("globex", "launch", "l1"), ("globex", "launch", "l2"), ("globex", "autumn", "b1")),
)

_ROWS = """
CREATE TABLE creatives (account VARCHAR, campaign VARCHAR, creative VARCHAR);
INSERT INTO creatives VALUES {creatives};
CREATE TABLE titles AS SELECT unnest({titles}) AS title;
CREATE TABLE ads AS
WITH rolls AS (SELECT event, hash(event, {seed}) AS roll FROM range({events}) AS events (event))
SELECT
    (roll // 11 % 500)::BIGINT AS member_id,
    TIMESTAMP '2026-01-01' + to_seconds((roll // 13 % 27475200)::BIGINT) AS "at",
    ['impression', 'impression', 'impression', 'click', 'conversion'][1 + (roll // 17 % 5)::INTEGER] AS kind,
    {names}[1 + (roll // 19 % {several})::INTEGER] AS creative,
    {titles}[1 + (roll // 23 % 6)::INTEGER] AS job_title,
    ['entry', 'senior'][1 + (roll // 29 % 2)::INTEGER] AS seniority
FROM rolls;
CREATE TABLE clicks AS
SELECT account, campaign, "at"::DATE AS day, seniority, count(*)::BIGINT AS n
FROM ads JOIN creatives USING (creative) WHERE kind = 'click' GROUP BY ALL ORDER BY ALL
"""

REPORTS = """
[tables.ads]
engine = "local"
source = "ads"
privacy_unit = "member_id"
[tables.clicks]
engine = "local"
source = "clicks"
privacy_unit = "account"
[reports.ads]
table = "ads"
time = "at"
zone = "America/New_York"
levels = ["3h", "day", "month", "quarter", "year"]
entities = { levels = ["account", "campaign", "creative"], table = "creatives" }
epsilon = 1
min_count = 3
entity_fanout = 2
[reports.ads.attributes]
job_title = { domain = { table = "titles", column = "title" } }
seniority = { domain = ["entry", "senior"] }
[reports.ads.statistics]
impressions = { count = "rows", where = { kind = "impression" } }
clicks = { count = "rows", where = { kind = "click" }, of = "impressions" }
conversions = { count = "rows", where = { kind = "conversion" }, of = "clicks" }
[reports.clicks]
table = "clicks"
time = "day"
levels = ["day", "month"]
entities = ["account", "campaign"]
epsilon = 0.5
[reports.clicks.attributes]
seniority = { domain = ["entry", "senior"] }
[reports.clicks.statistics]
clicks = { sum = "n" }
"""

TENANTS = """
[analysts.tina]
budget = "partner"
entities = { account = ["acme"] }
[analysts.carl]
budget = "partner"
entities = { campaign = ["launch"], account = ["nobody"] }
[analysts.nora]
budget = "partner"
entities = {}
[analysts.olaf]
budget = "partner"
role = "owner"
entities = { account = ["globex"] }
"""

BY_DAY: dict[str, Any] = {
    "report": "ads",
    "statistics": ["impressions", "clicks"],
    "entity": {"account": "acme"},
    "start": "2026-10-28",
    "end": "2026-11-03",
    "granularity": "day",
}


@cache
def _with_ads(database: bytes, seed: int, events: int) -> bytes:
    """A database file with the advertisements beside what it had. Many tests want the same one."""
    names = [creative for _, _, creative in CREATIVES]
    statements = _ROWS.format(
        creatives=", ".join(map(str, CREATIVES)),
        titles=list(TITLES),
        names=names,
        several=len(names),
        seed=seed,
        events=events,
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.duckdb"
        path.write_bytes(database)
        with duckdb.connect(str(path)) as connection:
            connection.execute(statements)
        return path.read_bytes()


def write_ads(world: World, seed: int = 1, events: int = 20_000) -> None:
    """Put the advertisements beside what the world has."""
    world.database.write_bytes(_with_ads(world.database.read_bytes(), seed, events))


def new_ads(folder: Path, ledger: str = "sqlite:ledger.db", reports: str = REPORTS, **config: Any) -> World:
    """A world with engagements and advertisements. Add the settings of the service at the end of its configuration."""
    world = new_world(folder, ledger, **config)
    write_ads(world)
    world.path.write_text(world.path.read_text() + reports + TENANTS)
    return world
