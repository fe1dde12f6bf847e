"""A ledger of an earlier version opens, adds up and goes on: nothing that was spent, drawn or sealed is lost.

The tests copy the ledger of `ledger/`. Each looks at one thing that has to survive.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import sfumato as sf
from sfumato.cli import main
from tests.golden import story, subjects
from tests.golden.comparing import differences, recorded, texts, without_notes

TOLD = recorded("ledger")

# What was asked under which name, and by whom.
ASKED: dict[str, tuple[Any, str]] = {
    "top": (story.TOP, "anna"),
    "longer": (story.LONGER, "anna"),
    "without counts": (story.WITHOUT_COUNTS, "anna"),
    "regions": (story.REGIONS, "anna"),
    "regions of ben": (story.REGIONS, "ben"),
    "titles": (story.TITLES, "ben"),
    "markets": (story.MARKETS, "ben"),
}
# The mechanisms of these questions are others by now: what was stored stays, and asking again is another question.
CHANGED = {"titles": "threshold_gaussian", "markets": "known_gaussian"}
# What the moment adds to an answer.
MOMENT = ("charge", "left", "resets", "repeat")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return story.copy_world(tmp_path, ledger=True)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Session]:
    """For tests that add nothing to the ledger."""
    with story.opened(story.copy_world(tmp_path_factory.mktemp("golden"), ledger=True)) as session:
        yield session
        assert session.ledger.verify() == []


def lasting(answer: dict[str, Any]) -> str:
    """The bytes of an answer that never change."""
    receipt = {name: value for name, value in answer["receipt"].items() if name not in MOMENT}
    return json.dumps({**without_notes(answer), "receipt": receipt}, sort_keys=True)


def test_the_books_add_up(session: sf.Session):
    assert session.ledger.verify() == []


def test_the_command_line_says_so_too(folder: Path):
    ran = CliRunner().invoke(main, ["budget", "verify", "--config", str(folder / "sfumato.toml"), "--json"])
    assert ran.exit_code == 0, ran.output


def test_what_was_spent_and_is_left(session: sf.Session):
    assert not differences(story.standing(session), TOLD["standing"])


@pytest.mark.parametrize("name", ASKED)
def test_an_answer_is_recalled_with_its_first_receipt(name: str, session: sf.Session):
    before, (_, analyst) = TOLD["answers"][name], ASKED[name]
    answer = session.recall(before["receipt"]["digest"], analyst=analyst)
    found = answer.to_dict()
    assert answer.receipt.visible is None  # what answers said later is not put into earlier ones
    assert not differences(without_notes(found), without_notes(before))
    assert texts(found["notes"]) == texts(before["notes"])


@pytest.mark.parametrize("name", [name for name in ASKED if name not in CHANGED])
def test_a_repeat_is_free_and_the_same_byte_for_byte(name: str, session: sf.Session):
    before, (question, analyst) = TOLD["answers"][name], ASKED[name]
    found = session.ask(question, analyst=analyst).to_dict()
    assert lasting(found) == lasting(before)
    assert texts(found["notes"]) == texts(before["notes"])
    assert (found["receipt"]["charge"], found["receipt"]["repeat"]) == (sf.Charge().to_dict(), True)
    assert not differences(story.standing(session), TOLD["standing"])


@pytest.mark.parametrize("name", CHANGED)
def test_a_question_with_another_mechanism_by_now_is_a_new_one(name: str, folder: Path):
    before, (question, analyst) = TOLD["answers"][name], ASKED[name]
    with story.opened(folder) as session:
        found = session.ask(question, analyst=analyst)
        assert found.receipt.mechanism == CHANGED[name] != before["receipt"]["mechanism"]
        assert found.receipt.digest != before["receipt"]["digest"]
        assert found.receipt.charge
        assert session.ledger.verify() == []


def test_a_call_gives_what_it_gave(session: sf.Session):
    found = session.ask(story.MARKETS, analyst="ben", call=subjects.call(*story.CALL)).to_dict()
    assert not differences(without_notes(found), without_notes(TOLD["answers"]["markets"]))
    with pytest.raises(sf.Conflict):
        session.ask(story.MARKETS, analyst="ben", call=subjects.call(story.CALL[0], b"another body"))


def test_reports_are_served_from_what_is_stored(folder: Path):
    story.empty(folder / "ads.csv")
    with story.opened(folder) as session:
        reports = story.report(session)
    for name, found in reports.items():
        before = TOLD["reports"][name]
        assert lasting(found) == lasting(before)
        assert texts(found["notes"]) == texts(before["notes"])
        assert found["receipt"]["repeat"]


def test_a_key_opens_the_door(session: sf.Session):
    assert subjects.found_key(session, TOLD["key"]) == TOLD["known of the key"]
    assert subjects.found_key(session, TOLD["key"][:-1] + "L") is None


def test_a_release_is_known_by_its_name(folder: Path):
    with subjects.fixed_world():
        story.empty(folder / "ads.csv")
        assert not differences(subjects.released(story.release(folder)), TOLD["release"])
        with pytest.raises(sf.Conflict):
            story.release(folder, rho=4)
    with story.opened(folder) as session:
        assert session.ledger.verify() == []


def test_what_was_open_is_finished_and_new_questions_are_answered(folder: Path):
    before = TOLD["later"]
    found = story.go_on(folder)
    assert not differences(without_notes(found), without_notes(before))
    with story.opened(folder) as session:
        assert session.ledger.verify() == []


def test_an_older_copy_is_noticed(folder: Path):
    story.set_back(folder)
    with pytest.raises(sf.LedgerFailed):
        story.opened(folder)


def test_charges_from_before_have_no_question_and_new_ones_have(folder: Path):
    with story.opened(folder) as session:
        assert {(row.request, row.sql) for row in session.charges("anna").rows} == {(None, None)}
        answer = session.ask(story.NEW, analyst="anna")
        row = session.charges("anna").rows[0]
        assert (row.digest, row.request) == (
            answer.receipt.digest,
            {
                "type": "top_k",
                "table": "visits",
                "measure": "people",
                "where": {},
                "by": ["region", "title"],
                "k": 2,
                "counts": True,
            },
        )
        assert row.sql == "SELECT region, title, people FROM visits GROUP BY region, title ORDER BY people DESC LIMIT 2"
        assert session.ledger.verify() == []
