"""Reports over HTTP: their content, rights and limits. `Served` also checks each reply against the OpenAPI document."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal

from sfumato.errors import Conflict, EngineFailed, LedgerFailed
from sfumato.ledger.cells import Seals
from sfumato.service import pools
from sfumato.session import Session
from sfumato.wire import Report
from tests.helpers.advertised import BY_DAY
from tests.helpers.served import TOTAL, Reply, Served, new_served

pytestmark = pytest.mark.slow  # a service for each

Serving = Callable[..., Served]

CLICKS = {"report": "clicks", "statistics": "clicks", "start": "2026-10-01", "end": "2026-11-01"}
GLOBEX = {"account": "globex"}


@pytest.fixture
def ads(serving: Serving) -> Served:
    return serving(ads=True)


@pytest.fixture(scope="module")
def shared_ads(portal: BlockingPortal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One service for all reports that are refused, or that do not mind what others have asked."""
    served = new_served(tmp_path_factory.mktemp("shared") / "world", portal, ads=True)
    with served.session:
        yield served


def lasting(reply: Reply) -> str:
    """The bytes that a repeat has too."""
    assert reply.status == 200
    serial = reply.json
    for name in ("repeat", "left", "resets"):
        del serial["receipt"][name]
    return json.dumps(serial)


def engine_of(served: Served) -> Any:
    return type(served.session._catalog.engine("ads"))


class TestShapes:
    def test_it_is_what_embedded_use_gives(self, ads: Served) -> None:
        key = ads.key()
        first, again = ads.report(key), ads.report(key)
        assert lasting(first) == lasting(again)
        assert (first.json["receipt"]["repeat"], again.json["receipt"]["repeat"]) == (False, True)
        embedded = ads.session.report(BY_DAY, analyst="anna")
        assert again.body == embedded.to_json()
        assert Report.from_dict(again.json) == embedded
        assert len(first.json["rows"]) == 6
        asked = ("acme", "2026-10-28T00:00:00", "2026-11-03T00:00:00", "day")
        assert tuple(first.json[name] for name in ("start", "end", "granularity")) == asked[1:]
        assert (first.json["report"], first.json["entity"]) == ("ads", {"account": asked[0]})

    def test_the_entity_is_told_from_the_top(self, ads: Served) -> None:
        reply = ads.report(ads.key(), {**BY_DAY, "entity": {"creative": "s1"}})
        assert list(reply.json["entity"].items()) == [("account", "acme"), ("campaign", "spring"), ("creative", "s1")]

    def test_an_end_to_come_is_told_beside_what_is_complete(self, ads: Served) -> None:
        found = ads.report(ads.key(), {**BY_DAY, "start": "2026-11-01", "end": "2027-01-01"}).json
        assert found["end"] == "2027-01-01T00:00:00"
        assert found["complete_until"] == found["rows"][-1]["end"] < found["end"]

    @pytest.mark.parametrize("question", [BY_DAY, {**CLICKS, "entity": {"account": "acme", "campaign": "spring"}}])
    def test_reports_are_free_and_the_same_for_every_reader(self, ads: Served, question: dict[str, Any]) -> None:
        replies = [ads.report(ads.key(name), question) for name in ("anna", "ben", "tina", "omar")]
        assert len(set(map(lasting, replies))) == 1
        for name in ("anna", "ben", "tina", "omar"):
            assert not ads.spent(name)
            assert ads.get("/v1/budget/charges", ads.key(name)).json == {"rows": [], "next": None}
        assert {row[2] for row in ads.world.tables()["journal"]} == {"policy", "key", "seal"}

    def test_what_is_left_is_for_other_questions(self, ads: Served) -> None:
        key = ads.key()
        ads.ask(key, TOTAL)
        reply, budget = ads.report(key), ads.get("/v1/budget", key).json
        receipt, left = reply.json["receipt"], budget["accounts"][0]["left"]
        assert receipt["left"] == left
        assert receipt["charge"] == {"information": "0", "calls": "0"}
        shown = {name: value for name, value in reply.headers.items() if name.startswith("sfumato-")}
        assert shown == {
            "sfumato-left-information": left["information"],
            "sfumato-left-calls": left["calls"],
            "sfumato-resets": receipt["resets"],
            "sfumato-charge-information": "0",
            "sfumato-charge-calls": "0",
            "sfumato-digest": receipt["digest"],
        }

    def test_an_exhausted_budget_stops_no_report(self, serving: Serving) -> None:
        served = serving(ads=True, information=1, calls=1)
        key = served.key()
        assert [served.ask(key, TOTAL).status, served.ask(key, {**TOTAL, "measure": "visits"}).status] == [200, 403]
        assert served.report(key).status == 200

    def test_small_counts_are_null(self, ads: Served) -> None:
        question = {**BY_DAY, "statistics": "conversions", "entity": {"creative": "s1"}, "granularity": "3h"}
        rows = ads.report(ads.key(), question).json["rows"]
        counts = [row["conversions"] for row in rows]
        assert None in counts
        assert all(count is None or count >= 3 for count in counts)

    def test_its_digest_is_of_no_answer(self, ads: Served) -> None:
        key = ads.key()
        digest = ads.report(key).json["receipt"]["digest"]
        assert ads.get(f"/v1/answers/{digest}", key).lasting == ads.get("/v1/nope", key).lasting

    def test_a_range_that_is_not_over_grows(self, ads: Served) -> None:
        key, question = ads.key(), {**BY_DAY, "start": "2026-11-14", "end": "2026-11-16", "granularity": "3h"}
        before = ads.report(key, question)
        ads.clock.advance(hours=3)
        after = ads.report(key, question)
        assert after.json["rows"][:-1] == before.json["rows"]
        assert after.json["receipt"]["digest"] != before.json["receipt"]["digest"]

    def test_without_reports(self, serving: Serving) -> None:
        served = serving()
        reply = served.report(served.key())
        assert (reply.status, reply.kind) == (422, "not-supported")
        assert "[reports.<name>]" in reply.json["detail"]

    def test_numbers_name_entities_too(self, ads: Served) -> None:
        key = ads.key()
        assert ads.report(key, {**CLICKS, "entity": {"account": 7}}).status == 200
        assert ads.report(key, {**BY_DAY, "entity": {"account": 7}}).status == 404


class TestIdempotency:
    def test_a_key_changes_nothing(self, ads: Served) -> None:
        key, once = ads.key(), {"idempotency-key": "one"}
        first = ads.report(key, headers=once)
        assert lasting(first) == lasting(ads.report(key, headers=once)) == lasting(ads.report(key))
        other = ads.report(key, {**BY_DAY, "granularity": "all"}, headers=once)
        assert len(other.json["rows"]) == 1
        assert ads.ask(key, TOTAL, headers=once).json["receipt"]["repeat"] is False

    @pytest.mark.parametrize("text", ["", "a b", "é", "x" * 256])
    def test_malformed(self, shared_ads: Served, text: str) -> None:
        reply = shared_ads.report(shared_ads.key(), headers={"idempotency-key": text})
        assert (reply.status, reply.kind) == (400, "invalid-argument")


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"report": "add"}, "report: there is no report 'add'"),
    ({"report": None}, "report: is missing"),
    ({"statistics": "clik"}, "statistics: ads has no statistic 'clik'"),
    ({"statistics": []}, "statistics: is missing"),
    ({"statistics": [None]}, "statistics: "),
    ({"entity": {"acount": "acme"}}, "entity: must name one of account, campaign, creative"),
    ({"entity": {}}, "entity: must name"),
    ({"entity": None}, "entity: must name"),
    ({"entity": "acme"}, "entity: must be an object"),
    ({"entity": {"account": ["acme"]}}, "entity: must name"),
    ({"entity": {"account": True}}, "entity: must name"),
    ({"entity": {"campaign": "autumn"}}, "entity: several are called campaign 'autumn'"),
    ({"attribute": "job"}, "attribute: ads has no attribute 'job'"),
    ({"attribute": ["job_title"]}, "attribute: "),
    ({"start": None}, "start: is missing"),
    ({"start": "yesterday"}, "start: must be a date"),
    ({"start": 7}, "start: must be a date"),
    ({"start": "0001-01-01"}, "start: must lie in the years"),
    ({"end": "9999-12-31T23:00-23:59"}, "end: must lie in the years"),
    ({"end": "2026-10-28"}, "end: is the same as start"),
    ({"end": "2026-10-01"}, "end: comes before start"),
    ({"start": "2026-10-28T01:00"}, "start and end: must lie on the borders of a 3h in America/New_York;"),
    ({"start": "2026-11-20", "end": "2026-11-21"}, "start: nothing of this range is complete yet"),
    ({"granularity": "week"}, "granularity: there is no level 'week'"),
    ({"top": 0}, "top: must be a whole number"),
    ({"top": True, "attribute": "job_title"}, "top: must be a whole number"),
    ({"top": 3}, "top: needs an attribute"),
    ({"options": ["smooth"]}, "options: there is no option 'smooth'"),
    ({"options": {}}, "options: must be a list"),
    ({"limit": 3}, "limit: is not a field of a report"),
]


class TestRefusals:
    @pytest.mark.parametrize(("change", "words"), REFUSED, ids=lambda each: json.dumps(each)[:40])
    def test_an_invalid_request_is_refused(self, shared_ads: Served, change: dict[str, Any], words: str) -> None:
        reply = shared_ads.report(shared_ads.key(), {**BY_DAY, **change})
        assert (reply.status, reply.kind) == (422, "not-supported")
        assert reply.json["detail"].startswith(words)
        assert "charged" not in reply.json["detail"]

    @pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"top": NaN}', b'{"a": "\\ud800"}', b'"x"', b"[" * 300])
    def test_not_an_object(self, shared_ads: Served, body: bytes) -> None:
        reply = shared_ads.call("POST", "/v1/reports", key=shared_ads.key(), body=body)
        assert (reply.status, reply.kind) == (400, "invalid-argument")
        assert "statistics" in reply.json["detail"] or "nested" in reply.json["detail"]

    @pytest.mark.parametrize("name", ["'; DROP TABLE ads; --", '"', "\\", "é" * 500, "%", " ", "\n", "🦆"])
    def test_names_are_nothing_but_names(self, shared_ads: Served, name: str) -> None:
        """Where a table lists them, they are not there; where none does, they are entities without events."""
        key = shared_ads.key()
        assert shared_ads.report(key, {**BY_DAY, "entity": {"account": name}}).kind == "not-found"
        assert shared_ads.report(key, {**CLICKS, "entity": {"account": name}}).status == 200
        assert shared_ads.report(shared_ads.key("tina"), {**CLICKS, "entity": {"account": name}}).kind == "not-found"

    @pytest.mark.parametrize("name", ["", "\0", "a\0b"])
    def test_what_no_row_can_be_called_is_not_there(self, shared_ads: Served, name: str) -> None:
        for question in (BY_DAY, CLICKS):
            assert shared_ads.report(shared_ads.key(), {**question, "entity": {"account": name}}).kind == "not-found"

    def test_it_is_too_large(self, serving: Serving) -> None:
        served = serving(ads=True, service={"rate_per_minute": 0, "max_request_bytes": 2000})
        reply = served.report(served.key(), {**BY_DAY, "entity": {"account": "x" * 2000}})
        assert (reply.status, reply.kind) == (413, "too-large")

    def test_too_often(self, serving: Serving) -> None:
        served = serving(ads=True, service={"rate_per_minute": 3})
        key = served.key()
        assert [served.report(key).status for _ in range(4)] == [200, 200, 200, 429]
        assert served.ask(key, TOTAL).kind == "rate-limited"
        assert served.report(served.key("tina")).status == 200


FOREIGN: list[dict[str, Any]] = [
    {**BY_DAY, "entity": {"account": "initech"}},
    {**BY_DAY, "entity": GLOBEX},
    {**BY_DAY, "entity": {"campaign": "launch"}},
    {**BY_DAY, "entity": {"creative": "l1"}},
    {**BY_DAY, "entity": {**GLOBEX, "campaign": "launch"}},
    {**BY_DAY, "entity": {"account": "acme", "campaign": "launch"}},
    {**BY_DAY, "entity": GLOBEX, "attribute": "job_title", "top": 3, "options": ["tree", "monotone"]},
    {**BY_DAY, "entity": GLOBEX, "start": "2026-11-20", "end": "2026-11-21"},
    {**CLICKS, "entity": GLOBEX},
    {**CLICKS, "entity": {"account": "initech"}},
    {**CLICKS, "entity": {**GLOBEX, "campaign": "launch"}},
]


class TestTenancy:
    def test_unknown_and_foreign_look_alike(self, ads: Served) -> None:
        """Also if another analyst got the report before, and for analysts without entities."""
        tina, omar = ads.key("tina"), ads.key("omar")
        nothing = ads.get("/v1/nope", tina).lasting
        for _ in range(2):
            assert [ads.report(tina, question).lasting for question in FOREIGN] == [nothing] * len(FOREIGN)
            assert ads.report(ads.key("nora")).lasting == nothing
            assert ads.report(ads.key("axel")).lasting == nothing
            for question in FOREIGN[1:5]:
                assert ads.report(omar, question).status == 200

    def test_unknown_and_foreign_take_the_same_steps(self, ads: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        """No row, no cell and no list of entities is looked at for either."""
        tina = ads.key("tina")
        assert [ads.report(tina, {**each, "entity": {"account": "acme"}}).status for each in (BY_DAY, CLICKS)] == [
            200
        ] * 2

        def fail(*_: Any, **__: Any) -> Any:
            raise AssertionError

        for name in ("read", "open", "store"):
            monkeypatch.setattr(Seals, name, fail)
        monkeypatch.setattr(engine_of(ads), "run", fail)
        monkeypatch.setattr(ads.session._catalog, "entities", fail)
        stamp = ads.world.tables()
        assert {ads.report(tina, question).kind for question in FOREIGN} == {"not-found"}
        assert ads.world.tables() == stamp

    def test_what_is_hers_is_the_same_as_for_those_who_see_all(self, ads: Served) -> None:
        for who, entity in (("tina", {"account": "acme"}), ("tina", {"creative": "s2"}), ("carl", {"creative": "l1"})):
            question = {**BY_DAY, "entity": entity, "attribute": "seniority"}
            assert lasting(ads.report(ads.key(who), question)) == lasting(ads.report(ads.key("omar"), question))

    def test_a_name_that_others_have_too_is_hers(self, ads: Served) -> None:
        """Nothing tells her that another account has a campaign of this name."""
        question = {**BY_DAY, "entity": {"campaign": "autumn"}}
        whole = {**BY_DAY, "entity": {"account": "acme", "campaign": "autumn"}}
        assert lasting(ads.report(ads.key("tina"), question)) == lasting(ads.report(ads.key("anna"), whole))
        assert ads.report(ads.key("anna"), question).status == 422

    def test_a_key_with_more_rights_sees_no_more(self, ads: Served) -> None:
        assert ads.report(ads.key("tina", role="owner"), FOREIGN[1]).status == 404
        assert ads.report(ads.key("tina", role="auditor")).status == 404

    def test_a_revoked_key_has_no_report_again(self, ads: Served) -> None:
        key = ads.key()
        assert [ads.report(key).status for _ in range(3)] == [200] * 3
        ads.keys.revoke(ads.keys.list()[0].id, ads.clock.now)
        assert ads.report(key).status == 401

    def test_refusals_do_not_depend_on_the_owner(self, ads: Served) -> None:
        """The request is validated before its entity is looked up."""
        tina = ads.key("tina")
        for change in ({"statistics": "clik"}, {"start": "x"}, {"top": 0}, {"options": ["x"]}, {"granularity": "x"}):
            replies = [ads.report(tina, {**BY_DAY, **change, "entity": {"account": name}}) for name in ("acme", "x")]
            replies.append(ads.report(tina, {**BY_DAY, **change, "entity": GLOBEX}))
            shown = [reply.json for reply in replies]
            for each in (each for problem in shown for each in problem.get("try", ())):
                assert each.pop("entity") in ({"account": "acme"}, {"account": "x"}, GLOBEX)  # as it was sent
            assert shown == [shown[0]] * 3
            assert [reply.status for reply in replies] == [422] * 3


class TestFailures:
    def test_an_engine_that_fails(self, ads: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        key = ads.key()
        ads.report(key, FOREIGN[1])  # which reads the list of entities
        for error in (EngineFailed("sentinel-4711"), RuntimeError("sentinel-4711")):

            def fail(*_: Any, error: Exception = error, **__: Any) -> Any:
                raise error

            with monkeypatch.context() as patched:
                patched.setattr(engine_of(ads), "run", fail)
                question = {**BY_DAY, "end": "2026-11-02" if isinstance(error, RuntimeError) else "2026-11-01"}
                reply = ads.report(key, question)
            assert (reply.status, reply.kind, reply.headers["retry-after"]) == (503, "engine-failed", "5")
            assert b"sentinel" not in reply.body
            assert ads.report(key, question).status == 200
        assert not ads.spent()

    def test_a_ledger_that_fails(self, ads: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        key = ads.key()

        def fail(*_: Any, **__: Any) -> Any:
            raise LedgerFailed("/sentinel/4711")

        for name in ("store", "open", "read"):
            with monkeypatch.context() as patched:
                patched.setattr(Seals, name, fail)
                reply = ads.report(key)
            assert (reply.status, reply.kind) == (503, "ledger-failed")
            assert b"sentinel" not in reply.body
        assert ads.report(key).status == 200
        ads.world.fence.unlink()
        assert ads.report(key).kind == "ledger-failed"

    def test_resealed_in_between(self, ads: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        def clash(*_: Any, **__: Any) -> Any:
            raise Conflict("this range was sealed anew")

        key = ads.key()
        with monkeypatch.context() as patched:
            patched.setattr(Seals, "store", clash)
            reply = ads.report(key)
        assert (reply.status, reply.kind, reply.headers["retry-after"]) == (409, "in-flight", "1")
        assert ads.report(key).status == 200

    def test_an_unexpected_error_is_logged_without_its_message(
        self, ads: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def fail(*_: Any, **__: Any) -> Any:
            raise ZeroDivisionError("sentinel-4711")

        logger = logging.getLogger("sfumato.service")
        key = ads.key("tina")
        with monkeypatch.context() as patched:
            patched.setattr(logger, "level", logging.INFO)
            logger.manager._clear_cache()
            replies = [ads.report(key), ads.report(key, FOREIGN[1])]
            patched.setattr(Session, "report", fail)
            replies.append(ads.report(key))
        logger.manager._clear_cache()
        lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        assert [line["status"] for line in lines] == [reply.status for reply in replies] == [200, 404, 503]
        assert {line["route"] for line in lines} == {"/v1/reports"}
        assert lines[2]["error"].startswith("ZeroDivisionError at ")
        for word in ("sentinel", "globex", "acme", "clicks", "2026-10-28", key):
            assert word not in json.dumps([line | {"at": ""} for line in lines])

    def test_metrics(self, ads: Served) -> None:
        key = ads.key("tina")
        for question in (BY_DAY, BY_DAY, FOREIGN[1]):
            ads.report(key, question)
        shown = ads.get("/metrics").body.decode()
        assert 'sfumato_reports_total{repeat="false"} 1.0' in shown
        assert 'sfumato_reports_total{repeat="true"} 1.0' in shown
        assert 'sfumato_requests_total{method="POST",route="/v1/reports",status="404"} 1.0' in shown
        for word in ("acme", "globex", "clicks"):
            assert word not in shown


@pytest.mark.slow
class TestAtOnce:
    def test_all_have_the_same(self, ads: Served) -> None:
        keys = [ads.key(name) for name in ("anna", "ben", "tina", "omar")]
        with ThreadPoolExecutor(12) as pool:
            replies = list(pool.map(lambda number: ads.report(keys[number % 4]), range(24)))
        assert len(set(map(lasting, replies))) == 1

    def test_slow_reports_stop_neither_questions_nor_others(self, ads: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        """One analyst sends more calls than there are threads."""
        engine = engine_of(ads)
        real, gate = engine.run, threading.Event()

        def slow(self: Any, query: Any, **options: Any) -> Any:
            assert "'s1'" not in query.sql() or gate.wait(20)
            return real(self, query, **options)

        monkeypatch.setattr(engine, "run", slow)
        requests = [{**BY_DAY, "entity": {"creative": "s1"}, "end": f"2026-11-{day:02}"} for day in range(1, 13)] * 2
        with ThreadPoolExecutor(len(requests)) as pool:
            anna = ads.key()
            asked = [pool.submit(ads.report, anna, question) for question in requests]
            try:
                assert not wait(asked, 0.3).done
                assert ads.report(ads.key("omar"), FOREIGN[1]).status == 200
                assert ads.ask(anna, TOTAL).status == 200
            finally:
                gate.set()
            assert {each.result().status for each in asked} == {200}

    def test_there_is_a_pool_for_them(self) -> None:
        threads, each = pools.REPORT
        assert 0 < each < threads

    def test_padded(self, serving: Serving) -> None:
        """All of them, the forbidden with the rest, begin at a multiple."""
        import time

        served = serving(ads=True, service={"rate_per_minute": 0, "pad_ms": 150})
        tina = served.key("tina")
        for question in (BY_DAY, BY_DAY, *FOREIGN[:2]):
            began = time.monotonic()
            served.report(tina, question)
            assert time.monotonic() - began >= 0.149

    def test_postgresql(self, serving: Serving, postgres_url: str) -> None:
        served = serving(ads=True, ledger=postgres_url)
        tina = served.key("tina")
        first = served.report(tina)
        assert lasting(first) == lasting(served.report(served.key("omar")))
        assert {served.report(tina, question).kind for question in FOREIGN} == {"not-found"}
        assert served.report(served.key(), {**CLICKS, "entity": {"account": "é\n'"}}).status == 200
        assert served.get("/readyz").status == 200
