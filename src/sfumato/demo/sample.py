"""A generated data set: a month of reading by members of a network, the same on every machine."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import duckdb
import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.numbers import whole
from sfumato.mechanisms import Rng, context

Integers: TypeAlias = NDArray[np.int64]

MEMBERS = 200_000
MAX_MEMBERS = 1_000_000

REGIONS = ("emea", "apac", "amer")
FIRST_DAY, DAYS = "2026-10-01", 30


class Field(NamedTuple):
    """A field of work: its desk, its job titles, the common ones first, and the topics that its people read most."""

    desk: str
    titles: tuple[str, str, str, str, str]
    topics: tuple[str, str, str]


FIELDS = (
    Field(
        "engineering",
        ("software engineer", "data engineer", "site reliability engineer", "architect", "test engineer"),
        ("python-tricks", "cloud-costs", "incident-review"),
    ),
    Field(
        "sales",
        ("account executive", "sales manager", "customer success manager", "sales engineer", "buyer"),
        ("pricing-lab", "first-meeting", "renewals"),
    ),
    Field(
        "marketing",
        ("marketing manager", "content writer", "brand strategist", "media planner", "copy editor"),
        ("cookie-free-ads", "brand-stories", "newsletter-craft"),
    ),
    Field(
        "finance",
        ("accountant", "financial analyst", "auditor", "controller", "actuary"),
        ("rate-watch", "audit-trail", "green-bonds"),
    ),
    Field(
        "people",
        ("recruiter", "hr partner", "payroll specialist", "learning designer", "office manager"),
        ("remote-work", "pay-transparency", "hiring-loop"),
    ),
    Field(
        "research",
        ("data scientist", "statistician", "research scientist", "economist", "lecturer"),
        ("causal-inference", "survey-methods", "open-data"),
    ),
    Field(
        "health",
        ("nurse", "pharmacist", "clinical researcher", "physiotherapist", "medical writer"),
        ("trial-design", "patient-data", "ward-notes"),
    ),
    Field(
        "law",
        ("privacy counsel", "paralegal", "compliance officer", "general counsel", "contract manager"),
        ("gdpr-guide", "ai-act-notes", "contract-clinic"),
    ),
)
# By code. Titles are taken from the fields in turn, so the code of a title gives its field, and no field is rare.
JOB_TITLES = [title for row in zip(*(field.titles for field in FIELDS), strict=True) for title in row]
TOPICS = [topic for field in FIELDS for topic in field.topics]
ARTICLES_PER_TOPIC = 125


def generate(connection: duckdb.DuckDBPyConnection, members: int = MEMBERS, seed: int = 1) -> None:
    """Create `engagements(member_id, article, job_title, region, day)`: about ten rows per member, heavy-tailed.

    A member has one job title and one home region. Only integer arithmetic on key-stream words is used, so the
    same seed gives the same rows on every platform.
    """
    members = whole("members", members, at_least=1, at_most=MAX_MEMBERS)
    source = Rng.keyed(b"demo data set", context(members=members, seed=seed))
    title = _draw(source, "title", _zipf(len(JOB_TITLES)), members)
    region = _draw(source, "region", [40, 25, 35], members)
    # P[n events] falls as n^-2.5: the mean is about 10, the median 4, and the most active members read hundreds.
    events = 1 + _draw(source, "events", [10**15 // math.isqrt((n + 5) ** 5) for n in range(1, 501)], members)
    member = np.repeat(np.arange(members), events)
    _store(
        connection,
        {
            "member_id": member + 1,
            "article": _articles(source, title[member], region[member]),
            "job_title": title[member],
            "region": region[member],
            "day": _draw(source, "day", [10 if day % 7 in (2, 3) else 25 for day in range(DAYS)], len(member)),
        },
    )


def _articles(source: Rng, title: Integers, region: Integers) -> Integers:
    """The article code of every event: a topic, and within it a rank whose popularity follows Zipf's law."""
    events = len(title)
    # Each region prefers other topics; three events in ten are about the member's own field instead.
    liked = _draw(source, "topic", _zipf(len(TOPICS)), events) + np.array([21, 4, 11])[region]
    own = 3 * (title % len(FIELDS)) + _draw(source, "own topic", [3, 2, 1], events)
    topic = np.where(_draw(source, "by trade", [7, 3], events) == 1, own, liked % len(TOPICS))
    return topic * ARTICLES_PER_TOPIC + _draw(source, "rank", _zipf(ARTICLES_PER_TOPIC), events)


def _zipf(size: int) -> list[int]:
    """Whole weights in proportion to 1 / (rank + 2)."""
    return [10**9 // (rank + 2) for rank in range(size)]


def _draw(source: Rng, purpose: str, weights: Sequence[int], size: int) -> Integers:
    """`size` indices, each with probability proportional to its whole weight."""
    steps = np.cumsum(np.array(weights, np.uint64))
    places = source.stream(purpose=purpose).words(0, 0, size) % steps[-1]
    indices: Integers = np.searchsorted(steps, places, side="right")
    return indices


def _store(connection: duckdb.DuckDBPyConnection, codes: Mapping[str, Integers]) -> None:
    """Replace codes by words inside the engine, where two million lookups are cheap."""
    names = {"article": article_names(), "job_title": JOB_TITLES, "region": list(REGIONS)}
    connection.register("codes", dict(codes))
    connection.execute(
        "CREATE OR REPLACE TABLE engagements AS "
        "SELECT member_id, ($article)[article + 1] AS article, ($job_title)[job_title + 1] AS job_title, "
        "($region)[region + 1] AS region, CAST($first_day AS DATE) + CAST(day AS INTEGER) AS day FROM codes",
        names | {"first_day": FIRST_DAY},
    )
    connection.unregister("codes")


def article_names() -> list[str]:
    """Articles by code. Their numbers are shuffled within a topic: -1 is not always the most popular."""
    size = ARTICLES_PER_TOPIC
    return [
        f"{topic}-{1 + (35 + 11 * code + 37 * rank) % size}"
        for code, topic in enumerate(TOPICS)
        for rank in range(size)
    ]


def article_places() -> list[tuple[str, str, str]]:
    """Where each article stands: its desk, its topic and its name."""
    topics = [(field.desk, topic) for field in FIELDS for topic in field.topics for _ in range(ARTICLES_PER_TOPIC)]
    return [(desk, topic, name) for (desk, topic), name in zip(topics, article_names(), strict=True)]


def list_articles(connection: duckdb.DuckDBPyConnection) -> None:
    """Create `articles(desk, topic, article)`, the public list of articles."""
    desks, topics, names = map(list, zip(*article_places(), strict=True))
    connection.execute(
        "CREATE OR REPLACE TABLE articles AS SELECT unnest($desks) AS desk, unnest($topics) AS topic, "
        "unnest($names) AS article",
        {"desks": desks, "topics": topics, "names": names},
    )
