"""What every side of the port `Contributions` must keep, and the reference: bounding one person at a time."""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
import pytest
from sqlglot import exp

from sfumato.engines import Engine
from sfumato.engines.contributions import CODE_BITS, ContributionQuery, Contributions
from sfumato.errors import InvalidArgument
from sfumato.mechanisms import context
from sfumato.release.bounding import ORDER_BITS, KeyOrder, count_people, fold_pairs, keys_per_person

TABLE = "events"
SECRET = b"a job's own secret"
SELECT = KeyOrder.of(SECRET, "select")

Row = tuple[Any, Any]
Kept = dict[Any, set[Any]]


def bits(value: object) -> int:
    """The 64 bits behind a value of one column."""
    return value % 2**64 if isinstance(value, int) else text_bits(str(value))


def text_bits(*texts: str) -> int:
    joined = "".join(f"{len(text)}:{text}" for text in texts)
    return int.from_bytes(hashlib.md5(joined.encode(), usedforsecurity=False).digest()[8:], "little")


def rank(label: str, person: int, key: int, secret: bytes = SECRET) -> int:
    seed = hmac.digest(secret, context(purpose="bounding", label=label), "sha256")
    a, b, c = (int.from_bytes(seed[place : place + 8], "little") for place in (0, 8, 16))
    x = ((a | 1) * person + (b | 1) * key + c) % 2**64
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x = (x ^ x >> 33) * factor % 2**64
    return x >> 64 - ORDER_BITS


def reference(rows: Iterable[Row], max_keys: int, label: str = "select", bits: Any = bits) -> Kept:
    """What every person keeps, one person at a time."""
    of: Kept = {}
    for person, key in rows:
        if person is not None and key is not None:
            of.setdefault(person, set()).add(key)

    def place(person: object, key: Any) -> tuple[int, Any, Any]:
        return rank(label, bits(person), bits(key)), key if isinstance(key, int) else bits(key), key

    return {
        person: set(sorted(keys, key=lambda key, person=person: place(person, key))[:max_keys])
        for person, keys in of.items()
    }


def counted(kept: Kept) -> Counter[Any]:
    return Counter(key for keys in kept.values() for key in keys)


def by_key(contributions: Contributions, counts: np.ndarray[Any, Any]) -> dict[Any, int]:
    codes = np.flatnonzero(counts)
    keys = [key[0] if len(key) == 1 else key for key in contributions.keys(codes)]
    return dict(zip(keys, counts[codes].tolist(), strict=True))


CROWD = [(person, key) for person in range(12) for key in range(-3, person)]
NAMES = [(f"person {person}", f"key {key}") for person, key in CROWD]
DAYS = [(person, date(2026, 11, 10 + key)) for person, key in CROWD]
GAPS: list[Row] = [(None, 1), (1, None), (None, None), (1, 1), (1, 1), (2, 1)]
KINDS = {
    "integer": ("integer", "integer", CROWD),
    "text": ("text", "text", NAMES),
    "date": ("integer", "date", DAYS),
    "with NULLs": ("integer", "integer", GAPS),
    "no rows": ("integer", "integer", []),
}


class ContributionsContract:
    """`make` is all that a side's test has to write."""

    def make(self, rows: Sequence[tuple[Any, ...]], columns: Mapping[str, str], table: str = TABLE) -> Engine:
        """An engine over one table with these rows; `columns` maps names to types, as `schema` spells them."""
        raise NotImplementedError

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("max_keys", [1, 3, 100])
    def test_people_are_counted_as_one_at_a_time(self, kind, max_keys):
        person, key, rows = KINDS[kind]
        with (
            self.make(rows, {"person": person, "key": key}) as engine,
            engine.contributions(ContributionQuery(TABLE, "person", ("key",))) as contributions,
        ):
            counts = count_people(contributions, SELECT, max_keys=max_keys)
            assert by_key(contributions, counts) == counted(reference(rows, max_keys))

    @pytest.mark.parametrize("kind", ["text", "date"])
    def test_codes_of_keys_ascend_by_their_bits_which_never_change(self, kind):
        person, key, rows = KINDS[kind]
        with (
            self.make(rows, {"person": person, "key": key}) as engine,
            engine.contributions(ContributionQuery(TABLE, "person", ("key",))) as contributions,
        ):
            codes = np.arange(contributions.size)
            found = contributions.key_values.times(1, codes.astype(np.uint64)).tolist()
            assert found == sorted(found)
            assert found == [bits(key) for (key,) in contributions.keys(codes)]
            assert contributions.key_bits < CODE_BITS

    def test_a_key_of_several_columns(self):
        rows = [(person, f"k{key % 3}", key) for person, key in CROWD]
        pairs = [(person, tuple(key)) for person, *key in rows]

        def joined(value: Any) -> int:
            return text_bits(*map(str, value)) if isinstance(value, tuple) else bits(value)

        with (
            self.make(rows, {"person": "integer", "one": "text", "two": "integer"}) as engine,
            engine.contributions(ContributionQuery(TABLE, "person", ("one", "two"))) as contributions,
        ):
            counts = count_people(contributions, SELECT, max_keys=2)
            assert by_key(contributions, counts) == counted(reference(pairs, 2, bits=joined))

    def test_only_rows_that_pass_the_condition_are_read(self):
        where = exp.LT(this=exp.column("key", quoted=True), expression=exp.Literal.number(2))
        with (
            self.make(CROWD, {"person": "integer", "key": "integer"}) as engine,
            engine.contributions(ContributionQuery(TABLE, "person", ("key",), where=where)) as contributions,
        ):
            counts = count_people(contributions, SELECT, max_keys=2)
            assert by_key(contributions, counts) == counted(reference([row for row in CROWD if row[1] < 2], 2))

    def test_some_keys_alone_and_read_again_alone_are_the_same(self):
        with (
            self.make(NAMES, {"person": "text", "key": "text"}) as engine,
            engine.contributions(ContributionQuery(TABLE, "person", ("key",))) as contributions,
        ):
            chosen = np.arange(0, contributions.size, 2)
            counts = count_people(contributions, SELECT, max_keys=2, within=chosen)
            restricted = contributions.restrict(chosen)
            assert restricted.keys(range(restricted.size)) == contributions.keys(chosen)
            again = count_people(restricted, SELECT, max_keys=2)
            assert by_key(restricted, again) == by_key(contributions, counts)

    def test_values_are_summed_pair_by_pair(self):
        rows = [(1, "a", 1.5), (1, "a", None), (1, "b", -2.0), (2, "a", float("inf")), (2, "b", float("nan"))]
        query = ContributionQuery(TABLE, "person", ("key",), ("x",))
        with (
            self.make(rows, {"person": "integer", "key": "text", "x": "number"}) as engine,
            engine.contributions(query) as contributions,
        ):
            size = contributions.size
            sums = np.zeros((2, size), np.int64)
            parts = fold_pairs(
                contributions,
                lambda pairs: (pairs.keys, pairs.rows, pairs.totals("x", 0.5)),
                SELECT,
                max_keys=5,
            )
            for keys, counts, totals in parts:
                np.add.at(sums[0], keys, counts)
                np.add.at(sums[1], keys, totals)
            found = {key: tuple(sums[:, code].tolist()) for code, (key,) in enumerate(contributions.keys(range(size)))}
            assert found == {"a": (3, 3 + 2**36), "b": (1, -4)}  # a row with NaN is dropped, one with NULL counts

    def test_how_many_keys_people_have(self):
        with (
            self.make(CROWD, {"person": "integer", "key": "integer"}) as engine,
            engine.contributions(ContributionQuery(TABLE, "person", ("key",))) as contributions,
        ):
            sizes = Counter(min(8, len(keys)) for keys in reference(CROWD, 100).values())
            assert keys_per_person(contributions, 8).tolist() == [sizes[n] for n in range(9)]

    def test_pairs_come_once_and_ascending_and_a_person_in_one_set(self):
        with (
            self.make(CROWD + CROWD, {"person": "integer", "key": "integer"}) as engine,
            engine.contributions(ContributionQuery(TABLE, "person", ("key",))) as contributions,
        ):
            rows = [word for part in contributions.map_rows(lambda rows: rows.words.tolist()) for word in part]
            for _ in range(2):
                sets = list(contributions.map_pairs(lambda pairs: pairs.words.tolist()))
                assert all(words == sorted(set(words)) for words in sets)
                people = [{word >> contributions.key_bits for word in words} for words in sets]
                assert sum(map(len, people)) == len(set().union(*people))
                assert Counter(rows) == Counter(word for words in sets for word in words * 2)

    def test_what_cannot_be_read_is_refused_before_a_row_is(self):
        with self.make(CROWD, {"person": "integer", "key": "integer"}) as engine:
            engine.check_contributions(ContributionQuery(TABLE, "person", ("key",)))
            with pytest.raises(InvalidArgument, match="must be different"):
                engine.check_contributions(ContributionQuery(TABLE, "person", ("key", "key")))

    def test_closing_twice_is_fine(self):
        with self.make(CROWD, {"person": "integer", "key": "integer"}) as engine:
            contributions = engine.contributions(ContributionQuery(TABLE, "person", ("key",)))
            contributions.close()
            contributions.close()
