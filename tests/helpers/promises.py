"""Configurations for what they promise, as text: parts to put together, and ways to read what comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sfumato.config import Config, read_config
from sfumato.explain import PolicyExplanation, explain
from sfumato.query.reports.policy import ReportGuarantee
from sfumato.wire.guarantee import AccountPromise, SourceTotal

PRICES = "epsilon_per = 0.15\ndelta_per = 1e-10\n"
PARTNER = f'[budgets.partner]\n{PRICES}information = 3000\ncalls = 30\nresets = "monthly"\n'
EVERYONE = f'[budgets.everyone]\n{PRICES}information = 4000\ncalls = 40\nresets = "monthly"\n'
ENGINE = '[engines.e]\ntype = "duckdb"\n'
ANNA = '[analysts.anna]\nbudget = "partner"\n'
NO_RELEASES = "tables = []\n"
"""At the end of a budget: it pays for nothing, so no release is paid from it."""


def table(name: str = "t", source: str = "t.parquet", unit: str = "u", more: str = "") -> str:
    head = f'[tables.{name}]\nengine = "e"\nsource = "{source}"\nprivacy_unit = "{unit}"\n{more}'
    return f'{head}measures.people = {{ count = "units" }}\n'


TABLE = ENGINE + table()


def analysts(*names: str, organisation: str = "", more: str = "") -> str:
    line = f'organisation = "{organisation}"\n' if organisation else ""
    return "".join(f'[analysts.{name}]\nbudget = "partner"\n{line}{more}' for name in names)


def report(name: str, on: str = "t", more: str = "") -> str:
    head = f'[reports.{name}]\ntable = "{on}"\ntime = "at"\nepsilon = 1\n{more}'
    return f'{head}statistics.clicks = {{ count = "rows" }}\n'


def guarantee(epsilon: int, unit: Any = "person", events: int = 10, *, exact: bool = False) -> ReportGuarantee:
    """The guarantee of a report; for a person with so many events."""
    from fractions import Fraction

    count = events if unit == "person" else 1
    whole = Fraction(epsilon)
    return ReportGuarantee(unit, whole, whole / count, 1, count, ("clicks",), 1, 1, 1, exact)


def config(text: str, folder: Path = Path("/")) -> Config:
    return read_config(text, folder, {})


def explain_text(text: str, analyst: str | None = None, **guarantees: ReportGuarantee) -> PolicyExplanation:
    return explain(config(text), analyst, guarantees)


def promise(text: str, place: int = 0) -> AccountPromise:
    return explain_text(text).guarantee.accounts[place]


def total(text: str, analyst: str | None = None, **guarantees: ReportGuarantee) -> SourceTotal:
    """The total of the only source."""
    [found] = explain_text(text, analyst, **guarantees).guarantee.sources
    return found
