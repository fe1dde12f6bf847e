"""The options of `sfumato release`, and what their values mean."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.options import ExactNumber, read_number, with_options
from sfumato.errors import InvalidArgument
from sfumato.release.statistics import STATISTICS, StatisticKind
from sfumato.types import TYPES

if TYPE_CHECKING:
    from sfumato.release import Statistic

# Arguments of a release that have another name than their option.
JOB_OPTIONS = {"type": "--type", **dict.fromkeys(("aggregates", "column", "statistics"), "--sum and the like")}

with_source = with_options(
    click.argument("source"),
    click.option("--unit", required=True, metavar="COLUMN", help="Whose presence is hidden: the person's column."),
    click.option("--key", required=True, multiple=True, metavar="COLUMN", help="What is counted; may be repeated."),
    click.option("--filter", "where", metavar="SQL", help="Only rows where this holds, such as \"country = 'NL'\"."),
    click.option("--database", metavar="FILE", help="A DuckDB database with SOURCE as a table or a view."),
    click.option("--type", "types", multiple=True, metavar="COLUMN=TYPE", help="The type of a column of a CSV file."),
    click.option("--memory", default="2GB", show_default=True, metavar="SIZE", help="What DuckDB may use."),
)
with_price = with_options(
    click.option("--rho", type=ExactNumber(), metavar="R", help="The budget, as rho of zCDP; this, or --epsilon."),
    click.option("--epsilon", type=ExactNumber(), metavar="E", help="The budget, as (epsilon, delta); this, or --rho."),
    click.option(
        "--delta", type=ExactNumber(), metavar="D", help="Well below one over the number of people, such as 1e-6."
    ),
)


def _statistic_option(name: str, kind: StatisticKind) -> Callable[..., Any]:
    """Its option: a flag, a number that may be left out, or a column with its arguments, which may be repeated."""
    names = (f"--{name}", f"statistic_{name}")
    if not kind.takes:
        return click.option(*names, is_flag=True, help=kind.help)
    if "column" not in kind.takes:
        return click.option(*names, is_flag=False, flag_value="1", metavar=kind.form, help=kind.help)
    return click.option(*names, multiple=True, metavar=kind.form, help=kind.help)


with_statistics = with_options(
    *(_statistic_option(name, kind) for name, kind in STATISTICS.items() if name != "units"),
    click.option(
        "--values",
        type=click.IntRange(1, 1000),
        default=1,
        show_default=True,
        metavar="N",
        help="Values per person and key.",
    ),
    click.option("--quantile-intervals", "intervals", is_flag=True, help="Quantiles with intervals, less accurate."),
    click.option("--auto-bounds", is_flag=True, help="Find bounds that are left out, for a part of the budget."),
)
with_job = with_options(
    click.option("--out", metavar="FILE", help="FILE.parquet, FILE.csv, FILE.duckdb#table or postgresql://...#table."),
    click.option("--overwrite", is_flag=True, help="Replace what is there."),
    click.option("--config", metavar="FILE", help="Debit the ledger of this configuration."),
    click.option("--budget", metavar="NAME", help="Which of its budgets pays."),
    click.option(
        "--job", metavar="ID", help="A name for this release: run again, it gives the same table and costs nothing."
    ),
    click.option("--dry-run", is_flag=True, help="Show what would be done and what it costs. Reads no row."),
)


def read_statistics(options: dict[str, Any]) -> list[Statistic]:
    """The statistics that were asked for, in the order of the help text."""
    asked: list[Statistic] = []
    for name, kind in STATISTICS.items():
        given = options.get(f"statistic_{name}")
        texts = given if isinstance(given, tuple) else () if given in (None, False) else (given,)
        common = {each: options[each] for each in ("values", "intervals") if each in kind.takes}
        asked += [kind.load()(**_read_arguments(f"--{name}", kind, text), **common) for text in texts]
    return asked


def _read_arguments(option: str, kind: StatisticKind, text: str) -> dict[str, Any]:
    """The arguments of a statistic, from the text of its option."""
    if "cap" in kind.takes:
        return {"cap": _read_whole(option, text)}
    if "column" not in kind.takes:
        return {}
    given: dict[str, Any] = {}
    if "quantiles" in kind.takes:
        rest, _, quantiles = text.rpartition(":")
        if not rest:
            raise InvalidArgument(option, f"write {text}:0:100:0.5 or, with --auto-bounds, {text}:0.5")
        given["quantiles"], text = [_read_exact(option, share) for share in quantiles.split(",")], rest
    return given | _read_bounds(option, text, quantiles="quantiles" in kind.takes)


def _read_bounds(option: str, text: str, *, quantiles: bool) -> dict[str, Any]:
    """The column, its bounds if there are any, and its step if there is one."""
    column, *texts = text.split(":")
    if not column or len(texts) not in (0, 2, 3):
        ending, example = (":QUANTILES", ":0.5,0.9") if quantiles else ("", "")
        form = f"COLUMN:LOW:HIGH[:STEP]{ending}, such as amount:0:100{example}"
        raise InvalidArgument(option, f"{text!r} must be {form}")
    numbers = [_read_exact(option, number) for number in texts]
    return {"column": column, **dict(zip(("low", "high", "step"), numbers, strict=False))}


def _read_exact(option: str, text: str) -> Fraction:
    try:
        return read_number(text)
    except ValueError:
        raise InvalidArgument(option, f"{text[:40]!r} is not a number") from None


def _read_whole(option: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise InvalidArgument(option, f"{text[:40]!r} is not a whole number")
    return int(text)


def read_max_keys(text: str) -> int | str:
    return text if text == "auto" else _read_whole("--max-keys", text)


def read_types(texts: tuple[str, ...]) -> dict[str, str]:
    """The type per column, from COLUMN=TYPE."""
    types = dict(text.partition("=")[::2] for text in texts)
    for column, kind in types.items():
        if not column or kind not in TYPES:
            raise InvalidArgument("--type", f"must be COLUMN=TYPE, and the type one of {', '.join(TYPES)}")
    return types
