"""Questions to a report: what is refused, in which words, before anything is sealed; and what the answers promise."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sfumato.reports.plan
from sfumato.errors import NotFound, NotSupported, Refused, SfumatoError
from sfumato.ledger.cells import Seals
from sfumato.query.reports.calendar import Calendar
from sfumato.query.reports.policy import ReportGuarantee, guarantee
from sfumato.session import Session
from tests.helpers.adverts import NOW, Adverts, ask, events, hierarchy, lasting, new_adverts, tree

pytestmark = pytest.mark.slow  # a session for each

A0 = {"account": "a0"}
TENANTS = """
[analysts.anna]
budget = "small"
entities = { account = ["a0"] }
[analysts.ben]
budget = "small"
entities = { account = ["a1"], creative = ["n0"] }
[analysts.nobody]
budget = "small"
entities = {}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("questions")
    Adverts(folder).write_rows(*hierarchy(1), *events(1))
    return folder


@pytest.fixture
def world(place, tmp_path) -> Adverts:
    world = Adverts(tmp_path / "world")
    world.database = place / "rows.duckdb"
    world.write_key()
    world.write_config(others=TENANTS, levels='["3h", "day", "month"]', zone="Europe/Berlin")
    return world


@pytest.fixture
def session(world):
    with world.open() as session:
        yield session


def refusal(session: Session, analyst: str = "own", **question: Any) -> str:
    """The words of a refusal that sealed nothing."""
    before = Seals(session.ledger).standing("ads")
    journal = session.ledger.verify()
    with pytest.raises(Refused) as error:
        ask(session, analyst, **{"entity": A0, **question})
    assert Seals(session.ledger).standing("ads") == before
    assert session.ledger.verify() == journal == []
    return str(error.value)


def sealed(world: Adverts) -> list[tuple[Any, ...]]:
    return world.tables()["seals"]


BORDERS = "start and end: must lie on the borders of a 3h in Europe/Berlin; the nearest are"

# (the question, the words)
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"statistics": "clik"}, "statistics: ads has no statistic 'clik'; did you mean clicks?"),
    ({"statistics": "sales"}, "statistics: ads has no statistic 'sales'; there is impressions, clicks, conversions"),
    ({"statistics": []}, "statistics: is missing; it lists one or more of impressions, clicks, conversions"),
    ({"statistics": None}, "statistics: is missing; it lists one or more of impressions, clicks, conversions"),
    (
        {"statistics": [7]},
        "statistics: ads has no statistic that is int and not text; there is impressions, clicks, conversions",
    ),
    ({"statistics": [None]}, "statistics: ads has no statistic ''; there is impressions, clicks, conversions"),
    ({"attribute": "titel"}, "attribute: ads has no attribute 'titel'; did you mean title?"),
    (
        {"attribute": ["title"]},
        "attribute: ads has no attribute that is list and not text; there is title, size, skills",
    ),
    ({"granularity": "dya"}, "granularity: there is no level 'dya'; did you mean day?"),
    ({"granularity": "year"}, "granularity: there is no level 'year'; there is all, 3h, day, month"),
    ({"options": ["trees"]}, "options: there is no option 'trees'; did you mean tree?"),
    ({"options": 7}, "options: must be a list of some of monotone, totals, tree, actions, calendar"),
    ({"options": [None]}, "options: there is no option ''; there is monotone, totals, tree, actions, calendar"),
    ({"entity": None}, "entity: must name one of account, campaign, creative, such as account '7'"),
    ({"entity": {}}, "entity: must name one of account, campaign, creative, such as account '7'"),
    (
        {"entity": {"acount": "a0"}},
        "entity: must name one of account, campaign, creative, such as account '7'; did you mean account?",
    ),
    ({"entity": {"account": True}}, "entity: must name one of account, campaign, creative, such as account '7'"),
    ({"entity": {"account": None}}, "entity: must name one of account, campaign, creative, such as account '7'"),
    ({"entity": "a0"}, "entity: must be an object that names an entity by its level, such as {'campaign': '7'}"),
    ({"entity": {"account": "a9"}}, "there is no account 'a9' that you may ask about"),
    ({"entity": {"account": "a1", "campaign": "a0c0"}}, "there is no campaign 'a0c0' that you may ask about"),
    ({"end": "2026-01-09"}, "end: comes before start; the range begins with start and ends before end"),
    ({"end": "2026-01-10"}, "end: is the same as start, so the range is empty; for that one day, end is 2026-01-11"),
    (
        {"start": "2026-01-10 03:00", "end": "2026-01-10 03:00"},
        "end: is the same as start, so the range is empty; the earliest end is 2026-01-10 06:00",
    ),
    (
        {"start": "2026-01-10 04:00", "end": "2026-01-10 04:00"},
        "end: is the same as start, so the range is empty; the earliest end is 2026-01-10 06:00",
    ),
    (
        {"start": "9998-12-31", "end": "9998-12-31"},
        "end: is the same as start, so the range is empty; for that one day, end is 9999-01-01",
    ),
    (
        {"options": ["actions,tree"]},
        "options: give each once, and not several in one text; there is monotone, totals, tree, actions, calendar",
    ),
    (
        {"options": "actions, tree"},
        "options: give each once, and not several in one text; there is monotone, totals, tree, actions, calendar",
    ),
    (
        {"statistics": ["clicks,impressions"]},
        "statistics: give each once, and not several in one text; there is impressions, clicks, conversions",
    ),
    ({"start": None}, "start: is missing; it is a day or a moment, such as '2026-10-01'"),
    ({"end": None}, "end: is missing; it is a day or a moment, such as '2026-10-01'"),
    (
        {"start": "2026-01-10 01:00"},
        f"{BORDERS} 2026-01-10 00:00 to 2026-01-22 00:00 "
        "or 2026-01-10 03:00 to 2026-01-22 00:00",
    ),
    (
        {"start": "2026-01-10 01:00", "end": "2026-01-10 02:00"},
        f"{BORDERS} 2026-01-10 00:00 to 2026-01-10 03:00 "
        "or 2026-01-09 21:00 to 2026-01-10 03:00",
    ),
    (  # 00:00 in Berlin, and not in UTC
        {"start": datetime(2026, 1, 10, tzinfo=UTC)},
        f"{BORDERS} 2026-01-10 00:00 to 2026-01-22 00:00 "
        "or 2026-01-10 03:00 to 2026-01-22 00:00",
    ),
    (  # the hour from 02:00 comes twice: that of its second time is within the epoch
        {"start": "2025-10-26T02:00:00+01:00"},
        f"{BORDERS} 2025-10-26 03:00 to 2026-01-22 00:00 "
        "or 2025-10-26 00:00 to 2026-01-22 00:00",
    ),
    (
        {"start": "2026-02-01", "end": "2026-02-02"},
        "start: nothing of this range is complete yet; the last complete epoch ends at 2026-02-01 00:00",
    ),
    (
        {"start": "2027-01-01", "end": "2027-02-01"},
        "start: nothing of this range is complete yet; the last complete epoch ends at 2026-02-01 00:00",
    ),
    ({"top": 3}, "top: needs an attribute, whose values it ranks; leave it out for a total"),
    ({"top": 0, "attribute": "title"}, "top: must be a whole number, at least 1"),
    ({"top": -1, "attribute": "title"}, "top: must be a whole number, at least 1"),
    ({"top": True, "attribute": "title"}, "top: must be a whole number, at least 1"),
    ({"top": 2.0, "attribute": "title"}, "top: must be a whole number, at least 1"),
]  # fmt: skip


def test_an_empty_range_of_months_is_told_by_the_next_border(world):
    world.write_config(levels='["month", "year"]')
    with world.open() as session:
        words = refusal(session, start="2026-01-01", end="2026-01-01")
    assert words == "end: is the same as start, so the range is empty; the earliest end is 2026-02-01 00:00"


def test_a_report_is_no_table(world):
    with world.open() as session, pytest.raises(NotSupported) as error:
        session.ask("SELECT COUNT(DISTINCT member) FROM ads", analyst="own")
    assert str(error.value) == "ads is a report and no table; ask `sfumato report --report ads` for its numbers"


@pytest.mark.parametrize(("question", "words"), REFUSED, ids=[str(question) for question, _ in REFUSED])
def test_what_is_refused(world, session, question, words):
    assert refusal(session, **question) == words
    assert sealed(world) == []


DAY = "must be a date such as '2026-11-15' or a date-time such as '2026-11-15T09:00', in the report's zone"


@pytest.mark.parametrize("field", ["start", "end"])
@pytest.mark.parametrize(
    ("moment", "words"),
    [
        ("yesterday", DAY),
        ("2026-02-30", "there is no such day: 2026-02-30"),
        ("2026-13-01T09:00", "there is no such day: 2026-13-01T09:00"),
        ("2026-01-10T25:00", "there is no such time: 2026-01-10T25:00"),
        ("", DAY),
        (20260101, DAY),
        ("2026-1-1", DAY),
        ("1899-12-31", "must lie in the years 1900 to 9998"),
        ("9999-12-31", "must lie in the years 1900 to 9998"),
        (date(1, 1, 1), "must lie in the years 1900 to 9998"),
        ("0001-01-01T00:00:00+14:00", "must lie in the years 1900 to 9998"),
    ],
)
def test_moments_that_are_none(world, session, field, moment, words):
    assert refusal(session, **{field: moment}) == f"{field}: {words}"
    assert sealed(world) == []


def test_reports_and_fields_by_name(session):
    def words(question: Any, **more: Any) -> str:
        with pytest.raises(Refused) as error:
            session.report(question, analyst="own", **more)
        return str(error.value)

    assert words("adds") == "report: there is no report 'adds'; did you mean ads?"
    assert words("") == "report: there is no report ''; there is ads"
    assert words({"report": 7}) == "report: there is no report that is int and not text; there is ads"
    assert words({"statistic": "clicks"}) == "statistic: is not a field of a report; did you mean statistics?"
    assert words({1: 2}).startswith("a question to a report is an object")
    assert words({"statistics": "clicks"}, top=3) == "top: stands beside a whole question; put it inside"
    whole = {"statistics": ["clicks"], "entity": A0, "start": "2026-01-10", "end": "2026-01-22"}
    assert session.report(whole, analyst="own").rows == ask(session, entity=A0).rows
    with pytest.raises(NotFound, match="there is no analyst 'ann'; did you mean anna"):
        ask(session, "ann")


def test_a_configuration_without_reports_says_so(world):
    text = world.path.read_text()
    text = text[: text.index("[reports.ads]")] + text[text.index("[budgets.small]") : text.index("[analysts.anna]")]
    measures = '[tables.ads.measures]\nmembers = { count = "units" }\n'
    world.path.write_text(text.replace("[budgets.small]", measures + "[budgets.small]"))
    with world.open() as session, pytest.raises(NotSupported) as error:
        ask(session, entity=A0)
    assert str(error.value) == "report: there is none in the configuration; the owner writes a section [reports.<name>]"


# -- size --


def test_too_many_cells_and_too_many_rows(world, session, monkeypatch):
    monkeypatch.setattr(sfumato.reports.plan, "MAX_CELLS", 100)
    words = refusal(session, attribute="title", granularity="3h")
    assert words.startswith("this rests on more than 100 cells; ask for a shorter range, or without ")
    monkeypatch.setattr(sfumato.reports.plan, "MAX_CELLS", 10**6)
    monkeypatch.setattr(sfumato.reports.plan, "MAX_ROWS", 20)
    words = refusal(session, attribute="title", granularity="day")
    assert words == "granularity: this gives more than 20 rows; take a coarser one, or a top"
    assert sealed(world) == []
    assert len(ask(session, entity=A0, attribute="title", granularity="day", top=1).rows) <= 20


@pytest.mark.parametrize(
    ("granularity", "options"),
    [("1h", []), ("1h", ["monotone"]), ("all", ["monotone"]), ("all", ["tree", "totals", "monotone", "actions"])],
)
def test_a_question_that_is_far_too_large_is_refused_soon(world, options, granularity):
    """Before the ranges of a hundred years are worked out one by one."""
    world.write_config(levels='["1h", "day"]')
    with world.open() as session:
        begun = datetime.now(UTC)
        refusal(session, start="1900-01-01", granularity=granularity, options=options)
        assert datetime.now(UTC) - begun < timedelta(seconds=3)
    assert sealed(world) == []


# -- whose --


def test_what_is_anothers_looks_like_what_is_not_there(world, session):
    own = ask(session, "anna", entity=A0)
    assert own.rows == ask(session, entity=A0).rows
    before = sealed(world)
    foreign = (
        {"account": "a1"},
        {"campaign": "a1c0"},
        {"account": "a1", "campaign": "a1c0"},
        {"account": "a0", "campaign": "a1c0"},
    )
    for entity in foreign:
        words = refusal(session, "anna", entity=entity)
        level, name = list(entity.items())[-1]
        absent = refusal(session, "anna", entity={**entity, level: "zzzz"})
        assert words == absent.replace("zzzz", name) == f"there is no {level} {name!r} that you may ask about"
        for more in ({"options": ["tree"]}, {"start": "2030-01-01", "end": "2030-01-02"}, {"attribute": "title"}):
            assert refusal(session, "anna", entity=entity, **more) == words
    assert sealed(world) == before


def test_who_may_see_one_may_see_what_is_below(session):
    paths = tree(1)
    for account, campaign, creative in paths:
        for entity in ({"account": account}, {"campaign": campaign}, {"creative": creative}):
            mine = {
                "anna": account == "a0",
                "ben": account == "a1" or entity == {"creative": "n0"},
                "nobody": False,
                "own": True,
            }
            for analyst, may in mine.items():
                if may:
                    assert ask(session, analyst, entity=entity).rows == ask(session, entity=entity).rows
                else:
                    assert "that you may ask about" in refusal(session, analyst, entity=entity)


def test_a_tenant_does_not_see_everybody(world):
    more = '[reports.all]\ntable = "ads"\ntime = "at"\nepsilon = 1\n'
    world.write_config(others=f'{TENANTS}{more}[reports.all.statistics]\nclicks = {{ count = "rows" }}\n')
    with world.open() as session, pytest.raises(Refused):
        session.report("all", analyst="anna", statistics="clicks", start="2026-01-10", end="2026-01-22")


def test_names_that_several_have(tmp_path):
    values = "('a0', 'spring', 'n0'), ('a1', 'spring', 'n1')"
    listed = f"SELECT * FROM (VALUES {values}) AS rows (account, campaign, creative)"
    world = new_adverts(tmp_path, f"CREATE TABLE creatives AS {listed}", *events(1), others=TENANTS)
    with world.open() as session:
        words = refusal(session, entity={"campaign": "spring"})
        assert words == "entity: several are called campaign 'spring'; name its account too"
        hers = ask(session, "anna", entity={"campaign": "spring"})
        assert hers.rows == ask(session, entity={"account": "a0", "campaign": "spring"}).rows


def test_without_a_table_the_whole_path_is_named(tmp_path):
    world = new_adverts(
        tmp_path,
        "CREATE TABLE creatives AS SELECT 1 AS one",
        *events(1),
        "ALTER TABLE ads ADD COLUMN account VARCHAR DEFAULT 'a0'",
        "ALTER TABLE ads ADD COLUMN campaign VARCHAR DEFAULT 'c0'",
        entities='["account", "campaign"]',
        others=TENANTS.split("[analysts.ben]")[0],
    )
    with world.open() as session:
        words = "entity: name its account too; no table of entities says which that is"
        assert refusal(session, entity={"campaign": "c0"}) == words
        assert refusal(session, "anna", entity={"campaign": "c0"}) == words
        assert refusal(session, options=["tree"]) == (
            "options: tree needs a table of entities, which says whose children there are"
        )
        ask(session, entity={"account": "a0", "campaign": "c0"})
        ask(session, "anna", entity={"account": "a0", "campaign": "never was"})
        assert refusal(session, "anna", entity={"account": "a1", "campaign": "c0"}).startswith("there is no campaign")


@pytest.mark.parametrize("name", ["\ud800", "a\0b", "x" * 1001])
def test_a_name_that_is_no_text_is_refused(tmp_path, name):
    """And not told as a failure of the engine."""
    world = new_adverts(
        tmp_path, *hierarchy(1), *events(1), "ALTER TABLE ads ADD COLUMN account VARCHAR", entities='["account"]'
    )
    with world.open() as session:
        assert refusal(session, entity={"account": name})
    assert sealed(world) == []


def test_entities_that_appear_later_are_found_within_the_minute(tmp_path):
    """A file, since an open database is not changed by others."""
    (tmp_path / "rows").mkdir()

    def write(rows: list[tuple[str, str, str]]) -> None:
        values = ", ".join(map(str, rows))
        to = tmp_path / "creatives.parquet"
        select = f"SELECT * FROM (VALUES {values}) AS rows (account, campaign, creative)"
        duckdb.sql(f"COPY ({select}) TO '{to}'")

    write([("a0", "c0", "n0")])
    now = [NOW]
    world = new_adverts(
        tmp_path, entities='{ levels = ["account", "campaign", "creative"], table = "creatives.parquet" }'
    )
    with world.open(lambda: now[0]) as session:
        ask(session, entity=A0)
        write([("a0", "c0", "n0"), ("a1", "c1", "n1")])
        assert refusal(session, entity={"account": "a1"}) == "there is no account 'a1' that you may ask about"
        now[0] += timedelta(seconds=60)
        assert ask(session, entity={"account": "a1"}).rows
        now[0] -= timedelta(hours=2)  # a clock that was put right
        assert ask(session, entity={"account": "a1"}).rows


# -- ranges --


def test_a_range_that_ends_later_is_cut_and_says_so(world, session):
    whole = ask(session, entity=A0, start="2026-01-30", end="2026-03-01", granularity="day")
    assert "the range ends at 2026-02-01 00:00: what comes after is not complete yet" in map(str, whole.notes)
    assert [row["end"] for row in whole.rows] == [datetime(2026, 1, 31), datetime(2026, 2, 1)]
    exact = ask(session, entity=A0, start="2026-01-30", end="2026-02-01", granularity="day")
    assert exact.rows == whole.rows
    assert not exact.has_note("incomplete")


def test_an_epoch_counts_when_its_lag_is_over(world):
    world.write_config(levels='["3h", "day"]', report='lag = "2h"')
    now = [NOW + timedelta(hours=4, minutes=59)]
    with world.open(lambda: now[0]) as session:
        range_ = {"start": "2026-02-01", "end": "2026-02-01 03:00"}
        assert "nothing of this range is complete" in refusal(session, **range_)
        now[0] += timedelta(minutes=1)
        assert len(ask(session, entity=A0, **range_).rows) == 1
    assert len(sealed(world)) == 1


def test_the_range_of_the_paper_seals_five_cells(world):
    world.write_config(levels='["3h", "day", "month", "quarter", "year"]', zone="America/Los_Angeles")
    with world.open() as session:
        found = ask(session, entity=A0, start="2025-03-31 21:00", end="2025-08-02 03:00", attribute="title")
        assert Seals(session.ledger).standing("ads") == (5, 1)
        assert ask(session, entity=A0, start="2025-07-01", end="2025-08-01").receipt.repeat is False  # a total
        assert ask(session, entity=A0, start="2025-07-01", end="2025-08-01", attribute="title").receipt.repeat
    assert sorted(row[5] for row in world.tables()["places"] if row[4] == "title") == [
        "3h",
        "3h",
        "day",
        "month",
        "quarter",
    ]
    assert found.receipt.repeat is False


@pytest.mark.parametrize(
    ("start", "end", "steps"),
    [("2025-03-29", "2025-04-01", [24, 23, 24]), ("2025-10-25", "2025-10-28", [24, 25, 24])],
)
def test_days_on_which_clocks_change(session, start, end, steps):
    found = ask(session, entity=A0, start=start, end=end, granularity="day")
    calendar = Calendar(("day",), "Europe/Berlin")
    lengths = [calendar.instant("end", row["end"]) - calendar.instant("start", row["start"]) for row in found.rows]
    assert lengths == [timedelta(hours=hours) for hours in steps]


def test_a_level_goes_by_the_name_that_the_owner_wrote(world):
    world.write_config(levels='["hour", "day"]')
    with world.open() as session:
        end = "2026-01-10 03:00"
        found = ask(session, entity=A0, end=end, granularity="hour")
        assert found.rows == ask(session, entity=A0, end=end, granularity="1h").rows


def test_one_question_in_several_spellings_is_one(session):
    first = lasting(ask(session, entity=A0))
    spellings: list[dict[str, Any]] = [
        {"start": date(2026, 1, 10)},
        {"start": datetime(2026, 1, 10)},
        {"start": "2026-01-10T00:00:00"},
        {"start": "2026-01-09T23:00:00Z"},
        {"statistics": ["clicks", "clicks"]},
        {"granularity": "all"},
        {"options": []},
    ]
    for spelling in spellings:
        assert lasting(ask(session, entity=A0, **spelling)) == first
    assert lasting(ask(session, entity=A0, options=["tree", "totals"])) == lasting(
        ask(session, entity=A0, options=("totals", "tree", "tree"))
    )


# -- the guarantee --


def promised(world: Adverts, **config: Any) -> tuple[ReportGuarantee, dict[str, Any], tuple[str, ...]]:
    world.write_config(**config)
    world.forget()
    with world.open() as session:
        found = ask(session, entity=A0, statistics="clicks")
        return guarantee(session._reports.policies["ads"]), found.receipt.guarantee or {}, tuple(found.notes)


SIX = "\n" + "\n".join(f'{name} = {{ domain = ["a"] }}' for name in ("title", "size", "kind", "u", "v", "w"))
PAPER: dict[str, Any] = {
    "attributes": SIX,
    "entities": '["account", "campaign"]',
    "levels": '["3h", "day", "month"]',
}
KNOWN = 'exact_totals = "known to the advertiser"\n'


@pytest.fixture
def paper(tmp_path) -> Adverts:
    more = [f"ALTER TABLE ads ADD COLUMN {name} VARCHAR" for name in ("account", "campaign", "u", "v", "w")]
    return new_adverts(tmp_path, *hierarchy(1), *events(1), *more, "ALTER TABLE ads ADD COLUMN n INTEGER", **PAPER)


def test_the_sums_of_the_paper(paper):
    found, told, notes = promised(paper, **PAPER, report=KNOWN)
    assert (found.epsilon, told) == (36, {"epsilon": 36.0, "unit": "event", "totals": "exact"})
    assert "exact-totals" in [note.code for note in notes]
    found, told, notes = promised(paper, **PAPER)
    assert (found.epsilon, told) == (42, {"epsilon": 42.0, "unit": "event"})
    assert notes[0].code == "event-level"


@pytest.mark.parametrize(
    ("config", "epsilon", "unit"),
    [
        ({"report": "max_versions = 3"}, 3 * 42, "event"),
        ({"report": "max_events_per_unit = 10"}, 10 * 42, "person"),
        ({"report": f"{KNOWN}max_events_per_unit = 10\nmax_versions = 2"}, 2 * 10 * 36, "person"),
        ({"epsilon": "0.1"}, Fraction(42, 10), "event"),
        ({"epsilon": '{ "3h" = 0.5, day = 1, month = 2 }'}, 7 * 2 * Fraction(7, 2), "event"),
        ({"attributes": SIX + '\nskills = { domain = ["sql"], max_values = 3 }'}, 3 * 2 * 10, "event"),
        ({"entities": "[]"}, 3 * 7, "event"),
        # filters that can hold at once are met by one event
        ({"statistics": '\nclicks = { count = "rows" }\nlikes = { count = "rows" }'}, 2 * 42, "event"),
        ({"statistics": '\nclicks = { count = "rows" }\nlikes = { count = "rows", where = { n = 1 } }'}, 84, "event"),
        (
            {"statistics": '\nclicks = { count = "rows", epsilon = 1, where = { kind = "x" } }\n'
             'likes = { count = "rows", epsilon = 3, where = { not = { kind = "x" } } }'},
            3 * 42,
            "event",
        ),
        ({"statistics": '\nclicks = { sum = "n" }\nlikes = { sum = "member", epsilon = 2 }'}, 2 * 42, "event"),
        ({"statistics": '\nclicks = { sum = "n" }\nlikes = { sum = "n", epsilon = 2 }'}, 3 * 42, "event"),
    ],
)  # fmt: skip
def test_what_a_policy_adds_up_to(paper, config, epsilon, unit):
    without = config.get("entities") == "[]"
    paper.write_config(**{**PAPER, **config})
    with paper.open() as session:
        found = ask(session, statistics="clicks", **({} if without else {"entity": A0}))
        assert guarantee(session._reports.policies["ads"]).epsilon == epsilon
        exact = {"totals": "exact"} if "exact_totals" in config.get("report", "") else {}
        assert found.receipt.guarantee == {"epsilon": float(epsilon), "unit": unit, **exact}
        assert found.receipt.unit == ("member" if unit == "person" else "event")


def test_reports_debit_nobody(session):
    before = session.budget("own").accounts[0]
    found = ask(session, entity=A0, attribute="title", granularity="day", options=["tree", "totals"])
    assert not found.receipt.charge
    assert session.budget("own").accounts[0] == before
    assert session.charges("own").rows == []


# -- definitions --


def test_another_definition_is_another_release(paper):
    with paper.open() as session:
        ask(session, entity=A0)
    changes: list[dict[str, Any]] = [
        {"epsilon": "2"},
        {"zone": "Europe/Berlin"},
        {"report": "max_events_per_unit = 5"},
        {"report": KNOWN},
        {"statistics": '\nclicks = { count = "rows" }'},
    ]
    for change in changes:
        paper.write_config(**{**PAPER, **change})
        with paper.open() as session:
            end = "2026-01-11" if "zone" in change else "2026-01-22"
            if "zone" in change:
                continue  # other instants, other places
            words = refusal(session, end=end)
            assert "was sealed under another definition" in words
            assert "raise max_versions of reports.ads above 1" in words
    paper.write_config(**PAPER, report="min_count = 3\nlag = '2h'\noptions = ['actions']")
    with paper.open() as session:
        assert ask(session, entity=A0, options=[]).receipt.repeat


def test_an_entity_of_another_level_is_another_entity(paper):
    """Otherwise account 1's numbers are shown as those of shop 1."""
    paper.write_config(**{**PAPER, "entities": '["account"]'})
    with paper.open() as session:
        ask(session, entity={"account": "1"})
    paper.write_config(**{**PAPER, "entities": '["campaign"]'})
    with paper.open() as session:
        try:
            assert not ask(session, entity={"campaign": "1"}).receipt.repeat
        except SfumatoError as error:
            assert "another definition" in str(error)  # noqa: PT017


def test_with_a_cap_other_statistics_are_part_of_the_definition(paper):
    """Which events of a person are her first follows from all of them."""
    cap = {**PAPER, "report": "max_events_per_unit = 2"}
    paper.write_config(**cap)
    with paper.open() as session:
        ask(session, entity=A0, end="2026-01-12")
    paper.write_config(**cap, statistics='\nclicks = { count = "rows", where = { kind = "click" } }')
    with paper.open() as session:
        assert "was sealed under another definition" in refusal(session, end="2026-01-12")
