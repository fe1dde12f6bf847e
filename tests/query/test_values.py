"""Typed values: what we hand out is accepted back, and a refusal says what is wrong with a number."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import duckdb
import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import NotSupported
from sfumato.query.plan import plan
from sfumato.query.request import Histogram
from sfumato.query.values import decimal, json_value, read_value

SOME = st.floats(1e-8, 1e14) | st.floats(-1e14, -1e-8) | st.fractions(-100, 100, max_denominator=10_000).map(float)
DOUBLES = SOME.filter(lambda value: value == 0 or abs(value) >= 1e-8)  # smaller ones need more digits


@given(DOUBLES)
def test_a_double_that_was_handed_out_is_accepted_back(value):
    found = read_value("score", "number", value)
    assert read_value("score", "number", json_value(found)) == found
    assert float(decimal(found)) == value
    assert duckdb.sql(f"SELECT CAST({decimal(found)} AS DOUBLE)").fetchall() == [(value,)]


@pytest.mark.parametrize("value", [1 / 3, 1 / 300, 1e-25, Decimal("0.0033333333333333335")])
def test_many_digits_after_the_point(value):
    assert read_value("score", "number", value) == Fraction(str(value))


@pytest.mark.parametrize("kind", [numpy.int8, numpy.int64, numpy.uint64])
def test_whole_numbers_of_numpy_are_whole_numbers(kind):
    assert type(read_value("n", "integer", kind(7))) is int
    assert read_value("n", "integer", kind(7)) == 7
    assert read_value("score", "number", kind(7)) == Fraction(7)
    assert read_value("score", "number", numpy.float64(0.1)) == Fraction(1, 10)


@pytest.mark.parametrize("kind", ["integer", "number"])
@pytest.mark.parametrize("raw", [True, numpy.True_, None, "many", "x" * 100, float("nan"), Decimal("inf"), b"1"])
def test_what_is_no_number_is_told_so(kind, raw):
    with pytest.raises(NotSupported, match=r"x is compared with something that is not a (whole )?number, such as"):
        read_value("x", kind, raw)


@pytest.mark.parametrize(
    ("kind", "raw", "words"),
    [
        ("integer", 10**21, "an integer that is too large, at most 18 digits; use a range"),
        ("integer", 10**4000, "too large"),
        ("integer", "9" * 5000, "too large"),
        ("integer", -1e300, "too large"),
        ("number", 10**15, "too many digits, at most 15 before the point and 25 after it; use a range"),
        ("number", 10**4000, "too many digits"),
        ("number", "0." + "0" * 60 + "1", "too many digits"),
        ("number", 1e-26, "too many digits"),
        ("number", Decimal("1e999"), "too many digits"),
        ("number", Fraction(1, 3), "too many digits"),
    ],
)
def test_a_number_of_too_many_digits_is_told_so(kind, raw, words):
    with pytest.raises(NotSupported, match=f"^x is compared with .*{words}"):
        read_value("x", kind, raw)


def test_a_number_is_never_cut_short():
    with pytest.raises(NotSupported):
        read_value("n", "integer", "1." + "0" * 38 + "5")


@pytest.mark.parametrize("values", [{1, 2, 3}, frozenset({3, 2, 1}), (1, 2, 3), [numpy.int64(1), 2, 3]])
def test_lists_in_a_filter_may_be_sets(values, policy, prices):
    found = plan(Histogram("engagements", "article", "members", {"n": values}), policy, prices)
    assert found == plan(Histogram("engagements", "article", "members", {"n": {"in": [1, 2, 3]}}), policy, prices)


def test_two_ends_of_a_range_are_in_order(policy, prices):
    with pytest.raises(NotSupported, match="two values, the lowest and the highest"):
        plan(Histogram("engagements", "article", "members", {"n": {"between": {1, 2}}}), policy, prices)
