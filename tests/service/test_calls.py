"""What each route does. `Served` also checks every reply against the OpenAPI document."""

from __future__ import annotations

import itertools
import json
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from typing import Any

import duckdb
import pytest
from anyio.from_thread import BlockingPortal

from sfumato.accounting import NOTHING
from sfumato.ledger import ledger as ledger_module
from sfumato.service import readiness
from tests.helpers.served import LISTING, REGIONS, TOP, TOTAL, UNKNOWN, Reply, Served, break_engine, digest_of

Serving = Callable[..., Served]


class TestShapes:
    """Over HTTP there is what there is embedded."""

    @pytest.mark.parametrize(
        "question",
        [TOP, {**REGIONS, "by": "job_title"}, REGIONS, TOTAL, {**TOP, "counts": False}, {"sql": "SELECT members"}],
    )
    def test_answers_and_estimates(self, served: Served, question: dict[str, Any]) -> None:
        if "sql" in question:
            question = {"sql": "SELECT region, members FROM engagements GROUP BY region"}
        key = served.key()
        estimate = served.call("POST", "/v1/estimates", key=key, json=question)
        assert estimate.json == served.session.estimate(question, analyst="anna").to_dict()
        first, again = served.ask(key, question), served.ask(key, question)
        assert (first.status, again.status) == (200, 200)
        assert again.json == served.session.ask(question, analyst="anna").to_dict()
        assert first.json["receipt"].get("visible") == estimate.json["visible"]
        assert not first.json["receipt"]["repeat"]
        assert again.json["receipt"]["repeat"]
        assert again.json["receipt"]["charge"] == NOTHING.to_dict()
        assert first.json["rows"] == again.json["rows"]

    def test_parameters(self, served: Served) -> None:
        """A question with parameters is the one with literals: the second is a repeat."""
        key, sql = served.key(), "SELECT region, members FROM engagements WHERE day >= {} GROUP BY region"
        first = served.ask(key, {"sql": sql.format("DATE '2026-10-20'")})
        since: Any = {"date": "2026-10-20"}
        for params, place in (([since], "?"), ({"since": since}, ":since"), (["2026-10-20"], "?")):
            question = {"sql": sql.format(place), "params": params}
            again = served.ask(key, question)
            assert again.json["receipt"]["digest"] == first.json["receipt"]["digest"]
            assert again.json["receipt"]["repeat"]
            assert served.call("POST", "/v1/estimates", key=key, json=question).status == 200
        spent = served.spent()
        for params in ([], {}, [1, 2], [None], {"x": 1}, 7, [{"day": "x"}]):
            refusal = served.ask(key, {"sql": sql.format("?"), "params": params})
            assert (refusal.status, refusal.kind, refusal.json["argument"]) == (400, "invalid-argument", "params")
        assert served.ask(key, {"sql": sql.format("?")}).status == 422
        assert served.spent() == spent

    def test_looking(self, served: Served) -> None:
        key, owner = served.key(), served.key("omar")
        served.ask(key)
        session = served.session
        assert served.get("/v1/budget", key).json == session.budget("anna").to_dict()
        assert served.get("/v1/budget/charges", key).json == session.charges("anna").to_dict()
        assert served.get("/v1/questions", key).json == session.questions("anna").to_dict()
        assert served.get("/v1/admin/questions", owner).json == session.all_questions().to_dict()
        page = served.get("/v1/admin/questions?analyst=anna&since=2026-11-15&until=2026-11-15&rows=1", owner).json
        assert page == session.questions("anna", rows=1).to_dict()
        assert served.get("/v1/tables", key).json == session.tables().to_dict()
        assert served.get("/v1/guarantee", key).json == session.guarantee("anna").to_dict()
        assert served.get("/v1/admin/guarantee", owner).json == session.guarantee().to_dict()
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
    def test_the_answer_and_the_budget_are_of_one_moment(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        key = served.key()
        digest = digest_of(served.ask(key))
        moments = []
        for name in ("_recall", "_budget"):
            real = getattr(served.session, name)
            monkeypatch.setattr(served.session, name, lambda *args, real=real: moments.append(args[-1]) or real(*args))
        ticks = (served.clock.now + timedelta(microseconds=tick) for tick in itertools.count())
        monkeypatch.setattr(served.session, "_clock", lambda: next(ticks))
        assert served.get(f"/v1/answers/{digest}", key).status == 200
        assert len(moments) == 2
        assert len({*moments}) == 1

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
    def test_not_modified(self, shared: Served, form: str) -> None:
        key = shared.key()
        digest = digest_of(shared.ask(key))
        found = shared.get(f"/v1/answers/{digest}", key, if_none_match=form.format(digest))
        assert (found.status, found.body) == (304, b"")
        assert found.headers["etag"] == f'"{digest}"'
        assert "content-type" not in found.headers

    @pytest.mark.parametrize("form", ["", "{}", '"x"', '"{}', '"{} "', '"x{}"', '"*"', '*, "x"', "w/{}", 'W/W/"{}"'])
    def test_modified(self, shared: Served, form: str) -> None:
        key = shared.key()
        digest = digest_of(shared.ask(key))
        assert shared.get(f"/v1/answers/{digest}", key, if_none_match=form.format(digest)).status == 200

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
        break_engine(served, monkeypatch)
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
    def test_bad_cursors(self, shared: Served, query: str) -> None:
        query = query if query.isascii() else "cursor=%D9%A3"
        reply = shared.get(f"/v1/budget/charges?{query}", shared.key())
        assert (reply.status, reply.kind) == (400, "invalid-argument")
        assert reply.json["detail"].startswith("cursor:")

    @pytest.mark.parametrize("text", ["0", "-1", "1001", "x", "", "1e2", "99999999999999999999", "%D9%A3", "1.0", "+1"])
    def test_bad_rows(self, shared: Served, text: str) -> None:
        reply = shared.get(f"/v1/budget/charges?rows={text}", shared.key())
        assert (reply.status, reply.json["detail"].partition(":")[0]) == (400, "rows")

    def test_reservations_are_on_one_page_only(self, served: Served) -> None:
        key = served.key()
        served.ask(key)
        with pytest.MonkeyPatch.context() as patched:
            break_engine(served, patched)
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
    def test_bad_usage(self, shared: Served, query: str) -> None:
        reply = shared.get(f"/v1/admin/usage?{query}", shared.key("omar"))
        assert (reply.status, reply.kind) == (400, "invalid-argument")


class TestReady:
    @pytest.fixture(autouse=True)
    def at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ledger_module, "CHECK_EVERY_S", 0.0)
        monkeypatch.setattr(readiness, "INTERVAL_S", 0.0)

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
        monkeypatch.setattr(readiness, "INTERVAL_S", 60.0)
        awake.world.fence.unlink()
        assert awake.get("/readyz").status == 200


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

    def test_what_owners_see_and_do(self, serving: Serving, postgres_url: str) -> None:
        served = serving(ledger=postgres_url, govern=True, ads=True)
        key, headers = served.key("omar"), {"idempotency-key": "one"}
        served.ask(key)

        def post(path: str, body: Any = None) -> Reply:
            return served.call(
                "POST", f"/v1/admin/{path}", key=key, headers=headers, **({} if body is None else {"json": body})
            )

        first, second = (post("keys", {"analyst": "anna"}).json for _ in range(2))
        assert second == {**first, "key": None}
        assert served.get("/v1/me", first["key"]).status == 200
        assert post(f"keys/{first['id']}/revoke").json["revoked_by"]["analyst"] == "omar"
        assert served.get("/v1/me", first["key"]).status == 401
        assert post("keys/a%00b/revoke").status == 404
        grant = {"account": "anna", "information": "3", "reason": "the board meets"}
        headers["idempotency-key"] = "two"
        assert post("grants", grant).json == post("grants", grant).json
        assert post("grants", {**grant, "reason": "\0"}).status == 400
        assert post("ledger/verify").status == 202
        for thread in threading.enumerate():
            if thread.name.startswith("verification"):
                thread.join(60)
        state = served.get("/v1/admin/ledger", key).json
        assert (state["verification"]["state"], state["verification"]["problems"]) == ("ended", [])
        accounts = {row["account"]: row for row in served.get("/v1/admin/accounts", key).json["rows"]}
        assert accounts["analyst:anna"]["granted"] == {"information": "3", "calls": "0"}
        for path in ("policy", "releases", "releases/%00", "keys", "keys?analyst=%00", "guarantee", "usage"):
            assert served.get(f"/v1/admin/{path}", key).status in (200, 404), path
        assert served.get("/v1/reports/ads/entities?find=%00", key).json["rows"] == []
        assert served.get("/v1/reports/ads/entities?under=%00", key).status == 404
