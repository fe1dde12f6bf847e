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
METADATA = "metadata"
OWN_ROWS = "own-rows"
NO_INTERVAL = "no-interval"
LIMIT_ABOVE = "limit-above"
BOUNDED = "bounded-values"
BY_PEOPLE = "by-people"
PUBLIC = "public"

EVENT_LEVEL = "event-level"
PERSON_LEVEL = "person-level"
EXACT_TOTALS = "exact-totals"
INCOMPLETE = "incomplete"
CUT_SHORT = "cut-short"
SMALL_COUNTS_HIDDEN = "small-counts-hidden"
OPTION = "option"
RAISED = "raised"
MOVED = "moved"
CHOSEN = "chosen"
MAY_CHANGE = "may-change"
OTHER_ROWS = "other-rows"

ENFORCED_BUDGETS = "enforced-budgets"
MONTH_INCOMPLETE = "month-incomplete"

OTHER = "other"
"""A text of an earlier version that is not known any more."""

TEXTS: Mapping[str, str] = {
    SMALL_GROUPS_ABSENT: "groups below a noisy threshold are absent",
    NEAR_THRESHOLD: "groups close to the threshold are there because their noise was high, and so are their counts",
    FIRST_GROUPS: "the first {shown} of {groups} groups",
    CAPPED: "at most {tau} per person and group are counted",
    TRACKED: "this budget is tracked and not enforced: what is left may be below zero",
    OWN_ROWS: "only the rows that you may ask about are counted",
    NO_INTERVAL: (
        "no interval is known for {columns}: quantiles have none, nor have numbers that are computed from noisy ones "
        "in another way than times a number, or that decide themselves which rows are left"
    ),
    BOUNDED: ("{column} counts from {low} to {high} in steps of {step}, at most {values} per person and group"),
    BY_PEOPLE: "the groups are those with the most people; selecting them is a part of the price",
    LIMIT_ABOVE: "LIMIT {limit} is more than there may be: a list has at most {most} rows",
    PUBLIC: "rows of public tables alone: no noise, and no row of a person was read",
    FROM_POLICY: "the values that the policy lists; no row was read",
    METADATA: "names and types, from the policy; no row was read",
    EVENT_LEVEL: "the guarantee is for one event; a person with many events is hidden less",
    PERSON_LEVEL: "the guarantee is for one person: the first {events} events of a person count",
    EXACT_TOTALS: "totals are exact, because the owner says that the reader knows them; the guarantee excludes them",
    INCOMPLETE: "the range ends at {until}: what comes after is not complete yet",
    CUT_SHORT: "{text}",
    SMALL_COUNTS_HIDDEN: "counts below {least} are not shown",
    OPTION: "{option}: {meaning}",
    RAISED: "error95 is of the noise alone: {options} the numbers, which may be further above the truth",
    MOVED: "siblings below zero were set to zero, which moved a number by up to {most}: error95 includes it",
    CHOSEN: "numbers are shown that are large, by their noise too: error95 is wider for it",
    MAY_CHANGE: "a number from {since} on changes once more when a longer range around it is complete ({levels})",
    ENFORCED_BUDGETS: (
        "enforced budgets hide what analysts would have asked: no analyst can exceed them, so larger ones look "
        'sufficient for all. Set mode = "track" for a while, then look again'
    ),
    MONTH_INCOMPLETE: "the current month is not complete: the numbers of its later days can still rise",
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
