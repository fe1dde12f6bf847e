"""Calls by the thousand that follow from the description, and some that break it: nothing undocumented comes back."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from anyio.from_thread import BlockingPortal
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.helpers.repeats import repeats
from tests.helpers.served import TOP, TOTAL, Served, document, new_served

pytestmark = pytest.mark.slow

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]

POSITIVE, NEGATIVE = GenerationMode.POSITIVE, GenerationMode.NEGATIVE

# (operation, mode, whether it knows the names of the world, parts, cases a part, the least share of 200 and 304)
PLAN = (
    ("ask", POSITIVE, True, 4, 500, 0.5),
    ("ask", POSITIVE, False, 2, 600, 0.0),
    ("ask", NEGATIVE, False, 1, 400, 0.0),
    ("report", POSITIVE, True, 2, 200, 0.5),
    ("report", POSITIVE, False, 1, 600, 0.0),
    ("report", NEGATIVE, False, 1, 400, 0.0),
    ("estimate", POSITIVE, True, 2, 500, 0.5),
    ("estimate", POSITIVE, False, 1, 900, 0.0),
    ("estimate", NEGATIVE, False, 1, 400, 0.0),
    ("recall", POSITIVE, True, 1, 900, 0.5),
    ("recall", POSITIVE, False, 1, 500, 0.0),
    ("charges", POSITIVE, True, 1, 300, 0.5),
    ("charges", POSITIVE, False, 1, 300, 0.0),
    ("charges", NEGATIVE, False, 1, 250, 0.0),
    ("questions", POSITIVE, True, 1, 100, 0.5),
    ("questions", NEGATIVE, False, 1, 100, 0.0),
    ("all_questions", POSITIVE, False, 1, 100, 0.0),
    ("all_questions", NEGATIVE, False, 1, 100, 0.0),
    ("usage", POSITIVE, True, 1, 400, 0.5),
    ("usage", POSITIVE, False, 1, 300, 0.0),
    ("usage", NEGATIVE, False, 1, 250, 0.0),
    ("entities", POSITIVE, False, 1, 100, 0.0),
    ("entities", NEGATIVE, False, 1, 100, 0.0),
    ("keys", POSITIVE, False, 1, 50, 0.5),
    ("releases", POSITIVE, False, 1, 50, 0.0),
    ("create_key", POSITIVE, False, 1, 100, 0.0),
    ("create_key", NEGATIVE, False, 1, 100, 0.0),
    ("revoke_key", POSITIVE, False, 1, 50, 0.0),
    ("grant", POSITIVE, False, 1, 100, 0.0),
    ("grant", NEGATIVE, False, 1, 100, 0.0),
)

# What comes back in a share f of all calls is missed by n of them with probability (1 - f)^n: by 7 / f calls, once in a
# thousand. So a run of 100 calls sees all that comes back once in 15 calls; the whole plan, once in 90.
SHARE, PARTS = repeats(6, 1), repeats(1, 4)
RUNS = [(*run[:3], part, run[4] // SHARE, run[5]) for run in PLAN for part in range(min(run[3], PARTS))]

# Without parameters there is little to vary: what there is.
FIXED = ("budget", "tables", "accounts", "policy", "ledger_state", "healthz", "readyz", "metrics")
GOVERNING = ("usage", "all_questions", "keys", "create_key", "revoke_key", "grant", "releases")
GOVERNING += ("accounts", "policy", "ledger_state")


def test_there_are_a_thousand_or_ten() -> None:
    assert sum(run[4] for run in RUNS) >= repeats(1_000, 10_000)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, portal: BlockingPortal) -> Iterator[Served]:
    world = new_served(
        tmp_path_factory.mktemp("fuzzed") / "world", portal, ads=True, govern=True, mode="track", shared=(10**9, 10**9)
    )
    with world.session:
        yield world


@pytest.mark.parametrize(("name", "mode", "hinted", "part", "cases", "share"), RUNS)
def test_generated(
    served: Served, name: str, mode: GenerationMode, hinted: bool, part: int, cases: int, share: float
) -> None:
    seen = calls(served, name, mode, hinted=hinted, part=part, cases=cases)
    assert seen.total() >= cases
    good = seen[200] + seen[304]
    assert good >= share * cases, seen
    if mode is NEGATIVE:
        assert good < cases, seen
    if name == "recall" and hinted:
        assert seen[200], seen
        assert seen[304], seen


@pytest.mark.parametrize("name", FIXED)
def test_fixed(served: Served, name: str) -> None:
    assert set(calls(served, name, POSITIVE, cases=20)) == {200}


@pytest.mark.parametrize("key", [None, "", "x", "sfumato_" + "A" * 43])
def test_without_a_key(served: Served, key: str | None) -> None:
    for name in ("ask", "report", "estimate", "recall", "budget", "charges", "tables", "usage"):
        assert set(calls(served, name, POSITIVE, cases=5, key=key)) == {401}


def calls(
    served: Served,
    name: str,
    mode: GenerationMode,
    *,
    cases: int,
    hinted: bool = False,
    part: int = 0,
    key: str | None = "good",
) -> Counter[int]:
    """Send generated cases of one operation, and count the statuses."""
    who = "omar" if name in GOVERNING else "anna"
    text = served.key(who) if key == "good" else key
    headers = {"Host": "localhost"} | ({} if text is None else {"Authorization": f"Bearer {text}"})
    schema = schemathesis.openapi.from_dict(described(served, plain=part % 2 == 0) if hinted else document())
    schema.app = _endless(served)
    operation = schema.find_operation_by_id(name)
    seen: Counter[int] = Counter()

    @seed(part)
    @settings(
        max_examples=cases,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(mode))
    def send(case: Any) -> None:
        reply = case.call_and_validate(headers=headers, checks=CHECKS)
        seen[reply.status_code] += 1

    send()
    return seen


def _endless(served: Served) -> Any:
    """The application without an end of its own, which would close the session after the first test."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await served.app(scope, receive, send)
            return
        for word in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{word}.complete"})

    return app


# -- the description, with the names of this world --

COLUMNS = ["article", "job_title", "region", "market", "day", "n"]
REGION = {"enum": ["emea", "apac", "amer"]}
DAY = {"type": "string", "pattern": "^2026-11-(0[1-9]|1[0-4])$"}
SQL = {
    "type": "string",
    "pattern": "^SELECT (article|region|job_title), (members|visits|COUNT[(]DISTINCT member_id[)]) FROM engagements"
    "( WHERE n (<|>|=|<>) [0-9]( OR day < '2026-11-0[1-9]')?)? GROUP BY 1( ORDER BY 2 DESC)?( LIMIT [1-9])?$",
}
NUMBER = {"type": "integer", "minimum": -3, "maximum": 12}


def _compared(value: dict[str, Any]) -> dict[str, Any]:
    pair = {"type": "array", "items": value, "minItems": 2, "maxItems": 2}
    several = {"type": "array", "items": value, "maxItems": 4}
    one = dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), value)
    both = {"properties": {**one, "in": several, "between": pair}, "additionalProperties": False, "minProperties": 1}
    return {"anyOf": [value, several, {"type": "object", **both}]}


_LEAF = {
    "type": "object",
    "properties": {"region": _compared(REGION), "day": _compared(DAY), "n": _compared(NUMBER)},
    "additionalProperties": False,
}
_JOINED = {
    "type": "object",
    "properties": {
        **{word: {"type": "array", "items": _LEAF, "maxItems": 3} for word in ("and", "or")},
        "not": _LEAF,
        "market": _compared(REGION),
    },
    "additionalProperties": False,
}


def described(served: Served, *, plain: bool) -> dict[str, Any]:
    """The document, whose questions are about what there is; `plain`: without Idempotency-Key."""
    changed = copy.deepcopy(document())
    questions = changed["components"]["schemas"]
    hints = {
        "table": {"const": "engagements"},
        "measure": {"enum": ["members", "shares", "visits"]},
        "by": {"anyOf": [{"enum": COLUMNS}, {"type": "array", "items": {"enum": COLUMNS[:4]}, "uniqueItems": True}]},
        "k": {"type": "integer", "minimum": 1, "maximum": 20},
        "where": {"anyOf": [_LEAF, _JOINED, {"type": "null"}]},
    }
    hints["by"]["anyOf"][1] |= {"minItems": 1, "maxItems": 2}
    for name in ("TopK", "Histogram", "Total"):
        made = copy.deepcopy(questions[name])
        made["properties"] |= {field: hint for field, hint in hints.items() if field in made["properties"]}
        questions[f"Hinted{name}"] = made
    questions["HintedSql"] = {**questions["Sql"], "properties": {"sql": SQL}}
    kinds = [{"$ref": f"#/components/schemas/Hinted{name}"} for name in ("TopK", "Histogram", "Total", "Sql")]
    for path in ("/v1/answers", "/v1/estimates"):
        content = {"schema": {"oneOf": kinds}}
        changed["paths"][path]["post"]["requestBody"]["content"]["application/json"] = content
    questions["HintedReport"] = _hinted_report(questions["ReportRequest"])
    content = {"schema": {"$ref": "#/components/schemas/HintedReport"}}
    changed["paths"]["/v1/reports"]["post"]["requestBody"]["content"]["application/json"] = content
    if plain:
        del changed["paths"]["/v1/reports"]["post"]["parameters"]
        del changed["paths"]["/v1/answers"]["post"]["parameters"]
    _hint_parameters(changed, _digests(served))
    return changed


def _hinted_report(question: dict[str, Any]) -> dict[str, Any]:
    """Questions about what there is, most of which can be answered."""
    made = copy.deepcopy(question)
    entities = [{"account": {"enum": ["acme", "globex"]}}, {"campaign": {"enum": ["spring", "launch", "autumn", 7]}}]
    entities += [{"creative": {"enum": ["s1", "s2", "l1", "é\0"]}}, entities[0] | entities[1]]
    made["properties"] |= {
        "report": {"const": "ads"},
        "statistics": {
            "type": "array",
            "items": {"enum": ["impressions", "clicks", "conversions"]},
            "minItems": 1,
            "maxItems": 4,
        },
        "entity": {
            "anyOf": [
                {"type": "object", "properties": each, "required": [*each], "additionalProperties": False}
                for each in entities
            ]
        },
        "attribute": {"enum": ["job_title", "seniority", None]},
        "start": {"type": "string", "pattern": "^2026-10-(29|30|31)(T(00|03|21):00)?$"},
        "end": {"type": "string", "pattern": "^2026-11-(01|02|03|21)(T(00|06|18):00(:00)?)?$"},
        "granularity": {"enum": ["all", "3h", "day", "month", "quarter", "year", None]},
        "top": {"type": ["integer"], "minimum": 1, "maximum": 9},
    }
    made["required"] = ["report", "statistics", "entity", "start", "end"]
    made["allOf"] = [{"if": {"required": ["top"]}, "then": {"required": ["attribute"]}}]
    return made


def _digests(served: Served) -> list[str]:
    key = served.key()
    return [served.ask(key, question).json["receipt"]["digest"] for question in (TOP, TOTAL)]


def _hint_parameters(changed: dict[str, Any], digests: list[str]) -> None:
    tags = [*(f'"{digest}"' for digest in digests), "*", *(f'W/"{digest}"' for digest in digests)]
    days = {"type": "string", "pattern": "^2026-11-(0[1-9]|1[0-9])$"}
    hints = {
        "digest": {"enum": digests},
        "If-None-Match": {"enum": [*tags, '"x"', "x"]},
        "cursor": {"type": "string", "pattern": "^[0-9]{1,6}$"},
        "since": {"type": "string", "pattern": "^2026-10-(0[1-9]|1[0-9])$"},
        "until": days,
    }
    for path in changed["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = hints.get(parameter["name"], parameter["schema"])
                parameter.pop("example", None)
