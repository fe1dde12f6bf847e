"""The names of data versions: no two versions have one, and each says when the next begins."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.config.settings import Version
from sfumato.query.versions import Rhythm, next_version

MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(9990, 1, 1), timezones=st.just(UTC))
VERSIONS = st.one_of(
    st.sampled_from(get_args(Rhythm)).map(Version),
    st.sampled_from(["fixed", "daily 2026-11-15", "", "v1", " fixed"]).map(lambda value: Version(None, value)),
    st.text().map(lambda value: Version(None, value)),
)


@given(VERSIONS, VERSIONS, MOMENTS)
def test_versions_of_two_kinds_never_have_one_name(one: Version, other: Version, moment: datetime) -> None:
    assert (one.at(moment) == other.at(moment)) == (one == other)


@given(st.sampled_from(get_args(Rhythm)), MOMENTS)
def test_the_next_version_begins_on_the_day_that_is_stated(rhythm: Rhythm, moment: datetime) -> None:
    version = Version(rhythm)
    day = next_version(version.at(moment))
    if rhythm == "fixed":
        assert day is None
        assert version.at(moment) == version.at(moment + timedelta(days=3000))
        return
    assert day is not None
    midnight = datetime.combine(day, datetime.min.time(), UTC)
    if rhythm == "hourly":
        assert version.at(midnight + timedelta(hours=23)) != version.at(moment)
        assert midnight - moment <= timedelta(hours=1)
    else:
        assert version.at(midnight) != version.at(moment)
        assert version.at(midnight - timedelta(microseconds=1)) == version.at(moment)


@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("hourly 2026-11-15T22", date(2026, 11, 15)),
        ("hourly 2026-11-15T23", date(2026, 11, 16)),
        ("daily 2024-02-28", date(2024, 2, 29)),
        ("weekly 2026-12-28", date(2027, 1, 4)),
        ("monthly 2026-12", date(2027, 1, 1)),
        ("daily 9999-12-31", None),
        ("monthly 9999-12", None),
        ("value daily 2026-11-15", None),
        ("fixed", None),
        ("value fixed", None),
        ("seal 1", None),
        ("daily", None),
        ("daily yesterday", None),
        ("", None),
    ],
)
def test_when_it_costs_again(name: str, day: date | None) -> None:
    assert next_version(name) == day
