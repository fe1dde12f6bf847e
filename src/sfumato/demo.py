"""The product in one run: generated people, an owner's policy, an analyst's questions, and a table for everybody.

    prepare (data, key, sfumato.toml) -> open -> ask -> publish -> show

Nothing here is special to the demo: it is the embedded path that everybody uses.
"""

from __future__ import annotations

import math
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from sfumato import sample, terminal
from sfumato.accounting import epsilon
from sfumato.config import Budget
from sfumato.errors import InvalidArgument
from sfumato.noise_key import new_key
from sfumato.records import Answer, BudgetReport
from sfumato.release import Released, release_counts
from sfumato.session import Session

DELTA = 7e-9
ANALYST = "anna"
RHO = 0.05

CONFIG = """\
# The policy of the demo: what may be asked about whom, and who may ask how much.

[ledger]
url = "sqlite:books/ledger.db"
fence = "state/ledger.fence"           # elsewhere in earnest: never where the ledger is restored from
[noise]
key_file = "noise.key"
[engines.local]
type = "duckdb"
database = "demo.duckdb"

[tables.engagements]
engine = "local"
source = "engagements"
privacy_unit = "member_id"
[tables.engagements.columns]
article   = { domain = "unknown" }                                 # any number of articles a member
job_title = { domain = "unknown", max_groups = 1 }                 # one title a member
region    = { domain = ["emea", "apac", "amer"], max_groups = 1 }  # public, one a member
day       = { type = "date" }
[tables.engagements.measures]
members = { count = "units" }

[budgets.partner]
epsilon_per = 0.15
delta_per   = 1e-10
information = 3000
calls       = 30
resets      = "monthly"
[analysts.anna]
budget = "partner"
"""

TOP = (
    "SELECT article, COUNT(DISTINCT member_id) FROM engagements WHERE region = 'emea' "
    "GROUP BY article ORDER BY 2 DESC LIMIT {}"
)
TITLES = "SELECT job_title, members FROM engagements WHERE article = 'cookie-free-ads-51' GROUP BY 1 LIMIT 10"
REGIONS = "SELECT region, members FROM engagements WHERE day BETWEEN '2026-10-24' AND '2026-10-30' GROUP BY region"

# One question for each shape of domain and contribution; then the first one again, and more of it.
QUESTIONS = {
    "Which articles do the most members read in EMEA?": TOP.format(10),
    "Which job titles read the article cookie-free-ads-51?": TITLES,
    "How many members were active in each region from 2026-10-24 to 2026-10-30?": REGIONS,
    "The first question again: the same answer, for nothing": TOP.format(10),
    "Twelve articles instead of ten: the list goes on, and two rows are paid for": TOP.format(12),
}


@dataclass(frozen=True, slots=True)
class Demo:
    """A finished run."""

    answers: dict[str, Answer]
    table: Released
    report: BudgetReport
    budget: Budget
    config: Path | None

    @property
    def epsilon(self) -> float:
        """What the whole budget guarantees at DELTA, rounded up to two places, so that what is shown holds."""
        cap, prices = self.budget.cap, self.budget.prices
        return math.ceil(100 * epsilon(cap.information, cap.calls, prices.epsilon_per, prices.delta_per, DELTA)) / 100

    def to_dict(self) -> dict[str, Any]:
        return {
            "answers": [{"question": words, **answer.to_dict()} for words, answer in self.answers.items()],
            "published": {"rows": self.table.rows, "statement": dict(self.table.statement)},
            "budget": self.report.to_dict(),
            "guarantee": {"epsilon": self.epsilon, "delta": DELTA, "unit": "member_id"},
        }


def prepare(folder: Path, members: int = sample.MEMBERS) -> Path:
    """Write the data, a fresh noise key and the policy into a folder; the path of its `sfumato.toml`."""
    config = folder / "sfumato.toml"
    if config.exists():
        raise InvalidArgument("dir", f"{str(folder)!r} holds a demo already; ask it: sfumato ask --config {config}")
    (folder / "books").mkdir(parents=True, exist_ok=True)
    with duckdb.connect(folder / "demo.duckdb") as connection:
        sample.generate(connection, members)
    new_key(folder / "noise.key")
    config.write_text(CONFIG, "utf-8")
    return config


def run(members: int = sample.MEMBERS, folder: Path | None = None) -> Demo:
    """Prepare a folder (one that is gone afterwards, unless it is given), ask the questions, keep the books."""
    with ExitStack() as stack, _progress() as progress:
        place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sfumato-demo-")))
        task = progress.add_task("generating", total=2 + len(QUESTIONS))
        config = prepare(place, members)
        answers = {}
        with Session(config) as session:
            for words, sql in QUESTIONS.items():
                progress.update(task, advance=1, description="asking")
                answers[words] = session.ask(sql, analyst=ANALYST)
            report, budget = session.budget(ANALYST), session.config.budgets["partner"]
        progress.update(task, advance=1, description="publishing")
        table = publish(config)
    return Demo(answers, table, report, budget, config if folder else None)


def publish(config: Path) -> Released:
    """Members of as many articles as a small budget buys, for everybody to see."""
    return release_counts(
        "engagements",
        unit="member_id",
        key="article",
        rho=RHO,
        delta=1e-9,
        config=config,
        budget="partner",
        job="articles",
    )


def _progress() -> Progress:
    """On stderr, gone when done, and only where somebody watches."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(bar_width=24)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def show(demo: Demo, console: Console | None = None) -> None:
    """Print the answers, a receipt below each, and what the budget as a whole promises."""
    page = console or Console(highlight=False)
    for words, answer in demo.answers.items():
        page.print(terminal.render(answer, title=words), "", sep="\n")
    page.print(Text("A table for everybody: members of as many articles as a small budget buys", "bold"), "", sep="\n")
    page.print(terminal.render_release(demo.table, top=5), "", sep="\n")
    page.print(Text(_promise(demo)))
    if demo.config is not None:
        page.print(Text(f'\nGo on: sfumato ask --config {demo.config} --analyst {ANALYST} "{REGIONS}"'))


def _promise(demo: Demo) -> str:
    return (
        f"Whatever {ANALYST} asks within this month's budget of {demo.budget.cap}, one member's presence moves any "
        f"conclusion by at most epsilon = {demo.epsilon:.2f}, delta = {DELTA:.0e}."
    )
