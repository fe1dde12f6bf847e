"""One small world, and what two analysts did in it: the ledger that is kept in `ledger/`."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import sfumato as sf
from sfumato.config import load_config
from sfumato.ledger import open_ledger
from sfumato.ledger.migrations import LATEST
from tests.golden import subjects
from tests.golden.comparing import LEDGER
from tests.golden.subjects import NOW, SECRET, Values, roll

SCHEMA = 4  # of the ledger that was recorded
FILES = ("sfumato.toml", "visits.csv", "ads.csv")

CONFIG = """\
[ledger]
url = "sqlite:ledger.db"
fence = "../elsewhere/fence"
[noise]
key_file = "noise.key"
[engines.local]
type = "duckdb"

[tables.visits]
engine = "local"
source = "visits.csv"
privacy_unit = "person"
version = { value = "v1" }
max_k = 10
limit = 40
cap = "common"
[tables.visits.columns]
article = {}
title = { max_groups = 1 }
region = { domain = ["emea", "apac", "amer"], max_groups = 1 }
market = { domain = ["emea", "apac", "amer"] }
day = { type = "date" }
[tables.visits.measures]
people = { count = "units" }
shares = { count = "rows", max_per_unit = 3 }
minutes = { sum = "n", max_per_unit = 20 }

[tables.ads]
engine = "local"
source = "ads.csv"
privacy_unit = "person"
[tables.ads.columns]
at = { type = "timestamp" }

[reports.ads]
table = "ads"
time = "at"
zone = "Europe/Berlin"
levels = ["day", "month"]
entities = ["account", "campaign"]
epsilon = { day = 1, month = 0.5 }
max_versions = 2
[reports.ads.attributes]
title = { domain = ["dentist", "engineer", "nurse"] }
skills = { domain = ["cobol", "rust", "sql"], max_values = 2, separator = ";" }
[reports.ads.statistics]
impressions = { count = "rows", where = { kind = "impression" } }
clicks = { count = "rows", where = { kind = "click" }, of = "impressions", epsilon = 1 }

[budgets.partner]
epsilon_per = 1
delta_per = 1e-6
information = 300
calls = 20
resets = "monthly"
[budgets.common]
epsilon_per = 1
delta_per = 1e-6
information = 2000
calls = 200
[budgets.public]
epsilon_per = 1
delta_per = 1e-6
information = 100
calls = 10

[organisations.acme]
budget = "common"
[analysts.anna]
budget = "partner"
organisation = "acme"
[analysts.ben]
budget = "partner"
organisation = "acme"
"""

TOP = sf.TopK("visits", by="article", measure="people", k=3)
LONGER = sf.TopK("visits", by="article", measure="people", k=6)
WITHOUT_COUNTS = sf.TopK("visits", by="article", measure="people", k=4, where={"region": "emea"}, counts=False)
MARKETS = sf.Histogram("visits", by="market", measure="shares")
TITLES = sf.Histogram("visits", by="title", measure="people", where={"day": {"ge": "2026-11-03"}})
MINUTES = sf.Total("visits", measure="minutes", where={"market": ["emea", "apac"]})
REGIONS = "SELECT region, people FROM visits GROUP BY region ORDER BY people DESC"
NEW = sf.TopK("visits", by=["region", "title"], measure="people", k=2)

CALL = "golden-call-1", b'{"type": "histogram"}'

BY_TITLE = {
    "report": "ads",
    "statistics": ["impressions", "clicks"],
    "entity": {"account": "a1"},
    "attribute": "title",
    "start": "2026-10-30",
    "end": "2026-11-04",
    "granularity": "day",
}
MONTHS = {
    "report": "ads",
    "statistics": ["clicks"],
    "entity": {"account": "a1", "campaign": "a1c0"},
    "start": "2026-10-01",
    "end": "2026-11-03",
}
RUNNING = {**MONTHS, "start": "2026-10-30", "granularity": "day", "options": ["monotone", "totals", "actions"]}
SKILLS = {
    "report": "ads",
    "statistics": ["impressions"],
    "entity": {"account": "a0"},
    "attribute": "skills",
    "start": "2026-10-01",
    "end": "2026-11-01",
    "top": 2,
}


def write_world(folder: Path) -> None:
    """The configuration and the rows, without a ledger."""
    (folder / "sfumato.toml").write_text(CONFIG)
    visits, ads = ["person,article,title,region,market,day,n"], ["person,account,campaign,kind,title,skills,at"]
    titles, regions = ("analyst", "engineer", "nurse"), ("amer", "apac", "emea")
    skills = ("cobol", "rust", "sql", "sql;rust", "")
    for person in range(200):
        own = titles[roll(3, "title", person)], regions[roll(3, "region", person)]
        for slot in range(2):
            article = int(10 * (roll(1000, "article", person, slot) / 1000) ** 2)
            market, day, n = (
                regions[roll(3, person, slot)],
                1 + roll(9, person, slot, "day"),
                roll(9, person, slot, "n"),
            )
            visits.append(f"p{person},article-{article},{own[0]},{own[1]},{market},2026-11-0{day},{n}")
    for event in range(200):
        account = roll(2, "account", event)
        kind = "click" if roll(4, "kind", event) == 0 else "impression"
        title = ("dentist", "engineer", "nurse", "other")[roll(4, "ad", event)]
        at = f"2026-{('10-2', '10-3', '11-0')[roll(3, event)]}{roll(2, event, 'day')} {10 + roll(12, event)}:30:00"
        names = f"a{account},a{account}c{roll(2, 'campaign', event)}"
        ads.append(f"p{roll(60, 'who', event)},{names},{kind},{title},{skills[roll(5, 'skill', event)]},{at}")
    (folder / "visits.csv").write_text("\n".join(visits) + "\n")
    (folder / "ads.csv").write_text("\n".join(ads) + "\n")
    write_key(folder)


def write_key(folder: Path) -> None:
    key = folder / "noise.key"
    key.write_bytes(SECRET)
    key.chmod(0o600)


def copy_world(folder: Path, *, ledger: bool) -> Path:
    """The committed world in a folder of its own, with its ledger or without one; the fence is beside it.

    The ledger gets today's schema.
    """
    folder /= "world"
    folder.mkdir()
    for name in FILES:
        shutil.copyfile(LEDGER / name, folder / name)
    shutil.copyfile(LEDGER / "noise.key", folder / "noise.key")
    (folder / "noise.key").chmod(0o600)
    if ledger:
        path = folder / "ledger.db"
        path.touch(0o600)
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript((LEDGER / "ledger.sql").read_text("utf-8"))
        fence_of(folder).parent.mkdir()
        shutil.copyfile(LEDGER / "fence", fence_of(folder))
        with open_ledger(load_config(folder / "sfumato.toml").ledger, folder) as old:
            assert old.migrate() == LATEST - SCHEMA
    return folder


def fence_of(folder: Path) -> Path:
    return folder.parent / "elsewhere" / "fence"


def dump(folder: Path) -> str:
    """A closed ledger as SQL."""
    with closing(sqlite3.connect(folder / "ledger.db")) as connection:
        return "\n".join(connection.iterdump()) + "\n"


def tables(folder: Path, *names: str) -> Values:
    """Tables of a ledger, read past all of Sfumato's code."""
    found: Values = {}
    with closing(sqlite3.connect(folder / "ledger.db")) as connection:
        for name in names:
            cursor = connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2")
            columns = [column for column, *_ in cursor.description]
            found[name] = [dict(zip(columns, row, strict=True)) for row in cursor]
    return found


def opened(folder: Path) -> sf.Session:
    """A session that leaves open reservations alone."""
    return sf.open(folder / "sfumato.toml", clock=lambda: NOW, finish=False)


def ask(session: sf.Session) -> Values:
    """The questions of the two analysts, in their order."""
    answers = {
        "top": session.ask(TOP, analyst="anna"),
        "top again": session.ask(TOP, analyst="anna"),
        "longer": session.ask(LONGER, analyst="anna"),
        "without counts": session.ask(WITHOUT_COUNTS, analyst="anna"),
        "regions": session.ask(REGIONS, analyst="anna"),
        "regions of ben": session.ask(REGIONS, analyst="ben"),
        "titles": session.ask(TITLES, analyst="ben"),
        "markets": session.ask(MARKETS, analyst="ben", call=subjects.call(*CALL)),
        "listing": session.ask("SELECT DISTINCT region FROM visits", analyst="ben"),
        "markets again": session.ask(MARKETS, analyst="ben", call=subjects.call(*CALL)),
    }
    return {name: answer.to_dict() for name, answer in answers.items()}


def report(session: sf.Session) -> Values:
    reports = {"by title": BY_TITLE, "months": MONTHS, "running": RUNNING, "skills": SKILLS}
    return {name: session.report(question, analyst="anna").to_dict() for name, question in reports.items()}


def fail(session: sf.Session, folder: Path) -> None:
    """A question that the engine cannot answer: it stays reserved."""
    rows, away = folder / "visits.csv", folder / "away.csv"
    rows.rename(away)
    try:
        session.ask(MINUTES, analyst="ben")
    except sf.EngineFailed:
        return
    finally:
        away.rename(rows)
    raise AssertionError("the engine did not fail")


def release(folder: Path, rho: int = 5) -> sf.Released:
    """A release with a name, paid by a budget."""
    ledger: dict[str, Any] = {"config": folder / "sfumato.toml", "budget": "public", "job": "ads-1"}
    return sf.release_counts("ads", unit="person", key="title", rho=rho, delta=1e-6, **ledger)


def standing(session: sf.Session) -> Values:
    """What everybody has spent and may spend; without what was asked, which was not kept before schema 6."""
    told: Values = {}
    for analyst in ("anna", "ben"):
        charges = session.charges(analyst).to_dict()
        charges["rows"] = [_omit(row, "request", "sql", "reason") for row in charges["rows"]]
        told[analyst] = {"budget": session.budget(analyst).to_dict(), "charges": charges}
    return told


def tell(folder: Path) -> Values:
    """Live through all of it, in an empty ledger; what it gave."""
    with opened(folder) as session:
        told: dict[str, Any] = {"answers": ask(session), "reports": report(session)}
        subjects.grant(session, "analyst:anna", 7, 1)
        told["key"] = subjects.new_key(session, "ben")
        told["known of the key"] = subjects.found_key(session, told["key"])
        told["release"] = subjects.released(release(folder))
        fail(session, folder)
        told["standing"] = standing(session)
    return json.loads(json.dumps(told))


def go_on(folder: Path) -> Values:
    """Finish what is open, ask for it again, and ask something new; what that gave."""
    with subjects.fixed_world(), opened(folder) as session:
        told: dict[str, Any] = {"finished": session.finish()}
        answers = {"minutes": session.ask(MINUTES, analyst="ben"), "new": session.ask(NEW, analyst="anna")}
        told["answers"] = {name: answer.to_dict() for name, answer in answers.items()}
        told["standing"] = standing(session)
    return json.loads(json.dumps(told))


WRITTEN = ("balances", "atoms", "paid", "holds", "keys", "calls", "places", "seals", "cells", "domains")


def written(folder: Path) -> Values:
    """What is written by a new ledger, but for what follows from the notes of answers."""
    with subjects.fixed_world():
        with opened(folder) as session:
            told: dict[str, Any] = {"answers": ask(session), "reports": report(session)}
            subjects.grant(session, "analyst:anna", 7, 1)
            subjects.new_key(session, "ben")
            fail(session, folder)
        told["estimate"] = _estimate(folder)
    found = tables(folder, "ledger", "journal", "answers", *WRITTEN)
    del found["ledger"][0]["head"]
    for row in found["journal"]:
        del row["hash"]
        row["note"] = _without(row["note"], "answer", "question")
    for row in found["answers"]:
        row["body"] = _without(row["body"], "notes")
    told["fence"] = [{name: value for name, value in line.items() if name != "head"} for line in fence_lines(folder)]
    return json.loads(json.dumps({**told, "tables": found}))


def released(folder: Path) -> Values:
    """A release that is paid by a new ledger: its secret follows from the noise key and a nonce."""
    with subjects.fixed_world():
        return subjects.released(release(folder))


def fence_note(ledger: Path) -> str:
    """The name of the file that says which fence belongs to the ledger in this place."""
    return f"{hashlib.sha256(str(ledger.resolve()).encode()).hexdigest()[:32]}.place"


def begin(folder: Path) -> str:
    """A new ledger; its identity."""
    opened(folder).close()
    return str(tables(folder, "ledger")["ledger"][0]["id"])


def set_back(folder: Path) -> None:
    """Make the ledger a copy of itself from before the last answer."""
    seen = max(line["sequence"] for line in fence_lines(folder))
    with closing(sqlite3.connect(folder / "ledger.db")) as connection, connection:
        connection.execute("DELETE FROM journal WHERE sequence >= ?", (seen,))
        connection.execute(
            "UPDATE ledger SET (sequence, head) = (SELECT sequence, hash FROM journal WHERE sequence = ?)", (seen - 1,)
        )


def fence_lines(folder: Path) -> list[Values]:
    return [json.loads(line) for line in fence_of(folder).read_text().split("\n") if line]


def empty(rows: Path) -> None:
    """Leave no row in a CSV file."""
    rows.write_text(rows.read_text().splitlines()[0] + "\n")


def _estimate(folder: Path) -> Values:
    with opened(folder) as session:
        return session.estimate(NEW, analyst="anna").to_dict()


def _without(text: str, *names: str) -> Any:
    """JSON without some names; other text as it is."""
    return _omit(json.loads(text), *names) if text.startswith("{") else text


def _omit(value: Values, *names: str) -> Values:
    return {key: item for key, item in value.items() if key not in names}
