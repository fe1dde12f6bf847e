"""A small world to ask about: rows that follow from a seed, a noise key, and a `sfumato.toml`, all in one folder."""

from __future__ import annotations

import hashlib
import json
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb

from sfumato.accounting import Charge
from sfumato.session import Session

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
REGIONS = ("amer", "apac", "emea")
TITLES = ("analyst", "designer", "engineer", "nurse", "teacher")

# What the moment adds to an answer; the rest of it never changes.
MOMENT = ("charge", "left", "resets", "repeat")

TABLES = ("ledger", "journal", "balances", "atoms", "paid", "holds", "answers", "questions")

_ROWS = """
CREATE TABLE engagements AS
WITH rolls AS (
    SELECT person, hash(person, {seed}) AS own, hash(person, slot, {seed}) AS roll
    FROM range({people}) AS people (person), range(3) AS slots (slot)
)
SELECT
    person AS member_id,
    'article-' || floor(40 * power((roll % 10007) / 10007.0, 3))::INTEGER AS article,
    {titles}[1 + (own % 5)::INTEGER] AS job_title,
    {regions}[1 + (own // 5 % 3)::INTEGER] AS region,
    {regions}[1 + (roll // 3 % 3)::INTEGER] AS market,
    DATE '2026-11-01' + (roll // 10007 % 14)::INTEGER AS day,
    (roll // 7 % 9)::INTEGER AS n
FROM rolls
"""

_TABLE = """
[tables.engagements]
engine = "local"
source = "engagements"
privacy_unit = "member_id"
version = {version}
max_k = {max_k}
limit = 60
{cap}
[tables.engagements.columns]
article = {{ domain = "unknown" }}
job_title = {{ domain = "unknown", max_groups = 1 }}
region = {{ domain = ["emea", "apac", "amer"], max_groups = 1 }}
market = {{ domain = ["emea", "apac", "amer"] }}
day = {{ type = "date" }}
n = {{ type = "integer" }}
[tables.engagements.measures]
members = {{ count = "units" }}
shares = {{ count = "rows", max_per_unit = 3 }}
visits = {{ sum = "n", max_per_unit = 20 }}
"""

_BUDGET = """
[budgets.{name}]
epsilon_per = {epsilon_per}
delta_per = 1e-6
information = {information}
calls = {calls}
mode = "{mode}"
resets = "{resets}"
count_noise = "{count_noise}"
"""


@cache
def _database(seed: int, people: int) -> bytes:
    """A database file with these rows. Hundreds of tests want the same one, and it takes half of their set-up."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "rows.duckdb"
        with duckdb.connect(str(path)) as connection:
            connection.execute(_ROWS.format(seed=seed, people=people, titles=list(TITLES), regions=list(REGIONS)))
        return path.read_bytes()


@dataclass
class World:
    """A folder that a `Session` can be opened on. Every `write_*` may be called again, to change the world."""

    folder: Path
    ledger: str = "sqlite:ledger.db"

    @property
    def path(self) -> Path:
        return self.folder / "sfumato.toml"

    @property
    def database(self) -> Path:
        return self.folder / "rows.duckdb"

    @property
    def fence(self) -> Path:
        """Beside the folder: a folder with both would be copied and restored as one."""
        return self.folder.with_name(f"{self.folder.name}.state") / "fence"

    def write_rows(self, seed: int = 1, people: int = 3000) -> None:
        beside = self.folder / "rows.new"
        beside.write_bytes(_database(seed, people))
        beside.replace(self.database)

    def write_key(self, fill: int = 7) -> None:
        path = self.folder / "noise.key"
        path.write_bytes(key_bytes(fill))
        path.chmod(0o600)

    def write_config(
        self,
        *,
        version: str = '{ value = "v1" }',
        max_k: int = 20,
        cap: bool = False,
        information: int = 3000,
        calls: int = 100,
        mode: str = "enforce",
        resets: str = "monthly",
        count_noise: str = "gaussian",
        epsilon_per: str = "0.5",
        shared: tuple[int, int] = (5000, 500),
        analysts: str = "anna ben",
        others: str = "olga",
        owner: str = "",
    ) -> None:
        """`analysts` share the organisation acme; `others` have none. One of them may be an owner."""
        terms = {"resets": resets, "count_noise": count_noise, "epsilon_per": epsilon_per}
        budget = _BUDGET.format(name="partner", information=information, calls=calls, mode=mode, **terms)
        common = _BUDGET.format(name="common", information=shared[0], calls=shared[1], mode="enforce", **terms)
        people = [f'[analysts.{name}]\nbudget = "partner"\norganisation = "acme"\n' for name in analysts.split()]
        people += [f'[analysts.{name}]\nbudget = "partner"\n' for name in others.split()]
        self.path.write_text(
            f'[ledger]\nurl = "{self.ledger}"\nfence = "../{self.fence.parent.name}/fence"\n'
            '[noise]\nkey_file = "noise.key"\n'
            '[engines.local]\ntype = "duckdb"\ndatabase = "rows.duckdb"\n'
            + _TABLE.format(version=version, max_k=max_k, cap='cap = "common"' if cap else "")
            + budget
            + common
            + '[organisations.acme]\nbudget = "common"\n'
            + "".join(people)
        )
        if owner:
            section = f"[analysts.{owner}]\n"
            self.path.write_text(self.path.read_text().replace(section, f'{section}role = "owner"\n'))

    def open(self, now: datetime = NOW) -> Session:
        return Session(self.path, clock=lambda: now)

    def tables(self) -> dict[str, list[tuple[Any, ...]]]:
        """All of the ledger, row by row, read past all of Sfumato's code."""
        return {name: sorted(self.rows(name), key=repr) for name in TABLES}

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        if self.ledger.startswith("sqlite:"):
            import sqlite3

            with closing(sqlite3.connect(self.folder / self.ledger.removeprefix("sqlite:"))) as connection:
                return connection.execute(f"SELECT * FROM {name}").fetchall()
        import psycopg

        with psycopg.connect(self.ledger) as connection:
            return connection.execute(f"SELECT * FROM sfumato.{name}").fetchall()


def new_world(folder: Path, ledger: str = "sqlite:ledger.db", **config: Any) -> World:
    world = World(folder, ledger)
    folder.mkdir(parents=True, exist_ok=True)
    world.write_rows()
    world.write_key()
    world.write_config(**config)
    return world


def key_bytes(fill: int = 7) -> bytes:
    """A noise key that follows from a number."""
    return hashlib.sha256(bytes([fill])).digest()


def lasting(answer: Any) -> str:
    """The bytes of an answer that never change."""
    serial = answer.to_dict()
    for name in MOMENT:
        del serial["receipt"][name]
    return json.dumps(serial)


def standing(session: Session, account: str, analyst: str = "anna") -> Any:
    return next(found for found in session.budget(analyst).accounts if found.account == account)


def spent(session: Session, analyst: str) -> Charge:
    return session.budget(analyst).accounts[0].spent


def notes(world: World) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(account, digest, note) of every settle row of the journal, in its order."""
    for row in sorted(world.tables()["journal"]):
        if row[2] == "settle":
            yield row[3], row[6], json.loads(row[10])


def fork(work: Callable[[], Any]) -> tuple[int, int]:
    """Run `work` in a child; its id, and where its result comes out as JSON."""
    out, into = os.pipe()
    child = os.fork()
    if child:
        os.close(into)
        return child, out
    status = 1
    try:
        os.close(out)
        with os.fdopen(into, "w") as pipe:
            json.dump(work(), pipe)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def crowd(works: list[Callable[[], Any]]) -> list[Any]:
    """What each `work` returns, all run at once in children of their own; one that fails fails all."""
    children = [fork(work) for work in works]
    results = []
    for _, out in children:
        with os.fdopen(out) as pipe:
            results.append(pipe.read())
    statuses = [os.waitpid(child, 0)[1] for child, _ in children]
    assert not any(statuses), f"children ended with {statuses}"
    return list(map(json.loads, results))
