"""What asking through an engine must keep: DuckDB's bytes, refusals of one sentence, and charges only for questions."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import duckdb
import pytest
from click.testing import CliRunner

import sfumato as sf
from sfumato.cli import main
from sfumato.config.engines import ENGINES
from sfumato.engines import engine_class
from sfumato.engines.base import COULD_NOT_ANSWER
from sfumato.ledger import tables as ledger_tables
from tests.helpers.worlds import World, new_world, spent

COLUMNS: Mapping[str, str] = {
    "member_id": "integer",
    "article": "text",
    "job_title": "text",
    "region": "text",
    "market": "text",
    "day": "date",
    "n": "integer",
}
QUESTIONS: tuple[sf.TopK | sf.Histogram | sf.Total, ...] = (
    sf.TopK("engagements", "article", "members", k=10),
    sf.TopK("engagements", "job_title", "visits", k=3, where={"region": ["emea", "apac"]}),
    sf.TopK("engagements", ["market", "day"], "shares", k=5, where={"day": {"ge": "2026-11-05"}}),
    sf.Histogram("engagements", "region", "members"),
    sf.Histogram("engagements", "job_title", "shares"),
    sf.Total("engagements", "visits", where={"not": {"article": "article-0"}}),
)
LOCAL = 'type = "duckdb"\ndatabase = "rows.duckdb"\n'


def command(world: World, *arguments: str) -> tuple[int, str]:
    """The exit code of a command, and what it says."""
    result = CliRunner().invoke(main, [*arguments, "--config", str(world.path)])
    return result.exit_code, result.output


class AskContract:
    """An engine's test says where rows are put, and how the engine is made to fail."""

    dead: ClassVar[str] = ""
    """The lines of an engine whose address does not answer; "" where it has none."""

    extra: ClassVar[str] = ""
    modules: ClassVar[Sequence[str]] = ()
    """What the engine cannot be opened without, and which extra has it."""

    settings: str

    def settle(self, rows: list[tuple[Any, ...]]) -> tuple[str, str]:
        """The lines of `[engines.local]`, and the source, of a table with these rows and `COLUMNS`."""
        raise NotImplementedError

    def unsettle(self, source: str) -> None:
        """Take the table away."""
        raise NotImplementedError

    @pytest.fixture
    def place(self, tmp_path) -> Iterator[tuple[World, str]]:
        """A world whose table is in the engine, and its source."""
        world = new_world(tmp_path / "there")
        with duckdb.connect(str(world.database), read_only=True) as rows:
            self.settings, source = self.settle(rows.execute("SELECT * FROM engagements").fetchall())
        text = world.path.read_text().replace(LOCAL, self.settings + "\n")
        world.path.write_text(text.replace('source = "engagements"', f'source = "{source}"'))
        world.database.unlink()
        return world, source

    def answers(self, world: World, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
        """What is stored, with nonces that follow one another, and one name for the place of the rows."""
        numbers = itertools.count()
        for kind in ENGINES:
            if kind in world.path.read_text():
                monkeypatch.setattr(engine_class(kind), "origin", classmethod(lambda *_: "here"))
        following = SimpleNamespace(urandom=lambda size: next(numbers).to_bytes(size, "big"))
        monkeypatch.setattr(ledger_tables, "os", following)
        with world.open() as session:
            for question in QUESTIONS:
                assert session.ask(question, analyst="anna").rows
        return world.tables()["answers"]

    def test_what_is_stored_has_the_bytes_of_duckdb(self, place, tmp_path, monkeypatch):
        world, _ = place
        expected = self.answers(new_world(tmp_path / "here"), monkeypatch)
        assert len(expected) >= len(QUESTIONS)
        for found, stored in zip(self.answers(world, monkeypatch), expected, strict=True):
            assert found == stored

    def test_an_engine_that_cannot_answer_keeps_what_was_reserved_and_may_be_asked_again(self, place):
        world, source = place
        with world.open() as session:
            session.ask(QUESTIONS[0], analyst="anna")
            before = spent(session, "anna")
            self.unsettle(source)
            for _ in range(2):
                with pytest.raises(sf.EngineFailed) as failure:
                    session.ask(QUESTIONS[3], analyst="anna")
                assert str(failure.value) == COULD_NOT_ANSWER
            assert spent(session, "anna") == before
            assert session.ask(QUESTIONS[0], analyst="anna").rows  # it is stored

    def test_what_is_wrong_with_the_set_up_is_one_sentence_and_free(self, place):
        world, source = place
        good = world.path.read_text()
        for old, new, code in (
            ('\ntype = "', '\ntype = "x', 2),
            (f'source = "{source}"', 'source = "no such"', 4),
        ):
            world.path.write_text(good.replace(old, new, 1))
            found, said = command(world, "policy", "check")
            assert found == code, said
            assert "Traceback" not in said
            with pytest.raises(sf.SfumatoError):
                world.open().ask(QUESTIONS[0], analyst="anna")
        world.path.write_text(good)
        with world.open() as session:
            assert spent(session, "anna") == sf.Charge(0, 0)

    def test_what_it_is_not_known_to_compute_is_refused_with_a_way_out_and_free(self, place):
        world, _ = place
        with world.open() as session:
            for door in (session.ask, session.estimate):
                with pytest.raises(
                    sf.NotSupported, match=r"is not known to compute upper as .*; ask the owner for a view"
                ):
                    door("SELECT upper(article), members FROM engagements GROUP BY 1 LIMIT 5", analyst="anna")
            assert spent(session, "anna") == sf.Charge(0, 0)

    def test_an_address_that_does_not_answer_is_one_sentence(self, place):
        world, _ = place
        if not self.dead:
            return
        world.path.write_text(world.path.read_text().replace(self.settings, self.dead))
        code, said = command(world, "policy", "check")
        assert (code, "Traceback" in said) == (4, False), said
        with pytest.raises(sf.EngineFailed) as failure:
            world.open().ask(QUESTIONS[0], analyst="anna")
        assert failure.value.__context__ is None

    def test_without_its_driver_it_says_what_to_install(self, place, monkeypatch):
        world, _ = place
        for module in self.modules:
            with monkeypatch.context() as patch:
                patch.setitem(sys.modules, module, None)  # importing it fails
                code, said = command(world, "policy", "check")
            assert code == 2, said
            assert f"pip install 'sfumato[{self.extra}]'" in " ".join(said.split())
            assert "Traceback" not in said
