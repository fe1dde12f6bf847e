"""A world with two tables about people and reports, and its twin, in which the second table and its report never were.

What an analyst without a right to the second table is told must be the same in both.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

from tests.helpers.advertised import REPORTS, new_ads
from tests.helpers.worlds import World

PAYROLL = """
[tables.payroll]
engine = "local"
source = "engagements"
privacy_unit = "member_id"
version = { value = "v1" }
max_k = 7
cap = "common"
[tables.payroll.columns]
article = {}
region = { domain = ["emea", "apac", "amer"], max_groups = 1 }
market = { domain = ["emea", "apac", "amer"] }
[tables.payroll.measures]
staff = { count = "units" }
"""

SALARIES = """
[reports.salaries]
table = "ads"
time = "at"
levels = ["day"]
epsilon = 1
[reports.salaries.statistics]
paid = { count = "rows" }
"""

MALLORY = """
[analysts.mallory]
budget = "partner"
tables = ["engagements", "clicks"]
"""

_NAMES = (
    *("payroll", "PAYROLL", "Payroll", "pAyRoLl", '"payroll"', '"PAYROLL"', "`payroll`", "[payroll]", "'payroll'"),
    *("main.payroll", '"main"."payroll"', "rows.main.payroll", "payroll AS engagements", "payroll engagements"),
    *("payrol", "payrolls", "pay_roll", "payroll\u200b", "\u0440ayroll", "(payroll)", "(SELECT * FROM payroll)"),
)
_FORMS = (
    "SELECT COUNT(DISTINCT member_id) FROM {}",
    "SELECT staff FROM {}",
    "SELECT region, staff FROM {} GROUP BY region ORDER BY 2 DESC LIMIT 3",
    "SELECT article FROM {} GROUP BY article ORDER BY COUNT(DISTINCT member_id) DESC LIMIT 8",
    "SELECT DISTINCT region FROM {}",
    "SELECT * FROM {}",
    "EXPLAIN SELECT staff FROM {}",
)
_SQL = (
    *(form.format(name) for form, name in itertools.product(_FORMS, _NAMES)),
    "SELECT 1",
    "SHOW TABLES",
    "DESCRIBE payroll",
    "SELECT payroll.region, members FROM engagements GROUP BY payroll.region",
    "SELECT members FROM engagements, payroll",
    "SELECT members FROM engagements JOIN payroll USING (member_id)",
    "SELECT members FROM engagements UNION SELECT staff FROM payroll",
    "SELECT members FROM engagements WHERE region IN (SELECT region FROM payroll)",
    "SELECT members FROM engagements WHERE EXISTS (SELECT 1 FROM payroll)",
    "WITH engagements AS (SELECT * FROM payroll) SELECT staff FROM engagements",
    "SELECT members FROM engagements UNION ALL SELECT staff FROM payroll",
    "SELECT staff FROM information_schema.tables",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM information_schema.columns",
    "SHOW COLUMNS FROM payroll",
    "SELECT * FROM payroll LIMIT 0",
    "SELECT staff FROM payroll WHERE FALSE LIMIT 0",
    "EXPLAIN SELECT * FROM payroll LIMIT 0",
)
_JSON: tuple[dict[str, Any], ...] = tuple(
    {"type": kind, "table": table, "measure": "staff", **({} if kind == "total" else {"by": "region"}), **more}
    for kind, table, more in itertools.product(
        ("top_k", "histogram", "total"),
        ("payroll", "PAYROLL", "payrol", "main.payroll", "salaries", "ads", 7, None),
        ({}, {"where": {"region": "emea"}}),
    )
)

ATTEMPTS: tuple[str | dict[str, Any], ...] = (*_SQL, *({"sql": text} for text in _SQL[:30]), *_JSON)
"""Every way to ask about the table `payroll` that we could think of."""


def new_rights(folder: Path, *, twin: bool = False, analysts: str = MALLORY, **config: Any) -> World:
    """The world with these analysts beside those of `new_world`; or its `twin`."""
    world = new_ads(folder, reports="", **config)
    parts = re.split(r"(?=^\[(?:tables|reports)\.\w+\]$)", REPORTS, flags=re.MULTILINE)
    known = [part for part in parts if "ads]" not in part] if twin else [*parts, PAYROLL, SALARIES]
    own = world.path.read_text().partition("[analysts.tina]")[0]
    world.path.write_text("".join([own, *known, analysts]))
    return world
