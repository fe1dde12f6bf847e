"""Top articles of one region on real clicks: what privacy adds to the query's time, and what it leaves of the list."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import duckdb

from benchmarks.timing import milliseconds, side_by_side, table
from sfumato.mechanisms import Rng, context, unknown_gumbel

CLICKS = Path(__file__).parents[2] / "shared" / "data" / "globo_clicks.parquet"
REGION = 9  # about 9,000 readers: neither all nor none of the top 50 can be seen
K, TRIALS = 50, 20
EPSILONS, LIMITS = (0.05, 0.1, 0.15, 0.2), (50, 100, 200, 1000)
DELTA = 1e-10
TOP_ARTICLES = (
    "SELECT item, COUNT(DISTINCT user_id) FROM read_parquet(?) WHERE region = ? "
    "GROUP BY item ORDER BY 2 DESC, item LIMIT ?"
)

Rows = list[tuple[int, int]]


def report() -> str:
    heading = "## Globo.com clicks: top articles of one region\n\n"
    if not CLICKS.exists():
        return heading + "Skipped: the data set is not at `../shared/data`.\n"
    with duckdb.connect() as connection:
        return heading + _times(connection) + "\n" + _discovered(_read(connection))


def _read(connection: duckdb.DuckDBPyConnection, limit: int = 1000) -> Rows:
    return connection.execute(TOP_ARTICLES, [str(CLICKS), REGION, limit + 1]).fetchall()


def _times(connection: duckdb.DuckDBPyConnection) -> str:
    mechanism = partial(
        unknown_gumbel, _read(connection), k=10, max_k=100, limit=1000, epsilon=0.15, delta=DELTA, rng=Rng.system()
    )
    best = side_by_side({"query": partial(_read, connection), "mechanism": mechanism}, repeats=9)
    share = best["mechanism"] / best["query"]
    return table(
        ["step", "time"],
        [
            ("DuckDB: group 3 million clicks, distinct readers of one region", milliseconds(best["query"])),
            ("`unknown_gumbel`: 10 of 1000 rows", milliseconds(best["mechanism"])),
            ("mechanism / query", f"{share:.1%}"),
        ],
    )


def _discovered(rows: Rows) -> str:
    """Figure 3 of Rogers et al. (2021), on public data."""
    lines = [(f"{epsilon}", *(_cell(rows[: limit + 1], epsilon, limit) for limit in LIMITS)) for epsilon in EPSILONS]
    return (
        f"How much of a top {K} is discovered by `unknown_gumbel`, after figure 3 of Rogers et al. (2021): rows "
        f"returned and, in brackets, how many of them are in the true top {K}; means of {TRIALS} trials, delta "
        f"{DELTA:.0e}. Larger limits and larger epsilons should discover more.\n\n"
        + table(["epsilon", *(f"limit {limit}" for limit in LIMITS)], lines)
    )


def _cell(rows: Rows, epsilon: float, limit: int) -> str:
    true_top = {item for item, _ in rows[:K]}
    found = [_trial(rows, epsilon, limit, trial) for trial in range(TRIALS)]
    returned, right = sum(map(len, found)), sum(len(items & true_top) for items in found)
    return f"{returned / TRIALS:.1f} ({right / TRIALS:.1f})"


def _trial(rows: Rows, epsilon: float, limit: int, trial: int) -> set[int]:
    rng = Rng.keyed(b"benchmarks", context(purpose="globo", trial=trial))
    released = unknown_gumbel(rows, k=K, limit=limit, epsilon=epsilon, delta=DELTA, with_counts=False, rng=rng)
    return {item for item, _ in released.rows}
