"""What holds for every statement of the corpus: one charge per core, and nothing but released rows after it."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from sfumato.accounting import NOTHING
from sfumato.session import Session
from sfumato.wire import Answer
from tests.query.corpus.entries import Entry, read_all
from tests.query.corpus.exact import without_noise
from tests.query.corpus.shop import write_shop

pytestmark = pytest.mark.slow

SENTINEL, MARK = "sentinel-§-9f3a", 424_242
ACCEPTED = [entry for entry in read_all() if not entry.refused]


@dataclass(frozen=True)
class Asked:
    """Every accepted statement, asked once in a random order, and the configuration of that."""

    config: Path
    answers: list[tuple[Entry, Answer]]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    config = write_shop(tmp_path_factory.mktemp("corpus") / "shop")
    order = random.Random(7).sample(ACCEPTED, len(ACCEPTED))
    with Session(config) as session, without_noise():
        answers = [(entry, session.ask(entry.sql, analyst="anna")) for entry in order]
    return Asked(config, answers)


def test_one_core_is_charged_once_whatever_comes_after_it(asked: Asked) -> None:
    paid = defaultdict[str, list[str]](list)
    for entry, answer in asked.answers:
        if answer.receipt.charge != NOTHING:
            paid[answer.receipt.digest].append(entry.sql)
    assert {digest: texts for digest, texts in paid.items() if len(texts) > 1} == {}
    assert len(paid) < len(ACCEPTED) - 20  # many statements here share their core with another


def test_statements_with_one_core_have_one_digest(asked: Asked) -> None:
    digests = defaultdict[tuple[str, ...], set[str]](set)
    for entry, answer in asked.answers:
        if entry.cores and not answer.receipt.repeat:
            digests[entry.cores].add(answer.receipt.digest)
    assert {cores: found for cores, found in digests.items() if len(found) > 1} == {}


def test_what_was_paid_for_is_made_of_released_rows_alone(asked: Asked) -> None:
    """Every row of the source becomes a sentinel. Each statement gives what it gave, for nothing, and shows none."""
    database = asked.config.parent / "rows.duckdb"
    with duckdb.connect(str(database)) as connection:
        for table in ("orders", "visits"):
            kinds = connection.execute(f"DESCRIBE {table}").fetchall()
            cells = ", ".join(
                f"'{SENTINEL}' AS \"{name}\""
                if kind == "VARCHAR"
                else f'CAST(NULL AS {kind}) AS "{name}"'
                if kind in ("BOOLEAN", "DATE", "TIMESTAMP")
                else f'{MARK} AS "{name}"'
                for name, kind, *_ in kinds
            )
            connection.execute(f"DELETE FROM {table}")
            connection.execute(f"INSERT INTO {table} SELECT {cells} FROM range({MARK})")
    with Session(asked.config) as session, without_noise():
        for entry, before in asked.answers:
            if not entry.cores:
                continue
            again = session.ask(entry.sql, analyst="anna")
            assert (again.rows, again.columns) == (before.rows, before.columns), entry.sql
            assert again.receipt.charge == NOTHING, entry.sql
            assert SENTINEL not in str(again.rows), entry.sql
            assert str(MARK) not in str(again.rows), entry.sql
