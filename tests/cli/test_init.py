"""`sfumato init`: what it writes can be asked at once, and holds nothing of the data but names and types."""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result

from sfumato.accounting import Charge
from sfumato.cli import main
from sfumato.cli.config_text import toml_key, toml_string
from sfumato.cli.first_config import InitSource, write_first_config
from sfumato.config import read_config
from sfumato.errors import EngineFailed, InvalidArgument
from sfumato.session import Session
from tests.helpers.repeats import repeats

pytestmark = pytest.mark.slow

HOSTILE = [
    *("with space", 'a "quote"', "an 'apostrophe'", "back\\slash", "new\nline", "tab\t", "x = 1", "[section]", "# no"),
    *("a.b", "ünïcode 😀", "\u202eevil", "\x7f", "\x1b[2J", "order", "group", "select", "true", "null", "1", "{brace}"),
    *('"""', "'''", "%s", "count", "date", "members", "people", "$(reboot)", "`reboot`", "--json"),
]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SFUMATO_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def sql_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def write(target: str, columns: str = "'red' AS colour, 7 AS size, DATE '2026-11-15' AS day") -> None:
    """Two thousand rows of five hundred people, into a file or as a table of a database."""
    rows = f"SELECT range % 500 AS person, {columns} FROM range(2000)"
    with duckdb.connect("shop.duckdb" if "." not in target else ":memory:") as connection:
        if "." not in target:
            connection.execute(f"CREATE TABLE {target} AS {rows}")
        else:
            options = " (DELIMITER '\t')" if target.endswith(".tsv") else ""
            connection.execute(f"COPY ({rows}) TO '{target}'{options}")


def ask_proposed(started: dict[str, Any]) -> Any:
    """The answer to the question that `init` proposes, asked word by word."""
    result = invoke(*started["ask"][1:], "--json")
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return json.loads(result.stdout)


def init_json(*arguments: str) -> dict[str, Any]:
    result = invoke("init", *arguments, "--json")
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return json.loads(result.stdout)


class TestAskedAtOnce:
    @pytest.mark.parametrize(
        ("target", "arguments"),
        [
            ("orders.parquet", ("--source", "orders.parquet")),
            ("orders.csv", ("--source", "orders.csv")),
            ("orders.csv.gz", ("--source", "orders.csv.gz")),
            ("orders.tsv", ("--source", "orders.tsv")),
            ("orders.parquet", ("--source", "ord*.parquet", "--table", "orders")),
            ("orders", ("--source", "orders", "--database", "shop.duckdb")),
        ],
        ids=["parquet", "csv", "csv.gz", "tsv", "glob", "duckdb"],
    )
    def test_every_kind_of_source(self, target: str, arguments: tuple[str, ...]) -> None:
        write(target)
        made = init_json("shop", *arguments, "--unit", "person")
        assert made["table"] == "orders"
        assert made["columns"] == {"colour": "text", "size": "integer", "day": "date"}
        answer = ask_proposed(made)
        assert answer["receipt"]["unit"] == "person"
        assert [row["colour"] for row in answer["rows"]] == ["red"]
        assert invoke("policy", "check", "--config", made["config"]).exit_code == 0

    @pytest.mark.parametrize("epsilon", ["0.4", "0.5", "0.8", "1", "1.5", "2", "3", "8", "30"])
    def test_whatever_the_budget_is(self, epsilon: str) -> None:
        """With little of it, the list is shorter than ten, or a total."""
        write("orders.parquet")
        made = init_json("shop", "--source", "orders.parquet", "--unit", "person", "--epsilon", epsilon)
        assert ask_proposed(made)["rows"]
        lines = made["ask"][-1].split("LIMIT ")
        assert (len(lines) == 1) == (float(epsilon) < 0.7)
        if float(epsilon) >= 2:
            assert lines[1] == "10"

    def test_what_the_budget_buys_can_be_bought(self) -> None:
        """No column has max_groups, so no histogram costs one unit."""
        write("orders.parquet")
        made = init_json("shop", "--source", "orders.parquet", "--unit", "person")
        assert {each["what"] for each in made["plan"]["buys"]} == {"total", "top_ten"}
        text = Path("shop/sfumato.toml").read_text("utf-8")
        assert "a histogram or a total 1" not in text
        explain = ("policy", "explain", "--config", made["config"])
        assert "histogram" not in invoke(*explain).stdout
        bounded = text.replace('colour = { type = "text",', 'colour = { type = "text", max_groups = 1,')
        Path("shop/sfumato.toml").write_text(bounded, "utf-8")
        assert "histogram (max_groups = 1)" in invoke(*explain).stdout

    def test_a_table_that_holds_people_only_can_be_counted(self) -> None:
        with duckdb.connect() as connection:
            connection.execute("COPY (SELECT range AS person FROM range(500)) TO 'people.parquet'")
        made = init_json("shop", "--source", "people.parquet", "--unit", "person")
        assert made["columns"] == {}
        assert len(ask_proposed(made)["rows"]) == 1

    def test_the_page_says_what_to_type_next_and_what_to_read(self) -> None:
        write("orders.parquet", "'red' AS colour, [1] AS sizes")
        result = invoke("init", "shop", "--source", "orders.parquet", "--unit", "person")
        assert (result.exit_code, result.stderr) == (0, "")
        assert "  sfumato ask --config shop/sfumato.toml --analyst anna 'SELECT colour, COUNT(" in result.stdout
        assert "sfumato policy explain --config shop/sfumato.toml" in result.stdout
        assert "sizes (its type cannot be asked about)" in result.stdout

    def test_the_page_has_the_types_and_warns_of_text_that_is_called_like_a_date(self) -> None:
        columns = "'31/12/2025' AS order_date, 'x' AS boughtAt, 'red' AS update_note, 'a' AS candidate, 1 AS day"
        write("orders.parquet", columns)
        result = invoke("init", "shop", "--source", "orders.parquet", "--unit", "person")
        said = " ".join(result.stdout.split())
        assert "order_date (text), boughtAt (text), update_note (text), candidate (text), day (integer)" in said
        assert "order_date, boughtAt: text by its type, a date by its name" in said
        made = init_json("other", "--source", "orders.parquet", "--unit", "person")
        assert made["dates_as_text"] == ["order_date", "boughtAt"]


class TestTheVersion:
    @pytest.mark.parametrize("version", ["daily", "weekly", "monthly", "fixed"])
    def test_it_is_written_with_what_it_costs(self, version: str) -> None:
        write("orders.parquet")
        made = init_json("shop", "--source", "orders.parquet", "--unit", "person", "--version", version)
        text = Path(made["config"]).read_text()
        assert tomllib.loads(text)["tables"]["orders"]["version"] == version
        assert re.search(
            f'version = "{version}" +# .*({"paid for once" if version == "fixed" else "costs again"})', text
        )
        assert all(f'"{other}"' in text for other in ("hourly", "daily", "weekly", "monthly", "fixed"))
        assert max(map(len, text.splitlines())) <= 120
        assert ask_proposed(made)["receipt"]["data_version"].split()[0] == version

    def test_without_a_terminal_it_is_daily(self) -> None:
        write("orders.parquet")
        made = init_json("shop", "--source", "orders.parquet", "--unit", "person")
        assert tomllib.loads(Path(made["config"]).read_text())["tables"]["orders"]["version"] == "daily"

    def test_on_a_terminal_it_is_asked_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write("orders.parquet")
        monkeypatch.setattr("sfumato.cli.output.is_interactive", lambda: True)
        given = ["init", "shop", "--source", "orders.parquet", "--unit", "person"]
        result = CliRunner().invoke(main, given, input="sometimes\nmonthly\n")
        assert result.exit_code == 0, result.output
        assert "How often do new rows count?" in result.stderr
        assert 'version = "monthly"' in Path("shop/sfumato.toml").read_text()
        result = CliRunner().invoke(main, ["init", "two", *given[2:], "--version", "weekly"])
        assert (result.exit_code, result.stderr) == (0, "")
        assert init_json("three", *given[2:])["config"]

    def test_another_is_refused(self) -> None:
        result = invoke("init", "shop", "--source", "orders.parquet", "--unit", "person", "--version", "yearly")
        assert result.exit_code == 2


class TestTheBudget:
    """The file promises what was asked for, and the page says what that buys."""

    def test_by_default_a_month_promises_three_with_releases_in_it(self) -> None:
        write("orders.parquet")
        made = init_json("shop", "--source", "orders.parquet", "--unit", "person")
        assert (made["plan"]["period"]["epsilon"], made["plan"]["year"]["epsilon"]) == (2.98, 11.21)
        explained = json.loads(invoke("policy", "explain", "--config", made["config"], "--json").stdout)
        [source] = explained["sources"]
        assert source["total"]["period"] == made["plan"]["period"]
        assert source["total"]["year"] == made["plan"]["year"]
        assert source["releases"]["names"] == ["release:partner", "release:everyone"]
        assert source["uncapped"] == []
        for account in explained["accounts"]:
            assert account["limit"] == {"information": "55", "calls": "55"}

    @pytest.mark.parametrize(("epsilon", "units", "calls"), [("8", 320, 320), ("0.5", 1, 1), ("30", 2838, 500)])
    def test_another_epsilon(self, epsilon: str, units: int, calls: int) -> None:
        write("orders.parquet")
        result = invoke("init", "shop", "--source", "orders.parquet", "--unit", "person", "--epsilon", epsilon)
        assert result.exit_code == 0, result.output
        budgets = read_config(Path("shop/sfumato.toml").read_text("utf-8"), Path("shop").resolve(), {}).budgets
        assert {name: budget.cap for name, budget in budgets.items()} == {
            "partner": Charge(units, calls),
            "everyone": Charge(units, calls),
        }
        lines = dict(re.findall(r"^  (one [a-z ]+?) {2,}.* ([\d,]+|none) *$", result.stdout, re.MULTILINE))
        assert lines["one total"] == f"{units:,}"
        assert lines["one list of ten"] == str(units // 21 or "none")

    @pytest.mark.parametrize("epsilon", ["0", "0.1", "101", "-1"])
    def test_an_epsilon_that_buys_nothing_writes_nothing(self, epsilon: str) -> None:
        write("orders.parquet")
        result = invoke("init", "shop", "--source", "orders.parquet", "--unit", "person", f"--epsilon={epsilon}")
        assert result.exit_code == 2
        assert "--epsilon: " in result.stderr
        assert not Path("shop").exists()

    def test_what_the_page_says_can_be_asked_can_be_asked(self) -> None:
        """Two lists of ten, at an epsilon of three; the third is refused."""
        write("orders.parquet", "range % 40 AS colour, range % 7 AS size")
        made = init_json("shop", "--source", "orders.parquet", "--unit", "person", "--epsilon", "3")
        times = next(each["times"] for each in made["plan"]["buys"] if each["what"] == "top_ten")
        asked = [
            invoke(*made["ask"][1:6], f"SELECT size, people FROM orders WHERE colour < {at} GROUP BY size LIMIT 10")
            for at in range(30, 31 + times)
        ]
        assert [result.exit_code for result in asked] == [0] * times + [3]


class TestTheReportInIt:
    """A commented example, which holds when its lines are no comment any more."""

    def uncomment_report(self) -> str:
        path = Path("shop/sfumato.toml")
        head, _, rest = path.read_text("utf-8").partition("# [reports.overview]")
        example, _, tail = f"# [reports.overview]{rest}".partition("\n\n")
        lines = (line.removeprefix("# ") for line in example.splitlines())
        path.write_text(head + "\n".join(lines) + "\n\n" + tail, encoding="utf-8")
        return str(path)

    @pytest.mark.parametrize("target", ["orders.parquet", "orders.csv", "orders"])
    @pytest.mark.parametrize(
        "columns",
        [
            "'red' AS colour, DATE '2026-01-15' AS day",
            "'red' AS colour, TIMESTAMP '2026-01-15 10:00:00' AS at, DATE '2026-01-15' AS day",
            "7 AS size, DATE '2026-01-15' AS day",
            "'a' AS start, 'b' AS events, 'c' AS \"Colour of it\", TIMESTAMP '2026-01-15 10:00:00' AS \"a \"\"b\"\"\"",
        ],
    )
    def test_it_can_be_asked_at_once(self, target: str, columns: str) -> None:
        write(target, columns)
        source = ("--source", target) if "." in target else ("--source", target, "--database", "shop.duckdb")
        init_json("shop", *source, "--unit", "person")
        config = self.uncomment_report()
        assert invoke("policy", "check", "--config", config).exit_code == 0
        days = ("--start", "2026-01-01", "--end", "2026-02-01")
        asked = ("report", "--config", config, "--analyst", "anna", "--statistic", "events", *days)
        result = invoke(*asked, "--json")
        assert (result.exit_code, result.stderr) == (0, "")
        assert abs(json.loads(result.stdout)["rows"][0]["events"] - 2000) < 500

    def test_moments_of_a_csv_file_with_offsets(self) -> None:
        write("orders.csv", "'2026-01-31T23:30:00-02:00' AS at")
        init_json("shop", "--source", "orders.csv", "--unit", "person")
        config = self.uncomment_report()
        days = ("--start", "2026-01-01", "--end", "2026-03-01", "--granularity", "month")
        asked = ("report", "--config", config, "--analyst", "anna", "--statistic", "events", *days)
        rows = json.loads(invoke(*asked, "--json").stdout)["rows"]
        assert rows[0]["events"] < 500 < rows[1]["events"]

    def test_without_a_column_of_time_it_says_so(self) -> None:
        write("orders.parquet", "'red' AS colour")
        init_json("shop", "--source", "orders.parquet", "--unit", "person")
        text = Path("shop/sfumato.toml").read_text("utf-8")
        assert "It needs a column of moments or of days" in text
        assert "[reports." not in text


@pytest.mark.slow
class TestHostileNames:
    @pytest.mark.parametrize("name", HOSTILE[:: repeats(2, 1)])
    def test_a_column_of_any_name_is_asked_about(self, name: str) -> None:
        write("orders.parquet", f"'v' AS {sql_name(name)}")
        made = init_json("shop", "--source", "orders.parquet", "--unit", "person")
        assert list(made["columns"]) == [name]
        assert made["measure"] != name
        assert [row[name] for row in ask_proposed(made)["rows"]] == ["v"]

    def test_all_of_them_are_written_and_read_back(self) -> None:
        write("orders.parquet", ", ".join(f"'v' AS {sql_name(name)}" for name in HOSTILE))
        write_first_config("shop", InitSource("orders.parquet", "person"), analyst="anna")
        text = Path("shop/sfumato.toml").read_text("utf-8")
        config = read_config(text, Path("shop").resolve(), {})
        assert list(config.tables["orders"].columns) == HOSTILE
        assert not re.search(r"[^\n -~\u00a1-\uffff\U0001F600]|\u202e", text)
        with Session("shop/sfumato.toml") as session:
            assert [column["name"] for column in session.tables().rows[0].columns] == HOSTILE

    @pytest.mark.parametrize("name", HOSTILE)
    def test_a_unit_a_table_and_an_analyst_of_any_name(self, name: str) -> None:
        with duckdb.connect() as connection:
            connection.execute(
                f"COPY (SELECT range % 500 AS {sql_name(name)}, 'v' AS colour FROM range(2000)) TO 'a.parquet'"
            )
        made = init_json("shop", "--source", "a.parquet", f"--unit={name}", f"--table={name}", f"--name={name.strip()}")
        made["ask"][4:6] = [f"--analyst={name.strip()}"]
        assert ask_proposed(made)["receipt"]["unit"] == name

    @pytest.mark.parametrize("name", ["we [1].parquet", "ord*ers.parquet", "it's.parquet", "ü.parquet", "a;b.parquet"])
    def test_a_file_of_any_name(self, name: str) -> None:
        write("orders.parquet")
        Path("orders.parquet").rename(name)
        made = init_json("shop", "--source", name, "--unit", "person")
        assert re.fullmatch(r"\w+", made["table"])
        assert ask_proposed(made)["rows"]

    @pytest.mark.parametrize("name", ["and", "Or", "NOT", "sfumato_x", "PERSON "])
    def test_what_cannot_be_a_column_is_left_out_with_a_comment(self, name: str) -> None:
        write(
            "orders.parquet",
            f"'red' AS colour, 'v' AS {sql_name(name)}, [1] AS {sql_name('a list' + chr(10) + 'x = 1')}",
        )
        made = init_json("shop", "--source", "orders.parquet", "--unit", "person")
        left_out = {"a list\nx = 1"} if name == "PERSON " else {name, "a list\nx = 1"}
        assert made["left_out"].keys() == left_out
        text = Path("shop/sfumato.toml").read_text("utf-8")
        assert '# "a list\\u000Ax = 1" is left out: its type cannot be asked about.' in text
        assert ask_proposed(made)["rows"]

    def test_a_string_of_toml_is_read_back(self) -> None:
        text = "".join(map(chr, [*range(0x300), *range(0x2000, 0x2070), 0xFEFF, 0xE000, 0x1F600, 0xE0001]))
        assert tomllib.loads(f"{toml_key(text)} = {toml_string(text)}") == {text: text}
        assert toml_key("plain_name-1") == "plain_name-1"
        assert toml_key("") == '""'


class TestTheFile:
    def test_it_holds_names_and_types_and_no_value(self) -> None:
        write("orders.parquet", "'crimson' AS colour, 987654 AS size, DATE '1999-01-31' AS day, TRUE AS vip")
        write_first_config("shop", InitSource("orders.parquet", "person"), analyst="anna")
        text = Path("shop/sfumato.toml").read_text("utf-8")
        assert not re.search("crimson|987654|1999", text)
        [table] = tomllib.loads(text)["tables"].values()
        assert all(column.keys() == {"type", "domain"} for column in table["columns"].values())
        assert {column["domain"] for column in table["columns"].values()} == {"unknown"}

    def test_it_is_the_same_for_other_rows(self) -> None:
        texts = []
        for rows in ("'red' AS colour", "'blue' AS colour"):
            write("orders.parquet", rows)
            place = f"shop{len(texts)}"
            write_first_config(place, InitSource("orders.parquet", "person"), analyst="anna")
            texts.append(Path(place, "sfumato.toml").read_text("utf-8"))
        assert texts[0] == texts[1]

    def test_its_examples_are_right(self) -> None:
        """Without their comment signs, they are settings that are read."""
        write("orders.parquet", "'red' AS colour, 7 AS quantity, 'emea' AS region, 'x' AS title, 9.5 AS amount")
        write_first_config("shop", InitSource("orders.parquet", "person"), analyst="anna")
        text = Path("shop/sfumato.toml").read_text("utf-8")
        for name in ("region", "title", "amount"):
            text = re.sub(rf"^{name} = .*\n", "", text, flags=re.MULTILINE)
        text = re.sub(
            r'^# (?=[a-z_]+ = |\[|"")', "", text.replace('url = "sqlite:ledger.db"\n', ""), flags=re.MULTILINE
        )
        config = read_config(text, Path("shop").resolve(), {})
        assert config.ledger.url.startswith("postgresql://")
        assert config.analysts["anna"].organisation == "acme"
        assert config.tables["orders"].cap == "everyone"
        assert config.tables["orders"].measures.keys() == {"people", "entries", "bought"}
        Path("shop/sfumato.toml").write_text(text, "utf-8")
        assert invoke("policy", "check", "--config", "shop/sfumato.toml").exit_code == 0

    def test_the_key_is_for_its_owner_only(self) -> None:
        write("orders.parquet")
        write_first_config("shop", InitSource("orders.parquet", "person"), analyst="anna")
        key = Path("shop/noise.key")
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert len(key.read_bytes()) == 32

    @pytest.mark.parametrize(
        ("folder", "source", "expected"),
        [
            (".", "orders.parquet", "orders.parquet"),
            (".", "./orders.parquet", "orders.parquet"),
            (".", "*.parquet", "*.parquet"),
            ("deep/er", "orders.parquet", None),
        ],
    )
    def test_paths_are_relative_below_the_folder_and_absolute_elsewhere(
        self, tmp_path: Path, folder: str, source: str, expected: str | None
    ) -> None:
        write("orders.parquet")
        write_first_config(folder, InitSource(source, "person", table="orders"), analyst="anna")
        written = tomllib.loads(Path(folder, "sfumato.toml").read_text("utf-8"))["tables"]["orders"]["source"]
        assert written == (expected or str(tmp_path / source))
        with Session(Path(folder, "sfumato.toml")) as session:
            assert session.tables().rows[0].table == "orders"

    def test_a_database_is_found_from_the_folder_too(self, tmp_path: Path) -> None:
        write("orders")
        write_first_config(".", InitSource("orders", "person", database="shop.duckdb"), analyst="anna")
        engines = tomllib.loads(Path("sfumato.toml").read_text("utf-8"))["engines"]
        assert engines["local"]["database"] == "shop.duckdb"

    @pytest.mark.parametrize(
        ("unit", "taken", "measure"),
        [
            ("member_id", "", "members"),
            ("person", "", "people"),
            ("person", "1 AS People", "members"),
            ("person", "1 AS people, 2 AS MEMBERS", "people_2"),
            ("person", "1 AS people, 2 AS members, 3 AS people_2", "people_3"),
        ],
    )
    def test_the_measure_is_not_called_like_a_column(self, unit: str, taken: str, measure: str) -> None:
        with duckdb.connect() as connection:
            columns = f"1 AS {unit}{', ' if taken else ''}{taken}"
            connection.execute(f"COPY (SELECT {columns}) TO 'orders.parquet'")
        assert write_first_config("shop", InitSource("orders.parquet", unit), analyst="anna").measure == measure


class TestRefusals:
    @pytest.mark.parametrize("name", ["sfumato.toml", "noise.key"])
    def test_nothing_is_overwritten(self, name: str) -> None:
        write("orders.parquet")
        Path("shop").mkdir()
        Path("shop", name).write_text("mine")
        result = invoke("init", "shop", "--source", "orders.parquet", "--unit", "person")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "nothing is overwritten" in result.stderr
        assert [path.name for path in Path("shop").iterdir()] == [name]
        assert Path("shop", name).read_text() == "mine"

    @pytest.mark.parametrize(
        ("source", "problem"),
        [
            (InitSource("orders.parquet", "persn"), "did you mean person?"),
            (InitSource("orders.parquet", "zzz"), "there is person, colour"),
            (InitSource("orders.txt", "person"), "must end in .parquet"),
            (InitSource("shop.duckdb", "person"), "--database FILE --source TABLE"),
            (InitSource("orders.parquet", "person", table=" "), "--table"),
        ],
    )
    def test_what_makes_no_sense_is_told_and_nothing_is_written(self, source: InitSource, problem: str) -> None:
        write("orders.parquet")
        with pytest.raises(InvalidArgument, match=re.escape(problem)):
            write_first_config("shop", source, analyst="anna")
        assert not Path("shop").exists()

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            (("--source", "gone.parquet"), "--source: there is no file 'gone.parquet' here"),
            (("--source", "gone/*.csv"), "--source: there is no file 'gone/*.csv' here"),
            (("--source", "t", "--database", "gone.duckdb"), "--database: there is no file 'gone.duckdb' here"),
            (("--source", "s3://shop/orders.parquet"), "--source: only local files can be read"),
            (("--source", "https://example.org/orders"), "--source: only local files can be read"),
            (("--source", "t", "--database", "md://shop"), "--database: only local files can be read"),
        ],
    )
    def test_what_is_not_here_is_told_and_nothing_is_written(self, arguments: tuple[str, ...], problem: str) -> None:
        result = invoke("init", "shop", *arguments, "--unit", "a")
        assert (result.exit_code, result.stdout) == (2, "")
        assert problem in result.stderr
        assert not Path("shop").exists()

    def test_a_source_that_cannot_be_read_is_the_engines_failure(self) -> None:
        Path("orders.parquet").write_text("no parquet")
        with pytest.raises(EngineFailed):
            write_first_config("shop", InitSource("orders.parquet", "a"), analyst="anna")
        assert not Path("shop").exists()

    @pytest.mark.parametrize(("target", "said"), [("orders.csv", True), ("orders.parquet", False)])
    def test_guessed_types_are_told(self, target: str, said: bool) -> None:
        write(target)
        init_json("shop", "--source", target, "--unit", "person")
        assert ("guessed once from a sample of the rows" in Path("shop/sfumato.toml").read_text("utf-8")) is said

    def test_a_unit_that_cannot_be_one_is_refused(self) -> None:
        with duckdb.connect() as connection:
            connection.execute("COPY (SELECT 1 AS sfumato_unit) TO 'orders.parquet'")
        assert invoke("init", "shop", "--source", "orders.parquet", "--unit", "sfumato_unit").exit_code == 2
        assert not Path("shop").exists()

    def test_a_folder_that_cannot_be_made(self) -> None:
        write("orders.parquet")
        Path("file").write_text("")
        result = invoke("init", "file/shop", "--source", "orders.parquet", "--unit", "person", "--json")
        assert result.exit_code == 2
        assert json.loads(result.stdout)["type"] == "/problems/invalid-argument"

    def test_a_key_is_not_left_behind_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write("orders.parquet")

        def full(path: Path, *_: object, **__: object) -> None:
            raise OSError("disk full")

        monkeypatch.setattr(Path, "open", full)
        with pytest.raises(InvalidArgument, match="cannot be written to"):
            write_first_config("shop", InitSource("orders.parquet", "person"), analyst="anna")
        assert list(Path("shop").iterdir()) == []
