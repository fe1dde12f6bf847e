"""What a version costs: paid once per version, and the receipt says when the next one begins."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest

from sfumato.accounting import NOTHING
from sfumato.query.request import TopK
from tests.helpers.worlds import NOW, new_world

ARTICLES = TopK("engagements", "article", "members", k=5)


def test_what_is_fixed_is_paid_for_once(tmp_path: Path) -> None:
    world = new_world(tmp_path / "world", version='"fixed"')
    with world.open() as session:
        first = session.ask(ARTICLES, analyst="anna")
        assert (first.receipt.data_version, first.receipt.pays_again) == ("fixed", None)
        assert "pays_again" not in first.to_dict()["receipt"]
        assert first.lines()["data"] == "version fixed"
    world.write_rows(seed=2)
    with world.open(NOW + timedelta(days=4000)) as session:
        again = session.ask(ARTICLES, analyst="anna")
        assert (again.receipt.repeat, again.receipt.charge, again.rows) == (True, NOTHING, first.rows)


@pytest.mark.parametrize(
    ("version", "day", "words"),
    [
        ("daily", date(2026, 11, 16), "16 November"),
        ("weekly", date(2026, 11, 16), "16 November"),
        ("monthly", date(2026, 12, 1), "1 December"),
    ],
)
def test_the_receipt_says_from_when_on_it_costs_again(tmp_path: Path, version: str, day: date, words: str) -> None:
    """And it does: not a moment before, and then as much."""
    world = new_world(tmp_path / "world", version=f'"{version}"')
    with world.open() as session:
        first = session.ask(ARTICLES, analyst="anna")
        assert first.receipt.pays_again == day
        assert first.lines()["data"].endswith(f"; asked again from {words} on, this costs again")
        assert type(first).from_dict(first.to_dict()) == first
    days = (day - NOW.date()).days
    midnight = NOW.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=days)
    with world.open(midnight - timedelta(microseconds=1)) as session:
        assert session.ask(ARTICLES, analyst="anna").receipt.repeat
        assert session.recall(first.receipt.digest, analyst="anna") == first
    with world.open(midnight) as session:
        again = session.ask(ARTICLES, analyst="anna")
        assert (again.receipt.repeat, again.receipt.charge) == (False, first.receipt.charge)
        assert session.recall(first.receipt.digest, analyst="anna").receipt.pays_again == day


def test_it_is_not_stored_with_the_answer(tmp_path: Path) -> None:
    world = new_world(tmp_path / "world", version='"daily"')
    with world.open() as session:
        session.ask(ARTICLES, analyst="anna")
        assert session.questions("anna").rows
    assert "pays_again" not in repr(world.tables())


def test_what_the_owner_names_never_costs_again_by_itself(tmp_path: Path) -> None:
    with new_world(tmp_path / "world", version='{ value = "daily 2026-11-15" }').open() as session:
        assert session.ask(ARTICLES, analyst="anna").receipt.pays_again is None
