"""The statement beside a released table: what was guaranteed, what it cost, and what each column means."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sfumato.errors import InvalidArgument
from sfumato.query.request import unique_object

if TYPE_CHECKING:
    from sfumato.release.estimand import Estimand
    from sfumato.release.statistics.base import Statistic
    from sfumato.release.table import Released

FORMAT = "sfumato-release/1"
NEIGHBOURS = "two tables, of which one has all rows of one more person"

ENDINGS = {"statistic": "", "low": "_low", "high": "_high", "deviation": "_deviation"}
"""The columns of a statistic, by their role."""

_SHAPE: Mapping[str, type] = {
    "unit": str,
    "neighbours": str,
    "guarantee": dict,
    "parameters": dict,
    "steps": list,
    "columns": list,
}


def key_columns(kinds: Mapping[str, str]) -> list[dict[str, Any]]:
    """The entries of the key columns."""
    return [
        {"name": name, "type": kind, "role": "key", "statistic": None, "meaning": "key"} for name, kind in kinds.items()
    ]


def statistic_columns(statistic: Statistic, estimand: Estimand) -> list[dict[str, Any]]:
    """The entries of a statistic's columns; `estimand` says which number its intervals are for."""
    roles = {
        "statistic": (statistic.kind, statistic.describes),
        "low": (statistic.kind, statistic.ends(estimand.number)[0]),
        "high": (statistic.kind, statistic.ends(estimand.number)[1]),
        "deviation": ("number", statistic.spread),
    }
    entries: list[dict[str, Any]] = [
        {"name": name + ENDINGS[role], "type": kind, "role": role, "statistic": name, "meaning": meaning}
        for name in statistic.names
        for role, (kind, meaning) in roles.items()
    ]
    return [entry | (estimand.to_dict() if entry["role"] == "statistic" else {}) for entry in entries]


def statement_types(statement: Mapping[str, Any]) -> dict[str, str]:
    """The columns of the table and their types."""
    return {column["name"]: column["type"] for column in statement["columns"]}


def statement_text(released: Released, file_format: str, sha256: str, facts: Mapping[str, str] | None = None) -> str:
    """The statement as it is written: with the number of rows, the SHA-256 of the table, and `facts` about its file."""
    table = {"format": file_format, "sha256": sha256, **(facts or {})}
    whole = {**released.statement, "rows": len(released), "table": table}
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def parse_statement(text: str | bytes, place: str) -> dict[str, Any]:
    """A statement. Refuses one that lacks what readers rely on."""
    try:
        statement = json.loads(text, object_pairs_hook=partial(unique_object, "statement"))
    except (ValueError, RecursionError):
        raise InvalidArgument("table", f"the statement of {place} is not JSON; was it edited?") from None
    if not isinstance(statement, dict) or statement.get("format") != FORMAT:
        raise InvalidArgument("table", f"the statement of {place} is not of the format {FORMAT!r}")
    missing = next((name for name, kind in _SHAPE.items() if not isinstance(statement.get(name), kind)), None)
    if missing is None and not all(map(_is_column, statement["columns"])):
        missing = "columns"
    if missing is None and not _is_guarantee(statement["guarantee"]):
        missing = "guarantee"
    if missing is not None:
        raise InvalidArgument("table", f"the statement of {place} lacks {missing!r}, or it is not what it should be")
    return statement


def only_statement(rows: Sequence[Sequence[Any]], place: str) -> dict[str, Any]:
    """The statement in a table beside the released one, which must have a single cell."""
    if len(rows) != 1 or not isinstance(rows[0][0], str):
        raise InvalidArgument("table", f"{place} has no statement, or more than one")
    return parse_statement(rows[0][0], place)


def _is_column(column: object) -> bool:
    if not isinstance(column, dict) or not isinstance(column.get("statistic"), str | None):
        return False
    return all(isinstance(column.get(name), str) for name in ("name", "type", "role"))


def _is_guarantee(guarantee: Mapping[str, Any]) -> bool:
    epsilon = guarantee.get("epsilon")
    if not isinstance(epsilon, int | float) or isinstance(epsilon, bool) or not 0 <= epsilon < math.inf:
        return False
    return all(isinstance(guarantee.get(name), str) for name in ("rho", "delta", "epsilon_delta"))
