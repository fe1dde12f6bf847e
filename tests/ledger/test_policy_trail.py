"""Limits, prices, modes and rights leave a trace in the journal when they change."""

from __future__ import annotations

import getpass
import hashlib
import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sfumato.cli import main
from sfumato.config import load_config
from sfumato.ledger import open_ledger
from sfumato.ledger.policy_trail import PolicyChange, policy_changes, record_policy
from sfumato.ledger.types import Row, moment_text
from tests.helpers.advertised import new_ads
from tests.helpers.worlds import NOW, World, new_world

pytestmark = pytest.mark.slow  # processes of their own

KNOWN = "known to the advertiser"
UNKNOWN = 'domain = "unknown", max_groups = 1'
CAPPED = "[tables.engagements]\ncap = 'common'\n"
PEOPLE = "\n[analysts.mallory]\nbudget = 'partner'\n"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A world whose policy was seen once."""
    world = new_world(tmp_path / "world", information=300, calls=20)
    world.open().close()
    return world


def changes(world: World) -> list[PolicyChange]:
    """What the journal says after a session has seen the file as it is now; the latest first."""
    with world.open() as session:
        assert session.ledger.verify() == []
        return policy_changes(session.ledger)


def edit(world: World, old: str, new: str) -> None:
    text = world.path.read_text()
    assert old in text
    world.path.write_text(text.replace(old, new))


def run(world: World, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["budget", "history", "--policy", *arguments, "--config", str(world.path)])


def test_the_first_entry_lists_everything_that_is_in_force(world: World) -> None:
    [first] = changes(world)
    found = {each.setting: (each.before, each.after) for each in first.changes}
    assert found["budgets.partner.information"] == (None, "300")
    assert found["budgets.partner.epsilon_per"] == (None, "1/2")
    assert found["budgets.partner.mode"] == (None, "enforce")
    assert found["budgets.partner.resets"] == (None, "monthly")
    assert found["analysts.anna.role"] == (None, "analyst")
    assert found["analysts.anna.organisation"] == (None, "acme")
    assert found["organisations.acme.budget"] == (None, "common")


@pytest.mark.parametrize(
    ("old", "new", "setting", "before", "after"),
    [
        ("information = 300", "information = 900", "budgets.partner.information", "300", "900"),
        ("calls = 20", "calls = 21", "budgets.partner.calls", "20", "21"),
        ('mode = "enforce"', 'mode = "track"', "budgets.partner.mode", "enforce", "track"),
        ('resets = "monthly"', 'resets = "daily"', "budgets.partner.resets", "monthly", "daily"),
        ("delta_per = 1e-6", "delta_per = 1e-5", "budgets.partner.delta_per", "1/1000000", "1/100000"),
        ("[analysts.olga]\n", "[analysts.olga]\nrole = 'owner'\n", "analysts.olga.role", "analyst", "owner"),
        ("[analysts.olga]\n", "[analysts.olga]\ntables = []\n", "analysts.olga.tables", None, "[]"),
        ("[analysts.olga]\n", "[analysts.olga]\nwhere = 'n = 1'\n", "analysts.olga.where", None, "n = 1"),
        ('organisation = "acme"\n[analysts.ben', "[analysts.ben", "analysts.anna.organisation", "acme", None),
        ("[tables.engagements]\n", CAPPED, "tables.engagements.cap", None, "common"),
        (UNKNOWN, UNKNOWN.replace("1", "2"), "tables.engagements.columns.job_title.max_groups", "1", "2"),
        ("\n[analysts.olga]\n", f"{PEOPLE}[analysts.olga]\n", "analysts.mallory.budget", None, "partner"),
    ],
)
def test_a_change_is_written_with_what_was_before(
    world: World, old: str, new: str, setting: str, before: str | None, after: str | None
) -> None:
    text = world.path.read_text()
    edit(world, old, new)
    found = changes(world)
    assert len(found) == 2
    latest, first = found
    assert (setting, before, after) in [(each.setting, each.before, each.after) for each in latest.changes]
    assert (latest.at, latest.user) == (NOW.isoformat(timespec="microseconds"), getpass.getuser())
    assert latest.file == hashlib.sha256(world.path.read_bytes()).hexdigest()
    assert first.file == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("old", "new", "setting", "before", "after"),
    [
        ("epsilon = 1\n", "epsilon = 2\n", "statistics.clicks.epsilon", '{"day": "1"}', '{"day": "2"}'),
        ("epsilon = 1\n", f"epsilon = 1\nexact_totals = '{KNOWN}'\n", "exact_totals", "false", "true"),
        ("epsilon = 1\n", "epsilon = 1\nmax_versions = 9\n", "max_versions", "1", "9"),
        ("epsilon = 1\n", "epsilon = 1\nmax_events_per_unit = 9\n", "max_events_per_unit", None, "9"),
        ("entity_fanout = 2", "entity_fanout = 3", "entity_fanout", "2", "3"),
        ("epsilon = 1\n", 'epsilon = { total = 1 }\nnoise = "gaussian"\ndelta = 1e-6\n', "delta", None, "1/1000000"),
        ("epsilon = 1\n", 'epsilon = { total = 1 }\nnoise = "gaussian"\ndelta = 1e-6\n', "noise", None, "gaussian"),
    ],
)
def test_what_bounds_the_promise_of_a_report_leaves_a_trace(
    tmp_path: Path, old: str, new: str, setting: str, before: str | None, after: str
) -> None:
    world = new_ads(tmp_path / "world")
    edit(world, 'levels = ["3h", "day", "month", "quarter", "year"]', 'levels = ["day"]')
    changes(world)
    text = world.path.read_text()
    world.path.write_text(text.replace(old, new, 1))
    latest, _ = changes(world)
    assert (f"reports.ads.{setting}", before, after) in [(a.setting, a.before, a.after) for a in latest.changes]
    assert not latest.first_recorded


def test_the_first_entry_after_an_upgrade_does_not_say_that_it_changed(world: World) -> None:
    """The entries of before have no reports, and of tables the cap. What else has changed since is told as ever."""
    with world.open() as session, session.ledger.writing() as books:
        [(_, note)] = books.policies()
        kept = {name: text for name, text in note["set"].items() if not name.startswith("tables.")}
        earlier = {"user": "x", "file": "y", "set": kept, "unset": []}
        books.run("UPDATE journal SET kind = 'restore', note = '{}' WHERE kind = 'policy'")
        books.append(Row(moment_text(NOW), "policy", "", "", note=json.dumps(earlier)))
    edit(world, "information = 300", "information = 900")
    settings = load_config(world.path)
    with open_ledger(settings.ledger, settings.folder) as ledger:
        record_policy(ledger, settings, NOW)
        record_policy(ledger, settings, NOW)
        latest, _ = policy_changes(ledger)
    assert [(each.setting, each.after) for each in latest.changes] == [("budgets.partner.information", "900")]
    assert latest.first_recorded["tables.engagements.privacy_unit"] == "member_id"
    shown = run(world)
    assert "recorded from here on" in shown.output
    edit(world, UNKNOWN, UNKNOWN.replace("1", "2"))
    settings = load_config(world.path)
    with open_ledger(settings.ledger, settings.folder) as ledger:
        record_policy(ledger, settings, NOW)
        latest, *_ = policy_changes(ledger)
    assert [(each.before, each.after) for each in latest.changes] == [("1", "2")]
    assert not latest.first_recorded


def test_a_policy_that_was_seen_is_not_written_again(world: World) -> None:
    with world.open() as session:
        before = session.ledger.verify(), len(world.tables()["journal"])
    edit(world, "[ledger]", "# another comment\n[ledger]")
    assert len(changes(world)) == 1
    with world.open():
        assert ([], len(world.tables()["journal"])) == before


def test_a_budget_that_is_raised_and_put_back_leaves_two_entries(world: World) -> None:
    edit(world, "information = 300", "information = 900")
    changes(world)
    edit(world, "information = 900", "information = 300")
    latest, raised, _ = changes(world)
    [back], [up] = latest.changes, raised.changes
    assert (back.before, back.after, up.before, up.after) == ("900", "300", "300", "900")


def test_a_variable_of_the_environment_leaves_a_trace_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFUMATO_BUDGETS__PARTNER__INFORMATION", "900")
    latest, first = changes(world)
    [change] = latest.changes
    assert (change.setting, change.after) == ("budgets.partner.information", "900")
    assert latest.file == first.file  # the file is what it was


def test_a_release_sees_the_policy_too(world: World) -> None:
    edit(world, "information = 5000", "information = 6000")
    release = [
        "release",
        "counts",
        "engagements",
        "--unit",
        "member_id",
        "--key",
        "article",
        "--rho",
        "0.5",
        "--delta",
        "1e-6",
    ]
    place = str(world.folder / "articles.csv")
    paid = ["--config", str(world.path), "--budget", "common", "--job", "articles", "--out", place]
    ran = CliRunner().invoke(main, [*release, *paid])
    assert ran.exit_code == 0, ran.output
    settings = load_config(world.path)
    with open_ledger(settings.ledger, settings.folder) as ledger:
        latest, _ = policy_changes(ledger)
    assert [each.after for each in latest.changes] == ["6000"]


def test_several_that_see_a_change_at_once_write_it_once(world: World) -> None:
    edit(world, "information = 300", "information = 900")
    settings = load_config(world.path)
    with open_ledger(settings.ledger, settings.folder) as ledger, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: record_policy(ledger, settings, NOW), range(8)))
        assert len(policy_changes(ledger)) == 2


def test_an_entry_that_is_removed_or_changed_is_named(world: World) -> None:
    edit(world, "information = 300", "information = 900")
    changes(world)
    with closing(sqlite3.connect(world.folder / "ledger.db")) as ledger, ledger:
        ledger.execute("UPDATE journal SET note = replace(note, '900', '300') WHERE kind = 'policy'")
    with world.open() as session:
        assert session.ledger.verify()


def test_the_command_shows_it(world: World) -> None:
    edit(world, "information = 300", "information = 900")
    changes(world)
    shown = run(world)
    assert shown.exit_code == 0, shown.output
    digest = hashlib.sha256(world.path.read_bytes()).hexdigest()
    latest = shown.output.partition("budgets.partner.information")[2].splitlines()[0]
    assert latest.split() == ["300", "900"]
    assert f"by {getpass.getuser()}, file {digest[:12]}" in shown.output
    [row] = json.loads(run(world, "--json", "--rows", "1").output)["rows"]
    assert row["file"] == digest
    assert row["changes"] == [{"setting": "budgets.partner.information", "before": "300", "after": "900"}]
    assert run(world, "--analyst", "anna").exit_code == 2
