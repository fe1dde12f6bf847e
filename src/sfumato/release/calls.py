"""The calls of Python: make a job of a release, or run it at once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeAlias, TypedDict, Unpack, get_args

from sfumato.accounting.numbers import Number, positive, whole
from sfumato.config import Config, load_config
from sfumato.errors import InvalidArgument, find_nearest
from sfumato.release import outputs
from sfumato.release.aggregates import Aggregates, Pipeline
from sfumato.release.bounding import MAX_KEYS
from sfumato.release.counts import Counts, Method
from sfumato.release.frames import Frame, FrameLike
from sfumato.release.guarantee import ReleaseGuarantee, as_written
from sfumato.release.job import Job, Payer
from sfumato.release.request import ProgressCallback, budget_share, quiet, without_bounds
from sfumato.release.selection import WEIGHTED, Selection
from sfumato.release.source import Reading
from sfumato.release.statistics import STATISTICS
from sfumato.release.statistics.base import Statistic
from sfumato.release.statistics.units import Units
from sfumato.release.table import Released

P = ParamSpec("P")

NoiseOption: TypeAlias = Literal["auto", "gaussian", "laplace"]

STATISTICS_SHARE = Fraction(1, 2)
"""What statistics on the keys that PCR finds take of the budget, unless it is given."""


class JobOptions(TypedDict, total=False):
    """Further options of every release, by keyword.

    `database`: then the source is a table of it. `types` of the columns of a CSV file. `memory` for the engine, such as
    "2GB". `out` and `overwrite`: where the table goes. `config`, `budget` and `job`: a ledger, who pays, and a name
    under which the release is the same table whenever it is run again. `table`: the table of `config` whose rows a data
    frame has; its cap pays too. `progress` gets stages, and the share of each that is done.
    """

    database: str | PathLike[str] | None
    types: Mapping[str, str] | None
    memory: str
    out: str | PathLike[str] | None
    overwrite: bool
    config: str | PathLike[str] | Config | None
    budget: str | None
    job: str | None
    table: str | None
    progress: ProgressCallback


def counts_job(
    source: str | PathLike[str] | FrameLike,
    *,
    unit: str,
    key: str | Sequence[str],
    method: Method = "pcr",
    rho: Number | None = None,
    epsilon: Number | None = None,
    delta: Number | None = None,
    limit: int = 10_000,
    relative_error: Number = Fraction(1, 10),
    refine: Number | None = None,
    aggregates: Sequence[Statistic] = (),
    aggregates_share: Number | None = None,
    max_keys: int | None = None,
    auto_bounds: bool = False,
    filter: str | None = None,  # noqa: A002
    name: str | None = None,
    **around: Unpack[JobOptions],
) -> Job:
    """A release of counts that has not been run.

    `source` is a file, a glob of files, a table (of `database`, or of the configuration) or a data frame: what has
    `__arrow_c_stream__` (pandas, Polars, Arrow, DuckDB), or a lazy frame of Polars. A data frame is read once. A ledger
    knows it by its `name`, and never by its content.

    `method`: "pcr" (Private Count Release) bounds nothing, and its intervals are for the true numbers. "gaussian" is
    one release in which a person counts for at most L keys, L chosen by a census. "auto" begins with the first, and
    changes to the second where that reaches smaller counts. At least 90 % of the counts are within `relative_error`;
    those of one release but for one more, and of the number after bounding.

    `refine` and `aggregates_share` are shares of the budget that are set aside: for the counts that are least accurate
    for their size (with "pcr"), and for `aggregates` of the keys that are found, in which a person counts for
    `max_keys` keys. What that drops is estimated, for a fortieth of the share.
    """
    rows = _source(source, name, around)
    _one_of("method", method, Method)
    statistics = _check_statistics(aggregates, auto_bounds=auto_bounds)
    if not statistics and (aggregates_share is not None or max_keys is not None):
        given = "aggregates_share" if aggregates_share is not None else "max_keys"
        raise InvalidArgument(given, "is for aggregates of the keys that are found, and there are none")
    if any(isinstance(statistic, Units) for statistic in statistics):
        raise InvalidArgument("aggregates", "units are what this method counts; leave them out")
    given_share = STATISTICS_SHARE if aggregates_share is None else aggregates_share
    request = Counts(
        reading=_reading(unit, key, statistics, filter),
        guarantee=ReleaseGuarantee.of(rho, epsilon, delta, names_keys=True),
        statistics=statistics,
        method=method,
        limit=limit,
        relative_error=positive("relative_error", as_written(relative_error), at_most=1),
        refine=None if refine is None else budget_share("refine", refine),
        statistics_share=budget_share("aggregates_share", given_share) if statistics else Fraction(0),
        max_keys=_max_keys("max_keys", max_keys),
        source=_origin(rows, around),
    )
    if request.statistics_share + (request.refine or 0) >= 1:
        raise InvalidArgument("refine", "and the share of the aggregates leave nothing for the counts themselves")
    return _job(request, rows, **around)


def aggregates_job(
    source: str | PathLike[str] | FrameLike,
    *,
    unit: str,
    key: str | Sequence[str],
    aggregates: Sequence[Statistic] = (Units(),),
    max_keys: int | Literal["auto"],
    within_max_keys: bool = False,
    rho: Number | None = None,
    epsilon: Number | None = None,
    delta: Number | None = None,
    selection: Selection = "auto",
    selection_max_keys: int | None = None,
    selection_share: Number | None = None,
    pipeline: Pipeline = "plume",
    noise: NoiseOption = "auto",
    rebound: bool | None = None,
    keys: str | PathLike[str] | None = None,
    auto_bounds: bool = False,
    filter: str | None = None,  # noqa: A002
    name: str | None = None,
    **around: Unpack[JobOptions],
) -> Job:
    """A release of aggregates that has not been run.

    `source` and `name` are what they are for `release_counts`.

    A person counts for at most `max_keys` keys. A census, for a part of the budget, tells how many (person, key) pairs
    that drops; "auto" chooses by it. `within_max_keys=True` states that every person has at most `max_keys` keys: then
    there is no census, and the intervals of people are for the true number. State it only if you know it without the
    rows. Keys are selected by noisy counts, in which a person counts for `selection_max_keys`; or they are public, and
    `keys` is a file of them. `rebound` says whether people are counted again on the selected keys; by default the
    census decides. `noise` is "gaussian" or "laplace"; "auto" takes Laplace noise where that is better for every number
    and no ledger pays, which is where a person has one or two keys. It needs an epsilon.
    """
    rows, public = _source(source, name, around), None if keys is None else _path("keys", keys)
    _one_of("selection", selection, Selection)
    _one_of("pipeline", pipeline, Pipeline)
    if public is not None and not (selection == "auto" and selection_max_keys is None and selection_share is None):
        raise InvalidArgument("keys", "are public, so nothing is selected; leave selection's options out")
    if within_max_keys and max_keys == "auto":
        raise InvalidArgument("within_max_keys", "needs max_keys: the number of keys that no person is above")
    if pipeline == "fast" and selection in WEIGHTED:
        raise InvalidArgument("selection", "by weights is not possible in the fast pipeline; use another pipeline")
    if pipeline == "fast" and selection_max_keys not in (None, max_keys):
        raise InvalidArgument("selection_max_keys", "must be max_keys with the fast pipeline, which bounds once")
    statistics = _check_statistics(aggregates, auto_bounds=auto_bounds)
    if not statistics:
        raise InvalidArgument("aggregates", f"ask for one at least: {', '.join(STATISTICS)}")
    request = Aggregates(
        reading=_reading(unit, key, statistics, filter),
        guarantee=ReleaseGuarantee.of(rho, epsilon, delta, names_keys=public is None),
        statistics=statistics,
        max_keys=None if max_keys == "auto" else whole("max_keys", max_keys, at_least=1, at_most=MAX_KEYS),
        within_max_keys=within_max_keys,
        selection_max_keys=_max_keys("selection_max_keys", selection_max_keys),
        selection=selection,
        selection_share=None if selection_share is None else budget_share("selection_share", selection_share),
        pipeline=pipeline,
        rebound=rebound,
        public=public is not None,
        source=_origin(rows, around, public),
    )
    request = _with_noise(request, noise, has_ledger=around.get("config") is not None)
    return _job(request, rows, public, **around)


def _with_noise(request: Aggregates, noise: NoiseOption, *, has_ledger: bool) -> Aggregates:
    """The request with the noise that was asked for or, for "auto", the better one."""
    _one_of("noise", noise, NoiseOption)
    if noise != "laplace":
        return request if noise == "gaussian" or has_ledger else request.with_better_noise()
    if request.guarantee.asked is None:
        raise InvalidArgument("noise", "laplace has its price in epsilon; give epsilon instead of rho")
    if request.max_keys is None:
        raise InvalidArgument("noise", "laplace needs max_keys as a number, such as 1; for many keys use gaussian")
    if not request.can_be_pure:
        problem = "laplace is for people, rows, sums, means and variances with bounds; use gaussian for the others"
        raise InvalidArgument("noise", problem)
    return replace(request, noise="laplace")


def _running(make: Callable[P, Job], summary: str) -> Callable[P, Released]:
    def run(*args: P.args, **kwargs: P.kwargs) -> Released:
        return make(*args, **kwargs).run()

    _, _, about = (inspect.getdoc(make) or "").partition("\n\n")
    run.__doc__ = f"{summary}\n\n{about}\n\n{inspect.getdoc(JobOptions)}"
    run.__signature__ = inspect.signature(make).replace(return_annotation="Released")  # type: ignore[attr-defined]
    return run


release_counts = _running(counts_job, "Distinct people of as many keys as a budget buys.")
release_aggregates = _running(
    aggregates_job, "Statistics of every key that enough people have, or of public keys: Plume."
)


def _job(
    request: Counts | Aggregates,
    source: str | Frame,
    keys: str | None = None,
    *,
    database: str | PathLike[str] | None = None,
    types: Mapping[str, str] | None = None,
    memory: str = "2GB",
    out: str | PathLike[str] | None = None,
    overwrite: bool = False,
    config: str | PathLike[str] | Config | None = None,
    budget: str | None = None,
    job: str | None = None,
    table: str | None = None,
    progress: ProgressCallback = quiet,
) -> Job:
    if (config is None) != (budget is None):
        raise InvalidArgument(
            "budget" if budget is None else "config", "config and budget go together, to use a ledger"
        )
    payer = None
    if config is not None and budget is not None:
        payer = Payer(config if isinstance(config, Config) else load_config(config), budget)
    return Job(
        request=request,
        source=source,
        keys=keys,
        database=None if database is None else Path(database),
        types=types or {},
        memory=memory,
        out=None if out is None else outputs.target(_path("out", out)),
        overwrite=overwrite,
        payer=payer,
        name=job,
        progress=progress,
    )


def _max_keys(argument: str, most: int | None) -> int | None:
    return None if most is None else whole(argument, most, at_least=1, at_most=MAX_KEYS)


def _check_statistics(aggregates: Sequence[Statistic], *, auto_bounds: bool) -> tuple[Statistic, ...]:
    statistics = tuple(aggregates)
    for statistic in statistics:
        if not isinstance(statistic, Statistic):
            known = ", ".join(kind.class_name for kind in STATISTICS.values())
            raise InvalidArgument("aggregates", f"must be one of {known}")
    if not auto_bounds:
        for lacking in without_bounds(statistics):
            lacking.scale  # noqa: B018
    return statistics


def _reading(unit: str, key: str | Sequence[str], statistics: Sequence[Statistic], where: str | None) -> Reading:
    names = (key,) if isinstance(key, str) else tuple(key)
    if not isinstance(unit, str) or not unit:
        raise InvalidArgument("unit", "is the column that says whose row it is")
    if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise InvalidArgument("key", "is a column, or several different ones")
    values = dict.fromkeys(name for statistic in statistics for name in statistic.columns)
    return Reading(unit, names, tuple(values), where)


def _source(source: str | PathLike[str] | FrameLike, name: str | None, around: JobOptions) -> str | Frame:
    """A path, the name of a table, or a frame. A ledger knows a frame by its name."""
    table = around.get("table")
    if isinstance(source, str | PathLike):
        if name is not None:
            raise InvalidArgument("name", "is for data frames; a file or a table has a name already")
        if table is not None:
            raise InvalidArgument("table", "is for data frames; of a file it is known which tables have its rows")
        return _path("source", source)
    if table is not None and around.get("config") is None:
        raise InvalidArgument("table", "is a table of a configuration; give config and budget too")
    if table is not None and not isinstance(table, str):
        raise InvalidArgument("table", "must be the name of a table of the configuration")
    frame = Frame.of(source, "" if name is None else name, table or "")
    if name is None and around.get("config") is not None:
        raise InvalidArgument("name", "is what a ledger knows a data frame by; give one, such as name='sales-2026-11'")
    if name is not None and not (isinstance(name, str) and name):
        raise InvalidArgument("name", "must be a text that is not empty")
    if around.get("database") is not None:
        raise InvalidArgument("database", "does not go with a data frame")
    return frame


def _origin(source: str | Frame, around: JobOptions, keys: str | None = None) -> str:
    named = ["frame", source.name, *([source.table] if source.table else [])] if isinstance(source, Frame) else source
    places = [named, around.get("database"), keys, sorted((around.get("types") or {}).items())]
    return repr([place if isinstance(place, list) else str(place or "") for place in places])


def _path(argument: str, path: str | PathLike[str]) -> str:
    if not isinstance(path, str | PathLike):
        raise InvalidArgument(argument, "must be the path of a file")
    return path if isinstance(path, str) else str(Path(path))


def _one_of(argument: str, value: Any, options: Any) -> None:
    if value not in get_args(options):
        known = get_args(options)
        raise InvalidArgument(argument, f"must be one of {', '.join(known)}", nearest=find_nearest(value, known))
