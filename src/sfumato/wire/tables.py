"""What may be asked: tables with their columns and measures, and reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypedDict

from msgspec import Meta, field

from sfumato.types import Type
from sfumato.wire.answer import ReportPromise
from sfumato.wire.base import Cell, Record


class ColumnInfo(TypedDict):
    """A column that may be grouped and filtered by."""

    name: str
    type: Type
    domain: Annotated[
        Literal["unknown"] | list[Cell],
        Meta(description="The values in the policy, or `unknown`."),
    ]
    max_groups: Annotated[int | None, Meta(description="Maximum groups per person.")]


class MeasureInfo(TypedDict):
    """What can be counted."""

    name: str
    counts: Literal["units", "rows", "sum"]
    max_per_unit: int


class TableRow(Record, frozen=True):
    """A table that may be asked about: whose presence is hidden, its columns and its measures."""

    table: str
    unit: str
    columns: list[ColumnInfo]
    measures: list[MeasureInfo]


class ReportRow(Record, frozen=True, kw_only=True):
    """A report that may be asked: its statistics, its attributes, and its levels of entities and time."""

    report: str
    statistics: list[str]
    attributes: Annotated[Mapping[str, list[Cell]], Meta(description="Attributes with their public values.")]
    entities: Annotated[list[str], Meta(description="Levels of entities, the top level first.")]
    levels: Annotated[list[str], Meta(description="Levels of time, the finest first.")]
    zone: str
    guarantee: ReportPromise


class Tables(Record, frozen=True, omit_defaults=True):
    """Everything that may be asked about."""

    rows: list[TableRow]
    reports: Annotated[list[ReportRow], Meta(description="The reports, if there are any: POST /v1/reports.")] = field(
        default_factory=list
    )
