"""`sfumato init`: a configuration for a file or a table that is there."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, TypeAlias, get_args

import click

from sfumato.cli import output
from sfumato.cli.options import ExactNumber
from sfumato.cli.output import print_result, with_json

FirstVersion: TypeAlias = Literal["daily", "weekly", "monthly", "fixed"]
FIRST_VERSIONS = get_args(FirstVersion)


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
@click.option(
    "--epsilon",
    type=ExactNumber(),
    default="3",
    show_default=True,
    metavar="E",
    help="What all questions and releases of one month may promise together, at delta 1e-7.",
)
@click.option(
    "--version",
    type=click.Choice(FIRST_VERSIONS),
    metavar="|".join(FIRST_VERSIONS),
    help="How often new rows count, and the same question costs again; fixed: rows never change, and a question is "
    "paid for once.  [default: daily; asked for on a terminal]",
)
@with_json
def init(
    as_json: bool,
    folder: str,
    source: str,
    unit: str,
    database: str | None,
    table: str | None,
    name: str,
    epsilon: Fraction,
    version: FirstVersion | None,
) -> None:
    """Write a configuration for a file or a table that you have.

    Writes DIR/sfumato.toml, with comments, and DIR/noise.key, and overwrites nothing. You can ask questions at once.
    The budgets promise --epsilon per month, and the table below what was written says what that buys. What makes
    answers better (public lists of values, bounds) you add by hand: only you know what is public. Reads the names and
    types of the columns, and no other part of your data. CSV has no types: they are guessed once from a sample of the
    rows, so Parquet is the better choice.

    \b
      sfumato init shop --source orders.parquet --unit customer_id --version fixed
      sfumato init shop --source "logs/*.csv.gz" --unit user --table visits
      sfumato init shop --database shop.duckdb --source orders --unit customer_id
    """
    from sfumato.cli.first_config import InitSource, write_first_config
    from sfumato.cli.terminal.init import render_first_config

    if version is None and not as_json and output.is_interactive():
        question = "How often do new rows count? Then the same question costs again; fixed: the rows never change"
        version = click.prompt(question, type=click.Choice(FIRST_VERSIONS), default=FIRST_VERSIONS[0], err=True)
    where = InitSource(source, unit, database, table)
    draft = write_first_config(folder, where, analyst=name, epsilon=epsilon, version=version or FIRST_VERSIONS[0])
    print_result(draft.to_dict(), lambda: render_first_config(draft), as_json=as_json)
