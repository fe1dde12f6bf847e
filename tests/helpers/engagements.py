"""The table that the tests of the planner ask about."""

from __future__ import annotations

from sfumato.query.policy import Column, Measure, TablePolicy

COLUMNS = (
    Column("article"),
    Column("job title", max_groups=2),
    Column("region", domain=("emea", "apac", "amer"), max_groups=1),
    Column("country", domain=("de", "fr"), max_groups=1, guaranteed=True),
    Column("topic", domain=("a", "b", "c")),
    Column("day", type="date"),
    Column("at", type="timestamp"),
    Column("n", type="integer"),
    Column("score", type="number"),
    Column("paid", type="boolean"),
)
MEASURES = (
    Measure("members"),
    Measure("shares", "rows", max_per_unit=5),
    Measure("visits", "sum", column="n", max_per_unit=50),
)
ENGAGEMENTS = TablePolicy(
    "engagements",
    "member_id",
    {column.name: column for column in COLUMNS},
    {measure.name: measure for measure in MEASURES},
    version="2026-11-15",
)
