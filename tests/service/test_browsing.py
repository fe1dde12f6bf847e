"""What a reader sees before she asks a report: its description, and the entities that are hers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from anyio.from_thread import BlockingPortal

from sfumato.errors import NotFound
from sfumato.query.reports.entities import Entities
from tests.helpers.advertised import CREATIVES
from tests.helpers.served import Served, new_served


@pytest.fixture(scope="module")
def ads(tmp_path_factory: pytest.TempPathFactory, portal: BlockingPortal) -> Iterator[Served]:
    served = new_served(tmp_path_factory.mktemp("browsing") / "world", portal, ads=True)
    with served.session:
        yield served


def browse(served: Served, analyst: str, report: str = "ads", **query: Any) -> Any:
    reply = served.get(f"/v1/reports/{report}/entities?{urlencode(query, doseq=True)}", served.key(analyst))
    assert reply.status == 200
    return reply.json


def paths(page: Any) -> list[str]:
    return ["/".join(row["entity"].values()) for row in page["rows"]]


class TestDescription:
    def test_it_has_what_the_list_says_and_more(self, ads: Served) -> None:
        key = ads.key("anna")
        listed = {row["report"]: row for row in ads.get("/v1/tables", key).json["reports"]}
        for name in ("ads", "clicks"):
            described = ads.get(f"/v1/reports/{name}", key).json
            assert {field: described[field] for field in listed[name]} == listed[name]
            assert described == ads.session.describe_report(name, analyst="anna").to_dict()

    def test_of_events_with_entities(self, ads: Served) -> None:
        described = ads.get("/v1/reports/ads", ads.key("anna")).json
        assert described["min_count"] == 3
        assert described["options"] == ["monotone", "totals", "tree", "actions", "calendar"]
        assert described["usual_options"] == []
        assert described["follows"] == {"clicks": "impressions", "conversions": "clicks"}
        asked = {"report": "ads", "statistics": "clicks", "entity": {"account": "acme"}}
        ends = described["complete_until"]
        reply = ads.report(ads.key("anna"), {**asked, "start": "2026-11-01", "end": "2026-12-01"})
        assert reply.json["complete_until"] == ends

    def test_of_counts_by_day(self, ads: Served) -> None:
        described = ads.get("/v1/reports/clicks", ads.key("anna")).json
        assert described["options"] == ["monotone", "totals", "calendar"]
        assert len(described["complete_until"]) == len("2026-11-15")
        assert described["follows"] == {}

    @pytest.mark.parametrize(("analyst", "has"), [("tina", True), ("carl", False), ("nora", False)])
    def test_the_option_tree_is_for_those_who_may_see_all_of_a_top(self, ads: Served, analyst: str, has: bool) -> None:
        assert ("tree" in ads.get("/v1/reports/ads", ads.key(analyst)).json["options"]) == has

    def test_an_unknown_report_is_not_found(self, ads: Served) -> None:
        key = ads.key("anna")
        nowhere = ads.get("/nope", key).lasting
        assert ads.get("/v1/reports/ad", key).lasting == nowhere
        assert ads.get("/v1/reports/ad/entities", key).lasting == nowhere
        with pytest.raises(NotFound, match="did you mean ads"):
            ads.session.describe_report("ad", analyst="anna")


class TestEntities:
    def test_level_by_level(self, ads: Served) -> None:
        top = browse(ads, "anna")
        assert top["listed"]
        assert [(row["level"], row["name"], row["has_children"]) for row in top["rows"]] == [
            ("account", "acme", True),
            ("account", "globex", True),
        ]
        campaigns = browse(ads, "anna", under="acme")
        assert paths(campaigns) == ["acme/autumn", "acme/spring"]
        creatives = browse(ads, "anna", under=["acme", "spring"])
        assert paths(creatives) == ["acme/spring/s1", "acme/spring/s2", "acme/spring/s3"]
        assert not any(row["has_children"] for row in creatives["rows"])
        assert browse(ads, "anna", under=["acme", "spring", "s1"])["rows"] == []

    @pytest.mark.parametrize(
        ("analyst", "top"), [("tina", ["acme"]), ("carl", ["globex/launch"]), ("nora", []), ("olaf", ["globex"])]
    )
    def test_the_topmost_are_those_of_the_caller(self, ads: Served, analyst: str, top: list[str]) -> None:
        assert paths(browse(ads, analyst)) == top

    @pytest.mark.parametrize(
        ("analyst", "under"),
        [
            ("tina", ["globex"]),
            ("carl", ["globex"]),
            ("carl", ["acme", "spring"]),
            ("nora", ["acme"]),
            ("anna", ["initech"]),
            ("anna", ["acme", "launch"]),
            ("anna", ["acme", "spring", "s1", "x"]),
            ("anna", [""]),
            ("anna", ["\0"]),
        ],
    )
    def test_what_is_not_the_callers_is_not_found(self, ads: Served, analyst: str, under: list[str]) -> None:
        key = ads.key(analyst)
        query = urlencode({"under": under}, doseq=True)
        assert ads.get(f"/v1/reports/ads/entities?{query}", key).lasting == ads.get("/nope", key).lasting

    def test_every_row_can_be_asked_about(self, ads: Served) -> None:
        for analyst in ("tina", "carl", "olaf"):
            key = ads.key(analyst)
            for row in browse(ads, analyst)["rows"]:
                asked = {"report": "ads", "statistics": "clicks", "start": "2026-10-01", "end": "2026-10-02"}
                assert ads.report(key, {**asked, "entity": row["entity"]}).status == 200

    @pytest.mark.parametrize(
        ("analyst", "query", "found"),
        [
            ("anna", {"find": "A"}, ["acme/autumn/a1", "acme", "acme/autumn", "globex/autumn"]),
            ("anna", {"find": "a", "under": "acme"}, ["acme/autumn/a1", "acme/autumn"]),
            ("tina", {"find": "autumn"}, ["acme/autumn"]),
            ("carl", {"find": "l"}, ["globex/launch/l1", "globex/launch/l2", "globex/launch"]),
            ("carl", {"find": "globex"}, []),
            ("nora", {"find": ""}, []),
            ("anna", {"find": "zzz"}, []),
            ("anna", {"find": "\0"}, []),
        ],
    )
    def test_by_the_beginning_of_a_name(
        self, ads: Served, analyst: str, query: dict[str, str], found: list[str]
    ) -> None:
        assert paths(browse(ads, analyst, **query)) == found

    def test_pages(self, ads: Served) -> None:
        seen, cursor = [], None
        while True:
            page = browse(ads, "anna", find="", rows=3, **({} if cursor is None else {"cursor": cursor}))
            seen += paths(page)
            cursor = page["next"]
            if cursor is None:
                break
        assert len(seen) == len(set(seen)) == 2 + 4 + len(CREATIVES)
        assert page == ads.session.entities("ads", analyst="anna", find="", cursor="12", rows=3).to_dict()

    def test_without_a_table_the_rights_alone_are_known(self, ads: Served) -> None:
        assert browse(ads, "anna", "clicks") == {"rows": [], "next": None, "listed": False}
        assert paths(browse(ads, "tina", "clicks")) == ["acme"]
        assert browse(ads, "tina", "clicks", under="acme")["rows"] == []


def test_a_search_does_not_look_at_every_entity(monkeypatch: pytest.MonkeyPatch) -> None:
    entities = Entities(["account"], [(f"a{number}",) for number in range(5000)])
    seen = []
    monkeypatch.setattr(Entities, "visible", lambda _, path, tenancy: seen.append(path) or True)
    assert [*entities.beginning_with("a4999", (), None)] == [("a4999",)]
    assert len(seen) == 1
