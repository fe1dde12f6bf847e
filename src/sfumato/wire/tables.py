"""What may be asked: tables with their columns and measures, and reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, NotRequired, TypedDict

from msgspec import Meta, field

from sfumato.query.values import describe_bounds
from sfumato.types import Type
from sfumato.wire.answer import ReportPromise
from sfumato.wire.base import Cell, DrawnRecord, Record

if TYPE_CHECKING:
    from sfumato.show import TextTable


class ColumnBounds(TypedDict):
    """Between which values a column counts in AVG, SUM, MEDIAN and the like. Numbers are text, with all their digits.

    Values beyond `min` and `max` are moved there. At most `max_per_unit` values of one person count in a group.
    """

    min: str
    max: str
    step: str
    max_per_unit: int


def bounds_words(bounds: ColumnBounds) -> str:
    """The bounds of a column in words."""
    return describe_bounds(bounds["min"], bounds["max"], bounds["step"], bounds["max_per_unit"])


class ColumnInfo(TypedDict):
    """A column that may be grouped and filtered by, and with `bounds` also averaged and summed."""

    name: str
    type: Type
    domain: Annotated[
        Literal["unknown"] | list[Cell],
        Meta(description="The values in the policy, or `unknown`."),
    ]
    max_groups: Annotated[int | None, Meta(description="Maximum groups per person.")]
    bounds: NotRequired[
        Annotated[ColumnBounds, Meta(description="Absent if the policy has none: then it is not averaged.")]
    ]


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


class PublicColumn(TypedDict):
    """A column of a public table."""

    name: str
    type: Type


class PublicRow(Record, frozen=True):
    """A public table: a SELECT of its rows is free, and a table of people in its engine can be joined to it.

    `key` is the column that it is joined by: no two of its rows have the same.
    """

    table: str
    key: str
    columns: list[PublicColumn]


class ReportRow(Record, frozen=True, kw_only=True):
    """A report that may be asked: its statistics, its attributes, and its levels of entities and time."""

    report: str
    statistics: list[str]
    attributes: Annotated[Mapping[str, list[Cell]], Meta(description="Attributes with their public values.")]
    entities: Annotated[list[str], Meta(description="Levels of entities, the top level first.")]
    levels: Annotated[list[str], Meta(description="Levels of time, the finest first.")]
    zone: str
    guarantee: ReportPromise


class ReportInfo(ReportRow, frozen=True, kw_only=True):
    """All that may be asked of a report."""

    min_count: Annotated[int, Meta(description="Smaller counts are not shown.")]
    options: Annotated[list[str], Meta(description="The options that can be asked for, and that can change a number.")]
    usual_options: Annotated[list[str], Meta(description="Those that apply where a question names none.")]
    complete_until: Annotated[str, Meta(description="The data is complete up to here: a day or a time, in `zone`.")]
    follows: Annotated[
        dict[str, str],
        Meta(description="Statistics that follow from another: each click follows from an impression."),
    ]


class EntityRow(Record, frozen=True, kw_only=True):
    """An entity that the caller may ask about."""

    level: str
    name: str
    entity: Annotated[dict[str, str], Meta(description="The `entity` of a question: names by level, the top first.")]
    has_children: bool


class EntityPage(Record, frozen=True, kw_only=True):
    """A page of the entities that the caller may ask about."""

    rows: list[EntityRow]
    next: Annotated[str | None, Meta(description="The `cursor` of the next page; null on the last.")] = None
    listed: Annotated[
        bool,
        Meta(description="False where no table lists the entities: then only those of the caller's rights are known."),
    ]


class Tables(DrawnRecord, frozen=True, omit_defaults=True):
    """Everything that may be asked about."""

    rows: list[TableRow]
    reports: Annotated[list[ReportRow], Meta(description="The reports, if there are any: POST /v1/reports.")] = field(
        default_factory=list
    )
    public: Annotated[list[PublicRow], Meta(description="The public tables, if there are any.")] = field(
        default_factory=list
    )

    def grid(self) -> TextTable:
        """A row per column and measure of each table, then a row per report and per public column."""
        from sfumato.show import TextTable

        rows: list[tuple[str, str, str, str]] = []
        for table in self.rows:
            for column in table.columns:
                values = "any value" if column["domain"] == "unknown" else f"one of {len(column['domain'])} values"
                if bounds := column.get("bounds"):
                    values += f"; averaged from {bounds_words(bounds)}"
                rows.append((table.table, column["name"], column["type"], values))
            rows += [(table.table, each["name"], "measure", f"counts {each['counts']}") for each in table.measures]
        rows += [(each.report, ", ".join(each.statistics), "report", ", ".join(each.levels)) for each in self.reports]
        rows += [
            (each.table, column["name"], column["type"], "public, the key" if column["name"] == each.key else "public")
            for each in self.public
            for column in each.columns
        ]
        return TextTable(("table", "name", "type", ""), rows, title="" if rows else "There is nothing to ask about.")
