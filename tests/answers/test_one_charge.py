"""Equal meaning, one charge: every spelling of a question through the whole path, on one ledger."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from fractions import Fraction

import pytest

from sfumato.accounting import NOTHING, Charge
from sfumato.answer import PlannedRequest, answer
from sfumato.config import Budget, LedgerSettings
from sfumato.ledger import Account, Debit, open_ledger
from sfumato.query.plan import plan
from sfumato.query.policy import Policy, Prices
from sfumato.query.sql import read_sql
from sfumato.spending import Runtime
from tests.helpers.engagements import ENGAGEMENTS
from tests.helpers.repeats import repeats
from tests.query import test_spellings as spellings

NOW = datetime(2026, 11, 15, tzinfo=UTC)
PRICES = Prices(Fraction(3, 20), Fraction(1, 10**10))
ANNA = Account("analyst:anna", Budget(PRICES, Charge(10**6, 10**6)))


class Empty:
    """An engine whose table has no rows, and counts how often it is asked."""

    asked = 0

    def run(self, query: object) -> list[tuple[object, ...]]:
        self.asked += 1
        return []


# That a spelling has the digest of the question is shown by tests/query/test_spellings.py, for more of them. This shows
# that what has one digest is charged once, for which any two spellings would do.
SPELLINGS = repeats(40, 1000)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(spellings.QUESTIONS)))
def test_many_spellings_are_charged_once(number, tmp_path):
    policy, coin, engine = Policy({"engagements": ENGAGEMENTS}), random.Random(number), Empty()
    (tmp_path / "books").mkdir()
    with open_ledger(LedgerSettings("sqlite:l.db", tmp_path / "fence"), tmp_path / "books") as ledger:
        runtime = Runtime({"engagements": engine}, ledger, b"k" * 32, "epoch")
        given = []
        for _ in range(SPELLINGS):
            sql = spellings.spelled(spellings.QUESTIONS[number], coin)
            made = plan(read_sql(sql, policy), policy, PRICES)
            names = made.digest, made.atom, runtime.epoch, made.data_version
            planned = PlannedRequest(made, Debit("anna", (ANNA,), *names, made.request, made.mechanism.worst))
            given.append(answer(planned, runtime, NOW))
        [standing] = ledger.standings([ANNA], NOW)
    first, *repeats = given
    assert first.receipt.charge == standing.spent > NOTHING
    assert all(repeat.receipt.repeat and repeat.receipt.charge == NOTHING for repeat in repeats)
    assert len({str((repeat.rows, repeat.receipt.digest)) for repeat in given}) == 1
    assert engine.asked == 1
