"""`sfumato init`: a configuration for a file or a table that is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sfumato.cli.output import answering, paragraphs, show, typed

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sfumato.cli.starter import Started


@click.command("init")
@click.argument("folder", metavar="DIR")
@click.option(
    "--source",
    required=True,
    metavar="FILE",
    help="A local file or a glob: .parquet, .csv, .csv.gz, .tsv. With --database: the name of a table or view in it.",
)
@click.option("--unit", required=True, metavar="COLUMN", help="The column that says whose row it is.")
@click.option("--database", metavar="FILE", help="The DuckDB database that holds --source.")
@click.option("--table", metavar="NAME", help="What analysts call the table.  [default: after the source]")
@click.option("--name", default="anna", show_default=True, metavar="NAME", help="The first analyst.")
@answering
def init(
    as_json: bool, folder: str, source: str, unit: str, database: str | None, table: str | None, name: str
) -> None:
    """Make a configuration for a file or a table that you have.

    Writes DIR/sfumato.toml, with comments, and DIR/noise.key. What it writes can be asked at once; what makes
    answers better (public lists of values, bounds) you add by hand, for only you know what is public. Reads the
    names and types of the columns and nothing else of your data, and overwrites nothing. CSV has no types: they
    are guessed from a sample of the rows, once, so that Parquet is the better choice.

    \b
      sfumato init shop --source orders.parquet --unit customer_id
      sfumato init shop --source "logs/*.csv.gz" --unit user --table visits
      sfumato init shop --database shop.duckdb --source orders --unit customer_id
    """
    from sfumato.cli.starter import StarterSource, start

    started = start(folder, StarterSource(source, unit, database, table), analyst=name)
    show(started.to_dict(), lambda: _started(started), as_json=as_json)


def _started(started: Started) -> RenderableType:
    from rich.console import Group

    from sfumato.cli.terminal import indented, lines

    told = {
        "table": f"{started.table}: no answer shows whether any one {started.unit} is in it",
        "columns": ", ".join(started.columns) or "none but the unit: people can be counted",
        "measure": f"{started.measure}, which counts people",
    }
    if started.left_out:
        told["left out"] = ", ".join(f"{name} ({why})" for name, why in started.left_out.items())
    explain = ["sfumato", "policy", "explain", "--config", str(started.config)]
    return Group(
        paragraphs(f"Wrote {started.config} and {started.key}, a key that only you can read."),
        "",
        indented(lines(told)),
        "",
        paragraphs("Ask something:"),
        typed(*started.ask),
        "",
        paragraphs(
            f"The comments in {started.config} say what makes answers better. What one analyst can learn about one "
            "person:"
        ),
        typed(*explain),
    )
