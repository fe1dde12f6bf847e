"""Keys and accurate keys of one table, beside OpenDP, PipelineDP and the rule of the first edition.

Every contestant releases the distinct people of keys, with the keys, at one (epsilon, delta). OpenDP and PipelineDP get
the same bounded counts, and draw their own noise by their own accounting.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from benchmarks.counts import MORE_SOURCES
from benchmarks.reproduction import SOURCES, Integers, Pairs, Released, Source, rows
from benchmarks.timing import table
from sfumato.accounting import zcdp_rho
from sfumato.mechanisms import Rng
from sfumato.mechanisms.key_selection import GaussianRule
from sfumato.release import aggregates_job

EPSILON, DELTA = 1.0, 1e-6
BOUNDS = (1, 8, 64)
TRIALS, MORE_TRIALS = 5, 25
CLOSE, MANY = 0.97, 100
"""Peers that find CLOSE of ours are run MORE_TRIALS times, and so are ours: below MANY keys there is little to tell."""
_NAMED = {source.name: source for source in (*SOURCES, *MORE_SOURCES)}
TABLES = tuple(
    _NAMED[name] for name in ("Globo clicks (articles)", "Blog mentions", "Groceries (products)", "Reddit bigrams")
)
ONE_KEY = Source(
    "Globo, first click of 72,098 readers",
    "globo_clicks.parquet",
    "SELECT user_id, min_by(item, (timestamp, item)) FROM read_parquet(?) GROUP BY user_id ORDER BY 1 LIMIT 72098",
)

Contestant = Callable[[Integers, int], Released]
"""Of counts bounded to L, and L."""


def first_edition(counts: Integers, max_keys: int) -> Released:
    """One release with Gaussian noise, by the conversion of zCDP, without a census."""
    delta = Fraction(str(DELTA)) / 2
    rule = GaussianRule(total=Fraction(zcdp_rho(Fraction(str(EPSILON)), delta)), delta=delta, max_keys=max_keys)
    selected = rule.select(counts, Rng.system())
    return Released(selected.kept, selected.counts)


def opendp_approximate(counts: Integers, max_keys: int) -> Released:
    """Its Laplace threshold: (epsilon, delta), all of delta for the threshold."""
    dp = _opendp()
    make = partial(dp.m.make_laplace_threshold, *_counts_by_key("l01inf"), scale=max_keys / EPSILON)
    return _by_opendp(make, (max_keys, max_keys, 1), DELTA, counts)


def opendp_zcdp(counts: Integers, max_keys: int) -> Released:
    """Its Gaussian threshold: half of delta for the threshold, half for its conversion of zCDP."""
    dp = _opendp()

    def fits(scale: float) -> bool:
        noise = dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i32")), dp.l2_distance(T="f64"), scale)
        return bool(dp.c.make_zCDP_to_approxDP(noise).map(math.sqrt(max_keys)).epsilon(DELTA / 2) <= EPSILON)

    scale = dp.binary_search(fits, bounds=(0.1, 1e4))
    make = partial(dp.m.make_gaussian_threshold, *_counts_by_key("l02inf"), scale=scale)
    return _by_opendp(make, (max_keys, math.isqrt(max_keys - 1) + 1, 1), DELTA / 2, counts)


def _opendp() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp


def _counts_by_key(metric: str) -> tuple[Any, Any]:
    dp = _opendp()
    distance = getattr(dp, f"{metric}_distance")(dp.absolute_distance(T="i32"))
    return dp.map_domain(dp.atom_domain(T="i32"), dp.atom_domain(T="i32")), distance


def _by_opendp(make: Callable[..., Any], moved: tuple[int, int, int], delta: float, counts: Integers) -> Released:
    """With the smallest threshold that keeps what its privacy map says.

    The map leaves out the chance that a noisy count is the threshold itself, which is released too (OpenDP's issue
    2922): one more makes it true.
    """
    threshold = 1 + _opendp().binary_search(
        lambda least: make(threshold=least).map(moved)[1] <= delta, bounds=(1, 10**5), T=int
    )
    present = np.flatnonzero(counts)
    found = make(threshold=threshold)(dict(zip(present.tolist(), counts[present].tolist(), strict=True)))
    return Released(np.array([*found], np.int64), np.array([*found.values()], np.float64))


def pipelinedp(strategy: str, counts: Integers, max_keys: int) -> Released:
    """Its `post_aggregation_thresholding`: the noisy counts that select the keys are the answer."""
    from pipeline_dp import PartitionSelectionStrategy
    from pipeline_dp.dp_computations import ThresholdingMechanism

    mechanism = ThresholdingMechanism(EPSILON, DELTA, PartitionSelectionStrategy[strategy], max_keys, None)
    found = {key: mechanism.noised_value_if_should_keep(count) for key, count in _present(counts)}
    kept = {key: count for key, count in found.items() if count is not None}
    return Released(np.array([*kept], np.int64), np.array([*kept.values()], np.float64))


def pipelinedp_default(counts: Integers, max_keys: int) -> Released:
    """Half of epsilon selects keys by its truncated geometric rule, half adds Laplace noise to their counts."""
    from pipeline_dp import PartitionSelectionStrategy
    from pipeline_dp.dp_computations import LaplaceMechanism
    from pipeline_dp.partition_selection import create_partition_selection_strategy

    strategy = PartitionSelectionStrategy.TRUNCATED_GEOMETRIC
    rule = create_partition_selection_strategy(strategy, EPSILON / 2, DELTA, max_keys)
    noise = LaplaceMechanism.create_from_epsilon(EPSILON / 2, max_keys)
    kept = {key: noise.add_noise(float(count)) for key, count in _present(counts) if rule.should_keep(count)}
    return Released(np.array([*kept], np.int64), np.array([*kept.values()], np.float64))


def _present(counts: Integers) -> Iterator[tuple[int, int]]:
    present = np.flatnonzero(counts)
    return zip(present.tolist(), counts[present].tolist(), strict=True)


def ours(path: Path, *, within: bool, max_keys: int) -> Released:
    """The whole release, from the rows of a file; `within` leaves the census out."""
    options = {"epsilon": EPSILON, "delta": DELTA, "max_keys": max_keys, "within_max_keys": within}
    job = aggregates_job(str(path), unit="person", key="key", **options)
    with job._opened() as source:
        released = job.request.run(source, os.urandom(32))
    return Released(np.array(released.values("key"), np.int64), np.array(released.values("units"), np.int64))


PEERS: Mapping[str, Contestant] = {
    "OpenDP, zCDP": opendp_zcdp,
    "OpenDP, approximate": opendp_approximate,
    "PipelineDP, Laplace": partial(pipelinedp, "LAPLACE_THRESHOLDING"),
    "PipelineDP, Gaussian": partial(pipelinedp, "GAUSSIAN_THRESHOLDING"),
    "PipelineDP, default": pipelinedp_default,
    "first edition": first_edition,
}
OURS = "sfumato", "sfumato, no census"


@dataclass(frozen=True, slots=True)
class Score:
    """Keys, and keys within 10 %, of each trial."""

    keys: Sequence[int]
    accurate: Sequence[int]

    @classmethod
    def of(cls, run: Callable[[], Released], exact: Integers, trials: int = TRIALS) -> Score:
        runs = [run() for _ in range(trials)]
        return cls([len(each.keys) for each in runs], [each.accurate(exact) for each in runs])

    def __str__(self) -> str:
        return f"{np.mean(self.keys):,.0f} · {np.mean(self.accurate):,.0f}"


Line = tuple[str, dict[str, Score]]
"""What it is, and the scores of all contestants."""


def measure(source: Source, bounds: Sequence[int]) -> Iterator[Line]:
    """A line for each bound."""
    persons, keys = rows(source)
    pairs = Pairs.of(persons, keys, label="select")
    exact = pairs.counts()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.parquet"
        with duckdb.connect() as connection:
            connection.register("pairs", {"person": pairs.persons, "key": pairs.keys})
            connection.sql("FROM pairs").write_parquet(str(path))
        for max_keys in bounds:
            counts = pairs.counts(max_keys)
            runs = {name: partial(run, counts, max_keys) for name, run in PEERS.items()}
            runs |= {name: partial(ours, path, within=name != OURS[0], max_keys=max_keys) for name in OURS}
            scores = {name: Score.of(run, exact) for name, run in runs.items()}
            scores |= {name: Score.of(runs[name], exact, MORE_TRIALS) for name in _close(scores)}
            yield f"{source.name}, L = {max_keys}", scores


def _close(scores: Mapping[str, Score]) -> Sequence[str]:
    """Peers that may be ahead of ours, and ours; none where none may be."""
    ours = scores[OURS[0]]
    near = [
        name
        for name in PEERS
        for theirs, mine in ((scores[name].keys, ours.keys), (scores[name].accurate, ours.accurate))
        if MANY <= np.mean(mine) <= np.mean(theirs) / CLOSE
    ]
    return [*dict.fromkeys(near), *(OURS if near else ())]


def report() -> str:
    heading = "## Keys and accurate keys beside OpenDP and PipelineDP\n\n"
    if not all(source.path.exists() for source in TABLES):
        return heading + "Skipped: the data sets are not at `../shared/data`.\n"
    if not (find_spec("opendp") and find_spec("pipeline_dp")):
        return heading + "Skipped: OpenDP and PipelineDP are not installed (`pip install '.[peers]'` adds them).\n"
    lines = [*measure(ONE_KEY, (1,)), *(line for source in TABLES for line in measure(source, BOUNDS))]
    names = [*PEERS, *OURS]
    cells = [(about, *(str(scores[name]) for name in names)) for about, scores in lines]
    return f"{heading}{_introduction()}{table(['data', *names], cells)}\n{_summary(lines)}"


def _introduction() -> str:
    return (
        f"Distinct people per key at epsilon {EPSILON:g}, delta {DELTA:g}, each person in at most L keys: keys "
        "released · those within 10 % of the number of people who have the key, not bounded: at a small L there are "
        f"few, whatever the noise. Means of {TRIALS} releases. Where a peer finds {100 * CLOSE:g} % of what ours "
        f"finds, both are means of {MORE_TRIALS}. OpenDP {version('opendp')} and PipelineDP "
        f"{version('pipeline-dp')} get the same bounded counts, draw their own noise, and account for it.\n\n"
        "- **OpenDP, zCDP**: its Gaussian threshold, half of delta for the threshold. **approximate**: its Laplace "
        "threshold. Both thresholds are one above what its privacy map asks for: the map leaves out the chance that a "
        "noisy count is the threshold itself (OpenDP's issue 2922).\n"
        "- **PipelineDP, Laplace** and **Gaussian**: `post_aggregation_thresholding`. **default**: half of epsilon "
        "selects keys by the truncated geometric rule, half counts them.\n"
        "- **first edition**: our rule before: one Gaussian release by the conversion of zCDP.\n"
        "- **sfumato**: `sfumato release aggregate`, whole. A census takes a fortieth of its budget, and "
        "tells what bounding dropped; none of the others tells that. Where much is dropped, keys are selected by "
        "weights and people counted again. **no census**: the same with `--within-max-keys`.\n\n"
    )


def _summary(lines: Sequence[Line]) -> str:
    return "Ahead of ours by more than three standard errors of the difference:\n\n" + "".join(
        f"- of {name}: {'; '.join(_ahead(lines, name)) or 'none'}\n" for name in OURS
    )


def _ahead(lines: Sequence[Line], name: str) -> Iterator[str]:
    for about, scores in lines:
        for what in ("keys", "accurate"):
            mine = getattr(scores[name], what)
            for other in PEERS:
                theirs = getattr(scores[other], what)
                lead = float(np.mean(theirs) - np.mean(mine))
                spread = (np.var(theirs) + 1) / len(theirs) + (np.var(mine) + 1) / len(mine)
                if lead > 3 * math.sqrt(spread):
                    yield f"{other}, {about}: {lead:,.0f} {what}, {lead / np.mean(theirs):.0%}".replace("%", " %")


if __name__ == "__main__":
    print(report())
