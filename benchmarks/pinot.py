"""An answer from Apache Pinot beside the bare query, on the cluster that the tests use."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2

from benchmarks.answers import CONFIG, MEMBERS, TARGET
from benchmarks.timing import mean_times, milliseconds, table
from sfumato.config.noise_key import new_key
from sfumato.demo.engines import PINOT_TABLE
from sfumato.demo.pinot import BROKER_VARIABLE, CONTROLLER_VARIABLE, write_table
from sfumato.session import Session
from tests.helpers import pinot, postgres

NUMBERS = itertools.count(1)
QUESTION = (
    "SELECT article, COUNT(DISTINCT member_id) FROM {} WHERE article <> 'none {}' "
    "GROUP BY article ORDER BY COUNT(DISTINCT member_id) DESC LIMIT 10"
)


def report() -> str:
    """An uncached top ten over a million rows on two servers, through the whole path and without it."""
    if why := pinot.why_missing():
        return f"## An answer from Apache Pinot\n\nNot measured: {why}.\n"
    with tempfile.TemporaryDirectory() as place, postgres.running(Path(place), "pinot"):
        best = _measured(Path(place) / "shop", pinot.cluster(Path(place)))
    ratio = best["bare"] / best["asked"]
    verdict = "met" if ratio >= TARGET else "missed"
    row = (milliseconds(best["bare"]), milliseconds(best["asked"]), f"{ratio:.2f}", f"≥ {TARGET}", verdict)
    return (
        "## An answer from Apache Pinot\n\n"
        f"Top 10 of 3,000 articles by distinct members over about a million rows, on Pinot {pinot.VERSION} with two "
        "servers on this machine. Bare: the same question, for ten rows, over a connection that is kept. Asked: SQL "
        "in, plan, reserve, two looks at the controller's list of segments, a query for the first 1,001 groups of "
        "people and keys that are not NULL, 100 noisy rows, settle, fence, answer. One question at a time, each is "
        "new, and they take turns; means of 60.\n\n"
        + table(["bare Pinot", "asked", "throughput of the bare query", "target", "verdict"], [row])
    )


def _measured(folder: Path, addresses: dict[str, str]) -> dict[str, float]:
    (folder / "books").mkdir(parents=True)
    new_key(folder / "noise.key")
    with _variables(addresses):
        write_table(folder, MEMBERS)
    engine = f'type = "pinot"\nurl = "{addresses["broker"]}"\ncontroller = "{addresses["controller"]}"'
    text = CONFIG.format(source=PINOT_TABLE).replace('type = "duckdb"\ndatabase = "data.duckdb"', engine)
    config = folder / "sfumato.toml"
    config.write_text(text.replace('n = { domain = "unknown" }\n', ""))
    with ExitStack() as stack:
        session = stack.enter_context(Session(config))
        http = stack.enter_context(httpx2.Client(timeout=60, trust_env=False))

        def bare() -> None:
            sql = QUESTION.format(PINOT_TABLE, -next(NUMBERS))
            http.post(f"{addresses['broker']}/query/sql", json={"sql": sql}).raise_for_status().json()

        return mean_times(
            {"bare": bare, "asked": lambda: session.ask(QUESTION.format("engagements", next(NUMBERS)), analyst="anna")},
            repeats=60,
        )


@contextmanager
def _variables(addresses: dict[str, str]) -> Iterator[None]:
    made = {BROKER_VARIABLE: addresses["broker"], CONTROLLER_VARIABLE: addresses["controller"]}
    os.environ.update(made)
    try:
        yield
    finally:
        for name in made:
            del os.environ[name]
