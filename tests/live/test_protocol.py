"""Connections to a running service: what never becomes a request ends, and what is one works as ever."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx2
import pytest

from sfumato.service.protocol import MAX_HEAD_BYTES, MAX_PIPELINED
from tests.helpers.servers import SLEEPY, SLOW, Server, new_key, one_unit, start
from tests.helpers.worlds import World, new_world

pytestmark = pytest.mark.slow

PATIENCE_S = 120
HASTY = "import sfumato.service.protocol as protocol; protocol.MAX_HEAD_S = 1.0\n"
MISSING = "import sys; sys.modules['httptools'] = None\n"

HEALTHY = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
UPGRADES = [b"h2c", b"websocket", b"foo"]
ENDLESS = {
    "one header": (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nA: ", b"a"),
    "many headers": (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", b"a:\r\n"),
    "a path": (b"GET /", b"a"),
    "empty lines": (b"", b"\r\n"),
    "trailers": (
        b"POST /v1/estimates HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        b"a: b\r\n",
    ),
    "one trailer": (
        b"POST /v1/estimates HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: ",
        b"a",
    ),
}
REFUSED = [b"GET /", b"\r\n", b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nA: " + b"a" * 80_000]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return new_world(tmp_path_factory.mktemp("protocol") / "world", information=10**4, calls=1000)


@pytest.fixture(scope="module")
def server(world: World) -> Iterator[Server]:
    found = start(world)
    yield found
    found.kill()


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, str]]:
    """A service in which a head may take one second, and a key for it."""
    world = new_world(tmp_path_factory.mktemp("hasty") / "world", information=10**4, calls=1000)
    found = start(world, first=SLEEPY + HASTY)
    yield found, new_key(world)
    found.kill()


@pytest.fixture(scope="module")
def key(world: World) -> str:
    return new_key(world)


@contextmanager
def connected(server: Server, first: bytes = b"") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as connection:
        connection.sendall(first)
        yield connection


def all_of(connection: socket.socket) -> bytes:
    """What comes until the connection is closed. If it is not, the test fails."""
    got = b""
    with suppress(ConnectionResetError):
        while more := connection.recv(65536):
            got += more
    return got


def cut(connection: socket.socket, chunk: bytes, times: int, gap_s: float = 0) -> bool:
    """Whether the connection ends before so many of these chunks are sent."""
    try:
        for _ in range(times):
            connection.sendall(chunk)
            time.sleep(gap_s)
    except (ConnectionResetError, BrokenPipeError):
        return True
    return False


def statuses(got: bytes) -> list[int]:
    return [int(found) for found in re.findall(rb"HTTP/1.1 (\d+) ", got)]


def answered(connection: socket.socket, times: int = 1) -> bytes:
    """That many responses, and nothing after them."""
    got = b""
    while len(re.findall(rb"HTTP/1.1 [2-5]", got)) < times or not _whole(got):
        more = connection.recv(65536)
        assert more, got
        got += more
    return got


def _whole(got: bytes) -> bool:
    head, _, body = got[got.rindex(b"HTTP/1.1 ") :].partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    return length is not None and len(body) == int(length[1])


def post(path: str, key: str, body: bytes, *more: bytes, sized: bool = True) -> bytes:
    lines = [f"POST {path} HTTP/1.1".encode(), b"Host: localhost", f"Authorization: Bearer {key}".encode(), *more]
    lines += [b"Content-Length: %d" % len(body)] if sized else []
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def estimated(key: str, *more: bytes) -> bytes:
    return post("/v1/estimates", key, json.dumps(one_unit(1)).encode(), *more)


def slow(key: str, number: int) -> bytes:
    where = {"and": [{"n": {"ne": SLOW}}, {"n": {"ne": number}}]}
    return post("/v1/answers", key, json.dumps({**one_unit(SLOW), "where": where}).encode())


def padded(size: int) -> bytes:
    """A request whose head has this size."""
    start = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nA: "
    return start + b"a" * (size - len(start) - 4) + b"\r\n\r\n"


class TestHeads:
    @pytest.mark.parametrize("what", ENDLESS)
    def test_that_never_end_are_cut(self, server: Server, what: str) -> None:
        begin, more = ENDLESS[what]
        with connected(server, begin) as connection:
            assert cut(connection, more * (65536 // len(more)), 512)  # far more than the buffers of the machine take
        assert httpx2.get(f"{server.url}/healthz").status_code == 200

    def test_may_have_just_so_many_bytes(self, server: Server) -> None:
        with connected(server, padded(MAX_HEAD_BYTES)) as connection:
            assert statuses(answered(connection)) == [200]
            connection.sendall(padded(MAX_HEAD_BYTES))
            assert statuses(answered(connection)) == [200]
            connection.sendall(padded(MAX_HEAD_BYTES + 1)[:-1])
            assert statuses(all_of(connection)) == [431]

    def test_are_counted_without_the_body_behind_them(self, server: Server, key: str) -> None:
        body = json.dumps(one_unit(1)).encode().ljust(250_000)
        with connected(server, post("/v1/estimates", key, body) * 2 + HEALTHY) as connection:
            assert statuses(answered(connection, 3)) == [200, 200, 200]

    @pytest.mark.parametrize("before", [False, True], ids=["first", "next"])
    def test_that_do_not_arrive_end_the_connection(self, hasty: tuple[Server, str], before: bool) -> None:
        ends = {b"\r\n": [], b"GET": [408], HEALTHY[:-2]: [408]} | ({} if before else {b"": []})
        with ExitStack() as stack:
            opened = [(stack.enter_context(connected(hasty[0])), some) for some in ends]
            for connection, some in opened:
                if before:
                    connection.sendall(HEALTHY)
                    answered(connection)
                connection.sendall(some)
            for connection, some in opened:
                assert statuses(all_of(connection)) == ends[some]

    def test_that_arrive_byte_by_byte_are_late_all_the_same(self, hasty: tuple[Server, str]) -> None:
        with connected(hasty[0], HEALTHY[:-2]) as connection:
            assert cut(connection, b"a:\r\n", PATIENCE_S * 10, gap_s=0.1)

    def test_do_not_end_an_idle_connection(self, hasty: tuple[Server, str]) -> None:
        with connected(hasty[0], HEALTHY) as connection:
            answered(connection)
            time.sleep(2)
            connection.sendall(HEALTHY)
            assert statuses(answered(connection)) == [200]

    def test_that_are_refused_leave_the_answers_before_them(self, hasty: tuple[Server, str]) -> None:
        server, key = hasty
        with ExitStack() as stack:
            opened = [stack.enter_context(connected(server)) for _ in REFUSED]
            for number, connection in enumerate(opened):
                connection.sendall(estimated(key) + slow(key, number))  # longer than a head may take
            time.sleep(0.2)
            for connection, behind in zip(opened, REFUSED, strict=True):
                connection.sendall(behind)
            for connection in opened:
                assert statuses(all_of(connection)) == [200, 200]


class TestUpgrades:
    @pytest.mark.parametrize("upgrade", UPGRADES)
    @pytest.mark.parametrize("sized", [True, False])
    @pytest.mark.parametrize("gap_s", [0, 0.2])
    def test_with_a_body_are_refused(self, server: Server, key: str, upgrade: bytes, sized: bool, gap_s: float) -> None:
        inner = f"GET /v1/budget HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
        asks = [b"Connection: Upgrade", b"Upgrade: " + upgrade, *([] if sized else [b"Transfer-Encoding: chunked"])]
        whole = post("/v1/estimates", key, inner, *asks, sized=sized)
        head, body = whole[: -len(inner)], inner if sized else b"%x\r\n%s\r\n0\r\n\r\n" % (len(inner), inner)
        with connected(server, head) as connection:
            time.sleep(gap_s)
            with suppress(OSError):
                connection.sendall(body)
            got = all_of(connection)
        assert statuses(got) in ([400], [])
        assert b"analyst" not in got

    @pytest.mark.parametrize("upgrade", UPGRADES)
    def test_without_a_body_are_ignored(self, server: Server, upgrade: bytes) -> None:
        asks = HEALTHY[:-2] + b"Connection: Upgrade\r\nUpgrade: " + upgrade + b"\r\nContent-Length: 0\r\n\r\n"
        with connected(server, asks * 2 + HEALTHY) as connection:
            assert statuses(answered(connection, 3)) == [200] * 3
            for byte in asks + HEALTHY:
                connection.sendall(bytes([byte]))
            assert statuses(answered(connection, 2)) == [200] * 2

    def test_that_tunnel_are_refused(self, server: Server) -> None:
        with connected(server, b"CONNECT x:1 HTTP/1.1\r\nHost: localhost\r\n\r\n" + HEALTHY) as connection:
            assert statuses(all_of(connection)) == [400]

    @pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed: apt-get install curl")
    def test_of_curl_work(self, server: Server) -> None:
        command = ["curl", "--silent", "--fail", "--http2", f"{server.url}/healthz", f"{server.url}/healthz"]
        subprocess.run(command, check=True, timeout=PATIENCE_S, capture_output=True)


class TestRequests:
    def test_in_one_go_are_answered_in_order(self, server: Server, key: str) -> None:
        unknown = b"GET /v1/budget HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\n\r\n"
        with connected(server, (HEALTHY + unknown + estimated(key)) * 20) as connection:
            assert statuses(answered(connection, 60)) == [200, 401, 200] * 20

    def test_behind_a_body_that_is_not_read_are_not_answered(self, server: Server, key: str) -> None:
        with connected(server, HEALTHY + estimated("wrong") + estimated(key)) as connection:
            assert statuses(all_of(connection)) == [200, 401]

    def test_beyond_so_many_in_one_go_are_not_kept(self, server: Server, key: str) -> None:
        with connected(server, estimated(key) * (MAX_PIPELINED + 1) + HEALTHY * 5000) as connection:
            assert statuses(all_of(connection)) == [200] * (MAX_PIPELINED + 1)

    def test_byte_by_byte_are_answered(self, server: Server, key: str) -> None:
        with connected(server) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in estimated(key) + estimated(key):
                connection.sendall(bytes([byte]))
            assert statuses(answered(connection, 2)) == [200] * 2

    @pytest.mark.parametrize("size", [1, 100, 100_000])
    def test_in_chunks_are_answered(self, server: Server, key: str, size: int) -> None:
        body = json.dumps(one_unit(1)).encode().ljust(200_000)
        parts = [body[at : at + size] for at in range(0, len(body), size)]
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
        head = post("/v1/estimates", key, b"", b"Transfer-Encoding: chunked", sized=False)
        with connected(server, (head + chunks) * 2) as connection:
            assert statuses(answered(connection, 2)) == [200] * 2

    def test_have_no_headers_behind_their_bodies(self, server: Server, key: str) -> None:
        head = b"POST /v1/estimates HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        trailer = f"2\r\n{{}}\r\n0\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
        with connected(server, head + trailer) as connection:
            assert statuses(all_of(connection)) == [401]

    def test_that_wait_to_be_told_to_continue_are(self, server: Server, key: str) -> None:
        whole = estimated(key, b"Expect: 100-continue")
        at = whole.index(b"\r\n\r\n") + 4
        with connected(server, whole[:at]) as connection:
            assert statuses(connection.recv(65536)) == [100]
            connection.sendall(whole[at:])
            assert statuses(answered(connection)) == [200]

    def test_of_strangers_are_not_told_to_continue(self, server: Server) -> None:
        whole = estimated("wrong", b"Expect: 100-continue")
        with connected(server, whole[: whole.index(b"\r\n\r\n") + 4]) as connection:
            assert statuses(all_of(connection)) == [401]

    def test_with_a_broken_body_are_refused_at_once(self, server: Server, key: str) -> None:
        broken = post("/v1/estimates", key, b"x\r\n", b"Transfer-Encoding: chunked", sized=False)
        with connected(server, broken) as connection:
            assert statuses(all_of(connection)) == [400]

    def test_are_answered_without_httptools_too(self, tmp_path: Path) -> None:
        found = start(new_world(tmp_path / "world"), first=MISSING)
        try:
            with connected(found, HEALTHY) as connection:
                assert statuses(answered(connection)) == [200]
        finally:
            found.kill()
