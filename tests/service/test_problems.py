"""Refusals and failures: one problem per error, and nothing of the data in it."""

from __future__ import annotations

import json
import logging
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from typing import Any

import pytest

from sfumato.accounting import NOTHING, Charge
from sfumato.errors import EngineFailed, LedgerFailed
from sfumato.ledger import payments
from sfumato.problems import PLACE, PROBLEM_TYPES, read_problem
from sfumato.session import Session
from sfumato.wire import Problem
from tests.helpers.repeats import repeats
from tests.helpers.served import REGIONS, TOP, TOTAL, UNKNOWN, Reply, Served, break_engine

Serving = Callable[..., Served]


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
            break_engine(served, monkeypatch)
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
        if name == "ledger-busy":
            from sfumato.errors import LedgerBusy

            def busy(*_: Any, **__: Any) -> Any:
                raise LedgerBusy("held by 17")

            monkeypatch.setattr(Session, "ask", busy)
        if name == "key-reused":
            served.ask(key, TOTAL, headers={"idempotency-key": "k"})
            return served.ask(key, TOP, headers={"idempotency-key": "k"})
        if name in ("budget-exhausted", "rate-limited"):
            served.ask(key, {**TOP, "k": 2})
        calls: dict[str, Callable[[], Reply]] = {
            "table-not-found": lambda: served.ask(key, {**TOP, "table": "engagement"}),
            "not-supported": lambda: served.ask(key, {**TOP, "by": "articel"}),
            "unauthorized": lambda: served.get("/v1/budget"),
            "not-found": lambda: served.get(f"/v1/answers/{UNKNOWN}", key),
            "invalid-argument": lambda: served.call("POST", "/v1/answers", key=key, body=b"["),
            "too-large": lambda: served.call("POST", "/v1/answers", key=key, body=b" " * 5001),
            "method-not-allowed": lambda: served.call("DELETE", "/v1/answers", key=key),
            "governing-off": lambda: served.call(
                "POST", "/v1/admin/keys", key=served.key("omar"), json={"analyst": "x"}
            ),
            "misdirected": lambda: served.get("/v1/budget", key, host="evil.example"),
            "not-acceptable": lambda: served.ask(key, TOP, headers={"accept": "text/html"}),
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
        assert Problem.from_dict(reply.json).to_dict() == reply.json

    @pytest.mark.parametrize("kind", PROBLEM_TYPES, ids=lambda kind: kind.name)
    def test_every_type_leads_to_a_page(self, kind: Any, shared: Served) -> None:
        page = shared.get(PLACE + kind.name)
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
    def test_other_methods(self, shared: Served, method: str, path: str) -> None:
        reply = shared.call(method, path)
        if (path, method) == ("/healthz", "HEAD"):  # balancers look so; a server leaves the body out
            assert reply.status == 200
            return
        assert (reply.status, reply.headers["allow"]) == (405, "POST" if path == "/v1/answers" else "GET")


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
    @pytest.mark.parametrize("left", [1, 3, 8, *repeats([], [2, 5, 13])])
    def test_what_it_says_would_fit_fits(self, serving: Serving, question: dict[str, Any], left: int) -> None:
        served = serving(information=left, calls=2)
        question = {name: value for name, value in question.items() if name != "k" or value is not None}
        key = served.key()
        reply = served.ask(key, question)
        if reply.status == 200:
            return
        assert (reply.status, reply.kind) == (403, "budget-exhausted")
        refusal = reply.json
        assert refusal["left"] == {"information": str(left), "calls": "2"}
        assert Fraction(refusal["asked"]["information"]) > left
        assert refusal["resets"] == "2026-12-01"
        assert served.spent() == NOTHING == served.reserved()
        for smaller in refusal["try"]:
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
        refusal = served.ask(key, {**TOP, "by": "job_title"}).json
        assert (refusal["left"]["calls"], refusal["try"]) == ("0", [])
        assert served.ask(key, REGIONS).status == 200

    def test_a_shared_account(self, serving: Serving) -> None:
        served = serving(shared=(12, 5))
        key = served.key()
        refusal = served.ask(key, {**TOP, "k": 20})
        assert (refusal.status, refusal.json["left"]["information"]) == (403, "12")
        [smaller] = refusal.json["try"]
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
            break_engine(served, monkeypatch, error)
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
        break_engine(served, monkeypatch)
        assert slow.lasting == served.ask(key).lasting

    def test_asking_again_after_a_repair(self, served: Served) -> None:
        key = served.key()
        with pytest.MonkeyPatch.context() as patched:
            break_engine(served, patched)
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
            assert reply.headers["retry-after"] == "5"

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

        def fail(*_: Any, **__: Any) -> Any:
            raise LedgerFailed("/secret/place: disk I/O error")

        with monkeypatch.context() as patched:
            patched.setattr(payments, "settle", fail)
            reply = served.ask(key)
        assert reply.kind == "ledger-failed"
        assert b"secret" not in reply.body
        worst = served.reserved()
        assert served.ask(key).status == 200
        assert NOTHING < served.spent() <= worst


@contextmanager
def logging_from(level: int) -> Iterator[None]:
    """The service logs from this level on."""
    logger = logging.getLogger("sfumato.service")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(logger, "level", level)
        logger.manager._clear_cache()
        yield
    logger.manager._clear_cache()


class TestLog:
    @pytest.mark.parametrize("level", [logging.INFO, logging.WARNING])
    def test_the_owner_reads_why_the_ledger_failed(
        self, served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], level: int
    ) -> None:
        def fail(*_: Any, **__: Any) -> Any:
            raise LedgerFailed("the disk of the fence is full")

        key = served.key()
        monkeypatch.setattr(Session, "budget", fail)
        with logging_from(level):
            assert b"disk" not in served.get("/v1/budget", key).body
        [line] = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        assert (line["level"], line["why"]) == ("warning", "the disk of the fence is full")

    @pytest.mark.parametrize("level", [logging.WARNING, logging.ERROR])
    def test_an_unexpected_error_is_logged_at_every_level(
        self, served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], level: int
    ) -> None:
        key = served.key()
        monkeypatch.setattr(Session, "budget", lambda *_: 1 / 0)
        with logging_from(level):
            served.get("/v1/budget", key)
            served.get("/healthz")
        [line] = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        assert line["error"].startswith("ZeroDivisionError at ")


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
        reply = served.get("/v1/budget", key, x_sentinel="sentinel-4711")
        monkeypatch.undo()
        logger.manager._clear_cache()
        assert (reply.status, reply.kind, reply.headers["retry-after"]) == (503, "failed", "5")
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
        refusal = served.get("/metrics").body.decode()
        assert 'sfumato_problems_total{kind="unauthorized"} 1.0' in refusal
        assert 'route="unmatched"' in refusal
        assert "sentinel" not in refusal
