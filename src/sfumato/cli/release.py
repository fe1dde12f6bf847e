"""`sfumato release`: publish a table once, check it, and draw it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.options import ExactNumber, chart_path, name_options, save_chart, with_chart
from sfumato.cli.output import DIFFERENT, Commands, print_result, with_json
from sfumato.cli.release_options import (
    JOB_OPTIONS,
    read_max_keys,
    read_statistics,
    read_types,
    with_job,
    with_price,
    with_source,
    with_statistics,
)
from sfumato.errors import InvalidArgument
from sfumato.release.statistics import STATISTICS

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sfumato.release import Job, Statistic


@click.group("release", cls=Commands)
def release() -> None:
    """Publish a table of counts or statistics, and check a published one.

    \b
    As many accurate counts as a budget buys, with nothing to tune:
      sfumato release counts data.parquet --unit user_id --key item \\
        --rho 0.5 --delta 1e-6 --out counts.parquet
    Statistics of every key that enough people have:
      sfumato release aggregate data.parquet --unit user_id --key item \\
        --units --sum amount:0:100 --max-keys 64 \\
        --epsilon 1.1 --delta 1e-5 --out table.parquet
    """


@release.command("counts")
@with_source
@click.option(
    "--method",
    type=click.Choice(["auto", "pcr", "gaussian"]),
    default="pcr",
    show_default=True,
    help="pcr: Private Count Release, which bounds nothing. gaussian: one release, each person in at most L keys, L "
    "chosen privately. auto: begin with pcr, and change where gaussian reaches smaller counts.",
)
@with_price
@click.option(
    "--relative-error",
    type=ExactNumber(),
    default="0.1",
    show_default=True,
    metavar="R",
    help="How accurate the counts should be: with 0.1, at least 90 % of them are within 10 % of the truth. With "
    "gaussian: of the number after bounding, and one more may be off.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=10_000,
    show_default=True,
    metavar="N",
    help="Only the N largest keys can be found.",
)
@click.option(
    "--refine", type=ExactNumber(), metavar="SHARE", help="Share of the budget for the least accurate counts."
)
@with_statistics
@click.option(
    "--aggregates-share", type=ExactNumber(), metavar="SHARE", help="Share of the budget for --sum and the like (1/2)."
)
@click.option(
    "--max-keys", type=click.IntRange(1), metavar="L", help="Keys that a person counts for in --sum and the like."
)
@with_job
@with_json
@name_options(**JOB_OPTIONS)
def counts(as_json: bool, **options: Any) -> None:
    """Count the people of as many keys as the budget buys.

    Nothing has to be tuned. Each count has a 95 % interval, with pcr for the true number of people. SOURCE is a file or
    a glob of files (.parquet, .csv, .csv.gz, .tsv), a table of --database, or a table of --config.

    \b
      sfumato release counts data.parquet --unit user_id --key item \\
        --rho 0.5 --delta 1e-6 --out counts.parquet
    """
    from sfumato.release import counts_job

    names = ("method", "relative_error", "limit", "refine", "aggregates_share", "max_keys")
    asked = {name: options[name] for name in names}
    _run(as_json, options, counts_job, asked, read_statistics(options))


@release.command("aggregate")
@with_source
@click.option("--units", is_flag=True, help=f"{STATISTICS['units'].help}  [default if no other statistic is asked for]")
@with_statistics
@click.option(
    "--max-keys",
    required=True,
    metavar="L|auto",
    help="Keys that a person counts for; auto: as few as drop at most 5 % of (person, key) pairs, chosen privately.",
)
@click.option(
    "--within-max-keys",
    is_flag=True,
    help="You state that no person has more than L keys. Then no budget measures what bounding drops.",
)
@click.option(
    "--selection-max-keys",
    type=click.IntRange(1),
    metavar="L",
    help="Keys that a person counts for when keys are selected, if other than --max-keys.",
)
@click.option(
    "--selection",
    type=click.Choice(["auto", "gaussian", "weighted", "weighted_twice", "laplace", "truncated_laplace", "geometric"]),
    metavar="RULE",
    default="auto",
    show_default=True,
    help="The rule that selects keys: gaussian, weighted, weighted_twice, laplace, truncated_laplace or geometric.",
)
@click.option(
    "--noise",
    type=click.Choice(["auto", "gaussian", "laplace"]),
    default="auto",
    show_default=True,
    help="Laplace noise is less where people have one or two keys; auto takes it there if no ledger pays.",
)
@click.option("--selection-share", type=ExactNumber(), metavar="SHARE", help="Share of the budget that selects keys.")
@click.option(
    "--pipeline",
    type=click.Choice(["plume", "naive", "fast"]),
    default="plume",
    show_default=True,
    help="How contributions are bounded.",
)
@click.option(
    "--rebound/--no-rebound",
    default=None,
    help="Count people again on the selected keys, or do not.  [default: if bounding drops over 10 % of pairs]",
)
@click.option("--keys", metavar="FILE", help="Public keys: a file with the key columns. No key is selected.")
@with_price
@with_job
@with_json
@name_options(**JOB_OPTIONS)
def aggregate(as_json: bool, **options: Any) -> None:
    """Statistics of every key that enough people have.

    A person counts for at most L keys. Keys are selected by a noisy count of their people, or given with --keys.
    SOURCE is a file or a glob of files (.parquet, .csv, .csv.gz, .tsv), a table of --database, or one of --config.

    \b
      sfumato release aggregate data.parquet --unit user_id --key item \\
        --count --sum amount:0:100 --max-keys 64 \\
        --epsilon 1.0986 --delta 1e-5 --out table.parquet
    """
    from sfumato.release import Units, aggregates_job

    statistics = read_statistics(options)
    if options["units"] or not statistics:
        statistics = [Units(), *statistics]
    names = ["within_max_keys", "selection_max_keys", "selection", "selection_share", "noise", "pipeline"]
    names += ["rebound", "keys"]
    asked = {name: options[name] for name in names} | {"max_keys": read_max_keys(options["max_keys"])}
    _run(as_json, options, aggregates_job, asked, statistics)


def _run(
    as_json: bool, options: dict[str, Any], make: Callable[..., Job], asked: dict[str, Any], statistics: list[Statistic]
) -> None:
    """Make a job from the options, and plan or run it."""
    from rich.console import Group

    from sfumato.cli.terminal.release import render_plan, render_release
    from sfumato.cli.terminal.text import paragraphs

    names = ("unit", "rho", "epsilon", "delta", "auto_bounds", "database", "memory", "out", "overwrite")
    shared = {name: options[name] for name in (*names, "config", "budget", "job")}
    shared |= {"key": options["key"], "filter": options["where"], "types": read_types(options["types"])}
    if options["out"] is None and not options["dry_run"]:
        raise InvalidArgument("--out", "say where the table goes, such as --out table.parquet; or --dry-run")
    job = make(options["source"], aggregates=statistics, **asked, **shared)
    if options["dry_run"]:
        plan = job.plan()
        print_result(plan, lambda: render_plan(job, plan), as_json=as_json)
        return
    if options["job"] is None and job.name is not None:
        click.echo(f"sfumato: this is job {job.name}; if it is interrupted, go on with --job {job.name}", err=True)
    with _progress_bar() as progress:
        table = replace(job, progress=progress).run()

    def page() -> RenderableType:
        place = "" if job.out is None else job.out.place
        written = f"Written to {place}: {len(table):,} row{'' if len(table) == 1 else 's'}."
        return Group(render_release(table, top=10), "", paragraphs(written))

    place = options["out"] if "://" not in options["out"] else options["out"].rpartition("#")[2]  # no password
    print_result({"out": place, "rows": len(table), "statement": dict(table.statement)}, page, as_json=as_json)


@contextmanager
def _progress_bar() -> Iterator[Callable[[str, float], None]]:
    """A bar per stage on stderr, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda stage, share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("reading", total=None)

        def update(stage: str, share: float) -> None:
            """At share 0 the bar has no end: it only shows that work goes on."""
            bars.update(task, description=stage, completed=share, total=1.0 if share else None)

        yield update


@release.command("verify")
@click.argument("file")
@with_json
@name_options(out="FILE", table="FILE")
def verify(as_json: bool, file: str) -> None:
    """Check a released table against its statement.

    Checks that the table is the released one, and that the guarantee in the statement follows from its steps. Lists
    every difference and exits with 1 if there is one. Says which number the intervals are for.

    \b
      sfumato release verify counts.parquet
    """
    from rich.console import Group

    from sfumato.cli.terminal.text import bullets, paragraphs
    from sfumato.release import outputs
    from sfumato.release.estimand import bounding_lines
    from sfumato.release.verify import differences

    place = outputs.target(file)
    problems = differences(place)
    table = None if problems else outputs.read(place)
    intervals = [] if table is None else table.interval_lines()
    bounding = [] if table is None else bounding_lines(table.statement)

    def page() -> RenderableType:
        if problems:
            return Group(paragraphs("The table and its statement differ:"), "", bullets(problems))
        verified = "The table is the one that was released, and its guarantee follows from its steps."
        return Group(paragraphs(verified), "", bullets([*intervals, *bounding]))

    print_result({"problems": problems, "intervals": intervals, "bounding": bounding}, page, as_json=as_json)
    if problems:
        sys.exit(DIFFERENT)


@release.command("plot")
@click.argument("file")
@click.option("--top", type=click.IntRange(1, 200), default=20, show_default=True, metavar="N", help="How many keys.")
@click.option("--statistic", metavar="NAME", help="Which statistic; the first by default.")
@with_chart()
@with_json
@name_options(out="FILE", table="FILE")
def plot(as_json: bool, file: str, top: int, statistic: str | None, chart: str | None) -> None:
    """Draw the largest counts of a released table, with their intervals.

    \b
      sfumato release plot counts.parquet --chart counts.svg
    """
    from sfumato.cli.terminal.release import render_release
    from sfumato.release import outputs

    picture = chart_path(chart)
    table = outputs.read(outputs.target(file))
    drawing = table.chart(top=top, statistic=statistic)
    if picture is not None:
        save_chart(drawing, picture)
    print_result(drawing.spec, lambda: render_release(table, top=top, statistic=statistic), as_json=as_json)
