"""The names of data versions. The clock or the owner makes them, never the rows: a name that did would tell of them.

    hourly 2026-11-15T23 | daily 2026-11-15 | weekly 2026-11-09 | monthly 2026-11 | fixed | value <the owner's text>

No two versions have one name: the first word says which kind it is, and `fixed` stands alone.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Literal, TypeAlias

Rhythm: TypeAlias = Literal["hourly", "daily", "weekly", "monthly", "fixed"]

_FORMS = {"hourly": "%Y-%m-%dT%H", "daily": "%Y-%m-%d", "weekly": "%Y-%m-%d", "monthly": "%Y-%m"}


def version_name(rhythm: Rhythm, utc: datetime) -> str:
    """The version in force at a moment in UTC. Weeks start on Monday."""
    if rhythm == "fixed":
        return rhythm
    if rhythm == "weekly":
        utc -= timedelta(days=utc.weekday())
    return f"{rhythm} {utc:{_FORMS[rhythm]}}"


@lru_cache(maxsize=256)  # every answer needs it
def next_version(name: str) -> date | None:
    """The day (UTC) on which the version after this one begins; None if the clock does not end it.

    >>> [str(next_version(name)) for name in ("daily 2026-11-15", "weekly 2026-11-09", "monthly 2026-12", "fixed")]
    ['2026-11-16', '2026-11-16', '2027-01-01', 'None']
    """
    rhythm, _, start = name.partition(" ")
    form = _FORMS.get(rhythm)
    if form is None:
        return None
    try:
        first = datetime.strptime(start, form)  # in UTC, as names are
        if rhythm == "monthly":
            return (first.replace(day=28) + timedelta(days=4)).date().replace(day=1)
        return (first + {"hourly": timedelta(hours=1), "daily": timedelta(1), "weekly": timedelta(7)}[rhythm]).date()
    except (ValueError, OverflowError):
        return None  # a name that no clock makes, or the end of the year 9999
