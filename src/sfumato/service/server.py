"""Processes around the service: one, or several that share a PostgreSQL ledger.

serve -> check the configuration -> bind -> tell where -> one server here, or a supervisor with workers
"""

from __future__ import annotations

import logging
import os
import socket
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.supervisors import Multiprocess

from sfumato.config import Config, load_config
from sfumato.errors import ConfigError, Failed, InvalidArgument, SfumatoError
from sfumato.ledger import find_store
from sfumato.service.app import create_app
from sfumato.service.middleware import Middleware
from sfumato.service.telemetry import log_to_stderr
from sfumato.service.tracing import trace_as_asked
from sfumato.session import Session

GRACE_S = 30  # seconds in which requests may end after a stop was asked for; what is left then stays reserved
BACKLOG = 2048
KEEP_S = 75  # seconds for which an idle connection stays: longer than proxies keep theirs, so that none is cut in use

_LOG = logging.getLogger("sfumato.service")

# For the workers, which are processes of their own. Not SFUMATO_*: those are settings.
_FILE, _LEVEL = "_SFUMATO_SERVES", "_SFUMATO_LOGS"


def serve(
    file: str,
    *,
    host: str | None = None,
    port: int | None = None,
    workers: int | None = None,
    log_level: str = "info",
    told: Callable[[str], None],
) -> None:
    """Serve a configuration until the process is told to stop. `told` is called with the address once it is bound."""
    config = load_config(file)
    if host == "":
        raise InvalidArgument("--host", "must name an address, such as 127.0.0.1; 0.0.0.0 is all of them")
    given: dict[str, Any] = {"host": host, "port": port, "workers": workers}
    settings = replace(config.service, **{name: value for name, value in given.items() if value is not None})
    config = replace(config, service=settings)
    check_workers(config)
    if settings.workers == 1:
        with alone(config):
            _one(config, log_level, told)
        return
    with Session(config, finish=False):
        pass  # what is wrong is told here, once, and not by every worker
    with tempfile.TemporaryDirectory(prefix="sfumato-metrics-") as counted:
        _several(file, config, log_level, told, counted)


def _one(config: Config, level: str, told: Callable[[str], None]) -> None:
    session = Session(config, finish=False)  # what was left is finished beside the first questions
    try:
        bound = _bound(config.service.host, config.service.port)
    except BaseException:
        session.close()
        raise
    log_to_stderr(level)
    trace_as_asked()
    app = create_app(session)
    told(_address(bound))
    uvicorn.Server(server(app)).run([bound])


def alone(config: Config) -> AbstractContextManager[None]:
    """Be the only service of the ledger, where several cannot share it."""
    return find_store(config.ledger, config.folder).lock_service()


def check_workers(config: Config) -> None:
    store = find_store(config.ledger, config.folder)
    if config.service.workers > 1 and not store.shared:
        raise ConfigError(
            "service.workers",
            f"is {config.service.workers}, but a {store.name} ledger serves one process; leave it at 1, "
            'or keep the ledger in PostgreSQL: [ledger] url = "postgresql://..."',
        )


def server(app: Middleware | str, *, factory: bool = False, workers: int = 1) -> uvicorn.Config:
    """uvicorn's settings: its own logs and headers are off, as ours say it all."""
    return uvicorn.Config(
        app,
        factory=factory,
        workers=workers,
        http=_http(),
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        ws="none",
        timeout_keep_alive=KEEP_S,
        timeout_graceful_shutdown=GRACE_S,
    )


def _http() -> str:
    """Ours; or h11, which limits a head by itself but not its time, where httptools cannot be installed."""
    return "sfumato.service.protocol:GuardedProtocol" if find_spec("httptools") else "h11"


def worker() -> Middleware:
    """The application of one worker of several."""
    log_to_stderr(os.environ[_LEVEL])
    trace_as_asked()
    try:
        return create_app(Session(load_config(os.environ[_FILE]), finish=False))
    except SfumatoError as error:
        # Told as one line. The supervisor starts another: what is missing, such as the ledger, may come back.
        _LOG.error("worker did not start", extra={"fields": {"problem": type(error).__name__}})
        raise SystemExit(1) from None


def _several(file: str, config: Config, level: str, told: Callable[[str], None], counted: str) -> None:
    settings = config.service
    bound = _bound(settings.host, settings.port)
    os.environ |= {_FILE: str(Path(file).resolve()), _LEVEL: level, "PROMETHEUS_MULTIPROC_DIR": counted}
    log_to_stderr(level)
    told(_address(bound))
    asked = server("sfumato.service.server:worker", factory=True, workers=settings.workers)
    Multiprocess(asked, sockets=[bound]).run()


def _bound(host: str, port: int) -> socket.socket:
    """A listening socket, so that the address is known (a port of 0 is any) and taken before anything starts."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(BACKLOG)  # whoever calls before the first worker is up waits, and is not refused
        bound.set_inheritable(True)
    except OSError as error:
        bound.close()
        reason = error.strerror or "it cannot be used"
        raise Failed(f"{host}:{port} cannot be listened on: {reason}; choose another --port or --host") from None
    return bound


def _address(bound: socket.socket) -> str:
    host, port, *_ = bound.getsockname()
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{shown}:{port}"
