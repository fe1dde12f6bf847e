"""Questions that a page offers, each with its price."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.query.policy import Policy
from sfumato.web import asking, words


@dataclass(frozen=True, slots=True)
class Proposal:
    """A question to ask: its SQL, what it is in words, and its price."""

    sql: str
    words: str
    price: str


def describe_sql(sql: str, policy: Policy) -> str:
    """A question in words where the form can say it; otherwise as it is written."""
    form = asking.to_form(sql, policy)
    if form is None:
        return sql
    request = {"type": form.shape, "table": form.table, "by": form.by, "measure": form.measure}
    return words.describe_request(request | {"k": form.k, "counts": form.counts}, sql)
