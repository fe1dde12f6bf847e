"""Private Count Release against Plume on real data, after section 4 of Rogers (2024)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from benchmarks import pictures
from benchmarks.timing import table
from sfumato.engines.contributions import Affine
from sfumato.mechanisms import PrivateCountRelease, Rng
from sfumato.mechanisms.key_selection import GaussianRule
from sfumato.mechanisms.noise import DiscreteGaussian
from sfumato.release.bounding import ORDER_BITS, KeyOrder
from sfumato.release.bounding.order import insert_order

DATA = Path(__file__).parents[2] / "shared" / "data"
RHOS = (Fraction(1, 10), Fraction(1, 2), Fraction(1))
DELTA = Fraction(1, 10**6)
TRIALS = 10
LIMIT, RELATIVE_ERROR = 10_000, Fraction(1, 10)
PERCENTILES = (95, 99)

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a data set comes from: `query` gives rows of (person, key), small integers both."""

    name: str
    file: str
    query: str

    @property
    def path(self) -> Path:
        return DATA / self.file


SOURCES = (
    Source(
        "MovieLens (films)",
        "movielens_latest_small.parquet",
        "SELECT user_id, item FROM read_parquet(?)",
    ),
    Source(
        "Blog words",
        "blog_words.parquet",
        "SELECT user_id, item FROM read_parquet(?)",
    ),
    Source(
        "Reddit bigrams",
        "reddit_bigrams.parquet",
        "SELECT user_id, dense_rank() OVER (ORDER BY item) FROM read_parquet(?)",
    ),
    Source(
        "Globo clicks (articles)",
        "globo_clicks.parquet",
        "SELECT user_id, item FROM read_parquet(?)",
    ),
    Source(
        "Globo, first click only",
        "globo_clicks.parquet",
        "SELECT user_id, min_by(item, (timestamp, item)) FROM read_parquet(?) GROUP BY user_id",
    ),
)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Distinct (person, key) pairs, each person's together and in that person's random order of keys.

    The order is the product's. Sorted once: any bound on any set of keys costs one pass and not one sort.
    """

    persons: NDArray[np.int32]
    keys: NDArray[np.int32]
    size: int

    @classmethod
    def of(cls, persons: Integers, keys: Integers, *, label: str) -> Pairs:
        size = int(keys.max()) + 1
        bits = size.bit_length()
        words = (persons << bits | keys).view(np.uint64)
        order = KeyOrder.of(b"benchmarks", label)
        insert_order(words, bits, Affine(0), Affine(0), order)
        pairs = np.unique(words)
        persons_again = (pairs >> np.uint64(bits + ORDER_BITS)).astype(np.int32)
        return cls(persons_again, (pairs & np.uint64((1 << bits) - 1)).astype(np.int32), size)

    def within(self, chosen: Integers) -> Pairs:
        """The pairs of these keys."""
        mask = np.zeros(self.size, np.bool_)
        mask[chosen] = True
        kept = mask.take(self.keys)
        return Pairs(self.persons[kept], self.keys[kept], self.size)

    def counts(self, max_keys: int | None = None) -> Integers:
        """People by key, each in the first `max_keys` of their keys only."""
        if max_keys is None or len(self.keys) <= max_keys:
            return np.bincount(self.keys, minlength=self.size)
        first = np.ones(len(self.keys), np.bool_)
        np.not_equal(self.persons[max_keys:], self.persons[:-max_keys], out=first[max_keys:])
        return np.bincount(self.keys[first], minlength=self.size)

    def percentile(self, percent: int) -> int:
        """Of keys a person, over the people with at least one."""
        held = np.bincount(self.persons)
        return int(np.percentile(held[held > 0], percent, method="inverted_cdf"))


def rows(source: Source) -> tuple[Integers, Integers]:
    with duckdb.connect(config={"threads": 1}) as connection:
        columns = connection.execute(source.query, [str(source.path)]).fetchnumpy()
    persons, keys = (column.astype(np.int64) for column in columns.values())
    return persons, keys


@dataclass(frozen=True, slots=True)
class Table:
    """A data set, ready for trials: true counts, and for each percentile the counts bounded to it."""

    name: str
    pairs: Pairs
    exact: Integers
    bounds: dict[int, int]
    bounded: dict[int, Integers]

    @classmethod
    def read(cls, source: Source) -> Table:
        persons, keys = rows(source)
        selecting = Pairs.of(persons, keys, label="select")
        bounds = {percent: selecting.percentile(percent) for percent in PERCENTILES}
        bounded = {percent: selecting.counts(bound) for percent, bound in bounds.items()}
        exact = selecting.counts()
        del selecting
        return cls(source.name, Pairs.of(persons, keys, label="aggregate"), exact, bounds, bounded)

    def top(self) -> Integers:
        """The keys of the LIMIT + 1 largest counts, ties by key."""
        order = np.lexsort((np.arange(len(self.exact)), -self.exact))[: LIMIT + 1]
        return order[self.exact[order] > 0]


@dataclass(frozen=True, slots=True)
class Released:
    keys: Integers
    counts: NDArray[Any]

    def above(self, threshold: float) -> Released:
        kept = self.counts >= threshold
        return Released(self.keys[kept], self.counts[kept])

    def accurate(self, exact: Integers) -> int:
        """How many counts are within RELATIVE_ERROR of the truth."""
        truth = exact[self.keys]
        return int(np.count_nonzero(np.abs(self.counts - truth) <= float(RELATIVE_ERROR) * truth))


PCR, PRINTED = "PCR", "PCR as printed"
PLUME, PLUME_CUT = "Plume", "Plume with threshold"
ONE, ONE_CUT = "one release", "one release with threshold"


def trial(data: Table, rho: Fraction, top: Integers) -> Iterator[tuple[str, int | None, Released]]:
    """Every method once: its name, the percentile it was given, and what it released."""
    yield PCR, None, pcr(data.exact, top, rho)
    yield PRINTED, None, pcr_as_printed(data.exact, top, rho)
    for percent in PERCENTILES:
        deviation, released = plume(data, rho, percent)
        yield PLUME, percent, released
        yield PLUME_CUT, percent, released.above(cut(deviation))
        deviation, released = one_release(data, rho, percent)
        yield ONE, percent, released
        yield ONE_CUT, percent, released.above(cut(deviation))


def cut(deviation: float) -> float:
    """The paper's threshold: from here on (n + sigma) / (n - sigma) <= 1 + r."""
    return float((2 + RELATIVE_ERROR) / RELATIVE_ERROR) * deviation


def pcr(exact: Integers, top: Integers, rho: Fraction) -> Released:
    mechanism = PrivateCountRelease(rho=rho, delta=DELTA, limit=LIMIT, relative_error=RELATIVE_ERROR)
    found = mechanism.release(list(zip(top.tolist(), exact[top].tolist(), strict=True)), Rng.system()).rows
    return Released(np.array([row.key for row in found], np.int64), np.array([row.count for row in found], np.int64))


def pcr_as_printed(exact: Integers, top: Integers, rho: Fraction, delta_pick: float = 1e-11) -> Released:
    """Algorithm 2 with its constants, a delta for every pick. Floating-point noise: for comparison only.

    The picks at one epsilon are one race, which has the same law; the first count out of sight is read once.
    """
    noise = np.random.default_rng()
    outside = int(exact[top[LIMIT]]) if len(top) > LIMIT else 0
    unseen = top[exact[top] > outside]
    found, noisy = [np.zeros(0, np.int64)], [np.zeros(0)]
    left, picks, epsilon = float(rho), round(float(DELTA) / delta_pick), 0.0005
    while left >= epsilon**2 / 4 and picks > 0:
        bottom = 1 + math.log(LIMIT / delta_pick) / epsilon
        deviation = max(float(RELATIVE_ERROR) / 1.5 * bottom, 2 / epsilon)
        row = epsilon**2 / 8 + 1 / (2 * deviation**2)
        scores = epsilon * exact[unseen] + noise.gumbel(size=len(unseen))
        above = np.flatnonzero(scores > epsilon * (outside + bottom) + noise.gumbel())
        affordable = min(picks, 1 + int((left - epsilon**2 / 4) / row))
        chosen = above[np.argsort(-scores[above])][:affordable]
        found.append(unseen[chosen])
        noisy.append(exact[unseen[chosen]] + noise.normal(0, deviation, len(chosen)))
        unseen = np.delete(unseen, chosen)
        left -= len(chosen) * row + epsilon**2 / 8
        picks -= len(chosen) + 1
        epsilon *= math.sqrt(2)
    return Released(np.concatenate(found), np.concatenate(noisy))


def plume(data: Table, rho: Fraction, percent: int) -> tuple[float, Released]:
    """Half for the keys, half for counts of people bounded once more, among the keys found."""
    rule = GaussianRule(total=rho / 2, delta=DELTA, max_keys=data.bounds[percent])
    keys = rule.select(data.bounded[percent], Rng.system()).kept
    if not len(keys):
        return 0.0, Released(keys, keys)
    found = data.pairs.within(keys)
    max_keys = found.percentile(percent)
    noise = DiscreteGaussian(max_keys / rho)
    noisy = found.counts(max_keys)[keys] + noise.sample(Rng.system().stream(), len(keys))
    return math.sqrt(noise.sigma_squared), Released(keys, noisy)


def one_release(data: Table, rho: Fraction, percent: int) -> tuple[float, Released]:
    """The whole budget for noisy counts, those above a threshold shown."""
    rule = GaussianRule(total=rho, delta=DELTA, max_keys=data.bounds[percent])
    selected = rule.select(data.bounded[percent], Rng.system())
    return math.sqrt(data.bounds[percent] / (2 * rho)), Released(selected.kept, selected.counts)


@dataclass(frozen=True, slots=True)
class Cell:
    """What one method released on one data set at one rho, trial by trial; PCR has no `percent`."""

    data: str
    method: str
    percent: int | None
    rho: Fraction
    released: Sequence[int]
    accurate: Sequence[int]

    @property
    def shares(self) -> list[float]:
        """Accurate among the released, of the trials that released anything."""
        return [good / number for good, number in zip(self.accurate, self.released, strict=True) if number]


@dataclass(frozen=True, slots=True)
class Results:
    """All cells, and a line about every data set that was there."""

    about: dict[str, tuple[str, ...]]
    cells: Sequence[Cell]

    def cell(self, data: str, method: str, percent: int | None, rho: Fraction) -> Cell:
        wanted = (data, method, percent, rho)
        return next(cell for cell in self.cells if (cell.data, cell.method, cell.percent, cell.rho) == wanted)


def measure(trials: int = TRIALS) -> Results:
    about, cells = {}, []
    for source in SOURCES:
        if source.path.exists():
            data = Table.read(source)
            about[data.name] = _about(data)
            cells += [cell for rho in RHOS for cell in _cells(data, rho, trials)]
    return Results(about, cells)


def _about(data: Table) -> tuple[str, ...]:
    people = np.count_nonzero(np.bincount(data.pairs.persons))
    numbers = people, len(data.pairs.keys), np.count_nonzero(data.exact), data.pairs.percentile(50)
    return tuple(f"{number:,}" for number in (*numbers, *data.bounds.values()))


def _cells(data: Table, rho: Fraction, trials: int) -> Iterator[Cell]:
    top = data.top()
    seen: dict[tuple[str, int | None], list[tuple[int, int]]] = {}
    for _ in range(trials):
        for method, percent, released in trial(data, rho, top):
            numbers = len(released.keys), released.accurate(data.exact)
            seen.setdefault((method, percent), []).append(numbers)
    for (method, percent), numbers in seen.items():
        released, accurate = zip(*numbers, strict=True)
        yield Cell(data.name, method, percent, rho, released, accurate)


def report(trials: int = TRIALS) -> str:
    heading = "## PCR against Plume on real data\n\n"
    missing = [source.name for source in SOURCES if not source.path.exists()]
    if len(missing) == len(SOURCES):
        return heading + "Skipped: the data sets are not at `../shared/data`.\n"
    results = measure(trials)
    skipped = f"Skipped, as not at `../shared/data`: {', '.join(missing)}.\n\n" if missing else ""
    parts = [_introduction(trials), skipped + _sizes(results), _findings(results), _pictures(results)]
    return heading + "\n".join([*parts, *(_numbers(results, name) for name in results.about)])


def _introduction(trials: int) -> str:
    return (
        "Distinct people per item, after section 4 of Rogers (2024); delta 1e-6, means and standard errors of "
        f"{trials} trials. The paper's measures: recall, which is the number of counts released, and precision, here "
        "the share of the released counts within 10 % of the true count, people not bounded. A count is *accurate* if "
        "it is.\n\n"
        "- **PCR**: `PrivateCountRelease` as it is, limit 10,000 and relative error 0.1. It knows nothing about the "
        "data.\n"
        "- **PCR as printed**: the paper's Algorithm 2 with its delta of 1e-11 for every pick, in floating point.\n"
        "- **Plume**: the paper's rival. Half of rho selects keys (`GaussianRule`, each person in at most m), half "
        "adds Gaussian noise to the counts of the selected keys, each person in at most m' of them; m and m' are the "
        "true 95th or 99th percentile of keys a person, which is tuning on the data and **not private**. The paper "
        "calls m' the L2 sensitivity; it is √m' that is used here, in Plume's favour.\n"
        "- **Plume with threshold**: of these, the noisy counts of at least 21 deviations, the paper's "
        "(2 + r) sigma / r.\n"
        "- **one release**, with and without that threshold: ours. All of rho in one `GaussianRule` with bound m, "
        "which selects and counts at once.\n\n"
        "A person's items are bounded in one random order, the same in all trials; all other noise is fresh.\n"
    )


def _sizes(results: Results) -> str:
    header = ["data", "people", "pairs", "items", "items a person, median", *(f"{p}th percentile" for p in PERCENTILES)]
    return table(header, [(name, *numbers) for name, numbers in results.about.items()])


def _findings(results: Results) -> str:
    header = ["data", *(f"{p}th, rho = {float(rho):g}" for p in PERCENTILES for rho in RHOS)]
    lines, ahead, behind, between = [], [], [], []
    for name in results.about:
        ratios = [_ratio(results, name, percent, rho) for percent in PERCENTILES for rho in RHOS]
        lines.append((name, *("only PCR" if math.isinf(ratio) else f"{ratio:.3g}" for ratio in ratios)))
        side = ahead if min(ratios) > 1 else behind if max(ratios) < 1 else between
        side.append(name)
    return (
        "Accurate counts of PCR for each one of Plume with threshold:\n\n"
        f"{table(header, lines)}\n"
        "The paper finds PCR ahead of Plume with threshold where people contribute much, and behind where each "
        "contributes once or little. Here PCR is ahead at every rho and with both bounds on "
        f"{_listed(ahead)}; behind on {_listed(behind)}; it depends on the bound or on rho on {_listed(between)}.\n\n"
        f"{_percentiles(results)}"
    )


def _percentiles(results: Results) -> str:
    """Where the choice of the bound matters most to Plume with threshold."""
    low, high = PERCENTILES
    shares = {
        name: [results.cell(name, PLUME_CUT, percent, RHOS[-1]).shares for percent in (low, high)]
        for name in results.about
    }
    gaps = {name: np.mean(above) - np.mean(below) for name, (below, above) in shares.items() if below and above}
    if not gaps:
        return ""
    name = max(gaps, key=lambda name: gaps[name])
    below, above = shares[name]
    return (
        "The paper finds that a bound at the 95th percentile can spoil Plume's counts (Reddit in full: almost half "
        f"are off by more than 10 %). Here most so on {name}: {np.mean(below):.0%} are accurate with the {low}th, "
        f"{np.mean(above):.0%} with the {high}th, at rho = {float(RHOS[-1]):g}.\n\n"
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _ratio(results: Results, data: str, percent: int, rho: Fraction) -> float:
    ours, plumes = results.cell(data, PCR, None, rho), results.cell(data, PLUME_CUT, percent, rho)
    return sum(ours.accurate) / sum(plumes.accurate) if any(plumes.accurate) else math.inf


def _numbers(results: Results, data: str) -> str:
    header = [data, *(what for rho in RHOS for what in (f"rho = {float(rho):g}: released", "within 10 %"))]
    methods = {(cell.method, cell.percent): None for cell in results.cells}
    lines = []
    for method, percent in methods:
        cells = [results.cell(data, method, percent, rho) for rho in RHOS]
        numbers = [text for cell in cells for text in (_mean(cell.released), _percent(cell.shares))]
        lines.append((f"{method}, {percent}th" if percent else method, *numbers))
    return table(header, lines)


def _mean(values: Sequence[float]) -> str:
    return f"{np.mean(values):,.1f} ± {_standard_error(values):.1f}"


def _percent(shares: Sequence[float]) -> str:
    return f"{100 * np.mean(shares):.1f} ± {100 * _standard_error(shares):.1f} %" if shares else "none"


def _standard_error(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0


LINES = (
    pictures.Line(PCR, pictures.BLUE),
    pictures.Line(PLUME_CUT, pictures.ORANGE),
    pictures.Line(ONE_CUT, pictures.GREEN),
    pictures.Line(PRINTED, pictures.SKY),
    pictures.Line(PLUME, pictures.SAND, dashed=True),
    pictures.Line(ONE, pictures.LIME, dashed=True),
)


def _pictures(results: Results) -> str:
    panels = pictures.Panels("data", list(results.about), "bound", [_bound(percent) for percent in PERCENTILES])
    rho = pictures.Axis("rho", "rho", {"domain": [0, 1.05]}, [float(rho) for rho in RHOS])
    powers = [0, *(10**power for power in range(1, 5))]
    logarithmic = {"type": "symlog", "domain": [0, 20_000], "nice": False}
    released = pictures.Axis("released", "counts released", logarithmic, powers, ",d")
    accurate = pictures.Axis("accurate", "accurate counts", logarithmic, powers, ",d")
    share = pictures.Axis("share", "share within 10 %", {"domain": [0, 1]}, [0, 0.25, 0.5, 0.75, 1], ".0%")
    points = _points(results)
    return "\n".join(
        pictures.save(pictures.lines(points, rho, axis, panels, LINES), f"pcr_{axis.field}", axis.title.capitalize())
        for axis in (released, share, accurate)
    )


def _points(results: Results) -> list[pictures.Point]:
    """PCR has no bound, and is drawn beside both."""
    return [
        {
            "data": cell.data,
            "method": cell.method,
            "bound": _bound(percent),
            "rho": float(cell.rho),
            "released": float(np.mean(cell.released)),
            "accurate": float(np.mean(cell.accurate)),
            "share": float(np.mean(cell.shares)) if cell.shares else None,
        }
        for cell in results.cells
        for percent in ([cell.percent] if cell.percent else PERCENTILES)
    ]


def _bound(percent: int) -> str:
    return f"bound: {percent}th percentile"


if __name__ == "__main__":
    print(report())
