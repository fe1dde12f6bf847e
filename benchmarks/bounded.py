"""Whether what a released table says of its numbers is true, on real data: the earlier rules beside those of today."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from benchmarks.timing import table
from sfumato.mechanisms.census import BOUNDS
from sfumato.release import Released, aggregates_job
from sfumato.release.aggregates import Aggregates
from sfumato.release.request import Rows, quiet
from sfumato.release.source import open_source

DATA = Path(__file__).parents[2] / "shared" / "data"
SETS = {  # the file, epsilon (more where there are few people) and how many releases
    "blog_words": ("blog_words", 1, 1),
    "globo_clicks": ("globo_clicks", 1, 2),
    "completejourney": ("completejourney_transactions", 4, 3),
    "movielens": ("movielens_latest_small", 10, 3),
    "reddit_bigrams": ("reddit_bigrams", 5, 3),
}
MAX_KEYS = (16, 64, "auto")
DELTA = 1e-6
RECOUNTED_BELOW, KEPT_WHOLE = 64, 0.95
"""The earlier rules: people were counted again below that many keys, and "auto" kept so many people whole."""


@dataclass(frozen=True, slots=True)
class Truth:
    """Keys per person, and distinct people per key."""

    sizes: Any
    people: dict[Any, int]

    @classmethod
    def of(cls, path: Path) -> Truth:
        with duckdb.connect() as connection:
            query = "CREATE TABLE pairs AS SELECT DISTINCT user_id, item FROM read_parquet(?)"
            connection.execute(query, [str(path)])
            sizes = connection.sql("SELECT count(*) AS n FROM pairs GROUP BY user_id").fetchnumpy()["n"]
            people = dict(connection.sql("SELECT item, count(*) FROM pairs GROUP BY item").fetchall())
        return cls(sizes, people)


def holds(released: Released, numbers: dict[Any, int]) -> list[bool]:
    """Whether the interval of each row holds its number."""
    rows = zip(*(released.values(name) for name in (released.keys[0], "units_low", "units_high")), strict=True)
    return [low <= numbers[key] <= high for key, low, high in rows]


def earlier(path: Path, max_keys: int | str, epsilon: int, truth: Truth, secret: bytes) -> Released:
    """The release of the earlier rules: no census, and "95 %" without a word on what it is for."""
    options: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "within_max_keys": True}
    if max_keys == "auto":
        quantile = np.quantile(truth.sizes, KEPT_WHOLE, method="inverted_cdf")
        bound = next((bound for bound in BOUNDS if bound >= quantile), BOUNDS[-1])
        rho = Fraction(19, 20) * _request(path, bound, **options).guarantee.rho  # the rest chose the bound
        options |= {"epsilon": None, "rho": rho, "delta": DELTA / 2, "rebound": False}
        return _release(path, _request(path, bound, **options), secret)
    return _release(path, _request(path, max_keys, **options, rebound=int(max_keys) < RECOUNTED_BELOW), secret)


def today(path: Path, max_keys: int | str, epsilon: int, secret: bytes) -> tuple[Released, dict[Any, int]]:
    """The release, and the people of its keys after bounding, without noise."""
    request = _request(path, max_keys, epsilon=epsilon, delta=DELTA)
    released = _release(path, request, secret)
    parameters = released.statement["parameters"]
    with open_source(path) as source, Rows.read(request, source, secret, quiet) as rows:
        named = {key: code for code, (key,) in enumerate(rows.contributions.keys(np.arange(rows.contributions.size)))}
        codes = np.array([named[key] for key in released.values(released.keys[0])], np.int64)
        if parameters["one_release"]:
            order, bound, within = rows.order("select"), parameters["selection_max_keys"], None
        else:
            order, bound, within = rows.order("aggregate"), parameters["max_keys"], codes
        counts = rows.contributions.count_people(order, max_keys=bound, within=within)
    return released, dict(zip(released.values(released.keys[0]), counts[codes].tolist(), strict=True))


def _request(path: Path, max_keys: Any, **options: Any) -> Aggregates:
    request = aggregates_job(str(path), unit="user_id", key="item", max_keys=max_keys, **options).request
    assert isinstance(request, Aggregates)  # noqa: S101
    return request


def _release(path: Path, request: Aggregates, secret: bytes) -> Released:
    with open_source(path) as source:
        return request.run(source, secret)


def report() -> str:
    heading = _introduction()
    if not all((DATA / f"{file}.parquet").exists() for file, *_ in SETS.values()):
        return heading + "Skipped: the data sets are not at `../shared/data`.\n"
    header = ["data, epsilon, L", "earlier: keys", "is true", "today: keys", "for", "is true", "holds the true number"]
    lines = []
    for name, (file, epsilon, releases) in SETS.items():
        truth = Truth.of(DATA / f"{file}.parquet")
        for max_keys in MAX_KEYS:
            cells = _measure(DATA / f"{file}.parquet", max_keys, epsilon, truth, releases)
            lines.append((f"{name}, {epsilon}, {max_keys}", *cells))
    return heading + table([*header, "said to be dropped", "dropped"], lines)


def _introduction() -> str:
    return (
        "## Bounded numbers: is what a table says of them true?\n\n"
        f"Distinct people per key, delta {DELTA:g}; keys are means over up to {max(each[2] for each in SETS.values())} "
        'releases. *Earlier*, a row said "95 %", and *is true* is the share of rows whose interval held the number of '
        "people who have the key. *Today* it says which number the interval is for, the bounded or the true one, and "
        "*is true* is the share that holds that. *Said to be dropped*: by how much the first table says that its "
        "numbers are too low, with the 95 % bound of that; *dropped*: how many of the (person, key) pairs of its keys "
        "are not counted. L in brackets was chosen.\n\n"
    )


def _measure(path: Path, max_keys: int | str, epsilon: int, truth: Truth, releases: int) -> tuple[str, ...]:
    before, now, true, said = [], [], [], []
    for number in range(releases):
        secret = hashlib.sha256(f"bounded {number}".encode()).digest()
        first = earlier(path, max_keys, epsilon, truth, secret)
        released, bounded = today(path, max_keys, epsilon, secret)
        estimand = released.estimand("units")
        before += holds(first, truth.people)
        true += holds(released, truth.people)
        now += holds(released, bounded if estimand.bounded_by else truth.people)
        kept, every = sum(bounded.values()), sum(truth.people[key] for key in bounded)
        dropped = "nothing" if estimand.dropped is None else str(estimand.dropped)
        said.append(
            ("bounded" if estimand.bounded_by else "true", dropped, _percent(1 - kept / every if every else np.nan))
        )
    bounds = [each.statement["parameters"]["selection_max_keys"] for each in (first, released)]
    marks = [f" ({bound:,})" if max_keys == "auto" else "" for bound in bounds]
    keys = [f"{len(rows) / releases:,.0f}{mark}" for rows, mark in zip((before, now), marks, strict=True)]
    shares = [_percent(float(np.mean(rows)) if rows else np.nan) for rows in (before, now, true)]
    return (keys[0], shares[0], keys[1], said[0][0], *shares[1:], *said[0][1:])


def _percent(share: float) -> str:
    return "none" if np.isnan(share) else f"{100 * share:.1f} %"


if __name__ == "__main__":
    print(report())
