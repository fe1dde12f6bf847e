"""Jobs: one charge, reserved before a row is read; one table under a name, whatever becomes of the rows."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sfumato as sf
from sfumato.accounting import NOTHING, Charge, epsilon
from sfumato.config import load_config
from sfumato.engines.duckdb.workspace import Workspace
from sfumato.errors import (
    BudgetExhausted,
    ConfigError,
    Conflict,
    EngineFailed,
    Failed,
    InvalidArgument,
    NotFound,
    NotSupported,
    SfumatoError,
)
from sfumato.ledger import Ledger, Standing, open_ledger
from sfumato.ledger.accounts import all_accounts
from sfumato.release import Count, Job, Mean, Quantile, Released, Sum, Units, Variance, aggregates_job, counts_job
from sfumato.release import outputs as outputs_module
from sfumato.release.aggregates import Aggregates
from sfumato.release.counts import Counts
from sfumato.release.outputs import read, target
from sfumato.session import Session
from sfumato.wire import AccountStanding
from tests.helpers.worlds import key_bytes

pytestmark = pytest.mark.slow

ITEMS = [f"item-{place}" for place in range(8)]

ROWS = """
SELECT i % 400 AS user_id,
       'item-' || (i % 400 * (1 + i // 400) + i // 3200) % 8 AS item,
       ['north', 'south'][1 + i % 2] AS region,
       (i * 37 % 3000) / 100.0 AS amount,
       i % 5 AS n,
       DATE '2026-01-01' + (i % 7)::INTEGER AS day
FROM range(4000) AS rows (i)
"""

CONFIG = """
[ledger]
url = "{ledger}"
fence = "../{folder}.state/fence"
[noise]
key_file = "noise.key"
[engines.local]
type = "duckdb"
[tables.sales]
engine = "local"
source = "sales.parquet"
privacy_unit = "user_id"
{cap}
[tables.sales.columns]
item = {{}}
[tables.sales.measures]
people = {{ count = "units" }}
[budgets.partner]
epsilon_per = 0.3
delta_per = 1e-6
information = 1000
calls = 50
[budgets.other]
epsilon_per = {other}
delta_per = 1e-6
information = 1000
calls = 50
[budgets.everyone]
epsilon_per = 0.3
delta_per = 1e-6
information = 5000
calls = 500
[analysts.anna]
budget = "partner"
"""


@dataclass(frozen=True)
class World:
    """A folder with rows, a noise key and a ledger."""

    folder: Path
    ledger: str = "sqlite:ledger.db"

    @property
    def config(self) -> Path:
        return self.folder / "sfumato.toml"

    @property
    def sales(self) -> Path:
        return self.folder / "sales.parquet"

    def write_config(self, *, cap: str = "", other: str = "0.3") -> None:
        written = f'cap = "{cap}"' if cap else ""
        self.config.write_text(
            CONFIG.format(ledger=self.ledger, folder=self.folder.name, cap=written, other=other), "utf-8"
        )

    def out(self, name: str = "table.parquet") -> str:
        return str(self.folder / name)

    def paid(self, job: str | None = "monthly", budget: str = "partner") -> dict[str, Any]:
        return {"config": self.config, "budget": budget, "job": job}

    def counts(self, **changed: Any) -> Job:
        asked: dict[str, Any] = {"unit": "user_id", "key": "item", "rho": 1, "delta": "2.5e-6"}
        asked |= self.paid() | changed
        return counts_job(asked.pop("source", self.sales), **_exact(asked))

    def aggregates(self, **changed: Any) -> Job:
        asked: dict[str, Any] = {"unit": "user_id", "key": "item", "max_keys": 8, "rho": 1, "delta": "2.5e-6"}
        asked |= self.paid() | changed
        return aggregates_job(asked.pop("source", self.sales), **_exact(asked))

    def books(self) -> Any:
        config = load_config(self.config)
        return closing(open_ledger(config.ledger, config.folder))

    def standing(self, account: str = "release:partner") -> Standing:
        with self.books() as ledger:
            return _standing(self.config, ledger, account)

    def spent(self, account: str = "release:partner") -> tuple[Charge, Charge]:
        standing = self.standing(account)
        return standing.spent, standing.reserved

    def wrong(self) -> list[str]:
        with self.books() as ledger:
            found: list[str] = ledger.verify()
            return found

    def spoil(self) -> None:
        """The footer still tells the columns; whoever reads a row fails."""
        content = bytearray(self.sales.read_bytes())
        content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
        self.sales.write_bytes(content)

    def lose(self) -> None:
        self.sales.unlink()

    def change(self, rows: str = "SELECT user_id, 'other' AS item, region, amount, n, day") -> None:
        """Other rows in the same place."""
        with duckdb.connect() as connection:
            connection.execute(f"COPY ({rows} FROM ({ROWS})) TO '{self.sales}'")


def _exact(asked: dict[str, Any]) -> dict[str, Any]:
    numbers = "rho", "epsilon", "delta"
    return {name: Fraction(value) if name in numbers and value else value for name, value in asked.items()}


def _standing(config: Path, ledger: Ledger, account: str) -> Standing:
    [found] = ledger.standings([all_accounts(load_config(config))[account]], datetime.now(UTC))
    return found


def new_world(folder: Path, ledger: str = "sqlite:ledger.db", **config: str) -> World:
    folder.mkdir(parents=True, exist_ok=True)
    world = World(folder, ledger)
    world.change("SELECT *")
    key = folder / "noise.key"
    key.write_bytes(key_bytes())
    key.chmod(0o600)
    world.write_config(**config)
    return world


@pytest.fixture
def world(tmp_path: Path) -> World:
    return new_world(tmp_path / "world")


PRICE = Charge(math.ceil(8 / Fraction("0.3") ** 2), 3)
"""8 rho / epsilon_per^2 = 88.9, and 2.5 calls."""


def values(released: Released) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in released.rows]


def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, reading a row is a failure of the test. Looking at types is not."""

    def read(workspace: Workspace, query: object) -> Any:
        raise AssertionError("rows were read")

    for name in ("rows", "arrays", "keep"):
        monkeypatch.setattr(Workspace, name, read)


class TestColumns:
    """Key columns, then for each statistic its name, _low, _high and _deviation."""

    BESIDE = ("", "_low", "_high", "_deviation")

    def names(self, keys: list[str], statistics: list[str]) -> list[str]:
        return [*keys, *(name + ending for name in statistics for ending in self.BESIDE)]

    def aggregates(self, world: World, **asked: Any) -> Released:
        given = {"unit": "user_id", "key": ["region", "item"], "max_keys": 8, "epsilon": 30, "delta": 1e-6}
        return sf.release_aggregates(world.sales, **given | asked)

    def all_of_them(self) -> list[sf.Statistic]:
        bounds = "amount", 0, 30
        quantile = Quantile(*bounds, [Fraction("0.5"), Fraction("0.999")])
        return [Units(), Count(3), Sum(*bounds), Mean(*bounds), Variance(*bounds), quantile]

    def test_of_aggregates(self, world: World) -> None:
        released = self.aggregates(world, aggregates=self.all_of_them())
        statistics = ["units", "count", "amount_sum", "amount_mean", "amount_variance", "amount_q50", "amount_q99_9"]
        assert [*released.columns] == self.names(["region", "item"], statistics)
        assert [column["name"] for column in released.statement["columns"]] == [*released.columns]
        assert released.statistics == statistics
        assert {key["item"] for key in released.rows} == {*ITEMS}

    def test_of_statistics_in_the_order_they_were_asked_for(self, world: World) -> None:
        released = self.aggregates(world, aggregates=[Sum("n", 0, 4), Units()])
        assert [*released.columns] == self.names(["region", "item"], ["n_sum", "units"])

    def test_of_counts(self, world: World) -> None:
        given = {"unit": "user_id", "key": "item", "rho": 5, "delta": 1e-6, "aggregates": [Sum("amount", 0, 30)]}
        released = sf.release_counts(world.sales, **given)
        assert [*released.columns] == self.names(["item"], ["units", "amount_sum"])
        assert {row["item"] for row in released.rows} <= {*ITEMS}
        assert len(released) > 0

    @pytest.mark.parametrize("rows", ["some", "none"])
    def test_are_the_same_in_pandas_polars_and_arrow(self, world: World, rows: str) -> None:
        import pandas  # here, because processes of other tests import this module hundreds of times
        import polars

        asked = {} if rows == "some" else {"filter": "region = 'nowhere'"}
        released = self.aggregates(world, aggregates=self.all_of_them(), **asked)
        names = [*released.columns]
        pandas_frame, polars_frame = released.to_pandas(), released.to_polars()
        assert isinstance(pandas_frame, pandas.DataFrame)
        assert isinstance(polars_frame, polars.DataFrame)
        from_stream = polars.DataFrame(released)  # by __arrow_c_stream__
        assert [*pandas_frame.columns] == polars_frame.columns == from_stream.columns == names
        assert polars_frame.rows() == from_stream.rows() == values(released)
        assert len(pandas_frame) == len(released) == (16 if rows == "some" else 0)
        assert polars_frame.schema["units"] == polars.Int64
        assert polars_frame.schema["amount_q50"] == polars.Float64
        assert polars_frame.schema["item"] == polars.String
        assert str(pandas_frame.dtypes["units_deviation"]) == "float64"

    def test_are_those_of_duckdb_which_reads_the_stream_too(self, world: World) -> None:
        released = self.aggregates(world)
        with duckdb.connect() as connection:
            connection.register("released", released)
            assert connection.execute("SELECT * FROM released").fetchall() == values(released)


class TestCharge:
    def test_is_rho_and_delta_in_units_and_calls_rounded_up(self, world: World) -> None:
        world.counts().run()
        assert world.spent() == (PRICE, NOTHING)
        assert world.standing().left == Charge(1000, 50) - PRICE
        assert world.wrong() == []

    def test_of_epsilon_is_that_of_the_rho_it_is_converted_to(self, world: World) -> None:
        job = world.counts(rho=None, epsilon=2, delta="1e-6")
        job.run()
        rho = job.request.guarantee.rho
        assert job.request.guarantee.delta == Fraction("0.5e-6")
        assert world.spent() == (Charge(math.ceil(8 * rho / Fraction("0.09")), 1), NOTHING)

    def test_of_public_keys_has_no_calls(self, world: World) -> None:
        keys = world.folder / "keys.csv"
        keys.write_text("item\nitem-1\nnowhere\n")
        released = world.aggregates(keys=keys, delta=None).run()
        assert [row["item"] for row in released.rows] == ["item-1", "nowhere"]
        assert world.spent() == (Charge(PRICE.information), NOTHING)

    def test_is_in_the_history(self, world: World) -> None:
        world.counts().run()
        with world.books() as ledger:
            [row] = ledger.history(None).rows
        assert (row.account, row.charge, row.state) == ("release:partner", PRICE, "settled")

    def test_takes_what_the_plan_said(self, world: World) -> None:
        for job in (world.counts(job="a"), world.aggregates(job="b", rho="0.01", aggregates=[Sum("amount", 0, 9)])):
            before, plan = world.standing(), job.plan()
            assert plan["accounts"] == [AccountStanding.from_attributes(before).to_dict()]
            job.run()
            assert world.standing().spent - before.spent == Charge.from_dict(plan["charge"])

    def test_is_told_for_several_people_too(self, world: World) -> None:
        """By the law of what names the keys, in the plan, in the statement and on the page."""
        for job in (world.counts(job="a"), world.aggregates(job="b", aggregates=[Units(), Count(3)])):
            planned, released = job.plan()["groups"], job.run()
            assert planned == released.statement["groups"]
            assert [group["people"] for group in planned] == [2, 5, 10]
            assert all(group["epsilon"] > job.request.guarantee.epsilon for group in planned)
            assert all(group["shown"] > float(job.request.guarantee.delta) for group in planned)
            assert "2 people have epsilon " in released.lines()["together"]

    def test_of_a_job_without_a_name_is_taken_each_time(self, world: World) -> None:
        first, second = (world.counts(job=None).run() for _ in range(2))
        assert first.statement["job"] != second.statement["job"]
        assert world.spent() == (PRICE + PRICE, NOTHING)

    def test_of_a_capped_table_is_taken_from_both_accounts(self, world: World) -> None:
        world.write_config(cap="everyone")
        world.counts(source="sales").run()
        assert world.spent() == world.spent("table:sales") == (PRICE, NOTHING)
        world.counts(source="sales").run()
        assert world.spent() == world.spent("table:sales") == (PRICE, NOTHING)
        assert world.wrong() == []

    def test_of_a_cap_that_is_new_is_taken_from_it_alone_and_without_the_rows(self, world: World) -> None:
        first = world.counts(source="sales").run()
        world.write_config(cap="everyone")
        world.spoil()
        assert values(world.counts(source="sales").run()) == values(first)
        assert world.spent() == world.spent("table:sales") == (PRICE, NOTHING)

    @pytest.mark.parametrize("kind", ["path", "relative", "link", "hard link", "pattern", "text"])
    def test_of_a_capped_table_is_taken_from_both_by_any_path(
        self, world: World, kind: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world.write_config(cap="everyone")
        monkeypatch.chdir(world.folder)
        other = world.folder / "other.parquet"
        if kind == "link":
            other.symlink_to(world.sales)
        if kind == "hard link":
            other.hardlink_to(world.sales)
        sources = {"relative": "../" + world.folder.name + "/sales.parquet", "pattern": "sal*.parquet"}
        sources |= {"link": other, "hard link": other, "path": world.sales, "text": str(world.sales)}
        job = world.counts(source=sources[kind])
        assert [account["account"] for account in job.plan()["accounts"]] == ["release:partner", "table:sales"]
        job.run()
        assert world.spent() == world.spent("table:sales") == (PRICE, NOTHING)
        assert world.wrong() == []

    def test_questions_and_releases_stay_within_the_total_that_is_told(self, world: World) -> None:
        """By name and by path, until nothing more is paid for: the cap is what `guarantee` says it is."""
        world.write_config(cap="everyone")
        text = world.config.read_text().replace("information = 5000\ncalls = 500", "information = 200\ncalls = 12")
        world.config.write_text(text)
        asked = released = 0
        with Session(world.config) as session:
            [total] = session.guarantee().sources
            for k in range(1, 9):
                with suppress(BudgetExhausted):
                    session.ask(f"SELECT item, people FROM sales GROUP BY item LIMIT {k}", analyst="anna")
                    asked += 1
        for source in (world.sales, "sales", str(world.folder / "sal*.parquet"), world.sales):
            with suppress(BudgetExhausted):
                world.counts(source=source, job=f"job-{released}").run()
                released += 1
        assert asked > 0
        assert 0 < released < 4
        spent, _ = world.spent("table:sales")
        assert spent <= Charge(200, 12)
        cap = epsilon(200, 12, Fraction("0.3"), Fraction("1e-6"), total.total.period.delta)
        assert cap <= total.total.period.epsilon < cap + 0.01

    def test_of_a_data_frame_is_taken_from_the_cap_of_the_table_that_it_names(self, world: World) -> None:
        import polars

        world.write_config(cap="everyone")
        frame = polars.read_parquet(world.sales)
        world.counts(source=frame, name="november", table="sales").run()
        assert world.spent("table:sales") == (PRICE, NOTHING)
        world.counts(source=frame, name="november", table="sales").run()
        assert world.spent("table:sales") == (PRICE, NOTHING)
        for other in ({}, {"table": "sales", "name": "other"}):
            with pytest.raises(Conflict):
                world.counts(**{"source": frame, "name": "november"} | other).run()
        world.counts(source=frame, name="november", job="without").run()
        assert world.spent("table:sales") == (PRICE, NOTHING)
        assert world.spent() == (PRICE + PRICE, NOTHING)

    def test_of_data_frames_stays_within_the_total_that_is_told(self, world: World) -> None:
        """Two releases of the same rows were paid from two accounts, and no cap knew of them."""
        import polars

        world.write_config(cap="everyone")
        text = world.config.read_text().replace("information = 5000\ncalls = 500", "information = 150\ncalls = 500")
        world.config.write_text(text)
        frame = polars.read_parquet(world.sales)
        asked: dict[str, Any] = {"source": frame, "name": "november", "table": "sales", "rho": 1}
        assert PRICE.information < 150 < 2 * PRICE.information
        world.counts(**asked, job="one").run()
        with pytest.raises(BudgetExhausted):
            world.counts(**asked, job="two", budget="other").run()
        assert world.spent("release:other") == (NOTHING, NOTHING)

    @pytest.mark.parametrize(
        ("asked", "message"),
        [
            ({"table": "sale"}, "there is no table 'sale' in the configuration"),
            ({"table": "sales", "unit": "n"}, "unit: must be user_id, the privacy unit of sales"),
            ({"table": "sales", "config": None, "budget": None, "job": None}, "table: is a table of a configuration"),
            ({"table": 5}, "table: must be the name of a table"),
        ],
        ids=str,
    )
    def test_of_a_data_frame_that_names_no_table_of_its_people_is_refused(
        self, world: World, asked: dict[str, Any], message: str
    ) -> None:
        import polars

        with pytest.raises((InvalidArgument, NotFound), match=message):
            world.counts(source=polars.read_parquet(world.sales), name="november", **asked).run()
        with pytest.raises(InvalidArgument, match="table: is for data frames"):
            world.counts(table="sales").run()
        assert world.spent() == (NOTHING, NOTHING)

    def test_of_another_file_leaves_the_cap_alone(self, world: World) -> None:
        world.write_config(cap="everyone")
        copy = shutil.copy(world.sales, world.folder / "copy.parquet")
        world.counts(source=copy).run()
        assert world.spent("table:sales") == (NOTHING, NOTHING)

    def test_of_two_names_for_one_file_is_taken_from_the_caps_of_both(self, world: World) -> None:
        world.write_config(cap="everyone")
        alias = world.config.read_text().partition("[tables.sales]")[2].partition("[budgets.partner]")[0]
        text = f"[tables.alias]{alias.replace('tables.sales', 'tables.alias').replace('sales.parquet', 's*.parquet')}"
        world.config.write_text(world.config.read_text() + text)
        world.counts(source="sales").run()
        assert world.spent("table:sales") == world.spent("table:alias") == (PRICE, NOTHING)

    def test_of_a_table_in_a_database_is_taken_from_both_by_its_file_and_name(self, world: World) -> None:
        with duckdb.connect(str(world.folder / "rows.duckdb")) as connection:
            connection.execute(f"CREATE TABLE sales AS {ROWS}")
            connection.execute("CREATE VIEW seen AS SELECT * FROM sales")
        world.write_config(cap="everyone")
        text = world.config.read_text().replace('type = "duckdb"', 'type = "duckdb"\ndatabase = "rows.duckdb"')
        world.config.write_text(text.replace('source = "sales.parquet"', 'source = "sales"'))
        database = world.folder / ".." / world.folder.name / "rows.duckdb"
        with pytest.raises(InvalidArgument, match="database: does not go with sales"):
            world.counts(source="sales", database=database)
        text = world.config.read_text()
        world.config.write_text(text.replace("tables.sales", "tables.shop"))
        world.counts(source="sales", database=database).run()
        assert world.spent() == world.spent("table:shop") == (PRICE, NOTHING)
        world.counts(source="seen", database=database, job="view").run()  # a view is another source
        assert world.spent("table:shop") == (PRICE, NOTHING)

    def test_of_a_file_that_was_released_before_caps_were_found_by_path_is_not_taken_again(self, world: World) -> None:
        first = world.counts().run()
        world.write_config(cap="everyone")
        assert values(world.counts().run()) == values(first)
        assert world.counts().plan()["charge"] == NOTHING.to_dict()
        assert world.spent("table:sales") == (NOTHING, NOTHING)

    def test_of_a_table_by_its_path_protects_the_same_people(self, world: World) -> None:
        with pytest.raises(InvalidArgument, match="unit: must be user_id, the privacy unit of sales, whose rows these"):
            world.counts(unit="n").run()
        assert world.spent() == (NOTHING, NOTHING)

    def test_of_a_table_by_its_path_needs_a_budget_that_pays_for_it(self, world: World) -> None:
        text = world.config.read_text().replace("[budgets.other]", "[budgets.other]\ntables = []")
        world.config.write_text(text)
        for source in ("sales", world.sales):
            with pytest.raises(NotSupported, match="other does not pay for sales; it pays for nothing"):
                world.counts(source=source, budget="other")

    def test_of_a_cap_at_other_prices_is_refused(self, world: World) -> None:
        world.write_config(cap="everyone", other="0.2")
        with pytest.raises(ConfigError, match=r"tables\.sales\.cap: has other prices"):
            world.counts(source="sales", budget="other").run()
        with pytest.raises(ConfigError, match=r"tables\.sales\.cap: has other prices"):
            world.counts(budget="other").run()
        assert world.spent("table:sales") == (NOTHING, NOTHING)

    def test_that_one_of_two_accounts_cannot_pay_is_taken_from_none(self, world: World) -> None:
        world.write_config(cap="everyone")
        text = world.config.read_text().replace("information = 5000", "information = 88")
        world.config.write_text(text)
        with pytest.raises(BudgetExhausted, match="table:sales"):
            world.counts(source="sales", out=world.out()).run()
        assert world.spent() == world.spent("table:sales") == (NOTHING, NOTHING)

    def test_that_does_not_fit_is_refused_before_a_row_is_read(self, world: World) -> None:
        world.spoil()
        for too_much in ({"rho": 12}, {"delta": "5.1e-5"}):
            with pytest.raises(BudgetExhausted, match="release:partner"):
                world.counts(out=world.out(), **too_much).run()
        assert world.spent() == (NOTHING, NOTHING)
        assert not Path(world.out()).exists()

    def test_is_reserved_before_a_row_is_read(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = []
        real = Workspace.arrays

        def arrays(workspace: Workspace, query: Any) -> Any:
            seen.append(world.spent())
            return real(workspace, query)

        monkeypatch.setattr(Workspace, "arrays", arrays)
        world.counts().run()
        assert {*seen} == {(NOTHING, PRICE)}


class TestFinished:
    """The table comes from the ledger; nothing is read and nothing is charged."""

    @pytest.mark.parametrize(
        ("happened", "named", "out"),
        [
            (World.spoil, None, "table.csv"),
            (World.change, "sales", "table.csv"),
            (World.lose, "sales", "table.parquet"),
            (World.lose, None, "table.parquet"),
        ],
    )
    def test_gives_the_same_bytes_whatever_became_of_the_rows(
        self, world: World, happened: Callable[[World], None], named: str | None, out: str
    ) -> None:
        named = named or str(world.sales)
        first = world.counts(source=named, out=world.out(out)).run()
        files = [Path(world.out(out)), Path(world.out(f"{out}.statement.json"))]
        before = [file.read_bytes() for file in files]
        happened(world)
        again = world.counts(source=named, out=world.out(out)).run()
        assert [file.read_bytes() for file in files] == before
        for file in files:
            file.unlink()
        assert values(world.counts(source=named, out=world.out(out)).run()) == values(first) == values(again)
        assert [file.read_bytes() for file in files] == before
        assert again.statement == first.statement
        assert world.spent() == (PRICE, NOTHING)

    def test_goes_to_other_places_too(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        first = world.counts().run()
        unread(monkeypatch)
        for out in ("a.parquet", "b.csv", "c.duckdb#t"):
            world.counts(out=world.out(out), memory="1GB").run()
            assert {*values(read(target(world.out(out))))} == {*values(first)}
        assert world.spent() == (PRICE, NOTHING)

    def test_that_has_no_rows_is_finished_too(self, world: World) -> None:
        nobody = {"filter": "region = 'nowhere'"}
        assert len(world.counts(**nobody).run()) == 0
        world.lose()
        assert len(world.counts(**nobody).run()) == 0
        assert world.spent() == (PRICE, NOTHING)

    def test_with_public_keys_that_are_gone(self, world: World) -> None:
        keys = world.folder / "keys.csv"
        keys.write_text("item\nitem-1\n")
        first = world.aggregates(keys=keys).run()
        keys.unlink()
        assert values(world.aggregates(keys=keys).run()) == values(first)

    def test_costs_nothing_in_the_plan(self, world: World) -> None:
        assert Charge.from_dict(world.counts().plan()["charge"]) == PRICE
        world.counts().run()
        assert Charge.from_dict(world.counts().plan()["charge"]) == NOTHING
        with pytest.raises(Conflict):
            world.counts(rho=2).plan()

    @pytest.mark.parametrize("number", [1, 2, 3])
    def test_under_an_earlier_algorithm_is_the_table_that_was_stored(self, world: World, number: int) -> None:
        with under_an_earlier_algorithm(number):
            first = world.aggregates(out=world.out()).run()
        world.lose()
        assert values(world.aggregates(out=world.out()).run()) == values(first)
        assert values(world.aggregates(out=world.out("again.csv")).run()) == values(first)
        assert world.spent() == (PRICE, NOTHING)
        for other in ({"max_keys": 7}, {"within_max_keys": True}):
            with pytest.raises(Conflict):
                world.aggregates(**other).run()

    def test_by_an_earlier_version_gives_its_table_too(self, world: World) -> None:
        """Before statistics named their mechanisms, the digest of the same request was another one."""
        with earlier_version():
            first = world.counts(aggregates=[Quantile("amount", 0, 30)]).run()
        assert "mechanism" not in first.statement["parameters"]["statistics"][-1]
        world.lose()
        again = world.counts(aggregates=[Quantile("amount", 0, 30)])
        assert again.digest != first.statement["request"]
        assert values(again.run()) == values(first)
        with pytest.raises(Conflict):
            world.counts(aggregates=[Quantile("amount", 0, 30, intervals=True)]).run()
        assert world.spent() == (PRICE, NOTHING)

    @pytest.mark.parametrize("number", [1, 2])
    def test_counts_of_an_earlier_algorithm_are_the_table_that_was_stored(self, world: World, number: int) -> None:
        with under_an_earlier_algorithm(number):
            first = world.counts(out=world.out()).run()
        world.lose()
        assert values(world.counts(out=world.out()).run()) == values(first)
        assert values(world.counts(out=world.out("again.csv")).run()) == values(first)
        assert world.spent() == (PRICE, NOTHING)
        for method in ("auto", "gaussian"):
            with pytest.raises(Conflict):
                world.counts(method=method).run()

    @pytest.mark.parametrize(
        "asked", [{"method": "auto"}, {"method": "gaussian"}, {"aggregates": [Count()], "max_keys": 2}], ids=str
    )
    def test_counts_that_the_last_algorithm_cut_elsewhere_are_the_table_that_was_stored(
        self, world: World, asked: dict[str, Any]
    ) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Counts, "parameters", property(lambda request: request.earlier_parameters[0]))
            first = world.counts(**asked).run()
        assert world.counts(**asked).digest != first.statement["request"]
        world.lose()
        assert values(world.counts(**asked).run()) == values(first)
        assert world.spent() == (PRICE, NOTHING)

    def test_is_left_by_what_stands_in_its_place(self, world: World) -> None:
        """A finished job does not replace what it did not write."""
        world.counts(out=world.out()).run()
        world.counts(job="next", out=world.out(), overwrite=True).run()
        with pytest.raises(InvalidArgument, match="exists"):
            world.counts(out=world.out()).run()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Two jobs are finished, and the rows cannot be read any more. Nothing changes this world."""
    world = new_world(tmp_path_factory.mktemp("finished") / "world")
    shutil.copy(world.sales, world.folder / "other.parquet")
    world.counts(job="counts").run()
    world.aggregates(job="aggregates", **TestOtherParameters.FIRST).run()
    world.spoil()
    return world


@contextmanager
def under_an_earlier_algorithm(number: int) -> Iterator[None]:
    """Requests have the names that they had under the first, the second or the third algorithm."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in (Aggregates, Counts):
            patch.setattr(kind, "parameters", property(lambda request: request.earlier_parameters[-number]))
        yield


def test_a_job_that_is_run_again_after_a_recovery_has_other_noise(world: World) -> None:
    """The copy does not know of the first run, whose table has left. The same noise on other rows would show them.

    Eight sums with deviations above 100: that they are equal by chance happens less often than once in 10^19.
    """
    asked: dict[str, Any] = {"aggregates": [Sum("n", 0, 100, step=1)], "rho": "0.01"}
    with world.books():
        pass
    copy = (world.folder / "ledger.db").read_bytes()
    first = values(world.aggregates(**asked).run())
    (world.folder / "ledger.db").write_bytes(copy)
    with world.books() as ledger:
        ledger.recover(list(all_accounts(load_config(world.config)).values()), datetime.now(UTC))
    second = values(world.aggregates(**asked).run())
    assert {row[0] for row in first} == {row[0] for row in second} == {*ITEMS}
    assert sorted(first) != sorted(second)


class TestOtherParameters:
    """A name stands for one request."""

    FIRST: Mapping[str, Any] = {"aggregates": [Sum("amount", 0, 30)]}

    @pytest.mark.parametrize(
        "changed",
        [
            {"key": "region"},
            {"key": ["item", "region"]},
            {"unit": "n"},
            {"rho": "1.001"},
            {"delta": "2.4e-6"},
            {"rho": None, "epsilon": 5},
            {"limit": 9999},
            {"relative_error": Fraction(1, 5)},
            {"refine": Fraction(1, 5)},
            {"aggregates": [Count()]},
            {"filter": "n > 1"},
            {"budget": "other"},
            {"source": "other.parquet"},
            {"source": "sales"},
            {"database": "rows.duckdb"},
            {"types": {"n": "integer"}},
        ],
        ids=str,
    )
    def test_of_counts_are_refused_and_cost_nothing(self, finished: World, changed: dict[str, Any]) -> None:
        self.refused(finished, finished.counts(job="counts", out=finished.out(), **changed))

    @pytest.mark.parametrize(
        "changed",
        [
            {"max_keys": 7},
            {"max_keys": "auto"},
            {"within_max_keys": True},
            {"selection": "laplace"},
            {"selection_share": Fraction(1, 3)},
            {"selection_max_keys": 4},
            {"pipeline": "fast"},
            {"pipeline": "naive"},
            {"rebound": True},
            {"rebound": False},
            {"keys": "keys.csv"},
            {"aggregates": [Units(), Sum("amount", 0, 30)]},
            {"aggregates": [Sum("amount", 0, 20)]},
            {"aggregates": [Sum("amount", 0, 30, step=1)]},
            {"aggregates": [Sum("amount")], "auto_bounds": True},
            {"aggregates": [Mean("amount", 0, 30)]},
            {"aggregates": [Sum("n", 0, 30)]},
        ],
        ids=str,
    )
    def test_of_aggregates_are_refused_and_cost_nothing(self, finished: World, changed: dict[str, Any]) -> None:
        asked = {**self.FIRST, "job": "aggregates", "out": finished.out()}
        self.refused(finished, finished.aggregates(**asked | changed))

    def test_of_the_statistics_of_counts_are_refused(self, world: World) -> None:
        first = {"aggregates": [Sum("amount", 0, 30)], "max_keys": 4}
        world.counts(**first).run()
        for changed in ({"max_keys": 5}, {"aggregates_share": Fraction(1, 3)}, {"aggregates": [Sum("amount", 0, 31)]}):
            self.refused(world, world.counts(**first | {"out": world.out()} | changed))

    def test_another_method_is_refused(self, finished: World) -> None:
        self.refused(finished, finished.aggregates(job="counts", out=finished.out()))

    def test_of_a_job_that_is_only_begun_are_refused(self, world: World) -> None:
        begin(world)
        for changed in ({"rho": "0.1"}, {"budget": "other"}):
            with pytest.raises(Conflict):
                world.counts(**changed).run()
        assert world.spent() == (NOTHING, PRICE)
        assert world.spent("release:other") == (NOTHING, NOTHING)

    def refused(self, world: World, job: Job) -> None:
        before, others = world.spent(), world.spent("release:other")
        with pytest.raises(Conflict, match=f"job {job.name} was begun with other parameters"):
            job.run()
        assert not Path(world.out()).exists()
        assert (world.spent(), world.spent("release:other")) == (before, others)
        assert world.wrong() == []


@contextmanager
def earlier_version() -> Iterator[None]:
    """Statistics do not name their mechanisms."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Quantile, "mechanism", None)
        yield


def begin(world: World, make: Callable[..., Job] | None = None, **changed: Any) -> str:
    """Reserve, and fail at the first row; the rows are put back. What was told."""
    before = world.sales.read_bytes()
    world.spoil()
    with pytest.raises(EngineFailed) as failure:
        (make or World.counts)(world, out=world.out(), **changed).run()
    world.sales.write_bytes(before)
    return str(failure.value)


class TestFailure:
    """What was reserved stays reserved: a failure may depend on the data."""

    @pytest.mark.parametrize("number", [1, 2, 3])
    def test_under_an_earlier_algorithm_is_spent_without_a_table(self, world: World, number: int) -> None:
        """This version draws other noise, for which another amount would have been reserved."""
        with under_an_earlier_algorithm(number):
            begin(world, World.aggregates)
        assert world.spent() == (NOTHING, PRICE)
        with pytest.raises(Conflict, match="begun by an earlier version"):
            world.aggregates().run()
        assert world.spent() == (PRICE, NOTHING)
        assert "bounding" in world.aggregates().run().statement
        assert world.spent() == (PRICE + PRICE, NOTHING)
        assert world.wrong() == []

    def test_tells_one_sentence_and_the_way_out(self, world: World) -> None:
        said = begin(world)
        assert said == (
            "the rows could not be read, and nothing was released; what was reserved stays reserved, "
            "and costs no more when it is run again with --job monthly"
        )
        assert not [*world.folder.glob("table*")]
        assert world.spent() == (NOTHING, PRICE)
        with world.books() as ledger:
            assert [row.state for row in ledger.history(None).rows] == ["reserved"]

    def test_is_the_same_whatever_went_wrong(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        def failing(*_: object) -> Any:
            raise RuntimeError("secret: item-3 has 17 people")

        monkeypatch.setattr("sfumato.release.counts.Counts.table", failing)
        with pytest.raises(EngineFailed) as failure:
            world.counts().run()
        assert "secret" not in str(failure.value)
        assert failure.value.__cause__ is failure.value.__context__ is None
        names = set()
        trace = failure.value.__traceback__
        while trace is not None:
            names.add(trace.tb_frame.f_code.co_name)
            trace = trace.tb_next
        assert not names & {"_tried", "_computed", "_paid", "failing"}  # no frame that held exact counts

    def test_of_a_job_without_a_name_tells_the_name_to_use(self, world: World) -> None:
        said = begin(world, job=None)
        name = said.rpartition("--job ")[2]
        world.counts(job=name).run()
        assert world.spent() == (PRICE, NOTHING)

    def test_is_mended_by_running_again_under_the_one_charge(self, world: World) -> None:
        begin(world)
        released = world.counts(out=world.out()).run()
        assert values(read(target(world.out()))) == values(released)
        assert world.spent() == (PRICE, NOTHING)
        assert world.wrong() == []

    def test_with_an_earlier_mechanism_is_spent_too(self, world: World) -> None:
        quantile = {"aggregates": [Quantile("amount", 0, 30)]}
        with earlier_version():
            begin(world, **quantile)
        with pytest.raises(Conflict, match="Run it again to release the table under a new charge"):
            world.counts(**quantile).run()
        released = world.counts(**quantile).run()
        assert released.statement["parameters"]["statistics"][-1]["mechanism"] == "quantile_choice/2"
        assert values(world.counts(**quantile).run()) == values(released)
        assert world.spent() == (PRICE + PRICE, NOTHING)
        assert world.wrong() == []

    def test_is_left_alone_by_a_session(self, world: World) -> None:
        begin(world)
        for _ in range(2):
            with Session(world.config) as session:
                assert session.finish() == 0
        assert world.spent() == (NOTHING, PRICE)
        with world.books() as ledger:
            assert [hold.request["type"] for hold in ledger.reservations()] == ["release"]
        world.counts().run()
        assert world.spent() == (PRICE, NOTHING)

    def test_of_writing_keeps_the_table_in_the_ledger(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object, **__: object) -> None:
            raise Failed("the table could not be written: there is no space left")

        with monkeypatch.context() as patched:
            patched.setattr(outputs_module, "write", full)
            with pytest.raises(Failed, match="no space left"):
                world.counts(out=world.out()).run()
        assert world.spent() == (PRICE, NOTHING)
        unread(monkeypatch)
        world.counts(out=world.out()).run()
        assert world.spent() == (PRICE, NOTHING)

    def test_without_a_ledger_charges_nobody(self, world: World) -> None:
        world.spoil()
        with pytest.raises(EngineFailed, match=r"^the rows could not be read, and nothing was released$"):
            world.counts(config=None, budget=None, job=None, out=world.out()).run()
        assert not Path(world.out()).exists()


class TestWithoutALedger:
    """A job is remembered by its table."""

    def counts(self, world: World, **changed: Any) -> Job:
        return world.counts(**{"config": None, "budget": None, "out": world.out()} | changed)

    @pytest.mark.parametrize("out", ["t.parquet", "t.csv", "t.duckdb#t"])
    def test_the_same_job_is_the_same_table_and_reads_nothing(self, world: World, out: str) -> None:
        first = self.counts(world, out=world.out(out)).run()
        world.sales.unlink()
        assert {*values(self.counts(world, out=world.out(out)).run())} == {*values(first)}

    def test_other_parameters_are_refused(self, world: World) -> None:
        self.counts(world).run()
        before = Path(world.out()).read_bytes()
        for changed in ({"rho": 2}, {"key": "region"}, {"filter": "n > 1"}, {"source": "x.parquet"}):
            for overwrite in (False, True):
                with pytest.raises(Conflict):
                    self.counts(world, overwrite=overwrite, **changed).run()
        assert Path(world.out()).read_bytes() == before

    def test_the_noise_is_fresh(self, world: World) -> None:
        first, second = (self.counts(world, job=None, overwrite=True).run() for _ in range(2))
        assert values(first) != values(second)

    def test_a_table_without_a_job_is_not_one(self, world: World) -> None:
        self.counts(world, job=None).run()
        with pytest.raises(InvalidArgument, match="exists"):
            self.counts(world).run()

    def test_a_statement_that_names_no_job_is_another_table(self, world: World) -> None:
        self.counts(world).run()
        beside = Path(world.out("table.parquet.statement.json"))
        statement = json.loads(beside.read_text())
        del statement["job"], statement["request"]
        beside.write_text(json.dumps(statement))
        with pytest.raises(InvalidArgument, match="exists"):
            self.counts(world).run()

    def test_a_name_needs_somebody_to_remember_it(self, world: World) -> None:
        with pytest.raises(InvalidArgument, match=r"^job: has to be remembered somewhere"):
            self.counts(world, out=None)

    def test_names_that_are_none(self, world: World) -> None:
        for name in ("", "a b", "a/b", "-a", "ä", "x" * 101, "a\n"):
            with pytest.raises(InvalidArgument, match=r"^job: is a name of letters"):
                self.counts(world, job=name)


class TestDoor:
    """What is wrong is refused before anything is read, written or charged."""

    @pytest.mark.parametrize(
        ("changed", "kind", "told"),
        [
            ({"budget": None}, InvalidArgument, "budget: config and budget go together"),
            ({"config": None}, InvalidArgument, "config: config and budget go together"),
            ({"budget": "patner"}, NotFound, "no budget 'patner' in the configuration; did you mean partner"),
            ({"config": "nowhere.toml"}, ConfigError, "nowhere.toml: cannot be read"),
            ({"source": "sales", "unit": "n"}, InvalidArgument, "unit: must be user_id, the privacy unit of sales"),
            ({"key": "itm"}, InvalidArgument, "key: there is no column 'itm'; did you mean item"),
            ({"aggregates": [Sum("region", 0, 1)]}, InvalidArgument, "column: region holds text"),
            ({"aggregates": [Units()]}, InvalidArgument, "aggregates: units are what this method counts"),
            ({"aggregates": ["sum"]}, InvalidArgument, "aggregates: must be one of Units, Count"),
            ({"rho": Fraction(1, 10**12)}, InvalidArgument, "cannot buy a single count"),
            ({"method": "prc"}, InvalidArgument, "method: must be one of auto, pcr, gaussian; did you mean pcr"),
        ],
        ids=str,
    )
    def test_refusals(self, finished: World, changed: dict[str, Any], kind: type[SfumatoError], told: str) -> None:
        before = finished.spent()
        with pytest.raises(kind, match=told):
            finished.counts(**{"out": finished.out(), "job": "another"} | changed).run()
        assert not Path(finished.out()).exists()
        assert finished.spent() == before

    def test_keys_do_not_go_with_a_table_of_the_configuration(self, world: World) -> None:
        with pytest.raises(InvalidArgument, match=r"^keys: go with a file"):
            world.aggregates(source="sales", keys=world.folder / "keys.csv").run()

    @pytest.mark.parametrize("paying", [True, False])
    def test_what_exists_is_not_replaced_unasked(self, world: World, paying: bool) -> None:
        Path(world.out()).write_text("precious")
        world.spoil()
        changed = {} if paying else {"config": None, "budget": None}
        with pytest.raises(InvalidArgument, match=r"^out: .* exists"):
            world.counts(out=world.out(), **changed).run()
        assert Path(world.out()).read_text() == "precious"
        assert world.spent() == (NOTHING, NOTHING)

    def test_what_exists_is_replaced_when_asked(self, world: World) -> None:
        Path(world.out()).write_text("precious")
        released = world.counts(out=world.out(), overwrite=True).run()
        assert values(read(target(world.out()))) == values(released)


def test_a_plan_reads_no_row(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    unread(monkeypatch)
    world.spoil()
    for job in (world.counts(), world.aggregates(max_keys="auto", aggregates=[Sum("amount")], auto_bounds=True)):
        plan = job.plan()
        assert sum(Fraction(step["rho"]) for step in plan["steps"]) == 1
        assert Charge.from_dict(plan["charge"]) == PRICE
    assert world.spent() == (NOTHING, NOTHING)
