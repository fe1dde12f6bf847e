"""The path of one answer, traced: how many functions it visits, how often it reads the clock and writes JSON.

`docs/explanation/architecture.md` draws this path. Only functions of Sfumato count, each once.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sfumato.query.request import RequestLike, TopK
from sfumato.session import Session
from tests.helpers import adverts
from tests.helpers.tracing import traced
from tests.helpers.worlds import NOW, World, new_world

MAX_FUNCTIONS, MAX_READING = 200, 45
QUESTION = "SELECT article, members FROM engagements GROUP BY article LIMIT 3"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return new_world(tmp_path / "world")


def visited(session: Session, request: RequestLike) -> Counter[str]:
    """What one answer visits, where caches are filled and the question is new."""
    session.ask("SELECT region, members FROM engagements GROUP BY region", analyst="anna")
    seen: Counter[str] = Counter()
    with traced(seen):
        session.ask(request, analyst="anna")
    return seen


def test_one_answer_visits_few_functions(world: World) -> None:
    with world.open() as session:
        seen = visited(session, TopK("engagements", by="article", measure="members", k=3))
    listed = "\n".join(sorted(seen))
    files = {name.partition(":")[0] for name in seen}
    assert len(seen) <= MAX_FUNCTIONS, f"{len(seen)} functions in {len(files)} files\n{listed}"


def test_reading_sql_visits_few_functions_more(world: World) -> None:
    with world.open() as session:
        seen = visited(session, QUESTION)
    assert len(seen) <= MAX_FUNCTIONS + MAX_READING, "\n".join(sorted(seen))


def test_the_clock_is_read_once_per_call(world: World) -> None:
    read: list[datetime] = []

    def clock() -> datetime:
        read.append(NOW)
        return NOW

    with Session(world.folder / "sfumato.toml", clock=clock) as session:
        calls = {
            "ask": lambda: session.ask("SELECT region, members FROM engagements GROUP BY region", analyst="anna"),
            "again": lambda: session.ask(QUESTION, analyst="anna"),
            "estimate": lambda: session.estimate(QUESTION, analyst="anna"),
            "budget": lambda: session.budget("anna"),
            "recall": lambda: session.recall(digest, analyst="anna"),
            "tables": lambda: session.tables("anna"),
            "me": lambda: session.me("anna"),
            "finish": session.finish,
        }
        digest = session.ask(QUESTION, analyst="anna").receipt.digest
        for name, call in calls.items():
            read.clear()
            call()
            assert len(read) == 1, name


def test_the_clock_is_read_once_per_report(tmp_path: Path) -> None:
    read: list[datetime] = []

    def clock() -> datetime:
        read.append(adverts.NOW)
        return adverts.NOW

    world = adverts.new_adverts(tmp_path / "world")
    world.write_config(report="max_versions = 2")
    with world.open(clock) as session:
        calls = {
            "report": lambda: adverts.ask(session, entity={"account": "a0"}, end="2026-01-12"),
            "again": lambda: adverts.ask(session, entity={"account": "a0"}, end="2026-01-12"),
            "reseal": lambda: session.reseal("ads", start="2026-01-10", end="2026-01-12"),
        }
        for name, call in calls.items():
            read.clear()
            call()
            assert len(read) == 1, name


def test_json_is_written_once_and_read_at_most_once_per_store_boundary(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The payload and the answer are two texts in the ledger. Rows go through JSON in no other place."""
    rows: Counter[str] = Counter()

    def counting(name: str, real: Any) -> Any:
        def counted(value: Any, *arguments: Any, **named: Any) -> Any:
            found = real(value, *arguments, **named)
            text = found if isinstance(found, str | bytes) else value
            if isinstance(text, str | bytes) and ('"rows"' in text if isinstance(text, str) else b'"rows"' in text):
                rows[name] += 1
            return found

        return counted

    with world.open() as session:
        monkeypatch.setattr(json, "dumps", counting("written", json.dumps))
        monkeypatch.setattr(json, "loads", counting("read", json.loads))
        from sfumato.wire import base

        encode = counting("written", base._ENCODER.encode)
        monkeypatch.setattr(base, "_ENCODER", type("Encoder", (), {"encode": staticmethod(encode)}))
        decoder = base._decoder

        def counted_decoder(cls: type) -> Any:
            decode = counting("read", decoder(cls).decode)
            return type("Decoder", (), {"decode": staticmethod(decode)})

        monkeypatch.setattr(base, "_decoder", counted_decoder)
        session.ask(QUESTION, analyst="anna")
        assert rows == {"written": 2, "read": 1}  # the payload and the answer; the payload is revealed from its text
        rows.clear()
        session.ask(QUESTION, analyst="anna")
        assert rows == {"read": 1}
