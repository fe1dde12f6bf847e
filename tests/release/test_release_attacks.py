"""What attacks on releases have found, and stays closed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sfumato.accounting import NOTHING
from sfumato.errors import Conflict, Failed, InvalidArgument
from sfumato.ledger import payments
from sfumato.release import Mean, Quantile, Sum, Units, aggregates_job, counts_job, outputs
from sfumato.release.outputs import target
from sfumato.release.verify import differences
from tests.release.test_jobs import World, new_world

pytestmark = pytest.mark.slow


@pytest.fixture
def world(tmp_path: Path) -> World:
    return new_world(tmp_path / "world")


def table(path: Path, select: str) -> Path:
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT {select} FROM range(2000) AS rows (i)) TO '{path}'")
    return path


BIG = {"rho": 100, "delta": 1e-3}


@pytest.mark.parametrize("unit", ["i::VARCHAR::BLOB", "to_days(i::INTEGER)", "[i]"])
def test_a_unit_of_no_use_is_refused_before_it_is_paid_for(world: World, unit: str) -> None:
    source = table(world.folder / "odd.parquet", f"{unit} AS user_id, i % 3 AS item")
    with pytest.raises(InvalidArgument, match="unit"):
        world.counts(source=source).run()
    assert world.spent() == (NOTHING, NOTHING)


@pytest.mark.parametrize(
    ("key", "aggregates"),
    [("units", None), ("UNITS", None), ("units_low", [Units()]), ("Amount_Sum_High", [Sum("amount", 0, 1)])],
)
def test_a_key_that_would_be_two_columns(key: str, aggregates: list[Any] | None) -> None:
    make, asked = (
        (counts_job, {}) if aggregates is None else (aggregates_job, {"aggregates": aggregates, "max_keys": 1})
    )
    with pytest.raises(InvalidArgument, match="would be two columns"):
        make("x.parquet", unit="u", key=key, **asked, **BIG)


def test_people_who_are_counted_again_may_be_below_the_threshold(tmp_path: Path) -> None:
    source = table(tmp_path / "rows.parquet", "i AS u, i % 40 AS k, 0.5 AS x")
    asked = {"aggregates": [Units(), Mean("x", 0, 1), Quantile("x", 0, 1)], "selection": "laplace", "max_keys": 1}
    for number in range(5):
        out = str(tmp_path / f"{number}.parquet")
        aggregates_job(source, unit="u", key="k", epsilon=2, delta=1e-5, out=out, **asked).run()
        assert differences(target(out)) == []


def test_a_table_of_the_configuration_is_not_one_of_another_database(world: World) -> None:
    with pytest.raises(InvalidArgument, match="database: does not go with sales"):
        world.counts(source="sales", database=world.folder / "other.duckdb")


def test_decimals_beyond_a_double_are_no_keys(tmp_path: Path) -> None:
    source = table(tmp_path / "rows.parquet", "i AS u, (1 + i / 1e20)::DECIMAL(38,20) AS k")
    with pytest.raises(InvalidArgument, match="key: k has more digits"):
        counts_job(source, unit="u", key="k", **BIG, out=str(tmp_path / "t.csv")).run()


def test_public_keys_are_not_rounded(tmp_path: Path) -> None:
    source = table(tmp_path / "rows.parquet", "i AS u, i % 3 AS k")
    keys = tmp_path / "keys.csv"
    for written, refused in (("1.5", True), ("2", False), ("2.0", False)):
        keys.write_text(f"k\n1\n{written}\n")
        job = aggregates_job(source, unit="u", key="k", keys=keys, max_keys=3, rho=1)
        if refused:
            with pytest.raises(InvalidArgument, match="keys: holds keys that are not integer"):
                job.run()
        else:
            assert sorted(row["k"] for row in job.run().rows) == [1, 2]


def test_one_cell_of_a_csv_file_that_does_not_fit_changes_nobody_else(tmp_path: Path) -> None:
    rows = [f"{person},{person % 2},{person % 7}.5" for person in range(400)]
    source = tmp_path / "rows.csv"
    asked = {"types": {"k": "integer", "x": "number"}, "aggregates": [Units(), Sum("x", 0, 10)], "max_keys": 2}
    for odd in ([], ["900,one,1", "901,1,many", "902,,"]):
        source.write_text("\n".join(["u,k,x", *rows, *odd, ""]))
        released = aggregates_job(source, unit="u", key="k", **BIG, **asked).run()
        assert {row["k"] for row in released.rows} == {0, 1}
        assert all(abs(row["units"] - 200) <= 3 for row in released.rows)
    with pytest.raises(InvalidArgument, match=r"type: there is no column 'amuont'"):
        aggregates_job(source, unit="u", key="k", max_keys=1, types={"amuont": "number"}, **BIG).run()


def test_a_type_for_a_file_that_has_types_is_refused(world: World) -> None:
    with pytest.raises(InvalidArgument, match="type: is for CSV files"):
        world.counts(types={"amount": "number"}).run()


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("source", {"source": "gone.parquet"}),
        ("source", {"source": "gone*.csv"}),
        ("source", {"source": "rows.xlsx"}),
        ("database", {"database": "gone.duckdb", "source": "rows"}),
        ("memory", {"memory": "much"}),
    ],
)
def test_what_cannot_be_opened_is_told_as_it_was_written(world: World, argument: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as refused:
        world.counts(**options).run()
    assert refused.value.argument == argument
    assert world.spent() == (NOTHING, NOTHING)


def test_a_paid_table_that_cannot_be_written_says_how_to_get_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise Failed("the table could not be written: there is no space left")

    job = world.counts(job=None, out=world.out())
    with monkeypatch.context() as patched:
        patched.setattr(outputs, "write", full)
        with pytest.raises(Failed, match=f"it is paid for, .* with --job {job.name}"):
            job.run()
    spent = world.spent()
    assert len(world.counts(job=job.name, out=world.out()).run()) > 0
    assert world.spent() == spent


def test_one_name_under_two_budgets_is_refused_before_the_second_pays(world: World) -> None:
    world.counts().run()
    other = world.counts(budget="other")
    with pytest.raises(Conflict), world.books() as ledger:
        payments.reserve(ledger, other._debit(""), other._reveal, datetime.now(UTC), same=other._check_same)
    assert world.spent("release:other") == (NOTHING, NOTHING)


def test_no_repr_tells_a_password(world: World) -> None:
    world.config.write_text(world.config.read_text().replace("sqlite:ledger.db", "postgresql://me:SECRET@db/x"))
    assert "SECRET" not in repr(world.counts())


def test_budgets_are_the_decimals_that_were_written() -> None:
    written = counts_job("x.parquet", unit="u", key="k", rho=0.1, delta=1e-9).request.guarantee
    assert (str(written.rho), str(written.delta)) == ("1/10", "1/1000000000")


def test_public_keys_of_text_are_taken_as_they_are(tmp_path: Path) -> None:
    source = table(tmp_path / "rows.parquet", "i AS u, ' a ' AS k")
    keys = tmp_path / "keys.csv"
    keys.write_text('k\n" a "\na\n')
    released = aggregates_job(source, unit="u", key="k", keys=keys, max_keys=3, rho=100).run()
    assert [(row["k"], row["units"] > 1000) for row in released.rows] == [(" a ", True), ("a", False)]


@pytest.mark.parametrize("name", ["sales.parquet", "./sales.parquet", "sales*.parquet"])
def test_a_table_does_not_replace_its_rows(world: World, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(world.folder)
    before = world.sales.read_bytes()
    for source in (name, "sales"):
        with pytest.raises(InvalidArgument, match="out: is where the rows are"):
            world.counts(source=source, out=str(world.sales), overwrite=True).run()
    assert world.sales.read_bytes() == before
    assert world.spent() == (NOTHING, NOTHING)


def test_a_table_of_a_database_does_not_replace_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE sales AS SELECT i AS u, i % 3 AS k FROM range(500) AS rows (i)")
    with pytest.raises(InvalidArgument, match="out: is where the rows are"):
        counts_job("sales", database=path, unit="u", key="k", **BIG, out=f"{path}#SALES", overwrite=True).run()


def csv_of(path: Path, notes: dict[int, str], rows: int = 400) -> Path:
    lines = [f'{person},{person % 2},"{notes.get(person, "-")}"' for person in range(rows)]
    path.write_text("\n".join(["u,k,note", *lines, ""]))
    return path


def test_a_long_note_of_one_person_fails_nobody(tmp_path: Path) -> None:
    source = csv_of(tmp_path / "rows.csv", {7: "x" * 3_000_000})
    assert len(counts_job(source, unit="u", key="k", **BIG).run()) == 2


@pytest.mark.slow
def test_a_note_of_many_lines_fails_nobody_wherever_it_lies(tmp_path: Path) -> None:
    """DuckDB reads large files in pieces of 8 MB, and used to fail where such a note lay across two of them."""
    source = csv_of(tmp_path / "rows.csv", {100: "x" * 6_000_000, 200: "\n".join(["7000000,0,fake"] * 400_000)})
    assert source.stat().st_size > 11_000_000
    assert len(counts_job(source, unit="u", key="k", **BIG).run()) == 2


def test_a_cell_that_does_not_fit_a_table_of_the_configuration(world: World) -> None:
    rows = [f"{person},item {person % 2},{person % 5}" for person in range(400)]
    (world.folder / "sales.csv").write_text("\n".join(["user_id,item,n", *rows, "900,item 1,many", ""]))
    text = (
        world.config.read_text()
        .replace("sales.parquet", "sales.csv")
        .replace("item = {}", 'item = {}\nn = {type = "integer"}')
    )
    world.config.write_text(text)
    released = world.aggregates(source="sales", aggregates=[Sum("n", 0, 5)], rho=10).run()
    assert len(released) == 2


def test_two_columns_of_one_name_are_refused_before_they_are_paid_for(world: World) -> None:
    source = world.folder / "odd.csv"
    source.write_text("user_id,item,x,X\n1,a,2,3\n")
    with pytest.raises(InvalidArgument, match="source: its header row"):
        world.counts(source=source).run()
    assert world.spent() == (NOTHING, NOTHING)


@pytest.mark.parametrize("kind", ["TIMESTAMP_S", "TIMESTAMP_MS"])
def test_a_time_beyond_the_range_is_no_reason_to_fail(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "rows.duckdb"
    unit = "epoch_ms(i * 1000)::" + kind
    with duckdb.connect(path) as connection:
        connection.execute(f"CREATE TABLE rows AS SELECT {unit} AS u, ({unit})::DATE AS k FROM range(500) AS rows (i)")
    assert len(counts_job("rows", database=path, unit="u", key="k", **BIG).run()) == 1
    keys = tmp_path / "keys.csv"
    keys.write_text("u\n1970-01-01 00:00:01\n")
    released = aggregates_job("rows", database=path, unit="k", key="u", keys=keys, max_keys=1, rho=10).run()
    assert len(released) == 1


def test_files_that_only_look_like_ours_are_left_alone(tmp_path: Path) -> None:
    notes = tmp_path / ".t.parquet.my-notes.tmp"
    notes.write_text("mine")
    counts_job(
        table(tmp_path / "r.parquet", "i AS u, 1 AS k"), unit="u", key="k", **BIG, out=str(tmp_path / "t.parquet")
    ).run()
    assert notes.exists()
