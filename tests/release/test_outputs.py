"""Outputs: every kind of value survives every format, a table appears whole or not at all, and no password is told."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import itertools
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest

from sfumato.errors import Failed, InvalidArgument
from sfumato.release import outputs
from sfumato.release.outputs import base, fingerprint, from_payload, payload, read, target, write
from sfumato.release.outputs import duckdb as duckdb_target
from sfumato.release.outputs.postgres import PostgresTarget
from sfumato.release.table import Released
from tests.helpers import postgres
from tests.helpers.children import start
from tests.release.test_table import EMPTY, FULL, ROWS, counted

pytestmark = pytest.mark.slow

PLACES = ("counts.parquet", "counts.csv", "counts.duckdb#counts")
SMALL = counted(("a", 90), ("b", 80))
OTHER = counted(("c", 70))


def values(released: Released) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in released.rows]


def whole(released: Released) -> set[tuple[Any, ...]]:
    found = {*values(released)}
    assert len(found) == len(released)
    return found


class Places:
    """What every place keeps; `out` is one of them."""

    out: str

    @pytest.mark.parametrize("released", [FULL, EMPTY], ids=["rows", "no rows"])
    def test_what_is_written_is_read(self, released: Released) -> None:
        released.write(self.out)
        found = read(target(self.out))
        assert found.columns == released.columns
        assert [*found.columns] == [*released.columns]
        assert whole(found) == whole(released)
        added = {name: found.statement[name] for name in found.statement.keys() - released.statement.keys()}
        about = {"format": target(self.out).format, "sha256": _sha256(found)}
        about |= {"formulas": "apostrophe/2"} if self.out.endswith(".csv") and len(released) else {}
        assert added == {"rows": len(released), "table": about}
        assert {**found.statement, **released.statement} == found.statement

    def test_what_is_there_stays_unless_it_may_be_replaced(self) -> None:
        SMALL.write(self.out)
        with pytest.raises(InvalidArgument, match="exists"):
            OTHER.write(self.out)
        with pytest.raises(Failed, match="has appeared meanwhile"):
            write(target(self.out), OTHER)
        assert whole(read(target(self.out))) == whole(SMALL)
        OTHER.write(self.out, overwrite=True)
        found = read(target(self.out))
        assert whole(found) == whole(OTHER)
        assert found.statement["rows"] == 1

    def test_what_is_read_can_be_written_again(self) -> None:
        SMALL.write(self.out)
        first = read(target(self.out))
        first.write(self.out, overwrite=True)
        assert read(target(self.out)).statement == first.statement

    def test_what_is_not_there_is_told(self) -> None:
        with pytest.raises(InvalidArgument, match="there is no"):
            read(target(self.out))


def _sha256(found: Released) -> str:
    return str(found.statement["table"]["sha256"])


class TestFilesAndDuckDB:
    @pytest.fixture(autouse=True, params=PLACES)
    def place(self, request: pytest.FixtureRequest, tmp_path: Path) -> None:
        self.out = str(tmp_path / request.param)

    test_what_is_written_is_read = Places.test_what_is_written_is_read
    test_what_is_there_stays = Places.test_what_is_there_stays_unless_it_may_be_replaced
    test_what_is_read_can_be_written_again = Places.test_what_is_read_can_be_written_again
    test_what_is_not_there_is_told = Places.test_what_is_not_there_is_told

    def test_a_folder_that_is_not_there_or_closed_is_told_before(self, tmp_path: Path, monkeypatch) -> None:
        with pytest.raises(InvalidArgument, match="there is no folder"):
            target(self.out.replace("counts.", "nowhere/counts.", 1)).check()
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        with pytest.raises(InvalidArgument, match="cannot be written to"):
            target(self.out).check()
        assert not list(tmp_path.iterdir())

    def test_a_check_leaves_nothing(self, tmp_path: Path) -> None:
        target(self.out).check()
        assert not list(tmp_path.iterdir())


class TestTargets:
    @pytest.mark.parametrize(
        "out",
        [
            *(
                "",
                "counts",
                "counts.xlsx",
                "counts.PARQUET.gz",
                "counts.parquet#x",
                ".csv",
                "counts.duckdb",
                "a\x00.csv",
            ),
            *("x.duckdb#", "x.duckdb#main.t", "mysql://a:secret@b/c#t", "postgresql://a:secret@b/c"),
            *("postgresql://a:secret@b/c#", "postgresql://a:secret@b/c#.t", "postgresql://a:secret@b/c#s."),
            *("postgresql://a:secret@b/c#a.b.c", f"postgresql://a:secret@b/c#{'t' * 54}"),
        ],
    )
    def test_others_are_refused_without_passwords(self, out: str) -> None:
        with pytest.raises(InvalidArgument, match=r"^out: ") as refused:
            target(out)
        assert "secret" not in str(refused.value)

    def test_the_forms_are_named(self) -> None:
        with pytest.raises(InvalidArgument, match=r"must be one of FILE\.parquet, FILE\.csv, FILE\.duckdb#table"):
            target("counts.xlsx")

    def test_a_url_may_hold_marks_and_shows_nothing(self) -> None:
        found = target("postgresql://anna:se#cret@host/db#public.counts")
        assert isinstance(found, PostgresTarget)
        assert (found.url, found.schema, found.table) == ("postgresql://anna:se#cret@host/db", "public", "counts")
        assert "cret" not in f"{found} {found!r} {found.place}"

    def test_a_missing_driver_is_explained(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "psycopg", None)
        place = target("postgresql://anna:secret@host/db#counts")
        for call in (place.check, place.load):
            with pytest.raises(ModuleNotFoundError, match=re.escape("pip install 'sfumato[postgres]'")):
                call()


class TestPayloads:
    @pytest.mark.parametrize("released", [FULL, EMPTY, SMALL], ids=["rows", "no rows", "small"])
    def test_they_are_the_table_in_its_order_and_always_the_same_bytes(self, released: Released) -> None:
        content = payload(released)
        found = from_payload(content, released.statement)
        assert values(found) == values(released)
        assert (found.columns, found.statement) == (released.columns, released.statement)
        assert payload(found) == payload(released) == content

    def test_large_ones_are_the_same_bytes_too(self) -> None:
        count = 400_000
        columns = {"k": "text", "x": "number"}
        data = {"k": [f"key {place % 999}" for place in range(count)], "x": np.arange(count) / 7}
        assert payload(Released(columns, data, {})) == payload(Released(columns, data, {}))

    @pytest.mark.parametrize("content", [b"", b"PAR1", payload(SMALL)[:-40], b"x" * 99])
    def test_garbage_is_refused(self, content: bytes) -> None:
        with pytest.raises(InvalidArgument, match="not a Parquet file, or it is damaged"):
            from_payload(content, SMALL.statement)


class TestFingerprints:
    def test_the_order_of_rows_does_not_matter_and_values_do(self) -> None:
        rows = [("a", 90), ("b", 80), ("c", 70)]
        known = fingerprint(counted(*rows))
        assert fingerprint(counted(*reversed(rows))) == known
        for other in ([("a", 91), *rows[1:]], [("A", 90), *rows[1:]], rows[1:], [*rows, ("", 9)], [("ab", 90)]):
            assert fingerprint(counted(*other)) != known
        assert fingerprint(Released({"x": "number"}, {"x": [0]}, {})) != fingerprint(
            Released({"x": "integer"}, {"x": [0]}, {})
        )

    def test_text_does_not_run_together(self) -> None:
        columns = {"a": "text", "b": "text"}
        apart = [Released(columns, {"a": [a], "b": [b]}, {}) for a, b in (("xy", "z"), ("x", "yz"), ("", "xyz"))]
        assert len({*map(fingerprint, apart)}) == 3

    def test_it_never_changes(self) -> None:
        """Published statements hold it: whatever is changed here, this number stays."""
        kinds = {"k": "text", "n": "integer", "x": "number", "b": "boolean", "d": "date", "t": "timestamp"}
        cells = ["b", "ä", "b"], [1, 2, -3], [0.1, None, -0.0], [True, False, True]
        times = ["2026-11-15"] * 3, ["2026-11-15T08:30:00"] * 3
        released = Released(kinds, dict(zip(kinds, (*cells, *times), strict=True)), {})
        assert fingerprint(released) == "b2687d99dc7ace4fcb2d9f71f4dbcdf51e1097435b187389160fd6a21dbec23a"


class TestFiles:
    def test_what_a_killed_run_left_is_taken_away_and_what_a_live_one_holds_is_not(self, tmp_path: Path) -> None:
        left, held, other = (
            tmp_path / name
            for name in (f".counts.csv.{0:016x}.tmp", f".counts.csv.{1:016x}.tmp", f".x.csv.{0:016x}.tmp")
        )
        for path in (left, held, other):
            path.write_text("a draw")
        with held.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            SMALL.write(tmp_path / "counts.csv")
        assert (left.exists(), held.exists(), other.exists()) == (False, True, True)

    def test_the_statement_stands_beside_and_nothing_else(self, tmp_path: Path) -> None:
        out = tmp_path / "counts.csv"
        before = os.umask(0o027)
        try:
            SMALL.write(out)
        finally:
            os.umask(before)
        assert {path.name for path in tmp_path.iterdir()} == {"counts.csv", "counts.csv.statement.json"}
        assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o640}
        said = json.loads((tmp_path / "counts.csv.statement.json").read_text())
        assert said["table"] == {"format": "csv", "sha256": hashlib.sha256(out.read_bytes()).hexdigest()}
        lines = "article,units,units_low,units_high,units_deviation", "a,90,70,110,10.0", "b,80,60,100,10.0", ""
        assert out.read_bytes() == "\r\n".join(lines).encode()

    @pytest.mark.parametrize("name", ["counts.parquet", "counts.csv"])
    def test_the_same_table_is_the_same_bytes(self, name: str, tmp_path: Path) -> None:
        def written() -> list[bytes]:
            FULL.write(tmp_path / name, overwrite=True)
            return [path.read_bytes() for path in sorted(tmp_path.iterdir())]

        assert written() == written()

    @pytest.mark.parametrize(
        "name", ["*.parquet", "[a].csv", "o'clock \n#1.parquet", 'ü.duckdb#o\'clock "x" #1', "d.duckdb#data"]
    )
    def test_names_are_only_names(self, name: str, tmp_path: Path) -> None:
        SMALL.write(tmp_path / name)
        OTHER.write(tmp_path / f"x{name}")
        assert whole(read(target(str(tmp_path / name)))) == whole(SMALL)

    @pytest.mark.parametrize(
        ("number", "said"),
        [
            (errno.ENOSPC, "no space left"),
            (errno.ENOENT, "folder is gone"),
            (errno.EACCES, "may not"),
            (errno.EIO, "disk"),
        ],
    )
    @pytest.mark.parametrize("call", ["fsync", "replace"])
    def test_a_failure_is_told_in_our_words_and_leaves_nothing_hidden(
        self, number: int, said: str, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*args: Any) -> None:
            raise OSError(number, "the system's words", "a path")

        monkeypatch.setattr(os, call, fail)
        with pytest.raises(Failed, match=f"could not be written: .*{said}") as failed:
            SMALL.write(tmp_path / "counts.csv")
        assert "system" not in str(failed.value)
        assert not list(tmp_path.iterdir())

    def test_a_folder_that_vanishes_is_a_failure(self, tmp_path: Path) -> None:
        folder = tmp_path / "gone"
        folder.mkdir()
        place = target(str(folder / "counts.csv"))
        place.check()
        folder.rmdir()
        with pytest.raises(Failed, match="its folder is gone"):
            write(place, SMALL)

    def test_folders_are_not_replaced(self, tmp_path: Path) -> None:
        (tmp_path / "counts.csv").mkdir()
        with pytest.raises(InvalidArgument, match="is a folder"):
            target(str(tmp_path / "counts.csv")).check(overwrite=True)


class TestReading:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("not json", "is not JSON"),
            ("[" * 100_000, "is not JSON"),
            ("[]", "not of the format 'sfumato-release/1'"),
            ('{"format": "sfumato-release/2"}', "not of the format 'sfumato-release/1'"),
            ('{"format": "sfumato-release/1"}', "lacks 'unit'"),
            (json.dumps({**SMALL.statement, "columns": [{"name": 1}]}), "lacks 'columns'"),
            (json.dumps({**SMALL.statement, "guarantee": {"epsilon": "3"}}), "lacks 'guarantee'"),
        ],
    )
    @pytest.mark.parametrize("name", PLACES)
    def test_a_statement_that_is_none_is_refused(self, name: str, text: str, said: str, tmp_path: Path) -> None:
        SMALL.write(tmp_path / name)
        if "#" in name:
            with duckdb.connect(tmp_path / "counts.duckdb") as connection:
                connection.execute("UPDATE counts_statement SET statement = ?", [text])
        else:
            (tmp_path / f"{name}.statement.json").write_text(text)
        with pytest.raises(InvalidArgument, match=said):
            read(target(str(tmp_path / name)))

    @pytest.mark.parametrize("name", PLACES)
    def test_a_missing_statement_is_told(self, name: str, tmp_path: Path) -> None:
        SMALL.write(tmp_path / name)
        if "#" in name:
            with duckdb.connect(tmp_path / "counts.duckdb") as connection:
                connection.execute("DROP TABLE counts_statement")
        else:
            (tmp_path / f"{name}.statement.json").unlink()
        with pytest.raises(InvalidArgument, match=r"has no statement.* is missing"):
            read(target(str(tmp_path / name)))

    @pytest.mark.parametrize("content", ["", "x", "article,units\na,many\n", "a,a\n1,2,3\n", '"'])
    def test_a_file_that_is_no_table_is_refused(self, content: str, tmp_path: Path) -> None:
        for name in ("counts.csv", "counts.parquet"):
            SMALL.write(tmp_path / name)
            (tmp_path / name).write_text(content)
            with pytest.raises(InvalidArgument, match=r"damaged|columns of its statement"):
                read(target(str(tmp_path / name)))


class TestDuckDB:
    def test_what_else_is_in_the_database_stays(self, tmp_path: Path) -> None:
        with duckdb.connect(tmp_path / "counts.duckdb") as connection:
            connection.execute("CREATE TABLE mine AS SELECT 1 AS n; CREATE VIEW seen AS FROM mine")
        for _ in range(2):
            SMALL.write(tmp_path / "counts.duckdb#counts", overwrite=True)
        with duckdb.connect(tmp_path / "counts.duckdb") as connection:
            names = [name for (name,) in connection.execute("SHOW TABLES").fetchall()]
        assert names == ["counts", "counts_statement", "mine", "seen"]
        with pytest.raises(InvalidArgument, match="is not a table"):
            target(str(tmp_path / "counts.duckdb#seen")).check(overwrite=True)
        with pytest.raises(InvalidArgument, match="exists"):
            target(str(tmp_path / "counts.duckdb#MINE")).check()

    def test_a_file_that_is_no_database_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "counts.duckdb").write_text("no database" * 999)
        with pytest.raises(InvalidArgument, match="cannot be read as a DuckDB database"):
            target(str(tmp_path / "counts.duckdb#counts")).check()

    @pytest.mark.parametrize("there", [True, False])
    def test_a_failure_on_the_way_leaves_what_was(
        self, there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place = target(str(tmp_path / "counts.duckdb#counts"))
        if there:
            write(place, SMALL)

        def fail(*args: Any) -> str:
            raise duckdb.OutOfMemoryException("DuckDB's words")

        with monkeypatch.context() as patched:
            patched.setattr(duckdb_target, "relation", fail)
            with pytest.raises(Failed, match="DuckDB has no space") as failed:
                write(place, OTHER, overwrite=True)
        assert "words" not in str(failed.value)
        assert whole(read(place)) == whole(SMALL) if there else not list(tmp_path.iterdir())


def write_and_die(out: str, point: int, before: bool, commit: bool) -> None:
    """In a child: write, and die before or after the call with this number that can leave something."""
    calls = itertools.count(1)

    def counting(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            number = next(calls)
            if number == point and before:
                os._exit(9)
            found = real(*args, **options)
            if number == point:
                os._exit(9)
            return found

        return call

    os.fsync, os.replace = counting(os.fsync), counting(os.replace)
    if commit:
        outputs.DuckDBTarget._fill = counting(outputs.DuckDBTarget._fill)
        base.relation = duckdb_target.relation = counting(base.relation)
    outputs.write(outputs.target(out), OTHER, overwrite=True)


def killed(out: str, point: int, *, before: bool, commit: bool = False) -> int | None:
    return start(write_and_die, out, point, before, commit).exit_code()


@pytest.mark.slow
@pytest.mark.slow
class TestKills:
    """Points: the statement and the table on disk, the statement in its place, the table in its place, the folder."""

    @pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
    @pytest.mark.parametrize("point", range(1, 6))
    @pytest.mark.parametrize("name", ["counts.parquet", "counts.csv"])
    def test_a_killed_writer_leaves_no_table_or_all_of_it(
        self, name: str, point: int, before: bool, tmp_path: Path
    ) -> None:
        out = tmp_path / name
        assert killed(str(out), point, before=before) == 9
        committed = (point, before) >= (4, False) and (point, before) != (4, True)
        assert out.exists() == committed
        if committed:
            assert whole(read(target(str(out)))) == whole(OTHER)
        left = {*tmp_path.iterdir()} - {out, tmp_path / f"{name}.statement.json"}
        assert all(re.fullmatch(rf"\.{name}(\.statement\.json)?\.[0-9a-f]{{16}}\.tmp", path.name) for path in left)
        SMALL.write(out, overwrite=committed)
        assert whole(read(target(str(out)))) == whole(SMALL)
        assert {*tmp_path.iterdir()} == {out, tmp_path / f"{name}.statement.json"}

    @pytest.mark.parametrize("point", [1, 2, 3])
    def test_a_killed_transaction_leaves_what_was(self, point: int, tmp_path: Path) -> None:
        place = target(str(tmp_path / "counts.duckdb#counts"))
        write(place, SMALL)
        assert killed(str(tmp_path / "counts.duckdb#counts"), point, before=True, commit=True) == 9
        assert whole(read(place)) == whole(SMALL)
        write(place, OTHER, overwrite=True)
        assert whole(read(place)) == whole(OTHER)


@pytest.fixture(scope="module")
def shared_url(postgres_server: Path) -> Iterator[str]:
    with postgres.database(postgres_server) as url:
        yield url


@pytest.mark.slow
class TestPostgres(Places):
    @pytest.fixture(autouse=True)
    def place(self, shared_url: str) -> None:
        self.url, self.out = shared_url, f"{shared_url}#o'clock %s.Cöunts"
        self.raw('DROP SCHEMA IF EXISTS "o\'clock %s" CASCADE; CREATE SCHEMA "o\'clock %s"')
        self.raw("DROP SCHEMA public CASCADE; CREATE SCHEMA public")

    def raw(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def test_types_are_the_servers_own(self) -> None:
        FULL.write(f"{self.url}#counts")
        kinds = self.raw(
            "SELECT data_type FROM information_schema.columns WHERE table_name = 'counts' ORDER BY ordinal_position"
        )
        names = ("text", "bigint", "double precision", "boolean", "date", "timestamp without time zone", "bigint")
        assert [kind for (kind,) in kinds][:7] == [*names]
        assert self.raw("SELECT count(*) FROM counts") == [(len(ROWS),)]
        assert self.raw("SELECT count(*) FROM counts_statement") == [(1,)]

    def test_text_it_cannot_hold_is_told_and_nothing_is_left(self) -> None:
        SMALL.write(f"{self.url}#counts")
        with pytest.raises(Failed, match="without the character NUL") as failed:
            counted(("a\x00secret", 90)).write(f"{self.url}#counts", overwrite=True)
        assert "secret" not in str(failed.value)
        assert whole(read(target(f"{self.url}#counts"))) == whole(SMALL)

    def test_checks_are_made_before(self) -> None:
        self.raw("CREATE TABLE mine (n int); CREATE VIEW seen AS SELECT * FROM mine")
        for out, overwrite, said in (
            ("mine", False, "exists"),
            ("seen", True, "is not a table"),
            ("nowhere.counts", False, "there is no schema"),
        ):
            with pytest.raises(InvalidArgument, match=said):
                target(f"{self.url}#{out}").check(overwrite=overwrite)
        target(f"{self.url}#mine").check(overwrite=True)
        with pytest.raises(Failed, match="other objects"):
            write(target(f"{self.url}#mine"), SMALL, overwrite=True)

    def test_an_account_that_may_not_is_told_before(self) -> None:
        self.raw("DROP ROLE IF EXISTS outsider; CREATE ROLE outsider LOGIN")
        with pytest.raises(InvalidArgument, match=r"may make no table|no schema"):
            target(
                self.url.replace("postgres@", "outsider@", 1) + f"{'&' if '?' in self.url else '?'}user=outsider#t"
            ).check()

    def test_a_server_that_is_not_there_is_told_without_its_address(self, tmp_path: Path) -> None:
        place = target(f"postgresql://anna:secret@/db?host={tmp_path}#counts")
        for call, kind in ((place.check, InvalidArgument), (lambda: write(place, SMALL), Failed)):
            with pytest.raises(kind, match="cannot connect to PostgreSQL") as told:
                call()
            assert "secret" not in str(told.value)
            assert str(tmp_path) not in str(told.value)

    def test_a_connection_that_is_lost_leaves_what_was(self, monkeypatch: pytest.MonkeyPatch) -> None:
        place = target(f"{self.url}#counts")
        write(place, SMALL)
        filled = PostgresTarget._fill

        def cut(self: Any, cursor: Any, *rest: Any) -> None:
            filled(self, cursor, *rest)
            pid = cursor.connection.info.backend_pid
            with psycopg.connect(self.url) as another:
                another.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])

        with monkeypatch.context() as patched:
            patched.setattr(PostgresTarget, "_fill", cut)
            with pytest.raises(Failed, match="PostgreSQL ended the connection") as failed:
                write(place, OTHER, overwrite=True)
        assert "terminat" not in str(failed.value)
        assert whole(read(place)) == whole(SMALL)
