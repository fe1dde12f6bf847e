"""`sfumato keys`: made once, listed without the key, revoked for good."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sfumato.cli import main
from sfumato.config import load_config
from sfumato.ledger import open_ledger
from sfumato.ledger.api_keys import ApiKey, ApiKeys
from sfumato.wire import KeyRow

CONFIG = """
[ledger]
url = "sqlite:books/ledger.db"
[budgets.partner]
epsilon_per = 0.15
delta_per = 1e-10
information = 100
calls = 3
[analysts.anna]
budget = "partner"
[analysts.olga]
budget = "partner"
role = "owner"
"""


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a configuration and neither a table nor a noise key, which is the working one."""
    for name in [name for name in os.environ if name.startswith("SFUMATO_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")
    folder = tmp_path / "shop"
    (folder / "books").mkdir(parents=True)
    (folder / "sfumato.toml").write_text(CONFIG, "utf-8")
    monkeypatch.chdir(folder)
    return folder


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ("keys", *arguments))


def run_page(*arguments: str) -> str:
    result = invoke(*arguments)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout


def run_json(*arguments: str, code: int = 0) -> Any:
    result = invoke(*arguments, "--json")
    assert (result.exit_code, result.stderr) == (code, ""), result.output
    return json.loads(result.stdout)


def run_error(*arguments: str, code: int) -> str:
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    return result.stderr


def find_key(text: str, days: float = 0) -> ApiKey | None:
    """The key as the service would find it, some days from now."""
    settings = load_config("sfumato.toml")
    with open_ledger(settings.ledger, settings.folder) as ledger:
        return ApiKeys(ledger).find(text, datetime.now(UTC) + timedelta(days=days))


def words(page: str) -> str:
    return " ".join(page.split())


class TestCreate:
    def test_json(self) -> None:
        made = run_json("create", "--analyst", "anna")
        assert list(made)[:2] == ["key", "id"]
        assert made.keys() == {"key", "id", "prefix", "analyst", "role", "created", "expires", "revoked"}
        assert (made["analyst"], made["role"], made["expires"], made["revoked"]) == ("anna", "analyst", None, None)
        key = find_key(made["key"], days=10_000)
        assert key is not None
        assert {"key": made["key"], **KeyRow.of_key(key).to_dict()} == made

    def test_for_people(self) -> None:
        page = run_page("create", "--analyst", "anna")
        [text] = re.findall(r"^  (sfumato_\S{43})$", page, re.MULTILINE)
        key = find_key(text)
        assert key is not None
        assert words(page).startswith("A key for anna, role analyst, valid until it is revoked:")
        assert "It is not shown again" in words(page)
        assert page.endswith(f"To end it: sfumato keys revoke {key.id}\n")

    def test_the_key_is_not_broken_by_a_narrow_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COLUMNS", "30")
        [text] = re.findall(r"^  (sfumato_\S{43})$", run_page("create", "--analyst", "anna"), re.MULTILINE)
        assert find_key(text)

    @pytest.mark.parametrize(
        ("arguments", "role"),
        [
            (("--analyst", "olga"), "owner"),
            (("--analyst", "olga", "--role", "analyst"), "analyst"),
            (("--analyst", "anna", "--role", "auditor"), "auditor"),
        ],
    )
    def test_the_role_is_the_analysts_unless_another_is_written(self, arguments: tuple[str, ...], role: str) -> None:
        assert run_json("create", *arguments)["role"] == role

    def test_a_day_is_valid_to_its_end(self) -> None:
        assert run_json("create", "--analyst", "anna", "--expires", "2999-12-31")["expires"].startswith(
            "3000-01-01T00:00"
        )
        assert "valid until 3000-01-01 00:00 UTC" in words(
            run_page("create", "--analyst", "anna", "--expires", "2999-12-31")
        )

    @pytest.mark.parametrize(("length", "days"), [("30d", 30), ("12h", 0.5), ("1h", 1 / 24)])
    def test_how_long(self, length: str, days: float) -> None:
        text = run_json("create", "--analyst", "anna", "--expires", length)["key"]
        assert find_key(text, days - 0.01)
        assert find_key(text, days + 0.01) is None

    @pytest.mark.parametrize("expires", ["2020-01-01", "0d", "0h"])
    def test_the_past_is_refused(self, expires: str) -> None:
        problem = run_json("create", "--analyst", "anna", "--expires", expires, code=2)
        assert problem["detail"] == "expires: is in the past: the key would never be valid"
        assert run_json("list") == {"rows": []}

    @pytest.mark.parametrize("expires", ["", "soon", "2026-02-30", "2026-12-31T10:00", "30", "-1d", "1.5d", "999999d"])
    def test_other_spellings_are_usage_errors(self, expires: str) -> None:
        assert "30d, 12h" in run_error("create", "--analyst", "anna", "--expires", expires, code=2)

    def test_an_unknown_analyst_is_refused_with_the_nearest(self) -> None:
        line = run_error("create", "--analyst", "ana", code=3)
        assert line == "sfumato: Not found: there is no analyst 'ana'; did you mean anna?\n"
        assert run_json("create", "--analyst", "ana", code=3)["type"] == "/problems/not-found"

    def test_an_unknown_role_is_a_usage_error(self) -> None:
        assert "--role" in run_error("create", "--analyst", "anna", "--role", "root", code=2)

    def test_an_analyst_is_needed(self) -> None:
        assert "--analyst" in run_error("create", code=2)


class TestList:
    def test_none(self) -> None:
        assert words(run_page("list")) == "There are no keys. To make one: sfumato keys create --analyst NAME"
        assert run_json("list") == {"rows": []}

    def test_json(self) -> None:
        made = [run_json("create", "--analyst", name) for name in ("anna", "olga", "anna")]
        run_json("revoke", made[2]["id"])
        rows = run_json("list")["rows"]
        assert [(row["id"], row["state"]) for row in rows] == [
            *((made[0]["id"], "valid"), (made[1]["id"], "valid"), (made[2]["id"], "revoked")),
        ]
        assert not any(key["key"][12:] in json.dumps(rows) for key in made)
        assert [row["id"] for row in run_json("list", "--analyst", "anna")["rows"]] == [made[0]["id"], made[2]["id"]]

    def test_for_people(self) -> None:
        made = [
            run_json("create", "--analyst", "anna", "--expires", "2999-12-31"),
            run_json("create", "--analyst", "olga"),
        ]
        run_json("revoke", made[1]["id"])
        page = run_page("list")
        assert page.splitlines()[0].split() == ["id", "key", "analyst", "role", "made", "state"]
        assert max(map(len, page.splitlines())) <= 80
        for key in made:
            assert key["id"] in page
            assert key["prefix"] in page
            assert key["key"] not in page
        assert page.splitlines()[1].rstrip().endswith("until 2999-12-31")
        assert f"revoked {datetime.now(UTC):%Y-%m}" in page

    def test_an_unknown_analyst_is_refused(self) -> None:
        assert "did you mean anna?" in run_error("list", "--analyst", "ana", code=3)

    def test_keys_of_somebody_who_left_are_listed(self, shop: Path) -> None:
        made = run_json("create", "--analyst", "olga")
        text = (shop / "sfumato.toml").read_text("utf-8").replace("olga", "otto")
        (shop / "sfumato.toml").write_text(text, "utf-8")
        assert [row["id"] for row in run_json("list", "--analyst", "olga")["rows"]] == [made["id"]]


class TestRevoke:
    def test_a_revoked_key_is_not_found(self) -> None:
        made = run_json("create", "--analyst", "anna")
        assert find_key(made["key"])
        page = run_page("revoke", made["id"])
        assert words(page).startswith(f"Revoked {made['id']}, a key of anna: it has not been valid since ")
        assert find_key(made["key"]) is None

    def test_again_says_the_same(self) -> None:
        made = run_json("create", "--analyst", "anna")
        first = run_json("revoke", made["id"])
        assert first["revoked"] is not None
        assert run_json("revoke", made["id"]) == first

    def test_an_unknown_id_is_refused_with_the_nearest(self) -> None:
        made = run_json("create", "--analyst", "anna")
        line = run_error("revoke", made["id"][1:], code=3)
        assert f"did you mean {made['id']}?" in line
        assert "there is no key with the id" in run_error("revoke", "nonsense", code=3)

    def test_the_key_itself_is_not_told_back(self) -> None:
        made = run_json("create", "--analyst", "anna")
        line = run_error("revoke", made["key"], code=3)
        assert made["key"] not in line
        assert "`sfumato keys list`" in line
        assert find_key(made["key"])


@pytest.mark.parametrize("command", ["create", "list", "revoke"])
def test_help_fits_and_shows_an_example(command: str) -> None:
    shown = run_page(command, "--help")
    assert f"sfumato keys {command}" in shown.partition("\n")[2]
    assert "--json" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_only_the_ledger_is_made(shop: Path) -> None:
    run_json("create", "--analyst", "anna")
    assert {path.name for path in shop.iterdir()} == {"books", "sfumato.toml"}
