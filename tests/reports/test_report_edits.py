"""A policy that is edited: what was sealed under another one stays bounded, and is told."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from sfumato.cli import main
from sfumato.config.noise_key import new_key
from sfumato.errors import ConfigError, NotSupported, RateLimited
from sfumato.reports import quota
from sfumato.session import Session
from sfumato.wire import Report

pytestmark = pytest.mark.slow  # a session for each

NOW = datetime(2026, 11, 15, tzinfo=UTC)
CONFIG = """
[ledger]
url = "sqlite:ledger.db"
[engines.local]
type = "duckdb"
database = "rows.duckdb"
[tables.events]
engine = "local"
source = "events"
[reports.daily]
table = "events"
time = "day"
levels = ["day", "month"]
zone = "{zone}"
epsilon = {epsilon}
max_versions = {versions}
entities = ["shop"]
[reports.daily.statistics]
visits = {{ sum = "n" }}
[budgets.none]
epsilon_per = 0.1
delta_per = 1e-9
information = 0
calls = 0
[analysts.anna]
budget = "none"
entities = {{ shop = ["{shop}"] }}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with duckdb.connect(tmp_path / "rows.duckdb") as connection:
        connection.execute(
            "CREATE TABLE events AS SELECT DATE '2026-03-01' + i::INT AS day, 1 AS shop, 5 AS n FROM range(10) t(i)"
        )
    new_key(tmp_path / "noise.key")
    return tmp_path


def written(folder: Path, *, zone: str = "UTC", epsilon: str = "1", versions: int = 1, shop: str = "1") -> Path:
    path = folder / "sfumato.toml"
    path.write_text(CONFIG.format(zone=zone, epsilon=epsilon, versions=versions, shop=shop))
    return path


def asked(config: Path, **question: Any) -> Report:
    whole = {"statistics": "visits", "entity": {"shop": "1"}, "start": "2026-03-01", "end": "2026-03-05"}
    with Session(config, clock=lambda: NOW) as session:
        return session.report({**whole, **question}, analyst="anna")


def test_days_are_the_same_days_in_every_zone(folder):
    """A column of days has no clock: in another zone the same rows would be drawn again."""
    asked(written(folder, zone="Europe/Berlin"))
    for zone in ("Asia/Tokyo", "America/New_York", "Pacific/Kiritimati", "Etc/GMT+12"):
        with pytest.raises(NotSupported, match="sealed under another definition"):
            asked(written(folder, zone=zone))


@pytest.mark.parametrize(
    ("zone", "day"), [("Asia/Beirut", "2026-03-29"), ("America/Havana", "2026-03-08"), ("Africa/Cairo", "2026-04-24")]
)
def test_days_that_have_no_midnight_are_no_other_days(folder, zone, day):
    after = str(date.fromisoformat(day) + timedelta(days=1))
    asked(written(folder), start=day, end=after)
    with pytest.raises(NotSupported, match="sealed under another definition"):
        asked(written(folder, zone=zone), start=day, end=after)


def test_what_was_put_back_can_be_sealed_anew(folder):
    question = {"start": "2026-03-01", "end": "2026-03-02"}
    asked(written(folder, epsilon="100", versions=3), **question)
    asked(written(folder, epsilon="50", versions=3), **question)
    with duckdb.connect(folder / "rows.duckdb") as connection:
        connection.execute("UPDATE events SET n = 500")
    config = written(folder, epsilon="100", versions=3)
    [before] = asked(config, **question).rows
    assert before["visits"] < 100
    with Session(config, clock=lambda: NOW) as session:
        done = session.reseal("daily", **question)
    assert (done.places, done.version, done.done) == (1, 3, True)
    [after] = asked(config, **question).rows
    assert after["visits"] > 400


def test_one_asker_cannot_fill_the_ledger(folder, monkeypatch):
    monkeypatch.setattr(quota, "MAX_NEW", 4)
    monkeypatch.setattr(quota, "MAX_PER_DAY", 6)
    config, moments = written(folder), [NOW]
    with Session(config, clock=lambda: moments[-1]) as session:

        def shown(start: str, end: str) -> Report:
            question = {"statistics": "visits", "entity": {"shop": "1"}, "granularity": "day"}
            return session.report({**question, "start": start, "end": end}, analyst="anna")

        with pytest.raises(NotSupported, match="5 ranges that were never asked for, of at most 4 at once"):
            shown("2026-03-01", "2026-03-06")
        shown("2026-03-01", "2026-03-05")
        shown("2026-03-01", "2026-03-07")  # two more
        with pytest.raises(RateLimited, match="more than 6 new ranges in one day") as refused:
            shown("2026-03-07", "2026-03-08")
        assert refused.value.wait_s == 86_400
        assert shown("2026-03-01", "2026-03-07").receipt.repeat  # what is sealed is not counted
        moments.append(NOW + timedelta(days=1))
        shown("2026-03-07", "2026-03-08")


def test_exact_totals_alone_promise_nothing(folder):
    config = written(folder)
    config.write_text(
        config.read_text().replace("max_versions", 'exact_totals = "known to the advertiser"\nmax_versions')
    )
    with pytest.raises(ConfigError, match=r"reports\.daily\.exact_totals: are all that this report has"):
        Session(config)


def test_a_policy_that_is_put_back_shows_what_it_showed(folder):
    first = asked(written(folder, versions=2))
    other = asked(written(folder, versions=2, epsilon="0.1"))
    assert other.receipt.data_version == "seal 2"
    again = asked(written(folder, versions=2))
    assert (again.rows, again.receipt.digest, again.receipt.repeat) == (first.rows, first.receipt.digest, True)
    with pytest.raises(NotSupported, match="sealed under another definition"):
        asked(written(folder, versions=2, epsilon="0.5"))


def test_explain_tells_of_other_policies(folder):
    asked(written(folder, versions=2))
    told = CliRunner().invoke(main, ["report", "explain", "--config", str(written(folder, versions=2))]).output
    assert "another policy" not in told
    told = CliRunner().invoke(main, ["report", "explain", "--config", str(written(folder, epsilon="0.1"))]).output
    assert "drawn under another policy" in " ".join(told.split())


def test_a_name_that_no_row_can_have_is_found_before_it_is_missed(folder):
    config = written(folder, shop="01")
    result = CliRunner().invoke(main, ["policy", "check", "--config", str(config)])
    assert result.exit_code == 1
    assert "analysts.anna.entities.shop" in result.output
    assert "no shop can be called '01'" in " ".join(result.output.split())
