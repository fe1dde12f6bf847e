"""What an engine can do, as far as questions depend on it. All of it is known before anything is charged."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from sfumato.types import TYPES, Type, Value

TextOrder: TypeAlias = Literal["code points", "UTF-16"]

LAST_ALIKE = "\ud7ff"
"""Up to here both orders of text are one, whatever text is compared with it."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What an engine can do. What it cannot do is refused by `policy check`, at the start, or when a question is read.

    `every_group`: it returns all groups of a query, however many there are, and fails otherwise. `nested`: it runs
    queries over queries, and windows, by which a query bounds what one person adds. `keys`: the types of columns that
    it can group by. `conditional_sums`: it adds up several statistics of a report in one query. `text_order`: what
    decides between groups of one size, and how text is compared; the order by code point is the one of Python.
    `functions`: those of one row that it computes as all engines do. `values`: it computes sums, means, variances and
    quantiles of bounded values exactly. `name` is its own.
    `completeness` and `releases`: how it is known that no row was left out, and how releases read rows, in words.
    """

    every_group: bool = False
    nested: bool = True
    keys: frozenset[Type] = frozenset(get_args(Type))
    conditional_sums: bool = True
    text_order: TextOrder = "code points"
    functions: frozenset[str] = frozenset()
    values: bool = False
    name: str = "this engine"
    completeness: str = "a query reads all rows, or fails"
    releases: str = "none"

    def key_problem(self, column: str, kind: Type) -> str:
        """Why a column cannot be grouped by, in words; "" where it can."""
        if kind in self.keys:
            return ""
        able = ", ".join(name for name in TYPES if name in self.keys)
        return f"{column} holds {TYPES[kind].words}, and its engine groups by {able} only; use it as a filter"

    def groups_problem(self, *, guaranteed: bool) -> str:
        """Why the bound of a column on a person's groups cannot be kept, in words; "" where it can."""
        if self.nested or guaranteed:
            return ""
        return (
            "its engine has no nested queries, so the bound cannot be enforced; write guaranteed = true where the data "
            "keeps it, or leave max_groups out"
        )

    def measure_problem(self, counts: str) -> str:
        """Why a measure cannot be counted, in words; "" where it can."""
        if self.nested or counts == "units":
            return ""
        return 'its engine has no nested queries, so a person\'s rows cannot be bounded; use { count = "units" }'

    def values_problem(self, word: str) -> str:
        """Why a statistic of values cannot be computed, in words."""
        return (
            f"{word} cannot be asked here: {self.name} is not known to compute it as other engines do; ask of a copy "
            "of the rows in Parquet, DuckDB or PostgreSQL"
        )

    def bound_problem(self, column: str, bound: Value | None) -> str:
        """Why a column cannot be compared with the end of a range, in words; "" where it can."""
        if self.text_order == "code points" or not isinstance(bound, str) or max(bound, default="") <= LAST_ALIKE:
            return ""
        return f"{column} is compared with a range, and its engine orders {max(bound)!r} in another place; use a list"

    def function_problem(self, expression: str, functions: Collection[str]) -> str:
        """Why an expression cannot be computed, in words; "" where it can."""
        missing = sorted({*functions} - self.functions)
        if not missing:
            return ""
        return (
            f"{expression[:60]} cannot be asked here: {self.name} is not known to compute {missing[0]} as other "
            "engines do; ask the owner for a view that has it as a column"
        )

    def cap_problem(self) -> str:
        """Why a person's events in a report cannot be capped, in words; "" where they can."""
        if self.nested:
            return ""
        return "its engine has no nested queries, so a person's events cannot be capped; leave it out"


USUAL = Abilities()
"""Those of an engine that says nothing else."""
