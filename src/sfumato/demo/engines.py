"""The engines that the demo runs on: where each has the generated rows, and its part of the configuration.

`DEMO_ENGINES` has one row per engine. Nothing is imported before it is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TABLE = "engagements"
PINOT_TABLE, BROKER, CONTROLLER = "sfumato_demo", "http://localhost:8000", "http://localhost:9000"


@dataclass(frozen=True, slots=True)
class DemoEngine:
    """A row of `DEMO_ENGINES`.

    `section` is what the configuration says of the engine, and `source` what it says of the table. `write` generates
    the rows of so many members into a folder. `articles` is what lists the articles, below desks and topics; without
    it, the report has no tree. `modules` are those that must be installed, and `extra` has them.
    `is_nested`: it runs nested queries, so it can bound a member's groups. `releases`: a release can read from it.
    """

    section: str
    source: str
    write: Callable[[Path, int], None]
    modules: tuple[str, ...] = ()
    extra: str = ""
    articles: str = ""
    is_nested: bool = True
    releases: bool = True


def write_database(folder: Path, members: int) -> None:
    import duckdb

    from sfumato.demo import sample

    with duckdb.connect(folder / "demo.duckdb") as connection:
        sample.generate(connection, members)
        sample.list_articles(connection)


def write_to_pinot(folder: Path, members: int) -> None:
    from sfumato.demo.pinot import write_table

    write_table(folder, members)


def write_parquet(folder: Path, members: int) -> None:
    import duckdb

    from sfumato.demo import sample

    with duckdb.connect() as connection:
        sample.generate(connection, members)
        sample.list_articles(connection)
        for name in (TABLE, "articles"):
            connection.table(name).write_parquet(str(folder / f"{name}.parquet"))


DEMO_ENGINES = {
    "duckdb": DemoEngine('type = "duckdb"\ndatabase = "demo.duckdb"', TABLE, write_database, articles="articles"),
    "pinot": DemoEngine(
        f'type = "pinot"\nurl = "{BROKER}"\ncontroller = "{CONTROLLER}"',
        PINOT_TABLE,
        write_to_pinot,
        modules=("httpx2",),
        extra="pinot",
        is_nested=False,
        releases=False,
    ),
    "spark": DemoEngine(
        'type = "spark"\nurl = "local[*]"',
        f"{TABLE}.parquet",
        write_parquet,
        ("pyspark", "pyarrow"),
        "spark",
        "articles.parquet",
    ),
}
