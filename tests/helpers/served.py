"""The service in this process: a small world behind it, a clock in hand, and every reply held against the document."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import unquote

import anyio
import jsonschema
import pytest
from anyio.from_thread import BlockingPortal
from fastapi import FastAPI

from sfumato.accounting import Charge
from sfumato.errors import EngineFailed
from sfumato.ledger.api_keys import ApiKeys
from sfumato.service import openapi, pages
from sfumato.service.app import add_api_routes, add_probe_routes, create_app
from sfumato.service.middleware import HEADERS
from sfumato.service.pools import Activity
from sfumato.session import Session
from sfumato.web.console import add_console
from tests.helpers.advertised import BY_DAY, new_ads
from tests.helpers.worlds import NOW, World, new_world

TOP = {"type": "top_k", "table": "engagements", "by": "article", "measure": "members", "k": 5}
REGIONS = {"type": "histogram", "table": "engagements", "by": "region", "measure": "members"}
TOTAL = {"type": "total", "table": "engagements", "measure": "members"}
LISTING = {"sql": "SELECT DISTINCT region FROM engagements"}

UNKNOWN = "sha256:" + "0" * 64

PEOPLE = """
[analysts.omar]
budget = "partner"
role = "owner"
[analysts.axel]
budget = "partner"
role = "auditor"
[analysts.rita]
budget = "partner"
role = "reader"
"""
SERVICE = {"rate_per_minute": 0}
UNPADDED = {"pad_ms": 0}  # tests would wait


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self, now: datetime = NOW) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **by: float) -> None:
        self.now += timedelta(**by)


@dataclass(frozen=True)
class Reply:
    """A response, whole."""

    status: int
    pairs: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def headers(self) -> dict[str, str]:
        names = [name for name, _ in self.pairs]
        assert len(names) == len(set(names)), names
        return dict(self.pairs)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def kind(self) -> str:
        """Of a problem: the end of its type. Empty for what is none."""
        return self.json.get("type", "").removeprefix("/problems/")

    @property
    def lasting(self) -> tuple[Any, ...]:
        """All of it but what names the call, and whether its own body was left unread."""
        kept = sorted(pair for pair in self.pairs if pair[0] not in ("x-request-id", "connection"))
        return self.status, kept, self.body


class Served:
    """The service over a world."""

    def __init__(self, world: World, portal: BlockingPortal, clock: Clock, *, console: bool = False) -> None:
        self.world, self.clock, self._portal = world, clock, portal
        self.session = Session(world.path, clock=clock)
        with patch.object(pages, "openapi", _described):
            self.app = create_app(self.session, add_console=add_console if console else None)
        self.keys = ApiKeys(self.session.ledger)

    def key(self, analyst: str = "anna", role: str | None = None, expires: datetime | None = None) -> str:
        known = self.session.config.analysts
        given = role or (known[analyst].role if analyst in known else "analyst")
        return self.keys.create(analyst, given, expires, self.clock.now)[0]  # type: ignore[arg-type]

    def ask(self, key: str, question: Any = TOP, **options: Any) -> Reply:
        return self.call("POST", "/v1/answers", key=key, json=question, **options)

    def report(self, key: str, question: Any = BY_DAY, **options: Any) -> Reply:
        return self.call("POST", "/v1/reports", key=key, json=question, **options)

    def get(self, path: str, key: str | None = None, **headers: str) -> Reply:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.call("GET", path, key=key, headers=named)

    def call(
        self,
        method: str,
        path: str,
        *,
        key: str | None = None,
        body: bytes | Sequence[bytes] | None = None,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        delay_s: float = 0,
        **json_body: Any,
    ) -> Reply:
        """One call. A body that is a sequence comes in chunks, without its length, `delay_s` apart."""
        if "json" in json_body:
            body = json.dumps(json_body.pop("json")).encode()
        assert not json_body
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
        if key is not None:
            pairs.append(("authorization", f"Bearer {key}"))
        chunks = [body] if isinstance(body, bytes) else list(body or [b""])
        if isinstance(body, bytes) and "content-length" not in dict(pairs):
            pairs.append(("content-length", str(len(body))))
        reply = self.send(method, path, pairs, chunks, delay_s)
        check_reply(method, path, reply)
        return reply

    def send(
        self, method: str, path: str, headers: list[tuple[str, str]], chunks: list[bytes], delay_s: float = 0
    ) -> Reply:
        """One call, as it is."""
        return self._portal.call(_called, self.app, method, path, headers, chunks, delay_s)

    def spent(self, analyst: str = "anna") -> Charge:
        return self.session.budget(analyst).accounts[0].spent

    def reserved(self, analyst: str = "anna") -> Charge:
        return self.session.budget(analyst).accounts[0].reserved


_DOCUMENTS: list[dict[str, Any]] = []


def _described(app: FastAPI) -> dict[str, Any]:
    """The document of the routes, which are the same in every app: it is made once."""
    if not _DOCUMENTS:
        _DOCUMENTS.append(openapi.openapi(app))
    return _DOCUMENTS[0]


def new_served(
    folder: Path,
    portal: BlockingPortal,
    *,
    service: Mapping[str, Any] = SERVICE,
    now: datetime = NOW,
    ads: bool = False,
    govern: bool = False,
    console: bool = False,
    more: str = "",
    prepare: Callable[[World], None] = lambda _: None,
    **config: Any,
) -> Served:
    """A service over a new world.

    With `ads` it has reports, with `console` pages, and with `govern` owners make keys and grants. `more` stands in its
    file, too. `prepare` changes the world before it is opened.
    """
    world = (new_ads if ads else new_world)(folder, **config)
    settings = "".join(f"{name} = {value}\n" for name, value in {**UNPADDED, **service}.items())
    world.path.write_text(world.path.read_text() + PEOPLE + "[service]\n" + settings + more)
    if govern:
        world.path.write_text(world.path.read_text() + "[console]\ngovern = true\n")
    prepare(world)
    return Served(world, portal, Clock(now), console=console)


def digest_of(reply: Reply) -> str:
    return reply.json["receipt"]["digest"]


def break_engine(served: Served, monkeypatch: pytest.MonkeyPatch, error: BaseException | None = None) -> None:
    """Let every query of the engine fail, with this error or with `EngineFailed`."""
    engine = served.session._catalog.engine("engagements")

    def fail(*_: Any, **__: Any) -> Any:
        raise error or EngineFailed("the engine could not answer")

    monkeypatch.setattr(type(engine), "run", fail)


async def _called(
    app: Any, method: str, path: str, headers: list[tuple[str, str]], chunks: list[bytes], delay_s: float
) -> Reply:
    bare, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(bare),
        "raw_path": bare.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8080),
    }
    pieces, sent = _pieces(chunks, delay_s), []

    async def receive() -> dict[str, Any]:
        return await anext(pieces, {"type": "http.disconnect"})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start, *rest = sent
    pairs = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in start["headers"])
    return Reply(start["status"], pairs, b"".join(message.get("body", b"") for message in rest))


async def _pieces(chunks: list[bytes], delay_s: float) -> AsyncIterator[dict[str, Any]]:
    for at, chunk in enumerate(chunks, start=1):
        if delay_s:
            await anyio.sleep(delay_s)
        yield {"type": "http.request", "body": chunk, "more_body": at < len(chunks)}


# -- every reply against the document --


@cache
def document() -> dict[str, Any]:
    bare = FastAPI(title="Sfumato", version="1")
    add_api_routes(bare, None, Activity())  # type: ignore[arg-type]
    add_probe_routes(bare, None, None)  # type: ignore[arg-type]
    return json.loads(json.dumps(openapi.openapi(bare)))


@cache
def validator(schema: str) -> jsonschema.Draft202012Validator:
    """Of a schema, written as JSON, whose references lead into the document."""
    whole = {**json.loads(schema), "components": document()["components"]}
    return jsonschema.Draft202012Validator(whole, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)


def check_schema(schema: Any, value: Any) -> None:
    validator(json.dumps(schema, sort_keys=True)).validate(value)


@cache
def template(path: str) -> str | None:
    """The path of the document that a path belongs to."""
    bare = path.partition("?")[0]
    exact = [known for known in document()["paths"] if known == bare]
    fitting = [known for known in document()["paths"] if re.fullmatch(re.sub("{[a-z]+}", "[^/]+", known), bare)]
    return next(iter([*exact, *fitting]), None)


def check_reply(method: str, path: str, reply: Reply) -> None:
    """What holds for every reply: our headers; and status, media type, headers and body as the document has them."""
    headers = reply.headers
    assert re.fullmatch("[0-9a-f]{32}", headers["x-request-id"])
    for name, value in HEADERS.items():
        assert name in headers
        assert headers[name] == value or name in ("content-security-policy", "cache-control")
    assert "server" not in headers
    if reply.status >= 400 and headers["content-type"] != "application/json":
        assert headers["content-type"] == "application/problem+json"
        check_schema({"$ref": "#/components/schemas/Problem"}, reply.json)
        assert reply.json["status"] == reply.status
    operation = document()["paths"].get(template(path) or "", {}).get(method.lower())
    if operation is not None:
        _check_documented(operation["responses"], reply)


def _check_documented(responses: Mapping[str, Any], reply: Reply) -> None:
    assert str(reply.status) in responses, f"{reply.status} is not documented"
    documented = responses[str(reply.status)]
    for name, described in documented.get("headers", {}).items():
        value = reply.headers.get(name.lower())
        assert value is not None or not described.get("required"), f"{name} is missing"
        if value is not None:
            check_schema(described["schema"], value)
    if "content" not in documented:
        assert reply.body == b""
        return
    media = reply.headers["content-type"].partition(";")[0]
    assert media in documented["content"], f"{media} is not documented for {reply.status}"
    if media.endswith("json"):
        check_schema(documented["content"][media]["schema"], reply.json)
