"""Days compared with moments: the same days, or a refusal."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import NotSupported
from sfumato.query.filters import canonical_filter, compare
from sfumato.query.policy import Column
from sfumato.query.predicate import In
from sfumato.query.sql import read_sql
from tests.helpers.engagements import ENGAGEMENTS

DAY = Column("day", "date")
HOLDS = {
    "lt": lambda day, moment: day < moment,
    "le": lambda day, moment: day <= moment,
    "gt": lambda day, moment: day > moment,
    "ge": lambda day, moment: day >= moment,
}
moments = st.datetimes(datetime(2026, 11, 1), datetime(2026, 11, 5)) | st.dates(
    date(2026, 11, 1), date(2026, 11, 5)
).map(lambda day: datetime.combine(day, time()))


def days(found) -> set[date]:
    assert isinstance(found, In)
    every = (date(2026, 10, 30) + timedelta(days=place) for place in range(10))
    return {day for day in every if day in found.values}


def truth(operator, moment) -> set[date]:
    every = (date(2026, 10, 30) + timedelta(days=place) for place in range(10))
    return {day for day in every if HOLDS[operator](datetime.combine(day, time()), moment)}


@given(operator=st.sampled_from([*HOLDS]), moment=moments, as_text=st.booleans())
def test_a_day_is_its_midnight(operator, moment, as_text):
    raw = moment.isoformat(" ") if as_text else moment
    assert days(compare(DAY, operator, raw)) == truth(operator, moment)


@given(low=moments, high=moments)
def test_between_takes_the_days_between_two_moments(low, high):
    found = compare(DAY, "between", [low, high])
    assert days(found) == truth("ge", low) & truth("le", high)


@pytest.mark.parametrize("operator", ["eq", "ne"])
def test_equality_needs_a_midnight(operator):
    plain = compare(DAY, operator, "2026-11-01")
    for midnight in ("2026-11-01 00:00:00", "2026-11-01T00:00:00.000Z", datetime(2026, 11, 1, tzinfo=UTC)):
        assert compare(DAY, operator, midnight) == plain
    for other in ("2026-11-01 00:00:01", datetime(2026, 11, 1, 0, 0, 0, 1)):
        with pytest.raises(NotSupported, match="compare it with a day"):
            compare(DAY, operator, other)


def test_the_last_moment_there_is():
    assert days(compare(DAY, "le", datetime.max)) == days(compare(DAY, "ge", datetime.min))
    assert days(compare(DAY, "gt", datetime.max)) == set()


def test_a_column_of_moments_keeps_its_times():
    at = Column("at", "timestamp")
    assert compare(at, "lt", "2026-11-01 12:00:00") != compare(at, "le", "2026-11-01")


def test_json_and_parameters_mean_the_same(policy):
    asked = read_sql("SELECT members FROM engagements WHERE day >= TIMESTAMP '2026-11-01 00:00:00'", policy)
    plain = canonical_filter({"day": {"ge": "2026-11-01"}}, ENGAGEMENTS)
    assert canonical_filter(asked.where, ENGAGEMENTS) == plain
    assert canonical_filter({"day": {"ge": datetime(2026, 11, 1)}}, ENGAGEMENTS) == plain
