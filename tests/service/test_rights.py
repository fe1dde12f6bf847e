"""Rights over HTTP: what a caller may not ask about looks like what does not exist, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta

import pytest
from anyio.from_thread import BlockingPortal

from tests.helpers.advertised import BY_DAY
from tests.helpers.rights import ATTEMPTS, MALLORY, new_rights
from tests.helpers.served import TOP, UNKNOWN, Clock, Served, digest_of

STAFF = {"type": "top_k", "table": "payroll", "by": "article", "measure": "staff", "k": 3}
PEOPLE = (
    MALLORY
    + """
[analysts.rita]
budget = "partner"
role = "reader"
entities = { account = ["acme"] }
[service]
rate_per_minute = 0
pad_ms = 0
"""
)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, portal: BlockingPortal) -> Iterator[tuple[Served, Served]]:
    """A service, and its twin without the table payroll and without reports on advertisements."""
    folder = tmp_path_factory.mktemp("rights")
    with ExitStack() as stack:
        worlds = (new_rights(folder / str(twin), twin=twin, analysts=PEOPLE) for twin in (False, True))
        whole, twin = (Served(world, portal, Clock()) for world in worlds)
        stack.enter_context(whole.session)
        stack.enter_context(twin.session)
        yield whole, twin


@pytest.mark.parametrize("path", ["/v1/answers", "/v1/estimates"])
def test_a_table_without_the_right_is_a_table_that_does_not_exist(both: tuple[Served, Served], path: str) -> None:
    whole, twin = both
    keys = whole.key("mallory"), twin.key("mallory")
    for attempt in ATTEMPTS:
        body = {"sql": attempt} if isinstance(attempt, str) else attempt
        found, expected = (
            served.call("POST", path, key=key, json=body).lasting for served, key in zip(both, keys, strict=True)
        )
        assert found == expected, attempt
        assert expected[0] in (404, 422) or b'"mechanism":"policy"' in expected[2]
    assert not whole.spent("mallory")


def test_nothing_else_shows_it(both: tuple[Served, Served]) -> None:
    whole, twin = both
    keys = whole.key("mallory"), twin.key("mallory")
    for path in ("/v1/tables", "/v1/guarantee", "/v1/budget", "/v1/budget/charges"):
        found, expected = (served.get(path, key).lasting for served, key in zip(both, keys, strict=True))
        assert found == expected, path
    mine, other = (served.get("/v1/me", key).json for served, key in zip(both, keys, strict=True))
    assert (mine.pop("key")["prefix"], other.pop("key")["prefix"]) == tuple(key[:12] for key in keys)
    assert mine == other
    for report in (BY_DAY, {**BY_DAY, "report": "salaries"}, {**BY_DAY, "report": "salarie"}):
        found, expected = (served.report(key, report).lasting for served, key in zip(both, keys, strict=True))
        assert found == expected, report
    digest = digest_of(whole.ask(whole.key("olga"), STAFF))
    unknown = whole.get(f"/v1/answers/{UNKNOWN}", keys[0])
    assert whole.get(f"/v1/answers/{digest}", keys[0]).lasting == unknown.lasting


def test_a_reader_has_reports_and_her_record_and_nothing_else(both: tuple[Served, Served]) -> None:
    whole, _ = both
    key = whole.key("rita")
    nowhere = whole.get("/nope", key).lasting
    for path in ("/v1/answers", "/v1/estimates"):
        assert whole.call("POST", path, key=key, json=TOP).lasting == nowhere
    assert whole.get(f"/v1/answers/{UNKNOWN}", key).lasting == nowhere
    assert whole.get("/v1/admin/usage", key).lasting == nowhere
    assert whole.get("/v1/admin/guarantee", key).lasting == nowhere
    assert whole.report(key).status == 200
    me = whole.get("/v1/me", key).json
    assert (me["analyst"], me["role"], me["tables"], me["budget"]) == ("rita", "reader", [], "partner")
    assert me["entities"] == {"account": ["acme"]}
    assert whole.get("/v1/tables", key).json["rows"] == []
    assert whole.get("/v1/budget/charges", key).json == {"rows": [], "next": None}
    assert [each["account"] for each in whole.get("/v1/budget", key).json["accounts"]] == ["analyst:rita"]
    promised = whole.get("/v1/guarantee", key).json
    assert all(source["questions"]["names"] == [] for source in promised["sources"])
    assert promised["reports"].keys() == set(me["reports"])


def test_the_role_of_a_key_narrows_the_record(both: tuple[Served, Served]) -> None:
    whole, _ = both
    roles = {
        name: whole.get("/v1/me", whole.key("olga", role=name)).json
        for name in ("analyst", "reader", "auditor", "owner")
    }
    assert {name: me["role"] for name, me in roles.items()} == {
        "analyst": "analyst",
        "reader": "reader",
        "auditor": "auditor",
        "owner": "analyst",  # which is her role in the file
    }
    assert {name: me["rights"] for name, me in roles.items()} == {
        "analyst": ["ask", "report", "estimate", "recall", "read"],
        "reader": ["report", "read"],
        "auditor": ["estimate", "recall", "read"],
        "owner": ["ask", "report", "estimate", "recall", "read"],
    }
    assert roles["reader"]["tables"] == []
    assert roles["auditor"]["reports"] == []
    assert whole.get("/v1/tables", whole.key("olga", role="reader")).json["rows"] == []
    assert whole.get("/v1/me", whole.key("rita", role="analyst")).json["role"] == "reader"
    assert whole.get("/v1/me", whole.key("rita", role="auditor")).json["rights"] == ["read"]


def test_the_record_has_the_prefix_and_the_end_of_the_key(both: tuple[Served, Served]) -> None:
    whole, _ = both
    ends = whole.clock.now + timedelta(days=3)
    lasting, ending = whole.key("olga"), whole.key("olga", expires=ends)
    assert whole.get("/v1/me", lasting).json["key"] == {"prefix": lasting[:12], "expires": None}
    assert whole.get("/v1/me", ending).json["key"] == {
        "prefix": ending[:12],
        "expires": ends.isoformat(timespec="microseconds"),
    }
    assert whole.session.me("olga").key is None
    assert whole.session.me("olga").rights == ["ask", "report", "estimate", "recall", "read"]
