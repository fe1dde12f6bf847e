"""Query parameters that a route does not have are refused, and those that it has are taken."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sfumato.service.openapi import ROUTES
from tests.helpers.served import TOP, Served, document

PATHS = {
    operation["operationId"]: (
        method.upper(),
        path.replace("{digest}", "sha256:" + "0" * 64).replace("{name}", "ads").replace("{id}", "x"),
    )
    for path, methods in document()["paths"].items()
    for method, operation in methods.items()
    if path.startswith("/v1/")
}
ASKED = {"ask": TOP, "estimate": TOP, "report": {}}


@pytest.mark.parametrize("name", PATHS)
def test_an_unknown_parameter_is_refused_on_every_route(shared: Served, name: str) -> None:
    method, path = PATHS[name]
    body = {"json": ASKED[name]} if name in ASKED else {}
    before = shared.spent("omar")
    for query in ("nope=1", "nope", "=1", "Idempotency-Key=1", "digest=x", "%00=1", "%F0%9F%92%A5=1", f"{'x' * 500}=1"):
        reply = shared.call(method, f"{path}?{query}", key=shared.key("omar"), **body)
        assert (reply.status, reply.kind) == (400, "invalid-argument"), query
        assert len(reply.json.get("argument", "")) <= 60
    assert shared.spent("omar") == before


@pytest.mark.parametrize(
    ("path", "argument", "nearest", "detail"),
    [
        ("/v1/budget/charges?row=5", "row", "rows", "row: is not a parameter of this path; did you mean rows?"),
        ("/v1/questions?cursro=5", "cursro", "cursor", None),
        ("/v1/questions?rows=5&analyst=ben", "analyst", None, None),
        ("/v1/admin/questions?analysts=ben", "analysts", "analyst", None),
        ("/v1/admin/usage?sinse=2026-11-01", "sinse", "since", None),
        ("/v1/admin/usage?budgets=1,1", "budgets", "budget", None),
        ("/v1/budget?x=1", "x", None, "x: is not a parameter of this path; there is none"),
        ("/v1/budget/charges?x=1", "x", None, "x: is not a parameter of this path; there is cursor, rows"),
    ],
)
def test_it_names_the_parameter_and_the_nearest(
    shared: Served, path: str, argument: str, nearest: str | None, detail: str | None
) -> None:
    reply = shared.get(path, shared.key("omar"))
    assert (reply.status, reply.json.get("argument"), reply.json.get("nearest")) == (400, argument, nearest)
    assert detail is None or reply.json["detail"] == detail


def test_a_cached_answer_is_not_given_for_it(shared: Served) -> None:
    key = shared.key()
    for _ in range(3):
        assert shared.ask(key).status == 200
    assert shared.call("POST", "/v1/answers?fresh=1", key=key, json=TOP).status == 400


def test_a_stranger_learns_nothing_of_the_parameters(shared: Served) -> None:
    assert shared.get("/v1/questions?x=1").status == 401
    assert shared.get("/v1/admin/usage?x=1", shared.key()).lasting == shared.get("/nope").lasting


def test_every_declared_parameter_is_taken(serving: Callable[..., Served]) -> None:
    shared = serving(ads=True)
    values = {"cursor": "1", "rows": "1", "since": "2026-11-01", "until": "2026-11-15", "budget": "1,1", "analyst": "x"}
    values |= {"under": "acme", "find": "s"}
    for name, (method, path) in PATHS.items():
        for each in (each["name"] for each in ROUTES[name].parameters if each["in"] == "query"):
            assert shared.call(method, f"{path}?{each}={values[each]}", key=shared.key("omar")).status == 200
