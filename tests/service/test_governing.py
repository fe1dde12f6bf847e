"""Keys and grants over HTTP: off by default, limited, written to the journal, and done once."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from sfumato.accounting import Charge
from sfumato.errors import GoverningOff
from sfumato.ledger import accounts_of
from sfumato.ledger.policy_trail import policy_changes
from sfumato.ledger.types import Actor
from sfumato.problems import read_problem
from sfumato.wire import NewKey
from tests.helpers.served import TOP, Reply, Served

GRANT = {"account": "anna", "information": "300", "calls": "3", "reason": "the board meets"}
Serving = Callable[..., Served]


@pytest.fixture
def governed(serving: Serving) -> Served:
    return serving(govern=True)


def post(served: Served, path: str, body: Any = None, key: str | None = None, **headers: str) -> Reply:
    """A call with a key of the owner, or with another."""
    sent = {} if body is None else {"json": body}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return served.call("POST", f"/v1/admin/{path}", key=key or served.key("omar"), headers=named, **sent)


def notes(served: Served, kind: str) -> list[Any]:
    with served.session.ledger.reading() as books:
        return [json.loads(row.note) for row in books.journal() if row.kind == kind]


class TestOff:
    def test_it_is_off_by_default(self, served: Served) -> None:
        before = served.world.tables()
        for path, body in (("keys", {"analyst": "anna"}), ("grants", GRANT)):
            reply = post(served, path, body)
            assert (reply.status, reply.kind) == (403, "governing-off")
            assert isinstance(read_problem(reply.json), GoverningOff)
        assert len(served.world.tables()["journal"]) == len(before["journal"]) + 2  # the keys of the owner herself

    def test_a_key_can_be_revoked_all_the_same(self, served: Served) -> None:
        key = served.key("ben")
        [known] = served.keys.list("ben")
        reply = post(served, f"keys/{known.id}/revoke")
        assert (reply.status, reply.json["state"]) == (200, "revoked")
        assert served.get("/v1/me", key).status == 401

    def test_the_trail_of_the_policy_says_when_it_was_on(self, serving: Serving) -> None:
        served = serving(govern=True)
        [change] = policy_changes(served.session.ledger)
        assert {each.setting: each.after for each in change.changes}["console.govern"] == "true"


class TestKeys:
    def test_a_key_works_and_is_shown_once(self, governed: Served) -> None:
        reply = post(governed, "keys", {"analyst": "anna", "expires": "2026-11-30"})
        assert reply.status == 200
        made = NewKey.from_dict(reply.json)
        assert made.key is not None
        assert (made.analyst, made.role, made.state) == ("anna", "analyst", "valid")
        assert made.expires == "2026-12-01T00:00:00.000000+00:00"
        assert governed.get("/v1/me", made.key).json["analyst"] == "anna"
        listed = governed.get("/v1/admin/keys", governed.key("axel"))
        assert made.key not in listed.body.decode()
        [row] = [row for row in listed.json["rows"] if row["id"] == made.id]
        assert row == {name: value for name, value in reply.json.items() if name != "key"}
        assert made.key not in repr(governed.world.tables())

    def test_without_an_end_it_ends_as_late_as_it_may(self, governed: Served) -> None:
        made = post(governed, "keys", {"analyst": "anna", "role": "reader"}).json
        latest = governed.clock.now + timedelta(days=90)
        assert (made["expires"], made["role"]) == (latest.isoformat(timespec="microseconds"), "reader")
        key = made["key"]
        governed.clock.advance(days=89.99)
        assert governed.get("/v1/me", key).status == 200
        governed.clock.advance(days=0.02)
        assert governed.get("/v1/me", key).status == 401

    @pytest.mark.parametrize(
        ("body", "argument"),
        [
            ({"analyst": "anna", "expires": "2027-02-13"}, "expires"),
            ({"analyst": "anna", "expires": "2026-11-14"}, "expires"),
            ({"analyst": "anna", "expires": "never"}, "expires"),
            ({"analyst": "anna", "expires": "20261130"}, "expires"),
            ({"analyst": "anna", "expires": 30}, "expires"),
            ({"analyst": "anna", "role": "owner"}, "role"),
            ({"analyst": "omar"}, "role"),
            ({"analyst": "anna", "role": "root"}, "role"),
            ({"analyst": "anna", "role": ["analyst"]}, "role"),
            ({"analyst": ""}, "analyst"),
            ({"analyst": 7}, "analyst"),
            ({}, "analyst"),
            ({"analyst": "anna", "expire": "2026-11-30"}, "expire"),
        ],
    )
    def test_what_is_refused(self, governed: Served, body: Any, argument: str) -> None:
        owner = governed.key("omar")
        before = governed.world.tables()
        reply = governed.call("POST", "/v1/admin/keys", key=owner, json=body)
        assert (reply.status, reply.kind, reply.json.get("argument")) == (400, "invalid-argument", argument)
        assert governed.world.tables() == before

    def test_an_unknown_analyst_is_not_found(self, governed: Served) -> None:
        assert post(governed, "keys", {"analyst": "zoe"}).status == 404
        assert post(governed, "keys/0123456789ab/revoke").status == 404

    def test_two_clicks_make_one_key(self, governed: Served) -> None:
        first, second = (post(governed, "keys", {"analyst": "anna"}, idempotency_key="k1") for _ in range(2))
        assert (first.status, second.status) == (200, 200)
        assert second.json == {**first.json, "key": None}
        assert post(governed, "keys", {"analyst": "ben"}, idempotency_key="k1").kind == "key-reused"
        assert len(governed.keys.list("anna")) == 1
        assert governed.session.ledger.verify() == []

    def test_the_journal_notes_who_did_it(self, governed: Served) -> None:
        owner = governed.key("omar")
        [own] = governed.keys.list("omar")
        made = post(governed, "keys", {"analyst": "anna"}, owner).json
        revoked = governed.keys.revoke(made["id"], governed.clock.now, by=Actor(user="root"))
        assert post(governed, f"keys/{made['id']}/revoke", key=owner).json["revoked_by"] == {"user": "root"}
        by = [note.get("by") for note in notes(governed, "key") if note["id"] == made["id"]]
        assert by == [{"analyst": "omar", "key": own.id}, {"user": "root"}]
        [row] = governed.get("/v1/admin/keys?analyst=anna", owner).json["rows"]
        assert (row["created_by"], row["revoked_by"]) == (by[0], by[1])
        assert revoked.state(governed.clock.now) == "revoked"
        assert governed.session.ledger.verify() == []

    def test_in_this_process_it_is_its_user(self, governed: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("getpass.getuser", lambda: "root")
        made = governed.session.create_key("omar", expires=None)
        assert (made.role, made.expires) == ("owner", None)
        revoked = governed.session.revoke_key(made.id)
        assert (revoked.created_by, revoked.revoked_by) == (made.created_by, made.created_by)
        assert revoked.to_dict()["revoked_by"] == {"user": "root"}


class TestGrants:
    def test_it_adds_until_the_reset(self, governed: Served) -> None:
        before = governed.session.budget("anna").accounts[0]
        reply = post(governed, "grants", GRANT)
        assert (reply.status, reply.json["account"]) == (200, "analyst:anna")
        after = governed.session.budget("anna").accounts[0]
        assert after.left - before.left == Charge(300, 3)
        assert reply.json == after.to_dict()
        [note] = notes(governed, "grant")
        [own] = governed.keys.list("omar")
        assert note == {"reason": "the board meets", "by": {"analyst": "omar", "key": own.id}}

    def test_the_analyst_sees_the_reason(self, governed: Served) -> None:
        key = governed.key("anna")
        governed.ask(key)
        post(governed, "grants", GRANT)
        governed.session.ledger.grant(
            accounts_of(governed.session.config, "anna")[0], Charge(1), "of old", governed.clock.now
        )
        rows = governed.get("/v1/budget/charges", key).json["rows"]
        reasons = [(row["state"], row["reason"]) for row in rows]
        assert reasons[:2] == [("granted", "of old"), ("granted", "the board meets")]
        assert {*reasons[2:]} == {("settled", None)}

    def test_two_clicks_grant_once(self, governed: Served) -> None:
        first, second = (post(governed, "grants", GRANT, idempotency_key="g1") for _ in range(2))
        assert first.json == second.json
        assert post(governed, "grants", {**GRANT, "calls": "4"}, idempotency_key="g1").kind == "key-reused"
        assert governed.session.budget("anna").accounts[0].granted == Charge(300, 3)
        assert governed.session.ledger.verify() == []

    @pytest.mark.parametrize(
        ("changed", "argument"),
        [
            ({"reason": ""}, "reason"),
            ({"reason": " "}, "reason"),
            ({"reason": "a\0b"}, "reason"),
            ({"reason": "x" * 501}, "reason"),
            ({"reason": None}, "reason"),
            ({"information": "-1"}, "information"),
            ({"information": 300}, "information"),
            ({"calls": "1.5"}, "calls"),
            ({"information": "0", "calls": "0"}, "amount"),
            ({"account": ""}, "account"),
            ({"acount": "x"}, "acount"),
        ],
    )
    def test_what_is_refused(self, governed: Served, changed: Any, argument: str) -> None:
        reply = post(governed, "grants", {**GRANT, **changed})
        assert (reply.status, reply.json["argument"]) == (400, argument)
        assert governed.session.budget("anna").accounts[0].granted == Charge()

    def test_an_unknown_account_is_not_found(self, governed: Served) -> None:
        assert post(governed, "grants", {**GRANT, "account": "analyst:zoe"}).status == 404


@pytest.mark.parametrize("who", ["anna", "axel", "rita"])
def test_only_owners_govern(governed: Served, who: str) -> None:
    governed.key("ben")
    [known] = governed.keys.list("ben")
    nowhere = governed.call("POST", "/nope", key=governed.key(who), json={}).lasting
    for path, body in (("keys", {"analyst": "anna"}), ("grants", GRANT), (f"keys/{known.id}/revoke", {})):
        assert post(governed, path, body, governed.key(who)).lasting == nowhere, path
    assert governed.keys.list("ben")[0].revoked is None


def test_a_question_with_the_same_idempotency_key_is_refused(governed: Served) -> None:
    key = governed.key("omar")
    headers = {"idempotency-key": "k"}
    assert governed.call("POST", "/v1/admin/grants", key=key, json=GRANT, headers=headers).status == 200
    assert governed.ask(key, TOP, headers=headers).kind == "key-reused"
