"""The corpus of statements: each is accepted or refused as its file says, and its answer is what DuckDB gives."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator

import pytest

from sfumato.errors import Refused
from tests.query.corpus.entries import FREE, LABELS, Entry, fits, read_all
from tests.query.corpus.exact import Shop

ENTRIES = read_all()
COUNTS = Counter(entry.refused or "accepted" for entry in ENTRIES)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    found = Shop(tmp_path_factory.mktemp("corpus"))
    yield found
    found.close()


@pytest.mark.parametrize("entry", [each for each in ENTRIES if not each.refused], ids=lambda entry: entry.id)
def test_the_answer_is_that_of_the_statement_itself(entry: Entry, shop: Shop) -> None:
    found = shop.ask(entry.sql)
    assert (found.cores, found.price) == (entry.cores, entry.price)
    assert (found.price == FREE) == (not found.cores)
    if entry.duckdb != "none":
        assert shop.expect(entry.duckdb or entry.sql).problem(found) == ""


@pytest.mark.parametrize("entry", [each for each in ENTRIES if each.refused], ids=lambda entry: entry.id)
def test_the_refusal_says_its_reason(entry: Entry, shop: Shop) -> None:
    with pytest.raises(Refused) as refusal:
        shop.ask(entry.sql)
    assert fits(str(refusal.value), entry.refused), refusal.value


def test_statements_are_in_the_corpus_once() -> None:
    assert [text for text, times in Counter(entry.sql for entry in ENTRIES).items() if times > 1] == []


def test_the_corpus_is_large_and_its_reasons_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        sys.stdout.write("".join(f"\n{count:5} {label}" for label, count in COUNTS.most_common()) + "\n")
    assert COUNTS.keys() <= {"accepted", *LABELS}
    assert len(ENTRIES) >= 300
    assert COUNTS["accepted"] >= 200
