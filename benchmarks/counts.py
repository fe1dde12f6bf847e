"""Private Count Release on real data: as printed, as it was, as it is, and with the choice of a method."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

import duckdb
import numpy as np

from benchmarks import reproduction
from benchmarks.reproduction import DELTA, LIMIT, RELATIVE_ERROR, RHOS, SOURCES, Integers, Source
from benchmarks.timing import table
from sfumato.mechanisms import PrivateCountRelease, Rng
from sfumato.release import counts_job

TRIALS, TRIALS_OF_AUTO = 40, 5
MANY, FEW, MOST = 200, 2_000, 10
"""Where MANY counts are released, a quarter of the trials is enough. Until there are FEW in all trials together, there
are MOST times as many trials at most: a share of 2,000 counts is known to a half percent.
"""

GAIN, MEDIAN, LEAST = 1.2, 1.35, 0.92
"""Targets: for what is gained in each setting and in the median one, and for the share of accurate counts."""

MORE_SOURCES = (
    Source("Blog mentions", "blog_mentions.parquet", "SELECT user_id, item FROM read_parquet(?)"),
    Source("Groceries (products)", "completejourney_transactions.parquet", "SELECT user_id, item FROM read_parquet(?)"),
    Source("Campaigns", "completejourney_campaigns.parquet", "SELECT user_id, campaign_id FROM read_parquet(?)"),
    Source("Coupons", "completejourney_coupon_redemptions.parquet", "SELECT user_id, coupon_upc FROM read_parquet(?)"),
    Source("Adult (occupations)", "adult_census.parquet", "SELECT user_id, occupation FROM read_parquet(?)"),
)


@dataclass(frozen=True, slots=True)
class Trial:
    """One release: its keys, its counts and, where there are any, the ends of its intervals."""

    keys: Integers
    counts: Integers
    low: Integers | None = None
    high: Integers | None = None
    counted_by: str = ""


@dataclass(frozen=True, slots=True)
class Score:
    """What a method released over all trials: counts, those within RELATIVE_ERROR, and intervals that hold."""

    released: Sequence[int]
    accurate: Sequence[int]
    covered: Sequence[int]
    counted_by: Sequence[str]

    @property
    def mean(self) -> float:
        return float(np.mean(self.accurate))

    @property
    def share(self) -> str:
        return _share(self.accurate, self.released)

    @property
    def coverage(self) -> str:
        return _share(self.covered, self.released)

    @property
    def method(self) -> str:
        return ", ".join(sorted(set(self.counted_by)))


def _share(parts: Sequence[int], wholes: Sequence[int]) -> str:
    return f"{100 * sum(parts) / sum(wholes):.1f} %" if any(wholes) else "none"


def measure(exact: Integers, trials: int, run: Callable[[], Trial]) -> Score:
    found: list[tuple[int, int, int, str]] = []
    for number in range(MOST * trials):
        trial = run()
        truth = exact[trial.keys]
        close = np.abs(trial.counts - truth) <= float(RELATIVE_ERROR) * truth
        held = 0 if trial.low is None else np.count_nonzero((trial.low <= truth) & (truth <= trial.high))
        found.append((len(trial.keys), int(np.count_nonzero(close)), int(held), trial.counted_by))
        enough = -(-trials // 4) if len(trial.keys) > MANY else trials
        if number + 1 >= enough and sum(released for released, *_ in found) >= FEW:
            break
    return Score(*zip(*found, strict=True))


def as_printed(exact: Integers, top: Integers, rho: Fraction) -> Trial:
    released = reproduction.pcr_as_printed(exact, top, rho)
    return Trial(released.keys, released.counts)


def as_it_was(exact: Integers, top: Integers, rho: Fraction) -> Trial:
    """Passes a factor of sqrt(2) apart, a delta for each, 1.5 deviations or 2 / epsilon. Floating-point noise."""
    noise = np.random.default_rng()
    outside = int(exact[top[LIMIT]]) if len(top) > LIMIT else 0
    unseen = top[exact[top] > outside]
    epsilons = [0.0005 * 2 ** (level / 2) for level in range(60)]
    passes = int(np.count_nonzero(np.cumsum(np.square(epsilons) / 8) <= float(rho)))
    keys, counts = [np.zeros(0, np.int64)], [np.zeros(0)]
    left = float(rho)
    for epsilon in epsilons[:passes]:
        bottom = 1 + math.log(LIMIT * passes / float(DELTA)) / epsilon
        deviation = max(float(RELATIVE_ERROR) / 1.5 * bottom, 2 / epsilon)
        row = epsilon**2 / 8 + 1 / (2 * deviation**2)
        affordable = int(left / row)
        if not affordable:
            break
        scores = epsilon * exact[unseen] + noise.gumbel(size=len(unseen))
        ahead = np.flatnonzero(scores > epsilon * (outside + bottom) + noise.gumbel())
        chosen = ahead[np.argsort(-scores[ahead])][:affordable]
        keys.append(unseen[chosen])
        counts.append(exact[unseen[chosen]] + noise.normal(0, deviation, len(chosen)))
        unseen = np.delete(unseen, chosen)
        left -= len(chosen) * row + (len(ahead) < affordable) * epsilon**2 / 8
    return Trial(np.concatenate(keys), np.concatenate(counts))


def as_it_is(exact: Integers, top: Integers, rho: Fraction) -> Trial:
    mechanism = PrivateCountRelease(rho=rho, delta=DELTA, limit=LIMIT, relative_error=RELATIVE_ERROR)
    rows = mechanism.release(list(zip(top.tolist(), exact[top].tolist(), strict=True)), Rng.system()).rows
    columns = [(row.key, row.count, row.low, row.high) for row in rows]
    return Trial(*np.array(columns, np.int64).reshape(-1, 4).T)


def by_auto(path: Path, rho: Fraction) -> Trial:
    """The whole release, from the rows of a file."""
    options = {"limit": LIMIT, "relative_error": RELATIVE_ERROR, "method": "auto"}
    job = counts_job(str(path), unit="person", key="key", rho=rho, delta=DELTA, **options)
    with job._opened() as source:
        released = job.request.run(source, os.urandom(32))
    columns = [(row["key"], row["units"], row["units_low"], row["units_high"]) for row in released.rows]
    counted_by = released.statement["parameters"]["counted_by"]
    return Trial(*np.array(columns, np.int64).reshape(-1, 4).T, counted_by=counted_by)


def write(source: Source, path: Path) -> tuple[Integers, int]:
    """Write the distinct pairs of a source, keys as small numbers; people by key, and how many people there are."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute(f"CREATE VIEW rows(person, key) AS {source.query.replace('?', repr(str(source.path)))}")
        pairs = "SELECT DISTINCT person, dense_rank() OVER (ORDER BY key) - 1 AS key FROM rows"
        connection.execute(f"COPY ({pairs}) TO '{path}' (FORMAT parquet)")
        written = connection.read_parquet(str(path))
        counts = written.aggregate("key, count(*) AS people", "key").fetchnumpy()
        people = written.aggregate("count(DISTINCT person)").fetchall()[0][0]
    exact = np.zeros(len(counts["key"]), np.int64)
    exact[counts["key"]] = counts["people"]
    return exact, people


@dataclass(frozen=True, slots=True)
class Line:
    """One data set at one rho."""

    about: str
    keys: int
    rho: Fraction
    printed: Score
    before: Score
    now: Score
    auto: Score

    @property
    def has_room(self) -> bool:
        """Whether the printed algorithm releases at least five counts, and at most half of all keys."""
        return 5 <= np.mean(self.printed.released) <= self.keys / 2

    @property
    def setting(self) -> str:
        return f"{self.about.partition(':')[0]}, rho {float(self.rho):g}"

    def cells(self) -> tuple[str, ...]:
        now, auto = self.now, self.auto
        return (
            *(self.about, f"{float(self.rho):g}", f"{self.printed.mean:,.1f}", self.printed.share),
            *(f"{self.before.mean:,.1f}", self.before.share, f"{now.mean:,.1f}", now.share, now.coverage),
            *(self._times(now), f"{auto.mean:,.1f}", auto.share, auto.method, self._times(auto)),
        )

    def _times(self, score: Score) -> str:
        return f"{score.mean / self.printed.mean:.2f}" if self.printed.mean else ""


def lines(source: Source) -> Iterator[Line]:
    """A line of the table for each rho."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.parquet"
        exact, people = write(source, path)
        about = f"{source.name}: {people:,} people, {len(exact):,} keys"
        top = np.lexsort((np.arange(len(exact)), -exact))[: LIMIT + 1]
        for rho in RHOS:
            direct = (
                measure(exact, TRIALS, partial(run, exact, top, rho)) for run in (as_printed, as_it_was, as_it_is)
            )
            yield Line(about, len(exact), rho, *direct, measure(exact, TRIALS_OF_AUTO, partial(by_auto, path, rho)))


def report() -> str:
    heading = "## Private Count Release on real data\n\n"
    there = [source for source in (*SOURCES, *MORE_SOURCES) if source.path.exists()]
    if not there:
        return heading + "Skipped: the data sets are not at `../shared/data`.\n"
    found = [line for source in there for line in lines(source)]
    header = ["data", "rho", "as printed", "within 10 %", "before", "within 10 %", "pcr", "within 10 %"]
    header += ["intervals hold", "times printed", "auto", "within 10 %", "by", "times printed"]
    return heading + _introduction() + table(header, [line.cells() for line in found]) + _summary(found)


def _introduction() -> str:
    return (
        "Counts within 10 % of the truth (*accurate*), and the share of the released counts that are; delta 1e-6, "
        f"limit 10,000, relative error 0.1. Means of {TRIALS} trials, or a quarter of them where more than {MANY} "
        f"counts are released; of auto {TRIALS_OF_AUTO}. Up to {MOST} times as many where all of them together release "
        f"fewer than {FEW:,} counts.\n\n"
        "- **as printed**: the paper's Algorithm 2 with its delta of 1e-11 for every pick and the first count out of "
        "sight read once, in floating point.\n"
        "- **before**: `--method pcr` before counts were pooled, with one delta for each pass, in floating point.\n"
        "- **pcr**: `PrivateCountRelease` as it is. *Intervals hold*: the share of its 95 % intervals that contain the "
        "true count.\n"
        "- **auto**: `sfumato release counts --method auto` on the rows, and what it chose. A twentieth of its budget "
        "is for the census.\n\n"
    )


def _summary(found: Sequence[Line]) -> str:
    inside = [line for line in found if line.has_room]
    settings = f"the {len(inside)} settings in which the printed algorithm releases at least five counts and at most "
    settings += "half of all keys. In the others there is next to nothing to find, or next to nothing left to find"
    targets = f"Targets: {GAIN} at least, a median of {MEDIAN}, and a share of {100 * LEAST:g} %"
    ranges = [f"{name}: {_range(inside, name)}" for name in ("pcr", "auto")]
    others = [line for line in found if not line.has_room]
    missed = [f"{name} at {each}" for name in ("pcr", "auto") for each in _missed(others, name)]
    return (
        f"\nAccurate counts for each one as printed, over {settings}, so most methods release the same ones "
        f"({'; '.join(line.setting for line in others)}). {targets}.\n\n"
        + "".join(f"- {each}\n" for each in ranges)
        + f"\nBelow {LEAST:.0%} in the others: ".replace("%", " %")
        + f"{'; '.join(missed) or 'none'}.\n"
    )


def _missed(lines: Sequence[Line], name: str) -> Iterator[str]:
    """Settings in which fewer counts are accurate than should be."""
    for line in lines:
        score = line.now if name == "pcr" else line.auto
        if sum(score.accurate) < LEAST * sum(score.released):
            yield f"{line.setting} ({score.share} of {sum(score.released):,} counts)"


def _range(lines: Sequence[Line], name: str) -> str:
    scores = [line.now if name == "pcr" else line.auto for line in lines]
    ratios = [score.mean / line.printed.mean for score, line in zip(scores, lines, strict=True)]
    shares = [sum(score.accurate) / sum(score.released) for score in scores]
    met = {"least gain": min(ratios) >= GAIN, "median": np.median(ratios) >= MEDIAN, "share": min(shares) >= LEAST}
    return (
        f"{min(ratios):.2f} to {max(ratios):.2f}, median {np.median(ratios):.2f}; least share within 10 %: "
        f"{100 * min(shares):.1f} %, of {sum(scores[shares.index(min(shares))].released):,} counts. "
        f"Missed: {', '.join(what for what in met if not met[what]) or 'none'}"
    )


if __name__ == "__main__":
    print(report())
