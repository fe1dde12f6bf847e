"""Many connections: of strangers with large bodies, and of one analyst beside another."""

from __future__ import annotations

import json
import re
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.helpers.servers import PATIENCE_S, Server, new_key, one_unit, start
from tests.helpers.worlds import World, new_world

pytestmark = pytest.mark.slow

STRANGERS, SENT_BYTES = 600, 250_000
WRONG = "sfumato_" + "A" * 43


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return new_world(tmp_path_factory.mktemp("crowds") / "world", information=10**4, calls=1000)


@pytest.fixture(scope="module")
def server(world: World) -> Iterator[Server]:
    found = start(world, "--log-level", "warning")
    yield found
    found.kill()


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)


def head(path: str, length: int, *lines: str) -> bytes:
    return "\r\n".join(
        [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {length}", *lines, "", ""]
    ).encode()


def receive_all(connection: socket.socket) -> bytes:
    got = b""
    with suppress(ConnectionResetError):
        while more := connection.recv(65536):
            got += more
    return got


def memory(server: Server) -> int:
    """The memory that the service has in use, in bytes."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.parametrize(
    ("lines", "path", "status"),
    [
        ([], "/v1/answers", b"401"),
        ([f"Authorization: Bearer {WRONG}"], "/v1/answers", b"401"),
        ([], "/v1/nope", b"404"),
        ([], "/healthz", b"405"),
    ],
    ids=["no key", "wrong key", "unknown path", "wrong method"],
)
def test_bodies_of_strangers_are_not_waited_for(server: Server, lines: list[str], path: str, status: bytes) -> None:
    """They announce a body, send most of it and keep the connection open."""
    before = memory(server)
    with ExitStack() as stack:
        opened = [stack.enter_context(connect(server)) for _ in range(STRANGERS)]
        for connection in opened:
            connection.settimeout(PATIENCE_S)
            with suppress(ConnectionResetError, BrokenPipeError):  # refused before all was sent
                connection.sendall(head(path, SENT_BYTES + 1, *lines) + b"x" * SENT_BYTES)
        replies = [receive_all(connection) for connection in opened]
        grown = memory(server) - before
    refused = [reply for reply in replies if reply.startswith(b"HTTP/1.1 " + status)]
    assert len(refused) == STRANGERS
    assert all(b"connection: close" in reply for reply in refused)
    assert grown < STRANGERS * SENT_BYTES // 3


def test_a_stranger_is_refused_before_a_byte_of_the_body_is_sent(server: Server) -> None:
    with connect(server) as connection:
        connection.sendall(head("/v1/answers", 1000, f"Authorization: Bearer {WRONG}"))
        assert receive_all(connection).startswith(b"HTTP/1.1 401")


def test_bodies_that_do_not_end_are_held_within_the_limit(server: Server, world: World) -> None:
    """One analyst opens connections and leaves every body unfinished. Beyond 8 MB they are refused; others ask on."""
    anna, olga = new_key(world, "anna"), new_key(world, "olga")
    question = json.dumps(one_unit(1)).encode()
    with ExitStack() as stack:
        opened = [stack.enter_context(connect(server)) for _ in range(60)]
        for connection in opened:
            connection.sendall(head("/v1/estimates", SENT_BYTES + 1, f"Authorization: Bearer {anna}"))
            with suppress(ConnectionResetError, BrokenPipeError):  # refused before all was sent
                connection.sendall(b" " * SENT_BYTES)
        # 33 of them fit into 8 MB, and are waited for. The others are told at once that they do not.
        waiting, refused = set(opened), 0
        while refused < len(opened) - (1 << 23) // SENT_BYTES:
            replied, _, _ = select.select(list(waiting), [], [], PATIENCE_S)
            assert replied
            waiting -= set(replied)
            refused += sum(connection.recv(65536).startswith(b"HTTP/1.1 429") for connection in replied)
        with connect(server) as other:
            whole = head("/v1/estimates", len(question), f"Authorization: Bearer {olga}", "Connection: close")
            other.sendall(whole + question)
            assert receive_all(other).startswith(b"HTTP/1.1 200")
    with connect(server) as again:  # the connections are gone, and their bytes with them
        whole = head("/v1/estimates", len(question), f"Authorization: Bearer {anna}", "Connection: close")
        again.sendall(whole + question)
        assert receive_all(again).startswith(b"HTTP/1.1 200")
