"""What a problem offers in `try` is answered when it is sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal

from sfumato.query.request import Request
from tests.answers.test_ways_out import REFUSED
from tests.helpers.advertised import BY_DAY
from tests.helpers.served import Served, new_served

ASKED = [asked for asked, _ in REFUSED if not isinstance(asked, Request)]


@pytest.mark.parametrize("place", range(len(ASKED)))
@pytest.mark.parametrize("path", ["/v1/answers", "/v1/estimates"])
def test_each_request_in_try_is_answered(shared: Served, path: str, place: int) -> None:
    key, asked = shared.key(), ASKED[place]
    body = {"sql": asked} if isinstance(asked, str) else asked
    refused = shared.call("POST", path, key=key, json=body)
    assert (refused.status, refused.kind) in ((422, "not-supported"), (404, "table-not-found"))
    assert refused.json["try"]
    for each in refused.json["try"]:
        assert shared.call("POST", path, key=key, json=each).status == 200


@pytest.fixture(scope="module")
def ads(tmp_path_factory: pytest.TempPathFactory, portal: BlockingPortal) -> Iterator[Served]:
    served = new_served(tmp_path_factory.mktemp("ways") / "world", portal, ads=True)
    with served.session:
        yield served


@pytest.mark.parametrize(
    ("changed", "offered"),
    [
        ({"start": "2026-10-28T01:00"}, [{"start": "2026-10-28T00:00:00", "end": "2026-11-03T00:00:00"}] * 2),
        ({"statistics": ["impressions", "clik"]}, [{"statistics": ["impressions", "clicks"]}]),
        ({"statistics": "clik"}, [{"statistics": "clicks"}]),
        ({"attribute": "job_titel"}, [{"attribute": "job_title"}]),
        ({"granularity": "dya"}, [{"granularity": "day"}]),
        ({"entity": {"acount": "acme"}}, [{"entity": {"account": "acme"}}]),
        ({"report": "asd"}, [{"report": "ads"}]),
        ({"top": 5}, [{"top": None}]),
        ({"options": ["monotone", "calendar"]}, [{"options": None}]),
        ({"options": ["actoins"]}, [{"options": ["actions"]}]),
        ({"statistics": ["nonsense"]}, []),
    ],
)
def test_each_question_to_a_report_in_try_is_answered(
    ads: Served, changed: dict[str, Any], offered: list[dict[str, Any]]
) -> None:
    key = ads.key("tina")
    refused = ads.report(key, {**BY_DAY, **changed})
    assert (refused.status, refused.kind) == (422, "not-supported")
    found = refused.json.get("try", [])
    assert len(found) == len(offered)
    for each, expected in zip(found, offered[:1], strict=False):
        assert {name: each.get(name) for name in expected} == expected
    for each in found:
        assert ads.report(key, each).status == 200


def test_the_two_nearest_ranges_are_offered(ads: Served) -> None:
    refused = ads.report(ads.key(), {**BY_DAY, "start": "2026-10-28T01:00"}).json
    assert [(each["start"], each["end"]) for each in refused["try"]] == [
        ("2026-10-28T00:00:00", "2026-11-03T00:00:00"),
        ("2026-10-28T03:00:00", "2026-11-03T00:00:00"),
    ]
    assert all(each["statistics"] == BY_DAY["statistics"] for each in refused["try"])


def test_a_misspelt_field_of_a_report(ads: Served) -> None:
    question = {name: value for name, value in BY_DAY.items() if name != "granularity"}
    [each] = ads.report(ads.key(), {**question, "granularty": "day"}).json["try"]
    assert each == BY_DAY


def test_what_is_offered_does_not_depend_on_the_entity(ads: Served) -> None:
    for name in ("acme", "globex", "initech"):
        asked = {**BY_DAY, "entity": {"account": name}}
        [each] = ads.report(ads.key("tina"), {**asked, "statistics": "clik"}).json["try"]
        assert each == {**asked, "statistics": "clicks"}
        assert ads.report(ads.key("tina"), each).status == (200 if name == "acme" else 404)


def test_with_parameters_their_values_are_in_it(shared: Served) -> None:
    key, sql = shared.key(), "SELECT articel, members FROM engagements WHERE region = :region GROUP BY articel LIMIT 3"
    refused = shared.ask(key, {"sql": sql, "params": {"region": "emea"}})
    [instead] = refused.json["try"]
    assert "'emea'" in instead["sql"]
    assert shared.ask(key, instead).status == 200


def test_sql_that_cannot_be_read_has_a_line_and_a_column(shared: Served) -> None:
    refused = shared.ask(shared.key(), {"sql": "SELECT (article\n  FROM engagements"})
    assert (refused.status, refused.json["line"], refused.json["column"]) == (422, 2, 3)
    assert "try" not in refused.json
