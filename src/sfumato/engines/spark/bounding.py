"""Which pairs of a person and a key are kept, in Spark's SQL.

The names are ours alone: a row has `person`; the key, as `key0`, `key1`, ..., or as the `code` and `bits` of a key that
the driver knows; and values. An identity is an expression that is the same for equal keys.

    h = the upper 20 bits of xxhash64(a, b, bits of the person, bits of the key)

A person keeps the first L keys by (h, bits, key), as `sfumato.release.bounding` has it. Only people with more are
ordered. There are two forms, which keep the same pairs. `as_sets` has a person's keys in one row: it is the faster one.
`as_windows` sorts rows, and spills to disk: for a person with more keys than a row can hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.engines.contributions import CODE_BITS, Order
from sfumato.engines.spark.types import INTEGERS, bare

Frame = Any
"""A data frame of Spark; as with sessions, there is no class in common."""


def functions_of(frame: Frame) -> Any:
    """The functions that make columns of a frame: those of Spark Connect are others."""
    if ".connect." in type(frame).__module__:
        from pyspark.sql.connect import functions
    else:
        from pyspark.sql import functions  # type: ignore[no-redef]
    return functions


def expression(frame: Frame, text: str) -> Any:
    """A column of a frame, from SQL."""
    return functions_of(frame).expr(text)


def signed(number: int) -> str:
    """64 bits as a BIGINT."""
    return f"{number - 2**64 if number >= 2**63 else number}L"


def bits_of(columns: Sequence[str], kinds: Sequence[str]) -> str:
    """64 bits of a value, for ever: an integer as it is, else from the MD5 of texts with their lengths."""
    if len(columns) == 1 and bare(kinds[0]) in INTEGERS:
        return f"CAST({columns[0]} AS BIGINT)"
    texts = [f"CAST({column} AS STRING)" for column in columns]
    joined = ", ".join(f"length({text}), ':', {text}" for text in texts)
    return f"CAST(conv(left(md5(concat({joined})), 16), 16, -10) AS BIGINT)"


def rank(order: Order, person: str, key: str) -> str:
    """h, given the bits of both."""
    hashed = f"xxhash64({signed(order.a)}, {signed(order.b)}, {person}, {key})"
    return f"shiftrightunsigned({hashed}, {CODE_BITS})"


@dataclass(frozen=True, slots=True)
class Identity:
    """The columns that tell keys apart, and the types of those that are values."""

    columns: tuple[str, ...]
    kinds: Mapping[str, str]

    @property
    def struct(self) -> str:
        return f"struct({', '.join(self.columns)})"

    def bits(self, of: str = "") -> str:
        """The 64 bits of a key; `of` is an expression of its struct."""
        at = [f"{of}.{column}" if of else column for column in self.columns]
        return at[1] if self.columns == CODED.columns else bits_of(at, [self.kinds[name] for name in self.columns])

    def ranked(self, order: Order, keys: str) -> str:
        """An array of keys, as an ascending one of structs (h, bits, key)."""
        with_bits = f"transform({keys}, x -> struct({self.bits('x')} AS bits, x AS key))"
        place = rank(order, "person_bits", "x.bits")
        return f"sort_array(transform({with_bits}, x -> struct({place} AS h, x.bits AS bits, x.key AS key)))"

    def all_columns(self, of: str) -> list[str]:
        return [f"{of}.{column} AS {column}" for column in self.columns]


CODED = Identity(("code", "bits"), {})


def sets_of(rows: Frame, identity: Identity, person_bits: str) -> Frame:
    """One row per person: `keys`, each once, and the 64 bits of the person.

    Not by `collect_set`: where rows are in parts by person already, Spark adds them in one step, and the set of a
    person may then have a key twice (it compares rows in two forms, of which none is equal to the other).
    """
    pairs = rows.select("person", *identity.columns).repartition("person").distinct()
    grouped = pairs.groupBy("person").agg(expression(rows, f"collect_list({identity.struct})").alias("keys"))
    return grouped.selectExpr("person", f"{person_bits} AS person_bits", "keys")


def as_sets(sets: Frame, identity: Identity, order: Order, most: int) -> Frame:
    """One row per kept pair."""
    first = f"transform(slice({identity.ranked(order, 'keys')}, 1, {most}), x -> x.key)"
    kept = sets.selectExpr("person", f"explode(CASE WHEN size(keys) <= {most} THEN keys ELSE {first} END) AS key")
    return kept.selectExpr("person", *identity.all_columns("key"))


def as_windows(
    rows: Frame, identity: Identity, person_bits: str, order: Order, most: int, place: str = "row_number"
) -> Frame:
    """The kept ones of distinct pairs, or with `dense_rank` the rows of these; with `key_bits` and `person_bits`."""
    placed = rows.selectExpr("*", f"{person_bits} AS person_bits", f"{identity.bits()} AS key_bits")
    placed = placed.selectExpr("*", f"{rank(order, 'person_bits', 'key_bits')} AS h")
    by = ", ".join(("h", "key_bits", *identity.columns))
    return placed.selectExpr("*", f"{place}() OVER (PARTITION BY person ORDER BY {by}) AS place").where(
        f"place <= {most}"
    )


def chosen_values(rows: Frame, order: Order, most: int) -> Frame:
    """At most `most` rows of each pair with a `value`, by (g, value, number); as `Pairs.values` chooses them."""
    numbered = rows.selectExpr(
        "*", "CAST(row_number() OVER (PARTITION BY person, code, value ORDER BY value) - 1 AS BIGINT) AS number"
    )
    hashed = f"xxhash64({signed(order.a)}, {signed(order.b)}, person_bits, key_bits, value, number)"
    ranked = numbered.selectExpr("*", f"shiftrightunsigned({hashed}, 32) AS g")
    place = "row_number() OVER (PARTITION BY person, code ORDER BY g, value, number)"
    return ranked.selectExpr("*", f"{place} AS value_place").where(f"value_place <= {most}")
