"""The text of a first `sfumato.toml`: what `sfumato init` writes, with comments that explain each setting."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from sfumato.explain.buying import BudgetPlan
from sfumato.query.versions import Rhythm

_REPORT_COLUMNS = ("start", "end", "events")  # columns of every row of the report below, so no attribute

_GUESSED = """
# CSV has no types: those below were guessed once from a sample of the rows; correct them. A column without a type is
# text. A cell that does not fit its type makes questions fail (a moment becomes NULL). Better: Parquet, or DuckDB."""

_REPORT = """\
[reports.overview]
table = {table}
time = {time}
zone = "UTC"                           # in which days begin at midnight
levels = ["day", "month"]              # fewer levels, less noise
lag = "1d"                             # after this time all rows of a day are there; later rows are not counted
epsilon = {{ total = 0.3 }}              # of a day and a month together; what it promises: sfumato report explain
options = ["calendar"]                 # days and months are weighed against one another: less noise
[reports.overview.statistics]
events = {{ count = "rows" }}
{attributes}"""

_FILE = """\
# What may be asked about your people, by whom, and how much of it.
# Written by `sfumato init` from the names and types of your columns. Nothing else here comes from the data, and nothing
# that you add should: this file is public. After a change, run: sfumato policy check

[ledger]                                 # who has spent what; keep it and back it up
url = "sqlite:ledger.db"
# url = "postgresql://sfumato@db.example/sfumato"       # for several machines: pip install 'sfumato[postgres]'

[noise]
key_file = "noise.key"                   # secret: with it, the noise can be removed

[engines.local]
type = "duckdb"
{database}
[{table}]
engine = "local"
source = {source}
{unit} # whose presence is hidden
{version}
max_k = 100                              # the longest list
cap = "everyone"                         # a budget for all analysts and all releases together, see below

# The columns to group and filter by. A column that is not here cannot be asked about.
[{table}.columns]
{columns}\
# Public facts make answers cheaper or more accurate. A line above may become, for example:
# region = {{ domain = ["emea", "apac", "amer"] }}        # all values are known: every group is shown, also a small one
# title = {{ domain = "unknown", max_groups = 1 }}        # one per person: a whole histogram costs one unit
# amount = {{ min = 0, max = 100, step = 0.01 }}          # bounds that you know without looking: AVG, SUM, MEDIAN

# What is counted.
[{table}.measures]
{measure} = {{ count = "units" }}
{rows} = {{ count = "rows", max_per_unit = {most} }}           # rows, at most {most} per person and group: COUNT(*)
# bought = {{ sum = "quantity", max_per_unit = 20 }}      # a column of whole numbers, at most 20 per person and group

# Numbers over time, the same for every analyst and without a budget: sfumato report. They have their own guarantee, for
# one row. With entities = ["account", "campaign"], columns of yours, each report is about one account or one campaign.
{report}
# What these budgets mean for one person: sfumato policy explain. What others would: sfumato policy plan --epsilon 8
[budgets.partner]
{budget}mode = "enforce"                         # "track" counts and never refuses

# For all questions and all releases about the table together: {promise} per month
[budgets.everyone]
{everyone}
[analysts.{analyst}]
budget = "partner"
# organisation = "acme"                  # colleagues who share answers share a budget
# tables = [{table_name}]  # without it, all tables; rows, entities and roles: docs/how-to/give-rights.md

# [organisations.acme]
# budget = "acme-shared"

# A shared budget has the epsilon_per and delta_per of the budgets of its analysts:
# [budgets.acme-shared]
{shared}"""


@dataclass(frozen=True, slots=True)
class Draft:
    """What the file will say."""

    source: str
    database: str | None
    table: str
    unit: str
    measure: str
    rows: str
    columns: Mapping[str, str]
    left_out: Mapping[str, str]
    analyst: str
    plan: BudgetPlan
    version: Rhythm = "daily"


ROWS_PER_PERSON = 5
"""How many rows of one person count in a group, until the owner says how many are usual."""

_VERSIONS: Mapping[Rhythm, str] = {
    "hourly": "new rows count every hour (UTC); then the same question costs again",
    "daily": "new rows count every day (UTC); then the same question costs again",
    "weekly": "new rows count every Monday (UTC); then the same question costs again",
    "monthly": "new rows count every month (UTC); then the same question costs again",
    "fixed": "the rows never change: a question is paid for once",
}


def config_text(draft: Draft) -> str:
    """The file."""
    columns = [f'{toml_key(name)} = {{ type = "{kind}", domain = "unknown" }}' for name, kind in draft.columns.items()]
    columns += [f"# {toml_string(name)} is left out: {why}." for name, why in draft.left_out.items()]
    guessed = draft.database is None and not draft.source.lower().endswith(".parquet")
    return _FILE.format(
        source=toml_string(draft.source) + (_GUESSED if guessed else ""),
        database="" if draft.database is None else f"database = {toml_string(draft.database)}\n",
        table=f"tables.{toml_key(draft.table)}",
        table_name=toml_string(draft.table),
        unit=f"privacy_unit = {toml_string(draft.unit)}".ljust(40),
        version=_version_text(draft.version),
        columns="".join(f"{line}\n" for line in columns),
        measure=toml_key(draft.measure),
        rows=toml_key(draft.rows),
        most=ROWS_PER_PERSON,
        report=_report_text(draft),
        analyst=toml_key(draft.analyst),
        budget=_budget_text(draft.plan),
        everyone=draft.plan.to_toml(),
        shared="".join(f"# {line}\n" for line in draft.plan.to_toml().splitlines()),
        promise=f"epsilon {draft.plan.period.epsilon:.2f} at delta {draft.plan.period.delta:.0e}",
    )


def _version_text(version: Rhythm) -> str:
    """The line of the version, with what it costs, and below it the others."""
    line, others = f'version = "{version}"', (f'"{each}"' for each in _VERSIONS if each != version)
    return (
        f"{line:<40} # {_VERSIONS[version]}\n"
        f'# Also {", ".join(others)}; or {{ value = "2026-11" }}: you name the state of the rows, and a question\n'
        "# costs again when you change the name. What changes rarely costs least."
    )


def _budget_text(plan: BudgetPlan) -> str:
    """The lines of a budget, each with what it means."""
    prices = {each.asked: each.charge.information for each in plan.buys()}
    meanings = {
        "epsilon_per": "smaller is more private and more noisy",
        "information": f"units; a list of ten costs at most {prices['top_ten']}, a total 1",
        "calls": "questions about columns whose values are not public",
        "resets": "never | daily | weekly | monthly",
    }
    lines = []
    for line in plan.to_toml().splitlines():
        meaning = meanings.get(line.partition(" ")[0])
        lines.append(f"{line:<40} # {meaning}\n" if meaning else f"{line}\n")
    return "".join(lines)


def _report_text(draft: Draft) -> str:
    """A report in comments, which works without the comment signs; or what is missing for one."""
    time = next((name for kind in ("timestamp", "date") for name, has in draft.columns.items() if has == kind), None)
    if time is None:
        return "# It needs a column of moments or of days, and this table has none.\n"
    by = [name for name, kind in draft.columns.items() if kind == "text" and name.casefold() not in _REPORT_COLUMNS]
    attributes = f'[reports.overview.attributes]\n{toml_key(by[0])} = {{ domain = ["one", "another"] }}\n' if by else ""
    lines = _REPORT.format(table=toml_string(draft.table), time=toml_string(time), attributes=attributes)
    return "".join(f"# {line}\n" for line in lines.splitlines())


def toml_string(text: str) -> str:
    r"""`text` as a string of TOML, on one line, with every invisible character written as an escape.

    >>> toml_string('a "b"\n\x1b')
    '"a \\"b\\"\\u000A\\u001B"'
    """

    def escape(char: str) -> str:
        if char in '"\\':
            return f"\\{char}"
        category = unicodedata.category(char)
        if category.startswith("C") or category in ("Zl", "Zp"):
            return f"\\u{ord(char):04X}" if ord(char) < 0x10000 else f"\\U{ord(char):08X}"
        return char

    return '"' + "".join(map(escape, text)) + '"'


def toml_key(name: str) -> str:
    """`name` as a key of TOML, in quotes where it needs them."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_string(name)
