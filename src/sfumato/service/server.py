"""Processes: one server, or a supervisor with several workers that share a PostgreSQL ledger.

serve -> check the configuration -> bind -> announce the address -> one server in this process, or workers
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.supervisors import Multiprocess

from sfumato.client.base import is_loopback
from sfumato.config import Config, load_config
from sfumato.errors import ConfigError, Failed, InvalidArgument, SfumatoError
from sfumato.ledger import find_store
from sfumato.service.app import AddConsole, create_app
from sfumato.service.middleware import Middleware
from sfumato.service.telemetry import log_to_stderr, set_up_tracing
from sfumato.session import Session

GRACE_S = 30  # running requests may end within this time after a stop; what has not ended then stays reserved
BACKLOG = 2048
RECEIVE_BYTES = 1 << 15  # of a connection, in the kernel: what a stranger can send before the key is checked
SWITCH_S = 0.0005  # between threads of Python; the usual 5 ms would add up for a call that waits for disk or engine
KEEP_ALIVE_S = 75  # longer than proxies keep idle connections: none is closed while a proxy uses it

EXPOSED = (
    "is reached by other machines without TLS, so keys and answers travel readable; use 127.0.0.1, or add "
    "--behind-proxy if a proxy with TLS is in front, or --plain-http if the network is trusted"
)

_LOG = logging.getLogger("sfumato.service")

# How the worker processes get their arguments. Not SFUMATO_*: those are settings.
_FILE, _LEVEL = "_SFUMATO_SERVES", "_SFUMATO_LOGS"


def serve(
    file: str,
    *,
    host: str | None = None,
    port: int | None = None,
    workers: int | None = None,
    is_exposed: bool = False,
    log_level: str = "info",
    announce: Callable[[str], None],
    add_console: AddConsole | None = None,
    worker: str = "sfumato.service.server:create_worker",
) -> None:
    """Serve a configuration until the process is stopped. `announce` is called with the URL once it is bound.

    `add_console` adds the pages, and `worker` names what creates the application of each of several workers.

    A host that other machines can reach is refused unless `is_exposed`: this is HTTP without TLS.
    """
    written = config = load_config(file)
    if host == "":
        raise InvalidArgument("--host", "must name an address, such as 127.0.0.1; 0.0.0.0 is all of them")
    options: dict[str, Any] = {"host": host, "port": port, "workers": workers}
    settings = replace(config.service, **{name: value for name, value in options.items() if value is not None})
    if not (is_exposed or is_loopback(settings.host)):
        raise ConfigError("service.host", EXPOSED) if host is None else InvalidArgument("--host", EXPOSED)
    config = replace(config, service=settings)
    if settings.workers == 1:
        _serve_here(file, written, config, log_level, announce, add_console)
    else:
        _serve_by_workers(file, config, log_level, announce, worker)


def _serve_here(
    file: str,
    written: Config,
    config: Config,
    log_level: str,
    announce: Callable[[str], None],
    add_console: AddConsole | None,
) -> None:
    session = Session(config, finish=False)  # the sweeper finishes reservations while the service runs
    try:
        session.ledger.lock_service()
        listener = bind(config.service.host, config.service.port)
    except BaseException:
        session.close()
        raise
    prepare_process(log_level)
    app = create_app(session, file, written, add_console=add_console)
    announce(url_of(listener))
    uvicorn.Server(uvicorn_config(app)).run([listener])


def _serve_by_workers(file: str, config: Config, log_level: str, announce: Callable[[str], None], worker: str) -> None:
    settings = config.service
    store = find_store(config.ledger, config.folder)
    if not store.shared:
        raise ConfigError(
            "service.workers",
            f"is {settings.workers}, but a {store.name} ledger serves one process; set it to 1, "
            'or use a PostgreSQL ledger: [ledger] url = "postgresql://..."',
        )
    with Session(config, finish=False) as session:
        session.ledger.lock_service()  # an error of the configuration is raised once here, and not by every worker
    with tempfile.TemporaryDirectory(prefix="sfumato-metrics-") as metrics:
        listener = bind(settings.host, settings.port)
        os.environ |= {_FILE: str(Path(file).resolve()), _LEVEL: log_level, "PROMETHEUS_MULTIPROC_DIR": metrics}
        log_to_stderr(log_level)
        announce(url_of(listener))
        workers = uvicorn_config(worker, factory=True, workers=settings.workers)
        Supervisor(workers, sockets=[listener]).run()


class Supervisor(Multiprocess):
    """uvicorn's supervisor. A SIGHUP goes on to the workers, which take the policy and do not end."""

    def handle_hup(self) -> None:
        for process in self.processes:
            if process.pid is not None and process.is_alive():
                os.kill(process.pid, signal.SIGHUP)


def create_worker(add_console: AddConsole | None = None) -> Middleware:
    """The application of one of several worker processes."""
    prepare_process(os.environ[_LEVEL])
    try:
        config = load_config(os.environ[_FILE])
        session = Session(config, finish=False)
        session.ledger.lock_service()
        return create_app(session, os.environ[_FILE], config, add_console=add_console)
    except SfumatoError as error:
        # One line and no traceback. The supervisor starts another worker: the ledger, for example, may come back.
        _LOG.error("worker did not start", extra={"fields": {"problem": type(error).__name__, "why": str(error)}})
        raise SystemExit(1) from None


def prepare_process(log_level: str) -> None:
    """Logs, traces and threads of a process that serves."""
    log_to_stderr(log_level)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the application takes changes of the policy
    set_up_tracing()
    sys.setswitchinterval(SWITCH_S)


def uvicorn_config(app: Middleware | str, *, factory: bool = False, workers: int = 1) -> uvicorn.Config:
    """uvicorn's settings. Its own logs and headers are off: `telemetry` and `middleware` write ours."""
    # Without httptools: h11, which limits the size of a head but not its time.
    protocol = "sfumato.service.protocol:GuardedProtocol" if find_spec("httptools") else "h11"
    return uvicorn.Config(
        app,
        factory=factory,
        workers=workers,
        http=protocol,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        ws="none",
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
    )


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Bound before anything starts, so the port is reserved, and known if it was 0."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)  # connections inherit it
        listener.bind((host, port))
        listener.listen(BACKLOG)  # calls before the first worker is up wait, and are not refused
        listener.set_inheritable(True)
    except OSError as error:
        listener.close()
        reason = error.strerror or "it cannot be used"
        raise Failed(f"{host}:{port} cannot be listened on: {reason}; choose another --port or --host") from None
    return listener


def url_of(listener: socket.socket) -> str:
    host, port, *_ = listener.getsockname()
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{shown}:{port}"
