"""A released table: noisy statistics by key, with the statement of what was guaranteed. Everything in it may leave.

Columns are arrays, which hold a million rows without trouble. Only numbers may be missing: they are NaN in the arrays,
NULL in databases and files, None in `rows`. A NULL in any other column is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato import show
from sfumato.errors import InvalidArgument, find_nearest
from sfumato.release.estimand import Estimand, bounding_lines, read_estimand
from sfumato.show import Chart, Figures, cell, heading
from sfumato.wire.frames import arrow_stream, pandas_frame, polars_frame

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]
    import polars

Array: TypeAlias = NDArray[Any]

TOP = 20


@dataclass(frozen=True, eq=False)
class Released:
    """A table of noisy statistics.

    `columns` has the kind of each column, keys first, then each statistic with its interval and its deviation; `data`
    has the values, as arrays however they were given. `statement` says what was guaranteed and what a column means.
    """

    columns: Mapping[str, str]
    data: Mapping[str, Any]
    statement: Mapping[str, Any]

    def __post_init__(self) -> None:
        if [*self.columns] != [*self.data]:
            raise InvalidArgument("data", "must have the same columns as `columns`, in the same order")
        arrays = {name: column(name, kind, self.data[name]) for name, kind in self.columns.items()}
        if len({len(array) for array in arrays.values()}) > 1:
            raise InvalidArgument("data", "must have columns of the same length")
        object.__setattr__(self, "data", arrays)

    def __len__(self) -> int:
        return next((len(array) for array in self.data.values()), 0)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A dictionary for each row. A number that is missing is None."""
        lists = [self.values(name) for name in self.columns]
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*lists, strict=True)]

    def values(self, name: str) -> list[Any]:
        """A column as Python's own values."""
        array = self.data[name]
        if self.columns[name] != "number":
            return _to_list(array)
        values = array.astype(object)
        values[np.isnan(array)] = None
        return _to_list(values)

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas data frame with a typed column for each of `columns`, also when there are no rows."""
        return pandas_frame(self.columns, self.data)

    def to_polars(self) -> polars.DataFrame:
        """A polars data frame with a typed column for each of `columns`, also when there are no rows."""
        return polars_frame(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream: the PyCapsule interface, without pyarrow."""
        return arrow_stream(self.columns, self.data, requested_schema)

    def write(self, out: str | Path, *, overwrite: bool = False) -> None:
        """Write the table and its statement; `out` is FILE.parquet, FILE.csv, FILE.duckdb#table or a PostgreSQL URL."""
        from sfumato.release import outputs

        target = outputs.target(str(out))
        target.check(overwrite=overwrite)
        outputs.write(target, self, overwrite=overwrite)

    def chart(self, top: int = TOP, statistic: str | None = None, title: str = "") -> Chart:
        """Horizontal bars with their intervals: the `top` largest of a statistic, the first one by default."""
        return show.chart(self.figures(top, statistic), title=title)

    def _repr_html_(self) -> str:
        return show.table_html(self.figures(), self.lines())

    @property
    def keys(self) -> list[str]:
        """The columns that tell rows apart."""
        return [named["name"] for named in self.statement["columns"] if named["role"] == "key"]

    @property
    def statistics(self) -> list[str]:
        """The columns that hold noisy statistics."""
        return [named["name"] for named in self.statement["columns"] if named["role"] == "statistic"]

    def beside(self, statistic: str, role: str) -> str | None:
        """The column that holds the "low", the "high" or the "deviation" of a statistic, if there is one."""
        columns = self.statement["columns"]
        return next((at["name"] for at in columns if (at["role"], at["statistic"]) == (role, statistic)), None)

    def estimand(self, statistic: str) -> Estimand:
        """Which number the intervals of a statistic are for: the true one, or the one after bounding and clamping."""
        return read_estimand(self.statement, self._statistic(statistic))

    def has_intervals(self, statistic: str) -> bool:
        low = self.beside(statistic, "low")
        return low is not None and not (len(self) and np.isnan(self.data[low].astype(float)).all())

    def figures(self, top: int = TOP, statistic: str | None = None) -> Figures:
        """The `top` largest rows of a statistic as a picture needs them."""
        if top < 1:
            raise InvalidArgument("top", "must be at least 1")
        measure = self._statistic(statistic)
        chosen = self._largest(measure, top)
        keys = [[cell(value) for value in _to_list(self.data[name][chosen])] for name in self.keys]
        estimand, bounded = self.estimand(measure), self.has_intervals(measure)
        # The largest rows were chosen by their noise too: their own intervals hold less often.
        among = ", in 19 of 20 rows of the whole table" if len(chosen) < len(self) else ""
        ends = zip(self._end(measure, "low", chosen), self._end(measure, "high", chosen), strict=True)
        return Figures(
            by=tuple(self.keys),
            keys=tuple(zip(*keys, strict=True)) if keys else ((),) * len(chosen),
            measure=measure,
            counts=tuple(_to_list(self.data[measure][chosen])),
            thinned=self.statement["parameters"].get("selection") != "public keys",
            error=0 if bounded else None,
            intervals=tuple(ends) if bounded else (),
            interval_heading=estimand.heading,
            interval_meaning=f"95 % intervals are {estimand}{among}",
            total=len(self),
        )

    def _statistic(self, name: str | None) -> str:
        known = self.statistics
        if not known:
            raise InvalidArgument("statistic", "this table has none to draw")
        if name is not None and name not in known:
            raise InvalidArgument("statistic", f"must be one of {', '.join(known)}", nearest=find_nearest(name, known))
        return name or known[0]

    def _largest(self, name: str, top: int) -> Array:
        """The rows of the largest values, without those that have none; of equal ones the first."""
        values = self.data[name]
        there = np.flatnonzero(np.isfinite(values))
        return there[np.argsort(-values[there].astype(float), kind="stable")[:top]]

    def _ends(self, statistic: str, chosen: Array) -> tuple[tuple[Any, Any], ...]:
        return tuple(zip(*(self._end(statistic, role, chosen) for role in ("low", "high")), strict=True))

    def _end(self, statistic: str, role: str, chosen: Array) -> list[Any]:
        """An end of the intervals. Where there is none the interval is the value itself."""
        values, name = self.data[statistic][chosen], self.beside(statistic, role)
        if name is None:
            return _to_list(values)
        ends = self.data[name][chosen]
        there = np.isfinite(ends)
        return _to_list(ends if there.all() else np.where(there, ends, values))

    def lines(self) -> dict[str, str]:
        """The guarantee in words, a label for each line."""
        guarantee = self.statement["guarantee"]
        rho, delta, told_at = (float(Fraction(guarantee[name])) for name in ("rho", "delta", "epsilon_delta"))
        approximate = f" but for delta {delta:.3g}" if delta else ""
        epsilon = math.ceil(guarantee["epsilon"] * 1000) / 1000
        zcdp, pair = f"rho {rho:.5g} of zCDP{approximate}", f"epsilon {epsilon:,} at delta {told_at:.3g}"
        is_exact = guarantee.get("accounting") == "exact"
        lines = {
            "unit": f"{self.statement['unit']}: {self.statement['neighbours']}",
            "guarantee": f"{pair}; {zcdp}" if is_exact else f"{zcdp}, which is {pair}",
            "conversion": guarantee["conversion"],
            **groups_line(self.statement.get("groups") or ()),
            "statistics": ", ".join(map(heading, self.statistics)),
            "intervals": "; ".join(self.interval_lines()),
            "bounding": "; ".join(bounding_lines(self.statement)),
            "rows": f"{len(self):,}",
        }
        return {label: text for label, text in lines.items() if text}

    def interval_lines(self) -> list[str]:
        """Which number the intervals of each statistic are for, in words; those of equal meaning together."""
        meanings: dict[str, list[str]] = {}
        for name in self.statistics:
            meaning = f"95 % {self.estimand(name)}" if self.has_intervals(name) else "no intervals"
            meanings.setdefault(meaning, []).append(heading(name))
        return [f"{', '.join(names)}: {meaning}" for meaning, names in meanings.items()]


def groups_line(groups: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What is promised to several people together; nothing where a statement does not say."""

    def bound(group: Mapping[str, Any]) -> str:
        if group["epsilon"] is None:
            return f"{group['people']} people have no bound"
        epsilon = math.ceil(group["epsilon"] * 100) / 100
        return f"{group['people']} people have epsilon {epsilon:,} at delta {group['delta']:.3g}"

    return {"together": "; ".join(map(bound, groups))} if groups else {}


def column(name: str, kind: str, values: Any) -> Array:
    """The values of a column as an array of its kind; those that do not fit it are refused, not changed."""
    if kind not in _ARRAYS:
        raise InvalidArgument("columns", f"{name!r} must be one of {', '.join(_ARRAYS)}")
    try:
        return _ARRAYS[kind](values)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument("data", f"the column {name!r} holds what is not {_WORDS[kind]}") from None


def _text(values: Any) -> Array:
    array = np.empty(len(values), dtype=object)
    array[:] = _to_list(values) if isinstance(values, np.ndarray) else values
    if not all(isinstance(value, str) for value in array):
        raise TypeError
    return array


def _integers(values: Any) -> Array:
    array = _whole(values)
    if not len(array):
        return array.astype(np.int64)
    if array.dtype.kind not in "iu" or int(array.max()) >= 2**63:
        raise TypeError
    return array.astype(np.int64)


def _numbers(values: Any) -> Array:
    array = np.array(values, dtype=float)
    array[np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else []] = np.nan
    return array


def _booleans(values: Any) -> Array:
    array = _whole(values)
    if len(array) and array.dtype.kind != "b":
        raise TypeError
    return array.astype(bool)


def _times(unit: str) -> Callable[[Any], Array]:
    def times(values: Any) -> Array:
        array = np.array(_whole(values), dtype=f"datetime64[{unit}]")
        if np.isnat(array).any():
            raise TypeError
        return array

    return times


def _whole(values: Any) -> Array:
    if np.ma.is_masked(values):
        raise TypeError
    return np.asarray(values)


def _to_list(array: Array) -> list[Any]:
    found: list[Any] = array.tolist()
    return found


_ARRAYS: Mapping[str, Callable[[Any], Array]] = {
    "text": _text,
    "integer": _integers,
    "number": _numbers,
    "boolean": _booleans,
    "date": _times("D"),
    "timestamp": _times("us"),
}
_WORDS: Mapping[str, str] = {
    "text": "text",
    "integer": "a whole number of 64 bits",
    "number": "a number",
    "boolean": "true or false",
    "date": "a date",
    "timestamp": "a time",
}
