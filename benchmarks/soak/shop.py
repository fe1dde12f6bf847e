"""What is asked about: engagements under a cap that lasts and one that runs dry, and a report; and its books."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.accounting import NOTHING
from sfumato.cli.output import now
from sfumato.ledger import all_accounts
from sfumato.session import Session
from tests.helpers.advertised import write_ads
from tests.helpers.servers import run
from tests.helpers.worlds import World

if TYPE_CHECKING:
    from benchmarks.soak.clients import Seen

# Each with the account of those who pay the caps together.
ANALYSTS = {
    "anna": "organisation:acme",
    "carl": "organisation:globex",
    "ben": "organisation:acme",
    "eva": "analyst:eva",
    "dora": "organisation:globex",
    "rita": "",  # a reader: reports only
}
TABLES = ("engagements", "scarce")

CONFIG = """
[ledger]
url = "{ledger}"
fence = "{fence}"
[engines.local]
type = "duckdb"
database = "rows.duckdb"
[tables.ads]
engine = "local"
source = "ads"
privacy_unit = "member_id"
[reports.ads]
table = "ads"
time = "at"
levels = ["day", "month"]
entities = {{ levels = ["account", "campaign", "creative"], table = "creatives" }}
epsilon = 1
[reports.ads.attributes]
seniority = {{ domain = ["entry", "senior"] }}
[reports.ads.statistics]
impressions = {{ count = "rows", where = {{ kind = "impression" }} }}
clicks = {{ count = "rows", where = {{ kind = "click" }}, of = "impressions" }}
[budgets.ample]
epsilon_per = 0.15
delta_per = 1e-10
information = 1000000000
calls = 1000000000
[budgets.small]
epsilon_per = 0.15
delta_per = 1e-10
information = 60
calls = 6
[organisations.acme]
budget = "ample"
[organisations.globex]
budget = "ample"
[service]
rate_per_minute = 0
pad_ms = 0
"""
TABLE = """
[tables.{name}]
engine = "local"
source = "engagements"
privacy_unit = "member_id"
version = {{ value = "v1" }}
max_k = 20
limit = 60
cap = "{cap}"
[tables.{name}.columns]
article = {{ domain = "unknown" }}
region = {{ domain = ["emea", "apac", "amer"], max_groups = 1 }}
n = {{ type = "integer" }}
[tables.{name}.measures]
members = {{ count = "units" }}
"""


def open_shop(folder: Path, ledger: str = "sqlite:ledger.db", fence: str = "../state/fence") -> World:
    """Rows, a noise key and a configuration."""
    folder.mkdir()
    world = World(folder, ledger)
    world.write_rows()
    write_ads(world)
    world.write_key()
    parts = [CONFIG.format(ledger=ledger, fence=fence)]
    parts += [TABLE.format(name=name, cap=cap) for name, cap in zip(TABLES, ("ample", "small"), strict=True)]
    for name, payer in ANALYSTS.items():
        parts.append(f'[analysts.{name}]\nbudget = "ample"\n' + ("" if payer else 'role = "reader"\n'))
        if payer.startswith("organisation:"):
            parts.append(f'organisation = "{payer.removeprefix("organisation:")}"\n')
    world.path.write_text("".join(parts))
    return world


def find_differences(shop: World, seen: Seen) -> list[str]:
    """Where the books, after a sweep, differ from the receipts of the clients; and what `budget verify` finds."""
    with Session(shop.path) as session:  # finishes what was reserved and not answered
        left = len(session.ledger.reservations())
        standings = session.ledger.standings(all_accounts(session.config).values(), now())
    expected = seen.spending()
    problems = [f"{left} reservations are not finished"] if left else []
    problems += [
        f"{each.account} has spent {each.spent} and reserved {each.reserved}; its receipts say {expected[each.account]}"
        for each in standings
        if each.spent != expected[each.account] or each.reserved != NOTHING
    ]
    verified = run(shop, "budget", "verify")
    return problems + ([verified.stdout + verified.stderr] if verified.returncode else [])
