"""The option `calendar`: least squares over ranges of time, from stored cells."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.errors import ConfigError, NotSupported
from sfumato.ledger.cells import Seals
from sfumato.query.reports.calendar import Span
from sfumato.query.reports.timetrees import time_trees
from sfumato.reports.cells import Block
from sfumato.session import Session
from sfumato.wire import Report
from tests.helpers.adverts import TITLES, Adverts, added, ask, events, hierarchy, lasting, new_adverts

pytestmark = pytest.mark.slow  # large trees

JANUARY, FEBRUARY, MARCH = (datetime(2026, month, 20, tzinfo=UTC) for month in (1, 2, 3))
RANGE = {"start": "2026-01-12", "end": "2026-01-18"}
TWO = '["day", "month"]'


@pytest.fixture
def world(tmp_path: Path) -> Adverts:
    return new_adverts(tmp_path, *rows(), levels=TWO, epsilon="{ day = 0.5, month = 0.25 }")


def rows() -> list[str]:
    return [*hierarchy(1), *events(1, count=3000)]


def codes(report: Report) -> list[str]:
    return [note.code for note in report.notes]


def weighed(session: Session, **question: Any) -> Report:
    return ask(session, entity={"account": "a0"}, options=["calendar"], **{**RANGE, **question})


def stored(session: Session, path: Sequence[str], spans: Sequence[Span], attribute: str | None) -> np.ndarray:
    """Ranges x values: the cells as they are stored."""
    policy = session._reports.policies["ads"]
    found = Seals(session.ledger).read(Block(policy, attribute, ("clicks",), (tuple(path),), tuple(spans)).places)
    by_value = [added([seal]) for seal in found.values()]
    values = [json.dumps(title) for title in TITLES] if attribute else [""]
    return np.array([[each[value] for value in values] for each in by_value])


def design(spans: Sequence[Span]) -> np.ndarray:
    """Ranges x days: which days a range has."""
    days = [span for span in spans if span.level == "day"]
    return np.array([[span.start <= day.start < span.end for day in days] for span in spans], float)


def variances(session: Session, spans: Sequence[Span]) -> np.ndarray:
    epsilon = session._reports.policies["ads"].statistics["clicks"].epsilon
    return np.array([1 / (2 * np.sinh(float(epsilon[span.level]) / 2) ** 2) for span in spans])


def best_days(sums: np.ndarray, spreads: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """The best linear unbiased estimate of every day, by the whole normal equations."""
    weighted = sums / spreads[:, None]
    return np.linalg.solve(weighted.T @ sums, weighted.T @ measured)


def is_rounded(shown: object, estimate: float) -> bool:
    """Whether `shown` is the nearest whole number; both are where two orders of addition leave a half."""
    return isinstance(shown, int) and abs(shown - max(estimate, 0)) <= 0.5 + 1e-6


def tree_of(session: Session, start: str, end: str, complete: str) -> list[Span]:
    calendar = session._reports.policies["ads"].calendar
    trees = time_trees(calendar, *(calendar.instant("at", text) for text in (start, end, complete)))
    return [span for tree in trees for span in tree.spans]


@pytest.mark.parametrize("attribute", [None, "title"])
def test_a_number_is_the_best_linear_estimate_from_the_stored_cells_of_its_month(world, attribute):
    with world.open(FEBRUARY) as session:
        report = weighed(session, attribute=attribute)
        spans = tree_of(session, "2026-01-12", "2026-01-18", "2026-02-01")
        assert len(spans) == 32
        days = best_days(design(spans), variances(session, spans), stored(session, ["a0"], spans, attribute))
        expected = dict(zip(TITLES if attribute else [None], days[11:17].sum(axis=0), strict=True))
        shown = {row.get("title"): row["clicks"] for row in report.rows}
        assert shown.keys() == expected.keys()
        assert all(is_rounded(shown[title], estimate) for title, estimate in expected.items())


def test_a_family_of_entities_is_weighed_in_time_and_in_the_tree_at_once(world):
    """The joint least squares over all cells of all entities and ranges, by the whole normal equations."""
    with world.open(FEBRUARY) as session:
        report = ask(session, entity={"account": "a0"}, options=["calendar", "tree"], **RANGE)
        entities = session._reports.entities(session._reports.policies["ads"], FEBRUARY)
        family = entities.family(("a0",), 0, whole=True)
        spans = tree_of(session, "2026-01-12", "2026-01-18", "2026-02-01")
        leaves = [path for path in family.paths if len(path) == 3]
        below = np.array([[leaf[: len(path)] == path for leaf in leaves] for path in family.paths], float)
        measured = np.concatenate([stored(session, path, spans, None)[:, 0] for path in family.paths])
        spreads = np.tile(variances(session, spans), len(family.paths))
        found = best_days(np.kron(below, design(spans)), spreads, measured).reshape(len(leaves), -1)
        assert is_rounded(report.rows[0]["clicks"], found[:, 11:17].sum())


def test_a_number_changes_once_when_its_month_is_complete_and_says_so(world):
    """The number itself may stay the same by chance; what it is made of changes, and its error is smaller."""
    with world.open(JANUARY) as session:
        plain, first = ask(session, entity={"account": "a0"}, options=[], **RANGE), weighed(session)
        assert first.rows == plain.rows
        assert first.receipt.error95 == plain.receipt.error95
        assert "may-change" in codes(first)
        assert "from 2026-01-12 00:00 on" in str(first.notes)
    with world.open(datetime(2026, 2, 1, 0, 59, tzinfo=UTC)) as session:  # the lag is an hour
        assert lasting(weighed(session)) == lasting(first)
    with world.open(FEBRUARY) as session:
        second = weighed(session)
        assert second.receipt.error95["clicks"] < first.receipt.error95["clicks"]
        assert second.receipt.digest != first.receipt.digest
        assert "may-change" not in codes(second)
        assert ask(session, entity={"account": "a0"}, options=[], **RANGE).rows == plain.rows
    with world.open(MARCH) as session:
        assert lasting(weighed(session)) == lasting(second)


def test_of_three_levels_a_number_is_open_until_the_longest_is_complete(tmp_path):
    world = new_adverts(tmp_path, *rows(), levels='["day", "month", "year"]')
    with world.open(FEBRUARY) as session:
        notes = {note.code: note.text for note in weighed(session).notes}
        assert "2026-01-12 00:00" in notes["may-change"]
        assert "(month, year)" in notes["may-change"]


def test_stored_cells_stay_what_they_are(world):
    """The option draws the rest of the month; every cell that was there is still there, and nothing is drawn twice."""
    with world.open(FEBRUARY) as session:
        plain = lasting(ask(session, entity={"account": "a0"}, **RANGE))
        before = world.tables()
        weighed(session)
        after = world.tables()
        for name in ("places", "seals", "cells"):
            assert {*before[name]} <= {*after[name]}
        assert lasting(ask(session, entity={"account": "a0"}, **RANGE)) == plain
        assert weighed(session).receipt.repeat
        assert session.ledger.verify() == []


def test_a_moment_is_in_one_sealed_range_of_each_level(world):
    """What the guarantee counts: whatever is asked with the option, an event is in one cell of each level."""
    with world.open(FEBRUARY) as session:
        for start, end in [("2026-01-12", "2026-01-18"), ("2025-12-30", "2026-02-03"), ("2026-02-03", "2026-02-05")]:
            weighed(session, start=start, end=end, attribute="title")
            weighed(session, start=start, end=end, granularity="day")
        places = [row[1:] for row in world.tables()["places"]]
        assert len({*places}) == len(places)
        for attribute in ("", "title"):
            for level in ("day", "month"):
                ranges = sorted(row[5:7] for row in places if (row[3], row[4]) == (attribute, level))
                assert all(first[1] <= then[0] for first, then in pairwise(ranges))
        assert {row[4] for row in places} == {"day", "month"}


# -- rows that come late, or go --


def test_a_month_that_saw_other_rows_stands_alone(world):
    """The days are sealed, then all rows are deleted, and then the month is sealed."""
    world.write_rows(*hierarchy(1), *events(1, count=10_000))
    month: dict[str, Any] = {"start": "2026-01-01", "end": "2026-01-31", "statistics": "impressions"}
    with world.open(datetime(2026, 2, 1, tzinfo=UTC)) as session:
        first = weighed(session, granularity="day", **month)
    world.write_rows(*hierarchy(1), *events(1, count=0))
    with world.open(FEBRUARY) as session:
        then = weighed(session, granularity="day", **month)
        assert then.rows == first.rows
        assert then.receipt.error95 == first.receipt.error95
        assert "other-rows" in codes(then)
        month["end"] = "2026-02-01"
        assert weighed(session, **month).rows == ask(session, entity={"account": "a0"}, **month).rows


def test_a_range_that_is_sealed_again_is_weighed_again(world):
    world.write_config(levels=TWO, report="max_versions = 2")
    with world.open(FEBRUARY) as session:
        weighed(session)
    world.write_rows(*hierarchy(1), *events(1, count=6000))
    with world.open(FEBRUARY) as session:
        session.reseal("ads", start="2026-01-01", end="2026-02-01", entity=None)
        again = weighed(session)
        assert "other-rows" not in codes(again)
        spans = tree_of(session, "2026-01-12", "2026-01-18", "2026-02-01")
        days = best_days(design(spans), variances(session, spans), stored(session, ["a0"], spans, None))
        assert is_rounded(again.rows[0]["clicks"], days[11:17].sum())


# -- with other options and settings --


def test_it_goes_with_actions_and_totals(world):
    with world.open(FEBRUARY) as session:
        terms: dict[str, Any] = {"statistics": ["impressions", "clicks", "conversions"], **RANGE}
        total = ask(session, entity={"account": "a0"}, options=["calendar", "actions", "totals"], **terms)
        parts = ask(
            session, entity={"account": "a0"}, options=["calendar", "actions", "totals"], attribute="title", **terms
        )
        shown = total.rows[0]
        assert shown["impressions"] >= shown["clicks"] >= shown["conversions"] >= 0
        assert shown["clicks"] >= sum(row["clicks"] for row in parts.rows)


def test_it_excludes_monotone(world):
    with world.open(FEBRUARY) as session, pytest.raises(NotSupported) as refused:
        ask(session, entity={"account": "a0"}, options=["calendar", "monotone"])
    assert refused.value.field == "options"
    assert "monotone and calendar exclude each other" in str(refused.value)
    world.write_config(levels=TWO, report='options = ["monotone", "calendar"]')
    with pytest.raises(ConfigError, match=r"reports.ads.options: monotone and calendar exclude each other"):
        world.open(FEBRUARY)


def test_exact_totals_are_not_weighed(tmp_path):
    world = new_adverts(tmp_path, *rows(), levels=TWO, report='exact_totals = "known to the advertiser"')
    with world.open(FEBRUARY) as session:
        report = weighed(session)
        assert report.rows == ask(session, entity={"account": "a0"}, **RANGE).rows
        assert report.receipt.error95 == {"clicks": 0}
        assert {row[5] for row in world.tables()["places"]} == {"day"}


def test_a_policy_has_it_for_all_questions_and_a_question_may_leave_it_out(world):
    world.write_config(levels=TWO, report='options = ["calendar"]')
    with world.open(FEBRUARY) as session:
        assert ask(session, entity={"account": "a0"}, **RANGE).options == ["calendar"]
        assert ask(session, entity={"account": "a0"}, options=[], **RANGE).options == []


def test_a_range_of_too_many_epochs_is_refused_before_it_is_made(tmp_path):
    world = new_adverts(tmp_path, *rows(), levels='["1h", "day", "month"]')
    with world.open(FEBRUARY) as session, pytest.raises(NotSupported, match="20,000 times a 1h"):
        weighed(session, start="2020-01-01", end="2026-01-01")


# -- one epsilon for all levels --


def epsilons(world: Adverts) -> Mapping[str, Any]:
    with world.open(FEBRUARY) as session:
        return session._reports.policies["ads"].statistics["clicks"].epsilon


def test_a_total_is_divided_among_the_levels(world):
    world.write_config(levels=TWO, epsilon="{ total = 2 }")
    assert {level: str(epsilon) for level, epsilon in epsilons(world).items()} == {"day": "13/10", "month": "7/10"}


WRONG = {
    "{ total = 0 }": "reports.ads.epsilon.total: must be above 0 and at most 1000",
    "{ total = 1, day = 1 }": "reports.ads.epsilon.day: ",
    "{ all = 1 }": "reports.ads.epsilon.day: is missing",
}


@pytest.mark.parametrize("epsilon", WRONG)
def test_a_total_that_makes_no_sense_is_refused(world, epsilon):
    world.write_config(levels=TWO, epsilon=epsilon)
    with pytest.raises(ConfigError) as refused:
        world.open(FEBRUARY)
    assert str(refused.value).startswith(WRONG[epsilon])
