"""The processes: one service per SQLite ledger, readiness, start and stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sfumato.errors import ConfigError, InvalidArgument, LedgerFailed
from sfumato.service import readiness
from sfumato.service import server as server_module
from tests.helpers.served import TOP, Served, check_schema
from tests.helpers.worlds import new_world

Serving = Callable[..., Served]


class TestOneService:
    def test_a_second_one_on_the_same_ledger_is_refused(self, serving: Serving) -> None:
        served = serving()
        served.session.ledger.lock_service()
        with served.world.open() as second, pytest.raises(ConfigError, match="another `sfumato serve`"):
            second.ledger.lock_service()
        served.session.close()
        with served.world.open() as second:
            second.ledger.lock_service()

    @pytest.mark.parametrize("host", ["", "[service]\nhost = ''"])
    def test_an_empty_host_is_refused(self, serving: Serving, tmp_path: Path, host: str) -> None:
        path = serving().world.path
        if host:
            text = path.read_text()
            path.write_text(text.replace("[service]", host) if "[service]" in text else f"{text}\n{host}\n")
        with pytest.raises((ConfigError, InvalidArgument), match="host: must name an address"):
            server_module.serve(str(path), host=None if host else "", announce=print)

    @pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.7", "::", "answers.example.com"])  # noqa: S104
    @pytest.mark.parametrize("by_option", [True, False])
    def test_a_host_that_others_reach_needs_a_word(self, tmp_path: Path, host: str, by_option: bool) -> None:
        path = new_world(tmp_path / "world").path
        if not by_option:
            path.write_text(f'{path.read_text()}[service]\nhost = "{host}"\n')
        with pytest.raises(
            (ConfigError, InvalidArgument), match=r"host: .*keys and answers travel readable.*--behind-proxy"
        ):
            server_module.serve(str(path), host=host if by_option else None, announce=print)

    def test_a_slow_check_is_not_ready(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        gate = threading.Event()
        monkeypatch.setattr(readiness, "MAX_READINESS_S", 0.1)
        monkeypatch.setattr(served.session, "check_part", lambda _: gate.wait(10))
        try:
            reply = served.get("/readyz")
            assert (reply.status, reply.json["status"]) == (503, "not ready")
            assert served.get("/readyz").status == 503  # the first check still runs, and is not waited for
            assert served.get("/healthz").status == 200
        finally:
            gate.set()


class TestProcess:
    def test_the_session_is_closed_at_the_end(self, served: Served) -> None:
        sent: list[str] = []
        messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

        async def run() -> None:
            async def receive() -> Any:
                return next(messages)

            async def send(message: Any) -> None:
                sent.append(message["type"])

            await served.app({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)

        served._portal.call(run)
        assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
        with pytest.raises(LedgerFailed):
            served.session.budget("anna")

    @pytest.fixture
    def address(self, served: Served) -> Iterator[str]:
        import uvicorn

        bound = server_module.bind("127.0.0.1", 0)
        server = uvicorn.Server(server_module.uvicorn_config(served.app))
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            yield server_module.url_of(bound)
        finally:
            server.should_exit = True
            thread.join()

    def test_by_our_server(self, served: Served, address: str) -> None:
        import httpx2

        key = served.key()
        with httpx2.Client(base_url=address, headers={"authorization": f"Bearer {key}"}) as client:
            first = client.post("/v1/answers", json=TOP)
            found = client.get(f"/v1/answers/{first.json()['receipt']['digest']}")
            assert first.content == found.content
            replies = [first, found, client.get("/nope"), client.post("/healthz"), client.head("/v1/budget")]
            replies.append(client.post("/v1/answers", content=b"x" * (1 << 19)))
            assert [reply.status_code for reply in replies] == [200, 200, 404, 405, 405, 413]
            for reply in replies:
                assert "server" not in reply.headers
                assert reply.headers["x-content-type-options"] == "nosniff"
                assert len(reply.headers.get_list("x-request-id")) == 1

    def test_the_schema_of_a_problem_is_closed(self) -> None:
        import jsonschema

        with pytest.raises(jsonschema.ValidationError):
            check_schema({"$ref": "#/components/schemas/Problem"}, {"type": "/problems/x", "title": "", "status": 1})
