"""The error that an answer states holds 19 times in 20, on average over the rows that it shows, for every mechanism.

One number per answer: the share of its counts that are within `error95` of the truth. Answers are independent, because
no two questions are the same. A promise that is kept fails a test here once in a million runs (Chernoff, `least_mean`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from sfumato.mechanisms.known_domain import KnownNoise
from sfumato.query.request import Histogram, TopK, Total
from sfumato.session import Session
from tests.helpers.false_alarms import least_mean
from tests.helpers.repeats import repeats
from tests.helpers.worlds import NOW, key_bytes

pytestmark = pytest.mark.slow

RUNS = repeats(60, 300)
PLACES = [f"p{number}" for number in range(60)]  # as many people in each: noise alone decides which come first

ROWS = """
CREATE TABLE visits AS
SELECT
    person, 'p' || (person % 60) AS place, 'w' || ((person + slot) % 25) AS word, 'q' || ((person + slot) % 60) AS room,
    'a' || floor(30 * power((hash(person, slot) % 10007) / 10007.0, 2))::INTEGER AS article,
    (hash(person, slot, 1) % 5)::INTEGER AS n, (hash(person, slot, 2) % 1009)::INTEGER AS roll
FROM range(12000) AS people (person), range(3) AS slots (slot)
"""
CONFIG = """
[ledger]
url = "sqlite:ledger.db"
fence = "../state/fence"
[noise]
key_file = "noise.key"
[engines.local]
type = "duckdb"
database = "rows.duckdb"
[tables.visits]
engine = "local"
source = "visits"
privacy_unit = "person"
version = {{ value = "v1" }}
max_k = 60
[tables.visits.columns]
place = {{ domain = {places}, max_groups = 1 }}
room = {{ domain = {rooms} }}
word = {{ max_groups = 3 }}
article = {{}}
roll = {{ type = "integer" }}
[tables.visits.measures]
people = {{ count = "units" }}
shares = {{ count = "rows", max_per_unit = 3 }}
minutes = {{ sum = "n", max_per_unit = 12 }}
[budgets.all]
epsilon_per = 0.5
delta_per = 1e-8
information = 1000000
calls = 10000
resets = "never"
count_noise = "{noise}"
[analysts.anna]
budget = "all"
"""
EXACT = {"people": "count(DISTINCT person)", "shares": "count(*)", "minutes": "sum(n)"}

QUESTIONS: dict[str, tuple[str, Any]] = {  # the mechanism, without its noise, and the question by its filter
    "a total of people": ("known", lambda where: Total("visits", "people", where)),
    "a total of rows": ("known", lambda where: Total("visits", "shares", where)),
    "a sum": ("known", lambda where: Total("visits", "minutes", where)),
    "a histogram": ("known", lambda where: Histogram("visits", "place", "people", where)),
    "the first of a histogram": ("known", lambda where: TopK("visits", "place", "people", where, k=1)),
    "half of a histogram": ("known", lambda where: TopK("visits", "place", "minutes", where, k=30)),
    "picks": ("known_gumbel", lambda where: TopK("visits", "room", "people", where, k=5)),
    "a private histogram": ("threshold", lambda where: Histogram("visits", "word", "people", where)),
    "a private list": ("unknown_gumbel", lambda where: TopK("visits", "article", "people", where, k=8)),
}


@contextmanager
def opened(folder: Path, noise: str) -> Iterator[Session]:
    home = folder / "home"
    home.mkdir()
    with duckdb.connect(str(home / "rows.duckdb")) as connection:
        connection.execute(ROWS)
    key = home / "noise.key"
    key.write_bytes(key_bytes())
    key.chmod(0o600)
    rooms = [place.replace("p", "q") for place in PLACES]
    (home / "sfumato.toml").write_text(CONFIG.format(noise=noise, places=PLACES, rooms=rooms))
    with Session(home / "sfumato.toml", clock=lambda: NOW) as session:
        yield session


def held(session: Session, folder: Path, name: str) -> list[float]:
    """For each answer, the share of its counts that are within the stated error, which the estimate told before."""
    mechanism, question = QUESTIONS[name]
    shares = []
    with duckdb.connect(str(folder / "home" / "rows.duckdb"), read_only=True) as connection:
        for run in range(RUNS):
            asked = question({"roll": {"ne": run}})
            estimate, answer = session.estimate(asked, analyst="anna"), session.ask(asked, analyst="anna")
            assert answer.receipt.mechanism.startswith(mechanism)
            *by, measure = answer.columns
            assert estimate.error95 == answer.receipt.error95
            grouped = f"SELECT {', '.join([*by, EXACT[measure]])} FROM visits WHERE roll <> {run}"
            found = connection.execute(grouped + (" GROUP BY ALL" if by else "")).fetchall()
            exact = {row[:-1]: row[-1] for row in found}
            errors = [abs(row[measure] - exact[tuple(row[each] for each in by)]) for row in answer.rows]
            shares.append(float(np.mean(np.array(errors) <= answer.receipt.error95[measure])))
    return shares


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_the_stated_error_holds_as_often_as_it_says(name: str, noise: str, tmp_path: Path) -> None:
    with opened(tmp_path, noise) as session:
        shares = held(session, tmp_path, name)
    assert np.mean(shares) >= least_mean(0.95, RUNS)


COUNTS = "SELECT {key}, {n} AS n FROM visits WHERE roll <> {run} GROUP BY {key}"
FEWER = COUNTS.replace("GROUP BY", "AND roll < 900 GROUP BY")
ALONE = "(SELECT {n} FROM visits WHERE roll <> {run} AND roll < 800)"
FIRST = "ORDER BY 2 DESC LIMIT 25"
SUMS = {  # statements with several questions, with the column that they are by
    "a difference": (f"SELECT a.place, a.n - b.n AS d FROM ({COUNTS}) a JOIN ({FEWER}) b USING (place)", "place"),
    "a list and a total": (f"SELECT place, 2 * n - {ALONE} AS d, n AS e FROM ({COUNTS}) t", "place"),
    "three counts": (
        f"SELECT a.place, a.n + b.n - {ALONE} AS d FROM ({COUNTS}) a LEFT JOIN ({FEWER}) b USING (place)",
        "place",
    ),
    "one below the other": (f"{COUNTS} UNION ALL SELECT 'all', {ALONE.strip('()').removeprefix('SELECT ')}", "place"),
    "rows of one list": (
        f"WITH t AS ({COUNTS}) SELECT a.place AS p, b.place AS q, a.n - b.n AS d, {ALONE} AS e "
        "FROM t a JOIN t b ON a.place > b.place",
        "place",
    ),
    "picks": (
        f"SELECT a.room, a.n - b.n AS d FROM ({COUNTS} {FIRST}) a JOIN ({FEWER} {FIRST}) b USING (room)",
        "room",
    ),
}


NOISES = ("gaussian", "laplace")
EVERYDAY = [*zip(SUMS, NOISES * 3, strict=True)]
"""Each statement with one noise. An exhaustive run has both."""


@pytest.mark.parametrize(("name", "noise"), repeats(EVERYDAY, [*product(SUMS, NOISES)]))
def test_the_error_of_a_sum_of_several_counts_holds_as_often_as_it_says(name: str, noise: str, tmp_path: Path) -> None:
    """All keys are public, so the same statement over the rows themselves has the true numbers."""
    text, key = SUMS[name]
    shares = []
    rows = str(tmp_path / "home" / "rows.duckdb")
    with opened(tmp_path, noise) as session, duckdb.connect(rows, read_only=True) as connection:
        for run in range(RUNS):
            sql = text.format(key=key, n="COUNT(DISTINCT person)", run=run)
            answer = session.ask(sql, analyst="anna")
            assert answer.receipt.error95
            keys = [column for column in answer.columns if column not in answer.receipt.error95]
            names = ", ".join([*keys, *answer.receipt.error95])
            found = connection.execute(f"SELECT {names} FROM ({sql.replace(FIRST, '')}) AS t")
            true = {row[: len(keys)]: row[len(keys) :] for row in found.fetchall()}
            held = [
                abs(row[column] - true[tuple(row[key] for key in keys)][place]) <= error
                for row in answer.rows
                for place, (column, error) in enumerate(answer.receipt.error95.items())
            ]
            shares.append(float(np.mean(held or [True])))
    assert np.mean(shares) >= least_mean(0.95, RUNS)


def test_the_error_of_one_count_is_too_small_for_those_that_noise_put_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KnownNoise, "list_error95", lambda self, groups: self.error95)
    with opened(tmp_path, "gaussian") as session:
        shares = held(session, tmp_path, "the first of a histogram")
    assert np.mean(shares) < least_mean(0.95, RUNS)
