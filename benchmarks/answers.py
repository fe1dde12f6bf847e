"""What an answer costs beside the bare query, and a ledger operation beside a bare guarded update."""

from __future__ import annotations

import itertools
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.timing import mean_times, milliseconds, side_by_side, table
from sfumato.accounting import Charge
from sfumato.config import Budget, LedgerSettings
from sfumato.config.noise_key import new_key
from sfumato.demo import sample
from sfumato.ledger import Account, Debit, Ledger, Reserved, Revealed, open_ledger, payments
from sfumato.mechanisms import Step
from sfumato.query.policy import Prices
from sfumato.session import Session
from tests.helpers import postgres

TARGET = 0.85
MEMBERS = 100_000  # about a million rows

CONFIG = """
[ledger]
url = "sqlite:books/ledger.db"
fence = "../state/fence"
[engines.local]
type = "duckdb"
database = "data.duckdb"
[tables.engagements]
engine = "local"
source = "{source}"
privacy_unit = "member_id"
[tables.engagements.columns]
article = {{ domain = "unknown" }}
n = {{ domain = "unknown" }}
[tables.engagements.measures]
members = {{ count = "units" }}
[budgets.ample]
epsilon_per = 0.15
delta_per = 1e-10
information = 1000000000
calls = 1000000000
[analysts.anna]
budget = "ample"
"""

# A filter that lets every row through, and another one each time: each question is new, and all are the same work.
NUMBERS = itertools.count(1)
QUESTION = "SELECT article, COUNT(DISTINCT member_id) FROM {} WHERE n <> {} GROUP BY article ORDER BY 2 DESC LIMIT 10"


def overhead() -> str:
    """An uncached top ten over a million rows, through the whole path and without it."""
    rows = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "shop"
        folder.mkdir()
        events = prepare(folder)
        for source in ("engagements", "engagements.parquet"):
            best = _measured(folder, source)
            ratio = best["bare"] / best["asked"]
            verdict = "met" if ratio >= TARGET else "missed"
            numbers = milliseconds(best["bare"]), milliseconds(best["asked"]), milliseconds(best["again"])
            rows.append((_named(source), *numbers, f"{ratio:.2f}", f"≥ {TARGET}", verdict))
    header = ["source", "bare DuckDB", "asked", "asked again", "throughput of the bare query", "target", "verdict"]
    return (
        "## An answer beside the bare query\n\n"
        f"Top 10 of 3,000 articles by distinct members over {events:,} rows. Asked: SQL in, plan, reserve, query, "
        "100 noisy rows, settle, fence, answer; two commits and a fence on disk. Each question is new; means of 60, "
        "as throughput is made of means.\n\n" + table(header, rows)
    )


def _named(source: str) -> str:
    return "a Parquet file" if source.endswith(".parquet") else "a DuckDB table"


def prepare(folder: Path) -> int:
    with duckdb.connect(folder / "data.duckdb") as connection:
        sample.generate(connection, MEMBERS)
        connection.execute("CREATE OR REPLACE TABLE engagements AS SELECT *, 0 AS n FROM engagements")
        connection.execute(f"COPY engagements TO '{folder / 'engagements.parquet'}'")
        [(events,)] = connection.execute("SELECT COUNT(*) FROM engagements").fetchall()
    new_key(folder / "noise.key")
    return int(events)


def _measured(folder: Path, source: str) -> dict[str, float]:
    (folder / "books").mkdir(exist_ok=True)
    config = folder / f"{source}.toml"
    config.write_text(CONFIG.format(source=source))
    bare_source = f"'{folder / source}'" if source.endswith(".parquet") else source
    with ExitStack() as stack:
        session = stack.enter_context(Session(config))
        plain = stack.enter_context(duckdb.connect(folder / "data.duckdb", read_only=True))
        return mean_times(
            {
                "bare": lambda: plain.execute(QUESTION.format(bare_source, -next(NUMBERS))).fetchall(),
                "asked": lambda: session.ask(QUESTION.format("engagements", next(NUMBERS)), analyst="anna"),
                "again": lambda: session.ask(QUESTION.format("engagements", 0), analyst="anna"),
            },
            repeats=60,
        )


def ledger() -> str:
    """Reserve and settle beside what everybody would write: one guarded update, committed to the same disk."""
    rows = []
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        for store, url in stack.enter_context(_stores(Path(place))).items():
            rows += [
                (f"{store}, {name}", f"{1 / seconds:,.0f}") for name, seconds in _operations(url, Path(place)).items()
            ]
    return (
        "## Ledger operations per second\n\n"
        "One client, each operation on disk before the next. A question is two operations and a fence: reserve its "
        "worst case, settle it with the stored answer; both append hashed rows to the journal.\n\n"
        + table(["what", "per second"], rows)
    )


@contextmanager
def _stores(place: Path) -> Iterator[dict[str, str]]:
    (place / "books").mkdir()
    stores = {"SQLite": "sqlite:ledger.db"}
    binaries = next(postgres.installations(), None)
    if binaries is None:
        print(f"skipped PostgreSQL: {postgres.MISSING}")
        yield stores
        return
    with postgres.running(place), postgres.database(postgres.server(place, binaries)) as url:
        yield stores | {"PostgreSQL": url}


def _operations(url: str, place: Path) -> dict[str, float]:
    books = open_ledger(LedgerSettings(url, place / f"{url[:6]}.fence"), place / "books")
    with books, _guarded_update(url, place) as update:
        numbers = itertools.count()
        return side_by_side(
            {
                "a bare guarded update": update,
                "reserve": lambda: _reserve(books, next(numbers)),
                "reserve and settle, fence included": lambda: _question(books, next(numbers)),
                "a repeat": lambda: _question(books, 0),
            },
            repeats=15,
            calls=20,
        )


@contextmanager
def _guarded_update(url: str, place: Path) -> Iterator[Callable[[], Any]]:
    statement = "UPDATE purse SET units = units - 21 WHERE id = 1 AND units >= 21 RETURNING units"
    if url.startswith("sqlite"):
        connection: Any = sqlite3.connect(place / "purse.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    else:
        import psycopg

        connection = psycopg.connect(url, autocommit=True)
    connection.execute("CREATE TABLE purse (id BIGINT PRIMARY KEY, units BIGINT)")
    connection.execute("INSERT INTO purse VALUES (1, 1000000000)")
    try:
        yield lambda: connection.execute(statement).fetchall()
    finally:
        connection.close()


_BUDGET = Budget(Prices(Fraction(3, 20), Fraction(1, 10**10)), Charge(10**9, 10**9), "monthly")
_STEPS = (
    Step("call", Charge(0, 1)),
    Step("cutoff", Charge(1)),
    *(Step(kind, Charge(1), place) for place in range(1, 11) for kind in ("pick", "count")),  # type: ignore[arg-type]
)
_NOW = datetime(2026, 11, 15, tzinfo=UTC)


def _ask(number: int) -> Debit:
    names = f"digest {number}", f"atom {number}", "epoch", "daily 2026-11-15"
    return Debit("anna", (Account("analyst:anna", _BUDGET),), *names, {"sql": "SELECT ..."}, _STEPS)


def _reveal(payload: str) -> Revealed:
    return Revealed(payload, _STEPS)


def _reserve(books: Ledger, number: int) -> Any:
    return payments.reserve(books, _ask(number), _reveal, _NOW)


def _question(books: Ledger, number: int) -> None:
    found = _reserve(books, number)
    if isinstance(found, Reserved):
        payments.settle(books, _ask(number), found, "x" * 4000, _reveal, _NOW)
