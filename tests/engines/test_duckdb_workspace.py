"""A workspace: whole columns, tables of its own, no deadline, and the guarantees of the engine."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest
from sqlglot import exp

from sfumato.engines.base import CLOSED, COULD_NOT_ANSWER
from sfumato.engines.duckdb import DuckDBEngine
from sfumato.errors import EngineFailed
from tests.contracts.engine import EVENTS, ROWS, TABLE, column, counting, present, ranking, source
from tests.engines.test_duckdb import endless, write


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("workspace")


@pytest.fixture(scope="module")
def events(folder):
    with DuckDBEngine({TABLE: str(write(folder / "events.parquet", ROWS, EVENTS))}) as engine:
        yield engine


@pytest.fixture(scope="module")
def pairs(folder) -> Path:
    return write(folder / "pairs.parquet", [(i, "k") for i in range(10)])


def test_a_workspace_gives_whole_columns(events):
    query = exp.select(column("n"), column("x"), column("key")).from_(source()).where(present("x"), present("n"))
    with events.workspace() as workspace:
        found = workspace.arrays(query.where(present("key")))
        assert list(found) == ["n", "x", "key"]
        rows = [row for row in ROWS if None not in (row[1], row[3], row[4])]
        columns = [found[name].tolist() for name in found]
        assert sorted(zip(*columns, strict=True)) == sorted((row[3], row[4], row[1]) for row in rows)
        assert found["x"].dtype == "float64"
        assert workspace.rows(counting()) == [(len(ROWS),)]
        assert list(workspace.kinds(exp.select("*").from_(source()))) == list(EVENTS)


def test_a_workspace_keeps_tables_of_its_own(events):
    with events.workspace() as workspace, events.workspace() as other:
        name = workspace.keep(ranking())
        again = workspace.keep(exp.select("*").from_(source(name)).where(column("count") > 0))
        assert name not in (again, *events.tables())
        every = exp.select(exp.Count(this=exp.Star())).from_(source(again))
        assert workspace.rows(every) == [(4,)]
        for stranger in (events.run, other.rows):
            with pytest.raises(ValueError, match="reads from"):
                stranger(every)
        workspace.drop(again)
        workspace.drop(again)
        with pytest.raises(ValueError, match="reads from"):
            workspace.rows(every)
        assert workspace.rows(exp.select(exp.Count(this=exp.Star())).from_(source(name))) == [(4,)]


def test_a_workspace_reads_only_the_engines_tables(events):
    with events.workspace() as workspace:
        for ask in (workspace.rows, workspace.arrays, workspace.kinds, workspace.keep):
            with pytest.raises(ValueError, match="reads from"):
                ask(exp.select("*").from_("others"))
            with pytest.raises(TypeError, match="query tree"):
                ask("SELECT 1")
            with pytest.raises(ValueError, match="not written as a number"):
                ask(exp.select(exp.Literal.number("1; DROP TABLE events")).from_(source()))


def test_a_failure_in_a_workspace_has_the_same_words_and_nothing_behind_them(folder):
    path = write(folder / "secret.parquet", [(i, str(i)) for i in range(3000)] + [(1, "SECRETCELL")])
    with DuckDBEngine({TABLE: str(path)}) as engine:
        failing = exp.select(exp.cast(column("key"), "INT").as_("n")).from_(source())
        with engine.workspace() as workspace:
            for ask in (workspace.rows, workspace.arrays, workspace.keep):
                with pytest.raises(EngineFailed) as failure:
                    ask(failing)
                assert str(failure.value) == COULD_NOT_ANSWER
                assert failure.value.__cause__ is None
                assert failure.value.__context__ is None
                assert "SECRETCELL" not in str(failure.getrepr(style="native"))
            assert workspace.rows(counting()) == [(3001,)]


def test_a_closed_workspace_refuses_and_so_does_one_of_a_closed_engine(folder):
    engine = DuckDBEngine({TABLE: str(write(folder / "one.parquet", [(1, "a")]))})
    closed, left_open = engine.workspace(), engine.workspace()
    closed.keep(ranking())
    closed.close()
    closed.close()
    left_open.keep(ranking())
    with pytest.raises(EngineFailed, match=CLOSED):
        closed.rows(counting())
    engine.close()
    left_open.close()
    for ask in (engine.workspace, lambda: left_open.rows(counting()), lambda: left_open.keep(counting())):
        with pytest.raises(EngineFailed, match=CLOSED):
            ask()


def test_it_has_no_deadline(pairs):
    with DuckDBEngine({TABLE: str(pairs)}, timeout_s=0.001) as engine, engine.workspace() as workspace:
        query = counting()
        for number in range(5):
            query = query.join(source().as_(f"t{number}"), join_type="cross")
        assert workspace.rows(query) == [(10**6,)]


def test_what_is_kept_goes_with_it(pairs):
    with DuckDBEngine({TABLE: str(pairs)}) as engine:
        with engine.workspace() as workspace:
            workspace.keep(ranking())
        assert engine._connection.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]


def test_a_kept_table_takes_nobodys_name(pairs):
    with DuckDBEngine({"Sfumato_Kept_0": str(pairs)}) as engine, engine.workspace() as workspace:
        query = exp.select("*").from_(source("Sfumato_Kept_0"))
        assert workspace.keep(query.limit(1)) == "sfumato_kept_1"
        assert len(workspace.rows(query)) == 10


def test_types_are_duckdbs_own_and_nothing_is_run(pairs):
    with DuckDBEngine({TABLE: str(pairs)}) as engine, engine.workspace() as workspace:
        failing = exp.select(exp.cast(column("key"), "INT").as_("n"), column("unit")).from_(source())
        assert workspace.kinds(failing) == {"n": "INTEGER", "unit": "BIGINT"}


def test_control_c_stops_it_at_once_and_is_not_told_as_a_failure(pairs):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    main = threading.main_thread().ident
    try:
        with DuckDBEngine({TABLE: str(pairs)}) as engine, engine.workspace() as workspace:
            threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT)).start()
            with pytest.raises(KeyboardInterrupt):
                workspace.rows(endless())
            assert workspace.rows(counting()) == [(10,)]
    finally:
        signal.signal(signal.SIGINT, before)


def test_closing_the_engine_stops_what_is_running(pairs):
    engine = DuckDBEngine({TABLE: str(pairs)})
    threading.Timer(0.3, engine.close).start()
    with pytest.raises(EngineFailed) as failure, engine.workspace() as workspace:
        workspace.arrays(endless())
    assert str(failure.value) == COULD_NOT_ANSWER
    assert failure.value.__context__ is None
