"""Cells of a report as a session draws and stores them, against their exact law.

The rows are known, so that a stored cell less its exact count is its noise. A correct report fails a test here once in
a million runs; each says by which bound.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from sfumato.mechanisms import DiscreteGaussian, DiscreteLaplace, Rng
from sfumato.mechanisms.report_noise import canonical_gaussian, canonical_laplace
from sfumato.session import Session
from tests.helpers.false_alarms import FALSE_ALARM, cdf_distance, cdf_slack

pytestmark = pytest.mark.slow

NOW = datetime(2026, 11, 15, tzinfo=UTC)
CAMPAIGNS, TITLES, DAYS = 8, 120, 31
EPSILONS = {"views": Fraction(1, 2), "clicks": Fraction(1, 5)}

_CONFIG = f"""
[ledger]
url = "sqlite:ledger.db"
[engines.local]
type = "duckdb"
database = "rows.duckdb"
[tables.events]
engine = "local"
source = "events"
privacy_unit = "who"
[budgets.b]
epsilon_per = 0.1
delta_per = 1e-9
information = 100
calls = 10
[analysts.anna]
budget = "b"
[reports.ads]
table = "events"
time = "at"
levels = ["day", "month"]
entities = ["campaign"]
max_versions = 2
[reports.ads.attributes]
title = {{ domain = {json.dumps([f"t{title:03}" for title in range(TITLES)])} }}
[reports.ads.statistics]
views = {{ count = "rows", epsilon = 0.5, where = {{ kind = "view" }} }}
clicks = {{ count = "rows", epsilon = 0.2, where = {{ kind = "click" }} }}
"""
_GAUSSIAN = (
    _CONFIG.replace("epsilon = 0.5, ", "")
    .replace("epsilon = 0.2, ", "")
    .replace("max_versions = 2", 'max_versions = 2\nnoise = "gaussian"\nepsilon = { total = 1.5 }\ndelta = 1e-6')
)

_ROWS = f"""
CREATE TABLE events AS
SELECT
    n AS who,
    TIMESTAMP '2026-01-01' + INTERVAL (hash(n, 1) % {DAYS * 1440}) MINUTE AS at,
    'c' || (hash(n, 2) % {CAMPAIGNS}) AS campaign,
    't' || lpad((hash(n, 3) % {TITLES})::VARCHAR, 3, '0') AS title,
    CASE WHEN hash(n, 4) % 3 = 0 THEN 'click' ELSE 'view' END AS kind
FROM range(20000) AS people (n)
"""

_EXACT = """
SELECT kind || 's', campaign, title, {time}, count(*) FROM events GROUP BY ALL
"""


class Drawn:
    """Noise by cell: (statistic, campaign, level, start, title), once for each seal."""

    def __init__(self, folder: Path, config: str = _CONFIG) -> None:
        self._folder = folder
        (folder / "noise.key").write_bytes(os.urandom(32))
        (folder / "noise.key").chmod(0o600)
        (folder / "sfumato.toml").write_text(config)
        with duckdb.connect(str(folder / "rows.duckdb")) as connection:
            connection.execute(_ROWS)
        with Session(folder / "sfumato.toml", clock=lambda: NOW) as session:
            self._ask(session)
            session.reseal("ads", start="2026-01-01", end="2026-02-01")
            self._ask(session)
            self.policy = session._reports.policies["ads"]

    @staticmethod
    def _ask(session: Session) -> None:
        for campaign, granularity in product(range(CAMPAIGNS), ("day", "all")):
            session.report(
                "ads",
                analyst="anna",
                statistics=["views", "clicks"],
                entity={"campaign": f"c{campaign}"},
                attribute="title",
                start="2026-01-01",
                end="2026-02-01",
                granularity=granularity,
                options=[],
            )

    def _exact(self) -> dict[tuple[str, ...], int]:
        found = {}
        with duckdb.connect(str(self._folder / "rows.duckdb")) as connection:
            for level in ("day", "month"):
                rows = connection.execute(
                    _EXACT.format(time=f"date_trunc('{level}', \"at\")::DATE::VARCHAR")
                ).fetchall()
                found |= {(*row[:2], level, row[3], row[2]): row[4] for row in rows}
        return found

    def noise(self) -> np.ndarray:
        """statistics x seals x campaigns x (the month, then its days) x titles."""
        exact, stored = self._exact(), list(self._stored())
        starts = [("month", "2026-01-01"), *(("day", f"2026-01-{day:02}") for day in range(1, DAYS + 1))]
        drawn = np.full((2, 2, CAMPAIGNS, len(starts), TITLES), np.iinfo(np.int64).min)
        for statistic, campaign, level, start, number, values, counts in stored:
            place = [*EPSILONS].index(statistic), number - 1, int(campaign[1:]), starts.index((level, start))
            for value, count in zip(values, counts, strict=True):
                drawn[(*place, int(value[1:]))] = count - exact.get((statistic, campaign, level, start, value), 0)
        assert drawn.min() > np.iinfo(np.int64).min
        return drawn

    def _stored(self) -> Iterator[tuple[Any, ...]]:
        select = (
            "SELECT statistic, entity, level, since, number, listed, counts FROM cells "
            "JOIN places ON places.place = cells.place JOIN domains ON digest = domain"
        )
        with closing(sqlite3.connect(self._folder / "ledger.db")) as connection:
            for statistic, entity, level, since, number, listed, counts in connection.execute(select):
                values = [json.loads(value) for value in json.loads(listed)]
                yield statistic, json.loads(entity)[0], level, since[:10], number, values, json.loads(counts)


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    return Drawn(tmp_path_factory.mktemp("ads")).noise()


GaussianNoise = tuple[np.ndarray, dict[str, DiscreteGaussian]]


@pytest.fixture(scope="module")
def gaussian(tmp_path_factory: pytest.TempPathFactory) -> GaussianNoise:
    """The noise of a report with Gaussian noise, and its laws by level of time."""
    drawn = Drawn(tmp_path_factory.mktemp("ads"), _GAUSSIAN)
    return drawn.noise(), {level: drawn.policy.law("views", level) for level in ("day", "month")}


@pytest.mark.parametrize(("level", "off"), [("day", Fraction(5, 4)), ("month", Fraction(2))])
def test_every_gaussian_cell_has_the_law_of_its_deviation(gaussian: GaussianNoise, level: str, off: Fraction) -> None:
    """By Massart's bound; and a deviation that is `off` by this factor either way, or of the other level, is rejected.

    Their laws are more than twice the bound away, so that this fails once in a million runs too.
    """
    noise, laws = gaussian
    draws = (noise[..., 0, :] if level == "month" else noise[..., 1:, :]).ravel()

    def distance(law: DiscreteGaussian) -> float:
        return cdf_distance(draws, lambda points: np.array([1 - law.tail(int(point) + 1) for point in points]))

    right = laws[level]
    assert distance(right) <= cdf_slack(len(draws))
    wrong = [DiscreteGaussian(right.sigma_squared * factor**2) for factor in (off, 1 / off)]
    for law in [*wrong, laws["day" if level == "month" else "month"]]:
        assert distance(law) > cdf_slack(len(draws))


def test_a_million_gaussian_cells_have_the_law_of_their_deviation() -> None:
    """By Massart's bound; and a deviation that is wrong by 5 % either way is rejected."""
    right = Fraction(12)
    draws = canonical_gaussian(np.zeros(1_000_000, np.int64), sigma_squared=right**2, rng=Rng.system())

    def distance(deviation: Fraction) -> float:
        law = DiscreteGaussian(deviation**2)
        return cdf_distance(draws, lambda points: np.array([1 - law.tail(int(point) + 1) for point in points]))

    assert distance(right) <= cdf_slack(len(draws))
    for wrong in (Fraction(21, 20), Fraction(20, 21)):
        assert distance(right * wrong) > cdf_slack(len(draws))


def test_the_two_kinds_of_noise_are_independent() -> None:
    """Of one source, as one seal would have: signs, as products of mean 0, by Hoeffding's bound."""
    exact, keys = np.zeros(100_000, np.int64), (os.urandom(32), b"cell")
    laplace = np.sign(canonical_laplace(exact, epsilon=Fraction(1, 10), rng=Rng.keyed(*keys)))
    gaussian = np.sign(canonical_gaussian(exact, sigma_squared=200, rng=Rng.keyed(*keys)))
    other = np.sign(canonical_gaussian(exact, sigma_squared=201, rng=Rng.keyed(*keys)))
    slack = math.sqrt(2 * math.log(4 / FALSE_ALARM) / len(exact))
    assert abs((laplace * gaussian).mean()) <= slack
    assert abs((gaussian * other).mean()) <= slack
    assert np.square(gaussian).mean() > slack  # the same noise would be found


@pytest.mark.parametrize(("place", "statistic"), [*enumerate(EPSILONS)])
def test_every_cell_has_the_law_of_its_epsilon(noise: np.ndarray, place: int, statistic: str) -> None:
    """By Massart's bound; and an epsilon that is wrong by a fifth either way is rejected.

    Its law is more than twice the bound away, so that this fails once in a million runs too.
    """
    draws = noise[place].ravel()

    def distance(epsilon: Fraction) -> float:
        law = DiscreteLaplace(1 / epsilon)
        return cdf_distance(draws, lambda points: np.array([1 - law.tail(int(point) + 1) for point in points]))

    assert distance(EPSILONS[statistic]) <= cdf_slack(len(draws))
    for wrong in (Fraction(6, 5), Fraction(5, 6)):
        assert distance(EPSILONS[statistic] * wrong) > cdf_slack(len(draws))


@pytest.mark.parametrize("epsilon", EPSILONS.values(), ids=str)
def test_a_million_cells_have_the_law_of_their_epsilon(epsilon: Fraction) -> None:
    """By Massart's bound; and an epsilon that is wrong by 5 % either way is rejected."""
    draws = canonical_laplace(np.zeros(1_000_000, np.int64), epsilon=epsilon, rng=Rng.system())

    def distance(other: Fraction) -> float:
        law = DiscreteLaplace(1 / other)
        return cdf_distance(draws, lambda points: np.array([1 - law.tail(int(point) + 1) for point in points]))

    assert distance(epsilon) <= cdf_slack(len(draws))
    for wrong in (Fraction(21, 20), Fraction(20, 21)):
        assert distance(epsilon * wrong) > cdf_slack(len(draws))


PAIRS = {
    "statistics": lambda signs: (signs[0], signs[1]),
    "seals": lambda signs: (signs[:, 0], signs[:, 1]),
    "campaigns": lambda signs: (signs[:, :, 0::2], signs[:, :, 1::2]),
    "days": lambda signs: (signs[:, :, :, 1:-1:2], signs[:, :, :, 2::2]),
    "a month and a day of it": lambda signs: (signs[:, :, :, 0], signs[:, :, :, 17]),
    "titles": lambda signs: (signs[..., 0::2], signs[..., 1::2]),
}


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("across", PAIRS)
def test_cells_are_independent(noise: np.ndarray, gaussian: GaussianNoise, across: str, family: str) -> None:
    """Signs of disjoint pairs of cells, as products of mean 0: by Hoeffding's bound, shared by all kinds of pairs."""
    noise = noise if family == "laplace" else gaussian[0]
    first, second = PAIRS[across](np.sign(noise).astype(np.int64))
    products = (first * second).ravel()
    slack = math.sqrt(2 * math.log(2 * len(PAIRS) / FALSE_ALARM) / len(products))
    assert abs(products.mean()) <= slack
    assert np.square(first).mean() > slack  # cells that share their noise would be found


def test_sums_of_cells_have_the_variance_of_independent_ones(noise: np.ndarray) -> None:
    """Days less their month, over all campaigns and titles: by Chebyshev's bound the mean is within its deviations.

    And no two vectors of a report are the same.
    """
    for place, epsilon in enumerate(EPSILONS.values()):
        sums = noise[place, :, :, 1:].sum(axis=2) - noise[place, :, :, 0]
        deviation = DiscreteLaplace(1 / epsilon).deviation * math.sqrt(DAYS + 1)
        assert abs(sums.mean()) <= deviation / math.sqrt(sums.size * FALSE_ALARM / len(EPSILONS))
    vectors = noise.reshape(-1, TITLES)
    assert len(np.unique(vectors, axis=0)) == len(vectors)
