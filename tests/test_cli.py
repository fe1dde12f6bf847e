"""The command line: what it prints where, and with which exit code it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import sfumato
from sfumato import demo
from sfumato.accounting import Charge
from sfumato.cli import main


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_version() -> None:
    assert invoke("--version").stdout == f"sfumato, version {sfumato.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [((), ["demo", "--version", "Exit codes"]), (("demo",), ["--members", "--once", "--json", "200000"])],
)
def test_help(arguments: tuple[str, ...], words: list[str]) -> None:
    shown = invoke(*arguments, "--help")
    assert shown.exit_code == 0
    assert [word for word in words if word not in shown.stdout] == []


def test_json_is_one_object_and_nothing_else() -> None:
    told = invoke("demo", "--members", "5000", "--json")
    assert (told.exit_code, told.stderr) == (0, "")
    answers = json.loads(told.stdout)["answers"]
    assert [answer["receipt"]["mechanism"] for answer in answers] == [
        "unknown_gumbel",
        "unknown_gaussian",
        "known_gaussian",
    ]
    left = Charge.from_dict(answers[-1]["receipt"]["left"])
    charges = [Charge.from_dict(answer["receipt"]["charge"]) for answer in answers]
    assert left + charges[0] + charges[1] + charges[2] == demo.CAP


def test_a_senseless_argument_is_one_line_on_stderr() -> None:
    told = invoke("demo", "--members", "0")
    assert (told.exit_code, told.stdout) == (2, "")
    assert told.stderr == "sfumato: Invalid argument: members: must be at least 1\n"


def test_a_senseless_argument_is_a_problem_in_json() -> None:
    told = invoke("demo", "--members", "0", "--json")
    assert (told.exit_code, told.stderr) == (2, "")
    assert json.loads(told.stdout) == {
        "type": "invalid-argument",
        "title": "Invalid argument",
        "detail": "members: must be at least 1",
    }


def test_a_refusal_is_one_line_on_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "CAP", Charge(20, 30))
    told = invoke("demo", "--members", "100")
    assert (told.exit_code, told.stdout) == (3, "")
    assert told.stderr.startswith("sfumato: Budget exhausted: this needs 21 units and 1 call")
    assert told.stderr.count("\n") == 1


def test_a_refusal_is_a_problem_in_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "CAP", Charge(20, 30))
    told = invoke("demo", "--members", "100", "--json")
    assert (told.exit_code, told.stderr) == (3, "")
    assert json.loads(told.stdout)["type"] == "budget-exhausted"


@pytest.mark.parametrize("arguments", [("demo", "--members", "many"), ("demo", "--nonsense"), ("nonsense",)])
def test_usage_errors(arguments: tuple[str, ...]) -> None:
    told = invoke(*arguments)
    assert (told.exit_code, told.stdout) == (2, "")
    assert "Usage: " in told.stderr


def test_the_installed_command_ends_by_itself_and_pipes_clean_text() -> None:
    command = Path(sys.executable).with_name("sfumato")
    ended = subprocess.run(  # noqa: S603
        [command, "demo", "--members", "5000", "--once"], capture_output=True, encoding="utf-8", timeout=60, check=True
    )
    assert ended.stderr == ""
    assert "How many members were active in each region" in ended.stdout
    assert "Whatever is asked within this budget of 3000 units and 30 calls" in ended.stdout
    assert not any(character < " " for character in ended.stdout.replace("\n", ""))
