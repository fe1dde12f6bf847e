"""`sfumato release`: every option on small data, every mistake at the door, and what people read."""

from __future__ import annotations

import csv
import json
import math
import os
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result

from sfumato.cli import main
from sfumato.engines.duckdb.workspace import Workspace
from sfumato.session import Session
from tests.helpers.worlds import key_bytes

pytestmark = pytest.mark.slow  # many releases

COMMAND = Path(sys.executable).with_name("sfumato")
ITEMS = {f"item-{place}" for place in range(8)}
BESIDE = ("", "_low", "_high", "_deviation")

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
url = "sqlite:books/ledger.db"
[engines.local]
type = "duckdb"
[tables.sales]
engine = "local"
source = "sales.parquet"
privacy_unit = "user_id"
cap = "everyone"
[tables.sales.columns]
item = {}
[tables.sales.measures]
people = { count = "units" }
[budgets.partner]
epsilon_per = 0.3
delta_per = 1e-6
information = 100
calls = 5
[budgets.everyone]
epsilon_per = 0.3
delta_per = 1e-6
information = 100
calls = 5
[analysts.anna]
budget = "partner"
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE sales AS {ROWS}")
        connection.execute(f"COPY sales TO '{folder}/sales.parquet'")
        connection.execute(f"COPY (FROM sales LIMIT 2000) TO '{folder}/part-1.parquet'")
        connection.execute(f"COPY (FROM sales OFFSET 2000) TO '{folder}/part-2.parquet'")
        connection.execute(f"COPY sales TO '{folder}/sales.csv'")
        connection.execute(
            f"ATTACH '{folder}/rows.duckdb' AS rows; CREATE TABLE rows.bought AS FROM sales; DETACH rows"
        )
    return folder


@pytest.fixture
def shop(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with rows of every form and a configuration."""
    for name in [name for name in os.environ if name.startswith("SFUMATO_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")
    folder = tmp_path / "shop"
    shutil.copytree(data, folder)
    (folder / "books").mkdir()
    (folder / "sfumato.toml").write_text(CONFIG, "utf-8")
    (folder / "noise.key").write_bytes(key_bytes())
    (folder / "noise.key").chmod(0o600)
    monkeypatch.chdir(folder)
    return folder


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, prog_name="sfumato")


def run_page(*arguments: str) -> str:
    """What a command that ends well prints, which is nothing on stderr and no line over 80 columns."""
    result = invoke(*arguments)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    assert max(map(len, result.stdout.splitlines())) <= 80
    return result.stdout


def run_json(*arguments: str, code: int = 0) -> Any:
    """The one JSON object that a command prints."""
    result = invoke(*arguments, "--json")
    assert (result.exit_code, result.stderr) == (code, ""), result.output
    return json.loads(result.stdout)


def words(page: str) -> str:
    return " ".join(page.split())


def counts(*options: str, source: str = "sales.parquet", budget: str = "--rho 5 --delta 1e-6") -> list[str]:
    return ["release", "counts", source, "--unit", "user_id", "--key", "item", *budget.split(), *options]


def aggregate(
    *options: str, source: str = "sales.parquet", budget: str = "--epsilon 30 --delta 1e-6", keys: str = "8"
) -> list[str]:
    asked = ["release", "aggregate", source, "--unit", "user_id", "--key", "item", "--max-keys", keys]
    return [*asked, *budget.split(), *options]


def rows(out: str = "t.csv") -> list[dict[str, str]]:
    with Path(out).open(newline="") as file:
        return [*csv.DictReader(file)]


def header(out: str = "t.csv") -> list[str]:
    return Path(out).read_text().partition("\n")[0].strip().split(",")


def statistic_columns(*statistics: str) -> list[str]:
    return [name + ending for name in statistics for ending in BESIDE]


def spoil(path: Path) -> None:
    """The footer still tells the columns; whoever reads a row fails."""
    content = bytearray(path.read_bytes())
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    path.write_bytes(content)


def forbid_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on, reading a row is a failure of the test. Looking at types is not."""

    def read(workspace: Workspace, query: object) -> Any:
        raise AssertionError("rows were read")

    for name in ("rows", "arrays", "keep"):
        monkeypatch.setattr(Workspace, name, read)


def charges(account: str = "release:partner") -> list[tuple[str, str, str]]:
    """What the history says of an account: state, units and calls."""
    found = run_json("budget", "history")["rows"]
    return [
        (row["state"], row["charge"]["information"], row["charge"]["calls"])
        for row in found
        if row["account"] == account
    ]


@pytest.mark.usefixtures("shop")
class TestCounts:
    def test_at_a_rho(self) -> None:
        page = run_page(*counts("--out", "t.csv"))
        assert header() == ["item", *statistic_columns("units")]
        assert {row["item"] for row in rows()} == ITEMS
        assert "rho 5 of zCDP but for delta 1e-06, which is epsilon" in words(page)
        assert "at delta 2e-06" in words(page)
        assert words(page).endswith("Written to 't.csv': 8 rows.")

    def test_at_an_epsilon_tells_the_conversion(self) -> None:
        page = run_page(*counts("--out", "t.csv", budget="--epsilon 20 --delta 1e-6"))
        assert "of zCDP but for delta 5e-07, which is epsilon 20.0 at delta 1e-06" in words(page)
        assert "optimal conversion of zCDP (Canonne, Kamath, Steinke 2020), rounded up" in words(page)

    def test_counts_people(self) -> None:
        run_page(*counts("--out", "t.csv", budget="--rho 1000 --delta 1e-6"))
        with duckdb.connect() as connection:
            query = "SELECT item, count(DISTINCT user_id) FROM 'sales.parquet' GROUP BY item"
            exact = dict(connection.execute(query).fetchall())
        for row in rows():
            deviation = float(row["units_deviation"])
            assert abs(int(row["units"]) - exact[row["item"]]) <= 12 * deviation + 1  # fails less than once in 10^30
            assert int(row["units_low"]) <= int(row["units"]) <= int(row["units_high"])

    @pytest.mark.parametrize(
        ("method", "algorithm", "number"),
        [
            ("pcr", "sfumato-counts/3", "the true number"),
            ("gaussian", "sfumato-counts/4", "the number after bounding"),
            ("auto", "sfumato-counts/4", "the number after bounding"),
        ],
    )
    def test_by_every_method(self, method: str, algorithm: str, number: str) -> None:
        """Everybody has five items, and one release has them all: auto changes to it."""
        page = run_page(*counts("--method", method, "--out", "t.csv", budget="--rho 5 --delta 1e-6"))
        assert f"95 % for {number}" in words(page)
        statement = json.loads(Path("t.csv.statement.json").read_text())
        assert (statement["method"], statement["parameters"]["algorithm"]) == (method, algorithm)
        meanings = {column["name"]: column["meaning"] for column in statement["columns"]}
        assert meanings["units_low"] == f"lower end of a 95 % interval for {number}"
        assert run_json("release", "verify", "t.csv")["problems"] == []

    def test_a_relative_error_that_cannot_be_bought_is_refused_before_a_row_is_read(self) -> None:
        refused = invoke(*counts("--relative-error", "0.000001", "--out", "t.csv", budget="--epsilon 2 --delta 1e-6"))
        assert refused.exit_code == 2
        assert "--epsilon: cannot buy a single count; give more, or a larger relative_error" in words(refused.stderr)

    def test_with_everything(self) -> None:
        some = ["--refine", "0.2", "--aggregates-share", "0.4", "--max-keys", "4", "--method", "pcr"]
        some += ["--relative-error", "0.2", "--limit", "100", "--values", "2"]
        statistics = ["--count", "--sum", "amount:0:30", "--mean", "amount:0:30", "--variance", "n:0:4"]
        statistics += ["--quantile", "n:0:4:0.5,0.9"]
        run_page(*counts(*some, *statistics, "--out", "t.csv"))
        assert header() == [
            "item",
            *statistic_columns("units", "count", "amount_sum", "amount_mean", "n_variance", "n_q50", "n_q90"),
        ]
        statement = json.loads(Path("t.csv.statement.json").read_text())
        assert statement["parameters"]["refine"] == "1/5"
        assert statement["parameters"]["statistics_share"] == "2/5"
        shares = [Fraction(step["rho"]) for step in statement["steps"]]
        assert (sum(shares), shares[0], shares[1]) == (5, 2, 1)  # 2/5 for PCR, 1/5 for refining, 2/5 for the rest

    def test_sums_with_bounds_that_are_found(self) -> None:
        run_page(*counts("--sum", "amount", "--auto-bounds", "--out", "t.csv", budget="--rho 50 --delta 1e-6"))
        [found] = [
            each
            for each in json.loads(Path("t.csv.statement.json").read_text())["parameters"]["statistics"]
            if each["statistic"] == "sum"
        ]
        assert Fraction(found["high"]) >= 16

    @pytest.mark.parametrize("source", ["sales.csv", "part-*.parquet", "sales.parquet"])
    def test_of_every_source(self, source: str) -> None:
        run_page(*counts("--sum", "amount:0:30", "--out", "t.csv", source=source))
        assert {row["item"] for row in rows()} == ITEMS

    def test_of_a_database(self) -> None:
        run_page(*counts("--out", "t.csv", "--database", "rows.duckdb", "--memory", "500MB", source="bought"))
        assert {row["item"] for row in rows()} == ITEMS

    def test_of_a_csv_file_with_a_type(self) -> None:
        options = "--unit user_id --key n --type n=integer --type amount=number --filter n>=2 --rho 5 --delta 1e-6"
        run_page("release", "counts", "sales.csv", *options.split(), "--out", "t.parquet")
        with duckdb.connect() as connection:
            found = connection.execute("SELECT n, typeof(n) FROM 't.parquet' ORDER BY n").fetchall()
        assert found == [(2, "BIGINT"), (3, "BIGINT"), (4, "BIGINT")]


@pytest.mark.usefixtures("shop")
class TestAggregate:
    def test_without_a_statistic_counts_people(self) -> None:
        run_page(*aggregate("--out", "t.csv"))
        assert header() == ["item", *statistic_columns("units")]

    def test_all_statistics_of_several_keys(self) -> None:
        statistics = ["--units", "--count", "3", "--sum", "amount:0:60", "--mean", "amount:0:30"]
        statistics += ["--variance", "amount:0:30", "--quantile", "amount:0:30:0.5,0.999"]
        run_page(*aggregate("--key", "region", *statistics, "--out", "t.csv"))
        statistic = ["units", "count", "amount_sum", "amount_mean", "amount_variance", "amount_q50", "amount_q99_9"]
        assert header() == ["item", "region", *statistic_columns(*statistic)]
        assert {(row["item"], row["region"]) for row in rows()} == {
            (item, region) for item in ITEMS for region in ("north", "south")
        }

    def test_quantiles_on_the_grid_of_a_step(self) -> None:
        page = run_page(*aggregate("--quantile", "amount:0:30:0.5:0.5", "--quantile", "n:0:4:1:0.5", "--out", "t.csv"))
        assert all(2 * float(row["amount_q50"]) % 1 == float(row["n_q50"]) % 1 == 0 for row in rows())
        assert {
            row[f"{name}_{end}"] for row in rows() for name in ("amount_q50", "n_q50") for end in ("low", "high")
        } == {""}
        assert "without intervals" in page
        assert "amount q50, n q50: no intervals" in words(page)
        statement = json.loads(Path("t.csv.statement.json").read_text())
        asked = [(each["step"], each["mechanism"]) for each in statement["parameters"]["statistics"]]
        assert asked == [("1/2", "quantile_choice/2"), ("1", "quantile_choice/2")]
        meanings = {column["name"]: column["meaning"] for column in statement["columns"]}
        assert meanings["amount_q50"].endswith("clamped to [0, 30], in steps of 0.5")
        assert meanings["amount_q50_low"] == "always empty: a quantile that is chosen has no interval"
        assert "19 times in 20 at most" in statement["steps"][2]["law"]
        run_page("release", "verify", "t.csv")

    def test_quantiles_with_intervals(self) -> None:
        page = run_page(*aggregate("--quantile", "amount:0:30:0.5", "--quantile-intervals", "--out", "t.csv"))
        for row in rows():
            low, value, high = (float(row[f"amount_q50{end}"]) for end in ("_low", "", "_high"))
            assert 0 <= low <= value <= high <= 30
        assert "95 % intervals are for the number after clamping" in words(page)
        [asked] = json.loads(Path("t.csv.statement.json").read_text())["parameters"]["statistics"]
        assert (asked["intervals"], asked["mechanism"]) == (True, "quantile_tree/2")

    def test_a_count_that_is_followed_by_an_option(self) -> None:
        for written, cap in ((["--count", "--units"], 1), (["--count", "5", "--units"], 5), (["--count"], 1)):
            plan = run_json(*aggregate("--dry-run", *written))
            assert {"statistic": "count", "cap": cap} in plan["parameters"]["statistics"]

    def test_a_filter(self) -> None:
        run_page(*aggregate("--key", "region", "--filter", "region = 'north' AND n >= 1", "--out", "t.csv"))
        assert {row["region"] for row in rows()} == {"north"}

    def test_public_keys(self) -> None:
        Path("keys.csv").write_text("item\nitem-2\nnowhere\n")
        page = run_page(*aggregate("--keys", "keys.csv", "--units", "--out", "t.csv"))
        assert [row["item"] for row in rows()] == ["item-2", "nowhere"]
        assert "but for delta" not in page

    def test_public_keys_need_no_delta_at_a_rho(self) -> None:
        Path("keys.csv").write_text("item\nitem-2\n")
        run_page(*aggregate("--keys", "keys.csv", "--out", "t.csv", budget="--rho 1"))

    def test_max_keys_that_are_chosen(self) -> None:
        run_page(*aggregate("--out", "t.csv", keys="auto"))
        statement = json.loads(Path("t.csv.statement.json").read_text())
        assert 1 <= statement["parameters"]["max_keys"] <= 8
        assert statement["steps"][0]["purpose"] == "census of keys"

    def test_bounds_that_are_found(self) -> None:
        some = ["--sum", "amount", "--quantile", "n:0.5", "--auto-bounds"]
        run_page(*aggregate(*some, "--out", "t.csv", budget="--epsilon 90 --delta 1e-6"))
        assert header() == ["item", *statistic_columns("amount_sum", "n_q50")]

    @pytest.mark.parametrize("selection", ["auto", "laplace", "geometric", "gaussian"])
    def test_every_selection(self, selection: str) -> None:
        run_page(*aggregate("--selection", selection, "--selection-max-keys", "6", "--out", "t.csv"))
        assert {row["item"] for row in rows()} == ITEMS

    @pytest.mark.parametrize("pipeline", ["plume", "naive", "fast"])
    def test_every_pipeline(self, pipeline: str) -> None:
        run_page(*aggregate("--pipeline", pipeline, "--sum", "amount:0:30", "--out", "t.csv"))
        assert {row["item"] for row in rows()} == ITEMS
        assert json.loads(Path("t.csv.statement.json").read_text())["method"] == pipeline

    @pytest.mark.parametrize(("option", "counted"), [("--rebound", ["units"]), ("--no-rebound", [])])
    def test_counting_again_or_not(self, option: str, counted: list[str]) -> None:
        run_page(*aggregate(option, "--out", "t.csv"))
        steps = json.loads(Path("t.csv.statement.json").read_text())["steps"]
        assert [step["purpose"] for step in steps if step["purpose"] == "units"] == counted

    def test_a_share_for_the_selection(self) -> None:
        some = ["--selection-share", "1/4", "--sum", "n:0:4", "--within-max-keys", "--out", "t.csv"]
        run_page(*aggregate(*some, budget="--rho 4 --delta 1e-6"))
        steps = json.loads(Path("t.csv.statement.json").read_text())["steps"]
        assert [step["rho"] for step in steps] == ["1/20", "19/20", "3"]  # two rounds of selection, and the sum

    def test_bounded_numbers_say_so_wherever_they_are_shown(self) -> None:
        """Everybody has five items, and counts for two."""
        some = ["--units", "--sum", "amount:0:300", "--mean", "amount:0:30", "--out", "t.csv"]
        page = run_page(*aggregate(*some, keys="2"))
        assert "95 %, bounded" in page
        assert "95 % intervals are for the number after bounding, too low by about" in words(page)
        assert "amount sum: 95 % for the number after bounding and clamping, too low by about" in words(page)
        assert "amount mean: 95 % for the number after bounding and clamping, without about" in words(page)
        assert "at most 2 released keys per person, which drops about" in words(page)
        drawn = run_page("release", "plot", "t.csv", "--statistic", "amount_sum")
        assert "95 %, bounded and clamped" in drawn
        verified = run_json("release", "verify", "t.csv")
        assert verified["problems"] == []
        assert verified["intervals"][0].startswith("units: 95 % for the number after bounding, too low by about")
        assert words(run_page("release", "verify", "t.csv")).count("after bounding") == 3
        statement = json.loads(Path("t.csv.statement.json").read_text())
        meanings = {column["name"]: column["meaning"] for column in statement["columns"]}
        assert meanings["units_low"] == "lower end of a 95 % interval for the number after bounding"
        assert meanings["amount_sum_low"] == "lower end of a 95 % interval for the number after bounding and clamping"

    def test_a_stated_bound_takes_no_census_and_gives_intervals_of_the_true_number(self) -> None:
        page = run_page(*aggregate("--within-max-keys", "--out", "t.csv"))
        assert "95 %, true number" in page
        assert "no person has more than max_keys keys, as the publisher states" in words(page)
        statement = json.loads(Path("t.csv.statement.json").read_text())
        assert [step["purpose"] for step in statement["steps"]] == ["selection of keys, and units"]
        assert statement["bounding"] == []

    def test_counts_that_are_not_bounded_are_true_numbers(self) -> None:
        page = run_page(*counts("--sum", "amount:0:30", "--max-keys", "2", "--out", "t.csv"))
        assert "95 %, true number" in page
        assert "units: 95 % for the true number" in words(page)
        assert "for the number after bounding and clamping, too low by about" in words(page)
        assert "at most 2 released keys per person" in words(page)


@pytest.mark.usefixtures("shop")
@pytest.mark.slow
class TestOut:
    @pytest.mark.parametrize("out", ["t.parquet", "t.csv", "t.duckdb#t"])
    def test_is_told_as_json_verified_and_drawn(self, out: str) -> None:
        said = run_json(*counts("--out", out))
        assert (said["out"], said["rows"], said["statement"]["method"]) == (out, 8, "pcr")
        assert "The table is the one that was released" in words(run_page("release", "verify", out))
        page = run_page("release", "plot", out, "--top", "3")
        assert "the 3 largest of 8" in page
        assert sum(item in page for item in ITEMS) == 3

    def test_in_pictures(self) -> None:
        run_page(*counts("--out", "t.csv"))
        run_page("release", "plot", "t.csv", "--chart", "t.svg")
        assert Path("t.svg").read_text().startswith("<svg")
        assert "$schema" in run_json("release", "plot", "t.csv", "--statistic", "units")

    def test_that_was_edited_is_found_out(self) -> None:
        run_page(*counts("--out", "t.csv"))
        text = Path("t.csv").read_text()
        Path("t.csv").write_text(text.replace("item-3", "item-9"))
        result = invoke("release", "verify", "t.csv")
        assert (result.exit_code, result.stderr) == (1, "")
        assert "- the table is not the one that was released" in words(result.stdout)
        assert len(run_json("release", "verify", "t.csv", code=1)["problems"]) == 1

    def test_whose_statement_was_edited_is_found_out(self) -> None:
        run_page(*counts("--out", "t.parquet"))
        beside = Path("t.parquet.statement.json")
        statement = json.loads(beside.read_text())
        statement["guarantee"]["epsilon"] /= 2
        beside.write_text(json.dumps(statement))
        assert "does not follow from the steps" in run_json("release", "verify", "t.parquet", code=1)["problems"][0]

    def test_of_a_database_that_was_edited_is_found_out(self) -> None:
        run_page(*counts("--out", "t.duckdb#t"))
        with duckdb.connect("t.duckdb") as connection:
            connection.execute("UPDATE t SET units = units + 1")
        assert invoke("release", "verify", "t.duckdb#t").exit_code == 1

    def test_that_exists_is_replaced_only_when_asked(self) -> None:
        Path("t.csv").write_text("precious")
        spoil(Path("sales.parquet"))
        result = invoke(*counts("--out", "t.csv"))
        assert (result.exit_code, result.stdout) == (2, "")
        assert "--out: 't.csv' exists" in result.stderr
        assert Path("t.csv").read_text() == "precious"
        shutil.copy("part-1.parquet", "sales.parquet")
        run_page(*counts("--out", "t.csv", "--overwrite"))

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["verify", "nowhere.csv"], "FILE: there is no file 'nowhere.csv'"),
            (["verify", "t.txt"], "FILE: must be one of FILE.parquet"),
            (["verify", "sales.parquet"], "FILE: 'sales.parquet' has no statement"),
            (["plot", "sales.parquet"], "FILE: 'sales.parquet' has no statement"),
        ],
    )
    def test_that_is_none_is_refused(self, arguments: list[str], said: str) -> None:
        result = invoke("release", *arguments)
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
        assert said in result.stderr

    def test_in_a_picture_that_cannot_be(self) -> None:
        run_page(*counts("--out", "t.csv"))
        for option, said in ((["--chart", "t.txt"], "--chart"), (["--statistic", "unit"], "did you mean units?")):
            result = invoke("release", "plot", "t.csv", *option)
            assert (result.exit_code, result.stdout) == (2, "")
            assert said in result.stderr

    def test_in_postgres(self, postgres_url: str) -> None:
        said = run_json(*aggregate("--sum", "amount:0:30", "--out", f"{postgres_url}#monthly"))
        assert said["out"] == "monthly"
        assert run_json("release", "verify", f"{postgres_url}#monthly")["problems"] == []
        assert "amount sum" in run_page("release", "plot", f"{postgres_url}#public.monthly", "--top", "3")
        result = invoke(*aggregate("--out", f"{postgres_url}#monthly"))
        assert result.exit_code == 2
        assert "exists" in result.stderr
        assert postgres_url not in result.stderr
        import psycopg

        with psycopg.connect(postgres_url) as connection:
            connection.execute("UPDATE monthly SET amount_sum = 0")
        assert invoke("release", "verify", f"{postgres_url}#monthly").exit_code == 1


@pytest.mark.usefixtures("shop")
@pytest.mark.slow
class TestDryRun:
    def test_reads_no_row_and_writes_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        forbid_reading(monkeypatch)
        spoil(Path("sales.parquet"))
        before = sorted(Path().iterdir())
        for asked in (counts("--out", "t.csv", "--dry-run"), aggregate("--dry-run", keys="auto")):
            assert "No row was read and nothing was charged." in run_page(*asked)
        assert sorted(Path().iterdir()) == before

    def test_tells_thresholds_deviations_and_cost(self) -> None:
        page = words(run_page(*aggregate("--units", "--sum", "amount:0:30", "--dry-run")))
        assert "census of keys discrete Gaussian, deviation" in page
        assert "selection of keys, and units discrete Gaussian, deviation" in page
        assert "threshold" in page
        assert "amount_sum total: discrete Gaussian, deviation" in page
        assert "epsilon 30 at delta 1e-06, by the exact accounting of the noise that is drawn" in page
        plan = run_json(*aggregate("--units", "--sum", "amount:0:30", "--dry-run"))
        assert [step["purpose"] for step in plan["steps"]] == [
            *("census of keys", "selection of keys, and units", "census of released keys", "amount_sum")
        ]
        assert sum(Fraction(step["rho"]) for step in plan["steps"]) == Fraction(plan["guarantee"]["rho"])
        assert "charge" not in plan

    def test_tells_what_a_ledger_would_lose_and_what_is_left(self) -> None:
        paying = ["--config", "sfumato.toml", "--budget", "partner", "--dry-run"]
        page = words(run_page(*counts(*paying, budget="--rho 0.5 --delta 1e-6")))
        assert (
            "It would take 45 units and 1 call of release:partner, where 100 units and 5 calls are left; and of" in page
        )
        assert "Several people together: 2 people have epsilon " in page
        plan = run_json(*counts(*paying, budget="--rho 0.5 --delta 1e-6"))
        assert plan["charge"] == {"information": "45", "calls": "1"}
        assert charges() == []

    def test_tells_of_all_accounts(self) -> None:
        paying = ["--config", "sfumato.toml", "--budget", "partner", "--dry-run"]
        for source in ("sales", "sales.parquet", "./sal*.parquet"):
            page = words(run_page(*counts(*paying, source=source, budget="--rho 0.5 --delta 1e-6")))
            assert "of release:partner, where 100 units and 5 calls are left; and of table:sales, where 100" in page

    def test_needs_no_out_and_everything_else_does(self) -> None:
        run_page(*counts("--dry-run"))
        result = invoke(*counts())
        assert result.exit_code == 2
        assert "--out: say where the table goes" in result.stderr


@pytest.mark.usefixtures("shop")
@pytest.mark.slow
class TestLedger:
    PRICE = str(math.ceil(8 * Fraction("0.5") / Fraction("0.09"))), "3"

    def job(
        self, *options: str, budget: str = "--rho 0.5 --delta 2.5e-6", out: str = "t.csv", **named: str
    ) -> list[str]:
        paying = ["--config", "sfumato.toml", "--budget", "partner", "--job", "monthly", "--out", out]
        return counts(*paying, *options, budget=budget, **named)

    def test_is_charged_once_for_a_job(self) -> None:
        run_page(*self.job())
        before = Path("t.csv").read_bytes()
        assert charges() == [("settled", *self.PRICE)]
        Path("sales.parquet").unlink()
        run_page(*self.job())
        assert Path("t.csv").read_bytes() == before
        run_page(*self.job(out="again.csv"))
        assert Path("again.csv").read_bytes() == before
        assert charges() == [("settled", *self.PRICE)]
        run_page("budget", "verify")

    def test_other_parameters_are_refused(self) -> None:
        run_page(*self.job())
        before = Path("t.csv").read_bytes()
        for other in (
            self.job("--key", "region"),
            self.job(source="part-1.parquet"),
            self.job("--overwrite", "--count"),
        ):
            result = invoke(*other)
            assert (result.exit_code, result.stdout) == (3, "")
            assert result.stderr == (
                "sfumato: Key reused: job monthly was begun with other parameters; give this release another name\n"
            )
        assert Path("t.csv").read_bytes() == before
        assert charges() == [("settled", *self.PRICE)]

    def test_a_budget_that_is_too_small(self) -> None:
        spoil(Path("sales.parquet"))
        result = invoke(*self.job(budget="--rho 5 --delta 1e-6"))
        assert (result.exit_code, result.stdout) == (3, "")
        assert "this needs 445 units and 1 call, and only 100 units and 5 calls of release:partner" in result.stderr
        assert not [*Path().glob("t.csv*")]
        assert charges() == []
        problem = run_json(*self.job(budget="--rho 5 --delta 1e-6"), code=3)
        assert problem["type"] == "/problems/budget-exhausted"

    def test_a_failure_keeps_what_was_reserved_and_names_the_job(self) -> None:
        shutil.copy("sales.parquet", "whole.parquet")
        spoil(Path("sales.parquet"))
        result = invoke(*self.job())
        assert (result.exit_code, result.stdout) == (4, "")
        assert result.stderr == (
            "sfumato: Engine failed: the rows could not be read, and nothing was released; what was reserved stays "
            "reserved, and costs no more when it is run again with --job monthly\n"
        )
        assert not [*Path().glob("t.csv*")]
        assert charges() == [("reserved", *self.PRICE)]
        with Session("sfumato.toml"):
            pass
        assert charges() == [("reserved", *self.PRICE)]
        assert "costs no more when it is run again" in words(run_page(*self.job("--dry-run")))
        shutil.copy("whole.parquet", "sales.parquet")
        run_page(*self.job())
        assert charges() == [("settled", *self.PRICE)]
        run_page("budget", "verify")

    def test_a_capped_table_pays_too(self) -> None:
        run_page(*self.job(source="sales"))
        assert charges() == charges("table:sales") == [("settled", *self.PRICE)]

    def test_the_unit_is_the_tables(self) -> None:
        asked = self.job(source="sales")
        asked[asked.index("user_id")] = "n"
        result = invoke(*asked)
        assert result.exit_code == 2
        assert "--unit: must be user_id, the privacy unit of sales" in result.stderr
        assert charges() == []

    def test_without_a_ledger_a_job_is_its_table(self) -> None:
        run_page(*counts("--job", "monthly", "--out", "t.csv"))
        before = Path("t.csv").read_bytes()
        Path("sales.parquet").unlink()
        run_page(*counts("--job", "monthly", "--out", "t.csv"))
        assert Path("t.csv").read_bytes() == before
        result = invoke(*counts("--job", "monthly", "--out", "t.csv", "--limit", "9"))
        assert result.exit_code == 3
        assert Path("t.csv").read_bytes() == before


BAD: list[tuple[list[str], int, str]] = [
    # columns
    (aggregate("--key", "regoin"), 2, "--key: there is no column 'regoin'; did you mean region?"),
    (aggregate("--key", "item"), 2, "--key: is a column, or several different ones"),
    (aggregate("--key", "user_id"), 2, "--key: user_id is the unit"),
    (aggregate("--sum", "amuont:0:9"), 2, "there is no column 'amuont'; did you mean amount?"),
    (aggregate("--sum", "region:0:9"), 2, "--sum and the like: region holds text values"),
    (aggregate("--sum", "n:0:9", "--sum", "n:0:8"), 2, "n_sum would be two columns"),
    # bounds
    (aggregate("--sum", "amount:9:0"), 2, "--sum: the bounds of amount are 9 to 0; the lower comes first"),
    (aggregate("--sum", "amount:0:9:0"), 2, "--sum: the step of amount must be"),
    (aggregate("--sum", "amount:0"), 2, "--sum: 'amount:0' must be COLUMN:LOW:HIGH[:STEP], such as amount:0:100"),
    (aggregate("--sum", "amount"), 2, "--sum: amount needs bounds, such as amount:0:100; or let --auto-bounds"),
    (aggregate("--mean", "amount:a:9"), 2, "--mean: 'a' is not a number"),
    (aggregate("--variance", "amount:0:1e999"), 2, "--variance: '1e999' is not a number"),
    (aggregate("--quantile", "amount:0:9:0"), 2, "strictly between 0 and 1; ask for 0.01 or 0.99 instead"),
    (aggregate("--quantile", "amount:0:9:0.5:1"), 2, "strictly between 0 and 1; ask for 0.01 or 0.99 instead"),
    (aggregate("--quantile", "amount:0:9:10:0.5"), 2, "--quantile: the step of amount must be"),
    (aggregate("--quantile", "amount:0:0.5"), 2, "'amount:0' must be COLUMN:LOW:HIGH[:STEP]:QUANTILES"),
    (aggregate("--quantile", "amount:0:9:x"), 2, "--quantile: 'x' is not a number"),
    (aggregate("--quantile", "amount"), 2, "--quantile: write amount:0:100:0.5"),
    (aggregate("--count", "0"), 2, "--count: must be at least 1"),
    (aggregate("--count", "x"), 2, "--count: 'x' is not a whole number"),
    (aggregate("--values", "0"), 2, "'--values': 0 is not in the range"),
    # the budget
    (aggregate(budget="--epsilon 0 --delta 1e-6"), 2, "--epsilon: must be greater than zero"),
    (aggregate(budget="--epsilon -1 --delta 1e-6"), 2, "--epsilon: must be greater than zero"),
    (aggregate(budget="--epsilon NaN --delta 1e-6"), 2, "'--epsilon': write a number such as 0.5, 1e-6 or 1/3"),
    (aggregate(budget="--epsilon 1e999 --delta 1e-6"), 2, "'--epsilon': write a number such as 0.5, 1e-6 or 1/3"),
    (aggregate(budget="--epsilon 1000 --delta 1e-6"), 2, "--epsilon: must be at most 100"),
    (aggregate(budget="--epsilon 1 --delta 0"), 2, "--delta: must lie strictly between 0 and 1"),
    (aggregate(budget="--epsilon 1 --delta 1"), 2, "--delta: must lie strictly between 0 and 1"),
    (aggregate(budget="--epsilon 1"), 2, "--delta: is needed, such as 1e-6"),
    (aggregate(budget="--epsilon 1 --rho 1 --delta 1e-6"), 2, "--rho: give a budget: rho, or epsilon, and only one"),
    (aggregate(budget="--delta 1e-6"), 2, "--rho: give a budget"),
    (counts(budget="--rho 1e-12 --delta 1e-6"), 2, "--rho: cannot buy a single count; give more"),
    (counts(budget="--rho 99999 --delta 1e-6"), 2, "--rho: must be at most 1250"),
    (aggregate("--selection", "gaussian", budget="--rho 1e-20 --delta 1e-6"), 2, "--rho: is so small"),
    (counts("--refine", "1"), 2, "--refine: is a share of the budget"),
    (counts("--refine", "0.6", "--count"), 2, "--refine: and the share of the aggregates leave nothing"),
    (counts("--aggregates-share", "0.5"), 2, "--aggregates-share: is for aggregates of the keys that are found"),
    (counts("--relative-error", "0"), 2, "--relative-error: must be greater than zero"),
    (aggregate("--selection-share", "1"), 2, "--selection-share: is a share of the budget"),
    # keys
    (aggregate(keys="0"), 2, "--max-keys: must be at least 1"),
    (aggregate(keys="-1"), 2, "--max-keys: '-1' is not a whole number"),
    (aggregate(keys="x"), 2, "--max-keys: 'x' is not a whole number"),
    (aggregate("--within-max-keys", keys="auto"), 2, "--within-max-keys: needs max_keys: the number of keys that no"),
    (aggregate("--keys", "nowhere.csv"), 0, "nowhere.csv"),
    (aggregate("--keys", "keys.txt"), 2, "--keys: must be a file that ends in"),
    (aggregate("--keys", "empty.csv"), 2, "--keys: holds no key"),
    (aggregate("--keys", "days.csv", "--key", "day"), 2, "--keys: there is no column 'item'"),
    (aggregate("--keys", "empty.csv", "--selection", "laplace"), 2, "--keys: are public, so nothing is selected"),
    (aggregate("--pipeline", "fast", "--selection-max-keys", "3"), 2, "--selection-max-keys: must be"),
    (aggregate("--selection", "gausian"), 2, "'gausian' is not one of"),
    # the source
    (aggregate("--type", "n=float"), 2, "--type: must be COLUMN=TYPE, and the type one of text, integer"),
    (aggregate(source="nowhere.parquet"), 0, "nowhere.parquet"),
    (aggregate(source="none-*.parquet"), 0, "none-*.parquet"),
    (aggregate(source="sfumato.toml"), 0, "nor does it end in .parquet, .csv"),
    (aggregate(source=""), 2, "SOURCE: must be a file"),
    (aggregate("--database", "nowhere.duckdb", source="bought"), 0, "nowhere.duckdb"),
    # the filter
    (aggregate("--filter", "amount >"), 2, "--filter: "),
    (aggregate("--filter", "n IN (SELECT 1)"), 2, "--filter: "),
    (aggregate("--filter", "amuont > 1"), 2, "did you mean amount?"),
    (aggregate("--filter", "n = 1; DROP TABLE rows"), 2, "--filter: "),
    (aggregate("--filter", "user_id = 1"), 2, "--filter: people are counted, not named"),
    # the ledger
    (aggregate("--config", "nowhere.toml", "--budget", "partner"), 2, "nowhere.toml: cannot be read; `sfumato init`"),
    (aggregate("--config", "sfumato.toml"), 2, "--budget: config and budget go together"),
    (aggregate("--budget", "partner"), 2, "--config: config and budget go together"),
    (aggregate("--config", "sfumato.toml", "--budget", "patner"), 3, "no budget 'patner'"),
    (aggregate("--config", "sfumato.toml", "--budget", "patner"), 3, "did you mean partner?"),
    (aggregate("--job", "a b"), 2, "--job: is a name of letters, digits"),
]
OUTS = [
    ("t.txt", "--out: must be one of FILE.parquet, FILE.csv"),
    ("nowhere/t.csv", "--out: there is no folder"),
    ("t.duckdb", "--out: must be one of"),
    ("t.duckdb#", "--out: the name of the table"),
    ("postgresql://someone:secret@127.0.0.1:1/db#t", "--out: cannot connect to PostgreSQL"),
    ("postgresql://someone:secret@127.0.0.1:1/db", "--out: must end in #table or #schema.table"),
    ("", "--out: must be one of"),
]


@pytest.fixture(scope="module")
def door(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which no row can be read, and nothing is to be written."""
    folder = tmp_path_factory.mktemp("door") / "shop"
    shutil.copytree(data, folder)
    (folder / "sfumato.toml").write_text(CONFIG, "utf-8")
    (folder / "empty.csv").write_text("item\n")
    (folder / "days.csv").write_text("day\nsunday\n")
    (folder / "keys.txt").write_text("item-1\n")
    spoil(folder / "sales.parquet")
    return folder


class TestDoor:
    """One line on stderr that names the option and the way out; nothing is read and nothing is written."""

    @pytest.mark.parametrize(
        ("asked", "code", "said"), BAD, ids=[" ".join([*asked[1:3], *asked[7:]]) for asked, *_ in BAD]
    )
    def test_refuses(self, door: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str], code: int, said: str) -> None:
        self.check_refusal(door, monkeypatch, [*asked, "--out", "t.csv"], code, said)

    @pytest.mark.parametrize(("out", "said"), OUTS)
    def test_refuses_places(self, door: Path, monkeypatch: pytest.MonkeyPatch, out: str, said: str) -> None:
        for asked in (aggregate("--out", out), counts("--out", out)):
            assert "secret" not in self.check_refusal(door, monkeypatch, asked, 2, said)
            problem = invoke(*asked, "--json")
            assert (problem.exit_code, problem.stderr) == (2, "")
            read = json.loads(problem.stdout)
            assert read.keys() - {"argument"} == {"type", "title", "status", "detail"}
            assert read["detail"].startswith(read.get("argument", ""))

    def check_refusal(self, door: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str], code: int, said: str) -> str:
        monkeypatch.chdir(door)
        monkeypatch.setenv("COLUMNS", "200")
        before = sorted(door.rglob("*"))
        result = invoke(*asked)
        assert isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code == code or (code == 0 and result.exit_code in (2, 4))
        assert result.stdout == ""
        assert said in result.stderr
        assert "Traceback" not in result.stderr
        assert sorted(door.rglob("*")) == before
        return result.stderr

    @pytest.mark.parametrize("missing", ["--unit", "--key", "--max-keys"])
    def test_asks_for_what_is_missing(self, missing: str) -> None:
        asked = aggregate()
        place = asked.index(missing)
        result = invoke(*asked[:place], *asked[place + 2 :])
        assert result.exit_code == 2
        assert f"Missing option '{missing}'" in result.stderr


@pytest.mark.slow
def test_the_installed_command(shop: Path) -> None:
    """As somebody types it: pipes, exit codes and no bar where nobody watches."""
    run = {"capture_output": True, "text": True, "cwd": shop, "timeout": 120}
    done = subprocess.run([COMMAND, *counts("--out", "t.parquet")], **run)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Written to 't.parquet': 8 rows." in done.stdout
    assert subprocess.run([COMMAND, "release", "verify", "t.parquet"], **run).returncode == 0
    with (shop / "t.parquet").open("ab") as table:
        table.write(b"x")
    assert subprocess.run([COMMAND, "release", "verify", "t.parquet"], **run).returncode == 1
    assert subprocess.run([COMMAND, *counts("--out", "nowhere/t.parquet")], **run).returncode == 2
