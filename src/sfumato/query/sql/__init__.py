"""SQL: a statement in; out comes the request that is its core, and what is computed from the core's released rows.

    SELECT column, COUNT(DISTINCT unit) | COUNT(*) | a measure's name                          the core
    FROM table [WHERE ...] GROUP BY column [ORDER BY 2 DESC] [LIMIT k]

A list without its counts has its measure in ORDER BY alone:

    SELECT column FROM table [WHERE ...] GROUP BY column ORDER BY COUNT(DISTINCT unit) DESC [LIMIT k]

Anything that is not on a list of known forms is refused; nothing is passed through.

    binding       literals in the place of parameters
    parse         text -> tree; size, nesting and work are limited
    inline        SELECTs that only pick rows of a table stand for the table
    scope         the names of the table of a core; `aggregates` reads what is counted, `where` the filter
    core          one SELECT of a table: its request, and the rest of it over released rows
    relations     SELECTs over released rows, with every name resolved
    statement     all of them together
    linear        which outputs have an interval
    released      the closed list of what may be computed from released rows
    read, write   a statement that is a core alone, and the way back
    refusals      the words
"""

from sfumato.query.sql.binding import bind_request
from sfumato.query.sql.read import read_filter, read_sql
from sfumato.query.sql.statement import (
    Arrangement,
    PublicQuery,
    ReleasedQuery,
    Statement,
    read_public,
    read_statement,
)
from sfumato.query.sql.write import write_select, write_sql

__all__ = [
    "Arrangement",
    "PublicQuery",
    "ReleasedQuery",
    "Statement",
    "bind_request",
    "read_filter",
    "read_public",
    "read_sql",
    "read_statement",
    "write_select",
    "write_sql",
]
