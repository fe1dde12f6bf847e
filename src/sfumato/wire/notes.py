"""What an answer says beside its numbers: a code for programs and a text for people.

A program reads the code, never the text. Answers that were stored before notes had codes hold texts alone; `read_note`
gives each known text its code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from sfumato.wire.base import Record

SMALL_GROUPS_ABSENT = "small-groups-absent"
NEAR_THRESHOLD = "near-threshold"
FIRST_GROUPS = "first-groups"
CAPPED = "capped"
TRACKED = "tracked"
FROM_POLICY = "from-policy"
OWN_ROWS = "own-rows"

EVENT_LEVEL = "event-level"
PERSON_LEVEL = "person-level"
EXACT_TOTALS = "exact-totals"
INCOMPLETE = "incomplete"
CUT_SHORT = "cut-short"
SMALL_COUNTS_HIDDEN = "small-counts-hidden"
OPTION = "option"
RAISED = "raised"
MAY_CHANGE = "may-change"
OTHER_ROWS = "other-rows"

OTHER = "other"
"""A text of an earlier version that is not known any more."""

TEXTS: Mapping[str, str] = {
    SMALL_GROUPS_ABSENT: "groups below a noisy threshold are absent",
    NEAR_THRESHOLD: "groups close to the threshold are there because their noise was high, and so are their counts",
    FIRST_GROUPS: "the first {shown} of {groups} groups",
    CAPPED: "at most {tau} per person and group are counted",
    TRACKED: "this budget is tracked and not enforced: what is left may be below zero",
    OWN_ROWS: "only the rows that you may ask about are counted",
    FROM_POLICY: "the values that the policy lists; no row was read",
    EVENT_LEVEL: "the guarantee is for one event; a person with many events is hidden less",
    PERSON_LEVEL: "the guarantee is for one person: the first {events} events of a person count",
    EXACT_TOTALS: "totals are exact, because the owner says that the reader knows them; the guarantee excludes them",
    INCOMPLETE: "the range ends at {until}: what comes after is not complete yet",
    CUT_SHORT: "{text}",
    SMALL_COUNTS_HIDDEN: "counts below {least} are not shown",
    OPTION: "{option}: {meaning}",
    RAISED: "error95 is of the noise alone: {options} the numbers, which may be further above the truth",
    MAY_CHANGE: "a number from {since} on changes once more when a longer range around it is complete ({levels})",
    OTHER_ROWS: "rows came late or were deleted: some ranges saw other rows than the ranges in them, and stand alone",
}

# How stored answers spelled these before they had codes, where that was another text.
_EARLIER: Mapping[str, str] = {CAPPED: "at most {tau} a person and group are counted"}


class Note(Record, frozen=True):
    """One remark about an answer."""

    code: Annotated[str, Meta(description="What it says, for programs.", extra_json_schema={"enum": [*TEXTS, OTHER]})]
    text: Annotated[str, Meta(description="What it says, for people.")]

    def __str__(self) -> str:
        return self.text


def note(code: str, **values: object) -> Note:
    """The note of a code, with the values that its text needs."""
    return Note(code, TEXTS[code].format(**values))


def read_note(stored: str) -> Note:
    """A note that was stored as its text alone."""
    return Note(next((code for code, form in _FORMS if form.fullmatch(stored)), OTHER), stored)


def _form(text: str) -> re.Pattern[str]:
    """A text as a pattern: any value may stand where it has a field."""
    return re.compile(re.sub(r"\\\{[a-z]+\\\}", ".+", re.escape(text)), re.DOTALL)


# A text that is one field alone fits everything, and was never stored.
_FORMS = tuple(
    (code, _form(text)) for texts in (TEXTS, _EARLIER) for code, text in texts.items() if not text.startswith("{")
)
