"""SQL: one SELECT in, a request out, or a refusal that names the nearest question.

    SELECT column, COUNT(DISTINCT unit) | COUNT(*) | a measure's name
    FROM table [WHERE ...] GROUP BY column [ORDER BY 2 DESC] [LIMIT k]

A list without its counts has its measure in ORDER BY alone:

    SELECT column FROM table [WHERE ...] GROUP BY column ORDER BY COUNT(DISTINCT unit) DESC [LIMIT k]

Anything that is not on the list of known forms is refused; nothing is passed through. `parse` limits size and nesting
on the tokens, before anything recurses; `scope` resolves names; `aggregates` reads what is counted; `where` reads the
filter; `read` puts them together; `refusals` has the words.
"""

from sfumato.query.sql.read import read_filter, read_sql

__all__ = ["read_filter", "read_sql"]
