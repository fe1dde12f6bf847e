"""Who may what: every role on every route, method and object. The rules are written here by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal

from tests.helpers.advertised import BY_DAY
from tests.helpers.served import LISTING, REGIONS, TOP, TOTAL, Reply, Served, new_served

pytestmark = pytest.mark.slow

UNKNOWN = "sha256:" + "0" * 64

# The analyst of a key, and its rights: ask, query reports, estimate, get own answers, read own things, read all
# spending, make keys and grants. A key has the rights that its own role and that of the file both have.
ANALYST = frozenset(("ask", "report", "estimate", "recall", "read"))
OWNER = ANALYST | {"oversee", "govern"}
AUDITOR = frozenset(("estimate", "recall", "read", "oversee"))
READER = frozenset(("report", "read"))
NOBODY: frozenset[str] = frozenset()

CALLERS: dict[str, tuple[str, frozenset[str]]] = {
    "anna": ("anna", ANALYST),
    "anna by another key": ("anna", ANALYST),
    "anna as auditor": ("anna", ANALYST & AUDITOR),
    "anna as owner": ("anna", ANALYST),
    "anna as reader": ("anna", READER),
    "ben, of the same organisation": ("ben", ANALYST),
    "olga, of none": ("olga", ANALYST),
    "omar, the owner": ("omar", OWNER),
    "axel, the auditor": ("axel", AUDITOR),
    "axel as analyst": ("axel", AUDITOR & ANALYST),
    "axel as reader": ("axel", AUDITOR & READER),
    "rita, the reader": ("rita", READER),
    "rita as owner": ("rita", READER),
    "tina, of the account acme": ("tina", ANALYST),
    "tina as owner": ("tina", ANALYST),
    "tina as auditor": ("tina", ANALYST & AUDITOR),
    "carl, of the campaign launch": ("carl", ANALYST),
    "nora, of nothing": ("nora", ANALYST),
    "olaf, owner, of the account globex": ("olaf", OWNER),
    "revoked": ("", NOBODY),
    "revoked owner": ("", NOBODY),
    "expired": ("", NOBODY),
    "expired auditor": ("", NOBODY),
    "unknown key": ("", NOBODY),
    "no key": ("", NOBODY),
    "empty header": ("", NOBODY),
    "other scheme": ("", NOBODY),
    "no scheme": ("", NOBODY),
    "two keys": ("", NOBODY),
    "a letter less": ("", NOBODY),
    "its hash": ("", NOBODY),
    "its id": ("", NOBODY),
    "a token, where none are taken": ("", NOBODY),
    "left the configuration": ("", NOBODY),
    "owner who left the configuration": ("", NOBODY),
}

# The entities of an analyst; all others may see all entities.
EVERYTHING = frozenset(("acme", "globex", "launch"))
HERS = {
    "tina": frozenset(("acme",)),
    "carl": frozenset(("launch",)),
    "nora": frozenset[str](),
    "olaf": frozenset(("globex", "launch")),
}
COLUMNS = {"report": "clicks", "statistics": "clicks", "start": "2026-10-01", "end": "2026-11-01"}

# Calls by what they need. {anna}, {ben}, {omar} are digests of answers that these were given; {anna-cursor} likewise.
CALLS: dict[str, tuple[str, str, Any]] = {
    "POST /v1/answers top": ("ask", "anyone", TOP),
    "POST /v1/answers total": ("ask", "anyone", TOTAL),
    "POST /v1/answers listing": ("ask", "anyone", LISTING),
    "POST /v1/answers refused": ("ask", "refused", {**TOP, "by": "x"}),
    "POST /v1/answers?analyst=ben unknown parameter": ("ask", "bad", TOP),
    "POST /v1/answers bad": ("ask", "bad", []),
    "POST /v1/reports acme": ("report", "of acme", {**BY_DAY, "entity": {"account": "acme"}}),
    "POST /v1/reports spring": ("report", "of acme", {**BY_DAY, "entity": {"campaign": "spring"}}),
    "POST /v1/reports s1": ("report", "of acme", {**BY_DAY, "entity": {"creative": "s1"}}),
    "POST /v1/reports acme/spring": (
        "report",
        "of acme",
        {**BY_DAY, "entity": {"campaign": "spring", "account": "acme"}},
    ),
    "POST /v1/reports globex": ("report", "of globex", {**BY_DAY, "entity": {"account": "globex"}}),
    "POST /v1/reports launch": ("report", "of launch", {**BY_DAY, "entity": {"campaign": "launch"}}),
    "POST /v1/reports l2": ("report", "of launch", {**BY_DAY, "entity": {"creative": "l2"}}),
    "POST /v1/reports globex/autumn": (
        "report",
        "of globex",
        {**BY_DAY, "entity": {"account": "globex", "campaign": "autumn"}},
    ),
    "POST /v1/reports acme/launch": (
        "report",
        "nobody",
        {**BY_DAY, "entity": {"account": "acme", "campaign": "launch"}},
    ),
    "POST /v1/reports unknown": ("report", "nobody", {**BY_DAY, "entity": {"account": "initech"}}),
    "POST /v1/reports unknown below": ("report", "nobody", {**BY_DAY, "entity": {"creative": "acme"}}),
    "POST /v1/reports empty": ("report", "nobody", {**BY_DAY, "entity": {"account": ""}}),
    "POST /v1/reports columns acme": ("report", "of acme", {**COLUMNS, "entity": {"account": "acme"}}),
    "POST /v1/reports columns globex": ("report", "of globex", {**COLUMNS, "entity": {"account": "globex"}}),
    "POST /v1/reports columns launch": (
        "report",
        "of launch",
        {**COLUMNS, "entity": {"account": "globex", "campaign": "launch"}},
    ),
    "GET /v1/reports/ads": ("report", "anyone", None),
    "GET /v1/reports/ad": ("report", "nobody", None),
    "GET /v1/reports/ads?analyst=ben": ("report", "bad", None),
    "GET /v1/reports/ads/entities": ("report", "anyone", None),
    "GET /v1/reports/ad/entities": ("report", "nobody", None),
    "GET /v1/reports/ads/entities?find=a": ("report", "anyone", None),
    "GET /v1/reports/ads/entities?under=acme": ("report", "of acme", None),
    "GET /v1/reports/ads/entities?under=globex": ("report", "of globex", None),
    "GET /v1/reports/ads/entities?under=globex&under=launch": ("report", "of launch", None),
    "GET /v1/reports/ads/entities?under=initech": ("report", "nobody", None),
    "GET /v1/reports/ads/entities?rows=0": ("report", "bad", None),
    "GET /v1/reports/ads/entities?cursor=x": ("report", "bad", None),
    "POST /v1/reports refused": ("report", "refused", {**BY_DAY, "statistics": "clik"}),
    "POST /v1/reports foreign and refused": ("report", "refused", {**BY_DAY, "entity": {"acount": "globex"}}),
    "POST /v1/reports bad": ("report", "bad", []),
    "POST /v1/estimates top": ("estimate", "anyone", TOP),
    "POST /v1/estimates refused": ("estimate", "refused", {**TOP, "by": "x"}),
    "GET /v1/answers/{anna}": ("recall", "anna", None),
    "GET /v1/answers/{ben}": ("recall", "ben", None),
    "GET /v1/answers/{olga}": ("recall", "olga", None),
    "GET /v1/answers/{omar}": ("recall", "omar", None),
    f"GET /v1/answers/{UNKNOWN}": ("recall", "nobody", None),
    "GET /v1/answers/x": ("recall", "nobody", None),
    "GET /v1/budget": ("read", "anyone", None),
    "GET /v1/budget/charges": ("read", "anyone", None),
    "GET /v1/budget/charges?cursor={anna-cursor}": ("read", "anyone", None),
    "GET /v1/budget/charges?cursor={ben-cursor}": ("read", "anyone", None),
    "GET /v1/budget/charges?cursor=999999": ("read", "anyone", None),
    "GET /v1/budget/charges?cursor=x": ("read", "bad", None),
    "GET /v1/budget?analyst=ben": ("read", "bad", None),
    "GET /v1/budget/charges?analyst=ben": ("read", "bad", None),
    "GET /v1/questions": ("read", "anyone", None),
    "GET /v1/questions?cursor=999999": ("read", "anyone", None),
    "GET /v1/questions?cursor=x": ("read", "bad", None),
    "GET /v1/questions?rows=0": ("read", "bad", None),
    "GET /v1/admin/questions": ("oversee", "anyone", None),
    "GET /v1/admin/questions?analyst=anna&since=2026-11-01": ("oversee", "anyone", None),
    "GET /v1/admin/questions?analyst=zoe": ("oversee", "anyone", None),
    "GET /v1/admin/questions?analyst=%00": ("oversee", "bad", None),
    "GET /v1/admin/questions?until=x": ("oversee", "bad", None),
    "GET /v1/tables": ("read", "anyone", None),
    "GET /v1/me": ("read", "anyone", None),
    "GET /v1/me?analyst=ben": ("read", "bad", None),
    "GET /v1/guarantee": ("read", "anyone", None),
    "GET /v1/guarantee?analyst=ben": ("read", "bad", None),
    "GET /v1/admin/guarantee": ("oversee", "anyone", None),
    "GET /v1/admin/usage": ("oversee", "anyone", None),
    "GET /v1/admin/usage?since=2026-11-01&budget=10,1": ("oversee", "anyone", None),
    "GET /v1/admin/usage?since=x": ("oversee", "bad", None),
    "GET /v1/admin": ("", "nobody", None),
    "GET /v1/admin/accounts": ("oversee", "anyone", None),
    "GET /v1/admin/accounts?analyst=anna": ("oversee", "bad", None),
    "GET /v1/admin/policy": ("oversee", "anyone", None),
    "GET /v1/admin/ledger": ("oversee", "anyone", None),
    "POST /v1/admin/ledger/verify": ("govern", "begun", None),
    "POST /v1/admin/ledger/verify?x=1": ("govern", "bad", None),
    "GET /v1/admin/releases": ("oversee", "anyone", None),
    "GET /v1/admin/releases?rows=0": ("oversee", "bad", None),
    f"GET /v1/admin/releases/{UNKNOWN}": ("oversee", "nobody", None),
    "GET /v1/admin/keys": ("oversee", "anyone", None),
    "GET /v1/admin/keys?analyst=anna": ("oversee", "anyone", None),
    "GET /v1/admin/keys?role=owner": ("oversee", "bad", None),
    "POST /v1/admin/keys": ("govern", "off", {"analyst": "anna"}),
    "POST /v1/admin/keys/0123456789ab/revoke": ("govern", "nobody", None),
    "POST /v1/admin/keys/0123456789ab/revoke?x=1": ("govern", "bad", None),
    "GET /v1/admin/keys/0123456789ab": ("", "nobody", None),
    "POST /v1/admin/grants": ("govern", "off", {"account": "anna", "calls": "1", "reason": "x"}),
    "GET /v1/answers/{anna}/rows": ("", "nobody", None),
    "GET /nope": ("", "nobody", None),
    **{
        f"GET {path}": ("", "anyone", None)
        for path in ("/", "/healthz", "/readyz", "/metrics", "/docs", "/openapi.json", "/problems/not-found")
    },
}
PATHS = ("/v1/answers", "/v1/estimates", "/v1/answers/{anna}", "/v1/budget", "/v1/budget/charges", "/v1/tables")
PATHS += ("/v1/admin/usage", "/v1/admin/guarantee", "/v1/guarantee", "/v1/me")
PATHS += (
    "/v1/admin/ledger/verify",
    "/v1/admin/accounts",
    "/v1/admin/policy",
    "/v1/admin/ledger",
    "/v1/admin/releases",
    "/v1/admin/releases/x",
)
PATHS += ("/v1/admin/grants", "/v1/admin/keys/x/revoke")
PATHS += ("/v1/reports/ads", "/v1/reports/ads/entities", "/v1/reports", "/v1/questions", "/v1/admin/questions")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")


def expected(caller: str, call: str) -> int:
    """The rules: 401 without a valid key; 404 for what the role may not do and for what is another's."""
    whose, rights = CALLERS[caller]
    needed, owner, _ = CALLS[call]
    if not needed:
        return 404 if owner == "nobody" else 200
    if not rights:
        return 401
    if needed not in rights:
        return 404
    if owner in ("refused", "bad", "off"):
        return {"refused": 422, "bad": 400, "off": 403}[owner]
    if owner.startswith("of "):
        return 200 if owner.removeprefix("of ") in HERS.get(whose, EVERYTHING) else 404
    if owner == "begun":
        return 202
    return 200 if owner in ("anyone", whose) else 404


@dataclass
class World:
    served: Served
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    bodies: dict[str, bytes] = field(default_factory=dict)

    def send(self, caller: str, method: str, path: str, body: Any = None) -> Reply:
        for name, value in self.names.items():
            path = path.replace(f"{{{name}}}", value)
        sent = {} if body is None else {"body": json.dumps(body).encode()}
        return self.served.call(method, path, headers=self.headers[caller], **sent)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, portal: BlockingPortal) -> Iterator[World]:
    made = World(new_served(tmp_path_factory.mktemp("matrix") / "world", portal, ads=True))
    with made.served.session:
        _questions(made)
        _callers(made)
        yield made


def _questions(world: World) -> None:
    """Four people ask, each something of her own, and one thing that all have asked."""
    served = world.served
    asked = {
        "anna": {**TOP, "k": 6},
        "ben": {**TOP, "k": 4},
        "olga": {**TOP, "k": 3},
        "omar": {**REGIONS, "measure": "shares"},
    }
    for name, question in asked.items():
        key = served.key(name)
        reply = served.ask(key, question)
        world.names[name], world.bodies[name] = reply.json["receipt"]["digest"], reply.body
        served.ask(key, TOTAL)
        page = served.get("/v1/budget/charges?rows=1", key).json
        world.names[f"{name}-cursor"] = page["next"]


def _callers(world: World) -> None:
    served, moment = world.served, world.served.clock.now
    soon = moment + timedelta(seconds=10)
    good = served.key()
    [*_, known] = served.keys.list("anna")
    import hashlib

    keys = {
        "anna": good,
        "anna by another key": served.key(expires=moment + timedelta(days=1)),
        "anna as auditor": served.key(role="auditor"),
        "anna as owner": served.key(role="owner"),
        "anna as reader": served.key(role="reader"),
        "ben, of the same organisation": served.key("ben"),
        "olga, of none": served.key("olga"),
        "omar, the owner": served.key("omar"),
        "axel, the auditor": served.key("axel"),
        "axel as analyst": served.key("axel", role="analyst"),
        "axel as reader": served.key("axel", role="reader"),
        "rita, the reader": served.key("rita"),
        "rita as owner": served.key("rita", role="owner"),
        "tina, of the account acme": served.key("tina"),
        "tina as owner": served.key("tina", role="owner"),
        "tina as auditor": served.key("tina", role="auditor"),
        "carl, of the campaign launch": served.key("carl"),
        "nora, of nothing": served.key("nora"),
        "olaf, owner, of the account globex": served.key("olaf"),
        "revoked": _revoked(served, "anna"),
        "revoked owner": _revoked(served, "omar"),
        "expired": served.key(expires=soon),
        "expired auditor": served.key("axel", expires=soon),
        "unknown key": "sfumato_" + "A" * 43,
        "two keys": f"{good} {good}",
        "a letter less": good[:-1],
        "its hash": hashlib.sha256(good.encode()).hexdigest(),
        "its id": known.id,
        "a token, where none are taken": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm5hIn0.",
        "left the configuration": served.key("zoe", role="analyst"),
        "owner who left the configuration": served.key("zoe", role="owner"),
    }
    world.headers = {name: {"authorization": f"Bearer {key}"} for name, key in keys.items()}
    world.headers |= {
        "no key": {},
        "empty header": {"authorization": ""},
        "other scheme": {"authorization": f"Basic {good}"},
        "no scheme": {"authorization": good},
    }
    assert world.headers.keys() == CALLERS.keys()
    served.clock.advance(seconds=10)


def _revoked(served: Served, analyst: str) -> str:
    before = {key.id for key in served.keys.list()}
    text = served.key(analyst)
    [new] = {key.id for key in served.keys.list()} - before
    served.keys.revoke(new, served.clock.now)
    return text


def test_there_are_enough_cells() -> None:
    assert len(CALLERS) * len(CALLS) >= 300


@pytest.mark.parametrize("call", CALLS)
def test_every_caller(world: World, call: str) -> None:
    method, path, *_ = call.split()
    not_found, not_known = (world.send("no key", "GET", path).lasting for path in ("/nope", "/v1/budget"))
    for caller in CALLERS:
        reply = world.send(caller, method, path, CALLS[call][2])
        assert reply.status == expected(caller, call), caller
        if reply.status == 404:
            assert reply.lasting == not_found, caller
        if reply.status == 401:
            assert reply.lasting == not_known, caller
        if reply.status == 200 and path.startswith("/v1/"):
            _check_whose(world, caller, path, reply)


def _check_whose(world: World, caller: str, path: str, reply: Reply) -> None:
    """What is shown is the caller's own."""
    whose, _ = CALLERS[caller]
    bare, session = path.partition("?")[0], world.served.session
    if bare == "/v1/budget":
        assert reply.json == session.budget(whose).to_dict()
    if bare in ("/v1/me", "/v1/guarantee"):
        assert reply.json["analyst"] == whose
    if bare == "/v1/admin/guarantee":
        assert reply.json["analyst"] is None
    if bare == "/v1/budget/charges":
        own = session.charges(whose, rows=10_000).to_dict()["rows"]
        assert all(row in own for row in reply.json["rows"])
    if bare == "/v1/questions":
        _, rights = CALLERS[caller]
        assert {row["analyst"] for row in reply.json["rows"]} <= {whose}
        assert all(row["recallable"] == ("recall" in rights) for row in reply.json["rows"])
    if bare == "/v1/admin/questions":
        named = {"analyst=anna": {"anna"}, "analyst=zoe": set()}.get(path.partition("?")[2].partition("&")[0])
        seen = {row["analyst"] for row in reply.json["rows"]}
        assert seen >= {"anna", "ben", "olga", "omar"} if named is None else seen == named
    if bare == "/v1/reports":
        assert reply.json["receipt"]["left"] == session.budget(whose).accounts[0].left.to_dict()
    if bare == "/v1/admin/keys":
        assert {row["analyst"] for row in reply.json["rows"]} >= {"anna"}
        assert all("key" not in row for row in reply.json["rows"])
    if bare == "/v1/reports/ads/entities":
        tops = {row["entity"].get("campaign", row["entity"]["account"]) for row in reply.json["rows"]}
        if "?" not in path:
            assert tops == HERS.get(whose, EVERYTHING) - ({"launch"} if HERS.get(whose) != {"launch"} else set())
    if bare.startswith("/v1/answers/"):
        assert reply.body == world.bodies[whose]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", METHODS)
def test_methods(world: World, path: str, method: str) -> None:
    """Another method is refused with the same bytes for every caller."""
    posts = ("/v1/answers", "/v1/estimates", "/v1/reports", "/v1/admin/grants", "/v1/admin/keys/x/revoke")
    posts += ("/v1/admin/ledger/verify",)
    if method == ("POST" if path in posts else "GET"):
        return
    refused = world.send("no key", "DELETE", path).lasting
    for caller in CALLERS:
        reply = world.send(caller, method, path, TOP)
        assert reply.status == 405, caller
        assert reply.lasting == refused, caller


@pytest.mark.parametrize("caller", CALLERS)
def test_only_callers_who_may_ask_are_charged(world: World, caller: str) -> None:
    _, rights = CALLERS[caller]
    before = world.served.world.tables()["journal"]
    reply = world.send(caller, "POST", "/v1/answers", {**TOTAL, "where": {"n": list(CALLERS).index(caller)}})
    charged = world.served.world.tables()["journal"] != before
    assert charged == ("ask" in rights) == (reply.status == 200)
