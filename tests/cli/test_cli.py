"""The command line: what it prints where, and with which exit code it ends."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import duckdb
import pytest
from click.testing import CliRunner, Result

import sfumato
from sfumato.accounting import Charge
from sfumato.cli import main
from sfumato.cli.demo import DEMO_MEMBERS
from sfumato.cli.options import CHARTS
from sfumato.demo import sample
from sfumato.errors import LedgerFailed
from tests.helpers.worlds import key_bytes

COMMAND = Path(sys.executable).with_name("sfumato")
TOP = "SELECT article, COUNT(DISTINCT member_id) FROM engagements GROUP BY article ORDER BY 2 DESC LIMIT 10"
TOTAL = "SELECT members FROM engagements"

CONFIG = """
[ledger]
url = "sqlite:books/ledger.db"
[engines.local]
type = "duckdb"
[tables.engagements]
engine = "local"
source = "engagements.parquet"
privacy_unit = "member_id"
cap = "everyone"
[tables.engagements.columns]
article = {}
job_title = { max_groups = 1 }
region = { domain = ["emea", "apac", "amer"], max_groups = 1 }
day = { type = "date" }
[tables.engagements.measures]
members = { count = "units" }
reads = { count = "rows", max_per_unit = 5 }
[budgets.partner]
epsilon_per = 0.15
delta_per = 1e-10
information = 100
calls = 3
resets = "monthly"
[budgets.everyone]
epsilon_per = 0.15
delta_per = 1e-10
information = 5000
calls = 50
[organisations.acme]
budget = "everyone"
[analysts.anna]
budget = "partner"
organisation = "acme"
[analysts.ben]
budget = "partner"
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "engagements.parquet"
    with duckdb.connect() as connection:
        sample.generate(connection, 3000)
        connection.execute(f"COPY engagements TO '{path}'")
    return path


@pytest.fixture
def shop(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a configuration, which is the working one."""
    for name in [name for name in os.environ if name.startswith("SFUMATO_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")
    folder = tmp_path / "shop"
    (folder / "books").mkdir(parents=True)
    shutil.copy(data, folder)
    (folder / "sfumato.toml").write_text(CONFIG, "utf-8")
    key = folder / "noise.key"
    key.write_bytes(key_bytes())
    key.chmod(0o600)
    monkeypatch.chdir(folder)
    return folder


def invoke(*arguments: str, **options: Any) -> Result:
    return CliRunner().invoke(main, arguments, **options)


def run_page(*arguments: str, **options: Any) -> str:
    """What a command that ends well prints, which is nothing on stderr."""
    result = invoke(*arguments, **options)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout


def run_json(*arguments: str, code: int = 0, **options: Any) -> Any:
    """The one JSON object that a command prints."""
    result = invoke(*arguments, "--json", **options)
    assert (result.exit_code, result.stderr) == (code, ""), result.output
    return json.loads(result.stdout)


def run_error(*arguments: str, code: int, **options: Any) -> str:
    """The one line that a command which does not end well prints on stderr."""
    result = invoke(*arguments, **options)
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    assert result.stderr.count("\n") == 1
    return result.stderr


def words(page: str) -> str:
    return " ".join(page.split())


def commands(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield (*path, name), command


EVERY = list(commands(main))


def reads_settings(path: tuple[str, ...]) -> bool:
    """Whether a command is about a configuration that is there."""
    return path[0] not in ("demo", "init", "release") and path != ("policy", "plan")


class TestHelp:
    def test_version(self) -> None:
        assert run_page("--version") == f"sfumato, version {sfumato.__version__}\n"

    def test_commands_are_in_the_order_in_which_somebody_meets_them(self) -> None:
        listed = run_page("--help").partition("Commands:")[2].splitlines()
        assert [line.split()[0] for line in listed if line] == [
            *("demo", "init", "serve", "ask", "estimate", "report", "budget", "keys", "policy", "release"),
        ]
        below = run_page("budget", "--help").partition("Commands:")[2].splitlines()
        assert [line.split()[0] for line in below if line] == [
            *("show", "history", "usage", "forecast", "verify", "fence", "join", "recover", "migrate", "grant"),
        ]

    @pytest.mark.parametrize(("path", "command"), EVERY, ids=[" ".join(path) for path, _ in EVERY])
    def test_every_command_shows_an_example_and_takes_json(self, path: tuple[str, ...], command: click.Command) -> None:
        shown = run_page(*path, "--help")
        assert f"sfumato {' '.join(path)}" in shown.partition("\n")[2]
        assert "--json" in shown
        assert max(map(len, shown.splitlines())) <= 80
        if reads_settings(path):
            assert "[default: sfumato.toml]" in words(shown)

    def test_reports_are_found(self) -> None:
        assert "sfumato report --config" in run_page("--help")
        assert "such as day; all, the default: one number" in words(run_page("report", "--help"))

    def test_a_look_at_the_budget_loads_no_engine_and_no_parser(self, shop: Path) -> None:
        code = (
            "import sys; from sfumato.cli import main; main(sys.argv[1:], standalone_mode=False); "
            "print('and', *{name.partition('.')[0] for name in sys.modules} & {'duckdb', 'sqlglot', 'psycopg'})"
        )
        command = [sys.executable, "-c", code, "budget", "show", "--config", str(shop / "sfumato.toml")]
        ended = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=True)
        assert ended.stdout.splitlines()[-1] == "and"

    def test_help_loads_no_engine(self) -> None:
        code = (
            "import sys; from sfumato.cli import main; main(['budget', '--help'], standalone_mode=False); "
            "print(*{name.partition('.')[0] for name in sys.modules} & {'duckdb', 'numpy', 'sqlglot', 'rich'})"
        )
        ended = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=60, check=True
        )
        assert ended.stdout.splitlines()[-1] == ""

    @pytest.mark.parametrize(
        "arguments", [("demo", "--members", "many"), ("demo", "--nonsense"), ("nonsense",), ("ask", TOP), ("budget",)]
    )
    def test_usage_errors(self, arguments: tuple[str, ...]) -> None:
        result = invoke(*arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "Usage: " in result.stderr

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("ask", TOP, "--json"), "Missing option '--analyst'"),
            (("--json", "ask", TOP), "--json"),
            (("budget", "history", "--json", "--rows", "none"), "'--rows'"),
            (("ask", "--json", "--nonsense"), "--nonsense"),
            (("nonsense", "--json"), "No such command 'nonsense'"),
        ],
    )
    def test_usage_errors_are_problems_in_json(self, arguments: tuple[str, ...], words: str) -> None:
        result = invoke(*arguments)
        assert (result.exit_code, result.stderr) == (2, "")
        problem = json.loads(result.stdout)
        assert problem.keys() == {"type", "title", "status", "detail"}
        assert (problem["type"], problem["status"]) == ("/problems/usage", 400)
        assert words in problem["detail"]


class TestDemo:
    def test_its_default_is_the_samples(self) -> None:
        assert DEMO_MEMBERS == sample.MEMBERS

    def test_json_is_one_object_and_nothing_else(self) -> None:
        answers = run_json("demo", "--members", "2000")["answers"]
        mechanisms = [answer["receipt"]["mechanism"] for answer in answers[:3]]
        assert mechanisms == ["unknown_gumbel", "threshold_gaussian", "known_gaussian"]

    def test_what_is_kept_can_be_asked(self, tmp_path: Path) -> None:
        run_json("demo", "--members", "2000", "--dir", str(tmp_path / "shop"))
        config = str(tmp_path / "shop" / "sfumato.toml")
        assert run_json("ask", "--config", config, "--analyst", "anna", TOTAL)["rows"]
        assert "holds a demo already" in run_error("demo", "--members", "10", "--dir", str(tmp_path / "shop"), code=2)
        assert "--dir" in run_error("demo", "--members", "10", "--dir", f"{config}/below", code=2)

    def test_a_senseless_argument_is_one_line_on_stderr(self) -> None:
        line = run_error("demo", "--members", "0", code=2)
        assert line == "sfumato: Invalid argument: members: must be at least 1\n"

    def test_a_senseless_argument_is_a_problem_in_json(self) -> None:
        assert run_json("demo", "--members", "0", code=2) == {
            "type": "/problems/invalid-argument",
            "title": "Invalid argument",
            "status": 400,
            "detail": "members: must be at least 1",
            "argument": "members",
        }

    @pytest.mark.slow
    def test_the_installed_command_ends_by_itself_and_pipes_clean_text(self) -> None:
        ended = subprocess.run(
            [COMMAND, "demo", "--members", "5000", "--once"],
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=True,
        )
        assert ended.stderr == ""
        assert "How many members were active in each region" in ended.stdout
        assert not any(character < " " for character in ended.stdout.replace("\n", ""))


@pytest.mark.usefixtures("shop")
class TestAsking:
    def test_an_answer_is_bars_and_a_receipt(self) -> None:
        page = run_page("ask", "--analyst", "anna", TOP)
        assert max(map(len, page.splitlines())) <= 80
        assert "charge " in page
        assert "left " in page

    def test_json_is_the_answer_and_the_same_again_is_free(self) -> None:
        first, again = (run_json("ask", "--analyst", "anna", TOTAL) for _ in range(2))
        assert first["rows"] == again["rows"]
        assert first["receipt"]["charge"] == {"information": "1", "calls": "0"}
        assert (again["receipt"]["charge"], again["receipt"]["repeat"]) == ({"information": "0", "calls": "0"}, True)

    def test_csv_is_the_rows_with_their_intervals(self) -> None:
        question = "SELECT region, members FROM engagements GROUP BY region"
        printed = invoke("ask", "--analyst", "anna", "--csv", question)
        assert printed.exit_code == 0
        answer = run_json("ask", "--analyst", "anna", question)
        [head, *rows] = printed.stdout.splitlines()
        assert head == "region,members,members_low,members_high"
        assert len(rows) == len(answer["rows"])
        assert invoke("ask", "--analyst", "anna", "--csv", "--json", question).exit_code == 2

    def test_a_request_is_read_from_a_file_or_from_stdin(self, shop: Path) -> None:
        request = json.dumps({"type": "total", "table": "engagements", "measure": "members"})
        (shop / "question.json").write_text(request, "utf-8")
        rows = [
            run_json("ask", "--analyst", "anna", *arguments, input=request)["rows"]
            for arguments in ((TOTAL,), ("--request", "question.json"), ("--request", "-"))
        ]
        assert rows[0] == rows[1] == rows[2]

    def test_parameters_are_the_same_question(self, shop: Path) -> None:
        sql = "SELECT article, members FROM engagements WHERE region = {} AND day >= {} GROUP BY article LIMIT {}"
        ask, named = ("ask", "--analyst", "anna"), sql.format(":region", ":since", ":k")
        given = ("--param", "region=emea", "--param", "since:date=2026-10-01", "--param", "k:integer=3")
        first = run_json(*ask, sql.format("'emea'", "'2026-10-01'", 3))
        request = json.dumps({"sql": named, "params": {"region": "emea", "since": "2026-10-01", "k": 3}})
        for again in (run_json(*ask, named, *given), run_json(*ask, "--request", "-", input=request)):
            assert again["receipt"]["digest"] == first["receipt"]["digest"]
            assert again["receipt"]["repeat"]
        assert run_json("estimate", "--analyst", "anna", named, *given)["charge"]

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ((), "give one for each :name"),
            (("region",), "--param: must be NAME=VALUE"),
            (("=emea",), "--param: must be NAME=VALUE"),
            (("region=emea", "region=apac"), "--param: has region twice"),
            (("region:day=2026",), "--param: :region must name its type"),
            (("region:integer=emea",), "--param: :region is not a whole number"),
            (("regoin=emea",), "--param: :region has no value; did you mean :regoin?"),
        ],
    )
    def test_parameters_that_do_not_fit_are_refused(self, given: tuple[str, ...], words: str) -> None:
        sql, options = "SELECT members FROM engagements WHERE region = :region", [("--param", text) for text in given]
        line = run_error("ask", "--analyst", "anna", sql, *sum(options, ()), code=2 if given else 3)
        assert words in line

    def test_a_key_twice_is_refused(self) -> None:
        text = '{"sql": "SELECT 1", "sql": "SELECT 2"}'
        line = run_error("ask", "--analyst", "anna", "--request", "-", code=2, input=text)
        assert "--request: has the key 'sql' twice" in line

    @pytest.mark.parametrize(
        "arguments", [(), (TOTAL, "--request", "-"), ("--request", "gone.json"), ("--request", ".")]
    )
    def test_a_question_is_in_one_place(self, arguments: tuple[str, ...]) -> None:
        run_error("ask", "--analyst", "anna", *arguments, code=2)

    @pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '"SELECT 1"', " " * 1_000_001])
    def test_what_is_no_request_is_told_so(self, text: str) -> None:
        line = run_error("ask", "--analyst", "anna", "--request", "-", code=2, input=text)
        assert "must hold one JSON object" in line

    @pytest.mark.parametrize("ending", CHARTS)
    def test_a_chart_is_saved(self, shop: Path, ending: str) -> None:
        sql = "SELECT region, members FROM engagements GROUP BY region"
        run_page("ask", "--analyst", "anna", sql, "--chart", f"chart{ending}")
        assert (shop / f"chart{ending}").stat().st_size > 1000

    @pytest.mark.parametrize(
        ("sql", "chart"),
        [
            (TOTAL, "chart.gif"),
            (TOTAL, "nowhere/chart.svg"),
            ("SELECT article FROM engagements GROUP BY article ORDER BY members DESC LIMIT 3", "chart.svg"),
        ],
    )
    def test_what_cannot_be_drawn_is_not_charged(self, sql: str, chart: str) -> None:
        assert "--chart" in run_error("ask", "--analyst", "anna", sql, "--chart", chart, code=2)
        assert run_json("budget", "history")["rows"] == []

    def test_a_chart_that_cannot_be_written_says_that_asking_again_is_free(self, shop: Path) -> None:
        (shop / "chart.json").mkdir()
        assert "free" in run_error("ask", "--analyst", "anna", TOTAL, "--chart", "chart.json", code=2)

    def test_a_chart_without_its_extra_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "vl_convert", None)
        line = run_error("ask", "--analyst", "anna", TOTAL, "--chart", "chart.png", code=2)
        assert line == "sfumato: Not installed: a chart as PNG needs: pip install 'sfumato[plots]'\n"
        problem = run_json("ask", "--analyst", "anna", TOTAL, "--chart", "chart.png", code=2)
        assert (problem["type"], problem["status"]) == ("/problems/not-installed", 501)

    def test_an_estimate_is_free(self) -> None:
        found = run_json("estimate", "--analyst", "anna", TOP)
        assert found["charge"]["worst"] == {"information": "21", "calls": "1"}
        page = run_page("estimate", "--analyst", "anna", TOP)
        assert "unknown_gumbel" in page
        assert found["visible"] == {"half": 201, "most": 221, "above": "cutoff"}
        assert "shown half of the groups that are 201 above the first group out of sight" in " ".join(page.split())
        assert run_json("budget", "history")["rows"] == []

    @pytest.mark.parametrize("sql", ["", "SELECT", "DROP TABLE engagements", "SELECT * FROM engagements", "\x00", "'"])
    @pytest.mark.parametrize("command", ["ask", "estimate"])
    def test_bad_sql_is_refused(self, command: str, sql: str) -> None:
        run_error(command, "--analyst", "anna", sql, code=3)
        assert run_json(command, "--analyst", "anna", sql, code=3)["type"] == "/problems/not-supported"

    @pytest.mark.parametrize("command", ["ask", "estimate"])
    def test_an_unknown_table_is_refused(self, command: str) -> None:
        problem = run_json(command, "--analyst", "anna", "SELECT members FROM engagement", code=3)
        assert (problem["type"], problem["status"]) == ("/problems/table-not-found", 404)
        assert problem["detail"] == "there is no table 'engagement'; did you mean engagements?"

    def test_a_wrong_analyst_is_refused_with_the_nearest(self) -> None:
        assert "did you mean anna?" in run_error("ask", "--analyst", "ana", TOTAL, code=3)

    def test_an_exhausted_budget_is_refused_with_what_would_fit(self) -> None:
        sql = "SELECT article, members FROM engagements GROUP BY 1 LIMIT {}"
        assert "a list of 49 would fit" in run_error("ask", "--analyst", "ben", sql.format(60), code=3)
        problem = run_json("ask", "--analyst", "ben", sql.format(60), code=3)
        assert (problem["type"], problem["status"]) == ("/problems/budget-exhausted", 403)
        assert [request["k"] for request in problem["try"]] == [49]
        assert Charge.from_dict(problem["asked"]) == Charge(121, 1)
        assert Charge.from_dict(problem["left"]) == Charge(100, 3)
        assert re.fullmatch(r"\d{4}-\d{2}-01", problem["resets"])

    def test_text_that_is_not_utf8_is_told_so(self) -> None:
        assert "UTF-8" in run_error("ask", "--analyst", "\udcff", TOTAL, code=2)

    def test_an_engine_that_fails_is_4(self, shop: Path) -> None:
        (shop / "engagements.parquet").unlink()
        assert "no file matches" in run_error("ask", "--analyst", "anna", TOTAL, code=4)
        assert run_json("ask", "--analyst", "anna", TOTAL, code=4)["type"] == "/problems/engine-failed"

    def test_a_ledger_that_fails_is_4(self, shop: Path) -> None:
        (shop / "books" / "ledger.db").write_bytes(b"not a database" * 1000)
        assert "Ledger failed" in run_error("ask", "--analyst", "anna", TOTAL, code=4)

    @pytest.mark.parametrize("text", ["not [ toml", "[ledgr]\nurl = 1", "[analysts.anna]\nbudget = 'gone'", "\udc80"])
    def test_a_bad_configuration_is_2(self, shop: Path, text: str) -> None:
        (shop / "sfumato.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
        run_error("ask", "--analyst", "anna", TOTAL, code=2)
        assert run_json("ask", "--analyst", "anna", TOTAL, code=2)["type"] == "/problems/configuration"

    @pytest.mark.parametrize("config", ["gone.toml", ".", "gone/sfumato.toml"])
    def test_a_missing_configuration_says_how_to_make_one(self, config: str) -> None:
        for path, _ in EVERY:
            if not reads_settings(path):
                continue
            needs = {
                "ask": ("--analyst", "anna", TOTAL),
                "grant": ("anna", "--calls", "1", "--reason", "why"),
                "create": ("--analyst", "anna"),
                "revoke": ("5f0c2a9be471",),
                "join": ("fence",),
                "reseal": ("--start", "2026-10-01", "--end", "2026-10-02"),
            }
            arguments = needs.get("ask" if path[0] == "estimate" else path[-1], ())
            assert "sfumato init" in run_error(*path, *arguments, "--config", config, code=2)

    def test_a_missing_key_says_how_to_make_one(self, shop: Path) -> None:
        (shop / "noise.key").unlink()
        assert "make a new one" in run_error("ask", "--analyst", "anna", TOTAL, code=2)

    def test_no_line_tells_how_long_anything_took(self) -> None:
        assert not re.search(r"\d ?(s|ms|seconds)\b", run_page("ask", "--analyst", "anna", TOP))


@pytest.mark.usefixtures("shop")
class TestBudget:
    def test_all_analysts_are_shown_unless_one_is_named(self) -> None:
        run_page("ask", "--analyst", "anna", TOTAL)
        page = run_page("budget", "show")
        assert max(map(len, page.splitlines())) <= 80
        assert "anna: enforce" in page
        assert "ben: enforce" in page
        assert "ben" not in run_page("budget", "show", "--analyst", "anna")
        assert [row["analyst"] for row in run_json("budget", "show")["rows"]] == ["anna", "ben"]

    def test_it_is_what_a_session_says(self) -> None:
        run_page("ask", "--analyst", "anna", TOTAL)
        with sfumato.Session("sfumato.toml") as session:
            assert run_json("budget", "show", "--analyst", "anna") == session.budget("anna").to_dict()

    @pytest.mark.parametrize("command", ["show", "history"])
    def test_a_wrong_analyst_is_refused_with_the_nearest(self, command: str) -> None:
        assert "did you mean ben?" in run_error("budget", command, "--analyst", "bem", code=3)

    def test_history_goes_page_by_page(self) -> None:
        assert words(run_page("budget", "history")) == "Nothing was charged."
        for analyst in ("anna", "ben"):
            run_page("ask", "--analyst", analyst, TOTAL)
        first = run_json("budget", "history", "--rows", "2")
        then = run_json("budget", "history", "--rows", "10", "--cursor", first["next"])
        assert then["next"] is None
        everything = run_json("budget", "history")["rows"]
        assert first["rows"] + then["rows"] == everything
        bens = run_json("budget", "history", "--analyst", "ben")["rows"]
        assert {"analyst:ben"} <= {row["account"] for row in bens} <= {"analyst:ben", "table:engagements"}
        assert "settled" in run_page("budget", "history")

    @pytest.mark.parametrize("cursor", ["-1", "x", "1" * 19, "٣"])
    def test_a_cursor_that_is_none_is_told_so(self, cursor: str) -> None:
        assert "--cursor" in run_error("budget", "history", f"--cursor={cursor}", code=2)

    def test_right_books_are_right(self) -> None:
        run_page("ask", "--analyst", "anna", TOTAL)
        assert "The books are right" in run_page("budget", "verify")
        assert "every cell of a report" in words(run_page("budget", "verify"))
        assert "every sealed cell of a report" in words(run_page("budget", "verify", "--help"))
        found = run_json("budget", "verify")
        assert found["problems"] == []
        fence = Path(found["fence"])
        assert fence.is_file()
        page = "".join(run_page("budget", "verify").split())
        assert f"hasseen7rowsofit,is{fence}" in page  # the policy; three accounts, reserved and settled

    def test_wrong_books_are_1_and_every_problem_is_listed(self, shop: Path) -> None:
        run_page("ask", "--analyst", "anna", TOTAL)
        _change(shop, "UPDATE balances SET spent = '0 0'")
        result = invoke("budget", "verify")
        assert (result.exit_code, result.stderr) == (1, "")
        problems = run_json("budget", "verify", code=1)["problems"]
        assert len(problems) == 4  # hers, her organisation's, the table's; and what the fence has seen
        assert result.stdout.count("\n- ") == len(problems)

    def test_a_healthy_ledger_has_nothing_to_recover(self) -> None:
        run_page("ask", "--analyst", "anna", TOTAL)
        assert "Nothing to recover" in run_page("budget", "recover")
        assert run_json("budget", "recover") == {"why": None, "rows": []}

    def test_a_restored_copy_is_refused_until_it_is_recovered(self, shop: Path) -> None:
        _restore_an_older_copy(shop)
        assert "sfumato budget recover" in run_error("ask", "--analyst", "anna", TOP, code=4)
        assert "--yes" in run_error("budget", "recover", code=2)
        page = words(run_page("budget", "recover", "--yes"))
        assert "analyst:anna: 1 unit and 0 calls more count as spent in the period from" in page
        assert "organisation:acme: 1 unit" in page
        assert "The books are right" in run_page("budget", "verify")
        assert run_json("budget", "show", "--analyst", "anna")["accounts"][0]["spent"]["information"] == "1"

    def test_recovery_in_json(self, shop: Path) -> None:
        _restore_an_older_copy(shop)
        assert run_json("budget", "recover", code=2)["type"] == "/problems/invalid-argument"
        found = run_json("budget", "recover", "--yes")
        assert "older than its fence" in found["why"]
        assert {row["kind"] for row in found["rows"]} == {"recover"}

    @pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 4), ("", 130)])
    def test_it_asks_on_a_terminal(self, shop: Path, monkeypatch: pytest.MonkeyPatch, typed: str, code: int) -> None:
        _restore_an_older_copy(shop)
        monkeypatch.setattr("sfumato.cli.output.is_interactive", lambda: True)
        result = invoke("budget", "recover", input=typed)
        assert result.exit_code == code
        assert "older than its fence" in result.stderr
        assert ("Recovered" in result.stdout) == (code == 0)

    def test_a_lost_fence_leaves_nothing_until_the_next_reset(self, shop: Path) -> None:
        run_page("ask", "--analyst", "anna", TOTAL)
        shutil.rmtree(os.environ["XDG_STATE_HOME"])
        assert "fence" in run_error("budget", "show", code=4)
        run_page("budget", "recover", "--yes")
        assert run_json("budget", "show", "--analyst", "ben")["accounts"][0]["left"] == {
            "information": "0",
            "calls": "0",
        }

    def test_there_is_nothing_to_migrate(self) -> None:
        assert "Nothing to migrate" in run_page("budget", "migrate")
        assert run_json("budget", "migrate") == {"steps": 0}

    @pytest.mark.parametrize(
        ("account", "name"),
        [
            ("anna", "analyst:anna"),
            ("analyst:anna", "analyst:anna"),
            ("organisation:acme", "organisation:acme"),
            ("table:engagements", "table:engagements"),
        ],
    )
    def test_a_grant_is_added_and_told(self, account: str, name: str) -> None:
        arguments = ("budget", "grant", account, "--information", "3/2", "--reason", "the board meets")
        found = run_json(*arguments)
        assert (found["account"], found["granted"]) == (name, {"information": "3/2", "calls": "0"})
        assert f"Granted 3/2 units and 0 calls to {name}" in run_page(*arguments)
        assert run_json("budget", "history")["rows"][0]["state"] == "granted"

    @pytest.mark.parametrize(
        ("arguments", "code", "told_so"),
        [
            (("annna", "--calls", "1", "--reason", "why"), 3, "did you mean anna?"),
            (("organisation:acne", "--calls", "1", "--reason", "why"), 3, "did you mean organisation:acme?"),
            (("zzzzzz", "--calls", "1", "--reason", "why"), 3, "there is anna, ben, analyst:anna"),
            (("anna", "--reason", "why"), 2, "--information"),
            (("anna", "--calls", "1", "--reason", " "), 2, "--reason"),
        ],
    )
    def test_a_senseless_grant_is_told_so(self, arguments: tuple[str, ...], code: int, told_so: str) -> None:
        assert told_so in run_error("budget", "grant", *arguments, code=code)

    @pytest.mark.parametrize("amount", ["-1", "nan", "1e9", "1/0", "x", "٣", ""])
    def test_an_amount_is_an_exact_number(self, amount: str) -> None:
        result = invoke("budget", "grant", "anna", f"--calls={amount}", "--reason", "why")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "write a number such as" in result.stderr

    def test_the_ledger_is_all_that_is_opened(self, shop: Path) -> None:
        (shop / "engagements.parquet").unlink()
        (shop / "noise.key").unlink()
        for command in ("show", "history", "verify", "recover", "migrate"):
            run_page("budget", command)


def _change(shop: Path, sql: str) -> None:
    import sqlite3

    connection = sqlite3.connect(shop / "books" / "ledger.db")
    with connection:
        connection.execute(sql)
    connection.close()


def _restore_an_older_copy(shop: Path) -> None:
    run_page("budget", "show")
    shutil.copytree(shop / "books", shop / "copy")
    run_page("ask", "--analyst", "anna", TOTAL)
    shutil.rmtree(shop / "books")
    shutil.copytree(shop / "copy", shop / "books")


@pytest.mark.usefixtures("shop")
class TestPolicy:
    def test_check_says_what_can_be_asked_and_by_which_mechanism(self) -> None:
        page = run_page("policy", "check")
        assert max(map(len, page.splitlines())) <= 80
        assert "sfumato.toml fits the tables" in page
        assert "begin at multiples of 100 ms" in page
        assert run_json("policy", "check")["service"] == {"pad_ms": 100}
        [table] = run_json("policy", "check")["tables"]
        assert {column["name"]: column["mechanisms"] for column in table["columns"]} == {
            "article": ["unknown_gumbel"],
            "job_title": ["threshold_gaussian"],
            "region": ["known_gaussian"],
            "day": ["unknown_gumbel"],
        }
        assert [measure["name"] for measure in table["measures"]] == ["members", "reads"]
        for name in ("unknown_gumbel", "threshold_gaussian", "known_gaussian", "reads (rows, at most 5"):
            assert name in page

    def test_check_says_which_groups_will_rarely_appear(self, shop: Path) -> None:
        """The sizes are those of estimates; budgets with the same sizes share a line."""
        words = " ".join(run_page("policy", "check").split())
        assert "by article and day: groups under about 180 people will rarely appear; half of the groups" in words
        assert "by job_title: groups under about 65 people will rarely appear; half of the groups of 87," in words
        [table] = run_json("policy", "check")["tables"]
        assert [each["columns"] for each in table["visible"]] == [["article", "day"], ["job_title"]]
        for each in table["visible"]:
            assert each["budgets"] == ["partner", "everyone"]
            for column in each["columns"]:
                sql = f"SELECT {column}, members FROM engagements GROUP BY {column}"
                shown = run_json("estimate", "--analyst", "anna", sql)["visible"]
                assert {name: each[name] for name in shown} == shown
        text = (shop / "sfumato.toml").read_text("utf-8")
        other = "[budgets.other]\nepsilon_per = 0.3\ndelta_per = 1e-10\ninformation = 5\ncalls = 5\n"
        (shop / "sfumato.toml").write_text(text + other, "utf-8")
        words = " ".join(run_page("policy", "check").split())
        assert "by article and day, with the budget other: groups under about 91 people" in words, words
        assert "by article and day, with the budget partner and everyone: groups under about 180 people" in words

    def test_without_a_table_nothing_can_be_asked(self, shop: Path) -> None:
        (shop / "sfumato.toml").write_text("", "utf-8")
        result = invoke("policy", "check")
        assert (result.exit_code, result.stderr) == (1, "")
        assert "nothing can be asked" in words(result.stdout)
        (problem,) = run_json("policy", "check", code=1)["problems"]
        assert problem["setting"] == "tables"

    def test_every_difference_is_listed(self, shop: Path) -> None:
        text = CONFIG.replace('privacy_unit = "member_id"', 'privacy_unit = "member"')
        text = text.replace("article = {}", "artcle = {}").replace('type = "date"', 'type = "text"')
        (shop / "sfumato.toml").write_text(text, "utf-8")
        result = invoke("policy", "check")
        assert (result.exit_code, result.stderr) == (1, "")
        assert "3 differences" in result.stdout
        found = run_json("policy", "check", code=1)
        settings = [problem["setting"] for problem in found["problems"]]
        here = "tables.engagements"
        assert settings == [f"{here}.privacy_unit", f"{here}.columns.artcle", f"{here}.columns.day.type"]
        assert found["tables"] == []

    def test_a_policy_that_makes_no_sense_is_a_difference_too(self, shop: Path) -> None:
        (shop / "sfumato.toml").write_text(CONFIG.replace("article = {}", "member_id = {}"), "utf-8")
        assert "must not hold the privacy unit" in run_json("policy", "check", code=1)["problems"][0]["problem"]

    def test_a_source_that_is_not_there_is_4(self, shop: Path) -> None:
        (shop / "engagements.parquet").unlink()
        assert "no file matches" in run_error("policy", "check", code=4)

    def test_explain_needs_no_table_no_key_and_no_ledger(self, shop: Path) -> None:
        (shop / "engagements.parquet").unlink()
        (shop / "noise.key").unlink()
        page = run_page("policy", "explain")
        assert max(map(len, page.splitlines())) <= 80
        assert list((shop / "books").iterdir()) == []
        accounts = [account["account"] for account in run_json("policy", "explain")["accounts"]]
        assert accounts == ["analyst:anna", "organisation:acme", "analyst:ben", "table:engagements"]

    def test_explain_one_analyst(self) -> None:
        assert [row["account"] for row in run_json("policy", "explain", "--analyst", "ben")["accounts"]] == [
            "analyst:ben",
            "table:engagements",
        ]
        assert "did you mean ben?" in run_error("policy", "explain", "--analyst", "bn", code=3)


class TestTheProcess:
    def test_what_can_be_shown_only_in_ascii_is(self, shop: Path) -> None:
        (shop / "sfumato.toml").write_text(CONFIG.replace("[analysts.anna]", '[analysts."Åsa"]'), "utf-8")
        ended = _run("budget", "show", environment={"PYTHONIOENCODING": "ascii"})
        assert (ended.returncode, ended.stderr) == (0, "")
        assert "\\xc5sa: enforce" in ended.stdout

    @pytest.mark.slow
    def test_exit_codes_reach_the_shell(self, shop: Path) -> None:
        assert _run("ask", "--analyst", "anna", TOTAL).returncode == 0
        assert _run("ask", "--analyst", "nobody", TOTAL).returncode == 3
        (shop / "engagements.parquet").unlink()
        assert _run("policy", "check").returncode == 4
        assert _run("policy", "check", "--config", "gone").returncode == 2

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
    @pytest.mark.parametrize(
        "arguments", [("--help",), ("budget", "show"), ("budget", "show", "--json"), ("no", "--json")]
    )
    @pytest.mark.usefixtures("shop")
    def test_output_that_cannot_be_written_is_4(self, arguments: tuple[str, ...]) -> None:
        with Path("/dev/full").open("w") as full:
            ended = subprocess.run(
                [COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, encoding="utf-8", timeout=60, check=False
            )
        assert ended.returncode == 4
        assert ended.stderr == "sfumato: Failed: the output could not be written: No space left on device\n"

    @pytest.mark.parametrize("arguments", [("--help",), ("budget", "show"), ("budget", "show", "--json")])
    @pytest.mark.usefixtures("shop")
    def test_a_reader_that_has_left_is_met_with_silence(self, arguments: tuple[str, ...]) -> None:
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "w") as pipe:
            ended = subprocess.run(
                [COMMAND, *arguments], stdout=pipe, stderr=subprocess.PIPE, encoding="utf-8", timeout=60, check=False
            )
        assert (ended.returncode, ended.stderr) == (4, "")

    def test_an_interrupt_is_quiet(self, shop: Path) -> None:
        question = shop / "question"
        os.mkfifo(question)
        process = subprocess.Popen(
            [COMMAND, "ask", "--analyst", "anna", "--request", question], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        with question.open("w"):  # opens when the command does
            for _ in range(60):  # again, as one that comes just before the command begins to read is not noticed
                process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(1)
                    break
            stdout, stderr = process.communicate(timeout=60)
        assert (process.returncode, stdout, stderr) == (130, b"", b"")

    @pytest.mark.usefixtures("shop")
    def test_an_interrupted_engine_is_quiet(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("sfumato.engines.duckdb.DuckDBEngine._run", interrupted)
        result = invoke("ask", "--analyst", "anna", TOTAL)
        assert (result.exit_code, result.output) == (130, "")

    @pytest.mark.usefixtures("shop")
    def test_nothing_of_the_engines_own_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: object, **__: object) -> None:
            raise LedgerFailed("in our words") from ValueError("a secret")

        monkeypatch.setattr("sfumato.session.Session.ask", broken)
        assert run_error("ask", "--analyst", "anna", TOTAL, code=4) == "sfumato: Ledger failed: in our words\n"


def _run(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *arguments],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
        env={**os.environ, **(environment or {})},
    )
