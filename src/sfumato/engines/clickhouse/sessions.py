"""Two ways to ClickHouse, over HTTP and in this process: a text goes in, Arrow comes out.

Errors of any type may leave these functions, with ClickHouse's own text: the engine replaces them.
"""

from __future__ import annotations

import io
import socket
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeAlias
from urllib.parse import unquote, urlsplit

from sqlglot import exp

from sfumato.errors import EngineFailed

CONNECT_S, MARGIN_S = 5, 5
_NO_DRIVER = "a ClickHouse engine needs: pip install 'sfumato[clickhouse]'"
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""The last bytes of every whole Arrow stream."""

Settings: TypeAlias = Mapping[str, str]
ArrowTable: TypeAlias = Any
"""A table of pyarrow."""


class ClickHouseSession(Protocol):
    """One query at a time, under the settings that it was opened with."""

    def read(self, text: str) -> ArrowTable:
        """All rows of a query."""

    def stream(self, text: str) -> Any:
        """A context with the rows of a query as an Arrow stream that can be read once."""

    def close(self) -> None: ...


class Server(ABC):
    """Opens sessions. `name` is its address without role and password; `database` is where bare names are looked up.

    `only_ours`: the database is used by this process alone, so it has no roles.
    """

    name: str
    database: str
    only_ours = False

    @abstractmethod
    def connect(self, settings: Settings) -> ClickHouseSession: ...

    def close(self) -> None:
        return


def whole_table(body: bytes) -> ArrowTable:
    """The table of an Arrow stream, which must be the only one and have its end."""
    file = driver("pyarrow").BufferReader(body)
    table = driver("pyarrow.ipc").open_stream(file).read_all()
    if not body.endswith(_END) or file.tell() != len(body):
        raise ValueError("the reply is not one whole table")
    return table


class Folder(Server):
    """A database in a folder, opened by `chdb`. A process has one at a time, with any number of sessions.

    Other processes are kept out of the folder until the last session is closed.
    """

    database = "default"
    only_ours = True

    def __init__(self, folder: Path) -> None:
        self.name = str(folder)
        if "?" in self.name or not (folder / "metadata").is_dir():  # chdb would make a new one
            raise EngineFailed(f"{self.name!r} is not a folder of ClickHouse", setting="url")
        self._connect = driver("chdb").connect

    def connect(self, settings: Settings) -> ClickHouseSession:
        session = FolderSession(self._connect(self.name))
        try:
            for name, value in settings.items():
                session.execute(f"SET {name} = {exp.Literal.string(value).sql('clickhouse')}")
        except BaseException:
            session.close()
            raise
        return session


def driver(name: str) -> Any:
    """A module of the extra, imported now."""
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(_NO_DRIVER) from missing


class FolderSession:
    """After a query that failed, chdb can put the rest of its reply before the next one: close the session then."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, text: str) -> None:
        self._connection.query(text)

    def read(self, text: str) -> ArrowTable:
        return whole_table(bytes(self._connection.query(text, "ArrowStream").bytes()))

    @contextmanager
    def stream(self, text: str) -> Iterator[object]:
        with self._connection.send_query(text, "Arrow") as rows:
            stream = rows.record_batch()
            if stream.schema.names:
                yield stream.__arrow_c_stream__()
                return
        yield self.read(text).__arrow_c_stream__()  # without rows, the stream has no types either

    def close(self) -> None:
        self._connection.close()


class Https(Server):
    """A server's HTTP interface: `https://role@host:8443/database`. Settings go with every request."""

    def __init__(self, url: str, password: str | None, timeout_s: float) -> None:
        httpx2 = driver("httpx2")
        parts = urlsplit(url)
        self.name, self.database = host_and_database(url)
        role = {"X-ClickHouse-User": unquote(parts.username or "default")}
        secret = password if password is not None else unquote(parts.password or "")
        # A server that has vanished is noticed, however long its query takes.
        alive = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
        alive += [(socket.IPPROTO_TCP, getattr(socket, name), 5) for name in _KEEPALIVES if hasattr(socket, name)]
        self._client = httpx2.Client(
            base_url=f"{parts.scheme}://{self.name}/",
            headers={**role, **({"X-ClickHouse-Key": secret} if secret else {})},
            transport=httpx2.HTTPTransport(socket_options=alive),
            timeout=httpx2.Timeout(CONNECT_S, read=timeout_s + MARGIN_S, pool=timeout_s),
        )

    def connect(self, settings: Settings) -> ClickHouseSession:
        return HttpsSession(self._client, {"database": self.database, "default_format": "ArrowStream", **settings})

    def close(self) -> None:
        self._client.close()


def host_and_database(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    try:
        port = parts.port or 8443
    except ValueError:
        raise EngineFailed("the port of the address is not a number", setting="url") from None
    return f"{parts.hostname}:{port}", unquote(parts.path.strip("/")) or "default"


_KEEPALIVES = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")


class HttpsSession:
    def __init__(self, client: Any, parameters: Settings) -> None:
        self._client, self._parameters = client, parameters

    def read(self, text: str) -> ArrowTable:
        # The server waits for the end of the query, so an error is never the tail of a good reply.
        parameters = {**self._parameters, "wait_end_of_query": "1"}
        reply = self._client.post("/", params=parameters, content=text.encode())
        reply.raise_for_status()
        return whole_table(reply.content)

    @contextmanager
    def stream(self, text: str) -> Iterator[object]:
        request = self._client.stream("POST", "/", params=self._parameters, content=text.encode(), timeout=None)
        with request as reply:
            reply.raise_for_status()
            yield driver("pyarrow.ipc").open_stream(_Body(reply.iter_raw())).__arrow_c_stream__()

    def close(self) -> None:
        return


class _Body(io.RawIOBase):
    """The body of a reply, as a file. Its end is an error: Arrow has an end of its own, after which no one reads."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._left = pieces, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            if (piece := next(self._pieces, None)) is None:
                raise EOFError("the reply has no end")
            self._left = piece
        taken, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)
