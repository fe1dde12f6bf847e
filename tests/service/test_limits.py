"""Limits per caller: size, nesting and types of bodies, time, rate."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal

from sfumato.accounting import NOTHING
from sfumato.service import bodies, limits
from tests.helpers.served import TOP, TOTAL, Served, new_served

Serving = Callable[..., Served]


@pytest.mark.slow
class TestLimits:
    MOST = 2000

    @pytest.fixture(scope="class")
    @classmethod
    def small(cls, portal: BlockingPortal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
        service = {"rate_per_minute": 0, "max_request_bytes": cls.MOST}
        served = new_served(tmp_path_factory.mktemp("small") / "world", portal, service=service)
        with served.session:
            yield served

    @pytest.mark.parametrize("path", ["/v1/answers", "/v1/estimates", "/v1/reports"])
    @pytest.mark.parametrize("chunked", [False, True])
    def test_too_large(self, small: Served, path: str, chunked: bool) -> None:
        body = b"x" * (self.MOST + 1)
        sent = [body[:1000], body[1000:]] if chunked else body
        encoding = {"transfer-encoding": "chunked"} if chunked else {}
        reply = small.call("POST", path, key=small.key(), body=sent, headers=encoding)
        assert (reply.status, reply.kind, reply.headers["connection"]) == (413, "too-large", "close")

    def test_as_large_as_can_be(self, small: Served) -> None:
        body = json.dumps(TOP).encode()
        body += b" " * (self.MOST - len(body))
        key = small.key()
        assert small.call("POST", "/v1/answers", key=key, body=body).status == 200
        assert small.call("POST", "/v1/answers", key=key, body=[body[:7], b"", body[7:]]).status == 200

    @pytest.mark.parametrize("length", ["-1", "x", "1e3", "9" * 400, "٣", "+1", ""])
    def test_lengths_that_are_none(self, small: Served, length: str) -> None:
        if not length.isascii():
            length = "\xb2"
        reply = small.call("POST", "/v1/answers", key=small.key(), body=b"{}", headers={"content-length": length})
        assert reply.status == (413 if length else 422)

    BODIES = (
        *(b"", b"{", b"[]", b"1", b'"x"', b"null", b"\xff", b"\xef\xbb\xbf{}", b"{} {}", b"{'a': 1}", b'{"a": 1,}'),
        *(b'{"k": NaN}', b'{"k": Infinity}', b'{"k": -Infinity}', b'{"sql": "\\ud800"}', b'{"\\udfff": 1}'),
        *(b"[" * 10_000, b'{"a":' * 10_000, b'{"a":' * 10_000 + b"1" + b"}" * 10_000, b'{"where":' + b"[" * 10_000),
        *(b'{"k": ' + b"9" * 5000 + b"}", b'{"sql": "\xed\xa0\x80"}', b"\x00", b'{"sql": "a\nb"}'),
        b'{"a": "\\u0041", "w": ' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"} x",
    )

    @pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
    @pytest.mark.parametrize("path", ["/v1/answers", "/v1/estimates"])
    def test_not_an_object(self, shared: Served, path: str, body: bytes) -> None:
        reply = shared.call("POST", path, key=shared.key(), body=body)
        assert (reply.status, reply.kind) == (400, "invalid-argument")
        assert reply.json["detail"].startswith("body:")

    TWICE = (
        ('{"sql": "SELECT 1", "sql": "SELECT members FROM engagements"}', "sql"),
        (
            '{"type": "total", "table": "engagements", "measure": "members", "where": {"region": "emea", "region": 1}}',
            "region",
        ),
        ('{"type": "total", "where": {"or": [{"not": {"n": 1, "n": 2}}]}}', "n"),
        ('{"a": {"k": 1, "\\u006b": 1}}', "k"),
        ('{"\\ud800": 1, "\\ud800": 2}', "\\ud800"),
    )

    @pytest.mark.parametrize(("body", "key"), TWICE, ids=range(len(TWICE)))
    @pytest.mark.parametrize("path", ["/v1/answers", "/v1/estimates", "/v1/reports"])
    def test_a_key_twice(self, shared: Served, path: str, body: str, key: str) -> None:
        reply = shared.call("POST", path, key=shared.key(), body=body.encode())
        assert (reply.status, reply.kind) == (400, "invalid-argument")
        assert reply.json["detail"] == f"body: has the key '{key}' twice in one object; keep one of them"

    @pytest.mark.parametrize(
        ("body", "depth"),
        [
            (b"{}", 1),
            (b'{"a": "' + 1000 * b"{" + b'"}', 1),
            (b'{"a": "\\"' + 1000 * b"[" + b'"}', 1),
            (500 * b'{"a":[' + 500 * b"]}", 1000),
            (1000 * b"[]", 1),
            (130_000 * b'"\\' + 300 * b"{", 0),  # a text without an end, which must not be looked for again and again
            (260_000 * b'"' + 300 * b"{", 300),
        ],
    )
    def test_depth_is_counted_outside_texts(self, body: bytes, depth: int) -> None:
        assert limits.nesting(body) == depth

    @pytest.mark.parametrize("depth", [10, 50, 100, 400, 900, 950, 980, 990, 1000, 2000])
    @pytest.mark.parametrize("word", ["not", "and", "n", "x", "or"])
    def test_nested_filters(self, shared: Served, depth: int, word: str) -> None:
        opened, closed = ("[", "]") if word in ("and", "or") else ("", "")
        where = f'{{"{word}": {opened}' * depth + '{"region": "emea"}' + f"{closed}}}" * depth
        body = (json.dumps({**TOTAL, "where": 0})[:-2] + where + "}").encode()
        reply = shared.call("POST", "/v1/answers", key=shared.key(), body=body)
        fine = (200,) if depth == 10 and word in ("not", "and", "or") else (200, 422) if depth == 50 else (400, 422)
        assert reply.status in fine

    QUESTIONS = (
        {},
        {"sql": None},
        {"sql": 1},
        {"sql": ["SELECT"]},
        {"sql": ""},
        {"sql": "\x00"},
        {"sql": "SELECT", "k": 1},
        {"type": "top_k"},
        {"type": []},
        {"type": {}},
        {"type": None},
        {"type": "x" * 10_000},
        *({**TOP, "k": k} for k in (0, -1, 21, True, 1.0, 1.5, "5", [], 10**30, 10**4000, 1e300)),
        *(
            {**TOP, "by": by}
            for by in (None, 1, [], {}, [1], [["article"]], "x", ["article", "article"], "", "member_id")
        ),
        *({**TOP, "measure": measure} for measure in (None, 1, [], {}, "x", "")),
        *({**TOP, "table": table} for table in (None, 1, [], {}, "x", "", "information_schema.tables")),
        *({**TOP, "counts": counts} for counts in (None, 0, "true", [])),
        *({**TOTAL, "where": where} for where in (1, [], "region = 'emea'", True, {"x": 1}, {"": 1}, {"region": None})),
        *({**TOTAL, "where": {"n": value}} for value in (10**30, -(10**100), 1.5, "x", True, None, [[1]], "9" * 100)),
        *(
            {**TOTAL, "where": {"day": value}}
            for value in (1, "2026-02-30", "", {"between": []}, {"like": "x"}, [None])
        ),
        *({**TOTAL, "where": {"region": value}} for value in ("\x00", "x" * 1001, ["a"] * 1001, {"eq": {"eq": 1}})),
        {**TOTAL, "where": {"and": {}}},
        {**TOTAL, "where": {"or": [1]}},
        {**TOTAL, "where": {"not": []}},
        {**TOTAL, "x": 1},
        {**TOTAL, "x" * 1000: 1},
    )

    @pytest.mark.parametrize("question", QUESTIONS, ids=range(len(QUESTIONS)))
    def test_wrong_types(self, shared: Served, question: dict[str, Any]) -> None:
        key = shared.key()
        for path in ("/v1/answers", "/v1/estimates"):
            reply = shared.call("POST", path, key=key, json=question)
            assert (reply.status, reply.kind) in ((422, "not-supported"), (404, "table-not-found"))
            assert len(reply.body) < 3000
        assert shared.reserved() == NOTHING

    def test_a_number_that_is_infinite(self, served: Served) -> None:
        body = json.dumps({**TOTAL, "where": {"n": 0}}).replace("0}", "1e400}").encode()
        assert served.call("POST", "/v1/answers", key=served.key(), body=body).status == 422

    def test_a_megabyte_of_sql(self, serving: Serving) -> None:
        served = serving(service={"rate_per_minute": 0, "max_request_bytes": 3_000_000})
        key = served.key()
        spaces = "SELECT members FROM engagements" + " " * 1_000_000
        deep = "SELECT members FROM engagements WHERE " + "(" * 500_000
        for sql in (spaces, deep, "x" * 1_000_000, "SELECT DISTINCT " + "/*" * 500_000):
            begun = time.process_time()  # of work, not of the clock: others may use the machine
            assert served.ask(key, {"sql": sql}).status == 422
            assert time.process_time() - begun < 4  # milliseconds; comparing all pairs of characters takes hours

    def test_a_slow_body(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bodies, "MAX_BODY_S", 0.01)
        key, chunked = served.key(), {"transfer-encoding": "chunked"}
        for path in ("/v1/answers", "/v1/answers", "/v1/estimates"):
            reply = served.call("POST", path, key=key, body=[b"{", b"}"], delay_s=0.1, headers=chunked)
            assert (reply.status, reply.kind, reply.headers["connection"]) == (400, "invalid-argument", "close")

    def test_the_body_of_a_stranger_is_not_waited_for(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bodies, "MAX_BODY_S", 0.01)
        for path in ("/v1/answers", "/v1/estimates", "/v1/reports"):
            for key in (None, "wrong"):
                reply = served.call("POST", path, key=key, body=[b"{", b"}"], delay_s=0.1)
                assert (reply.status, reply.kind) == (401, "unauthorized")

    def test_a_caller_who_leaves(self, served: Served) -> None:
        sent: list[Any] = []

        async def leave() -> None:
            async def receive() -> Any:
                return {"type": "http.disconnect"}

            async def send(message: Any) -> None:
                sent.append(message)

            headers = [(b"authorization", f"Bearer {served.key()}".encode())]
            scope = {"type": "http", "method": "POST", "path": "/v1/answers", "headers": headers, "query_string": b""}
            await served.app(scope, receive, send)  # type: ignore[arg-type]

        served._portal.call(leave)
        assert [message.get("status") for message in sent if "status" in message] == [499]  # for the log
        assert served.spent() == NOTHING


class TestRates:
    def test_a_minute_s_worth_for_each(self, serving: Serving) -> None:
        served = serving(service={"rate_per_minute": 3})
        anna, ben = served.key(), served.key("ben")
        replies = [served.get("/v1/budget", anna) for _ in range(5)]
        assert [reply.status for reply in replies] == [200, 200, 200, 429, 429]
        assert replies[-1].kind == "rate-limited"
        assert 1 <= int(replies[-1].headers["retry-after"]) <= 20
        assert served.get("/v1/budget", served.key()).status == 429
        assert served.get("/v1/budget", ben).status == 200
        assert served.get("/healthz").status == 200

    def test_what_is_remembered_counts_too(self, serving: Serving) -> None:
        served = serving(service={"rate_per_minute": 5})
        key = served.key()
        assert [served.ask(key).status for _ in range(7)] == [200] * 5 + [429] * 2

    def test_a_refused_call_charges_nothing(self, serving: Serving) -> None:
        served = serving(service={"rate_per_minute": 1})
        key = served.key()
        assert [served.ask(key, question).status for question in (TOP, TOTAL)] == [200, 429]
        assert served.reserved() == NOTHING
