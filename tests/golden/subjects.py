"""What the golden tests look at, as plain JSON values.

This is the only module of the folder that imports internal names: a class that is renamed or moved is changed here and
nowhere else. The arguments below never change, nor do the recorded values.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import sfumato as sf
from sfumato import mechanisms as m
from sfumato.client.bodies import request_body
from sfumato.config.noise_key import epoch
from sfumato.ledger import IdempotentCall, all_accounts
from sfumato.ledger.api_keys import ApiKeys
from sfumato.mechanisms.bounds import BINS, NumericBounds
from sfumato.mechanisms.census import MAX_SEEN, KeyCensus
from sfumato.mechanisms.quantile_tree import QuantileTree
from sfumato.mechanisms.quantiles import Grid, QuantileChoice
from sfumato.mechanisms.report_noise import canonical_gaussian, canonical_laplace
from sfumato.query.plan import plan
from sfumato.query.policy import Column, Measure, Policy, Prices, TablePolicy
from sfumato.query.predicate import In
from sfumato.query.predicate import Values as ValueSet
from sfumato.query.reports.calendar import Calendar
from sfumato.query.reports.policy import Attribute, ReportPolicy, ReportStatistic, with_gaussian_noise
from sfumato.query.serial import read_request
from sfumato.release import job
from sfumato.release.outputs import fingerprint, read, target
from sfumato.reports.cells import definition
from sfumato.wire import KeyRow
from tests.golden.comparing import recorded

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
SECRET = bytes(range(32))
KEY = "golden-tests-only-this-opens-nothing-at-all"

Values = dict[str, Any]


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, sf.Charge):
        return value.to_dict()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def picked(record: Any, *names: str) -> Values:
    return {name: plain(getattr(record, name)) for name in names}


# -- noise --


def rng() -> m.Rng:
    return m.Rng.keyed(SECRET, m.context(test="golden"))


DOMAIN = {"amer": 310, "apac": 120, "emea": 280, "anz": 0, "mena": 35, "ssa": 90}
ROWS = [(f"item-{place:02}", 400 - 30 * place) for place in range(12)]
COUNTS = np.array([1, 2, 5, 9, 14, 20, 30, 45, 80, 0, 200])
CODES = np.array([3, 40, 41, 90, 200, 256 + 7, 256 + 8, 256 + 255, 512 + 128])
AT_CODES = np.array([40, 50, 60, 30, 20, 100, 90, 2, 70])


def _release(release: m.Release[str]) -> Values:
    steps = [picked(step, "kind", "charge", "place", "noise") for step in release.steps]
    names = "mechanism", "rows", "reserve", "stopped", "complete", "threshold", "error95"
    return {**picked(release, *names), "steps": steps}


def _selection(selection: m.KeySelection) -> Values:
    return picked(selection, "kept", "counts", "rho", "delta")


def _pcr(found: m.PrivateCounts[str]) -> Values:
    rows = [picked(row, "key", "count", "low", "high", "deviation", "noisy", "level") for row in found.rows]
    return {"rows": rows, **picked(found, "rho", "delta", "levels", "cut")}


def _estimate(found: m.Estimate) -> Values:
    return picked(found, "value", "precision", "charge")


def _refined() -> m.Estimate:
    source = rng()
    return m.refine(*(m.measure_count(500, epsilon=0.5, refinement=place, rng=source) for place in range(3)))


def _quantile_tree() -> Values:
    tree = QuantileTree(rho=Fraction(5), max_keys=2, max_values=1, points=256, height=4)
    found = tree.release(3, CODES, AT_CODES, (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)), rng())
    return picked(found, "values", "low", "high")


def _quantile_choice() -> Any:
    grid = Grid(256, offset=-100, decades=1)
    choice = QuantileChoice(epsilon=Fraction(1), quantile=Fraction(3, 10), max_keys=2, max_values=3, grid=grid)
    return choice.release(3, CODES, AT_CODES, rng())


def _bounds() -> Values:
    """Every bin is close below the threshold, so that noise chooses."""
    found = NumericBounds(epsilon=Fraction(1), contributions=1).release(np.full(BINS, 22), rng())
    return picked(found, "low", "high", "probability", "fell_back")


def _census() -> Values:
    """Of 1,200 people with 1 to 120 keys, with noise that shows."""
    people = np.zeros(MAX_SEEN + 2, np.int64)
    people[1:121] = 10
    found = KeyCensus(rho=Fraction(1, 50)).release(people, rng())
    return {
        **found.to_dict(),
        "bound": found.smallest_bound(Fraction(1, 20)),
        **picked(found.dropped(8), "share", "low", "high"),
    }


def _several_draws() -> list[Any]:
    """Calls of one source are numbered: each has a stream of its own."""
    source = rng()
    return [source.discrete_laplace(10, 6), source.discrete_laplace(10, 6), source.discrete_gaussian(50, 6)]


DRAWS: dict[str, Callable[[], Any]] = {
    "words": lambda: [str(word) for word in rng().stream(purpose="golden").words(1, 3, 4)],
    "discrete_laplace": lambda: m.DiscreteLaplace(Fraction(7, 2)).sample(rng().stream(purpose="golden"), 20),
    "discrete_gaussian": lambda: m.DiscreteGaussian(Fraction(50)).sample(rng().stream(purpose="golden"), 20),
    "several_draws": _several_draws,
    "child": lambda: rng().child(purpose="golden", version=1).discrete_laplace(10, 6),
    "known_laplace": lambda: _release(m.known_laplace(DOMAIN, epsilon=0.25, max_groups=3, tau=2, rng=rng())),
    "known_gaussian": lambda: _release(m.known_gaussian(DOMAIN, epsilon=0.25, max_groups=1, k=4, rng=rng())),
    "known_gumbel": lambda: _release(m.known_gumbel(DOMAIN, k=4, epsilon=0.25, rng=rng())),
    "known_gumbel, gaussian counts": lambda: _release(
        m.known_gumbel(DOMAIN, k=4, epsilon=0.25, tau=2, count_noise="gaussian", rng=rng())
    ),
    "known_gumbel, no counts": lambda: _release(
        m.known_gumbel(DOMAIN, k=3, epsilon=0.25, with_counts=False, rng=rng())
    ),
    "unknown_laplace": lambda: _release(
        m.unknown_laplace(ROWS, limit=20, epsilon=0.5, delta=1e-6, max_groups=2, rng=rng())
    ),
    "unknown_gaussian": lambda: _release(
        m.unknown_gaussian(ROWS, limit=20, k=5, epsilon=0.5, delta=1e-6, max_groups=2, tau=2, rng=rng())
    ),
    "unknown_gumbel": lambda: _release(
        m.unknown_gumbel(ROWS, k=9, max_k=12, limit=20, epsilon=0.25, delta=1e-6, rng=rng())
    ),
    "unknown_gumbel, fixed cutoff": lambda: _release(
        m.unknown_gumbel(
            ROWS, k=5, limit=20, epsilon=0.25, delta=1e-6, cutoff="fixed", count_noise="gaussian", rng=rng()
        )
    ),
    "threshold_laplace": lambda: _release(m.threshold_laplace(ROWS, epsilon=0.5, delta=1e-6, max_groups=2, rng=rng())),
    "threshold_gaussian": lambda: _release(
        m.threshold_gaussian(ROWS, k=5, epsilon=0.5, delta=1e-6, max_groups=2, tau=2, rng=rng())
    ),
    "select_laplace": lambda: _selection(m.select_laplace(COUNTS, epsilon=1, delta=1e-6, max_keys=2, rng=rng())),
    "select_gaussian": lambda: _selection(m.select_gaussian(COUNTS, rho=0.5, delta=1e-6, max_keys=2, rng=rng())),
    "select_geometric": lambda: _selection(m.select_geometric(COUNTS, epsilon=1, delta=1e-6, max_keys=2, rng=rng())),
    "select_truncated_laplace": lambda: _selection(
        m.select_truncated_laplace(COUNTS, epsilon=1, delta=1e-6, max_keys=2, rng=rng())
    ),
    "select_weighted": lambda: _selection(m.select_weighted(COUNTS << 20, rho=0.5, delta=1e-6, max_keys=2, rng=rng())),
    "private_count_release": lambda: _pcr(m.private_count_release(ROWS, rho=2, delta=1e-6, limit=20, rng=rng())),
    "quantile_tree, version 2": _quantile_tree,
    "quantile_choice, version 2": _quantile_choice,
    "numeric_bounds": _bounds,
    "key_census": _census,
    "measure_count": lambda: _estimate(m.measure_count(500, epsilon=0.5, units=2, tau=3, rng=rng())),
    "refine": lambda: _estimate(_refined()),
    "canonical_laplace": lambda: canonical_laplace(
        np.array([[7, 0, 3], [100, 2, 5]]), epsilon=Fraction(1, 3), rng=rng()
    ),
    "canonical_gaussian": lambda: canonical_gaussian(
        np.array([[7, 0, 3], [100, 2, 5]]), sigma_squared=Fraction(81, 4), rng=rng()
    ),
}


def draws() -> Values:
    """One keyed draw of everything that draws."""
    return {name: plain(draw()) for name, draw in DRAWS.items()}


MECHANISMS: dict[str, dict[str, Any]] = {
    "known_laplace": {"epsilon": 0.25, "max_groups": 3, "tau": 2},
    "known_gaussian": {"epsilon": 0.25, "max_groups": 1, "k": 4},
    "known_gumbel": {"epsilon": 0.25, "k": 4, "with_counts": False},
    "unknown_laplace": {"epsilon": 0.5, "delta": 1e-6, "max_groups": 2, "limit": 20},
    "unknown_gaussian": {"epsilon": 0.5, "delta": 1e-6, "max_groups": 2, "k": 5, "tau": 2},
    "unknown_gumbel": {"epsilon": 0.25, "delta": 1e-6, "k": 9, "max_k": 12},
    "threshold_laplace": {"epsilon": 0.5, "delta": 1e-6, "max_groups": 2},
    "threshold_gaussian": {"epsilon": 0.5, "delta": 1e-6, "max_groups": 2, "k": 5, "tau": 2},
}


def fingerprints() -> Values:
    """What names a mechanism in atoms and in noise keys, and the encoding below it."""
    every_kind = m.context(
        text="ä", raw=b"\x00\xff", yes=True, no=False, whole=-3, huge=2**70, part=0.5, exact=Fraction(1, 3), none=None,
        several=["a", ["b", 1], ()],
    )  # fmt: skip
    made = {name: m.MECHANISMS[name].of(**arguments).fingerprint() for name, arguments in MECHANISMS.items()}
    return plain({"context": every_kind, "epoch": epoch(SECRET), **made})


# -- cells of reports --

PROMISES: dict[str, tuple[tuple[str, ...], str, str]] = {
    "day": (("day",), "1", "1e-6"),
    "day and month": (("day", "month"), "1", "1e-6"),
    "half, and a smaller delta": (("day", "month"), "0.5", "1e-9"),
    "hours, days and months": (("3h", "day", "month"), "2", "1e-6"),
    "four levels": (("day", "month", "quarter", "year"), "4.2", "1e-5"),
    "little noise": (("day", "month"), "42", "1e-6"),
}


def report_cells() -> Values:
    """What a cell of a report means, by its noise; and how much Gaussian noise keeps a promise."""
    found: Values = {}
    for name, (levels, epsilon, delta) in PROMISES.items():
        attributes = {"title": Attribute("title", "text", ("x", "y")), "size": Attribute("size", "integer", (1, 2), 3)}
        statistics = {
            kind: ReportStatistic(kind, dict.fromkeys(levels, Fraction(1, 3)), None, In("kind", ValueSet.of(kind)))
            for kind in ("view", "click")
        }
        calendar = Calendar(levels, "Europe/Berlin")
        laplace = ReportPolicy(
            "ads", "events", "at", calendar, statistics, attributes, ("account", "campaign"), source="duckdb  ads.csv"
        )
        gaussian = with_gaussian_noise(laplace, Fraction(epsilon), Fraction(delta))
        found[name] = {
            "deviations": gaussian.gaussian.deviations,
            "definitions": {
                noise: {level: definition(policy, "view", "title", level, 2) for level in levels}
                for noise, policy in (("laplace", laplace), ("gaussian", gaussian))
            },
        }
    return plain(found)


# -- questions to tables --


def policy() -> Policy:
    kinds = {"age": "integer", "score": "number", "member": "boolean", "day": "date", "at": "timestamp"}
    columns = [
        Column("article"),
        Column("title", max_groups=2),
        Column("region", domain=("emea", "apac", "amer"), max_groups=1, guaranteed=True),
        Column("market", domain=("emea", "apac", "amer")),
        Column("size", "number", domain=("0.5", 2, 10), max_groups=1),
        Column("week", "date", domain=("2026-11-02", "2026-11-09"), max_groups=2),
        *(Column(name, kind) for name, kind in kinds.items()),
    ]
    measures = [Measure("people"), Measure("shares", "rows", None, 3), Measure("minutes", "sum", "n", 20)]
    table = TablePolicy(
        "visits",
        "person",
        {column.name: column for column in columns},
        {measure.name: measure for measure in measures},
        max_k=20,
        limit=60,
        version="value v1",
        source="duckdb  visits.csv",
    )
    return Policy({"visits": table})


WHERE = {
    "or": [
        {"age": {"gt": 17, "le": 65}, "score": {"lt": "0.25"}, "member": True},
        {"not": {"title": ["nurse", "it's"]}, "day": {"between": ["2026-11-01", "2026-11-07"]}},
        {"at": {"ge": "2026-11-01T08:30:00+01:00"}, "region": {"ne": "emea"}},
    ]
}

QUESTIONS: dict[str, Any] = {
    "top_k": sf.TopK("visits", by="article", measure="people", k=10),
    "top_k without counts": sf.TopK("visits", by="article", measure="people", k=10, counts=False),
    "top_k of a bounded column": sf.TopK("visits", by=["title"], measure="shares", k=5),
    "top_k of two columns": sf.TopK("visits", by=["title", "region"], measure="minutes"),
    "histogram of a known domain": sf.Histogram("visits", by="region", measure="people"),
    "histogram of a domain of any number": sf.Histogram("visits", by="market", measure="shares"),
    "histogram of numbers and days": sf.Histogram("visits", by=["size", "week"], measure="people"),
    "top_k of values that the filter lists": sf.TopK(
        "visits", by="title", measure="people", where={"title": ["nurse", "it's"]}, k=1
    ),
    "histogram of days and regions that the filter lists": sf.Histogram(
        "visits", by=["day", "region"], measure="shares",
        where={"day": {"between": ["2026-11-01", "2026-11-03"]}, "region": ["apac", "emea"], "age": {"ge": 18}},
    ),
    "total": sf.Total("visits", measure="people"),
    "total with a filter": sf.Total("visits", measure="minutes", where=WHERE),
    "json": {"type": "top_k", "table": "visits", "by": "article", "measure": "people", "where": {"region": "emea"}},
    "sql": {"sql": "SELECT article, COUNT(DISTINCT person) AS people FROM visits WHERE region IN ('emea') "
            "GROUP BY article ORDER BY people DESC LIMIT 7"},
    "sql total": {"sql": "SELECT people FROM visits WHERE age BETWEEN 18 AND 30 OR title <> 'nurse'"},
}  # fmt: skip


def questions() -> Values:
    """The atom, the digest and the stored form of every question, and what the SDK sends for it."""
    found: Values = {}
    for (name, question), noise in itertools.product(QUESTIONS.items(), ("gaussian", "laplace")):
        prices = Prices(Fraction(1, 4), Fraction(1, 10**6), noise)
        request = read_request(question, policy()) if isinstance(question, dict) else question
        made = plan(request, policy(), prices, "0123abcd")
        found[f"{name}, {noise}"] = {
            **picked(made, "atom", "digest", "request"),
            "mechanism": made.mechanism.name,
            "sent": request_body(question).decode(),
        }
    return found


# -- releases --

STATISTICS = [
    sf.Units(),
    sf.Count(3),
    sf.Sum("amount", 0, 100),
    sf.Sum("n", 0, 20, step=1),
    sf.Mean("amount", 0, 100, values=2),
    sf.Variance("amount", 0, 100),
    sf.Quantile("amount", 0, 100, quantiles=0.5),
    sf.Quantile("n", 0, 20, quantiles=(0.25, 0.5, 0.9), values=2),
]
OF_ROWS = {"unit": "person", "key": "item"}

RELEASES: dict[str, Callable[..., sf.Released]] = {
    "counts": lambda: sf.release_counts("rows.csv", **OF_ROWS, rho=5, delta=1e-6, limit=100),
    "counts, refined and with statistics": lambda: sf.release_counts(
        "rows.csv", **OF_ROWS, rho=8, delta=1e-6, limit=100, refine=0.25, relative_error=0.2, max_keys=2,
        aggregates=[sf.Count(2), sf.Mean("amount", 0, 100)], types=TYPES,
    ),
    "counts, auto": lambda: sf.release_counts("rows.csv", **OF_ROWS, method="auto", rho=5, delta=1e-6, limit=100),
    "counts, gaussian": lambda: sf.release_counts("rows.csv", **OF_ROWS, method="gaussian", rho=5, delta=1e-6),
    "plume": lambda **job: sf.release_aggregates(
        "rows.csv", **OF_ROWS, rho=40, delta=1e-6, max_keys=2, aggregates=STATISTICS, types=TYPES, **job
    ),
    "plume, quantiles with intervals": lambda: sf.release_aggregates(
        "rows.csv", **OF_ROWS, rho=40, delta=1e-6, max_keys=2, types=TYPES,
        aggregates=[sf.Quantile("n", 0, 20, step=1, quantiles=(0.25, 0.5, 0.9), values=2, intervals=True)],
    ),
    "plume, laplace": lambda: sf.release_aggregates(
        "rows.csv", **OF_ROWS, rho=2, delta=1e-6, max_keys=8, selection="laplace", rebound=False
    ),
    "plume, geometric": lambda: sf.release_aggregates(
        "rows.csv", **OF_ROWS, rho=2, delta=1e-6, max_keys=2, selection="geometric", filter="n < 5", types=TYPES
    ),
    "plume, bounds to be found": lambda: sf.release_aggregates(
        "rows.csv", **OF_ROWS, rho=40, delta=1e-6, max_keys="auto", aggregates=[sf.Sum("amount")], types=TYPES,
        auto_bounds=True,
    ),
    "plume, a stated bound": lambda: sf.release_aggregates(
        "rows.csv", **OF_ROWS, rho=2, delta=1e-6, max_keys=8, within_max_keys=True
    ),
    "plume, auto": lambda: sf.release_aggregates("rows.csv", **OF_ROWS, rho=20, delta=1e-6, max_keys="auto"),
    "fast": lambda: sf.release_aggregates(
        "rows.csv", **OF_ROWS, rho=2, delta=1e-6, max_keys=2, pipeline="fast", selection="gaussian"
    ),
    "naive": lambda: sf.release_aggregates("rows.csv", **OF_ROWS, rho=2, delta=1e-6, max_keys=2, pipeline="naive"),
    "public keys": lambda: sf.release_aggregates(
        "rows.csv", unit="person", key=["item"], rho=2, max_keys=2, keys="keys.csv", aggregates=[sf.Units(), sf.Count()]
    ),
}  # fmt: skip
TYPES = {"amount": "number", "n": "integer"}


def roll(sides: int, *parts: object) -> int:
    """A number below `sides` that follows from `parts`."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") % sides


def write_release_rows(folder: Path) -> None:
    rows = ["person,item,amount,n"]
    for person in range(300):
        for slot in range(1 + roll(4, "slots", person)):
            item = int(12 * (roll(1000, "item", person, slot) / 1000) ** 2)
            rows.append(f"p{person},item-{item},{roll(10_000, person, slot, 'amount') / 100},{roll(9, person, slot)}")
    (folder / "rows.csv").write_text("\n".join(rows) + "\n")
    (folder / "keys.csv").write_text("item\nitem-0\nitem-3\nitem-50\n")


ADDED = ("groups",)
"""What statements say since these were recorded."""


def released(table: sf.Released) -> Values:
    """A table with its statement, but for the version of the code."""
    statement = {name: part for name, part in table.statement.items() if name not in ADDED} | {"code": "sfumato"}
    return {"rows": plain(table.rows), "statement": json.loads(json.dumps(statement))}


def releases() -> Values:
    """Every release of the rows in the working folder, with a fixed secret."""
    with fixed_world():
        return {name: released(release()) for name, release in RELEASES.items()}


def earlier_digests(name: str) -> tuple[str, ...]:
    """The digests of a release under earlier algorithms."""
    with mock.patch.object(job.Job, "run", lambda made: made):
        made: Any = RELEASES[name]()
    return made._digests[1:]


def write_former_table(path: Path, name: str) -> None:
    """A table that an earlier version released as the job `name`, as it was recorded."""
    former = recorded("releases_before")[name]
    statement = {**former["statement"], "job": name}
    columns = {column["name"]: column["type"] for column in statement["columns"]}
    data = {column: [row[column] for row in former["rows"]] for column in columns}
    sf.Released(columns, data, statement).write(path)


def write_table(path: Path) -> None:
    """A table of counts and its statement, as files."""
    with fixed_world():
        RELEASES["counts"]().write(path, overwrite=True)


def table_digest(path: Path) -> str:
    """What databases keep beside a table, to tell whether its values are still the same."""
    return fingerprint(read(target(str(path))))


# -- sessions --


@contextmanager
def fixed_world(*, distinct: bool = False) -> Iterator[None]:
    """Randomness from the system is what it was when the values were recorded, and so is the clock of releases.

    With `distinct`, every nonce is another one.
    """
    number = itertools.count(1)

    def random_bytes(size: int) -> bytes:
        return hashlib.shake_128(f"golden {next(number) if distinct else ''}".encode()).digest(size)

    with ExitStack() as stack:
        stack.enter_context(mock.patch("os.urandom", random_bytes))
        stack.enter_context(mock.patch("secrets.token_hex", lambda size: random_bytes(size).hex()))
        stack.enter_context(mock.patch("secrets.token_urlsafe", return_value=KEY))
        stack.enter_context(mock.patch.object(job, "_now", return_value=NOW))
        stack.enter_context(mock.patch("getpass.getuser", return_value="recorder"))
        yield


def call(key: str, body: bytes) -> IdempotentCall:
    """A call that carries an idempotency key."""
    return IdempotentCall.of(key, body)


def grant(session: sf.Session, account: str, information: int, calls: int) -> None:
    accounts = all_accounts(session.config)
    session.ledger.grant(accounts[account], sf.Charge(information, calls), "a golden reason", NOW)


def new_key(session: sf.Session, analyst: str) -> str:
    text, _ = ApiKeys(session.ledger).create(analyst, "analyst", date(2030, 1, 1), NOW)
    return text


def found_key(session: sf.Session, text: str) -> Values | None:
    key = ApiKeys(session.ledger).find(text, NOW)
    return None if key is None else KeyRow.of_key(key).to_dict()
