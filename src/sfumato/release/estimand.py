"""Which number an interval is for: the true one, or what bounding and clamping left of it.

A person counts for at most L keys, and for no more of a key than the statistic's bounds allow. What that removes is not
noise, and no interval for the noise contains it. So every interval says which number it is for. What bounding drops is
estimated by a census; it is an average over keys, and never added to an interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.mechanisms.census import MAX_SEEN, Dropped, KeysPerPerson

ALL_KEYS, RELEASED_KEYS = "keys", "released keys"
"""Among which keys each person's were bounded. Stored in statements: never change them."""


@dataclass(frozen=True, slots=True)
class Estimand:
    """What the 95 % intervals of a statistic are for.

    bounded_by   ALL_KEYS or RELEASED_KEYS; None where no (person, key) pair can have been dropped
    clamped      whether what a person adds to a key is clamped, or some of it left out
    grows        whether dropping pairs can only lower the number
    dropped      the share of pairs that bounding dropped, where a census tells it
    """

    bounded_by: str | None
    clamped: bool
    grows: bool
    dropped: Dropped | None = None

    @property
    def number(self) -> str:
        """The number in words."""
        steps = [*(["bounding"] if self.bounded_by else []), *(["clamping"] if self.clamped else [])]
        return f"the number after {' and '.join(steps)}" if steps else "the true number"

    @property
    def heading(self) -> str:
        """A heading for a column of intervals."""
        words = [*(["bounded"] if self.bounded_by else []), *(["clamped"] if self.clamped else [])]
        return f"95 %, {' and '.join(words) or 'true number'}"

    @property
    def shift(self) -> str:
        """How far bounding moves the number from the true one, in a few words; empty where it does not."""
        if self.bounded_by is None:
            return ""
        if self.dropped is None:
            return "and what bounding dropped was not measured"
        if self.grows:
            return f"too low by {self.dropped.estimate}"
        return f"without {self.dropped.estimate} of the (person, key) pairs"

    def __str__(self) -> str:
        """What a reader of the intervals must know."""
        return f"for {self.number}{f', {self.shift}' if self.shift else ''}"

    def to_dict(self) -> dict[str, Any]:
        """As it stands in the statement, with the column of the statistic."""
        return {"bounded_by": self.bounded_by, "clamped": self.clamped, "grows": self.grows}


def bounding_record(bounded_by: str, max_keys: int, census: KeysPerPerson) -> dict[str, Any]:
    """A census, and what a bound drops by it, for a statement."""
    found = census.dropped(max_keys)
    ends = {"dropped": found.share, "dropped_low": found.low, "dropped_high": found.high}
    return {"bounded_by": bounded_by, "max_keys": max_keys, **ends, "census": census.to_dict()}


def read_estimand(statement: Mapping[str, Any], statistic: str) -> Estimand:
    """What a statement says of a statistic. In statements of earlier versions it follows from the method."""
    columns: list[dict[str, Any]] = statement["columns"]
    named = next((each for each in columns if (each["role"], each["name"]) == ("statistic", statistic)), {})
    if "bounded_by" in named:
        by = named["bounded_by"] if named["bounded_by"] in (ALL_KEYS, RELEASED_KEYS) else None
        return Estimand(by, named.get("clamped") is True, named.get("grows") is True, read_dropped(statement, by))
    counted, people = statement.get("method") == "pcr", statistic == "units"
    return Estimand(None if counted and people else ALL_KEYS, clamped=not people, grows=people)


def read_dropped(statement: Mapping[str, Any], bounded_by: str | None) -> Dropped | None:
    """What bounding dropped, as far as the statement tells it in a form that can be read."""
    for record in bounding_records(statement):
        if bounded_by is not None and record.get("bounded_by") == bounded_by:
            share, low, high = (record.get(name, math.nan) for name in ("dropped", "dropped_low", "dropped_high"))
            if _is_share(share) and _is_share(low) and (high is None or _is_share(high)):
                return Dropped(share, low, high)
    return None


def bounding_records(statement: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What a statement says of bounding, one record for each census."""
    stored = statement.get("bounding")
    return [each for each in stored if isinstance(each, Mapping)] if isinstance(stored, list) else []


def bounding_lines(statement: Mapping[str, Any]) -> list[str]:
    """What bounding dropped, in words, with its own 95 % bound."""
    lines = []
    for record in bounding_records(statement):
        dropped, most = read_dropped(statement, record.get("bounded_by")), record.get("max_keys")
        if dropped is not None and isinstance(most, int):
            counted = f", counting at most {MAX_SEEN:,} of each person" if record["bounded_by"] == ALL_KEYS else ""
            share = f"{dropped} of the (person, key) pairs{counted}"
            lines.append(f"at most {most:,} {record['bounded_by']} per person, which drops {share}")
    if statement["parameters"].get("within_max_keys") is True:
        lines.append("no person has more than max_keys keys, as the publisher states")
    return lines


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and 0 <= value <= 1
