"""What every side of the port `Contributions` must keep, and the reference: bounding one person at a time."""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from itertools import product
from typing import Any

import numpy as np
import pytest
from sqlglot import exp

from sfumato.engines import Engine
from sfumato.engines.contributions import CODE_BITS, ContributionQuery, Contributions
from sfumato.errors import InvalidArgument
from sfumato.mechanisms import context
from sfumato.release import Count, Sum
from sfumato.release.bounding import ORDER_BITS, KeyOrder, count_people, fold_pairs
from sfumato.release.bounding.pulled import as_port
from tests.helpers.repeats import repeats

TABLE = "events"
SECRET = b"a job's own secret"
SELECT = KeyOrder.of(SECRET, "select")

Row = tuple[Any, Any]
Kept = dict[Any, set[Any]]


def bits(value: object) -> int:
    """The 64 bits behind a value of one column, as an integer with a sign."""
    if isinstance(value, bool):
        return text_bits(str(value).lower())
    return value if isinstance(value, int) else text_bits(str(value))


def text_bits(*texts: str) -> int:
    joined = "".join(f"{len(text)}:{text}" for text in texts)
    return int.from_bytes(hashlib.md5(joined.encode(), usedforsecurity=False).digest()[:8], "big", signed=True)


def xxhash64(*columns: int) -> int:
    """As Spark has it over BIGINTs: the hash of a column, by the definition for 8 bytes, is the seed of the next."""
    p1, p2, p3, p4, p5 = (
        *(0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9),
        *(0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5),
    )
    seed = 42
    for column in columns:
        lane = rotated(column % 2**64 * p2 % 2**64, 31) * p1 % 2**64
        x = (rotated((seed + p5 + 8) % 2**64 ^ lane, 27) * p1 + p4) % 2**64
        x = (x ^ x >> 33) * p2 % 2**64
        x = (x ^ x >> 29) * p3 % 2**64
        seed = x ^ x >> 32
    return seed


def rotated(word: int, places: int) -> int:
    return (word << places | word >> 64 - places) % 2**64


def seeds(label: str, secret: bytes = SECRET) -> tuple[int, int]:
    seed = hmac.digest(secret, context(purpose="bounding", label=label), "sha256")
    return int.from_bytes(seed[:8], "little"), int.from_bytes(seed[8:16], "little")


def rank(label: str, person: int, key: int, secret: bytes = SECRET) -> int:
    return xxhash64(*seeds(label, secret), person, key) >> 64 - ORDER_BITS


def reference(rows: Iterable[Row], max_keys: int, label: str = "select", bits: Any = bits) -> Kept:
    """What every person keeps, one person at a time."""
    of: Kept = {}
    for person, key in rows:
        if person is not None and key is not None:
            of.setdefault(person, set()).add(key)

    def place(person: object, key: Any) -> tuple[int, Any, Any]:
        return rank(label, bits(person), bits(key)), bits(key), key

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
FLAGS = [(key > 2, person % 2 == 0) for person, key in CROWD]
TEXTS = ("", "a", "A", "😀", "e\u0301", "é", "\uffff", "it's", "a\\", "two\nlines", "1:a", "日本")
WRITTEN = [(person, key) for person in TEXTS for key in TEXTS]
WIDE = (-(2**63), -(2**62) - 1, -1, 0, 1, 2**40, 2**62, 2**63 - 1)
ENDS = [(person, key) for person in WIDE for key in WIDE]
GAPS: list[Row] = [(None, 1), (1, None), (None, None), (1, 1), (1, 1), (2, 1)]
KINDS = {
    "integer": ("integer", "integer", CROWD),
    "text": ("text", "text", NAMES),
    "texts that hurt": ("text", "text", WRITTEN),
    "wide integers": ("integer", "integer", ENDS),
    "date": ("integer", "date", DAYS),
    "people by dates": ("date", "integer", [(day, person) for person, day in DAYS]),
    "boolean": ("boolean", "boolean", FLAGS),
    "with NULLs": ("integer", "integer", GAPS),
    "no rows": ("integer", "integer", []),
}


def opened(engine: Engine, query: ContributionQuery) -> Contributions:
    """The port, whichever side the engine has."""
    return as_port(engine.contributions(query))


class ContributionsContract:
    """`make` is all that an engine's test has to write."""

    def make(self, rows: Sequence[tuple[Any, ...]], columns: Mapping[str, str], table: str = TABLE) -> Engine:
        """An engine over one table with these rows; `columns` maps names to types, as `schema` spells them."""
        raise NotImplementedError

    @pytest.mark.parametrize(
        ("kind", "max_keys"),
        [*product(KINDS, repeats((3,), (1, 3, 100))), *repeats([("text", 1), ("text", 100)], [])],
    )
    def test_people_are_counted_as_one_at_a_time(self, kind, max_keys):
        person, key, rows = KINDS[kind]
        with (
            self.make(rows, {"person": person, "key": key}) as engine,
            opened(engine, ContributionQuery(TABLE, "person", ("key",))) as contributions,
        ):
            counts = contributions.count_people(SELECT, max_keys=max_keys)
            assert by_key(contributions, counts) == counted(reference(rows, max_keys))

    def test_a_key_of_several_columns(self):
        rows = [(person, f"k{key % 3}", key) for person, key in CROWD]
        pairs = [(person, tuple(key)) for person, *key in rows]

        def joined(value: Any) -> int:
            return text_bits(*map(str, value)) if isinstance(value, tuple) else bits(value)

        with (
            self.make(rows, {"person": "integer", "one": "text", "two": "integer"}) as engine,
            opened(engine, ContributionQuery(TABLE, "person", ("one", "two"))) as contributions,
        ):
            counts = contributions.count_people(SELECT, max_keys=2)
            assert by_key(contributions, counts) == counted(reference(pairs, 2, bits=joined))

    def test_only_rows_that_pass_the_condition_are_read(self):
        where = exp.LT(this=exp.column("key", quoted=True), expression=exp.Literal.number(2))
        with (
            self.make(CROWD, {"person": "integer", "key": "integer"}) as engine,
            opened(engine, ContributionQuery(TABLE, "person", ("key",), where=where)) as contributions,
        ):
            counts = contributions.count_people(SELECT, max_keys=2)
            assert by_key(contributions, counts) == counted(reference([row for row in CROWD if row[1] < 2], 2))

    def test_some_keys_alone_and_read_again_alone_are_the_same(self):
        with (
            self.make(NAMES, {"person": "text", "key": "text"}) as engine,
            opened(engine, ContributionQuery(TABLE, "person", ("key",))) as contributions,
        ):
            chosen = np.arange(0, contributions.size, 2)
            counts = contributions.count_people(SELECT, max_keys=2, within=chosen)
            restricted = contributions.restrict(chosen)
            assert restricted.keys(range(restricted.size)) == contributions.keys(chosen)
            again = restricted.count_people(SELECT, max_keys=2)
            assert by_key(restricted, again) == by_key(contributions, counts)

    def test_how_many_keys_people_have(self):
        with (
            self.make(CROWD, {"person": "integer", "key": "integer"}) as engine,
            opened(engine, ContributionQuery(TABLE, "person", ("key",))) as contributions,
        ):
            sizes = Counter(min(8, len(keys)) for keys in reference(CROWD, 100).values())
            assert contributions.keys_per_person(8).tolist() == [sizes[n] for n in range(9)]

    def test_what_cannot_be_read_is_refused_before_a_row_is(self):
        with self.make(CROWD, {"person": "integer", "key": "integer"}) as engine:
            engine.check_contributions(ContributionQuery(TABLE, "person", ("key",)))
            with pytest.raises(InvalidArgument, match="must be different"):
                engine.check_contributions(ContributionQuery(TABLE, "person", ("key", "key")))

    def test_closing_twice_is_fine(self):
        with self.make(CROWD, {"person": "integer", "key": "integer"}) as engine:
            contributions = opened(engine, ContributionQuery(TABLE, "person", ("key",)))
            contributions.close()
            contributions.close()

    @pytest.mark.parametrize("kind", KINDS)
    def test_weights_are_added_as_one_at_a_time(self, kind):
        person, key, rows = KINDS[kind]
        weights = np.array([0, 60, 30, 20], np.int64)
        expected: Counter[Any] = Counter()
        degrees = {who: len(keys) for who, keys in reference(rows, 100).items()}
        for who, keys in reference(rows, 3).items():
            expected.update(dict.fromkeys(keys, int(weights[min(degrees[who], 3)])))
        with (
            self.make(rows, {"person": person, "key": key}) as engine,
            opened(engine, ContributionQuery(TABLE, "person", ("key",))) as contributions,
        ):
            sums = contributions.sum_weights(SELECT, weights)
            assert by_key(contributions, sums) == expected
            without = np.flatnonzero(sums)[::2]
            gone = set(contributions.keys(without))
            left = [(who, each) for who, each in rows if (each,) not in gone]
            again = contributions.sum_weights(SELECT, weights, without=without)
            assert by_key(contributions, again).keys() == counted(reference(left, 3)).keys()

    @pytest.mark.parametrize("within", [True, False])
    def test_statistics_are_added_up_over_the_kept_pairs(self, within):
        rows = [(person, f"k{key}", (person * 7 + key) / 4) for person, key in CROWD for _ in range(1 + key % 3)]
        query = ContributionQuery(TABLE, "person", ("key",), ("x",))
        with (
            self.make(rows, {"person": "integer", "key": "text", "x": "number"}) as engine,
            opened(engine, query) as contributions,
        ):
            codes = np.arange(1, contributions.size, 2)
            names = [key for (key,) in contributions.keys(codes)]
            pairs = [row for row in rows if row[1] in names or not within]
            kept = reference([row[:2] for row in pairs], 2)
            count, total = contributions.add_up(
                [Count(2), Sum("x", 0, 100, step=1)], SELECT, max_keys=2, codes=codes, within=within
            )
            sums: dict[Any, list[float]] = {}
            for person, key, x in rows:
                if key in kept.get(person, ()):
                    sums.setdefault((person, key), []).append(x)
            for at, name in enumerate(names):
                theirs = [xs for (_, key), xs in sums.items() if key == name]
                assert count.arrays[0][at] == sum(min(2, len(xs)) for xs in theirs)
                assert total.arrays[0][at] == sum(min(100, sum(map(round, xs))) for xs in theirs)


class CodedContributionsContract(ContributionsContract):
    """Of an engine that hands over its rows."""

    @pytest.mark.parametrize("kind", ["text", "texts that hurt", "wide integers", "date", "boolean"])
    def test_codes_of_keys_ascend_by_their_bits_which_never_change(self, kind):
        person, key, rows = KINDS[kind]
        with (
            self.make(rows, {"person": person, "key": key}) as engine,
            engine.contributions(ContributionQuery(TABLE, "person", ("key",))) as contributions,
        ):
            codes = np.flatnonzero(count_people(contributions, SELECT, max_keys=100))
            found = contributions.key_values.bits(codes.astype(np.uint64)).view(np.int64).tolist()
            assert found == sorted(found)
            assert found == [bits(key) for (key,) in contributions.keys(codes)]
            assert contributions.key_bits < CODE_BITS

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
