"""Data frames: the bytes of a Parquet file of the same rows, one reading, and refusals that tell nothing of a row."""

from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas
import polars
import pytest

import sfumato as sf
from sfumato.accounting import NOTHING
from sfumato.engines.contributions import ContributionQuery
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.duckdb.workspace import Workspace
from sfumato.errors import Conflict, EngineFailed, InvalidArgument, SfumatoError
from sfumato.release import Count, Job, Mean, Quantile, Sum, Units, Variance, aggregates_job, counts_job
from sfumato.release.frames import Frame
from sfumato.release.outputs import payload
from sfumato.release.request import ReleaseRequest
from tests.release.test_jobs import PRICE, World, new_world, values

pytestmark = pytest.mark.slow  # a release for each kind of frame

ROWS = """
SELECT CASE WHEN i % 97 = 0 THEN NULL ELSE i % 400 END AS person,
       CASE WHEN i % 89 > 0 THEN ['it''s', 'two words', 'é', '😀', '', 'É'][1 + (hash(i) % 6)::INT] END AS key,
       (i % 5)::TINYINT AS small,
       i % 3 = 0 AS flag,
       CASE WHEN i % 11 = 0 THEN NULL ELSE (hash(i, 1) % 3000) / 100.0 END AS amount,
       ((i % 7) / 2)::DECIMAL(9, 2) AS money,
       DATE '1969-12-30' + (i % 6)::INTEGER AS day,
       TIMESTAMP '2026-01-01 00:00:00' + to_microseconds(i % 4) AS moment,
       TIMESTAMPTZ '2026-03-29 00:30:00+00' + to_hours((i % 3)::INT) AS zoned,
       [i] AS list,
       {'a': i} AS nested
FROM range(6000) AS rows (i)
"""
PLAIN = ["person", "key", "small", "flag", "amount", "day", "moment", "zoned"]
"""The columns that every library has a type for."""

ASKED: dict[str, Any] = {
    "unit": "person",
    "key": "key",
    "max_keys": 3,
    "epsilon": 20,
    "delta": 1e-6,
    "aggregates": [
        *(Units(), Count(3), Sum("amount", 0, 30), Mean("amount", 0, 30, values=2), Variance("amount", 0, 30)),
        Quantile("small", 0, 4, quantiles=(0.5,), values=2),
    ],
}


class Once:
    """A stream that can be read once, as that of a reader of record batches, and nothing but a stream."""

    def __init__(self, rows: Any) -> None:
        self._rows, self.calls = rows, 0

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        self.calls += 1
        rows, self._rows = self._rows, None
        return rows.__arrow_c_stream__(requested_schema)


class Failing:
    """A frame whose library tells a cell when it fails."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        raise ValueError("SECRETCELL of person 17")


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("frames") / "rows.parquet"
    duckdb.sql(f"COPY ({ROWS}) TO '{path}'")
    return path


def in_pandas(path: Path, columns: list[str] = PLAIN) -> pandas.DataFrame:
    """As pandas has them: an index, and NaN for what is missing."""
    rows = polars.read_parquet(path, columns=columns).to_dict(as_series=False)
    frame = pandas.DataFrame({name: pandas.Series(cells, dtype=None) for name, cells in rows.items()})
    typed = {"person": "Int64", "small": "int8", "amount": "float64", "flag": "bool"}
    frame = frame.astype({name: kind for name, kind in typed.items() if name in columns})
    frame.index = pandas.Index(range(5, 5 + len(frame)), name="somebody")
    return frame


def in_arrow(path: Path) -> Any:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not needed, and not installed")
    return pyarrow.table(polars.read_parquet(path))


FRAMES: dict[str, Callable[[Path], Any]] = {
    "polars": polars.read_parquet,
    "lazy polars": polars.scan_parquet,
    "polars in pieces": lambda path: polars.concat(
        [part for at in range(6) for part in [polars.read_parquet(path).slice(1000 * at, 1000)]], rechunk=False
    ),
    "pandas": in_pandas,
    "relation of DuckDB": lambda path: duckdb.sql(f"FROM '{path}'"),
    "stream that is read once": lambda path: Once(polars.read_parquet(path)),
    "Arrow": in_arrow,
    "reader of Arrow": lambda path: in_arrow(path).to_reader(),
}


def released(job: Job, secret: bytes = b"s" * 32) -> bytes:
    """The table by one secret. The name of the source is left out: it is part of the noise."""
    job = replace(job, request=replace(job.request, source=""))
    job.request.check_affordable()
    with job._opened() as source:
        job.request.check(source)
        return payload(job.request.run(source, secret, job.progress))


# --- The same rows ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_is_released_as_a_parquet_file_of_its_rows(kind: str, parquet: Path) -> None:
    expected = released(aggregates_job(parquet, **ASKED))
    assert released(aggregates_job(FRAMES[kind](parquet), **ASKED)) == expected
    assert len(expected) > 1000


@pytest.mark.parametrize("method", ["pcr", "auto"])
def test_counts_of_a_frame_are_those_of_a_parquet_file(method: str, parquet: Path) -> None:
    asked: dict[str, Any] = {"unit": "person", "key": ["key", "flag"], "rho": 5, "delta": 1e-6, "method": method}
    asked |= {"aggregates": [Sum("amount", 0, 30)], "filter": "amount >= 1"}
    expected = released(counts_job(parquet, **asked))
    for kind in ("lazy polars", "pandas", "stream that is read once"):
        assert released(counts_job(FRAMES[kind](parquet), **asked)) == expected


KEYS = [
    (kind, column)
    for kind in ("polars", "pandas", "Arrow")
    for column in ("small", "flag", "day", "moment", "zoned", "amount", "money")
    # Pandas has no days and no decimals: columns of them are Python objects, which are text.
    if (kind, column) not in (("pandas", "day"), ("pandas", "money"))
]


@pytest.mark.parametrize(("kind", "column"), KEYS)
def test_every_kind_of_key_is_the_same(kind: str, column: str, parquet: Path) -> None:
    asked = ASKED | {"key": column, "aggregates": [Units()]}
    assert released(aggregates_job(FRAMES[kind](parquet), **asked)) == released(aggregates_job(parquet, **asked))


def test_public_keys_and_pipelines_go_with_a_frame(parquet: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.csv"
    keys.write_text("key\né\nnobody\n", "utf-8")
    for options in ({"keys": keys}, {"pipeline": "naive"}, {"pipeline": "fast"}):
        expected = released(aggregates_job(parquet, **ASKED | options))
        assert released(aggregates_job(Once(polars.read_parquet(parquet)), **ASKED | options)) == expected


def test_a_frame_without_rows_is_released_as_any_other(parquet: Path, tmp_path: Path) -> None:
    """Whether there are rows is not told: a person who is alone in them would be seen."""
    empty = polars.read_parquet(parquet).head(0)
    empty.write_parquet(tmp_path / "empty.parquet")
    expected = released(aggregates_job(tmp_path / "empty.parquet", **ASKED))
    assert released(aggregates_job(empty, **ASKED)) == expected
    assert released(aggregates_job(in_pandas(tmp_path / "empty.parquet"), **ASKED)) == expected


def test_categories_and_dictionaries_are_text(parquet: Path) -> None:
    asked = ASKED | {"aggregates": [Units()]}
    expected = released(aggregates_job(parquet, **asked))
    listed = polars.read_parquet(parquet)
    assert (
        released(aggregates_job(listed.with_columns(polars.col("key").cast(polars.Categorical)), **asked)) == expected
    )
    backwards = sorted(set(listed["key"].drop_nulls()), reverse=True)
    frame = in_pandas(parquet)
    frame["key"] = pandas.Categorical(frame["key"], categories=backwards, ordered=True)
    assert released(aggregates_job(frame, **asked)) == expected


# --- One reading ------------------------------------------------------------------------------------------------


def test_a_frame_is_asked_for_its_rows_once(parquet: Path) -> None:
    frame = Once(polars.read_parquet(parquet))
    table = sf.release_aggregates(frame, **ASKED)
    assert frame.calls == 1
    assert len(table) > 0


def test_only_the_columns_that_are_needed_are_kept(parquet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, keep = [], Workspace.keep

    def note(workspace: Workspace, query: Any) -> str:
        kept.append(query.named_selects)
        return keep(workspace, query)

    monkeypatch.setattr(Workspace, "keep", note)
    asked = ASKED | {"filter": "flag", "aggregates": [Sum("amount", 0, 30)]}
    released(aggregates_job(polars.read_parquet(parquet), **asked))
    assert kept[0] == ["person", "key", "amount"]


def test_a_frame_that_is_changed_while_it_is_released_does_not_matter(parquet: Path) -> None:
    amounts = polars.read_parquet(parquet)["amount"].fill_null(1.0).to_numpy().copy()
    frame = in_pandas(parquet, ["person", "key", "small"]).assign(amount=0.0)
    expected = released(aggregates_job(frame.assign(amount=amounts.copy()), **ASKED))
    columns = {name: frame[name] for name in frame} | {"amount": pandas.Series(amounts, frame.index, copy=False)}
    shared = pandas.DataFrame(columns, copy=False)
    stages = []

    def change(stage: str, share: float) -> None:
        stages.append(stage)
        if stage == "bounding":
            amounts[:] = 30.0

    assert released(aggregates_job(shared, **ASKED, progress=change)) == expected
    assert "bounding" in stages
    assert (shared["amount"] == 30.0).all()


def test_rows_that_are_kept_cannot_be_read_off_the_disk(tmp_path: Path) -> None:
    rows = polars.DataFrame({"person": range(100_000), "key": [f"{'PLANTED-CELL ' * 10}{i}" for i in range(100_000)]})
    query = ContributionQuery("rows", "person", ("key",))
    limits: dict[str, Any] = {"memory_limit": "30MB", "threads": 1, "spill": tmp_path}
    with (
        DuckDBEngine({}, frames={"rows": rows.__arrow_c_stream__()}, **limits) as engine,
        engine.contributions(query) as contributions,
    ):
        assert contributions.size == 100_000
        seen = [path.read_bytes() for path in tmp_path.rglob("*.tmp")]
    assert sum(map(len, seen)) > 10**6
    assert not any(b"PLANTED-CELL" in block for block in seen)
    assert [*tmp_path.iterdir()] == []


def test_the_connection_of_a_relation_is_free_afterwards(parquet: Path) -> None:
    with duckdb.connect() as connection:
        relation = connection.sql(f"FROM '{parquet}'")
        assert len(sf.release_aggregates(relation, **ASKED)) > 0
        with pytest.raises(InvalidArgument, match="key: there is no column 'kye'"):
            sf.release_aggregates(relation, **ASKED | {"key": "kye"})
        assert connection.execute("SELECT 42").fetchall() == [(42,)]
        assert len(sf.release_aggregates(relation, **ASKED)) > 0


def test_a_job_tells_nothing_of_a_frame() -> None:
    job = aggregates_job(polars.DataFrame({"person": [1], "key": ["SECRETCELL"]}), **ASKED | {"aggregates": [Units()]})
    assert "SECRETCELL" not in repr(job)


# --- Pandas -----------------------------------------------------------------------------------------------------


def test_the_index_of_pandas_is_no_column(parquet: Path) -> None:
    frame = in_pandas(parquet)
    with pytest.raises(InvalidArgument, match="key: there is no column 'somebody'"):
        aggregates_job(frame, **ASKED | {"key": "somebody"}).run()
    with pytest.raises(InvalidArgument, match="unit: there is no column 'person'"):
        aggregates_job(frame.set_index("person"), **ASKED).run()
    assert released(aggregates_job(frame.reset_index(), **ASKED)) == released(aggregates_job(frame, **ASKED))


def test_python_objects_are_text_whatever_they_are() -> None:
    """A type that is guessed from the rows would change with one person's row."""
    asked: dict[str, Any] = {"unit": "person", "key": "key", "max_keys": 1, "rho": 1250, "delta": 1e-6}
    whole = pandas.DataFrame({"person": range(300), "key": ["k"] * 300, "n": np.array([1] * 300, dtype=object)})
    with pytest.raises(InvalidArgument, match=r"column: n holds text values.*numbers, cast them in the frame or in a"):
        sf.release_aggregates(whole, **asked, aggregates=[Sum("n", 0, 1)])
    cells = np.array([1, 2.5, "x", None, b"y", ("a", 1)] * 50, dtype=object)
    table = sf.release_aggregates(pandas.DataFrame({"person": range(300), "key": cells}), **asked)
    assert {row["key"] for row in table.rows} == {"1", "2.5", "x", "b'y'", "('a', 1)"}


# --- Without pyarrow --------------------------------------------------------------------------------------------

WITHOUT = """
import sys
sys.modules["pyarrow"] = None  # an import of it fails from here on
import duckdb, pandas, polars
import sfumato as sf
from sfumato.release import Sum

rows = {"person": [*range(200)] * 2, "key": ["a", "b"] * 200, "x": [1.5] * 400}
frames = [
    polars.DataFrame(rows),
    polars.LazyFrame(rows),
    pandas.DataFrame(rows),
    duckdb.sql("SELECT i % 200 AS person, ['a', 'b'][1 + i % 2] AS key, 1.5 AS x FROM range(400) AS r (i)"),
]
for frame in frames:
    asked = {"unit": "person", "key": "key", "rho": 100, "delta": 1e-6}
    counts = sf.release_counts(frame, **asked)
    sums = sf.release_aggregates(frame, **asked, max_keys=2, aggregates=[Sum("x", 0, 2)])
    assert {row["key"] for row in counts.rows} == {row["key"] for row in sums.rows} == {"a", "b"}, frame
    print(type(frame).__name__)
"""


def test_pyarrow_is_not_needed() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["DataFrame", "LazyFrame", "DataFrame", "DuckDBPyRelation"]


# --- Refusing ---------------------------------------------------------------------------------------------------


def renamed(*names: Any) -> pandas.DataFrame:
    return pandas.DataFrame([(1, "a")], columns=pandas.Index(names, tupleize_cols=False))


NO_FRAME = (
    "source: must be a file, a glob of files, the name of a table, or a data frame of Spark or with __arrow_c_stream__"
)
REFUSED: dict[str, tuple[Callable[[Path], Any], dict[str, Any], str]] = {
    "a number": (lambda path: 42, {}, NO_FRAME),
    "nothing": (lambda path: None, {}, NO_FRAME),
    "a list of rows": (lambda path: [{"person": 1, "key": "a"}], {}, NO_FRAME),
    "a dict of columns": (lambda path: {"person": [1], "key": ["a"]}, {}, NO_FRAME),
    "a class": (lambda path: polars.DataFrame, {}, NO_FRAME),
    "a group of polars": (lambda path: polars.read_parquet(path).group_by("key"), {}, NO_FRAME),
    "a series": (lambda path: polars.Series("key", ["a"]), {}, "unit: there is no column 'person'"),
    "no columns": (lambda path: polars.DataFrame(), {}, "source: the data frame has no columns"),
    "no columns of pandas": (lambda path: pandas.DataFrame(), {}, "source: the data frame has no columns"),
    "a capsule of something else": (lambda path: Once(Once(polars.DataFrame)), {}, "source: the data frame fails"),
    "two names": (lambda path: renamed("person", "person"), {}, "source: two columns.* the name 'person'.*rename one"),
    "two cases": (lambda path: renamed("Key", "key"), {}, "source: two columns.* the name 'key'.*rename one"),
    "two cases of polars": (
        lambda path: polars.DataFrame({"person": [1], "key": ["a"], "KEY": ["a"]}),
        {},
        "source: two columns.* the name 'KEY'.*rename one",
    ),
    "two names of DuckDB": (
        lambda path: duckdb.sql("SELECT 1 AS person, 'a' AS key, 'b' AS key"),
        {},
        "source: two columns.* the name 'key'.*rename one",
    ),
    "a number for a name": (lambda path: renamed("person", 1), {}, "source: a column.* a name that is no text; rename"),
    "two levels of names": (lambda path: renamed("person", ("a", "b")), {}, "source: a column.* that is no text"),
    "no name": (lambda path: polars.DataFrame({"person": [1], "": [2]}), {}, "source: a column.* that is no text"),
    "a period": (
        lambda path: pandas.DataFrame({"person": [1], "key": pandas.period_range("2026-01", periods=1, freq="M")}),
        {},
        "source: the data frame has no columns, or one of a type.*convert it, or leave it out",
    ),
    "a list as a key": (polars.read_parquet, {"key": "list"}, "key: list has a type.* cast it in the frame"),
    "a struct as a key": (polars.read_parquet, {"key": "nested"}, "key: nested has a type.* cast it in the frame"),
    "a list as a unit": (polars.read_parquet, {"unit": "list"}, "unit: column 'list' is BIGINT.*cast it in the frame"),
    "an address of Python": (
        lambda path: polars.DataFrame({"person": [1], "key": polars.Series([object()], dtype=polars.Object)}),
        {},
        "key: key has a type that cannot be a key",
    ),
    "a wrong key": (polars.scan_parquet, {"key": "kye"}, "key: there is no column 'kye'.*did you mean key"),
    "a database": (polars.read_parquet, {"database": "rows.duckdb"}, "database: does not go with a data frame"),
    "types": (polars.read_parquet, {"types": {"key": "text"}}, "type: is for CSV files"),
    "keys that are a frame": (
        polars.read_parquet,
        {"keys": polars.DataFrame({"key": ["a"]})},
        "keys: must be the path",
    ),
    "an empty name": (polars.read_parquet, {"name": ""}, "name: must be a text"),
    "a number as its name": (polars.read_parquet, {"name": 5}, "name: must be a text"),
    "a name of a file": (lambda path: path, {"name": "rows"}, "name: is for data frames"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_refused_before_a_row_is_read(
    case: str, parquet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, options, message = REFUSED[case]
    monkeypatch.setattr(ReleaseRequest, "run", lambda *given: pytest.fail("rows were read"))
    with pytest.raises(InvalidArgument, match=f"^{message}"):
        sf.release_aggregates(make(parquet), **{**ASKED, "aggregates": [Units()], **options})


@contextmanager
def refused_without(secret: str, kind: type[SfumatoError], words: str) -> Iterator[None]:
    with pytest.raises(kind, match=words) as caught:
        yield
    assert secret not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def failing_relation() -> Any:
    cell = "CASE WHEN i = 4999 THEN error('SECRETCELL of person 17') ELSE 'k' END AS key"
    return duckdb.sql(f"SELECT i AS person, i AS user_id, {cell}, 'item' AS item FROM range(5000) AS r (i)")


def failing_plan() -> Any:
    frame = polars.LazyFrame({"person": [1], "text": ["SECRETCELL"]})
    return frame.select("person", key=polars.col("text").str.to_integer())


def test_a_failure_tells_nothing_of_a_row(capfd: pytest.CaptureFixture[str]) -> None:
    asked = ASKED | {"aggregates": [Units()]}
    for frame in (Failing(), failing_plan()):
        with refused_without("SECRETCELL", InvalidArgument, "^source: the data frame fails to hand over its rows"):
            sf.release_aggregates(frame, **asked)
    with refused_without("SECRETCELL", EngineFailed, "^the rows could not be read, and nothing was released$"):
        sf.release_aggregates(failing_relation(), **asked)
    assert "SECRETCELL" not in "".join(capfd.readouterr())


# --- With a ledger ----------------------------------------------------------------------------------------------


class TestLedger:
    @pytest.fixture
    def world(self, tmp_path: Path) -> World:
        return new_world(tmp_path / "world", cap="everyone")

    def frame(self, world: World) -> polars.DataFrame:
        return polars.read_parquet(world.sales)

    def test_a_frame_needs_a_name(self, world: World) -> None:
        with pytest.raises(InvalidArgument, match=r"^name: is what a ledger knows a data frame by; give one, such as"):
            world.counts(source=self.frame(world))

    def test_a_frame_is_paid_from_the_budget_alone(self, world: World) -> None:
        """It has no place, so that it is no table of the configuration, not even by its name."""
        job = world.counts(source=self.frame(world), name="sales")
        assert [account["account"] for account in job.plan()["accounts"]] == ["release:partner"]
        job.run()
        assert world.spent() == (PRICE, NOTHING)
        assert world.spent("table:sales") == (NOTHING, NOTHING)
        assert world.wrong() == []

    def test_a_finished_job_reads_no_frame(self, world: World) -> None:
        first = world.counts(source=self.frame(world), name="november").run()
        assert values(world.counts(source=Failing(), name="november").run()) == values(first)
        assert world.spent() == (PRICE, NOTHING)

    def test_a_frame_is_known_by_its_name_and_not_by_its_rows(self, world: World) -> None:
        jobs = [world.counts(source=self.frame(world).head(rows), name="november") for rows in (9, 99)]
        jobs.append(world.counts(source=in_pandas(world.sales, ["user_id", "item"]), name="november"))
        assert len({job.digest for job in jobs}) == 1
        other = world.counts(source=self.frame(world), name="december")
        assert other.digest != jobs[0].digest
        jobs[0].run()
        with pytest.raises(Conflict, match="job monthly was begun with other parameters"):
            other.run()

    def test_its_name_is_written_as_it_always_was(self, world: World) -> None:
        """Recorded: with another text, finished jobs would be refused."""
        assert world.counts(source=self.frame(world), name="it's").request.source == (
            "[['frame', \"it's\"], '', '', []]"
        )

    def test_the_name_of_a_frame_is_no_path(self, world: World) -> None:
        names = str(world.sales), repr(["frame", "x"])
        frames = [world.counts(source=self.frame(world), name=name).digest for name in names]
        files = [world.counts(source=name).digest for name in names]
        assert len({*frames, *files}) == 4

    def test_a_frame_that_fails_keeps_its_charge_and_is_run_again_under_it(self, world: World) -> None:
        broken = world.counts(source=failing_relation(), name="november")
        with refused_without("SECRETCELL", EngineFailed, "^the rows could not be read.*run again with --job monthly"):
            broken.run()
        assert world.spent() == (NOTHING, PRICE)
        assert len(world.counts(source=self.frame(world), name="november").run()) > 0
        assert world.spent() == (PRICE, NOTHING)

    def test_a_frame_that_cannot_be_opened_costs_nothing(self, world: World) -> None:
        with refused_without("SECRETCELL", InvalidArgument, "^source: the data frame fails"):
            world.counts(source=Failing(), name="november").run()
        assert world.spent() == (NOTHING, NOTHING)

    def test_a_job_that_is_remembered_by_its_table_needs_no_name(self, world: World) -> None:
        asked = {"unit": "user_id", "key": "item", "rho": 1, "delta": 1e-6, "job": "monthly", "out": world.out()}
        first = sf.release_counts(self.frame(world), **asked)
        assert values(sf.release_counts(Failing(), **asked)) == values(first)


def test_frames_are_equal_by_their_names() -> None:
    assert Frame.of(polars.DataFrame(), "a") == Frame.of(pandas.DataFrame(), "a") != Frame.of(polars.DataFrame(), "b")
