"""The description of the service: valid, and true."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from anyio.from_thread import BlockingPortal

from sfumato.demo.demo import prepare
from sfumato.problems import PLACE, PROBLEM_TYPES
from sfumato.service.examples import REPLIES, REPORT_REQUESTS, REQUESTS
from sfumato.service.openapi import ROUTES, schemas
from sfumato.wire import Answer, BudgetReport, Charges, Estimate, Questions, Report, Tables, UsageReport
from tests.helpers.served import Clock, Served, check_schema, document, new_served, template
from tests.helpers.worlds import NOW, World

pytestmark = pytest.mark.slow

OPERATIONS = [
    pytest.param(path, method, operation, id=operation["operationId"])
    for path, methods in document()["paths"].items()
    for method, operation in methods.items()
]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, portal: BlockingPortal) -> Iterator[Served]:
    """The demo's own data and policy, with few members."""
    folder = tmp_path_factory.mktemp("demo")
    assert prepare(folder, 20_000) == folder / "sfumato.toml"
    served = Served(World(folder, "sqlite:books/ledger.db"), portal, Clock(NOW))
    with served.session:
        yield served


@pytest.fixture(scope="module")
def ads(tmp_path_factory: pytest.TempPathFactory, portal: BlockingPortal) -> Iterator[Served]:
    """Advertisements, and reports on them."""
    served = new_served(tmp_path_factory.mktemp("ads") / "world", portal, ads=True)
    with served.session:
        yield served


def test_what_is_served_is_what_is_tested(demo: Served) -> None:
    described = demo.get("/openapi.json").json
    assert {**described, "info": None} == {**document(), "info": None}


class TestValid:
    def test_by_the_schema_of_openapi(self) -> None:
        from schemathesis.specs.openapi import definitions

        assert document()["openapi"] == "3.1.0"
        schema = definitions.OPENAPI_31
        jsonschema.Draft202012Validator(schema).validate(document())

    def test_by_another_reader(self) -> None:
        import schemathesis

        schema = schemathesis.openapi.from_dict(document())
        schema.validate()
        assert len(list(schema.get_all_operations())) == len(OPERATIONS)

    @pytest.mark.parametrize("name", schemas())
    def test_every_schema_is_one(self, name: str) -> None:
        jsonschema.Draft202012Validator.check_schema(document()["components"]["schemas"][name])

    def test_every_reference_leads_somewhere(self) -> None:
        known = document()["components"]["schemas"]
        found = {node["$ref"] for node in nodes(document()) if "$ref" in node}
        assert found
        assert {reference.removeprefix("#/components/schemas/") for reference in found} == known.keys()

    def test_operations_have_names_and_words(self) -> None:
        names = [operation["operationId"] for _, _, operation in (param.values for param in OPERATIONS)]
        assert len(names) == len(set(names)) == sum(1 for _ in ROUTES)
        for _, _, operation in (param.values for param in OPERATIONS):
            assert operation["summary"]
            assert operation["description"]

    @pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
    def test_keys_are_needed_where_they_are(
        self, demo: Served, path: str, method: str, operation: dict[str, Any]
    ) -> None:
        needed = demo.call(method.upper(), re.sub("{[a-z]+}", "x", path)).status == 401
        assert needed == (operation.get("security") == [{"key": []}]) == ("401" in operation["responses"])
        assert needed == path.startswith("/v1/")

    @pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
    def test_every_problem_is_a_problem(self, path: str, method: str, operation: dict[str, Any]) -> None:
        for status, described in operation["responses"].items():
            assert described["description"]
            assert "X-Request-Id" in described["headers"]
            if int(status) >= 400 and path != "/readyz":
                assert described["content"] == {
                    "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
                }

    def test_every_kind_is_documented_somewhere(self) -> None:
        text = json.dumps(document())
        assert [kind.name for kind in PROBLEM_TYPES if f"`{kind.name}`" not in text] == []
        assert document()["components"]["schemas"]["Problem"]["properties"]["type"]["enum"] == [
            PLACE + kind.name for kind in PROBLEM_TYPES
        ]


class TestExamples:
    @pytest.mark.parametrize("name", REQUESTS)
    def test_every_question_is_answered(self, demo: Served, name: str) -> None:
        question, key = REQUESTS[name]["value"], demo.key()
        check_schema({"$ref": "#/components/schemas/Request"}, question)
        assert REQUESTS[name]["summary"]
        estimate = demo.call("POST", "/v1/estimates", key=key, json=question)
        answer = demo.ask(key, question)
        assert (estimate.status, answer.status) == (200, 200)
        assert answer.json["rows"]

    @pytest.mark.parametrize("name", REPORT_REQUESTS)
    @pytest.mark.parametrize("analyst", ["anna", "tina"])
    def test_every_report_is_given(self, ads: Served, name: str, analyst: str) -> None:
        question = REPORT_REQUESTS[name]["value"]
        check_schema({"$ref": "#/components/schemas/ReportRequest"}, question)
        assert REPORT_REQUESTS[name]["summary"]
        reply = ads.report(ads.key(analyst), question)
        assert reply.status == 200
        assert reply.json["rows"]

    def test_the_report_looks_like_a_real_one(self, ads: Served) -> None:
        key, question = ads.key(), REPORT_REQUESTS["top_titles"]["value"]
        ads.report(key, question)
        real, example = ads.report(key, question).json, REPLIES["Report"]
        assert real.keys() == example.keys()
        assert real["receipt"].keys() == example["receipt"].keys()
        for name in real.keys() - {"rows", "receipt"}:
            assert real[name] == example[name], name
        for name in real["receipt"].keys() - {"left", "digest"}:
            assert real["receipt"][name] == example["receipt"][name], name
        assert real["rows"][0].keys() == example["rows"][0].keys()
        assert real["rows"][0]["start"] == example["rows"][0]["start"]

    @pytest.mark.parametrize("example", schemas()["Where"]["examples"])
    def test_every_filter_is_taken(self, demo: Served, example: dict[str, Any]) -> None:
        question = {"type": "total", "table": "engagements", "measure": "members", "where": example}
        assert demo.ask(demo.key(), question).status == 200

    @pytest.mark.parametrize("name", REPLIES)
    def test_every_reply_fits_its_schema(self, name: str) -> None:
        check_schema({"$ref": f"#/components/schemas/{name}"}, REPLIES[name])

    @pytest.mark.parametrize("kind", [Answer, BudgetReport, Charges, Estimate, Questions, Report, Tables, UsageReport])
    def test_the_sdk_reads_every_reply(self, kind: Any) -> None:
        example = REPLIES[kind.__name__]
        assert kind.from_dict(example).to_dict() == example

    @pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
    def test_every_example_is_where_it_belongs(self, path: str, method: str, operation: dict[str, Any]) -> None:
        [ok] = [reply for status, reply in operation["responses"].items() if status.startswith("20")]
        content = ok["content"]
        for described in content.values():
            if "$ref" in described.get("schema", {}):
                name = described["schema"]["$ref"].rpartition("/")[2]
                assert described["example"] == REPLIES[name]
                check_schema(described["schema"], described["example"])
        for parameter in operation.get("parameters", ()):
            if "example" in parameter:
                check_schema(parameter["schema"], parameter["example"])

    def test_the_answer_looks_like_a_real_one(self, demo: Served) -> None:
        real = demo.ask(demo.key(), REQUESTS["top_articles"]["value"]).json
        example = REPLIES["Answer"]
        assert real.keys() == example.keys()
        assert real["receipt"].keys() == example["receipt"].keys()
        assert real["columns"] == example["columns"]
        for name in ("mechanism", "unit", "resets"):
            assert real["receipt"][name] == example["receipt"][name]
        assert real["notes"] == example["notes"]
        assert real["receipt"]["data_version"].split()[0] == example["receipt"]["data_version"].split()[0]

    @pytest.mark.parametrize(
        ("path", "name"),
        [
            ("/v1/budget", "BudgetReport"),
            ("/v1/budget/charges", "Charges"),
            ("/v1/questions", "Questions"),
            ("/v1/tables", "Tables"),
            ("/v1/guarantee", "Guarantee"),
            ("/readyz", "Readiness"),
        ],
    )
    def test_the_others_do_too(self, demo: Served, path: str, name: str) -> None:
        key = demo.key()
        demo.ask(key, REQUESTS["top_articles"]["value"])
        assert shape(demo.get(path, key).json) >= shape(REPLIES[name])

    def test_the_price_is_the_real_one(self, demo: Served) -> None:
        real = demo.call("POST", "/v1/estimates", key=demo.key(), json=REQUESTS["top_articles"]["value"]).json
        assert real.keys() == REPLIES["Estimate"].keys()


class TestStrict:
    """The schemas tell apart what the service tells apart."""

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("Request", {}),
            ("Request", {"sql": 1}),
            ("Request", {"sql": "x", "k": 1}),
            ("Request", {"type": "top_k", "table": "t", "by": [], "measure": "m"}),
            ("Request", {"type": "top_k", "table": "t", "by": "c", "measure": "m", "k": 0}),
            ("Request", {"type": "total", "table": "t", "by": "c", "measure": "m"}),
            ("ReportRequest", {}),
            ("ReportRequest", {"statistics": "clicks", "start": "2026-10-01"}),
            ("ReportRequest", {"statistics": [], "start": "2026-10-01", "end": "2026-11-01"}),
            ("ReportRequest", {"statistics": "clicks", "start": 1, "end": "2026-11-01"}),
            ("ReportRequest", {"statistics": "clicks", "start": "x", "end": "y", "top": 0}),
            ("ReportRequest", {"statistics": "clicks", "start": "x", "end": "y", "options": ["smooth"]}),
            ("ReportRequest", {"statistics": "clicks", "start": "x", "end": "y", "entity": {"account": 1.5}}),
            ("ReportRequest", {"statistics": "clicks", "start": "x", "end": "y", "entities": {}}),
            ("ReportPromise", {"epsilon": 0, "unit": "event"}),
            ("ReportPromise", {"epsilon": 1, "unit": "row"}),
            ("Charge", {"information": 1, "calls": "1"}),
            ("Charge", {"information": "1.5", "calls": "1"}),
            ("Charge", {"information": "1/0", "calls": "1"}),
            ("Charges", {"rows": [], "next": 1}),
            ("Problem", {"type": "/problems/other", "title": "x", "status": 400, "detail": "x"}),
            ("Health", {"status": "fine"}),
            ("Readiness", {"status": "ready", "checks": {"ledger": "/a/path"}}),
        ],
    )
    def test_refused(self, name: str, value: Any) -> None:
        with pytest.raises(jsonschema.ValidationError):
            check_schema({"$ref": f"#/components/schemas/{name}"}, value)

    def test_paths(self) -> None:
        assert template("/v1/answers/x?y") == "/v1/answers/{digest}"
        assert template("/v1/answers") == "/v1/answers"
        assert template("/v1/answers/x/y") is None


def nodes(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from nodes(inner)


def shape(value: Any) -> frozenset[str]:
    """The keys of all objects inside."""
    return frozenset(f"{name}" for node in nodes(value) for name in node)
