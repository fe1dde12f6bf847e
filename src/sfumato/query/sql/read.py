"""SQL that is a core and nothing else, and SQL that is a filter."""

from __future__ import annotations

from sfumato.errors import NotSupported
from sfumato.query.policy import Policy, TablePolicy
from sfumato.query.predicate import Predicate
from sfumato.query.request import Request
from sfumato.query.sql.core import read_condition
from sfumato.query.sql.parse import parse_select
from sfumato.query.sql.refusals import LITERALS
from sfumato.query.sql.scope import Scope
from sfumato.query.sql.statement import read_statement


def read_sql(text: str, policy: Policy) -> Request:
    """The request that `text` makes, its filter typed by the policy. `read_statement` reads what is more than that."""
    statement = read_statement(text, policy)
    if not statement.is_plain:
        raise NotSupported("this is more than one request: it computes from released rows")
    return statement.core


def read_filter(text: str, table: TablePolicy) -> Predicate:
    """The filter that `text` is: what could stand after WHERE in a question about the table."""
    select = parse_select(f"SELECT 1 FROM filtered WHERE\n{text}", lines_before=1)  # noqa: S608 - it is parsed, never run
    if any(value for clause, value in select.args.items() if clause not in ("expressions", "from_", "where")):
        raise NotSupported(f"a filter is what stands after WHERE, and nothing else; {LITERALS}")
    return read_condition(select, Scope(table, table.name))
