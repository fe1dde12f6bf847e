"""Answers and releases from PostgreSQL, beside PostgreSQL's own queries."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import psycopg

from benchmarks import answers, plume_data
from benchmarks.releases import DELTA, EPSILON
from benchmarks.timing import mean_times, milliseconds, side_by_side, table
from sfumato.engines.postgres import PostgresEngine
from sfumato.release import aggregates_job
from sfumato.release.source import Source
from sfumato.session import Session
from tests.helpers import postgres

PEOPLE = 300_000
RELEASE_TARGET = 6
COLUMNS = {"integers": "bigint", "text": "text"}
CAST = {"integers": "person, key", "text": "'person ' || person AS person, 'key ' || key AS key"}


def report(people: int = PEOPLE) -> str:
    binaries = next(postgres.installations(), None)
    if binaries is None:
        return f"## PostgreSQL\n\n{postgres.MISSING}\n"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        folder.chmod(0o711)  # the server may run as another user
        with postgres.running(folder):
            url = postgres.url(postgres.server(folder, binaries), "postgres")
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("CREATE ROLE reader LOGIN")
                [(version,)] = connection.execute("SHOW server_version").fetchall()
            asked, events = _answers(folder, url)
            released, rows = _releases(folder, url, people)
    return (
        "## PostgreSQL\n\n"
        f"PostgreSQL {version} on this machine, as the tests start it, with 16 MB of shared buffers "
        "and the usual 4 MB to sort in. Answers: top 10 of 3,000 articles by distinct "
        f"members over {events:,} rows; bare is PostgreSQL's own query, asked the whole path, each question new; means "
        f"of 20.\n\n{asked}\n"
        f"Releases: the Plume paper's synthetic data, {people:,} people and {rows:,} rows. Plain is PostgreSQL's own "
        "`COUNT(DISTINCT person)` of every key, copied the rows as they come to DuckDB, and released the whole path "
        f"with L = 8.\n\n{released}"
    )


def _answers(folder: Path, url: str) -> tuple[str, int]:
    shop = folder / "shop"
    (shop / "books").mkdir(parents=True)
    events = answers.prepare(shop)
    with duckdb.connect(shop / "data.duckdb", read_only=True) as rows:
        columns = {
            name: "text" if kind == "VARCHAR" else kind
            for name, kind, *_ in rows.sql("DESCRIBE engagements").fetchall()
        }
        rows.execute(f"COPY engagements TO '{folder / 'rows.csv'}' (HEADER false)")
    _fill(url, "engagements", columns, folder / "rows.csv")
    reader = url.replace("postgres@", "reader@")
    config = shop / "sfumato.toml"
    ours = f'type = "postgres"\nurl = "{reader}"'
    text = answers.CONFIG.format(source="engagements")
    config.write_text(text.replace('type = "duckdb"\ndatabase = "data.duckdb"', ours))
    with Session(config) as session, psycopg.connect(reader, autocommit=True) as plain:
        means = mean_times(
            {
                "bare": lambda: plain.execute(
                    answers.QUESTION.format("engagements", -next(answers.NUMBERS))
                ).fetchall(),
                "asked": lambda: session.ask(
                    answers.QUESTION.format("engagements", next(answers.NUMBERS)), analyst="anna"
                ),
            },
            repeats=20,
        )
    ratio = means["bare"] / means["asked"]
    verdict = "met" if ratio >= answers.TARGET else "missed"
    cells = ("top 10", milliseconds(means["bare"]), milliseconds(means["asked"]), f"{ratio:.2f}")
    header = ["answer", "bare", "asked", "throughput of the bare query", "target", "verdict"]
    return table(header, [(*cells, f"≥ {answers.TARGET}", verdict)]), events


def _releases(folder: Path, url: str, people: int) -> tuple[str, int]:
    path, lines = folder / "people.parquet", []
    rows = plume_data.write(path, people)
    for form, kind in COLUMNS.items():
        with duckdb.connect() as connection:
            connection.execute(f"COPY (SELECT {CAST[form]} FROM '{path}') TO '{folder / form}.csv' (HEADER false)")  # noqa: S608
        _fill(url, form, {"person": kind, "key": kind}, folder / f"{form}.csv")
        with _contestants(url, form) as contestants:
            best = side_by_side(contestants, repeats=3)
        copied, ratio = best["copied"] / best["plain"], best["released"] / best["plain"]
        verdict = "met" if ratio <= RELEASE_TARGET else "missed"
        cells = (form, milliseconds(best["plain"]), milliseconds(best["released"]), f"{copied:.2f}", f"{ratio:.2f}")
        lines.append((*cells, f"≤ {RELEASE_TARGET}", verdict))
    header = ["people and keys", "plain", "released", "copied / plain", "released / plain", "target", "verdict"]
    return table(header, lines), rows


@contextmanager
def _contestants(url: str, name: str) -> Iterator[dict[str, Callable[[], Any]]]:
    reader = url.replace("postgres@", "reader@")
    job = aggregates_job("people.parquet", unit="person", key="key", epsilon=EPSILON, delta=DELTA, max_keys=8)
    plain_query = f"SELECT key, COUNT(DISTINCT person) FROM {name} GROUP BY key"  # noqa: S608
    with (
        PostgresEngine(reader, {"people": name}) as engine,
        psycopg.connect(reader, autocommit=True) as plain,
        psycopg.connect(reader, autocommit=True) as stream,
    ):
        yield {
            "plain": lambda: plain.execute(plain_query).fetchall(),
            "copied": lambda: _copied(stream, name),
            "released": lambda: job.request.run(Source(engine, "people"), os.urandom(32)),
        }


def _copied(connection: psycopg.Connection[Any], name: str) -> int:
    """The rows by COPY, thrown away: the transport alone."""
    with connection.cursor() as cursor, cursor.copy(f"COPY {name} TO STDOUT (FORMAT binary)".encode()) as copy:
        return sum(map(len, copy))


def _fill(url: str, name: str, columns: dict[str, str], file: Path) -> None:
    typed = ", ".join(f"{column} {kind}" for column, kind in columns.items())
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"CREATE TABLE {name} ({typed})".encode())
        with (
            owner.cursor() as cursor,
            cursor.copy(f"COPY {name} FROM STDIN (FORMAT csv)".encode()) as copy,
            file.open("rb") as rows,
        ):
            while piece := rows.read(2**20):
                copy.write(piece)
        owner.execute(f"GRANT SELECT ON {name} TO reader".encode())
        owner.execute(f"VACUUM ANALYZE {name}".encode())
    file.unlink()
