"""Idempotency keys, single flight, and backing off after failures."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest

from sfumato.accounting import NOTHING, Charge
from sfumato.errors import EngineFailed
from tests.helpers.served import TOP, TOTAL, Served, break_engine

pytestmark = pytest.mark.slow  # calls that wait for one another

Serving = Callable[..., Served]


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

    def test_a_statement_is_computed_again_from_its_core(self, serving: Serving) -> None:
        served = serving(version='"daily"')
        key, named = served.key(), {"idempotency-key": "one"}
        core = "SELECT article AS title, members FROM engagements GROUP BY article"
        question = {"sql": f"{core} HAVING members > 1 ORDER BY title DESC"}
        first = served.ask(key, question, headers=named)
        assert [*first.json["columns"]] == ["title", "members"]
        titles = [row["title"] for row in first.json["rows"]]
        assert titles == sorted(titles, reverse=True) != []
        digest, spent = first.json["receipt"]["digest"], served.spent()
        assert [*served.get(f"/v1/answers/{digest}", key).json["columns"]] == ["article", "members"]
        other = served.ask(key, {"sql": f"{core} ORDER BY title"})
        assert (other.json["receipt"]["digest"], served.spent()) == (digest, spent)
        served.clock.advance(days=1)
        assert served.ask(key, question, headers=named).body == first.body
        assert served.spent() == spent

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
    def test_malformed(self, shared: Served, text: str) -> None:
        before = shared.spent()
        reply = shared.ask(shared.key(), headers={"idempotency-key": text})
        assert (reply.status, reply.kind) == (400, "invalid-argument")
        assert (shared.spent(), shared.reserved()) == (before, NOTHING)

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
            break_engine(served, patched)
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
        """The later call waits and reads no row: the engine runs one query."""
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

    def test_a_waiting_call_fails_with_the_first(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        """It reads no row: waiting calls would otherwise occupy the engine one after the other."""
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

    def test_a_request_that_keeps_failing_is_backed_off(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
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
        assert len(bodies) == 1  # backing off looks like a failure
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
        """One analyst sends more calls than there are threads."""
        engine = type(served.session._catalog.engine("engagements"))
        real, gate = engine.run, threading.Event()

        def slow(self: Any, query: Any) -> Any:
            assert "emea" not in query.sql() or gate.wait(20)
            return real(self, query)

        monkeypatch.setattr(engine, "run", slow)
        requests = [
            {"type": "total", "table": "engagements", "measure": "members", "where": {"region": "emea", "n": number}}
            for number in range(50)
        ]
        with ThreadPoolExecutor(50) as pool:
            anna = served.key()
            asked = [pool.submit(served.ask, anna, question) for question in requests]
            try:
                assert not wait(asked, 0.3).done
                assert served.ask(served.key("omar"), TOTAL).status == 200
            finally:
                gate.set()
            assert {each.result().status for each in asked} <= {200, 403}

    def test_another_call_settles_it_in_between(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        key, named = served.key(), {"idempotency-key": "one"}
        with pytest.MonkeyPatch.context() as patched:
            break_engine(served, patched)
            served.ask(key, headers=named)
        real = type(served.session.ledger).reservation

        def late(*arguments: Any) -> Any:
            served.session.ask(TOP, analyst="anna")
            return real(*arguments)

        monkeypatch.setattr(type(served.session.ledger), "reservation", late)
        reply = served.ask(key, headers=named)
        assert reply.status == 200
        assert served.ask(key, headers=named).body == reply.body
