"""Reports: the PriPeARL paper's experiments (Kenthapadi and Tran, 2018, section 5), and what a report costs."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from benchmarks import pictures
from benchmarks.timing import milliseconds, side_by_side, table
from sfumato.config.noise_key import new_key
from sfumato.mechanisms import Rng, context
from sfumato.mechanisms.consistency import Tree
from sfumato.mechanisms.report_noise import canonical_laplace
from sfumato.query.reports.calendar import Calendar
from sfumato.query.reports.entities import Family
from sfumato.query.reports.policy import Attribute, ReportPolicy, ReportStatistic
from sfumato.reports.numbers import Numbers
from sfumato.session import Session

Integers = NDArray[np.int64]

SEED, KEY = 7, b"benchmarks of reports"
QUERIES, VALUES = 600, 1000
TITLE, DAY = "job_title", timedelta(days=1)
IMPRESSIONS, CLICKS = "impressions", "clicks"
EPSILONS = (0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0)
LEAST, LEAST_EPSILONS = tuple(range(11)), (0.1, 0.5, 1.0)
TOPS, TOP_EPSILONS = (*range(1, 11), 20, 30, 40, 50), (0.1, 0.5, 1.0, 3.0)
FEW = 10  # values of a query: with no more, the paper does not look at its top
PRESENT, DOMAIN = "Of the values with events", "Of the whole domain"


# -- the paper's experiments --


@dataclass(frozen=True)
class Ads:
    """Made-up ads: events by query (one campaign, one day) and by job title. Few titles have many, most have none."""

    events: dict[str, Integers]

    @classmethod
    def generated(cls) -> Ads:
        """Campaigns of very different sizes, each with popular titles of its own; one impression in ten is clicked."""
        rng = np.random.default_rng(SEED)
        sizes = np.minimum(rng.lognormal(np.log(30), 2.5, QUERIES), 100_000)
        popularity = 1 / np.arange(1, VALUES + 1) ** 1.5
        popular = rng.permuted(np.tile(popularity / popularity.sum(), (QUERIES, 1)), axis=1)
        impressions = rng.poisson(sizes[:, None] * popular)
        return cls({IMPRESSIONS: impressions, CLICKS: rng.binomial(impressions, 0.1)})

    @cached_property
    def present(self) -> dict[str, Integers]:
        """All counts that are not zero: what the paper's queries return."""
        return {name: counts[counts > 0] for name, counts in self.events.items()}


@dataclass(frozen=True)
class Shown:
    """The cells of one statistic at one epsilon: exact, as they are stored, and as they are shown."""

    exact: Integers
    stored: Integers
    numbers: Integers

    def errors(self, min_count: int = 0) -> Integers:
        """Shown less exact, of the cells with events; a count that is not shown is taken as 0, as in the paper."""
        shown = np.where(self.numbers >= min_count, self.numbers, 0)
        return (shown - self.exact)[self.exact > 0]

    @property
    def bias_of_nothing(self) -> float:
        """What a cell without events shows, on average. The paper has no such cells."""
        return float(self.numbers[self.exact == 0].mean())


def shown(ads: Ads, statistic: str, epsilon: float) -> Shown:
    """Through the path of every report: canonical noise, then sums of cells and their floor. A query is a day here."""
    exact = ads.events[statistic]
    rng = Rng.keyed(KEY, context(statistic=statistic))
    stored = canonical_laplace(exact, epsilon=Fraction(str(epsilon)), rng=rng)
    made = _numbers(statistic, epsilon).compute({(statistic, TITLE): stored[np.newaxis]})
    return Shown(exact, stored, made[statistic, TITLE][:, 0])


def _numbers(statistic: str, epsilon: float) -> Numbers:
    calendar, first = Calendar(("day",), "UTC"), datetime(2026, 1, 1, tzinfo=UTC)
    policy = ReportPolicy(
        "ads",
        "ads",
        "at",
        calendar,
        {statistic: ReportStatistic(statistic, {"day": Fraction(str(epsilon))})},
        {TITLE: Attribute(TITLE, "integer", tuple(range(VALUES)))},
    )
    spans = calendar.partition(first, first + QUERIES * DAY)
    alone = Family(((),), Tree((-1,)), (True,))
    return Numbers(policy, alone, spans, (), steps=tuple((at,) for at in range(QUERIES)))


Curve = dict[tuple[str, float], Shown]


def paper() -> str:
    """The three experiments, with pictures in the shape of the paper's figure 4."""
    ads = Ads.generated()
    curve = {(name, epsilon): shown(ads, name, epsilon) for name in ads.events for epsilon in EPSILONS}
    tops = {
        (where, epsilon): _distances(curve[IMPRESSIONS, epsilon], where) for where in RANKED for epsilon in TOP_EPSILONS
    }
    parts = [
        _introduction(ads),
        _findings(ads, curve, tops),
        _check(curve),
        _by_epsilon(curve),
        _by_least(curve),
        _by_top(tops),
        *_pictures(ads, curve, tops),
    ]
    return "## Reports: the PriPeARL paper's experiments\n\n" + "\n".join(parts)


def _introduction(ads: Ads) -> str:
    cells = ads.events[IMPRESSIONS].size
    many = np.mean((ads.events[IMPRESSIONS] > 0).sum(axis=1) > FEW)
    return (
        f"After section 5 of Kenthapadi and Tran (2018), on made-up ads: {QUERIES} queries (a campaign's day) by "
        f"{VALUES:,} job titles, {cells:,} cells, of which {len(ads.present[IMPRESSIONS]):,} have impressions and "
        f"{len(ads.present[CLICKS]):,} have clicks; {many:.0%} of the queries have more than {FEW} titles, in the "
        "paper about half. Canonical noise and numbers as a report makes them. As in the paper, errors are of the "
        "cells with events, of what is shown (nothing below 0), and a count below `min_count` is taken as 0. Unlike "
        "the paper, cells without events have noise too: without it, to be shown is to be known to have been there.\n"
    )


def _mean(errors: Integers) -> float:
    return float(errors.mean())


def _off(shown: Shown, min_count: int = 0) -> float:
    """The mean absolute error."""
    return _mean(np.abs(shown.errors(min_count)))


def _findings(ads: Ads, curve: Curve, tops: Tops) -> str:
    one = curve[IMPRESSIONS, 1.0]
    errors = one.errors()
    medians = {name: np.median(counts) for name, counts in ads.present.items()}
    within = np.mean(np.abs(errors) <= 2)
    lines = [
        ("daily counts are long-tailed, with medians of 1 or 2", _tail(ads, medians)),
        ("the mean absolute error is below 1 from epsilon 1 on", f"{_off(one):.2f} at 1, {_less_and_less(curve)}"),
        (
            "the mean signed error is positive, and almost 0 from epsilon 1 on (0.07 at 1)",
            ", ".join(f"{_mean(curve[IMPRESSIONS, e].errors()):+.2f} at {e:g}" for e in (0.1, 0.5, 1.0, 3.0)),
        ),
        ("at epsilon 1, about 95 % of the errors are at most 2", f"{within:.0%}"),
        ("at epsilon 1, the most frequent absolute error is 1", _modes(errors)),
        (
            "`min_count` 0 to 10: the absolute error hardly moves at epsilon 0.1, and much at 1",
            ", ".join(f"{_swing(curve, e)} at {e:g}" for e in LEAST_EPSILONS),
        ),
        (
            "the signed error falls with `min_count`; least at 0 or 1 for epsilon 1, 3 for 0.5, above 10 for 0.1",
            ", ".join(f"{_fairest(curve, e)} at {e:g}" for e in reversed(LEAST_EPSILONS)),
        ),
        ("Jaccard distances of top-n lie roughly between 0.1 and 0.5", f"{_span(tops)}, n up to {FEW}"),
        ("they grow as epsilon falls", _ordered(tops)),
        ("they grow with n at larger epsilons, and fall with n at 0.1 (n unsaid)", _trend(tops)),
    ]
    return table(["the paper, on LinkedIn's ads", "here, impressions"], lines)


def _tail(ads: Ads, medians: dict[str, Any]) -> str:
    each = (
        f"{name}: median {medians[name]:.0f}, 99 % up to {np.quantile(counts, 0.99):.0f}, largest {counts.max():,}"
        for name, counts in ads.present.items()
    )
    return "; ".join(each)


def _less_and_less(curve: Curve) -> str:
    offs = [_off(curve[IMPRESSIONS, epsilon]) for epsilon in EPSILONS]
    falls = all(later < earlier for earlier, later in itertools.pairwise(offs))
    return f"from {offs[0]:.1f} at {EPSILONS[0]:g} to {offs[-1]:.2f} at {EPSILONS[-1]:g}" + (
        ", smaller at every step" if falls else ", not at every step"
    )


def _modes(errors: Integers) -> str:
    shares = np.bincount(np.abs(errors))[:2] / len(errors)
    return f"{int(shares.argmax())}: {shares[0]:.0%} are 0 and {shares[1]:.0%} are 1"


def _swing(curve: Curve, epsilon: float) -> str:
    offs = [_off(curve[IMPRESSIONS, epsilon], least) for least in LEAST]
    return f"{min(offs):.1f} to {max(offs):.1f} (times {max(offs) / min(offs):.2f})"


def _fairest(curve: Curve, epsilon: float) -> str:
    biases = [abs(_mean(curve[IMPRESSIONS, epsilon].errors(least))) for least in LEAST]
    best = min(LEAST, key=biases.__getitem__)
    return f"{best}" if best < LEAST[-1] else f"{best} or above"


def _check(curve: Curve) -> str:
    """The promise of the plan; before anything is clamped the law itself gives 2a / (1 - a^2), a = exp(-epsilon)."""
    high = [epsilon for epsilon in EPSILONS if epsilon >= 1]
    stored = [_mean(np.abs(each.stored - each.exact)) for each in (curve[IMPRESSIONS, epsilon] for epsilon in high)]
    displayed = [_off(curve[name, epsilon]) for name in (IMPRESSIONS, CLICKS) for epsilon in high]
    verdict = "met" if max(*stored, *displayed) < 1 else "missed"
    return (
        f"At epsilon >= 1 the mean absolute error is below 1: **{verdict}** (at most {max(stored):.2f} for a canonical "
        f"count, where the law has {_law(1.0):.2f} at epsilon 1, and {max(displayed):.2f} for a shown one).\n"
    )


def _law(epsilon: float) -> float:
    ratio = np.exp(-epsilon)
    return float(2 * ratio / (1 - ratio**2))


def _by_epsilon(curve: Curve) -> str:
    header = [
        "epsilon",
        "law",
        "canonical count",
        "shown, mean absolute",
        "quartiles",
        "shown, mean signed",
        "quartiles",
        "clicks, mean absolute",
        "clicks, mean signed",
        "shown where there is nothing",
    ]
    lines = []
    for epsilon in EPSILONS:
        each, clicks = curve[IMPRESSIONS, epsilon], curve[CLICKS, epsilon]
        errors = each.errors()
        lines.append(
            (
                f"{epsilon:g}",
                f"{_law(epsilon):.3f}",
                f"{_mean(np.abs(each.stored - each.exact)):.3f}",
                f"{_off(each):.3f}",
                _quartiles(np.abs(errors)),
                f"{_mean(errors):+.3f}",
                _quartiles(errors),
                f"{_off(clicks):.3f}",
                f"{_mean(clicks.errors()):+.3f}",
                f"{each.bias_of_nothing:+.3f}",
            )
        )
    return "Errors by epsilon, `min_count` 0 (figure 4b):\n\n" + table(header, lines)


def _quartiles(errors: Integers) -> str:
    return ", ".join(f"{at:g}" for at in np.quantile(errors, (0.25, 0.5, 0.75)))


def _by_least(curve: Curve) -> str:
    columns = [f"epsilon {epsilon:g}" for epsilon in LEAST_EPSILONS]
    lines = [(str(least), *(_both(curve[IMPRESSIONS, e].errors(least)) for e in LEAST_EPSILONS)) for least in LEAST]
    intro = "Errors by `min_count`, impressions, mean absolute and mean signed (figures 4d and 4e):\n\n"
    return intro + table(["`min_count`", *columns], lines)


def _both(errors: Integers) -> str:
    return f"{_mean(np.abs(errors)):.2f} · {_mean(errors):+.2f}"


# -- the top --

Tops = dict[tuple[str, float], list[float]]


def _order(counts: Integers) -> NDArray[np.intp]:
    """Places by count, the largest first, and at equal ones in the order of the domain: as reports rank."""
    return np.argsort(-counts, axis=1, kind="stable")


def _among_present(shown: Shown) -> tuple[Integers, Integers]:
    """The paper's ranking: noise only where there are events: all that is there stays there."""
    beyond = np.where(shown.exact > 0, 0, -shown.numbers.max() - 1)
    return shown.exact + beyond, shown.numbers + beyond


def _among_all(shown: Shown) -> tuple[Integers, Integers]:
    """A report's ranking: every value of the domain may be in it. One that is shown as 0 is not."""
    return np.where(shown.exact > 0, shown.exact, -1), np.where(shown.numbers > 0, shown.numbers, -1)


RANKED: dict[str, Callable[[Shown], tuple[Integers, Integers]]] = {PRESENT: _among_present, DOMAIN: _among_all}


def _distances(shown: Shown, where: str) -> list[float]:
    """The mean Jaccard distance of the true and the shown top n, of queries with more than a few values."""
    rankings = [each[(shown.exact > 0).sum(axis=1) > FEW] for each in RANKED[where](shown)]
    places = [_place(each) for each in rankings]
    there = [each >= 0 for each in rankings]
    distances = []
    for n in TOPS:
        true, noisy = ((place < n) & present for place, present in zip(places, there, strict=True))
        distances.append(float(1 - ((true & noisy).sum(axis=1) / (true | noisy).sum(axis=1)).mean()))
    return distances


def _place(counts: Integers) -> Integers:
    order, place = _order(counts), np.empty(counts.shape, np.int64)
    np.put_along_axis(place, order, np.arange(counts.shape[1])[np.newaxis], axis=1)
    return place


def _up_to_few(tops: Tops, where: str, epsilon: float) -> list[float]:
    """As far as no query of the experiment runs out of values."""
    return tops[where, epsilon][: TOPS.index(FEW) + 1]


def _span(tops: Tops) -> str:
    each = {e: _up_to_few(tops, PRESENT, e) for e in TOP_EPSILONS}
    return ", ".join(f"{min(found):.2f} to {max(found):.2f} at {e:g}" for e, found in each.items())


def _ordered(tops: Tops) -> str:
    pairs = itertools.pairwise(TOP_EPSILONS)
    holds = [a > b for low, high in pairs for a, b in zip(tops[PRESENT, low], tops[PRESENT, high], strict=True)]
    return "at every n" if all(holds) else f"in {sum(holds)} of {len(holds)} comparisons"


def _trend(tops: Tops) -> str:
    some = [1, 5, FEW, TOPS[-1]]
    each = {e: [f"{tops[PRESENT, e][TOPS.index(n)]:.2f}" for n in some] for e in TOP_EPSILONS}
    changes = "; ".join(f"{', '.join(found)} at {e:g}" for e, found in each.items())
    return f"n = {', '.join(map(str, some))}: {changes}"


def _by_top(tops: Tops) -> str:
    columns = [f"epsilon {epsilon:g}" for epsilon in TOP_EPSILONS]
    lines = [
        (str(n), *(f"{tops[PRESENT, e][at]:.2f} · {tops[DOMAIN, e][at]:.2f}" for e in TOP_EPSILONS))
        for at, n in enumerate(TOPS)
    ]
    return (
        f"Mean Jaccard distance of the true and the noisy top n, impressions, queries with more than {FEW} values "
        "(figure 4f): among the values that have events, which are returned whole where they are fewer than n · "
        "among the whole domain, as a report has it, where what is shown as 0 is not in the list. Most counts are 1, "
        "and equal ones stand in the order of the domain, so even a true list is partly chance.\n\n"
        + table(["n", *columns], lines)
    )


# -- pictures --

_COLORS = {0.1: pictures.ORANGE, 0.5: pictures.SAND, 1.0: pictures.BLUE, 3.0: pictures.GREEN}
_STATISTICS = (pictures.Line(IMPRESSIONS, pictures.BLUE), pictures.Line(CLICKS, pictures.ORANGE, dashed=True))
ABSOLUTE, SIGNED = "Absolute error", "Signed error"


def _pictures(ads: Ads, curve: Curve, tops: Tops) -> list[str]:
    return [
        _picture_of_counts(ads),
        _picture_by_epsilon(curve),
        _picture_of_errors(curve[IMPRESSIONS, 1.0]),
        _picture_by_least(curve),
        _picture_by_top(tops),
    ]


def _at(epsilons: Sequence[float]) -> list[pictures.Line]:
    return [pictures.Line(f"epsilon {epsilon:g}", _COLORS[epsilon]) for epsilon in epsilons]


def _picture_of_counts(ads: Ads) -> str:
    points = []
    for name, counts in ads.present.items():
        shares = {least: float(np.mean(counts >= least)) for least in (1, 2, 3, 5, 7, 10, 14, 20, 30, 50, 70, 100)}
        points += [{"method": name, "x": x, "y": share, "what": "True counts"} for x, share in shares.items()]
    x = pictures.Axis("x", "count", {"type": "log", "domain": [1, 100]}, (1, 2, 5, 10, 20, 50, 100))
    y = pictures.Axis("y", "share with so many or more", {"type": "log"}, (0.001, 0.01, 0.1, 1), "~%")
    chart = pictures.lines(points, x, y, pictures.Panels("what", ["True counts"], side=260), _STATISTICS)
    return pictures.save(chart, "reports_counts", "Counts a cell, as in figure 4a")


def _two(points: list[pictures.Point], x: pictures.Axis, y: str, lines: Sequence[pictures.Line], name: str) -> str:
    panels = pictures.Panels("what", [ABSOLUTE, SIGNED], side=240)
    chart = pictures.lines(points, x, pictures.Axis("y", y), panels, lines)
    return pictures.save(chart, name, f"{ABSOLUTE} and {SIGNED.lower()} by {x.title}: {y}")


def _both_points(method: str, x: float, errors: Integers) -> list[pictures.Point]:
    means = {ABSOLUTE: _mean(np.abs(errors)), SIGNED: _mean(errors)}
    return [{"method": method, "x": x, "y": mean, "what": what} for what, mean in means.items()]


def _picture_by_epsilon(curve: Curve) -> str:
    each = (_both_points(name, epsilon, found.errors()) for (name, epsilon), found in curve.items())
    x = pictures.Axis("x", "epsilon", {"type": "log", "domain": [0.1, 5]}, (0.1, 0.2, 0.5, 1, 2, 5))
    return _two([*itertools.chain.from_iterable(each)], x, "mean error", _STATISTICS, "reports_epsilon")


def _picture_of_errors(one: Shown) -> str:
    errors, points = one.errors(), []
    for what, each in ((ABSOLUTE, np.abs(errors)), (SIGNED, errors)):
        points += [
            {"method": "epsilon 1", "x": n, "y": float(np.mean(each == n)), "what": what}
            for n in range(0 if what == ABSOLUTE else -5, 6)
        ]
    return _two(points, pictures.Axis("x", "error"), "share of the cells", _at([1.0]), "reports_errors")


def _picture_by_least(curve: Curve) -> str:
    each = (
        _both_points(f"epsilon {epsilon:g}", least, curve[IMPRESSIONS, epsilon].errors(least))
        for epsilon in LEAST_EPSILONS
        for least in LEAST
    )
    points = [*itertools.chain.from_iterable(each)]
    return _two(
        points,
        pictures.Axis("x", "min_count", values=LEAST[::2], format="d"),
        "mean error",
        _at(LEAST_EPSILONS),
        "reports_min_count",
    )


def _picture_by_top(tops: Tops) -> str:
    points = [
        {"method": f"epsilon {epsilon:g}", "x": n, "y": distance, "what": where}
        for (where, epsilon), found in tops.items()
        for n, distance in zip(TOPS, found, strict=True)
    ]
    x = pictures.Axis("x", "n", {"domain": [0, 50]}, range(0, 51, 10), "d")
    y = pictures.Axis("y", "Jaccard distance", {"domain": [0, 1]})
    chart = pictures.lines(points, x, y, pictures.Panels("what", [PRESENT, DOMAIN], side=240), _at(TOP_EPSILONS))
    return pictures.save(chart, "reports_top", "Jaccard distance of the top n by n, as in figure 4f")


# -- speed --

ROWS, REPEATS = 1_000_000, 5
TARGET = 1_000_000

CONFIG = """
[ledger]
url = "sqlite:{books}/ledger.db"
fence = "../{books}-state/fence"
[engines.local]
type = "duckdb"
database = "ads.duckdb"
[tables.ads]
engine = "local"
source = "ads"
privacy_unit = "member_id"
[reports.ads]
table = "ads"
time = "at"
zone = "UTC"
levels = ["3h", "day", "month", "quarter", "year"]
entities = ["campaign"]
epsilon = 1
[reports.ads.attributes]
job_title = {{ domain = {{ table = "titles", column = "title" }} }}
[reports.ads.statistics]
impressions = {{ count = "rows" }}
[budgets.none]
epsilon_per = 0.1
delta_per = 1e-9
information = 1
calls = 1
[analysts.anna]
budget = "none"
"""


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """A question to the report of a quarter, and the query that would be written without privacy."""

    name: str
    attribute: str | None
    granularity: str
    columns: str
    cells: int

    @property
    def bare(self) -> str:
        grouped = f"GROUP BY {self.columns}" if self.columns else ""
        selected = f"{self.columns}, COUNT(*)" if self.columns else "COUNT(*)"
        return (
            f"SELECT {selected} FROM ads WHERE campaign = 'c1' AND \"at\" >= TIMESTAMP '2026-01-01' "  # noqa: S608
            f"AND \"at\" < TIMESTAMP '2026-04-01' {grouped}"
        )

    def ask(self, session: Session, end: str = "2026-04-01") -> Any:
        return session.report(
            "ads",
            analyst="anna",
            statistics=IMPRESSIONS,
            entity={"campaign": "c1"},
            attribute=self.attribute,
            start="2026-01-01",
            end=end,
            granularity=self.granularity,
        )


QUESTIONS = (
    ReportRequest("1,000 values by day", TITLE, "day", 'CAST("at" AS DATE), job_title', 90_000),
    ReportRequest("1,000 values of the quarter", TITLE, "all", "job_title", 1000),
    ReportRequest("one total of the quarter", None, "all", "", 1),
    ReportRequest("totals by day", None, "day", 'CAST("at" AS DATE)', 90),
)


def speed() -> str:
    """A report beside the bare query: when its cells are drawn, and when they are there."""
    rows = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "shop"
        folder.mkdir()
        _prepare(folder)
        for at, asked in enumerate(QUESTIONS):
            best = _times(folder, asked, at)
            bare, first, again = best["bare"], best["first"], best["again"]
            ratios = f"{first / bare:.1f}", f"{again / bare:.2f}"
            beside = milliseconds(max(first - bare, 0))
            rows.append(
                (
                    asked.name,
                    f"{asked.cells:,}",
                    milliseconds(bare),
                    milliseconds(first),
                    beside,
                    milliseconds(again),
                    *ratios,
                )
            )
    header = [
        "question",
        "cells",
        "bare DuckDB",
        "first time",
        "beside the query",
        "again",
        "first / bare",
        "again / bare",
    ]
    return (
        "## A report beside the bare query\n\n"
        f"Impressions of one campaign over the 90 days of a quarter, {ROWS:,} rows. First time: seals opened, one "
        "query, noise, cells stored, fence, answer; two commits and a fence on disk. Again: from the stored cells. The "
        f"bare query fetches its rows, and of {QUESTIONS[0].name} a report has 90,000. Best of {REPEATS}, each with a "
        "new ledger.\n\n" + table(header, rows)
    )


def _prepare(folder: Path) -> None:
    with duckdb.connect(folder / "ads.duckdb") as connection:
        connection.execute("SELECT setseed(0.5)")
        connection.execute(
            "CREATE TABLE ads AS SELECT (random() * 100000)::INT AS member_id, 'c1' AS campaign, "  # noqa: S608
            "TIMESTAMP '2026-01-01' + to_seconds(floor(random() * 86400 * 90)::BIGINT) AS \"at\", "
            f"'title ' || floor(power(random(), 3) * {VALUES})::INT AS job_title FROM range({ROWS})"
        )
        connection.execute("CREATE TABLE titles AS SELECT 'title ' || i AS title FROM range(?) AS n(i)", [VALUES])
    new_key(folder / "noise.key")


def _times(folder: Path, asked: ReportRequest, number: int) -> dict[str, float]:
    """The best times of the bare query, of the first answer and of later ones. They take turns."""
    best = dict.fromkeys(("bare", "first", "again"), float("inf"))
    for repeat in range(REPEATS):
        with ExitStack() as stack:
            session = stack.enter_context(_opened(folder, f"{number}-{repeat}"))
            plain = stack.enter_context(duckdb.connect(folder / "ads.duckdb", read_only=True))
            for name in ("bare", "first", "again", "bare", "again"):
                seconds = _bare_time(plain, asked) if name == "bare" else _asked_time(session, asked)
                best[name] = min(best[name], seconds)
    return best


def _opened(folder: Path, books: str) -> Session:
    """A session with a new ledger, which has been asked something else before."""
    (folder / books).mkdir()
    config = folder / f"{books}.toml"
    config.write_text(CONFIG.format(books=books))
    session = Session(config)
    ReportRequest("the first three hours", None, "all", "", 1).ask(session, end="2026-01-01 03:00")
    return session


def _bare_time(plain: duckdb.DuckDBPyConnection, asked: ReportRequest) -> float:
    started = time.perf_counter()
    plain.execute(asked.bare).fetchall()
    return time.perf_counter() - started


def _asked_time(session: Session, asked: ReportRequest) -> float:
    started = time.perf_counter()
    asked.ask(session)
    return time.perf_counter() - started


def noise() -> str:
    """Cells per second, drawn as a seal draws them: a keyed source for each vector."""
    sizes = {VALUES: 1000, 10: 1000}
    best = side_by_side({f"{size}": partial(_drawn, size, n) for size, n in sizes.items()}, repeats=7)
    lines = []
    for (size, n), seconds in zip(sizes.items(), best.values(), strict=True):
        rate = size * n / seconds
        target = (f"≥ {TARGET:,}", "met" if rate >= TARGET else "missed") if size == VALUES else ("", "")
        lines.append((f"vectors of {size:,} values", f"{rate:,.0f}", milliseconds(seconds / n), *target))
    return (
        "## Noise of reports: cells per second\n\n"
        "Canonical noise, epsilon 1: a keyed source for each vector (a statistic of an entity by an attribute in one "
        "atomic range), as a seal is drawn, up to the list of counts that is stored.\n\n"
        + table(["vectors", "cells per second", "per vector", "target", "verdict"], lines)
    )


def _drawn(size: int, vectors: int) -> None:
    counts, digest = np.zeros(size, np.int64), "0" * 64
    for vector in range(vectors):
        source = context(cell=f"{vector:064}", seal=1, nonce=bytes(16), definition=digest, values=digest)
        canonical_laplace(counts, epsilon=Fraction(1), rng=Rng.keyed(KEY, source)).tolist()


if __name__ == "__main__":
    print("\n".join([paper(), speed(), noise()]))
