"""The service, route by route. `Served` holds every reply against the document besides."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
from anyio.from_thread import BlockingPortal

from sfumato.accounting import NOTHING, Charge
from sfumato.errors import ConfigError, EngineFailed, InvalidArgument, LedgerFailed
from sfumato.ledger import accounts_of, open_ledger
from sfumato.ledger.api_keys import ApiKeys
from sfumato.problems import PLACE, PROBLEM_TYPES, read_problem
from sfumato.service import app as app_module
from sfumato.service import limits, middleware
from sfumato.service import server as server_module
from sfumato.session import Session
from tests.helpers.served import LISTING, REGIONS, TOP, TOTAL, Reply, Served, check_schema
from tests.helpers.worlds import NOW

Serving = Callable[..., Served]

UNKNOWN = "sha256:" + "0" * 64


def digest_of(reply: Reply) -> str:
    return reply.json["receipt"]["digest"]


class TestShapes:
    """Over HTTP there is what there is embedded."""

    @pytest.mark.parametrize("question", [TOP, REGIONS, TOTAL, {**TOP, "counts": False}, {"sql": "SELECT members"}])
    def test_answers_and_estimates(self, served: Served, question: dict[str, Any]) -> None:
        if "sql" in question:
            question = {"sql": "SELECT region, members FROM engagements GROUP BY region"}
        key = served.key()
        estimate = served.call("POST", "/v1/estimates", key=key, json=question)
        assert estimate.json == served.session.estimate(question, analyst="anna").to_dict()
        first, again = served.ask(key, question), served.ask(key, question)
        assert (first.status, again.status) == (200, 200)
        assert again.json == served.session.ask(question, analyst="anna").to_dict()
        assert not first.json["receipt"]["repeat"]
        assert again.json["receipt"]["repeat"]
        assert again.json["receipt"]["charge"] == NOTHING.to_dict()
        assert first.json["rows"] == again.json["rows"]

    def test_looking(self, served: Served) -> None:
        key, owner = served.key(), served.key("omar")
        served.ask(key)
        session = served.session
        assert served.get("/v1/budget", key).json == session.budget("anna").to_dict()
        assert served.get("/v1/budget/charges", key).json == session.charges("anna").to_dict()
        assert served.get("/v1/tables", key).json == session.tables().to_dict()
        usage = served.get("/v1/admin/usage?budget=10,1&budget=5,1", owner).json
        assert (usage["since"], usage["until"]) == ("2026-10-16", "2026-11-15")
        assert {row["analyst"] for row in usage["rows"]} == {"anna"}
        assert [each["budget"]["information"] for each in usage["forecast"]] == ["10", "5"]
        assert served.get("/healthz").json == {"status": "ok"}
        assert served.get("/readyz").json == {"status": "ready", "checks": {"ledger": "ok", "engines": "ok"}}
        assert 'sfumato_answers_total{repeat="false"} 1.0' in served.get("/metrics").body.decode()

    def test_a_listing_is_free(self, served: Served) -> None:
        reply = served.ask(served.key(), LISTING)
        assert sorted(row["region"] for row in reply.json["rows"]) == ["amer", "apac", "emea"]
        assert reply.json["receipt"]["charge"] == NOTHING.to_dict()
        assert served.spent() == NOTHING

    def test_budget_headers(self, serving: Serving) -> None:
        served = serving(resets="never")
        reply = served.ask(served.key())
        left = reply.json["receipt"]["left"]
        assert reply.headers["sfumato-left-information"] == left["information"]
        assert reply.headers["sfumato-left-calls"] == left["calls"]
        assert "sfumato-resets" not in reply.headers

    def test_the_day_of_the_next_period_is_a_header(self, served: Served) -> None:
        key = served.key()
        first = served.ask(key)
        assert first.headers["sfumato-resets"] == first.json["receipt"]["resets"] == "2026-12-01"
        assert served.get(f"/v1/answers/{digest_of(first)}", key).headers["sfumato-resets"] == "2026-12-01"

    def test_request_ids_differ(self, served: Served) -> None:
        key = served.key()
        replies = [*(served.get("/healthz") for _ in range(50)), *(served.ask(key) for _ in range(50))]
        assert len({reply.headers["x-request-id"] for reply in replies}) == 100

    def test_a_shared_budget_and_a_cap(self, serving: Serving) -> None:
        served = serving(cap=True)
        key = served.key()
        assert served.ask(key).status == 200
        accounts = [each["account"] for each in served.get("/v1/budget", key).json["accounts"]]
        assert accounts[0] == "analyst:anna"
        assert len(accounts) == 3

    def test_tracked(self, serving: Serving) -> None:
        served = serving(mode="track", information=1, calls=1)
        key = served.key()
        assert [served.ask(key, question).status for question in (TOP, TOTAL, REGIONS)] == [200] * 3
        assert served.ask(key, {**TOP, "k": 6}).headers["sfumato-left-information"].startswith("-")


@pytest.mark.slow
class TestRecall:
    def test_the_same_bytes(self, served: Served) -> None:
        key = served.key()
        first = served.ask(key)
        served.ask(key, TOTAL)
        served.ask(key)
        found = served.get(f"/v1/answers/{digest_of(first)}", key)
        assert found.body == first.body
        assert found.headers["etag"] == f'"{digest_of(first)}"'
        assert found.headers["cache-control"] == "private, no-cache"

    def test_what_is_left_is_what_is_left_now(self, served: Served) -> None:
        key = served.key()
        first, second = served.ask(key), served.ask(key, TOTAL)
        found = served.get(f"/v1/answers/{digest_of(first)}", key)
        assert found.headers["sfumato-left-information"] == second.json["receipt"]["left"]["information"]

    @pytest.mark.parametrize("form", ['"{}"', 'W/"{}"', "*", '"x", "{}"', 'W/"x" ,W/"{}"', ' "{}" , "y"', "* "])
    def test_not_modified(self, served: Served, form: str) -> None:
        key = served.key()
        digest = digest_of(served.ask(key))
        found = served.get(f"/v1/answers/{digest}", key, if_none_match=form.format(digest))
        assert (found.status, found.body) == (304, b"")
        assert found.headers["etag"] == f'"{digest}"'
        assert "content-type" not in found.headers

    @pytest.mark.parametrize("form", ["", "{}", '"x"', '"{}', '"{} "', '"x{}"', '"*"', '*, "x"', "w/{}", 'W/W/"{}"'])
    def test_modified(self, served: Served, form: str) -> None:
        key = served.key()
        digest = digest_of(served.ask(key))
        assert served.get(f"/v1/answers/{digest}", key, if_none_match=form.format(digest)).status == 200

    def test_tags_in_several_headers(self, served: Served) -> None:
        key = served.key()
        digest = digest_of(served.ask(key))
        headers = [("if-none-match", '"x"'), ("if-none-match", f'"{digest}"')]
        assert served.call("GET", f"/v1/answers/{digest}", key=key, headers=headers).status == 304

    @pytest.mark.parametrize("tag", ["", "*", '"{}"', 'W/"{}"'])
    def test_foreign_and_unknown_look_alike(self, served: Served, tag: str) -> None:
        mine, hers = served.key("ben"), served.key()
        digest = digest_of(served.ask(hers))
        paths = [digest, UNKNOWN, "x", "sha256:", digest.upper(), "%00", "%F0%9F%92%A5", "a" * 5000, "%FF"]
        replies = [served.get(f"/v1/answers/{path}", mine, if_none_match=tag.format(digest)) for path in paths]
        assert {reply.status for reply in replies} == {404}
        assert len({repr(reply.lasting) for reply in replies}) == 1

    def test_after_a_new_data_version(self, serving: Serving) -> None:
        served = serving(version='"daily"')
        key = served.key()
        first = served.ask(key)
        served.clock.advance(days=1)
        assert served.get(f"/v1/answers/{digest_of(first)}", key).body == first.body
        assert digest_of(served.ask(key)) != digest_of(first)

    def test_what_is_only_reserved_is_not_there(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        broken(served, monkeypatch)
        key = served.key()
        served.ask(key)
        [row] = [row for row in served.get("/v1/budget/charges", key).json["rows"] if row["account"] == "analyst:anna"]
        assert row["state"] == "reserved"
        assert served.get(f"/v1/answers/{row['digest']}", key).status == 404


@pytest.mark.slow
class TestCharges:
    @pytest.mark.parametrize("rows", [1, 2, 3, 1000])
    def test_pages(self, served: Served, rows: int) -> None:
        key, other = served.key(), served.key("olga")
        for k in range(1, 6):
            assert served.ask(key, {**TOP, "k": k}).status == 200
            served.ask(other, {**TOP, "k": k})
        seen, cursor, pages = [], "", 0
        while cursor is not None:
            page = served.get(f"/v1/budget/charges?rows={rows}{cursor and '&cursor='}{cursor}", key)
            assert page.status == 200
            seen += page.json["rows"]
            cursor, pages = page.json["next"], pages + 1
            assert len(page.json["rows"]) <= rows
        whole = served.session.charges("anna", rows=10_000).to_dict()["rows"]
        assert seen == whole
        assert {row["account"] for row in seen} == {"analyst:anna", "organisation:acme"}
        assert pages == -(-len(whole) // rows)

    @pytest.mark.parametrize(
        "query", [*(f"cursor={text}" for text in ("x", "-1", "", "1.0", "9" * 19, "%31%00", "1'--", "٣", "+1"))]
    )
    def test_bad_cursors(self, served: Served, query: str) -> None:
        query = query if query.isascii() else "cursor=%D9%A3"
        reply = served.get(f"/v1/budget/charges?{query}", served.key())
        assert (reply.status, reply.kind) == (400, "invalid-argument")
        assert reply.json["detail"].startswith("cursor:")

    @pytest.mark.parametrize("text", ["0", "-1", "1001", "x", "", "1e2", "99999999999999999999", "%D9%A3", "1.0", "+1"])
    def test_bad_rows(self, served: Served, text: str) -> None:
        reply = served.get(f"/v1/budget/charges?rows={text}", served.key())
        assert (reply.status, reply.json["detail"].partition(":")[0]) == (400, "rows")

    def test_reservations_are_on_one_page_only(self, served: Served) -> None:
        key = served.key()
        served.ask(key)
        with pytest.MonkeyPatch.context() as patched:
            broken(served, patched)
            for k in range(6, 9):
                assert served.ask(key, {**TOP, "where": {"n": k}}).status == 503
        seen, cursor = [], ""
        while cursor is not None:
            page = served.get(f"/v1/budget/charges?rows=2{cursor and '&cursor='}{cursor}", key).json
            seen += [json.dumps(row) for row in page["rows"]]
            cursor = page["next"]
        assert len(seen) == len(set(seen))
        assert seen == [json.dumps(row) for row in served.session.charges("anna", rows=10_000).to_dict()["rows"]]
        assert sum('"reserved"' in row for row in seen) == 6

    def test_a_cursor_beyond_the_end(self, served: Served) -> None:
        key = served.key()
        served.ask(key)
        assert served.get(f"/v1/budget/charges?cursor={'9' * 18}", key).json == {"rows": [], "next": None}
        assert served.get("/v1/budget/charges?cursor=0", key).json == {"rows": [], "next": None}

    @pytest.mark.parametrize(
        "query",
        [
            *(
                "since=x",
                "until=2026-13-01",
                "since=2026-11-16&until=2026-11-01",
                "since=1969-01-01",
                "since=2020-01-01",
            ),
            *(
                "budget=x",
                "budget=1",
                "budget=-1,2",
                "budget=1,2,3",
                "&".join(["budget=1,1"] * 11),
                "budget=",
                "since=",
            ),
        ],
    )
    def test_bad_usage(self, served: Served, query: str) -> None:
        reply = served.get(f"/v1/admin/usage?{query}", served.key("omar"))
        assert (reply.status, reply.kind) == (400, "invalid-argument")


# -- problems --


def broken(served: Served, monkeypatch: pytest.MonkeyPatch, error: BaseException | None = None) -> None:
    """An engine that fails, somehow."""
    engine = served.session._catalog.engine("engagements")

    def fail(*_: Any, **__: Any) -> Any:
        raise error or EngineFailed("the engine could not answer")

    monkeypatch.setattr(type(engine), "run", fail)


@pytest.mark.slow
class TestProblems:
    def provoked(self, name: str, serving: Serving, monkeypatch: pytest.MonkeyPatch) -> Reply:
        small = {"calls": 1, "information": 30}
        served = serving(
            **(small if name == "budget-exhausted" else {}),
            service={"rate_per_minute": 1 if name == "rate-limited" else 0, "max_request_bytes": 5000},
        )
        key = served.key()
        if name == "engine-failed":
            broken(served, monkeypatch)
        if name == "ledger-failed":
            served.world.fence.unlink()
        if name == "failed":
            monkeypatch.setattr(Session, "tables", lambda _: 1 / 0)
            return served.get("/v1/tables", key)
        if name == "in-flight":
            from sfumato.errors import Conflict

            def clash(*_: Any, **__: Any) -> Any:
                raise Conflict("a call with this Idempotency-Key is being answered at this moment; send it again")

            monkeypatch.setattr(Session, "ask", clash)
        if name == "key-reused":
            served.ask(key, TOTAL, headers={"idempotency-key": "k"})
            return served.ask(key, TOP, headers={"idempotency-key": "k"})
        if name in ("budget-exhausted", "rate-limited"):
            served.ask(key, {**TOP, "k": 2})
        calls: dict[str, Callable[[], Reply]] = {
            "not-supported": lambda: served.ask(key, {**TOP, "by": "articel"}),
            "unauthorized": lambda: served.get("/v1/budget"),
            "not-found": lambda: served.get(f"/v1/answers/{UNKNOWN}", key),
            "invalid-argument": lambda: served.call("POST", "/v1/answers", key=key, body=b"["),
            "too-large": lambda: served.call("POST", "/v1/answers", key=key, body=b" " * 5001),
            "method-not-allowed": lambda: served.call("DELETE", "/v1/answers", key=key),
            "budget-exhausted": lambda: served.ask(key, {**TOP, "by": "job_title"}),
        }
        return calls.get(name, lambda: served.ask(key))()

    @pytest.mark.parametrize("kind", PROBLEM_TYPES, ids=lambda kind: kind.name)
    def test_every_kind(self, kind: Any, serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
        reply = self.provoked(kind.name, serving, monkeypatch)
        assert (reply.status, reply.kind) == (kind.status, kind.name)
        assert reply.headers["content-type"] == "application/problem+json"
        assert reply.json["title"] == kind.title
        if kind.detail:
            assert reply.json["detail"] == kind.detail
        assert ("retry-after" in reply.headers) == (kind.status in (409, 429, 503))
        assert ("www-authenticate" in reply.headers) == (kind.status == 401)
        assert ("allow" in reply.headers) == (kind.status == 405)
        assert isinstance(read_problem(reply.json), kind.error)

    @pytest.mark.parametrize("kind", PROBLEM_TYPES, ids=lambda kind: kind.name)
    def test_every_type_leads_to_a_page(self, kind: Any, served: Served) -> None:
        page = served.get(PLACE + kind.name)
        assert page.status == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert kind.title in page.body.decode()
        assert "`" not in page.body.decode()

    def test_other_paths(self, served: Served) -> None:
        paths = ["/nope", "/v1/", "/v1/answers/", "/v1/budget/", "/problems/x", "/docs/", "/assets/swagger/x"]
        paths += [
            "/assets/swagger/../../pages.py",
            "/assets/swagger/%2e%2e/%2e%2e/core.py",
            "//v1/budget",
            "/v1/reports/x",
        ]
        replies = [served.get(path, served.key()) for path in paths]
        assert {reply.status for reply in replies} == {404}
        assert len({repr(reply.lasting) for reply in replies}) == 1

    @pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "HEAD", "BREW"])
    @pytest.mark.parametrize("path", ["/v1/answers", "/v1/budget", "/healthz", f"/v1/answers/{UNKNOWN}"])
    def test_other_methods(self, served: Served, method: str, path: str) -> None:
        reply = served.call(method, path)
        if (path, method) == ("/healthz", "HEAD"):  # balancers look so; a server leaves the body out
            assert reply.status == 200
            return
        assert (reply.status, reply.headers["allow"]) == (405, "POST" if path == "/v1/answers" else "GET")


class TestOneService:
    def test_a_second_one_on_the_same_ledger_is_refused(self, serving: Serving) -> None:
        config = serving().session.config
        alone = server_module.alone
        with alone(config), pytest.raises(ConfigError, match="another `sfumato serve`"), alone(config):
            pass
        with alone(config):
            pass

    @pytest.mark.parametrize("host", ["", "[service]\nhost = ''"])
    def test_an_empty_host_is_refused(self, serving: Serving, tmp_path: Path, host: str) -> None:
        path = serving().world.path
        if host:
            text = path.read_text()
            path.write_text(text.replace("[service]", host) if "[service]" in text else f"{text}\n{host}\n")
        with pytest.raises((ConfigError, InvalidArgument), match="host: must name an address"):
            server_module.serve(str(path), host=None if host else "", told=print)

    def test_what_takes_long_to_look_at_is_not_ready(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        gate = threading.Event()
        monkeypatch.setattr(app_module, "LOOK_S", 0.1)
        monkeypatch.setattr(served.session, "check", lambda: {"ledger": "ok" if gate.wait(10) else ""})
        try:
            reply = served.get("/readyz")
            assert (reply.status, reply.json["status"]) == (503, "not ready")
            assert served.get("/readyz").status == 503  # the first one still looks, and nobody waits for it
            assert served.get("/healthz").status == 200
        finally:
            gate.set()


@pytest.mark.slow
class TestExhausted:
    QUESTIONS = (
        {**TOP, "k": 20},
        {**TOP, "k": 20, "counts": False},
        {**TOP, "by": ["article", "region"], "k": 20, "where": {"day": {"ge": "2026-11-03"}}},
        {**TOP, "type": "histogram", "k": None},
        {**TOP, "by": "market", "k": 3},
        {"sql": "SELECT article, members FROM engagements GROUP BY article ORDER BY 2 DESC LIMIT 20"},
    )

    @pytest.mark.parametrize("question", QUESTIONS)
    @pytest.mark.parametrize("left", [1, 2, 3, 5, 8, 13])
    def test_what_it_says_would_fit_fits(self, serving: Serving, question: dict[str, Any], left: int) -> None:
        served = serving(information=left, calls=2)
        question = {name: value for name, value in question.items() if name != "k" or value is not None}
        key = served.key()
        reply = served.ask(key, question)
        if reply.status == 200:
            return
        assert (reply.status, reply.kind) == (403, "budget-exhausted")
        told = reply.json
        assert told["left"] == {"information": str(left), "calls": "2"}
        assert Fraction(told["asked"]["information"]) > left
        assert told["resets"] == "2026-12-01"
        assert served.spent() == NOTHING == served.reserved()
        for smaller in told["try"]:
            assert served.call("POST", "/v1/estimates", key=key, json=smaller).status == 200
            answered = served.ask(key, smaller)
            assert answered.status == 200
            assert Charge.from_dict(answered.json["receipt"]["left"]) >= NOTHING

    def test_there_is_something_to_try(self, serving: Serving) -> None:
        served = serving(information=9, calls=2)
        [smaller] = served.ask(served.key(), {**TOP, "k": 20}).json["try"]
        assert 0 < smaller["k"] < 20

    def test_no_calls_left(self, serving: Serving) -> None:
        served = serving(information=3000, calls=1)
        key = served.key()
        served.ask(key)
        told = served.ask(key, {**TOP, "by": "job_title"}).json
        assert (told["left"]["calls"], told["try"]) == ("0", [])
        assert served.ask(key, REGIONS).status == 200

    def test_a_shared_account(self, serving: Serving) -> None:
        served = serving(shared=(12, 5))
        key = served.key()
        told = served.ask(key, {**TOP, "k": 20})
        assert (told.status, told.json["left"]["information"]) == (403, "12")
        [smaller] = told.json["try"]
        assert served.ask(key, smaller).status == 200


class TestEngineFailures:
    ERRORS = (
        EngineFailed("the engine could not answer"),
        EngineFailed("Conversion Error: could not cast 'sentinel' to INT64"),
        RuntimeError("row 17 of 4711"),
        MemoryError(),
        TimeoutError("deadline"),
        ValueError("sentinel"),
        OverflowError("9223372036854775808"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "sentinel"),
        RecursionError(),
        KeyError("sentinel"),
    )

    def test_all_alike(self, serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
        served = serving()
        key = served.key()
        worst = served.session.estimate(TOP, analyst="anna").worst
        replies = []
        for error in self.ERRORS:
            broken(served, monkeypatch, error)
            replies.append(served.ask(key))
            assert served.reserved() == worst
            assert served.spent() == NOTHING
        assert {reply.kind for reply in replies} == {"engine-failed"}
        assert len({repr(reply.lasting) for reply in replies}) == 1
        assert b"sentinel" not in replies[0].body

    def test_rows_that_no_mechanism_takes(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        key = served.key()
        engine = type(served.session._catalog.engine("engagements"))
        monkeypatch.setattr(engine, "run", lambda *_: [("a", -1), ("b", None), ("c",)])
        assert served.ask(key).kind == "engine-failed"

    def test_a_time_limit(self, serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
        served = serving()
        key = served.key()
        engine = served.session._catalog.engine("engagements")
        endless = "SELECT sum(a.range ^ b.range) FROM range(10000000) AS a, range(10000000) AS b"
        real = type(engine)._run
        monkeypatch.setattr(engine, "_timeout_s", 0.05)
        monkeypatch.setattr(type(engine), "_run", lambda self, _: real(self, endless))
        slow = served.ask(key)
        assert slow.kind == "engine-failed"
        broken(served, monkeypatch)
        assert slow.lasting == served.ask(key).lasting

    def test_asking_again_after_a_repair(self, served: Served) -> None:
        key = served.key()
        with pytest.MonkeyPatch.context() as patched:
            broken(served, patched)
            assert served.ask(key).status == 503
        worst = served.reserved()
        answered = served.ask(key)
        assert answered.status == 200
        assert served.reserved() == NOTHING
        assert served.spent() == Charge.from_dict(answered.json["receipt"]["charge"]) <= worst
        before = served.spent()
        served.ask(key)
        assert served.spent() == before


class TestLedgerFailures:
    def check(self, served: Served, key: str) -> None:
        for reply in (served.ask(key), served.get("/v1/budget", key), served.get(f"/v1/answers/{UNKNOWN}", key)):
            assert (reply.status, reply.kind) == (503, "ledger-failed")
            assert str(served.world.folder) not in reply.body.decode()
            assert served.world.folder.name not in reply.body.decode()
            assert reply.headers["retry-after"] == "1"

    def test_no_fence(self, served: Served) -> None:
        key = served.key()
        served.world.fence.unlink()
        self.check(served, key)

    def test_an_old_copy(self, served: Served) -> None:
        key = served.key()
        file = served.world.folder / "ledger.db"
        beside = file.with_suffix(".old")
        with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(beside)) as copy:
            source.backup(copy)
        served.ask(key)
        beside.replace(file)
        self.check(served, key)

    def test_closed(self, served: Served) -> None:
        key = served.key()
        served.session.ledger.close()
        self.check(served, key)

    def test_what_is_remembered_needs_the_ledger_too(self, served: Served) -> None:
        key = served.key()
        assert [served.ask(key).status for _ in range(3)] == [200] * 3
        served.world.fence.unlink()
        self.check(served, key)

    def test_what_is_remembered_is_not_said_by_a_ledger_that_is_closed(self, served: Served) -> None:
        key = served.key()
        assert [served.ask(key).status for _ in range(3)] == [200] * 3
        served.session.ledger.close()
        self.check(served, key)

    def test_a_ledger_that_fails_at_the_end(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        key = served.key()
        real = type(served.session.ledger).settle

        def fail(*_: Any, **__: Any) -> Any:
            raise LedgerFailed("/secret/place: disk I/O error")

        monkeypatch.setattr(type(served.session.ledger), "settle", fail)
        reply = served.ask(key)
        assert reply.kind == "ledger-failed"
        assert b"secret" not in reply.body
        monkeypatch.setattr(type(served.session.ledger), "settle", real)
        worst = served.reserved()
        assert served.ask(key).status == 200
        assert NOTHING < served.spent() <= worst


class TestUnexpected:
    def test_it_is_a_problem_and_a_line(
        self, served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def fail(*_: Any, **__: Any) -> Any:
            raise ZeroDivisionError("sentinel-4711")

        logger = logging.getLogger("sfumato.service")
        monkeypatch.setattr(logger, "level", logging.INFO)
        logger.manager._clear_cache()
        key = served.key()
        monkeypatch.setattr(Session, "budget", fail)
        reply = served.get("/v1/budget?sentinel-4711", key)
        monkeypatch.undo()
        logger.manager._clear_cache()
        assert (reply.status, reply.kind, reply.headers["retry-after"]) == (503, "failed", "1")
        [line] = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        assert re.fullmatch(r"ZeroDivisionError at (\S+:\d+ \S+( > )?)+", line["error"])
        assert line["request_id"] == reply.headers["x-request-id"]
        assert line["analyst"] == "anna"
        assert "sentinel" not in json.dumps(line)
        assert key not in json.dumps(line)

    def test_outside_of_all_routes(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: Any) -> Any:
            raise ZeroDivisionError

        monkeypatch.setattr(served.app, "_shortcut", fail)
        assert served.get("/healthz").kind == "failed"

    def test_metrics_count_problems(self, served: Served) -> None:
        served.get("/v1/budget")
        served.get("/nope/sentinel-4711")
        told = served.get("/metrics").body.decode()
        assert 'sfumato_problems_total{kind="unauthorized"} 1.0' in told
        assert 'route="unmatched"' in told
        assert "sentinel" not in told


# -- idempotency --


class TestIdempotency:
    def test_the_same_call_again(self, served: Served) -> None:
        key, named = served.key(), {"idempotency-key": "one"}
        first = served.ask(key, headers=named)
        spent = served.spent()
        served.ask(key, TOTAL)
        more = served.spent()
        again = [served.ask(key, headers=named) for _ in range(3)]
        assert {reply.body for reply in again} == {first.body}
        assert served.spent() == more
        assert NOTHING < spent < more

    def test_another_body(self, served: Served) -> None:
        key, named = served.key(), {"idempotency-key": "one"}
        served.ask(key, headers=named)
        before = served.spent()
        for question in (TOTAL, {**TOP, "k": 4}, {**TOP, "where": None}, {"sql": "nonsense"}):
            reply = served.ask(key, question, headers=named)
            assert (reply.status, reply.kind) == (422, "key-reused")
        assert served.spent() == before

    def test_of_another_analyst_it_is_another_key(self, served: Served) -> None:
        named = {"idempotency-key": "one"}
        assert served.ask(served.key(), headers=named).status == 200
        assert served.ask(served.key("ben"), TOTAL, headers=named).status == 200

    def test_another_api_key_of_the_same_analyst(self, served: Served) -> None:
        named = {"idempotency-key": "one"}
        assert served.ask(served.key(), headers=named).body == served.ask(served.key(), headers=named).body

    def test_across_data_versions(self, serving: Serving) -> None:
        served = serving(version='"daily"')
        key, named = served.key(), {"idempotency-key": "one"}
        first = served.ask(key, headers=named)
        spent = served.spent()
        served.clock.advance(days=1)
        assert served.ask(key, headers=named).body == first.body
        assert served.spent() == spent
        assert served.ask(key, headers={"idempotency-key": "two"}).body != first.body
        assert served.spent() > spent

    def test_after_a_refusal_it_is_free(self, serving: Serving) -> None:
        served = serving(information=9)
        key, named = served.key(), {"idempotency-key": "one"}
        assert served.ask(key, {**TOP, "by": "x"}, headers=named).status == 422
        assert served.ask(key, {**TOP, "k": 20}, headers=named).status == 403
        assert served.ask(key, TOTAL, headers=named).status == 200
        assert served.ask(key, {**TOP, "k": 1}, headers=named).kind == "key-reused"

    @pytest.mark.parametrize("text", ["", " ", "a b", "x" * 256, "é", "a\tb", "a,b c", "\x7f", "\xa0"])
    def test_malformed(self, served: Served, text: str) -> None:
        reply = served.ask(served.key(), headers={"idempotency-key": text})
        assert (reply.status, reply.kind) == (400, "invalid-argument")
        assert served.spent() == NOTHING == served.reserved()

    @pytest.mark.parametrize("text", ["x" * 255, "!", "~", '"quoted"', "a,b"])
    def test_well_formed(self, served: Served, text: str) -> None:
        assert served.ask(served.key(), headers={"idempotency-key": text}).status == 200

    def test_estimates_take_no_notice(self, served: Served) -> None:
        key, named = served.key(), {"idempotency-key": "one"}
        for question in (TOP, TOTAL):
            assert served.call("POST", "/v1/estimates", key=key, json=question, headers=named).status == 200

    def test_resumed_after_the_engine_failed(self, serving: Serving) -> None:
        served = serving(version='"daily"')
        key, named = served.key(), {"idempotency-key": "one"}
        with pytest.MonkeyPatch.context() as patched:
            broken(served, patched)
            assert served.ask(key, headers=named).kind == "engine-failed"
        served.clock.advance(days=1)
        assert served.ask(key, TOTAL, headers=named).kind == "key-reused"
        answered = served.ask(key, headers=named)
        assert answered.status == 200
        assert answered.json["receipt"]["data_version"].endswith("2026-11-15")
        assert served.ask(key, headers=named).body == answered.body
        assert served.reserved() == NOTHING
        assert served.spent() == Charge.from_dict(answered.json["receipt"]["charge"])

    def test_one_in_flight_and_one_later(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whoever comes later waits, and reads no row: the engine is asked once."""
        key, named = served.key(), {"idempotency-key": "one"}
        engine = type(served.session._catalog.engine("engagements"))
        real, begun, ended, runs = engine.run, threading.Event(), threading.Event(), []

        def slow(*arguments: Any) -> Any:
            runs.append(1)
            begun.set()
            assert ended.wait(10)
            return real(*arguments)

        monkeypatch.setattr(engine, "run", slow)
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(served.ask, key, headers=named)
            assert begun.wait(10)
            second = pool.submit(served.ask, key, headers=named)
            assert not wait([second], 0.2).done
            ended.set()
            one, two = first.result(), second.result()
        assert (one.status, two.status, len(runs)) == (200, 200, 1)
        assert one.json["rows"] == two.json["rows"]
        assert served.ask(key, headers=named).body == one.body
        assert served.spent() == Charge.from_dict(one.json["receipt"]["charge"])
        assert served.reserved() == NOTHING

    def test_two_analysts_at_once_read_the_rows_once(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        engine = type(served.session._catalog.engine("engagements"))
        real, gate, runs = engine.run, threading.Event(), []

        def slow(*arguments: Any) -> Any:
            runs.append(1)
            assert gate.wait(10)
            return real(*arguments)

        monkeypatch.setattr(engine, "run", slow)
        with ThreadPoolExecutor(2) as pool:
            asked = [pool.submit(served.ask, served.key(analyst)) for analyst in ("anna", "omar")]
            assert not wait(asked, 0.3).done
            gate.set()
            one, two = (each.result() for each in asked)
        assert one.json["rows"] == two.json["rows"]
        assert one.json["receipt"]["charge"] == two.json["receipt"]["charge"]
        assert len(runs) == 1

    def test_one_who_waits_fails_with_the_first(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        """And reads no row: many who wait for a question without end would keep the engine busy one after the other."""
        key = served.key()
        engine = type(served.session._catalog.engine("engagements"))
        real, begun, ended, runs = engine.run, threading.Event(), threading.Event(), []

        def slow(*arguments: Any) -> Any:
            runs.append(1)
            if len(runs) == 1:
                begun.set()
                assert ended.wait(10)
                raise EngineFailed("no")
            return real(*arguments)

        monkeypatch.setattr(engine, "run", slow)
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(served.ask, key)
            assert begun.wait(10)
            second = pool.submit(served.ask, key)
            assert not wait([second], 0.2).done
            ended.set()
            assert first.result().body == second.result().body
            assert (first.result().status, len(runs)) == (503, 1)
        assert served.ask(key).status == 200

    def test_a_question_that_fails_again_and_again_is_given_a_rest(
        self, served: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        key, runs, now = served.key(), [], [0.0]
        flights = served.session._runtime.flights
        monkeypatch.setattr(flights, "_clock", lambda: now[0])
        engine = type(served.session._catalog.engine("engagements"))
        real = engine.run

        def failing(*_: Any) -> Any:
            runs.append(1)
            raise EngineFailed("no")

        monkeypatch.setattr(engine, "run", failing)
        bodies = {served.ask(key).body for _ in range(6)}
        assert len(bodies) == 1  # nobody can tell a rest from a failure
        assert len(runs) == 2
        assert served.ask(served.key(), TOTAL).status == 503  # another question is another matter
        assert len(runs) == 3
        now[0] = 1.5
        served.ask(key)
        served.ask(key)
        assert len(runs) == 4
        monkeypatch.setattr(engine, "run", real)
        assert served.ask(key).status == 503
        now[0] = 10.0
        assert served.ask(key).status == 200

    def test_calls_at_once_under_one_key_have_one_receipt(self, served: Served) -> None:
        key, named = served.key(), {"idempotency-key": "one"}
        with ThreadPoolExecutor(12) as pool:
            bodies = {reply.body for reply in pool.map(lambda _: served.ask(key, headers=named), range(24))}
        assert len(bodies) == 1

    def test_one_analysts_slow_questions_do_not_stop_another(
        self, served: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """More of hers than there are threads for all."""
        engine = type(served.session._catalog.engine("engagements"))
        real, gate = engine.run, threading.Event()

        def slow(self: Any, query: Any) -> Any:
            assert "emea" not in query.sql() or gate.wait(20)
            return real(self, query)

        monkeypatch.setattr(engine, "run", slow)
        hers = [
            {"type": "total", "table": "engagements", "measure": "members", "where": {"region": "emea", "n": number}}
            for number in range(50)
        ]
        with ThreadPoolExecutor(50) as pool:
            anna = served.key()
            asked = [pool.submit(served.ask, anna, question) for question in hers]
            try:
                assert not wait(asked, 0.3).done
                assert served.ask(served.key("omar"), TOTAL).status == 200
            finally:
                gate.set()
            assert {each.result().status for each in asked} <= {200, 403}

    def test_somebody_else_settles_it_in_between(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        key, named = served.key(), {"idempotency-key": "one"}
        with pytest.MonkeyPatch.context() as patched:
            broken(served, patched)
            served.ask(key, headers=named)
        real = type(served.session.ledger).reservation

        def late(*arguments: Any) -> Any:
            served.session.ask(TOP, analyst="anna")
            return real(*arguments)

        monkeypatch.setattr(type(served.session.ledger), "reservation", late)
        reply = served.ask(key, headers=named)
        assert reply.status == 200
        assert served.ask(key, headers=named).body == reply.body


# -- limits --


@pytest.mark.slow
class TestLimits:
    MOST = 2000

    @pytest.fixture
    def small(self, serving: Serving) -> Served:
        return serving(service={"rate_per_minute": 0, "max_request_bytes": self.MOST})

    @pytest.mark.parametrize("path", ["/v1/answers", "/v1/estimates", "/v1/budget", "/healthz", "/nope"])
    @pytest.mark.parametrize("chunked", [False, True])
    def test_too_large(self, small: Served, path: str, chunked: bool) -> None:
        method = "POST" if path.endswith("s") else "GET"
        body = b"x" * (self.MOST + 1)
        reply = small.call(method, path, body=[body[:1000], body[1000:]] if chunked else body)
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
        reply = small.call("POST", "/v1/answers", body=b"{}", headers={"content-length": length})
        assert reply.status in (401, 413)
        assert (reply.status == 401) == (length == "")

    BODIES = (
        *(b"", b"{", b"[]", b"1", b'"x"', b"null", b"\xff", b"\xef\xbb\xbf{}", b"{} {}", b"{'a': 1}", b'{"a": 1,}'),
        *(b'{"k": NaN}', b'{"k": Infinity}', b'{"k": -Infinity}', b'{"sql": "\\ud800"}', b'{"\\udfff": 1}'),
        *(b"[" * 10_000, b'{"a":' * 10_000, b'{"a":' * 10_000 + b"1" + b"}" * 10_000, b'{"where":' + b"[" * 10_000),
        *(b'{"k": ' + b"9" * 5000 + b"}", b'{"sql": "\xed\xa0\x80"}', b"\x00", b'{"sql": "a\nb"}'),
        b'{"a": "\\u0041", "w": ' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"} x",
    )

    @pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
    @pytest.mark.parametrize("path", ["/v1/answers", "/v1/estimates"])
    def test_not_an_object(self, served: Served, path: str, body: bytes) -> None:
        reply = served.call("POST", path, key=served.key(), body=body)
        assert (reply.status, reply.kind) == (400, "invalid-argument")
        assert reply.json["detail"].startswith("body:")

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
        assert limits._depth(body) == depth

    @pytest.mark.parametrize("depth", [10, 50, 100, 400, 900, 950, 980, 990, 1000, 2000])
    @pytest.mark.parametrize("word", ["not", "and", "n", "x", "or"])
    def test_nested_filters(self, served: Served, depth: int, word: str) -> None:
        opened, closed = ("[", "]") if word in ("and", "or") else ("", "")
        where = f'{{"{word}": {opened}' * depth + '{"region": "emea"}' + f"{closed}}}" * depth
        body = (json.dumps({**TOTAL, "where": 0})[:-2] + where + "}").encode()
        reply = served.call("POST", "/v1/answers", key=served.key(), body=body)
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
    def test_wrong_types(self, served: Served, question: dict[str, Any]) -> None:
        key = served.key()
        for path in ("/v1/answers", "/v1/estimates"):
            reply = served.call("POST", path, key=key, json=question)
            assert (reply.status, reply.kind) == (422, "not-supported")
            assert len(reply.body) < 3000
        assert served.reserved() == NOTHING

    def test_a_number_that_is_infinite(self, served: Served) -> None:
        body = json.dumps({**TOTAL, "where": {"n": 0}}).replace("0}", "1e400}").encode()
        assert served.call("POST", "/v1/answers", key=served.key(), body=body).status == 422

    def test_a_megabyte_of_sql(self, serving: Serving) -> None:
        served = serving(service={"rate_per_minute": 0, "max_request_bytes": 3_000_000})
        key = served.key()
        spaces = "SELECT members FROM engagements" + " " * 1_000_000
        deep = "SELECT members FROM engagements WHERE " + "(" * 500_000
        for sql in (spaces, deep, "x" * 1_000_000, "SELECT DISTINCT " + "/*" * 500_000):
            begun = time.monotonic()
            assert served.ask(key, {"sql": sql}).status == 422
            assert time.monotonic() - begun < 2

    def test_a_slow_body(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(middleware, "BODY_S", 0.01)
        for method, path in (
            ("POST", "/v1/answers"),
            ("POST", "/v1/estimates"),
            ("GET", "/v1/budget"),
            ("GET", "/healthz"),
        ):
            reply = served.call(method, path, body=[b"{", b"}"], delay_s=0.1)
            assert (reply.status, reply.kind, reply.headers["connection"]) == (400, "invalid-argument", "close")

    def test_a_caller_who_leaves(self, served: Served) -> None:
        sent: list[Any] = []

        async def leave() -> None:
            async def receive() -> Any:
                return {"type": "http.disconnect"}

            async def send(message: Any) -> None:
                sent.append(message)

            scope = {"type": "http", "method": "POST", "path": "/v1/answers", "headers": [], "query_string": b""}
            await served.app(scope, receive, send)  # type: ignore[arg-type]

        served._portal.call(leave)
        assert sent == []


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


@pytest.mark.slow
class TestPadding:
    @pytest.mark.parametrize("late", [0.0, 0.093])
    @pytest.mark.parametrize("took", [0.001, 0.0999, 0.1001, 0.25, 7.77])
    def test_every_reply_begins_at_a_multiple(
        self, serving: Serving, monkeypatch: pytest.MonkeyPatch, took: float, late: float
    ) -> None:
        """Of the time since the body was there: whoever sends it late must not choose what is hidden."""
        served = serving(service={"rate_per_minute": 0, "pad_ms": 100, "max_request_bytes": 2000})
        key, foreign = served.key(), served.key("ben")
        digest = digest_of(served.ask(foreign))
        ticks: dict[str, Any] = {"now": 0.0, "slept": 0.0, "waits": 0}

        def now() -> float:
            ticks["now"] += took
            return float(ticks["now"])

        async def sleep(seconds: float) -> None:
            assert 0 <= seconds <= 0.1 + 1e-9
            ticks["now"] += seconds
            ticks["slept"], ticks["waits"] = ticks["now"], ticks["waits"] + 1

        loop = SimpleNamespace(time=now)
        faked = SimpleNamespace(get_running_loop=lambda: loop, sleep=sleep, timeout=asyncio.timeout)
        monkeypatch.setattr(middleware, "asyncio", faked)
        received = middleware._body

        async def slowly(*arguments: Any) -> bytes:
            body = await received(*arguments)
            ticks["now"] += late
            return body

        monkeypatch.setattr(middleware, "_body", slowly)
        calls: list[Callable[[], Reply]] = [
            lambda: served.ask(key),
            *([lambda: served.ask(key)] * 3),
            lambda: served.ask(key, {**TOP, "by": "x"}),
            lambda: served.ask("x"),
            lambda: served.get(f"/v1/answers/{digest}", key),
            lambda: served.get(f"/v1/answers/{UNKNOWN}", key),
            lambda: served.get("/v1/nope", key),
            lambda: served.get("/v1/budget", key),
            lambda: served.call("DELETE", "/v1/budget"),
            lambda: served.call("POST", "/v1/answers", body=b"x" * 2001),
        ]
        for at, call in enumerate(calls, start=1):
            ticks["now"] = 0.0
            call()
            assert ticks["waits"] == at
            # Looked at on arrival, and again when the whole body is there, which that of the last call never is.
            began = took if at == len(calls) else 2 * took + late
            past = (ticks["slept"] - began) / 0.1
            assert abs(past - round(past)) < 1e-6
            assert round(past) >= 1

    def test_other_paths_do_not_wait(self, serving: Serving) -> None:
        served = serving(service={"rate_per_minute": 0, "pad_ms": 60_000})
        assert served.get("/healthz").status == 200


# -- what is remembered --


class TestNothingIsStale:
    """A reply that is remembered is gone with whatever it hung on."""

    @pytest.fixture
    def warm(self, serving: Serving) -> Served:
        return serving(version='"daily"')

    def warmed(self, served: Served, key: str) -> Reply:
        """After three of the same, the last came from memory, or could have."""
        *_, last = [served.ask(key) for _ in range(4)]
        assert last.json["receipt"]["repeat"]
        return last

    def test_it_is_remembered_at_all(self, warm: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        key = warm.key()
        last = self.warmed(warm, key)
        monkeypatch.setattr(Session, "ask", lambda *_, **__: 1 / 0)
        again = warm.ask(key)
        assert again.lasting == last.lasting

    def test_not_for_another_body_key_or_call(self, warm: Served) -> None:
        key, other = warm.key(), warm.key("ben")
        self.warmed(warm, key)
        assert warm.ask(other).json["receipt"]["charge"] != NOTHING.to_dict()
        assert digest_of(warm.ask(key, {**TOP, "k": 4})) != digest_of(warm.ask(key))
        assert warm.call("POST", "/v1/estimates", key=key, json=TOP).json["charge"]["worst"] == NOTHING.to_dict()
        assert warm.call("GET", "/v1/answers", key=key, json=TOP).status == 405
        assert warm.ask(key, headers={"idempotency-key": "a b"}).status == 400

    def test_a_revoked_key(self, warm: Served) -> None:
        key = warm.key()
        self.warmed(warm, key)
        [known] = warm.keys.list("anna")
        warm.keys.revoke(known.id, warm.clock.now)
        assert warm.ask(key).status == 401

    def test_a_key_that_another_process_revoked(self, warm: Served) -> None:
        key = warm.key()
        self.warmed(warm, key)
        config = warm.session.config
        with open_ledger(config.ledger, config.folder) as other:
            [known] = ApiKeys(other).list("anna")
            ApiKeys(other).revoke(known.id, warm.clock.now)
        assert warm.ask(key).status == 401

    def test_a_key_that_is_revoked_while_it_is_used(self, warm: Served) -> None:
        """Whoever calls after the revocation is refused, whatever calls were under way."""
        stopped = threading.Event()

        def keep_asking(key: str) -> None:
            while not stopped.is_set():
                warm.ask(key)

        for _ in range(5):
            others = {known.id for known in warm.keys.list()}
            key = warm.key()
            [new] = {known.id for known in warm.keys.list()} - others
            stopped.clear()
            with ThreadPoolExecutor(3) as pool:
                for _ in range(3):
                    pool.submit(keep_asking, key)
                time.sleep(0.02)
                warm.keys.revoke(new, warm.clock.now)
                statuses = [warm.ask(key).status for _ in range(3)]
                stopped.set()
            assert statuses == [401] * 3

    @pytest.mark.parametrize("microseconds", [0, 1, 500_000, 999_999])
    def test_a_key_that_expires(self, warm: Served, microseconds: int) -> None:
        key = warm.key(expires=NOW + timedelta(seconds=90, microseconds=microseconds))
        [known] = warm.keys.list("anna")
        end = known.expires
        assert end is not None
        warm.clock.now = end - timedelta(microseconds=1)
        self.warmed(warm, key)
        warm.clock.now = end
        assert warm.ask(key).status == 401

    def test_a_charge_here(self, warm: Served) -> None:
        key = warm.key()
        before = self.warmed(warm, key).json["receipt"]["left"]
        warm.session.ask(TOTAL, analyst="anna")
        after = warm.ask(key).json["receipt"]["left"]
        assert Fraction(after["information"]) == Fraction(before["information"]) - 1

    def test_a_charge_by_another_process(self, warm: Served) -> None:
        key = warm.key()
        before = self.warmed(warm, key).json["receipt"]["left"]
        with Session(warm.world.path, clock=warm.clock) as other:
            other.ask(TOTAL, analyst="anna")
        after = warm.ask(key)
        assert Fraction(after.json["receipt"]["left"]["information"]) == Fraction(before["information"]) - 1
        assert after.headers["sfumato-left-information"] == after.json["receipt"]["left"]["information"]

    def test_a_grant(self, warm: Served) -> None:
        key = warm.key()
        before = self.warmed(warm, key).json["receipt"]["left"]
        config = warm.session.config
        with open_ledger(config.ledger, config.folder) as other:
            other.grant(accounts_of(config, "anna")[0], Charge(7), "more", warm.clock.now)
        after = warm.ask(key).json["receipt"]["left"]
        assert Fraction(after["information"]) == Fraction(before["information"]) + 7

    def test_a_new_data_version(self, warm: Served) -> None:
        key = warm.key()
        warm.clock.now = NOW.replace(hour=23, minute=59, second=59, microsecond=999_999)
        before = self.warmed(warm, key)
        warm.clock.advance(microseconds=1)
        after = warm.ask(key)
        assert digest_of(after) != digest_of(before)
        assert not after.json["receipt"]["repeat"]

    def test_a_new_period(self, serving: Serving) -> None:
        served = serving(resets="daily")
        key = served.key()
        served.clock.now = NOW.replace(hour=23, minute=59, second=59, microsecond=999_999)
        before = self.warmed(served, key).json["receipt"]
        served.clock.advance(microseconds=1)
        after = served.ask(key).json["receipt"]
        assert (before["resets"], after["resets"]) == ("2026-11-16", "2026-11-17")
        assert before["left"] != after["left"] == {"information": "3000", "calls": "100"}

    def test_a_clock_that_goes_back(self, warm: Served) -> None:
        key = warm.key()
        warm.clock.advance(days=1)
        tomorrow = self.warmed(warm, key)
        warm.clock.advance(days=-1)
        assert digest_of(warm.ask(key)) != digest_of(tomorrow)

    def test_a_lost_fence_and_another_ledger(self, warm: Served) -> None:
        key = warm.key()
        self.warmed(warm, key)
        kept = warm.world.fence.read_bytes()
        warm.world.fence.unlink()
        assert warm.ask(key).status == 503
        warm.world.fence.write_bytes(kept)
        assert warm.ask(key).status == 200
        shutil.copy(warm.world.folder / "ledger.db", warm.world.folder / "copy.db")
        (warm.world.folder / "copy.db").replace(warm.world.folder / "ledger.db")
        assert warm.ask(key).status == 503

    def test_a_long_reply_is_not_kept(self, warm: Served) -> None:
        key = warm.key()
        body = json.dumps(TOP).encode() + b" " * (1 << 16)
        for _ in range(3):
            assert warm.call("POST", "/v1/answers", key=key, body=body).status == 200
        assert not warm.app._shortcut.__self__._replies._kept  # type: ignore[attr-defined]


@pytest.mark.slow
class TestPostgreSQL:
    """The same where nothing is remembered, and text cannot hold everything."""

    def test_all_of_it(self, serving: Serving, postgres_url: str) -> None:
        served = serving(ledger=postgres_url)
        key, named = served.key(), {"idempotency-key": "one"}
        first = served.ask(key, headers=named)
        assert served.ask(key, headers=named).body == first.body
        assert served.get(f"/v1/answers/{digest_of(first)}", key).body == first.body
        assert {served.get(f"/v1/answers/{path}", key).status for path in ("%00", "a%00b", UNKNOWN)} == {404}
        assert served.ask(key, {**TOTAL, "where": {"region": "\x00"}}).status == 422
        assert served.ask(key, {"sql": "SELECT members FROM engagements WHERE region = '\x00'"}).status == 422
        assert served.get("/v1/budget/charges?rows=1", key).json["next"]
        assert served.get(f"/v1/budget/charges?cursor={'9' * 18}", key).status == 200
        assert served.get("/readyz").status == 200
        served.keys.revoke(served.keys.list()[0].id, served.clock.now)
        assert served.ask(key).status == 401


# -- health --


class TestReady:
    @pytest.fixture(autouse=True)
    def at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(app_module, "READY_S", 0.0)

    @pytest.fixture
    def awake(self, served: Served) -> Served:
        assert served.get("/readyz").json["status"] == "ready"
        return served

    def check(self, served: Served, part: str) -> None:
        reply = served.get("/readyz")
        assert reply.status == 503
        assert reply.json["status"] == "not ready"
        assert {name for name, words in reply.json["checks"].items() if words != "ok"} == {part}
        assert served.get("/healthz").status == 200

    def test_no_ledger(self, awake: Served) -> None:
        (awake.world.folder / "ledger.db").unlink()
        self.check(awake, "ledger")

    def test_a_ledger_that_is_not_to_be_written(self, awake: Served) -> None:
        with closing(sqlite3.connect(awake.world.folder / "ledger.db", isolation_level=None)) as other:
            other.execute("CREATE TRIGGER no BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'no'); END")
        self.check(awake, "ledger")

    def test_no_fence(self, awake: Served) -> None:
        awake.world.fence.unlink()
        self.check(awake, "ledger")

    def test_a_set_back_ledger(self, awake: Served) -> None:
        file = awake.world.folder / "ledger.db"
        shutil.copy(file, file.with_suffix(".old"))
        awake.ask(awake.key())
        file.with_suffix(".old").replace(file)
        self.check(awake, "ledger")

    def test_no_rows(self, serving: Serving, portal: BlockingPortal) -> None:
        world, file = (served := serving()).world, "rows.parquet"
        with duckdb.connect(str(world.database), read_only=True) as connection:
            connection.execute(f"COPY engagements TO '{world.folder / file}'")
        served.session.close()
        text = world.path.read_text().replace('database = "rows.duckdb"\n', "")
        world.path.write_text(text.replace('source = "engagements"', f'source = "{file}"'))
        again = Served(world, portal, served.clock)
        with again.session:
            assert again.get("/readyz").json["status"] == "ready"
            (world.folder / file).unlink()
            self.check(again, "engines")

    def test_a_closed_engine(self, awake: Served) -> None:
        awake.session._catalog.close()
        self.check(awake, "engines")

    def test_no_row_is_read_and_nothing_is_written(self, awake: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        engine, asked = type(awake.session._catalog.engine("engagements")), []
        real = engine._run

        def spied(self: Any, text: str) -> Any:
            asked.append(text)
            return real(self, text)

        monkeypatch.setattr(engine, "_run", spied)
        before = awake.world.tables()
        assert awake.get("/readyz").json["status"] == "ready"
        assert awake.world.tables() == before
        assert asked
        assert all(text.endswith("LIMIT 0") for text in asked)

    def test_looked_at_once_in_a_while(self, awake: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        awake.get("/readyz")
        monkeypatch.setattr(app_module, "READY_S", 60.0)
        awake.world.fence.unlink()
        assert awake.get("/readyz").status == 200


# -- pages --


class TestPages:
    def test_the_pages_and_what_they_load(self, served: Served) -> None:
        seen: dict[str, str] = {}
        todo = ["/", "/docs", "/problems/budget-exhausted"]
        while todo:
            path = todo.pop()
            reply = served.get(path)
            assert reply.status == 200, path
            seen[path] = reply.body.decode()
            if reply.headers["content-type"].startswith("text/html"):
                assert "default-src 'none'" in reply.headers["content-security-policy"]
                base = path.rpartition("/")[0]
                for found in re.findall(r'(?:href|src)="([^"]+)"', seen[path]):
                    place = f"{base}/{found}" if not found.startswith("../") else f"/{found[3:]}"
                    todo += [place] if place not in seen else []
        assert {"/assets/start.js", "/assets/page.css", "/openapi.json"} <= seen.keys()
        assert "/assets/swagger/swagger-ui-bundle.js" in seen
        ours = [text for path, text in seen.items() if "/swagger/" not in path]
        assert not [text for text in ours if re.search(r"https?://", text)]

    def test_no_other_way_out(self, served: Served) -> None:
        policy = served.get("/docs").headers["content-security-policy"]
        assert "http" not in policy
        assert "*" not in policy
        assert "script-src 'self';" in policy

    def test_the_document_is_json(self, served: Served) -> None:
        reply = served.get("/openapi.json")
        assert reply.headers["content-type"] == "application/json"
        assert reply.json["openapi"] == "3.1.0"


# -- the process around it --


class TestProcess:
    def test_the_session_is_closed_at_the_end(self, served: Served) -> None:
        told: list[str] = []
        messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

        async def run() -> None:
            async def receive() -> Any:
                return next(messages)

            async def send(message: Any) -> None:
                told.append(message["type"])

            await served.app({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)

        served._portal.call(run)
        assert told == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
        with pytest.raises(LedgerFailed):
            served.session.budget("anna")

    @pytest.fixture
    def address(self, served: Served) -> Iterator[str]:
        import uvicorn

        bound = server_module._bound("127.0.0.1", 0)
        server = uvicorn.Server(server_module.server(served.app))
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            yield server_module._address(bound)
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
