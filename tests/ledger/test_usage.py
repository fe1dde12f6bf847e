"""Spending per day, and how many analysts exceed a budget: small journals, counted by hand."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from sfumato.accounting import Charge
from sfumato.config import Config, LedgerSettings, read_config
from sfumato.errors import InvalidArgument
from sfumato.ledger import Ledger, open_ledger, payments
from sfumato.ledger.tables import Books
from sfumato.ledger.types import Balance, Row
from sfumato.ledger.usage import (
    ENFORCED,
    MAX_BUDGETS,
    Spent,
    forecast,
    overview,
    own_budgets,
    read_budget,
    read_range,
    usage,
)
from sfumato.wire import SpendingReport, UsageReport
from tests.contracts.ledger import acme, answer, histogram, own, ranking, reserve, top

CONFIG = """
[budgets.partner]
epsilon_per = 0.15
delta_per = 1e-10
information = 3000
calls = 30
mode = "{mode}"
resets = "monthly"
[budgets.small]
epsilon_per = 0.15
delta_per = 1e-10
information = 10
calls = 5
mode = "{mode}"
[budgets.unused]
epsilon_per = 0.15
delta_per = 1e-10
information = 7
calls = 7
[analysts.anna]
budget = "partner"
[analysts.bob]
budget = "small"
[analysts.cleo]
budget = "small"
"""
ANNA, BOB = own("anna", mode="track"), own("bob", mode="track")


def at(day: int, hour: int = 12, month: int = 11) -> datetime:
    return datetime(2026, month, day, hour, tzinfo=UTC)


def november(day: int) -> date:
    return date(2026, 11, day)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    (tmp_path / "books").mkdir()
    with open_ledger(LedgerSettings("sqlite:books.db", tmp_path / "fence"), tmp_path / "books") as opened:
        yield opened


def config(mode: str = "track") -> Config:
    return read_config(CONFIG.format(mode=mode), Path(), {})


def spent(day: date, analyst: str, units: int, calls: int = 0, period: date | None = date(2026, 11, 1)) -> Spent:
    return Spent(day, analyst, f"analyst:{analyst}", period, Charge(units, calls))


# -- usage --


def test_spending_is_added_up_by_day_analyst_and_account(ledger):
    shared = acme(mode="track")
    answer(ledger, histogram("a", ANNA, shared, units=Fraction(1, 3)), now=at(3))
    answer(ledger, histogram("b", ANNA, shared, units=Fraction(1, 3)), now=at(3, 23))
    answer(ledger, top(2, "list", ANNA), now=at(4))
    answer(ledger, top(2, "list", BOB), now=at(4))
    found = usage(ledger, november(1), november(30))
    first = date(2026, 11, 1)
    assert found.rows == [
        Spent(november(3), "anna", "analyst:anna", first, Charge(Fraction(2, 3))),
        Spent(november(3), "anna", "organisation:acme", first, Charge(Fraction(2, 3))),
        Spent(november(4), "anna", "analyst:anna", first, Charge(5, 1)),
        Spent(november(4), "bob", "analyst:bob", first, Charge(5, 1)),
    ]
    assert found.totals() == {
        ("analyst:anna", "anna"): Charge(Fraction(17, 3), 1),
        ("analyst:bob", "bob"): Charge(5, 1),
        ("organisation:acme", "anna"): Charge(Fraction(2, 3)),
    }


def test_the_range_includes_both_its_days_and_days_are_utc(ledger):
    moments = [at(2, 23), at(3, 0), at(4, 23), at(5, 0), datetime(2026, 11, 4, 23, tzinfo=UTC).astimezone()]
    for place, moment in enumerate(moments):
        answer(ledger, histogram(f"h{place}", ANNA), now=moment)
    found = usage(ledger, november(3), november(4))
    assert [(row.day.day, row.charge.information) for row in found.rows] == [(3, 1), (4, 2)]
    assert [row.day.day for row in found.earlier] == [2]


def test_repeats_reservations_and_grants_are_not_spending(ledger):
    answer(ledger, histogram("h", ANNA), now=at(3))
    answer(ledger, histogram("h", ANNA), now=at(5))
    reserve(ledger, top(9, "never settled", ANNA), now=at(5))
    ledger.grant(ANNA, Charge(100), "more", at(5))
    assert [row.day.day for row in usage(ledger, november(1), november(30)).rows] == [3]


def test_what_was_kept_and_recovered_is_spending(ledger):
    reserve(ledger, top(9, "kept", ANNA), now=at(5))
    [hold] = ledger.reservations()
    payments.keep(ledger, hold, at(6))
    with ledger._store.writing() as run:
        books = Books(run)
        moment = "2026-11-07T00:00:00.000000+00:00"
        row = Row(moment, "recover", "table:t", "", "", spent=Charge(2), note="restored copy")
        books.move(Balance("table:t", "", ""), row)
    rows = usage(ledger, november(1), november(30)).rows
    assert [(row.day.day, row.analyst, row.charge) for row in rows] == [(6, "anna", Charge(19, 1)), (7, "", Charge(2))]
    assert rows[1].period is None


def test_an_empty_ledger_has_no_usage_and_no_forecast(ledger):
    found = overview(ledger, config(), november(1), november(30))
    assert SpendingReport.from_attributes(found.usage).to_dict() == {
        "since": "2026-11-01",
        "until": "2026-11-30",
        "rows": [],
    }
    assert found.forecast.periods == found.forecast.analysts == 0
    assert {day.of for days in found.forecast.budgets.values() for day in days} == {0}


def test_many_rows_are_counted_by_the_store(ledger):
    moment = at(3).isoformat(timespec="microseconds")
    with ledger._store.writing() as run:
        rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) "
        run(
            "INSERT INTO journal (sequence, at, kind, account, period, analyst, digest, reserved, spent, granted, "
            f"note, hash) {rows} SELECT i, ?, 'settle', 'analyst:anna', '2026-11-01', 'anna', '', '0 0', "
            "CASE i % 2 WHEN 0 THEN '1/3 1' ELSE '2 0' END, '0 0', '', '' FROM n",
            moment,
        )
    [row] = usage(ledger, november(1), november(30)).rows
    assert row.charge == Charge(Fraction(10_000, 3) + 20_000, 10_000)


@pytest.mark.slow  # a real server
def test_postgresql_says_the_same(postgres_url, tmp_path):
    with open_ledger(LedgerSettings(postgres_url, tmp_path / "fence"), tmp_path) as ledger:
        for place, moment in enumerate((at(2, 23), at(3, 0), at(4, 23), at(5, 0))):
            answer(ledger, histogram(f"h{place}", ANNA, units=Fraction(1, 3)), now=moment)
        found = usage(ledger, november(3), november(4))
    assert [(row.day.day, row.charge) for row in found.rows] == [
        (3, Charge(Fraction(1, 3))),
        (4, Charge(Fraction(1, 3))),
    ]
    assert [row.day.day for row in found.earlier] == [2]


# -- running dry --


def dry(found, budget: Charge, *days: int) -> list[tuple[int, int, int, int]]:
    rows = [found.budgets[budget][day - 1] for day in days]
    return [(row.information, row.calls, row.either, row.of) for row in rows]


def test_days_are_counted_from_each_analysts_first_charge():
    rows = [
        spent(november(10), "anna", 4),
        spent(november(12), "anna", 7),
        spent(november(20), "bob", 11, 1),
        spent(november(21), "bob", 0, 5),
        spent(november(1), "cleo", 10, 5),
    ]
    found = forecast(rows, [Charge(10, 5)])
    assert (found.analysts, found.periods) == (3, 3)
    # bob is above 10 units on day 1 and above 5 calls on day 2, anna above 10 units on day 3; cleo just fits
    assert dry(found, Charge(10, 5), 1, 2, 3, 31) == [(1, 0, 1, 3), (1, 1, 1, 3), (2, 1, 2, 3), (2, 1, 2, 3)]
    assert len(found.budgets[Charge(10, 5)]) == 31


def test_a_period_is_a_curve_of_its_own():
    december = date(2026, 12, 1)
    rows = [
        spent(november(29), "anna", 9),
        spent(december, "anna", 1),  # reserved in November, and paid for there
        spent(december, "anna", 9, period=december),
        spent(date(2026, 12, 2), "anna", 9, period=december),
    ]
    found = forecast(rows, [Charge(9), Charge(10)])
    assert (found.analysts, found.periods) == (1, 2)
    assert dry(found, Charge(9), 1, 2, 3) == [(0, 0, 0, 2), (1, 0, 1, 2), (2, 0, 2, 2)]
    assert dry(found, Charge(10), 1, 2, 3) == [(0, 0, 0, 2), (1, 0, 1, 2), (1, 0, 1, 2)]


def test_weeks_are_curves_where_budgets_reset_weekly():
    rows = [spent(november(day), "anna", 6, period=november(day - day % 7 + 2)) for day in (2, 4, 9, 16)]
    found = forecast(rows, [Charge(10)])
    assert found.periods == 3
    assert dry(found, Charge(10), 1, 2, 3) == [(0, 0, 0, 3), (0, 0, 0, 3), (1, 0, 1, 3)]


def test_what_never_resets_is_looked_at_month_by_month():
    rows = [spent(november(30), "anna", 6, period=None), spent(date(2026, 12, 1), "anna", 6, period=None)]
    assert forecast(rows, [Charge(10)]).periods == 2
    assert dry(forecast(rows, [Charge(10)]), Charge(10), 31) == [(0, 0, 0, 2)]


def test_only_own_accounts_and_whole_periods_count():
    rows = [
        Spent(november(3), "anna", "organisation:acme", date(2026, 11, 1), Charge(99)),
        Spent(november(3), "release", "release:partner", None, Charge(99)),
        spent(november(1), "bob", 99, period=date(2026, 10, 26)),
        spent(november(3), "cleo", 1),
    ]
    found = forecast(rows, [Charge(10)], since=november(1))
    assert (found.analysts, found.periods) == (1, 1)
    assert dry(found, Charge(10), 31) == [(0, 0, 0, 1)]


def test_a_range_that_begins_within_a_month_forecasts_with_the_whole_month(ledger):
    answer(ledger, histogram("a", ANNA, units=6), now=at(2))
    answer(ledger, histogram("b", ANNA, units=6), now=at(20))
    answer(ledger, histogram("c", BOB, units=1), now=at(3))
    answer(ledger, histogram("d", own("cleo", mode="track"), units=1), now=at(31, month=10))
    found = overview(ledger, config(), november(15), november(30), budgets=[Charge(10, 1)])
    assert [row.day.day for row in found.usage.rows] == [20]
    assert (found.forecast.analysts, found.forecast.periods) == (2, 2)  # cleo spent nothing in November
    assert dry(found.forecast, Charge(10, 1), 18, 19) == [(0, 0, 0, 2), (1, 0, 1, 2)]


def test_a_tracked_budget_is_exceeded_and_an_enforced_one_says_that_it_hides(ledger):
    answer(ledger, histogram("a", own("bob", information=10, mode="track"), units=11), now=at(2))
    tracked = overview(ledger, config("track"), november(1), november(30))
    assert dry(tracked.forecast, Charge(10, 5), 1) == [(1, 0, 1, 1)]
    assert ENFORCED not in tracked.forecast.notes
    assert ENFORCED in overview(ledger, config("enforce"), november(1), november(30)).forecast.notes


def test_a_list_that_noise_ended_counts_as_what_it_cost(ledger):
    answer(ledger, top(5, "list", ANNA), ranking(2), now=at(2))
    found = overview(ledger, config(), november(1), november(30), budgets=[Charge(5, 1), Charge(6, 1)])
    assert dry(found.forecast, Charge(5, 1), 1) == [(1, 0, 1, 1)]
    assert dry(found.forecast, Charge(6, 1), 1) == [(0, 0, 0, 1)]


def test_a_budget_of_nothing_is_exceeded_by_every_charge():
    found = forecast([spent(november(3), "anna", 1)], [Charge()])
    assert dry(found, Charge(), 1, 2) == [(1, 0, 1, 1), (1, 0, 1, 1)]


def test_shares_rise_and_a_larger_budget_lasts_longer():
    rows = [spent(november(1 + (n * 7) % 28), f"a{n % 9}", n % 5 + 1, n % 3) for n in range(200)]
    budgets = [Charge(units, units // 2) for units in (5, 20, 60, 500)]
    found = forecast(rows, budgets)
    for kind in ("information", "calls", "either"):
        curves = [[getattr(day, kind) for day in found.budgets[budget]] for budget in budgets]
        assert all(curve == sorted(curve) for curve in curves)
        assert all(
            large <= small for one, other in itertools.pairwise(curves) for small, large in zip(one, other, strict=True)
        )
    for days in found.budgets.values():
        assert all(max(day.information, day.calls) <= day.either <= day.of == 9 for day in days)


# -- serial form --


def test_the_serial_form(ledger):
    answer(ledger, top(2, "list", ANNA), now=at(3))
    found = overview(ledger, config(), november(1), november(5), budgets=[Charge(4, 1)])
    serial = UsageReport.of_overview(found).to_dict()
    assert json.loads(json.dumps(serial)) == serial
    assert list(serial) == ["since", "until", "rows", "forecast", "notes"]
    assert serial["rows"] == [
        {
            "day": "2026-11-03",
            "analyst": "anna",
            "account": "analyst:anna",
            "period": "2026-11-01",
            "charge": {"information": "5", "calls": "1"},
        }
    ]
    [tried] = serial["forecast"]
    assert tried["budget"] == {"information": "4", "calls": "1"}
    assert tried["days"][0] == {"day": 1, "dry": {"information": 1, "calls": 0, "either": 1}, "of": 1}
    assert [day["day"] for day in tried["days"]] == [*range(1, 32)]
    assert tried["days"][0] == {"day": 1, "dry": {"information": 1, "calls": 0, "either": 1}, "of": 1}


def test_the_default_budgets_are_those_that_analysts_have():
    assert own_budgets(config()) == [Charge(10, 5), Charge(3000, 30)]
    without = read_config(CONFIG.format(mode="track").partition("[analysts.anna]")[0], Path(), {})
    assert own_budgets(without) == [Charge(7, 7), Charge(10, 5), Charge(3000, 30)]


def test_too_many_budgets_are_refused(ledger):
    budgets = [Charge(n) for n in range(MAX_BUDGETS + 1)]
    with pytest.raises(InvalidArgument, match="at most 10"):
        overview(ledger, config(), november(1), november(2), budgets=budgets)


@pytest.mark.parametrize(
    "text", ["", "3000", "3000,", ",30", "3000,30,1", "3000, 30", "-1,3", "1e3,1", "1" * 16 + ",1"]
)
def test_what_is_no_budget_is_told_so(text):
    assert read_budget("3000,30") == Charge(3000, 30)
    with pytest.raises(InvalidArgument, match="such as 3000,30"):
        read_budget(text)


def test_the_default_range_is_the_last_31_days():
    now = datetime(2026, 11, 15, 1, tzinfo=UTC)
    assert read_range(None, None, now) == (date(2026, 10, 16), date(2026, 11, 15))
    assert read_range(None, "2026-03-31", now) == (date(2026, 3, 1), date(2026, 3, 31))
    assert read_range("2026-01-01", "2026-01-01", now) == (date(2026, 1, 1), date(2026, 1, 1))
    assert read_range("2025-11-15", None, now)[0] == date(2025, 11, 15)


@pytest.mark.parametrize(
    ("since", "until", "words"),
    [
        ("2026-11-02", "2026-11-01", "after"),
        ("2025-11-01", "2026-11-02", "at most 366 days"),
        ("yesterday", None, "since: write a day"),
        ("2026-02-30", None, "since: write a day"),
        ("20261101", None, "since: write a day"),
        (None, "2026-W10-1", "until: write a day"),
        ("0001-01-01", None, "since: write a day"),
        (None, "9999-12-31", "until: write a day"),
        ("", None, "since: write a day"),
    ],
)
def test_a_range_that_is_none_is_told_so(since, until, words):
    with pytest.raises(InvalidArgument) as refusal:
        read_range(since, until, at(15))
    assert words in str(refusal.value)


def test_a_year_is_the_most_that_is_read(ledger):
    usage(ledger, november(1), november(1) + timedelta(days=365))
    with pytest.raises(InvalidArgument, match="at most 366 days"):
        usage(ledger, november(1), november(1) + timedelta(days=366))
