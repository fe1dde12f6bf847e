"""Equal meaning, one charge: every spelling of a question through the whole path, on one ledger."""

from __future__ import annotations

import importlib.util
import random
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import pytest

from sfumato.accounting import NOTHING, Charge
from sfumato.answer import PlannedRequest, Runtime, answer
from sfumato.config import Budget, LedgerSettings
from sfumato.ledger import Account, open_ledger
from sfumato.query.plan import plan
from sfumato.query.policy import Policy, Prices, TablePolicy
from sfumato.query.sql import read_sql

NOW = datetime(2026, 11, 15, tzinfo=UTC)
PRICES = Prices(Fraction(3, 20), Fraction(1, 10**10))
ANNA = Account("analyst:anna", Budget(PRICES, Charge(10**6, 10**6)))


def loaded(name: str) -> ModuleType:
    """A module of the tests of the planner, whichever folder the tests were started from."""
    path = Path(__file__).parents[1] / "query" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"query_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


spellings, columns = loaded("test_spellings"), loaded("conftest")


class Empty:
    """An engine whose table has no rows, and counts how often it is asked."""

    asked = 0

    def run(self, query: object) -> list[tuple[object, ...]]:
        self.asked += 1
        return []


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(spellings.QUESTIONS)))
def test_two_hundred_spellings_are_charged_once(number, tmp_path):
    tables = TablePolicy(
        "engagements",
        "member_id",
        {column.name: column for column in columns.COLUMNS},
        {measure.name: measure for measure in columns.MEASURES},
        version="2026-11-15",
    )
    policy, coin, engine = Policy({"engagements": tables}), random.Random(number), Empty()
    (tmp_path / "books").mkdir()
    with open_ledger(LedgerSettings("sqlite:books/l.db", tmp_path / "fence"), tmp_path) as ledger:
        desk = Runtime({"engagements": engine}, ledger, b"k" * 32, "epoch", lambda: NOW)
        given = []
        for _ in range(spellings.SPELLINGS):
            sql = spellings.spelled(spellings.QUESTIONS[number], coin)
            given.append(answer(PlannedRequest("anna", (ANNA,), plan(read_sql(sql, policy), policy, PRICES)), desk))
        [standing] = ledger.standings([ANNA], NOW)
    first, *repeats = given
    assert first.receipt.charge == standing.spent > NOTHING
    assert all(repeat.receipt.repeat and repeat.receipt.charge == NOTHING for repeat in repeats)
    assert len({str((repeat.rows, repeat.receipt.digest)) for repeat in given}) == 1
    assert engine.asked == 1
