"""What is read, what is left out row by row, and what is refused before a row is read."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sfumato.errors import InvalidArgument
from sfumato.release import Count, Job, Mean, Quantile, Released, Sum, Units, aggregates_job, counts_job
from sfumato.release.request import ReleaseRequest
from sfumato.types import MAX_TEXT
from tests.release.test_aggregates import EVERYTHING, HUGE, reference, silent

SELECT = """SELECT i AS person, 'k' || i % 3 AS key, i::DOUBLE AS x, i % 2 = 0 AS flag, i AS number,
    DATE '2026-01-01' + (i % 4)::INTEGER AS day, [i] AS list, 'text' AS word, (i % 5)::DECIMAL(9,2) AS money,
    (i % 5)::FLOAT / 2 AS single, TIMESTAMP '2026-01-01 08:30:00' AS moment FROM range(90) AS r(i)"""


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "rows.parquet"
    duckdb.sql(f"COPY ({SELECT}) TO '{path}' (FORMAT parquet)")
    return path


def job_of(path: Path | str, **options: Any) -> Job:
    return aggregates_job(path, **{"unit": "person", "key": "key", "max_keys": 1, **HUGE, **options})


def released(job: Job, secret: bytes = b"s" * 32) -> Released:
    job.request.check_affordable()
    with job._opened() as source:
        job.request.check(source)
        return job.request.run(source, secret)


# --- Reading ----------------------------------------------------------------------------------------------------


def test_a_csv_file_has_text_for_numbers_and_what_is_no_number_is_none(tmp_path: Path) -> None:
    path, rows = tmp_path / "rows.csv", []
    with path.open("w") as file:
        file.write("person,key,x\n")
        for person in range(40):
            for key, text, value in (
                ("a", "2.5", 2.5),
                ("a", "", None),
                ("b", "inf", float("inf")),
                ("b", "n/a", None),
                ("c", "1e400", float("inf")),
                ("c", "nan", float("nan")),
            ):
                file.write(f"p{person},{key},{text}\n")
                rows.append((f"p{person}", key, value))
        file.write(",a,5\np1,,5\n")
    with silent():
        table = released(job_of(path, max_keys=3, aggregates=EVERYTHING))
    expected = reference(rows)
    assert {row["key"] for row in table.rows} == {*expected}
    for row in table.rows:
        for name in ("units", "count", "x_sum", "x_mean"):
            assert row[name] == pytest.approx(expected[row["key"]][name], rel=1e-3, abs=1e-2), (row["key"], name)


def test_a_csv_file_with_types_a_glob_and_a_database(tmp_path: Path, parquet: Path) -> None:
    for number in (1, 2):
        lines = "".join(f"{number * 100 + i},{i % 2},{i}\n" for i in range(50))
        (tmp_path / f"part{number}.csv").write_text("person,key,x\n" + lines)
    types = {"person": "integer", "key": "integer", "x": "number"}
    with silent():
        table = released(job_of(tmp_path / "part*.csv", types=types, aggregates=[Units(), Sum("x", 0, 100)]))
    assert {row["key"]: row["units"] for row in table.rows} == {0: 50, 1: 50}
    with duckdb.connect(str(tmp_path / "base.duckdb")) as base:
        base.execute(f"CREATE TABLE visits AS SELECT * FROM '{parquet}'")
    with silent():
        table = released(job_of("visits", database=tmp_path / "base.duckdb"))
    assert {row["key"]: row["units"] for row in table.rows} == {"k0": 30, "k1": 30, "k2": 30}


@pytest.mark.parametrize(
    "column",
    [
        "money",
        "day",
        *(pytest.param(x, marks=pytest.mark.slow) for x in ("flag", "number", "word", "single", "moment")),
    ],
)
def test_every_kind_of_key_is_listed_selected_and_joined(column: str, parquet: Path, tmp_path: Path) -> None:
    """Public keys are read from text and compare with the table's own type; the naive pipeline writes keys down."""
    keys = tmp_path / "keys.csv"
    duckdb.sql(f"COPY (SELECT DISTINCT {column} FROM '{parquet}') TO '{keys}' (HEADER)")
    with duckdb.connect() as base:
        expected = dict(base.execute(f"SELECT {column}, count(*) FROM '{parquet}' GROUP BY ALL").fetchall())
    expected = {float(key) if column in ("money", "single") else key: n for key, n in expected.items()}
    with silent():
        listed = released(job_of(parquet, key=column, keys=keys, delta=None))
        assert {row[column]: row["units"] for row in listed.rows} == expected
        found = [released(job_of(parquet, key=column, pipeline=name)) for name in ("plume", "naive")]
    for table in found:
        assert {row[column]: row["units"] for row in table.rows} == {k: n for k, n in expected.items() if n > 1}


def test_keys_that_no_file_could_hold_are_left_out_with_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "odd.parquet"
    duckdb.sql(f"""COPY (
        SELECT i AS person, k AS key, n AS number FROM range(50) r(i), (VALUES
            ('fine', 1.5), (repeat('x', {MAX_TEXT + 1}), 2.5), ('other', 'inf'::DOUBLE), ('last', 'nan'::DOUBLE)
        ) AS t(k, n)) TO '{path}' (FORMAT parquet)""")
    with silent():
        texts = released(job_of(path, max_keys=9))
        numbers = released(job_of(path, max_keys=9, key="number"))
    assert {row["key"] for row in texts.rows} == {"fine", "other", "last"}
    assert {row["number"] for row in numbers.rows} == {1.5, 2.5}


def test_public_keys_of_several_columns_are_found_by_name(parquet: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.csv"
    keys.write_text("day,other,key\n2026-01-01,?,k0\n2030-01-01,?,nobody\n,?,k1\n2026-01-01,?,k0\n")
    with silent():
        table = released(job_of(parquet, key=["key", "day"], keys=keys))
    assert {(row["key"], row["day"]): row["units"] for row in table.rows} == {
        ("k0", datetime.date(2026, 1, 1)): 8,
        ("nobody", datetime.date(2030, 1, 1)): 0,
    }


# --- Refusing ---------------------------------------------------------------------------------------------------

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"unit": "persn"}, "unit: there is no column 'persn'.*did you mean person"),
    ({"unit": ""}, "unit: is the column"),
    ({"key": "kye"}, "key: there is no column 'kye'.*did you mean key"),
    ({"key": ["key", "nokey"]}, "key: there is no column 'nokey'; did you mean key"),
    ({"key": "9"}, "key: there is no column '9'; there are person, key"),
    ({"key": []}, "key: is a column"),
    ({"key": "person"}, "key: person is the unit"),
    ({"key": ["key", "person"]}, "key: person is the unit"),
    ({"key": "list"}, "key: list has a type that cannot be a key"),
    ({"aggregates": [Sum("xx", 0, 1)]}, "column: there is no column 'xx'"),
    ({"aggregates": [Sum("word", 0, 1)]}, "column: word holds text values"),
    ({"aggregates": [Mean("flag", 0, 1)]}, "column: flag holds boolean values"),
    ({"aggregates": [Quantile("day", 0, 1)]}, "column: day holds date values"),
    ({"aggregates": [Sum("x")]}, "sum: x needs bounds"),
    ({"aggregates": []}, "aggregates: ask for one"),
    ({"aggregates": [Units(), Units()]}, "key: units would be two columns"),
    ({"aggregates": [Mean("x", 0, 1), Mean("x", 0, 2)]}, "key: x_mean would be two columns"),
    ({"aggregates": ["units"]}, "aggregates: must be one of Units"),
    ({"epsilon": 1}, "rho: give a budget.*only one"),
    ({"rho": None}, "rho: give a budget"),
    ({"delta": None}, "delta: is needed"),
    ({"rho": 1e-25}, "(epsilon|rho|units)"),
    ({"rho": 1e-11, "max_keys": 2**32, "selection": "gaussian"}, "rho: is too small"),
    ({"rho": 1e-12, "max_keys": 10**6, "aggregates": [Sum("x", 0, 2**29, step=1)]}, "(x_sum|epsilon|rho): "),
    ({"max_keys": 0}, "max_keys: must be at least 1"),
    ({"max_keys": 2.5}, "max_keys: must be a whole number"),
    ({"max_keys": "many"}, "max_keys: must be a whole number"),
    ({"selection": "gausian"}, "selection: must be one of.*did you mean gaussian"),
    ({"pipeline": "plum"}, "pipeline: must be one of.*did you mean plume"),
    ({"selection_share": 0}, "selection_share: is a share"),
    ({"selection_max_keys": -1}, "selection_max_keys: "),
    ({"pipeline": "fast", "selection_max_keys": 7}, "selection_max_keys: must be max_keys"),
    ({"keys": "k.csv", "selection": "laplace"}, "keys: are public"),
    ({"keys": "k.txt"}, "keys: must be a file that ends in"),
    ({"filter": "x >"}, "filter: "),
    ({"filter": "nothing = 1"}, "filter: "),
    ({"filter": "person = 1"}, "filter: "),
    ({"filter": "x IN (SELECT 1)"}, "filter: "),
    ({"filter": "random() < 0.5"}, "filter: "),
]


@pytest.mark.parametrize(("options", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_what_is_refused_is_refused_before_a_row_is_read(
    options: dict[str, Any], message: str, parquet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReleaseRequest, "run", lambda *given: pytest.fail("rows were read"))
    with pytest.raises(InvalidArgument, match=f"^{message}"):
        job_of(parquet, **options).run()


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("number\n1\ntwo\n", "number", "keys: holds keys that are not integer"),
        ("day\nyesterday\n", "day", "keys: holds keys that are not date"),
        ("key\n", "key", "keys: holds no key"),
        ("key,more\n,1\n", "key", "keys: holds no key"),
        ("k,more\na,1\n", "key", "keys: there is no column 'key'"),
        ("key\na\n", ["key", "day"], "keys: there is no column 'day'"),
    ],
)
def test_files_of_keys_are_public_and_refused_by_what_is_in_them(
    text: str, key: Any, message: str, parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReleaseRequest, "run", lambda *given: pytest.fail("rows were read"))
    keys = tmp_path / "keys.csv"
    keys.write_text(text)
    with pytest.raises(InvalidArgument, match=f"^{message}"):
        job_of(parquet, key=key, keys=keys).run()


def test_a_key_of_a_csv_file_is_text_and_has_no_sum(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("person,key\n1,2\n")
    with pytest.raises(InvalidArgument, match="column: key holds text values"):
        job_of(path, aggregates=[Sum("key", 0, 1)]).run()


def test_counts_are_refused_alike(parquet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReleaseRequest, "run", lambda *given: pytest.fail("rows were read"))
    for options, message in (
        ({"key": "kye"}, "key: there is no column 'kye'"),
        ({"key": "person"}, "key: person is the unit"),
        ({"filter": "x = "}, "filter: "),
        ({"aggregates": [Sum("word", 0, 1)]}, "column: word holds text"),
        ({"aggregates": [Count(1), Count(2)]}, "key: count would be two columns"),
    ):
        with pytest.raises(InvalidArgument, match=f"^{message}"):
            counts_job(parquet, **{"unit": "person", "key": "key", **HUGE, **options}).run()


def test_a_plan_reads_no_row(parquet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReleaseRequest, "run", lambda *given: pytest.fail("rows were read"))
    for max_keys in (4, "auto"):
        told = job_of(parquet, max_keys=max_keys, aggregates=EVERYTHING).plan()
        assert told["guarantee"]["rho"] == "1250"
        assert all(step["law"] for step in told["steps"])
