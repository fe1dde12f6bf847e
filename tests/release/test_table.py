"""Released tables: typed columns, data frames, pictures of the largest rows, and the guarantee in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pytest

from sfumato.accounting import zcdp_epsilon
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.census import KeysPerPerson
from sfumato.mechanisms.noise import DiscreteGaussian
from sfumato.release.estimand import ALL_KEYS, RELEASED_KEYS, Estimand, bounding_record
from sfumato.release.table import Released

HOSTILE = (
    *("it's; DROP TABLE x --", 'say "no"', "#", "a,b", "\\.", "\\N", "NULL", "", " ", "a\nb", "a\n\\.\nb", "a\r\nb"),
    *("\r", "\t", "Zürich", "日本 🙂", "\ufeffx", "\x1b[2J", "true", "1e5", "{}", "%s", "=1+1", "a" * 200_000),
)
KEYS = {"a \"quoted\" 'key'": "text", "order": "integer", "share": "number", "known": "boolean"}
KEYS |= {"day": "date", "at": "timestamp"}
ROLES = {"": "statistic", "_low": "low", "_high": "high", "_deviation": "deviation"}


def statement(keys: dict[str, str], statistics: dict[str, str], **changes: Any) -> dict[str, Any]:
    """A statement as releases have it, true of the tables made here."""
    columns = [{"name": name, "type": kind, "role": "key", "statistic": None} for name, kind in keys.items()]
    for name, kind in statistics.items():
        for end, role in ROLES.items():
            typed = "number" if role == "deviation" else kind
            columns.append({"name": f"{name}{end}", "type": typed, "role": role, "statistic": name})
            columns[-1] |= {"constant": True} if (role, name) == ("deviation", "units") else {}
    return {
        "format": "sfumato-release/1",
        "code": "sfumato 0.1.0",
        "method": "pcr",
        "unit": "user_id",
        "neighbours": "tables that differ by all rows of one user_id",
        "guarantee": {
            "rho": "1/2",
            "delta": "1/1000000",
            "epsilon": zcdp_epsilon(Fraction(1, 2), Fraction(1, 10**6)),
            "epsilon_delta": "1/500000",
            "conversion": "optimal",
        },
        "parameters": {"threshold": 10},
        "steps": [
            {"purpose": "keys", "law": "discrete Gaussian", "rho": "1/6", "delta": "1/1000000"},
            {"purpose": "units", "law": "discrete Gaussian", "rho": "1/3", "delta": "0"},
        ],
        "rules": ["numbers are noisy"],
        "columns": [{**column, "meaning": f"what {column['name']} means"} for column in columns],
        "job": None,
        "request": "00" * 32,
        **changes,
    }


def table(
    rows: Sequence[tuple[Any, ...]], keys: dict[str, str], statistics: dict[str, str], **changes: Any
) -> Released:
    said = statement(keys, statistics, **changes)
    columns = {column["name"]: column["type"] for column in said["columns"]}
    cells = [*zip(*rows, strict=True)] or [()] * len(columns)
    return Released(columns, dict(zip(columns, cells, strict=True)), said)


def counted(*rows: tuple[str, int], **changes: Any) -> Released:
    """Counts of people by article."""
    cells = [(key, count, count - 20, count + 20, 10.0) for key, count in rows]
    return table(cells, {"article": "text"}, {"units": "integer"}, **changes)


LATEST, EARLIEST = datetime(9999, 12, 31, 23, 59, 59, 999_999), datetime(1, 1, 1)
BOTH = (10**6, 0, 10**6, 25.5, 1 / 3, -0.5, 1e300, 0.1)
ROWS: list[tuple[Any, ...]] = [
    *(
        (text, -place, place / 7, place % 2 == 0, date(2026, 11, 15), datetime(2026, 11, 15, 8, 30, 0, place), *BOTH)
        for place, text in enumerate(HOSTILE)
    ),
    ("x", 2**63 - 1, 0.1 + 0.2, True, date(1, 1, 1), LATEST, 2**63 - 1, -(2**63), 2**63 - 1, 25.5, *[None] * 4),
    ("x", -(2**63), -1e-300, True, date(9999, 12, 31), EARLIEST, 10, 10, 10, 25.5, 1.5, None, None, None),
]
FULL = table(ROWS, KEYS, {"units": "integer", "mean time": "number"})
EMPTY = table([], KEYS, {"units": "integer", "mean time": "number"})


class TestColumns:
    def test_rows_are_what_was_given(self) -> None:
        assert [tuple(row.values()) for row in FULL.rows] == ROWS
        assert [*FULL.rows[0]] == [*FULL.columns]
        assert (len(FULL), len(EMPTY), EMPTY.rows) == (len(ROWS), 0, [])

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            ("text", None),
            ("text", 1),
            ("integer", None),
            ("integer", 0.5),
            ("integer", 2**63),
            ("integer", True),
            ("number", "many"),
            ("boolean", 1),
            ("boolean", None),
            ("date", None),
            ("date", "soon"),
            ("timestamp", None),
            ("name", "x"),
        ],
    )
    def test_what_does_not_fit_is_refused_and_not_shown(self, kind: str, value: Any) -> None:
        with pytest.raises(InvalidArgument, match="'the column'") as refused:
            Released({"the column": kind}, {"the column": [value]}, {})
        assert repr(value) not in str(refused.value).replace("'the column'", "")

    def test_columns_have_one_length_and_are_those_that_are_named(self) -> None:
        with pytest.raises(InvalidArgument, match="the same length"):
            Released({"a": "text", "b": "text"}, {"a": ["x"], "b": []}, {})
        with pytest.raises(InvalidArgument, match="the same columns"):
            Released({"a": "text"}, {"b": ["x"]}, {})

    def test_arrays_are_taken_as_they_are(self) -> None:
        arrays = {"k": np.array(["a", "b"]), "n": np.array([1, 2], dtype=np.uint8), "x": np.array([0.5, np.nan])}
        rows = Released({"k": "text", "n": "integer", "x": "number"}, arrays, {}).rows
        assert rows == [{"k": "a", "n": 1, "x": 0.5}, {"k": "b", "n": 2, "x": None}]


class TestDataFrames:
    @pytest.mark.parametrize("released", [FULL, EMPTY], ids=["rows", "no rows"])
    def test_polars_and_duckdb_read_the_arrow_stream(self, released: Released) -> None:
        import polars  # here, because processes of other tests import this module

        assert released.to_polars().rows() == ROWS[: len(released)]
        with duckdb.connect() as connection:
            connection.register("released", released)
            assert connection.execute("SELECT * FROM released").fetchall() == ROWS[: len(released)]
        kinds = (polars.String, polars.Int64, polars.Float64, polars.Boolean, polars.Date, polars.Datetime("us"))
        assert released.to_polars().dtypes[:6] == [*kinds]

    @pytest.mark.parametrize("released", [FULL, EMPTY], ids=["rows", "no rows"])
    def test_pandas_columns_are_typed(self, released: Released) -> None:
        import pandas

        frame = released.to_pandas()
        assert [*frame.columns] == [*released.columns]
        assert pandas.api.types.is_string_dtype(frame.dtypes.iloc[0])
        assert [str(kind) for kind in frame.dtypes[1:7]] == [
            *("int64", "float64", "bool", "datetime64[s]", "datetime64[us]", "int64")
        ]
        assert frame["mean time_low"].isna().sum() == (2 if len(released) else 0)


class TestPictures:
    def test_the_largest_are_drawn_with_their_own_intervals(self) -> None:
        released = counted(("few", 50), ("most", 900), ("many", 300))
        drawn = released.chart(top=2).spec["data"]["values"]
        assert [(row["label"], row["low"], row["high"]) for row in drawn] == [("most", 880, 920), ("many", 280, 320)]
        assert "the 2 largest of 3" in released.chart(top=2).spec["title"]["subtitle"]
        assert "in 19 of 20 rows of the whole table" in released.chart(top=2).spec["title"]["subtitle"]
        assert "of the whole table" not in released.chart(top=3).spec["title"]["subtitle"]

    def test_another_statistic_can_be_chosen_and_missing_numbers_are_left_out(self) -> None:
        drawn = FULL.chart(top=100, statistic="mean time").spec["data"]["values"]
        assert len(drawn) == len(ROWS) - 1
        (last,) = [row for row in drawn if row["count"] == 1.5]  # it has no interval
        assert (last["low"], last["high"]) == (1.5, 1.5)
        with pytest.raises(InvalidArgument, match="one of units, mean time; did you mean mean time"):
            FULL.chart(statistic="meantime")
        with pytest.raises(InvalidArgument, match="at least 1"):
            FULL.chart(top=0)

    def test_an_empty_table_and_one_without_keys_have_a_picture(self) -> None:
        assert "No group stands out" in str(EMPTY.chart().spec["title"]["subtitle"])
        total = table([(48_211, 48_200, 48_220, 5.0)], {}, {"units": "integer"})
        assert [row["label"] for row in total.chart().spec["data"]["values"]] == ["total"]

    def test_a_notebook_shows_the_largest_and_the_guarantee(self) -> None:
        page = counted(("<script>", 1240), ("b", 300))._repr_html_()
        for said in ("&lt;script&gt;", "1,240", "1,220 to 1,260", "rho 0.5 of zCDP but for delta 1e-06", "user_id"):
            assert said in page
        assert "<script>" not in page

    def test_a_rounded_epsilon_is_never_too_small(self) -> None:
        guarantee = counted().statement["guarantee"]
        released = counted(("a", 90), guarantee={**guarantee, "epsilon": 3.14121})
        assert "epsilon 3.142 at delta 2e-06" in released.lines()["guarantee"]


class TestWhichNumberAnIntervalIsFor:
    CENSUS = KeysPerPerson((500, 100, 80, 60, *[0] * 21), DiscreteGaussian(Fraction(4)))

    def said(self, keys: str | None, *, clamped: bool = False, grows: bool = True, **changes: Any) -> Released:
        made = counted(("a", 90), ("b", 40), bounding=[bounding_record(ALL_KEYS, 2, self.CENSUS)], **changes)
        told = Estimand(keys, clamped, grows).to_dict()
        columns = [column | (told if column["role"] == "statistic" else {}) for column in made.statement["columns"]]
        return replace(made, statement={**made.statement, "columns": columns})

    @pytest.mark.parametrize(
        ("keys", "clamped", "heading", "number"),
        [
            (None, False, "95 %, true number", "for the true number"),
            (None, True, "95 %, clamped", "for the number after clamping"),
            (ALL_KEYS, False, "95 %, bounded", "for the number after bounding, too low by about 17 %"),
            (
                ALL_KEYS,
                True,
                "95 %, bounded and clamped",
                "for the number after bounding and clamping, too low by about",
            ),
            (RELEASED_KEYS, False, "95 %, bounded", "for the number after bounding, and what bounding dropped was not"),
        ],
    )
    def test_is_said_in_tables_charts_and_pages(
        self, keys: str | None, clamped: bool, heading: str, number: str
    ) -> None:
        released = self.said(keys, clamped=clamped)
        figures = released.figures()
        assert figures.within_heading == heading
        assert figures.about().startswith(f"95 % intervals are {number}")
        assert number in released.chart().spec["title"]["subtitle"]
        assert heading in released._repr_html_()
        assert f"units: 95 % {number}" in released._repr_html_()
        assert released.lines()["intervals"].startswith(f"units: 95 % {number}")
        assert str(released.estimand("units")).startswith(number)

    def test_a_number_that_bounding_can_raise_is_not_called_too_low(self) -> None:
        words = str(self.said(ALL_KEYS, clamped=True, grows=False).estimand("units"))
        assert words == "for the number after bounding and clamping, without about 17 % of the (person, key) pairs"

    def test_what_was_dropped_is_told_with_its_own_bound(self) -> None:
        line = self.said(ALL_KEYS).lines()["bounding"]
        assert line.startswith("at most 2 keys per person, which drops about 17 % (95 %: 16 % to ")
        stated = self.said(None, parameters={"within_max_keys": True}).lines()["bounding"]
        assert stated.endswith("no person has more than max_keys keys, as the publisher states")

    @pytest.mark.parametrize(
        ("method", "number"),
        [("pcr", "the true number"), *((name, "the number after bounding") for name in ("plume", "fast"))],
    )
    def test_of_an_earlier_version_follows_from_its_method(self, method: str, number: str) -> None:
        assert counted(("a", 90), method=method).estimand("units").number == number
        other = table([("a", 1.0, 0.0, 2.0, 0.5)], {"k": "text"}, {"x_mean": "number"}, method=method)
        assert other.estimand("x_mean").number == "the number after bounding and clamping"

    def test_a_number_without_an_interval_has_none(self) -> None:
        released = table([("a", 5.0, None, None, None)], {"k": "text"}, {"x_q50": "number"})
        figures = released.figures()
        assert (figures.intervals, figures.within(0), "95 %" in figures.about()) == ((), "", False)
        assert released.lines()["intervals"] == "x q50: no intervals"


def test_a_million_rows_are_no_trouble() -> None:
    count = 10**6
    values = np.arange(count)
    said = statement({"article": "integer"}, {"units": "integer"})
    columns = {column["name"]: column["type"] for column in said["columns"]}
    data = dict(zip(columns, (values, values, values - 20, values + 20, np.full(count, 10.0)), strict=True))
    released = Released(columns, data, said)
    assert released.to_polars()["units"].sum() == count * (count - 1) // 2
    assert released.figures(top=1).keys == ((str(count - 1),),)
