"""Columns of Pinot: what they hold, how they store it, and how a cell of a reply becomes a value of the port."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from sfumato.engines.base import ColumnType

DAY_MS = 86_400_000
EPOCH: Final = datetime(1970, 1, 1)
USUAL_LENGTH = 512

_MILLISECONDS = ("LONG", "TIMESTAMP")
_COLUMN_TYPES: Mapping[str, ColumnType] = {
    "STRING": "text",
    "INT": "integer",
    "LONG": "integer",
    "DOUBLE": "number",
    "BOOLEAN": "boolean",
    "TIMESTAMP": "timestamp",
}


_DEFAULTS: Mapping[str, str | int] = {"STRING": "null", "INT": -(2**31), "LONG": -(2**63)}
"""What a dimension has in place of NULL. A metric has 0."""


@dataclass(frozen=True, slots=True)
class PinotColumn:
    """A column. `kind` is its type in the port, and `stored` the one in Pinot.

    `default` is what it has in place of NULL, if that is text or a whole number other than 0. `max_length` is where its
    schema cuts text off; None where it does not. Segments that were built before may hold longer text.
    """

    name: str
    kind: ColumnType
    stored: str
    default: str | int | None = None
    max_length: int | None = None

    @property
    def in_milliseconds(self) -> bool:
        """Whether it holds days or moments as milliseconds since 1970 in UTC."""
        return self.kind in ("date", "timestamp") and self.stored in _MILLISECONDS

    @property
    def in_text(self) -> bool:
        """Whether it holds days as text."""
        return self.kind == "date" and self.stored == "STRING"

    def read(self, cell: Any) -> Any:
        """A cell of a reply as the port has it; milliseconds come as whole numbers."""
        return _READERS[self.kind, self.in_milliseconds](cell)

    def read_optional(self, cell: Any) -> Any:
        """A cell that may stand for NULL."""
        return None if self.default is not None and cell == self.default else self.read(cell)


def read_columns(schema: Mapping[str, Any], types: Mapping[str, str]) -> dict[str, PinotColumn]:
    """The columns of a schema of the controller. `types` has those that the owner wrote."""
    groups = ("dimensionFieldSpecs", "metricFieldSpecs", "dateTimeFieldSpecs")
    fields = [(field, group == "metricFieldSpecs") for group in groups for field in schema.get(group) or ()]
    return {field["name"]: _column(field, types.get(field["name"]), is_metric) for field, is_metric in fields}


def _column(field: Mapping[str, Any], written: str | None, is_metric: bool) -> PinotColumn:
    """A day may be text or milliseconds, and a moment milliseconds: which it is, the owner writes."""
    stored = str(field["dataType"])
    kind = _COLUMN_TYPES.get(stored, "other") if field.get("singleValueField", True) else "other"
    default = field.get("defaultNullValue", None if is_metric else _DEFAULTS.get(stored))
    if stored in ("INT", "LONG") and default is not None:
        default = int(default)
    if kind == "integer" and default is not None and default > 0:
        kind = "other"  # in a sum NULL would be that number
    if written == "date" and stored in ("STRING", *_MILLISECONDS):
        kind = "date"
    elif written == "timestamp" and stored in _MILLISECONDS:
        kind = "timestamp"
    if default == 0 or stored not in _DEFAULTS:
        default = None
    cuts = field.get("maxLengthExceedStrategy", "TRIM_LENGTH") != "NO_ACTION"
    return PinotColumn(field["name"], kind, stored, default, field.get("maxLength", USUAL_LENGTH) if cuts else None)


def milliseconds(moment: date) -> tuple[int, int]:
    """The last whole millisecond at or before a moment or the start of a day, and the microseconds after it."""
    start = moment if isinstance(moment, datetime) else datetime(moment.year, moment.month, moment.day)
    return divmod((start - EPOCH) // timedelta(microseconds=1), 1000)


def _moment(cell: int) -> datetime:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=cell)).replace(tzinfo=None)


def _day(cell: str) -> date | None:
    """NULL where the text is no day."""
    try:
        day = date.fromisoformat(cell)
    except ValueError:
        return None
    return day if day.isoformat() == cell else None


def _same(cell: Any) -> Any:
    return cell


_READERS: Mapping[tuple[ColumnType, bool], Callable[[Any], Any]] = {
    ("text", False): str,
    ("integer", False): int,
    ("number", False): lambda cell: float(cell) + 0.0,  # no negative zero
    ("boolean", False): bool,
    ("date", False): _day,
    ("date", True): lambda cell: _moment(cell).date(),
    ("timestamp", True): _moment,
    ("other", False): _same,
}
