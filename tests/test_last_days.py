"""A clock at the end of the calendar: no date comes after 9999-12-31, and nothing ends in a traceback for it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import sfumato as sf
from sfumato.accounting import Charge
from sfumato.cli import main
from sfumato.config import Budget, Version
from sfumato.errors import InvalidArgument, NotSupported, RateLimited
from sfumato.ledger.api_keys import ApiKeys
from sfumato.ledger.usage import read_range, usage
from sfumato.query.policy import Prices
from sfumato.reports.quota import MAX_NEW, MAX_PER_DAY, Quota
from sfumato.session import Session
from tests.helpers.advertised import BY_DAY, new_ads

pytestmark = pytest.mark.slow  # a session for each moment

LAST = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
MOMENTS = [
    LAST,
    datetime(9999, 12, 27, tzinfo=UTC),
    datetime(9999, 12, 1, tzinfo=UTC),
    datetime(9999, 1, 1, tzinfo=UTC),
]
RHYTHMS = ["hourly", "daily", "weekly", "monthly"]


@pytest.mark.parametrize("moment", MOMENTS, ids=str)
@pytest.mark.parametrize("resets", ["never", "daily", "weekly", "monthly"])
def test_the_last_period_has_no_next(resets: Any, moment: datetime) -> None:
    budget = Budget(Prices(Fraction(1), Fraction(1, 10**6)), Charge(1, 1), resets)
    began, ends = budget.period(moment)
    if resets == "never":
        assert (began, ends) == (None, None)
        return
    assert began is not None
    assert began <= moment.date()
    assert ends is None or ends > moment.date()
    if moment == LAST:
        assert ends is None


@pytest.mark.parametrize("moment", MOMENTS, ids=str)
@pytest.mark.parametrize("rhythm", RHYTHMS)
def test_every_moment_has_a_version(rhythm: Any, moment: datetime) -> None:
    """Versions are as long as ever, so that their order is that of time."""
    began = moment - timedelta(days=moment.weekday()) if rhythm == "weekly" else moment
    assert Version(rhythm).at(moment).startswith(f"{rhythm} {began:%Y-%m}")


@pytest.mark.parametrize("moment", MOMENTS, ids=str)
@pytest.mark.parametrize(("resets", "rhythm"), [*zip(["daily", "weekly", "monthly", "never"], RHYTHMS, strict=True)])
def test_questions_and_reports_are_answered(tmp_path: Path, moment: datetime, resets: str, rhythm: str) -> None:
    world = new_ads(tmp_path / "world", resets=resets, version=f'"{rhythm}"', cap=True)
    with world.open(moment) as session:
        answer = session.ask("SELECT region, members FROM engagements GROUP BY region", analyst="anna")
        assert session.recall(answer.receipt.digest, analyst="anna").rows == answer.rows
        assert session.estimate(sf.Total("engagements", "members"), analyst="anna").left == answer.receipt.left
        assert session.budget("anna").resets == answer.receipt.resets
        assert session.charges("anna").rows
        assert session.report(BY_DAY, analyst="anna").rows
        with pytest.raises(NotSupported, match="must lie in the years 1900 to 9998"):
            session.report({**BY_DAY, "start": "9999-12-01", "end": "9999-12-31"}, analyst="anna")
        found = usage(session.ledger, *read_range(None, None, moment))
        assert sum(row.charge.information for row in found.rows if row.account == "analyst:anna") > 0
    with world.open(moment) as session:
        assert session.ask("SELECT region, members FROM engagements GROUP BY region", analyst="anna").receipt.repeat


class TestKeys:
    def open(self, folder: Path, moment: datetime) -> Session:
        return new_ads(folder / "world").open(moment)

    def test_a_key_that_does_not_expire_is_valid(self, tmp_path: Path) -> None:
        with self.open(tmp_path, LAST) as session:
            text, _ = ApiKeys(session.ledger).create("anna", "analyst", None, LAST)
            assert ApiKeys(session.ledger).find(text, LAST) is not None

    def test_a_last_day_beyond_the_calendar_is_refused(self, tmp_path: Path) -> None:
        with self.open(tmp_path, LAST) as session, pytest.raises(InvalidArgument, match="too far away; leave it out"):
            ApiKeys(session.ledger).create("anna", "analyst", date.max, LAST)

    @pytest.mark.parametrize("expires", ["1h", "90d", "99999d", "9999-12-31"])
    def test_on_the_command_line_too(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expires: str) -> None:
        world = new_ads(tmp_path / "world")
        monkeypatch.setattr(import_module("sfumato.cli.keys"), "now", lambda: LAST)
        command = ["keys", "create", "--analyst", "anna", "--expires", expires, "--config", str(world.path)]
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 2, result.output
        assert "expires" in result.output
        assert "too far away; leave it out" in " ".join(result.output.split())
        assert result.exception is None or isinstance(result.exception, SystemExit)


def test_a_quota_on_the_last_day_is_refused_with_a_wait() -> None:
    quota = Quota()
    for _ in range(MAX_PER_DAY // MAX_NEW):
        quota.take("anna", MAX_NEW, LAST)
    with pytest.raises(RateLimited) as refused:
        quota.take("anna", MAX_NEW, LAST)
    assert refused.value.wait_s >= 1
