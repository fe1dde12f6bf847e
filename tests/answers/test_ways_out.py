"""Refusals whose way out is a request carry it: it can be sent as it is, and it is about what the analyst may ask."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sfumato.accounting import NOTHING
from sfumato.errors import NotSupported, Refused, TableNotFound
from sfumato.problems import problem, read_problem
from sfumato.query.request import Histogram, TopK, Total
from sfumato.session import Session
from tests.helpers.worlds import new_world

TOP = {"type": "top_k", "table": "engagements", "by": "article", "measure": "members"}
LISTED = "SELECT article, COUNT(DISTINCT member_id) FROM engagements GROUP BY article ORDER BY 2 DESC LIMIT 10"
REFUSED: list[tuple[Any, Any]] = [
    # a name of SQL: a column, a measure, a table, in capitals, in quotes, at several places, in a filter
    (
        "SELECT articel, members FROM engagements GROUP BY articel LIMIT 3",
        "SELECT article, members FROM engagements GROUP BY article LIMIT 3",
    ),
    (
        "SELECT article, membres FROM engagements GROUP BY article LIMIT 3",
        "SELECT article, members FROM engagements GROUP BY article LIMIT 3",
    ),
    (
        'select "ARTICEL", members from ENGAGEMENT group by 1',
        "select article, members from engagements group by 1",
    ),
    (
        "SELECT article, members FROM engagements WHERE regoin = 'regoin' GROUP BY article",
        "SELECT article, members FROM engagements WHERE region = 'regoin' GROUP BY article",
    ),
    # counts, or groups, are missing
    ("SELECT * FROM engagements", LISTED),
    ("SELECT article FROM engagements", LISTED),
    ("SELECT article FROM engagements GROUP BY article", LISTED),
    ("SELECT DISTINCT article FROM engagements", LISTED),
    (
        "SELECT article, members FROM engagements LIMIT 3",
        "SELECT article, members FROM engagements GROUP BY article LIMIT 3",
    ),
    ("SELECT `articel`, members FROM engagements GROUP BY 1", "SELECT article, members FROM engagements GROUP BY 1"),
    ("EXPLAIN " + LISTED.replace("article", "articel"), LISTED),
    # fields of JSON
    ({**TOP, "by": "articel"}, TOP),
    ({**TOP, "by": ["region", "articel"]}, {**TOP, "by": ["region", "article"]}),
    ({**TOP, "measure": "membres"}, TOP),
    ({**TOP, "measure": "membres", "by": "articel"}, TOP),
    ({**TOP, "table": "engagement"}, TOP),
    ({**TOP, "k": 500}, {**TOP, "k": 20}),
    ({name: value for name, value in TOP.items() if name != "measure"}, TOP),
    ({name: value for name, value in TOP.items() if name != "type"}, TOP),
    ({**TOP, "type": "topk"}, TOP),
    (
        {"table": "engagements", "measure": "members"},
        {"type": "total", "table": "engagements", "measure": "members"},
    ),
    ({"mesure" if name == "measure" else name: value for name, value in TOP.items()}, TOP),
    (
        {**TOP, "where": {"or": [{"regoin": "regoin"}, {"not": {"regoin": ["emea"]}}]}},
        {**TOP, "where": {"or": [{"region": "regoin"}, {"not": {"region": ["emea"]}}]}},
    ),
    # request classes
    (TopK("engagements", "articel", "members", k=3), {**TOP, "where": None, "k": 3, "counts": True}),
    (
        Histogram("engagements", ("region", "articel"), "members"),
        {"type": "histogram", "table": "engagements", "by": ["region", "article"], "measure": "members", "where": None},
    ),
    (
        Total("engagement", "members", {"n": 1}),
        {"type": "total", "table": "engagements", "measure": "members", "where": {"n": 1}},
    ),
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with new_world(tmp_path_factory.mktemp("ways") / "world", information=100_000, calls=10_000).open() as opened:
        yield opened


@pytest.mark.parametrize(("asked", "instead"), REFUSED, ids=str)
@pytest.mark.parametrize("method", ["ask", "estimate"])
def test_the_way_out_can_be_sent(session: Session, method: str, asked: Any, instead: Any) -> None:
    with pytest.raises(Refused) as refused:
        getattr(session, method)(asked, analyst="anna")
    offered = refused.value.instead
    assert offered[0] == ({"sql": instead} if isinstance(instead, str) else instead)
    assert len(offered) <= 2
    for each in offered:
        assert session.ask(each, analyst="anna").rows is not None


@pytest.mark.parametrize(
    "asked",
    [
        "SELECT colour, members FROM engagements GROUP BY colour",
        "SELECT AVG(n) FROM engagements",
        "SELECT article, members FROM engagements JOIN other USING (article)",
        {"type": "total", "table": "engagements", "measure": "members", "by": "region"},
        {"type": "histogram", "table": "engagements", "measure": "members"},
        {"type": "total", "table": "zebra", "measure": "members"},
        {**TOP, "k": 0},
        {**TOP, "k": "ten"},
        {},
        {"sql": 7},
        7,
        None,
    ],
    ids=str,
)
def test_where_there_is_none_there_is_none(session: Session, asked: Any) -> None:
    with pytest.raises(Refused) as refused:
        session.ask(asked, analyst="anna")
    assert getattr(refused.value, "instead", ()) == ()


def test_nothing_is_charged_for_a_way_out(tmp_path: Path) -> None:
    world = new_world(tmp_path / "world")
    with world.open() as session:
        before = world.tables()
        for asked, _ in REFUSED:
            with pytest.raises(Refused):
                session.ask(asked, analyst="anna")
        assert world.tables() == before
        assert session.budget("anna").accounts[0].spent == NOTHING


def test_names_that_an_analyst_may_not_use_are_never_offered(tmp_path: Path) -> None:
    world = new_world(tmp_path / "world")
    text = world.path.read_text()
    world.path.write_text(text.replace("[analysts.anna]\n", "[analysts.anna]\ntables = []\n"))
    with world.open() as session:
        for asked, _ in REFUSED:
            with pytest.raises(Refused) as refused:
                session.ask(asked, analyst="anna")
            assert refused.value.instead == ()


def test_it_travels(session: Session) -> None:
    """As the `try` of a problem, to the exception that a client raises; and through pickle."""
    for asked, kind in ((REFUSED[0][0], NotSupported), ({**TOP, "table": "engagement"}, TableNotFound)):
        with pytest.raises(kind) as refused:
            session.ask(asked, analyst="anna")
        serial = problem(refused.value).to_dict()
        assert serial["try"] == [*refused.value.instead]
        found = read_problem(serial)
        assert (type(found), str(found), found.instead) == (kind, str(refused.value), refused.value.instead)
    copied = pickle.loads(pickle.dumps(NotSupported("x", "k", longest=3, at=(1, 2), instead=[{"k": 3}])))  # noqa: S301
    assert (copied.longest, copied.at, copied.instead, str(copied)) == (3, (1, 2), ({"k": 3},), "k: x")


def test_a_place_in_sql_travels(session: Session) -> None:
    with pytest.raises(NotSupported) as refused:
        session.ask("SELECT article\n FROM engagements WHERE (region", analyst="anna")
    serial = problem(refused.value).to_dict()
    assert (serial["line"], serial["column"]) == refused.value.at
    assert read_problem(serial).at == refused.value.at
