"""Replies of a broker: complete, or nothing.

A reply with status 200 can lack rows. Most of the ways are flagged. One is not: some 25 seconds after a server has
died, the broker forgets it, and answers from what the others have. So the segments that were looked at are counted, and
compared with those that the controller lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

CUT_SHORT = ("numGroupsLimitReached", "partialResult", "groupsTrimmed", "maxRowsInJoinReached")
INEXACT = "the broker replaces COUNT(DISTINCT) by an approximate function"


class Incomplete(Exception):
    """A reply that must not be used. Its text says why, without data."""


def online_segments(ideal_state: Mapping[str, Any]) -> frozenset[str]:
    """The segments of an OFFLINE table that are to be served, in the controller's answer to `idealstate`."""
    placed: Mapping[str, Mapping[str, str]] = ideal_state.get("OFFLINE") or {}
    return frozenset(name for name, servers in placed.items() if "ONLINE" in servers.values())


def incompleteness(reply: Mapping[str, Any], before: frozenset[str], after: frozenset[str], most: int | None) -> str:
    """Why a reply must not be used, in words without data; "" for one that is complete and exact.

    With more rows than `most` it lacks some. `before` and `after` are the segments of the table at these times.
    """
    if reply.get("exceptions") != []:
        codes = {each.get("errorCode") for each in reply.get("exceptions") or () if isinstance(each, dict)}
        return f"exceptions {sorted(code for code in codes if isinstance(code, int))}"
    for flag in CUT_SHORT:
        if reply.get(flag):
            return flag
    asked, answered = reply["numServersQueried"], reply["numServersResponded"]
    if asked != answered:
        return f"{answered} of {asked} servers responded"
    if before != after:
        return "the segments of the table changed"
    seen = reply["numSegmentsQueried"] + reply.get("numSegmentsPrunedByBroker", 0)
    if seen != len(before):
        return f"{seen} of {len(before)} segments were looked at"
    if not is_exact(reply):
        return INEXACT
    if most is not None and len(reply_rows(reply)) > most:
        return "there are more rows than a query may return"
    return ""


def is_exact(reply: Mapping[str, Any]) -> bool:
    """Whether distinct values were counted exactly. Columns are called after the functions that made them."""
    table = reply.get("resultTable")
    names = [] if table is None else table["dataSchema"]["columnNames"]
    return all(name.startswith("distinctcount(") for name in map(str.lower, names) if name.startswith("distinctcount"))


def reply_rows(reply: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
    """The rows of a complete reply. There is no table in it where no server was asked."""
    table = reply.get("resultTable")
    rows: Sequence[Sequence[Any]] = [] if table is None and reply["numServersQueried"] == 0 else table["rows"]  # type: ignore[index]
    return rows
