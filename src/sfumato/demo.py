"""The product in one run: generated people, three questions, private answers and what they cost.

    generate -> for each question: reserve, read, release, spend -> show

Exact counts live between `_read` and the mechanism and nowhere else: they are never printed, logged or stored.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import duckdb
import numpy as np
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from sfumato.accounting import Charge, Filter
from sfumato.accounting.numbers import whole
from sfumato.errors import BudgetExhausted
from sfumato.mechanisms import KnownGaussian, Mechanism, Release, Rng, UnknownGaussian, UnknownGumbel, context

Integers: TypeAlias = NDArray[np.int64]
Rows: TypeAlias = list[tuple[str, int]]

EPSILON_PER, DELTA_PER, DELTA = 0.15, 1e-10, 7e-9
CAP = Charge(3000, 30)
MEMBERS = 200_000
MAX_MEMBERS = 1_000_000

REGIONS = ("emea", "apac", "amer")
FIRST_DAY, DAYS = "2026-10-01", 30


class Field(NamedTuple):
    """A field of work: its job titles, the common ones first, and the topics its people read more than others do."""

    titles: tuple[str, str, str, str, str]
    topics: tuple[str, str, str]


FIELDS = (
    Field(
        ("software engineer", "data engineer", "site reliability engineer", "architect", "test engineer"),
        ("python-tricks", "cloud-costs", "incident-review"),
    ),
    Field(
        ("account executive", "sales manager", "customer success manager", "sales engineer", "buyer"),
        ("pricing-lab", "first-meeting", "renewals"),
    ),
    Field(
        ("marketing manager", "content writer", "brand strategist", "media planner", "copy editor"),
        ("cookie-free-ads", "brand-stories", "newsletter-craft"),
    ),
    Field(
        ("accountant", "financial analyst", "auditor", "controller", "actuary"),
        ("rate-watch", "audit-trail", "green-bonds"),
    ),
    Field(
        ("recruiter", "hr partner", "payroll specialist", "learning designer", "office manager"),
        ("remote-work", "pay-transparency", "hiring-loop"),
    ),
    Field(
        ("data scientist", "statistician", "research scientist", "economist", "lecturer"),
        ("causal-inference", "survey-methods", "open-data"),
    ),
    Field(
        ("nurse", "pharmacist", "clinical researcher", "physiotherapist", "medical writer"),
        ("trial-design", "patient-data", "ward-notes"),
    ),
    Field(
        ("privacy counsel", "paralegal", "compliance officer", "general counsel", "contract manager"),
        ("gdpr-guide", "ai-act-notes", "contract-clinic"),
    ),
)
# By code. Titles are dealt out field by field, so that a title's code names its field and no field is rare.
JOB_TITLES = [title for row in zip(*(field.titles for field in FIELDS), strict=True) for title in row]
TOPICS = [topic for field in FIELDS for topic in field.topics]
ARTICLES_PER_TOPIC = 125


def generate(connection: duckdb.DuckDBPyConnection, members: int = MEMBERS, seed: int = 1) -> None:
    """Create `engagements(member_id, article, job_title, region, day)`: about ten rows a member, heavy-tailed.

    A member has one job title and one home region. Only integer arithmetic on key-stream words is used, so the
    same seed gives the same rows on every platform.
    """
    members = whole("members", members, at_least=1, at_most=MAX_MEMBERS)
    source = Rng.keyed(b"demo data set", context(members=members, seed=seed))
    title = _draw(source, "title", _zipf(len(JOB_TITLES)), members)
    region = _draw(source, "region", [40, 25, 35], members)
    # P[n events] falls as n^-2.5: the mean is about 10, the median 4, the most active read hundreds.
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
    # Each region likes other topics best; three events in ten are about the member's own trade instead.
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
    drawn: Integers = np.searchsorted(steps, places, side="right")
    return drawn


def _store(connection: duckdb.DuckDBPyConnection, codes: Mapping[str, Integers]) -> None:
    """Codes become words inside the engine, where two million lookups are cheap."""
    names = {"article": _slugs(), "job_title": JOB_TITLES, "region": list(REGIONS)}
    connection.register("codes", dict(codes))
    connection.execute(
        "CREATE OR REPLACE TABLE engagements AS "
        "SELECT member_id, ($article)[article + 1] AS article, ($job_title)[job_title + 1] AS job_title, "
        "($region)[region + 1] AS region, CAST($first_day AS DATE) + CAST(day AS INTEGER) AS day FROM codes",
        names | {"first_day": FIRST_DAY},
    )
    connection.unregister("codes")


def _slugs() -> list[str]:
    """Articles by code. Their numbers are shuffled within a topic, so that -1 is not always the most popular."""
    size = ARTICLES_PER_TOPIC
    return [
        f"{topic}-{1 + (35 + 11 * code + 37 * rank) % size}"
        for code, topic in enumerate(TOPICS)
        for rank in range(size)
    ]


@dataclass(frozen=True, slots=True)
class Question:
    """A question in words, the query that reads its exact counts, and the mechanism that answers it.

    The privacy unit is `member_id`. `sql` returns (key, distinct members), the largest first, ties by key.
    """

    words: str
    by: str
    sql: str
    parameters: tuple[Any, ...]
    mechanism: Mechanism
    release: Callable[[Rows, Rng], Release[str]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What may leave: a release, and the budget after it."""

    question: Question
    released: Release[str]
    left: Charge

    def to_dict(self) -> dict[str, Any]:
        return {
            "question": self.question.words,
            "rows": [{self.question.by: key, "members": count} for key, count in self.released.rows],
            "stopped": self.released.stopped,
            "receipt": {
                "mechanism": self.released.mechanism,
                "unit": "member_id",
                "charge": self.released.charge.to_dict(),
                "left": self.left.to_dict(),
                "error95": {"members": self.released.error95},
            },
            "notes": self.notes(),
        }

    def notes(self) -> list[str]:
        hides_groups = self.released.charge.calls > 0
        return ["groups below a noisy threshold are absent"] if hides_groups else []

    def ending(self) -> str:
        """Why there are no more rows."""
        rows = len(self.released.rows)
        if self.released.stopped:
            return f"{rows}, then the bottom element ended the list"
        return f"{rows}, as asked for" if self.released.charge.calls else f"{rows}, the whole public domain"


def questions() -> tuple[Question, ...]:
    """The three questions of the demo, one for each shape of domain and contribution."""
    return _top_articles("emea"), _titles_of("cookie-free-ads-51"), _active_by_region("2026-10-24", "2026-10-30")


def _top_articles(region: str) -> Question:
    """A member may read any number of articles, and which articles there are is part of the data."""
    mechanism = UnknownGumbel.of(
        k=10, max_k=100, limit=1000, epsilon=EPSILON_PER, delta=DELTA_PER, count_noise="gaussian"
    )
    return Question(
        words=f"Which articles do the most members read in {region.upper()}?",
        by="article",
        sql="SELECT article, COUNT(DISTINCT member_id) FROM engagements WHERE region = ? "
        "GROUP BY article ORDER BY 2 DESC, article LIMIT ?",
        parameters=(region, mechanism.limit + 1),
        mechanism=mechanism,
        release=mechanism.release,
    )


def _titles_of(article: str) -> Question:
    """A member has one job title, so that one unit pays for the whole histogram."""
    mechanism = UnknownGaussian.of(k=10, limit=1000, epsilon=EPSILON_PER, delta=DELTA_PER, max_groups=1)
    return Question(
        words=f"Which job titles read the article {article}?",
        by="job_title",
        sql="SELECT job_title, COUNT(DISTINCT member_id) FROM engagements WHERE article = ? "
        "GROUP BY job_title ORDER BY 2 DESC, job_title LIMIT ?",
        parameters=(article, mechanism.limit + 1),
        mechanism=mechanism,
        release=mechanism.release,
    )


def _active_by_region(first: str, last: str) -> Question:
    """The regions are public, so that all of them are shown and no threshold is needed."""
    mechanism = KnownGaussian.of(epsilon=EPSILON_PER, max_groups=1)

    def release(rows: Rows, rng: Rng) -> Release[str]:
        found = dict(rows)
        return mechanism.release({region: found.get(region, 0) for region in REGIONS}, rng)

    return Question(
        words=f"How many members were active in each region from {first} to {last}?",
        by="region",
        sql="SELECT region, COUNT(DISTINCT member_id) FROM engagements "
        "WHERE day BETWEEN CAST(? AS DATE) AND CAST(? AS DATE) GROUP BY region ORDER BY 2 DESC, region",
        parameters=(first, last),
        mechanism=mechanism,
        release=release,
    )


def ask(
    connection: duckdb.DuckDBPyConnection, question: Question, budget: Filter, rng: Rng
) -> tuple[Release[str], Filter]:
    """Answer once: the worst case must fit before the first row is read, and what was revealed is spent."""
    if not budget.fits(question.mechanism.reserve):
        raise BudgetExhausted(question.mechanism.reserve, budget.left)
    released = question.release(_read(connection, question), rng)
    return released, budget.spend(released.charge)


def _read(connection: duckdb.DuckDBPyConnection, question: Question) -> Rows:
    return [(key, int(count)) for key, count in connection.execute(question.sql, question.parameters).fetchall()]


@dataclass(frozen=True, slots=True)
class Demo:
    """A finished run."""

    answers: tuple[Answer, ...]
    budget: Filter
    seconds: float

    @property
    def epsilon(self) -> float:
        """What the whole budget guarantees at DELTA, rounded up to two places, so that what is shown holds."""
        return math.ceil(100 * self.budget.guarantee(EPSILON_PER, DELTA_PER, DELTA)) / 100

    def to_dict(self) -> dict[str, Any]:
        return {
            "answers": [answer.to_dict() for answer in self.answers],
            "budget": {
                "limit": self.budget.cap.to_dict(),
                "spent": self.budget.spent.to_dict(),
                "left": self.budget.left.to_dict(),
                "guarantee": {"epsilon": self.epsilon, "delta": DELTA, "unit": "member_id"},
            },
            "seconds": round(self.seconds, 2),
        }


def run(members: int = MEMBERS, *, rng: Rng | None = None) -> Demo:
    """Generate the data set, ask the three questions and keep the books."""
    started = time.perf_counter()
    budget, answers, noise = Filter(CAP), [], rng or Rng.system()
    with duckdb.connect() as connection, _progress() as progress:
        task = progress.add_task("generating", total=1 + len(questions()))
        generate(connection, members)
        for question in questions():
            progress.update(task, advance=1, description=f"asking by {question.by}")
            released, budget = ask(connection, question, budget, noise)
            answers.append(Answer(question, released, budget.left))
    return Demo(tuple(answers), budget, time.perf_counter() - started)


def _progress() -> Progress:
    """On stderr, gone when done, and only where somebody watches."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(bar_width=24)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def show(demo: Demo, console: Console | None = None) -> None:
    """Print the answers, a receipt below each, and what the budget as a whole promises."""
    page = console or Console(highlight=False)
    for answer in demo.answers:
        page.print(Text(answer.question.words, style="bold"), "", _indented(_table(answer)), "", sep="\n")
        page.print(_indented(_receipt(answer)), "", sep="\n")
    page.print(Text(_promise(demo)))


def _indented(block: RenderableType) -> RenderableType:
    return Padding(block, (0, 0, 0, 2))


def _table(answer: Answer) -> RenderableType:
    rows = [(key, count) for key, count in answer.released.rows if count is not None]
    if not rows:
        return Text("No group stands out of the noise, so that none can be shown.")
    error = answer.released.error95 or 0
    table = Table(box=None, expand=True, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(answer.question.by.replace("_", " "), no_wrap=True)
    table.add_column("members", justify="right", no_wrap=True)
    table.add_column("95%", no_wrap=True)
    table.add_column("", ratio=1, no_wrap=True)
    longest = max(max(count for _, count in rows) + error, 1)
    for key, count in rows:
        table.add_row(key, f"{count:,}", Interval(error), Bar(count, error, longest))
    return table


@dataclass(frozen=True, slots=True)
class Interval:
    """± error, also where the terminal knows only ASCII."""

    error: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield Text(f"{'+/-' if options.ascii_only else '±'} {self.error}", style="dim")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, next(self.__rich_console__(console, options)))


@dataclass(frozen=True, slots=True)
class Bar:
    """A count in proportion to `longest`: solid as far as the count surely reaches, shaded across its error."""

    count: int
    error: int
    longest: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        sure = self._eighths(self.count - self.error, options.max_width)
        reach = self._eighths(self.count + self.error, options.max_width)
        if options.ascii_only:
            solid, shade = "#" * (sure // 8), "-"
        else:
            solid, shade = "█" * (sure // 8) + " ▏▎▍▌▋▊▉"[sure % 8].strip(), "░"
        yield Text.assemble((solid, "cyan"), (shade * (reach // 8 - len(solid)), "dim cyan"))

    def _eighths(self, count: int, width: int) -> int:
        return max(8 * width * count // self.longest, 0)


def _receipt(answer: Answer) -> RenderableType:
    released = answer.released
    lines = {
        "receipt": f"{released.mechanism}, a count is within {released.error95} with 95% confidence",
        "charge": f"{released.charge}; {answer.left} are left",
        "rows": "; ".join([answer.ending(), *answer.notes()]),
    }
    grid = Table.grid(padding=(0, 2, 0, 0))
    for label, text in lines.items():
        grid.add_row(label, text, style="dim")
    return grid


def _promise(demo: Demo) -> str:
    return (
        f"Whatever is asked within this budget of {demo.budget.cap}, one member's presence moves any conclusion by "
        f"at most epsilon = {demo.epsilon:.2f}, delta = {DELTA:.0e}.\n"
        f"Making the data, reading it and answering took {demo.seconds:.1f} s."
    )
