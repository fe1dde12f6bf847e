"""The PostgreSQL that the tests start for themselves is a real one, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.helpers import postgres

pytestmark = pytest.mark.slow


@pytest.fixture
def other_url(postgres_server: Path) -> Iterator[str]:
    with postgres.database(postgres_server) as url:
        yield url


def ask(url: str, query: str):
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchone()[0]


def command_line(pid: int) -> bytes:
    """Empty for a process that is gone, also when init has not yet buried it."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def test_each_fixture_is_a_database_of_its_own(postgres_url, other_url):
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE only_here (n int)")
    tables = "SELECT count(*) FROM information_schema.tables WHERE table_name = 'only_here'"
    assert (ask(postgres_url, tables), ask(other_url, tables)) == (1, 0)


def test_a_second_connection_reads_what_the_first_wrote(postgres_url):
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE notes (word text)")
        connection.execute("INSERT INTO notes VALUES ('ünï')")
    assert ask(postgres_url, "SELECT word FROM notes") == "ünï"


CHANGES = {
    "a table": "CREATE TABLE notes (word text)",
    "a type": "CREATE TYPE mood AS ENUM ('sad')",
    "a schema": "CREATE SCHEMA other",
    "a function": "CREATE FUNCTION one() RETURNS int LANGUAGE SQL AS 'SELECT 1'",
    "a right": "GRANT CREATE ON SCHEMA public TO PUBLIC",
    "a limit": "ALTER DATABASE {name} CONNECTION LIMIT 5",
    "a setting": "ALTER DATABASE {name} SET statement_timeout = 1000",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_database_is_dropped_though_somebody_is_connected(postgres_server, change):
    with postgres.database(postgres_server) as url:
        forgotten = psycopg.connect(url, autocommit=True)
        forgotten.execute(CHANGES[change].format(name=forgotten.info.dbname))
    with forgotten, pytest.raises(psycopg.OperationalError):
        forgotten.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url)


def test_a_database_that_had_a_ledger_is_empty_again_though_somebody_is_connected(postgres_server):
    with postgres.database(postgres_server) as url:
        forgotten = psycopg.connect(url, autocommit=True)
        forgotten.execute("CREATE SCHEMA sfumato")
        forgotten.execute("CREATE TABLE sfumato.journal (n int)")
    with forgotten, pytest.raises(psycopg.OperationalError):
        forgotten.execute("SELECT 1")
    with postgres.database(postgres_server) as again:
        assert again == url
        assert ask(again, "SELECT count(*) FROM pg_namespace WHERE nspname = 'sfumato'") == 0


def test_the_server_is_not_root(postgres_server, postgres_url):
    assert ask(postgres_url, "SHOW data_directory") == str(postgres_server / "data")
    assert (postgres_server / "data" / "postmaster.pid").stat().st_uid != 0  # written by the server itself


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("fsync", "off"),
        ("synchronous_commit", "on"),
        ("listen_addresses", ""),
        ("server_encoding", "UTF8"),
        ("max_connections", "100"),
    ],
)
def test_the_server_keeps_its_promises(postgres_url, setting, value):
    assert ask(postgres_url, f"SHOW {setting}") == value


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="the end of a process is read in /proc: Linux only")
@pytest.mark.parametrize("binaries", list(postgres.installations()), ids=lambda path: path.parent.name)
def test_every_installation_serves_and_leaves_nothing(binaries, tmp_path):
    with postgres.running(tmp_path):
        home = postgres.server(tmp_path, binaries)
        assert postgres.server(tmp_path, binaries) == home
        with postgres.database(home) as url:
            assert ask(url, "SELECT 1") == 1
        pid = int((home / "data" / "postmaster.pid").read_text().splitlines()[0])
        assert b"postgres" in command_line(pid)
    assert not home.exists()
    assert not command_line(pid)


def test_a_failed_start_says_why_and_is_not_tried_again(tmp_path):
    with postgres.running(tmp_path):
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"did not start:(.|\n)*No such file"):
                postgres.server(tmp_path, tmp_path / "nowhere")


def test_a_folder_without_the_servers_files_is_not_an_installation(tmp_path):
    assert not postgres.can_serve(tmp_path)
    for program in postgres.PROGRAMS:
        (tmp_path / program).write_text("#!/bin/sh\necho 'initdb (PostgreSQL) 15'\n")
        (tmp_path / program).chmod(0o755)
    assert not postgres.can_serve(tmp_path)
