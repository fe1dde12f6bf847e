"""Answers without noise, and what DuckDB makes of the same statement over the same rows.

The mechanisms are replaced in this process, by ones that release what they are given. The product has no such mode.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import sqlglot
from sqlglot import exp

from sfumato.mechanisms import MECHANISMS, Mechanism, Release
from sfumato.mechanisms.group_measures import GroupQuantile, GroupSums
from sfumato.query.serial import read_question
from sfumato.query.sql import write_sql
from sfumato.session import Session
from sfumato.types import Type
from tests.query.corpus.entries import FREE
from tests.query.corpus.shop import TODAY, write_shop


@contextmanager
def without_noise() -> Iterator[None]:
    """Every mechanism releases the groups that have anybody, with their exact counts, the largest first."""

    def release(self: Mechanism, exact: Any, _: Any) -> Release[Any]:
        pairs = [*exact.items()] if isinstance(exact, dict) else [*exact]
        is_total = isinstance(exact, dict) and [*exact] == [()]
        rows = sorted((pair for pair in pairs if pair[1] or is_total), key=lambda pair: -pair[1])
        steps = self.steps(len(rows), stopped=False)
        return Release(self.name, tuple(rows), steps, self.reserve, stopped=False, complete=True)

    def choose(self: GroupQuantile, exact: Any, _: Any) -> list[list[int]]:
        """The first point up to which the share of the values lies."""
        chosen = []
        for counts in exact:
            points = [point for point in sorted(counts) for _ in range(counts[point])]
            chosen.append([points[max(math.ceil(self.quantile * len(points)) - 1, 0)] if points else 0])
        return chosen

    with ExitStack() as patches:
        for kind in {*MECHANISMS.values()}:
            patches.enter_context(mock.patch.object(kind, "release", release))
        patches.enter_context(mock.patch.object(GroupSums, "release", lambda _, exact, __: [[*each] for each in exact]))
        patches.enter_context(mock.patch.object(GroupQuantile, "release", choose))
        yield


@dataclass(frozen=True)
class Found:
    """What the product makes of a statement: its questions in their canonical form, their price, and its rows."""

    cores: tuple[str, ...]
    price: str
    columns: dict[str, Type]
    rows: list[tuple[Any, ...]]


class Shop:
    """The shop, open for questions and beside plain DuckDB."""

    def __init__(self, folder: Path) -> None:
        path = write_shop(folder / "shop")
        self._oracle = duckdb.connect()
        self._oracle.execute(f"ATTACH '{path.parent / 'rows.duckdb'}' AS shop (READ_ONLY)")
        for table, unit in (("orders", "customer_id"), ("visits", "visitor_id")):
            self._oracle.execute(f"CREATE TABLE {table} AS FROM shop.{table} WHERE {unit} IS NOT NULL")
        self._oracle.execute("CREATE TABLE products AS FROM shop.products")
        self._oracle.execute("DETACH shop")
        self._oracle.execute("CREATE SCHEMA public")
        for table in ("orders", "visits", "products"):
            self._oracle.execute(f"CREATE VIEW public.{table} AS FROM main.{table}")
        self.session = Session(path)

    def close(self) -> None:
        self.session.close()
        self._oracle.close()

    def ask(self, sql: str) -> Found:
        """The answer to a statement without noise. Raises `Refused` as the product does."""
        with without_noise():
            answer = self.session.ask(sql, analyst="anna")
        rows = [tuple(row.values()) for row in answer.rows]
        if answer.receipt.mechanism == "policy":
            return Found((), FREE, dict(answer.columns), rows)
        policy = self.session._catalog.policy_of("anna", self.session.now())
        cores = tuple(write_sql(each.core, policy) for each in read_question(sql, policy).cores)
        price = self.session.estimate(sql, analyst="ben").charge.worst
        return Found(cores, str(price), dict(answer.columns), rows)

    def expect(self, sql: str) -> Expected:
        """What DuckDB makes of the statement. Rows without a person or without a key are left out, as they are here."""
        tree = sqlglot.parse_one(sql, dialect="duckdb")
        if not isinstance(tree, exp.Query):
            return Expected(*self._run(sql), None, ())
        changed = [self._leave_out_nulls(select) for select in tree.find_all(exp.Select)]
        limit = tree.args.get("limit")
        is_any = isinstance(tree, exp.Select) and limit is not None and not tree.args.get("order")
        if is_any:  # any rows would do: all of them are looked up
            tree.set("limit", None)
        text = tree.sql("duckdb") if any(changed) or is_any else sql
        names, rows = self._run(text)
        return Expected(
            names, rows, min(int(limit.expression.name), len(rows)) if is_any else None, _order(tree, names)
        )

    def _run(self, text: str) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """The names of columns, and the rows. The day is that of the data version."""
        cursor = self._oracle.execute(re.sub(r"(?i)\bcurrent_date\b(\s*\(\s*\))?", f"DATE '{TODAY}'", text))
        return tuple(column[0] for column in cursor.description), cursor.fetchall()

    def _leave_out_nulls(self, select: exp.Select) -> bool:
        """Add to a SELECT of a table that its keys are not NULL, where there are such rows; whether there are."""
        source, group = select.args.get("from_"), select.args.get("group")
        if (
            source is None
            or group is None
            or select.args.get("joins")
            or source.this.name.casefold() not in ("orders", "visits")
        ):
            return False
        found = False
        for node in group.expressions:
            key = node
            if isinstance(node, exp.Literal):
                key = select.expressions[int(node.this) - 1].unalias()
            elif isinstance(node, exp.Column):
                items = (item.unalias() for item in select.expressions if item.alias.casefold() == node.name.casefold())
                key = next(items, node)
            plain = key.copy().transform(lambda each: exp.column(each.this) if isinstance(each, exp.Column) else each)
            is_null = exp.Is(this=exp.paren(plain), expression=exp.Null())
            count = f"SELECT COUNT(*) FROM {source.this.name} WHERE {is_null.sql('duckdb')}"
            if (self._oracle.execute(count).fetchone() or (0,))[0]:
                select.where(exp.Not(this=is_null), copy=False)
                found = True
        return found


@dataclass(frozen=True)
class Expected:
    """The rows of DuckDB. `any_of`: so many of them are asked for. `order`: the columns that they are ordered by."""

    names: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    any_of: int | None
    order: tuple[int, ...]

    def problem(self, found: Found) -> str:
        """How an answer differs from this; "" where it does not."""
        ours, theirs = [*map(_plain, found.rows)], [*map(_plain, self.rows)]
        if any(len(row) != len(self.names) for row in ours):
            return f"columns {[*found.columns]}, not {self.names}"
        if self.any_of is not None:
            missing = [row for row in ours if not any(_equal(row, other) for other in theirs)]
            return (
                f"{len(ours)} rows of {self.any_of}; not there: {missing}"
                if missing or len(ours) != self.any_of
                else ""
            )
        one, other = sorted(ours, key=_rank), sorted(theirs, key=_rank)
        if len(one) != len(other) or not all(map(_equal, one, other)):
            return f"{[row for row in one if row not in other][:4]}, not {[row for row in other if row not in one][:4]}"
        orders = [[tuple(row[place] for place in self.order) for row in rows] for rows in (ours, theirs)]
        return "" if all(map(_equal, *orders)) else f"in the order {orders[0][:5]}, not {orders[1][:5]}"


def _order(tree: exp.Expr, names: Sequence[str]) -> tuple[int, ...]:
    """The outputs that rows are ordered by first: up to the first item of ORDER BY that is no output."""
    order, places = tree.args.get("order"), list[int]()
    items = [item.unalias().sql() for item in tree.selects]
    lower = [name.casefold() for name in names]
    for ordered in order.expressions if order else ():
        node = ordered.this
        if isinstance(node, exp.Literal):
            places.append(int(node.this) - 1)
        elif isinstance(node, exp.Column) and node.name.casefold() in lower:
            places.append(lower.index(node.name.casefold()))
        elif node.sql() in items:
            places.append(items.index(node.sql()))
        else:
            break
    return tuple(places)


def _plain(row: Sequence[Any]) -> tuple[Any, ...]:
    """A row in which equal values are equal: decimals as numbers, midnights as days."""

    def plain(cell: Any) -> Any:
        if isinstance(cell, str) and re.fullmatch(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d:\d\d(\.\d+)?)?", cell):
            cell = datetime.fromisoformat(cell)
        if isinstance(cell, datetime) and cell.time() == datetime.min.time():
            return cell.date().isoformat()
        if isinstance(cell, date):
            return cell.isoformat()
        return float(cell) if isinstance(cell, Decimal | int | float) and not isinstance(cell, bool) else cell

    return tuple(map(plain, row))


def _equal(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return all(
        math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) if isinstance(a, float) and isinstance(b, float) else a == b
        for a, b in zip(one, other, strict=True)
    )


def _rank(row: Sequence[Any]) -> list[tuple[str, str]]:
    return [(type(cell).__name__, f"{cell:024.6f}" if isinstance(cell, float) else repr(cell)) for cell in row]
