"""A new engine, mechanism, statistic or store is one file, one row and the inherited contract. Toys show it."""

from __future__ import annotations

import ast
import importlib.util
import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

import sfumato as sf
from sfumato.accounting import NOTHING
from sfumato.config.engines import ENGINES, EngineKind, seconds
from sfumato.ledger import Ledger
from sfumato.ledger.file_fence import FileFence
from sfumato.mechanisms import MECHANISMS
from sfumato.mechanisms.known_domain import KnownNoise
from sfumato.release.statistics import STATISTICS, StatisticKind
from tests.contracts.ledger import answer, spent, top
from tests.contracts.mechanism import MechanismContract
from tests.helpers.worlds import key_bytes
from tests.toys.mechanism import ToyMechanism
from tests.toys.statistic import Regulars
from tests.toys.store import ToyStore

pytestmark = pytest.mark.slow  # processes of their own

TOYS = Path(__file__).parent / "toys"

CONFIG = """
[ledger]
[engines.here]
type = "{engine}"
{place}
[tables.visits]
engine = "here"
source = "visits"
privacy_unit = "person"
version = {{ value = "1" }}
[tables.visits.columns]
page = {{}}
[tables.visits.measures]
people = {{ count = "units" }}
[budgets.all]
epsilon_per = 1
delta_per = 1e-6
information = 1000
calls = 10
[analysts.anna]
budget = "all"
"""

VISITS = [(person, page) for person in range(400) for page in ("home", f"page {person % 2}")]


@pytest.mark.parametrize("name", ["engine", "mechanism", "statistic", "store"])
def test_a_toy_is_one_class_in_one_file(name):
    tree = ast.parse((TOYS / f"{name}.py").read_text())
    assert [type(node) for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)] == [ast.ClassDef]


def opened(folder: Path, engine: str, place: str) -> sf.Session:
    (folder / "sfumato.toml").write_text(CONFIG.format(engine=engine, place=place))
    key = folder / "noise.key"
    key.write_bytes(key_bytes())
    key.chmod(0o600)
    return sf.open(folder / "sfumato.toml")


class TestEngine:
    @pytest.fixture
    def session(self, tmp_path, monkeypatch):
        with sqlite3.connect(tmp_path / "rows.db") as rows:
            rows.execute("CREATE TABLE visits (person INTEGER, page TEXT)")
            rows.executemany("INSERT INTO visits VALUES (?, ?)", VISITS)
        monkeypatch.setitem(
            ENGINES, "toy", EngineKind("tests.toys.engine:ToyEngine", {"timeout_s": seconds}, url="toy:rows.db")
        )
        with opened(tmp_path, "toy", 'url = "toy:rows.db"') as session:
            yield session

    def test_it_answers(self, session):
        found = session.ask("SELECT page, people FROM visits GROUP BY page ORDER BY 2 DESC LIMIT 1", analyst="anna")
        assert [row["page"] for row in found.rows] == ["home"]
        assert abs(found.rows[0]["people"] - 400) < 100

    def test_its_settings_are_checked_as_those_of_every_engine(self, session, tmp_path):
        for wrong, words in (
            ('timeout_s = 0\nurl = "toy:rows.db"', "engines.here.timeout_s: must be at least 1"),
            ('database = "rows.db"\nurl = "toy:rows.db"', "engines.here.database: is not a setting"),
            (
                'url = "toy:rows.db"\noptions = { timeout = 1 }',
                r"engines.here.options.timeout: is not a setting; did you mean timeout_s\?",
            ),
            ('url = "rows.db"', 'engines.here.url: must be such as "toy:rows.db"'),
        ):
            (tmp_path / "sfumato.toml").write_text(CONFIG.format(engine="toy", place=wrong))
            with pytest.raises(sf.ConfigError, match=f"^{words}"):
                sf.open(tmp_path / "sfumato.toml")

    def test_options_may_stand_below(self, session, tmp_path):
        place = 'url = "toy:rows.db"\noptions = { timeout_s = 7 }'
        (tmp_path / "sfumato.toml").write_text(CONFIG.format(engine="toy", place=place))
        with sf.open(tmp_path / "sfumato.toml") as again:
            assert again.config.engines["here"].timeout_s == 7

    def test_an_unknown_type_is_told_with_the_known_ones(self, session, tmp_path):
        (tmp_path / "sfumato.toml").write_text(CONFIG.format(engine="tov", place=""))
        with pytest.raises(
            sf.ConfigError, match=r"^engines.here.type: must be one of duckdb, .*toy; did you mean toy\?"
        ):
            sf.open(tmp_path / "sfumato.toml")

    def test_a_release_says_that_it_cannot_read_from_it_and_charges_nothing(self, session, tmp_path):
        with pytest.raises(sf.NotSupported, match="a release cannot read from this engine"):
            sf.release_counts(
                "visits", unit="person", key="page", rho=1, delta=1e-6, config=tmp_path / "sfumato.toml", budget="all"
            )
        assert all(account.spent == NOTHING for account in session.budget("anna").accounts)


class TestMechanism(MechanismContract):
    name = "toy"
    arguments = {"epsilon": 0.1, "max_groups": 1}  # noqa: RUF012

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _row(cls):
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(MECHANISMS, "toy", ToyMechanism)
            yield

    def data(self, counts):
        return counts


def test_a_plan_takes_mechanisms_from_their_table(tmp_path, monkeypatch):
    with duckdb.connect(str(tmp_path / "rows.duckdb")) as rows:
        rows.execute("CREATE TABLE visits (person INTEGER, page VARCHAR)")
        rows.executemany("INSERT INTO visits VALUES (?, ?)", VISITS)
    monkeypatch.setitem(MECHANISMS, "known_gaussian", ToyMechanism)
    with opened(tmp_path, "duckdb", 'database = "rows.duckdb"') as session:
        found = session.ask(sf.Total("visits", measure="people"), analyst="anna")
    assert issubclass(ToyMechanism, KnownNoise)
    assert found.receipt.mechanism == "toy"
    assert abs(found.rows[0]["people"] - 400) < 200


def loaded_again(name: str) -> Any:
    spec = importlib.util.find_spec(name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestStatistic:
    OPTIONS = {"unit": "person", "key": "page", "max_keys": 2, "rho": 100, "delta": 1e-6}  # noqa: RUF012

    @pytest.fixture(autouse=True)
    def _rows(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        row = StatisticKind("tests.toys.statistic:Regulars", (), "People with two rows or more.")
        monkeypatch.setitem(STATISTICS, Regulars.word, row)
        twice = "SELECT i % 300 AS person, 'home' AS page FROM range(400) t(i)"
        duckdb.sql(f"COPY ({twice}) TO 'rows.parquet'")

    def test_it_is_released(self):
        table = sf.release_aggregates("rows.parquet", aggregates=[sf.Units(), Regulars()], **self.OPTIONS)
        assert list(table.columns)[:6] == ["page", "units", "units_low", "units_high", "units_deviation", "regulars"]
        assert abs(table.rows[0]["regulars"] - 100) < 20
        assert table.statement["parameters"]["statistics"][1] == {"statistic": "regulars"}

    def test_the_row_is_all_that_the_command_line_needs(self, monkeypatch):
        """The options are made from the table when the modules are loaded: they are loaded once more, beside them."""
        monkeypatch.setitem(sys.modules, "sfumato.cli.release_options", loaded_again("sfumato.cli.release_options"))
        commands = loaded_again("sfumato.cli.release")
        asked = "aggregate rows.parquet --unit person --key page --max-keys 2 --rho 100 --delta 1e-6 --regulars"
        result = CliRunner().invoke(commands.release, [*asked.split(), "--out", "out.parquet", "--json"])
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["statement"]["columns"][1]["statistic"] == "regulars"

    def test_the_how_to_page_lists_every_statistic(self):
        page = (Path(__file__).parents[1] / "docs" / "how-to" / "publish-a-table.md").read_text()
        listed = [line.split("`")[1].split()[0] for line in page.splitlines() if line.startswith("| `--")]
        assert listed == [f"--{name}" for name in STATISTICS if name != "regulars"]


def test_a_store_keeps_books(tmp_path):
    store = ToyStore.at("memory:", tmp_path)
    store.open()
    with Ledger(store, lambda identity: FileFence(tmp_path / "fence")) as ledger:
        settled = answer(ledger, top())
        assert settled.body
        assert spent(ledger) > NOTHING
        before = spent(ledger)
        answer(ledger, top())
        assert spent(ledger) == before
