"""`sfumato release`: publish a table once, check it, and look at it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from sfumato.cli.output import DIFFERENT, Commands, answering, items, paragraphs, show
from sfumato.errors import InvalidArgument
from sfumato.types import TYPES

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sfumato.release import Job, Released, Statistic

Bound: TypeAlias = Fraction | None


class ExactNumber(click.ParamType[Fraction]):
    """A number as it was written: 0.1, 1e-6 or 1/3."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Fraction:
        if isinstance(value, Fraction):
            return value
        try:
            return exact(value)
        except ValueError:
            self.fail("write a number such as 0.5, 1e-6 or 1/3", param, ctx)


def exact(text: str) -> Fraction:
    """The number that a text is, if it is one of a sensible length."""
    if len(text) > 50 or not set(text) <= set("0123456789+-.eE/"):
        raise ValueError
    _, _, exponent = text.lower().partition("e")
    if abs(int(exponent or 0)) > 300:
        raise ValueError
    try:
        return Fraction(text)
    except ZeroDivisionError:
        raise ValueError from None


_STATISTICS = "--sum and the like"
_SPELLED = {"source": "SOURCE", "types": "--type", "type": "--type"} | dict.fromkeys(
    ("aggregates", "column", "statistics"), _STATISTICS
)
_AS_OPTIONS = (
    *("unit", "key", "filter", "database", "memory", "rho", "epsilon", "delta", "relative_error", "limit", "refine"),
    *("count", "sum", "mean", "variance", "quantile", "aggregates_share", "max_keys", "selection_max_keys"),
    *("selection_share", "keys", "out", "config", "budget", "job", "statistic", "top"),
)


@contextmanager
def _spelled(**words: str) -> Iterator[None]:
    """What is wrong with an argument, told of the option that it came from."""
    try:
        yield
    except InvalidArgument as refused:
        options = {name: f"--{name.replace('_', '-')}" for name in _AS_OPTIONS} | _SPELLED | words
        raise InvalidArgument(options.get(refused.argument, refused.argument), refused.problem) from None


@click.group("release", cls=Commands)
def release() -> None:
    """Publish a table of counts or statistics, and check one that was published.

    \b
    As many accurate counts as a budget buys, with nothing to tune:
      sfumato release counts data.parquet --unit user_id --key item \\
        --rho 0.5 --delta 1e-6 --out counts.parquet
    Statistics of every key that enough people have:
      sfumato release aggregate data.parquet --unit user_id --key item \\
        --units --sum amount:0:100 --max-keys 64 \\
        --epsilon 1.1 --delta 1e-5 --out table.parquet
    """


def _options(*options: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


_source = _options(
    click.argument("source"),
    click.option("--unit", required=True, metavar="COLUMN", help="Whose presence is hidden: the person's column."),
    click.option(
        "--key", required=True, multiple=True, metavar="COLUMN", help="What is counted; several times if several."
    ),
    click.option("--filter", "where", metavar="SQL", help="Only rows where this holds, such as \"country = 'NL'\"."),
    click.option("--database", metavar="FILE", help="A DuckDB database, of which SOURCE is a table or a view."),
    click.option("--type", "types", multiple=True, metavar="COLUMN=TYPE", help="The type of a column of a CSV file."),
    click.option("--memory", default="2GB", show_default=True, metavar="SIZE", help="What DuckDB may use."),
)
_budget = _options(
    click.option("--rho", type=ExactNumber(), metavar="R", help="The budget, as rho of zCDP; this, or --epsilon."),
    click.option("--epsilon", type=ExactNumber(), metavar="E", help="The budget, as (epsilon, delta); this, or --rho."),
    click.option(
        "--delta", type=ExactNumber(), metavar="D", help="Well below one over the number of people, such as 1e-6."
    ),
)
_statistics = _options(
    click.option(
        "--count", is_flag=False, flag_value="1", metavar="[CAP]", help="Rows, at most CAP (1) a person and key."
    ),
    click.option(
        "--sum", "sums", multiple=True, metavar="COL:LO:HI[:STEP]", help="Of a person's total of a key, clamped."
    ),
    click.option("--mean", "means", multiple=True, metavar="COL:LO:HI[:STEP]", help="Mean of values, clamped."),
    click.option(
        "--variance", "variances", multiple=True, metavar="COL:LO:HI[:STEP]", help="Variance of values, clamped."
    ),
    click.option(
        "--quantile", "quantiles", multiple=True, metavar="COL:LO:HI:Q[,Q]", help="Quantiles, such as 0.5,0.9."
    ),
    click.option(
        "--values",
        type=click.IntRange(1, 1000),
        default=1,
        show_default=True,
        metavar="N",
        help="Values a person and key.",
    ),
    click.option("--auto-bounds", is_flag=True, help="Find bounds that are left out, for a part of the budget."),
)
_around = _options(
    click.option("--out", metavar="FILE", help="FILE.parquet, FILE.csv, FILE.duckdb#table or postgresql://...#table."),
    click.option("--overwrite", is_flag=True, help="Replace what is there."),
    click.option("--config", metavar="FILE", help="Debit a ledger: that of this configuration."),
    click.option("--budget", metavar="NAME", help="Which of its budgets pays."),
    click.option(
        "--job", metavar="ID", help="A name for this release: run again, it is the same table and costs nothing."
    ),
    click.option("--dry-run", is_flag=True, help="Say what would be done and what it costs. Reads no row."),
)


@release.command("counts")
@_source
@click.option("--method", type=click.Choice(["pcr"]), default="pcr", show_default=True, help="Private Count Release.")
@_budget
@click.option(
    "--relative-error",
    type=ExactNumber(),
    default="0.1",
    show_default=True,
    metavar="R",
    help="How close counts are meant to come: 0.1 is 10 %.",
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
@_statistics
@click.option(
    "--aggregates-share", type=ExactNumber(), metavar="SHARE", help="Share of the budget for --sum and the like (1/2)."
)
@click.option("--max-keys", type=click.IntRange(1), metavar="L", help="Keys a person counts for in --sum and the like.")
@_around
@answering
@_spelled()
def counts(as_json: bool, **options: Any) -> None:
    """Count the people of as many keys as the budget buys.

    Private Count Release: no bound on what a person contributes, nothing to tune. SOURCE is a file or a glob of files
    (.parquet, .csv, .csv.gz, .tsv), a table of --database, or a table of --config.

    \b
      sfumato release counts data.parquet --unit user_id --key item \\
        --rho 0.5 --delta 1e-6 --out counts.parquet
    """
    from sfumato.release import counts_job

    asked = {name: options[name] for name in ("relative_error", "limit", "refine", "aggregates_share", "max_keys")}
    _released(as_json, options, counts_job, asked, _asked(options))


@release.command("aggregate")
@_source
@click.option("--units", is_flag=True, help="Distinct people.  [default if nothing else is asked for]")
@_statistics
@click.option(
    "--max-keys",
    required=True,
    metavar="L|auto",
    help="Keys a person counts for; auto: chosen from the data, privately.",
)
@click.option(
    "--selection-max-keys",
    type=click.IntRange(1),
    metavar="L",
    help="Keys a person counts for when keys are selected, if other than --max-keys.",
)
@click.option(
    "--selection",
    type=click.Choice(["auto", "laplace", "geometric", "gaussian"]),
    default="auto",
    show_default=True,
    help="The rule that selects keys.",
)
@click.option("--selection-share", type=ExactNumber(), metavar="SHARE", help="Share of the budget that selects keys.")
@click.option(
    "--pipeline",
    type=click.Choice(["plume", "naive", "fast"]),
    default="plume",
    show_default=True,
    help="How people are bounded.",
)
@click.option("--rebound/--no-rebound", default=None, help="Count people again on the selected keys, or do not.")
@click.option("--keys", metavar="FILE", help="Public keys: a file with the key columns. Nothing is selected.")
@_budget
@_around
@answering
@_spelled()
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

    statistics = _asked(options)
    if options["units"] or not statistics:
        statistics = [Units(), *statistics]
    names = ("selection_max_keys", "selection", "selection_share", "pipeline", "rebound", "keys")
    asked = {name: options[name] for name in names} | {"max_keys": _max_keys(options["max_keys"])}
    _released(as_json, options, aggregates_job, asked, statistics)


@release.command("verify")
@click.argument("file")
@answering
@_spelled(out="FILE", table="FILE")
def verify(as_json: bool, file: str) -> None:
    """Check a released table against its statement.

    That the table is the one that was released, and that the statement's guarantee follows from its steps. Lists every
    difference and exits with 1 if there is one.

    \b
      sfumato release verify counts.parquet
    """
    from sfumato.release import outputs
    from sfumato.release.verify import differences

    problems = differences(outputs.target(file))
    told = "The table is the one that was released, and its guarantee follows from its steps."

    def page() -> RenderableType:
        from rich.console import Group

        return (
            Group(paragraphs("The table and its statement differ:"), "", items(problems))
            if problems
            else paragraphs(told)
        )

    show({"problems": problems}, page, as_json=as_json)
    if problems:
        sys.exit(DIFFERENT)


@release.command("plot")
@click.argument("file")
@click.option("--top", type=click.IntRange(1, 200), default=20, show_default=True, metavar="N", help="How many keys.")
@click.option("--statistic", metavar="NAME", help="Which statistic; the first if it is left out.")
@click.option("--chart", metavar="FILE", help="Save a chart: FILE.svg, .png, .html, or .json (Vega-Lite).")
@answering
@_spelled(out="FILE", table="FILE")
def plot(as_json: bool, file: str, top: int, statistic: str | None, chart: str | None) -> None:
    """Draw the largest counts of a released table, with their intervals.

    \b
      sfumato release plot counts.parquet --chart counts.svg
    """
    from sfumato.cli.ask import chart_path
    from sfumato.cli.terminal import render_release
    from sfumato.release import outputs

    picture = None if chart is None else chart_path(chart)
    table = outputs.read(outputs.target(file))
    drawn = table.chart(top=top, statistic=statistic)
    if picture is not None:
        try:
            drawn.save(picture)
        except OSError:
            raise InvalidArgument("--chart", f"{str(picture)!r} cannot be written") from None
    show(drawn.spec, lambda: render_release(table, top=top, statistic=statistic), as_json=as_json)


def _released(
    as_json: bool, options: dict[str, Any], make: Callable[..., Job], asked: dict[str, Any], statistics: list[Statistic]
) -> None:
    names = ("unit", "rho", "epsilon", "delta", "auto_bounds", "database", "memory", "out", "overwrite")
    shared = {name: options[name] for name in (*names, "config", "budget", "job")}
    shared |= {"key": options["key"], "filter": options["where"], "types": _types(options["types"])}
    if options["out"] is None and not options["dry_run"]:
        raise InvalidArgument("--out", "say where the table goes, such as --out table.parquet; or --dry-run")
    job = make(options["source"], aggregates=statistics, **asked, **shared)
    if options["dry_run"]:
        plan = job.plan()
        show(plan, lambda: _planned(job, plan), as_json=as_json)
        return
    if options["job"] is None and job.name is not None:
        click.echo(f"sfumato: this is job {job.name}; if it is interrupted, go on with --job {job.name}", err=True)
    with _stages() as progress:
        table = replace(job, progress=progress).run()
    place = options["out"] if "://" not in options["out"] else options["out"].rpartition("#")[2]  # no password
    told = {"out": place, "rows": len(table), "statement": dict(table.statement)}
    show(told, lambda: _done(job, table), as_json=as_json)


def _planned(job: Job, plan: dict[str, Any]) -> RenderableType:
    from rich.console import Group
    from rich.table import Table

    from sfumato.cli.terminal import Words

    grid = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    for heading in ("what it is spent on", "noise", "rho"):
        grid.add_column(heading, justify="right" if heading == "rho" else "left", header_style="bold")
    for step in plan["steps"]:
        grid.add_row(
            Words(step["purpose"], cropped=False),
            Words(step["law"], cropped=False),
            f"{float(Fraction(step['rho'])):.4g}",
        )
    lines = [
        f"Guarantee: {job.request.guarantee}.",
        *job.request.assumptions,
        "No row was read and nothing was charged.",
    ]
    if "charge" in plan:
        lines.insert(1, _cost(plan))
    return Group(grid, "", paragraphs(*lines))


def _cost(plan: dict[str, Any]) -> str:
    from sfumato.accounting import Charge

    charge = Charge.from_dict(plan["charge"])
    if not charge:
        return "This job is begun or finished, and costs no more when it is run again."
    left = [f"{each['account']}, where {Charge.from_dict(each['left'])} are left" for each in plan["accounts"]]
    return f"It would take {charge} of {'; and of '.join(left)}."


def _done(job: Job, table: Released) -> RenderableType:
    from rich.console import Group

    from sfumato.cli.terminal import render_release

    place = "" if job.out is None else job.out.place
    written = f"Written to {place}: {len(table):,} row{'' if len(table) == 1 else 's'}."
    return Group(render_release(table, top=10), "", paragraphs(written))


@contextmanager
def _stages() -> Iterator[Callable[[str, float], None]]:
    """A bar on stderr while somebody watches, by stage."""
    if not sys.stderr.isatty():
        yield lambda stage, share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("reading", total=None)

        def told(stage: str, share: float) -> None:
            """Until something of a stage is done, the bar only shows that it goes on."""
            bars.update(task, description=stage, completed=share, total=1.0 if share else None)

        yield told


def _asked(options: dict[str, Any]) -> list[Statistic]:
    """The statistics of the options, in the order of the help text."""
    from sfumato.release import Count, Mean, Quantile, Sum, Variance

    asked: list[Statistic] = []
    if options["count"] is not None:
        asked.append(Count(_whole("--count", options["count"])))
    values = options["values"]
    for text in options["sums"]:
        column, low, high, step = _bounds("--sum", text)
        asked.append(Sum(column, low, high, step=step))
    for option, kind, texts in (("--mean", Mean, options["means"]), ("--variance", Variance, options["variances"])):
        for text in texts:
            column, low, high, step = _bounds(option, text)
            asked.append(kind(column, low, high, step=step, values=values))
    for text in options["quantiles"]:
        rest, _, listed = text.rpartition(":")
        if not rest:
            raise InvalidArgument("--quantile", f"write {text}:0:100:0.5 or, with --auto-bounds, {text}:0.5")
        column, low, high, _ = _bounds("--quantile", rest, step=False)
        asked.append(Quantile(column, low, high, [_number("--quantile", q) for q in listed.split(",")], values=values))
    return asked


def _bounds(
    option: str, text: str, *, step: bool = True
) -> tuple[str, Fraction | None, Fraction | None, Fraction | None]:
    """The column, its bounds if there are any, and its step if there is one."""
    column, *written = text.split(":")
    if not column or len(written) not in ((0, 2, 3) if step else (0, 2)):
        form = "COLUMN:LOW:HIGH[:STEP]" if step else "COLUMN:LOW:HIGH:QUANTILES"
        raise InvalidArgument(option, f"{text!r} must be {form}, such as amount:0:100")
    numbers: list[Bound] = [_number(option, number) for number in written]
    low, high, given = [*numbers, None, None, None][:3]
    return column, low, high, given


def _number(option: str, text: str) -> Fraction:
    try:
        return exact(text)
    except ValueError:
        raise InvalidArgument(option, f"{text[:40]!r} is not a number") from None


def _whole(option: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise InvalidArgument(option, f"{text[:40]!r} is not a whole number")
    return int(text)


def _max_keys(text: str) -> int | str:
    return text if text == "auto" else _whole("--max-keys", text)


def _types(written: tuple[str, ...]) -> dict[str, str]:
    types = dict(text.partition("=")[::2] for text in written)
    for column, kind in types.items():
        if not column or kind not in TYPES:
            raise InvalidArgument("--type", f"must be COLUMN=TYPE, and the type one of {', '.join(TYPES)}")
    return types
