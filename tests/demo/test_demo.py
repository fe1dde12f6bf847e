"""The demo: the service on generated people, and answers over HTTP in which no exact count can be found."""

from __future__ import annotations

import io
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import httpx2
import pytest
from rich.console import Console

from sfumato.accounting import NOTHING, Charge
from sfumato.cli.demo import wait_for_stop
from sfumato.cli.terminal.demo import print_demo, print_invitation
from sfumato.client import Client
from sfumato.config import load_config
from sfumato.demo import demo, sample
from sfumato.errors import Failed, InvalidArgument, NotFound
from sfumato.explain.buying import plan_budget
from sfumato.ledger import open_ledger
from sfumato.ledger.api_keys import ApiKeys
from sfumato.session import Session

pytestmark = pytest.mark.slow  # the whole demo

MEMBERS = 40_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def finished(folder: Path) -> demo.Demo:
    return demo.run(MEMBERS, folder)


def exact(folder: Path, sql: str) -> dict[object, int]:
    with duckdb.connect(folder / "demo.duckdb", read_only=True) as connection:
        plain = sql.replace("members", "COUNT(DISTINCT member_id)")
        return dict(connection.execute(plain).fetchall())


def test_counts_are_noisy_but_near(folder: Path, finished: demo.Demo) -> None:
    """sigma is 13.3: a row is exact by chance once in 33 times, four of them once in a million."""
    errors = []
    for words, answer in finished.answers.items():
        counts = exact(folder, demo.QUESTIONS[words].split(" LIMIT")[0])
        errors += [row["members"] - counts[next(iter(row.values()))] for row in answer.rows]
    assert len(errors) >= 4
    assert any(errors)
    assert all(abs(error) < 8 * 13.4 for error in errors)


@pytest.mark.slow
def test_noise_is_fresh_in_every_run() -> None:
    """Three counts with sigma = 13.3 agree in two runs once in 100,000 times."""
    first, second = (list(demo.run(100).answers.values())[2].rows for _ in range(2))
    assert first != second


def test_the_first_question_again_is_free_and_more_of_it_pays_the_difference(finished: demo.Demo) -> None:
    first, *_, again, longer = finished.answers.values()
    assert again.rows == first.rows
    assert again.receipt.charge == NOTHING
    assert again.receipt.repeat
    assert longer.rows[: len(first.rows)] == first.rows
    assert longer.receipt.charge.calls == 0


def test_what_is_spent_adds_up_to_what_is_left(finished: demo.Demo) -> None:
    spent = NOTHING
    for answer in finished.answers.values():
        spent += answer.receipt.charge
        assert answer.receipt.left == Charge(320, 320) - spent
    own, cap = finished.report.accounts
    assert (own.spent, own.left) == (spent, Charge(320, 320) - spent)
    # The cap pays for the worst case of every question, and for the table that was published.
    assert cap.account == "table:engagements"
    assert cap.spent == Charge(21 + 1 + 1 + 4, 2) + Charge(18, 10)


def test_its_budgets_are_those_that_init_writes(folder: Path, finished: demo.Demo) -> None:
    budgets = load_config(folder / "sfumato.toml").budgets
    assert budgets == dict.fromkeys(("partner", "everyone"), plan_budget(8).budget)


def test_the_report_costs_nothing_and_says_what_it_promises(finished: demo.Demo) -> None:
    report = finished.numbers
    assert {row["region"] for row in report.rows} <= {"emea", "apac", "amer"}
    assert 0 < len(report.rows) <= 21  # numbers below 3 are not shown
    assert report.receipt.charge == NOTHING
    assert report.receipt.guarantee == {"epsilon": 3.0, "unit": "event"}


def test_the_report_is_a_tree_of_three_levels_with_numbers_that_are_too_small(
    folder: Path, finished: demo.Demo
) -> None:
    """The last article of a topic has next to no reads: noise alone shows a number once in five times."""
    with Session(folder / "sfumato.toml") as session:
        info = session.describe_report("reading", analyst="anna")
        assert (list(info.entities), info.min_count) == (["desk", "topic", "article"], 3)
        rare = session.report(
            {**demo.READS, **demo.DAYS, "entity": {"article": sample.article_names()[124]}}, analyst="anna"
        )
        assert len(rare.rows) < 21
        by_desk = {**demo.DAYS, "statistics": "reads", "granularity": "all"}
        assert session.report({**by_desk, "entity": {"desk": "marketing"}}, analyst="rita").rows
        with pytest.raises(NotFound):
            session.report({**by_desk, "entity": {"desk": "law"}}, analyst="rita")


def test_a_demo_that_was_kept_can_be_asked_on(folder: Path, finished: demo.Demo) -> None:
    with Session(folder / "sfumato.toml") as session:
        assert session.ask(demo.TOP.format(10), analyst="anna").receipt.repeat
        assert session.report({**demo.READS, **demo.DAYS}, analyst="anna").rows == finished.numbers.rows
    with pytest.raises(InvalidArgument, match="holds a demo already"):
        demo.run(MEMBERS, folder)


def test_the_object_has_the_shape_of_an_answer(finished: demo.Demo) -> None:
    serial = finished.to_dict()
    answer = serial["answers"][0]
    assert {"question", "rows", "stopped", "receipt", "notes"} <= set(answer)
    assert answer["receipt"]["error95"] == {"members": 26}
    assert answer["rows"][0].keys() == {"article", "members"}
    assert [note["code"] for note in answer["notes"]] == ["small-groups-absent"]
    [source] = serial["guarantee"]["sources"]
    assert source["questions"]["period"] == {"epsilon": 8.0, "delta": 1e-7, "wins": 0.9997}
    assert source["unbounded"] == ["events"]  # the report counts events, of which a member may have any number


def page(finished: demo.Demo, width: int, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding, newline="\n") as file:
        print_demo(finished, Console(file=file, width=width, highlight=False))
        file.flush()
        return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("width", [80, 120])
def test_the_page_fits_and_holds_every_row(finished: demo.Demo, width: int) -> None:
    text = page(finished, width)
    assert max(map(len, text.splitlines())) <= width
    assert not re.search(r"[^\n -~±█▉▊▋▌▍▎▏░]", text)
    for answer in finished.answers.values():
        for row in answer.rows:
            key, count = row.values()
            assert re.search(rf"^  {key} +{count:,}  ± 26", text, re.MULTILINE)


def test_the_page_can_be_told_in_ascii(finished: demo.Demo) -> None:
    text = page(finished, 80, "ascii")
    assert "+/- 26" in text
    assert "##" in text


def test_the_page_says_what_the_budget_promises_and_where_to_go_on(folder: Path, finished: demo.Demo) -> None:
    words = " ".join(page(finished, 200).split())
    assert "moves any conclusion by at most epsilon = 8.00, delta = 1e-07" in words
    assert "groups below a noisy threshold are absent" in words
    assert f"sfumato ask --config {folder / 'sfumato.toml'}" in words


def test_an_empty_list_is_explained() -> None:
    assert "No group stands out of the noise" in page(demo.run(100), 80)


def test_the_service_answers_while_the_block_lasts_and_not_after() -> None:
    with demo.start_demo(100) as asked:
        pages = httpx2.get(f"{asked.service.url}/sign-in")
        assert (pages.status_code, "Your key" in pages.text) == (200, True)
        docs = httpx2.get(f"{asked.service.url}/docs")
        with Client(asked.service.url, asked.service.key, retries=0) as client:
            again = client.ask(demo.TOP.format(10))
    assert docs.status_code == 200
    assert again.receipt.repeat
    with Client(asked.service.url, asked.service.key, retries=0) as client, pytest.raises(Failed):
        client.budget()
    assert not [thread for thread in threading.enumerate() if thread.name == "service"]


def test_a_port_that_is_taken_is_left_alone() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with demo.open_socket(*other.getsockname()) as bound:
            assert bound.getsockname() != other.getsockname()


def test_the_key_of_a_demo_that_was_kept_lasts_a_day(folder: Path, finished: demo.Demo) -> None:
    config = load_config(folder / "sfumato.toml")
    with open_ledger(config.ledger, config.folder) as ledger:
        keys = ApiKeys(ledger).list()
    assert {key.analyst: key.role for key in keys} == {"anna": "analyst", "rita": "reader", "omar": "owner"}
    for key in keys:
        assert finished.service.keys[key.analyst].startswith(key.prefix)
        assert key.expires is not None
        assert key.expires - key.created == demo.KEY_LASTS


@pytest.mark.parametrize("missing", ["uvicorn", "pyspark"])
def test_what_is_missing_is_told_at_once_and_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None if name == missing else name)
    for engine, extras in ("duckdb", "service,client"), ("spark", "service,client,spark"):
        if engine == "spark" or missing == "uvicorn":
            with (
                pytest.raises(ModuleNotFoundError, match=rf"^the demo needs: pip install 'sfumato\[{extras}\]'$"),
                demo.start_demo(100, tmp_path / "shop", engine),
            ):
                pass
    assert list(tmp_path.iterdir()) == []


def test_the_key_stands_in_the_invitation_only(finished: demo.Demo) -> None:
    """What a run that ends prints is no secret; what one that stays up prints can be copied whole."""
    assert not any(key in page(finished, 200) + str(finished.to_dict()) for key in finished.service.keys.values())
    told = io.StringIO()
    print_invitation(finished.service, Console(file=told, width=40, highlight=False))
    lines = told.getvalue().splitlines()
    assert f"  pages {finished.service.url} (sign in with one of the keys, which last a day)" in lines
    for name, what in (("anna", "(analyst: asks)"), ("rita", "(reader: her "), ("omar", "(owner: who")):
        assert [line for line in lines if line.startswith(f"  {name}  {finished.service.keys[name]} {what}")]
    assert f"  docs  {finished.service.url}/docs" in lines
    assert f"  ask   {finished.service.curl}" in lines


def test_it_waits_for_an_interrupt() -> None:
    """The handler of before is back afterwards."""
    before = signal.getsignal(signal.SIGINT)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    wait_for_stop()
    timer.join()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_the_command_stays_up_until_it_is_stopped(stop: signal.Signals, tmp_path: Path) -> None:
    command = [Path(sys.executable).with_name("sfumato"), "demo", "--members", "2000"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8"}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        lines = []
        while not lines or not lines[-1].startswith("Ctrl-C"):
            lines.append(process.stdout.readline())
            assert lines[-1], process.stderr.read()
        [ask] = [line.split(maxsplit=1)[1] for line in lines if line.startswith("  ask ")]
        _, url, _, header, _, body = shlex.split(ask)
        name, _, value = header.partition(": ")
        answer = httpx2.post(url, headers={name: value}, content=body)
        process.send_signal(stop)
        stdout, stderr = process.communicate(timeout=60)
    assert (answer.status_code, answer.json()["rows"][0].keys()) == (200, {"job_title", "members"})
    assert (process.returncode, stdout, stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []
