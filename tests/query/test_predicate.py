"""Filters keep their meaning, NULLs included, and equal meanings have equal forms."""

from __future__ import annotations

from datetime import date, datetime
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.query.predicate import (
    ABOVE,
    ALL_VALUES,
    BELOW,
    EVERYTHING,
    NO_VALUES,
    NOTHING,
    AllOf,
    AnyOf,
    Cut,
    In,
    Values,
    all_of,
    any_of,
    negate,
    prune,
)

COLUMNS = {"n": range(-1, 7), "flag": (False, True), "word": ("", "a", "ab", "b", "c", "é")}


def cuts(values):
    return st.builds(Cut, st.sampled_from(list(values)), st.sampled_from([-1, 1])) | st.sampled_from([BELOW, ABOVE])


@st.composite
def leaves(draw):
    column = draw(st.sampled_from(sorted(COLUMNS)))
    intervals = draw(st.lists(st.tuples(cuts(COLUMNS[column]), cuts(COLUMNS[column])), max_size=3))
    return In(column, Values.union(intervals))


def branches(inner):
    parts = st.lists(inner, max_size=3)
    return st.builds(all_of, parts) | st.builds(any_of, parts) | st.builds(negate, inner)


filters = st.recursive(leaves(), branches, max_leaves=8)
rows = st.fixed_dictionaries({column: st.none() | st.sampled_from(list(values)) for column, values in COLUMNS.items()})


def truth(predicate, row) -> bool | None:
    """SQL's three values, by definition: a comparison with NULL is NULL, AND is the least, OR the greatest."""
    if isinstance(predicate, In):
        value = row[predicate.column]
        return None if value is None else value in predicate.values
    parts = [truth(part, row) for part in predicate.parts]
    decisive = isinstance(predicate, AnyOf)
    if decisive in parts:
        return decisive
    return None if None in parts else not decisive


def flipped(value: bool | None) -> bool | None:
    return None if value is None else not value


@given(st.lists(leaves(), max_size=4), rows)
def test_joining_keeps_the_truth(parts, row):
    assert truth(all_of(parts), row) == truth(AllOf(tuple(parts)), row)
    assert truth(any_of(parts), row) == truth(AnyOf(tuple(parts)), row)


@given(filters, rows)
def test_negation_flips_the_truth_and_leaves_null_alone(predicate, row):
    assert truth(negate(predicate), row) == flipped(truth(predicate, row))


@given(filters, rows)
def test_pruning_keeps_the_rows_that_pass(predicate, row):
    assert (truth(prune(predicate), row) is True) == (truth(predicate, row) is True)


@pytest.mark.slow
@given(filters)
def test_what_is_pruned_is_final(predicate):
    found = prune(predicate)
    assert prune(found) == found
    assert found == NOTHING or "in []" not in str(found)


def test_a_contradiction_that_shows_after_pruning_is_pruned_too():
    inner = any_of([In("n", Values.of(2)), all_of([In("word", Values.of("a")), In("word", Values.of("b"))])])
    assert prune(all_of([In("n", Values.of(1)), inner])) == NOTHING


def test_a_contradiction_under_a_negation_still_asks_for_a_value():
    contradiction = all_of([In("n", Values.of(1)), In("n", Values.of(2))])
    assert prune(contradiction) == NOTHING
    assert prune(negate(contradiction)) == In("n", ALL_VALUES) != EVERYTHING


@pytest.mark.slow
@given(filters)
def test_double_negation_is_none(predicate):
    assert negate(negate(predicate)) == predicate


@pytest.mark.slow
@given(st.lists(filters, max_size=4), st.randoms(use_true_random=False))
def test_neither_order_nor_repetition_nor_nesting_matters(parts, random):
    shuffled = parts + parts[:2]
    random.shuffle(shuffled)
    for join in (all_of, any_of):
        assert join(shuffled) == join(parts) == join([join(parts[:2]), join(parts[2:])])


@pytest.mark.slow
@given(filters)
def test_de_morgan(predicate):
    other = In("n", Values.of(3))
    assert negate(all_of([predicate, other])) == any_of([negate(predicate), negate(other)])


@given(st.lists(st.tuples(cuts(range(8)), cuts(range(8))), max_size=4), st.integers(-2, 9))
def test_sets_contain_what_their_intervals_do(intervals, value):
    inside = any(low < Cut(value, 0) < high for low, high in intervals)
    assert (value in Values.union(intervals)) == inside
    assert (value in ~Values.union(intervals)) == (not inside)


@pytest.mark.parametrize("name", COLUMNS)
@given(data=st.data())
def test_the_values_of_a_list_that_are_in_a_set(name, data):
    ordered = sorted(COLUMNS[name])
    values = Values.union(data.draw(st.lists(st.tuples(cuts(ordered), cuts(ordered)), max_size=4)))
    assert values.within(ordered) == tuple(value for value in ordered if value in values)


@given(st.lists(st.tuples(cuts(range(8)), cuts(range(8))), max_size=4), st.integers(0, 9))
def test_whole_numbers_are_listed_if_they_end_and_are_few(intervals, most):
    values = Values.union(intervals)
    everything = tuple(n for n in range(-1, 10) if n in values)
    ends = not {-1, 9} & {*everything}
    assert values.list_values(most) == (everything if ends and len(everything) <= most else None)


def test_what_has_no_next_value_is_listed_one_by_one():
    a, b, c = "a", Fraction(1, 3), datetime(2026, 11, 15, 8, 30)
    for value in (a, b, c):
        assert Values.of(value).list_values(1) == (value,)
        assert Values.between(Cut(value, 1), ABOVE).list_values(9) is None
        assert Values.between(BELOW, Cut(value, 1)).list_values(9) is None
    assert Values.of("b", "a").list_values(2) == ("a", "b")
    assert Values.of("b", "a").list_values(1) is None
    assert Values.between(Cut("a", -1), Cut("b", 1)).list_values(9) is None
    assert (Values.of("a") | Values.between(Cut("b", 1), Cut("c", 1))).list_values(9) is None
    assert Values.of(date.max).list_values(1) == (date.max,)
    assert Values.between(Cut(date.max, -1), ABOVE).list_values(9) is None


@given(st.lists(st.integers(0, 5), max_size=5), st.lists(st.integers(0, 5), max_size=5))
def test_sets_of_points_are_sets(one, other):
    assert Values.of(*one) | Values.of(*other) == Values.of(*{*one, *other})
    assert Values.of(*one) & Values.of(*other) == Values.of(*({*one} & {*other}))


@pytest.mark.parametrize(
    ("one", "same"),
    [
        (Values.between(Cut(1, 1), ABOVE), Values.between(Cut(2, -1), ABOVE)),
        (Values.between(Cut(1, -1), Cut(3, 1)), Values.of(1, 2, 3)),
        (~Values.of(False), Values.of(True)),
        (Values.of(True, False), ALL_VALUES),
        (Values.between(Cut(date(2024, 2, 28), 1), Cut(date(2024, 3, 1), -1)), Values.of(date(2024, 2, 29))),
        (Values.between(Cut(3, -1), Cut(1, 1)), NO_VALUES),
        (~Values.between(BELOW, Cut(2**62, 1)), Values.between(Cut(2**62, 1), ABOVE)),
        (Values.between(Cut(2**62 - 1, 1), Cut(2**62, 1)), Values.of(2**62)),
        (Values.of("b", "a", "b"), Values.of("a", "b")),
    ],
)
def test_one_form_for_one_set(one, same):
    assert one == same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Values.between(Cut(Fraction(1), 1), ABOVE), Values.between(Cut(Fraction(2), -1), ABOVE)),
        (Values.between(Cut("a", 1), ABOVE), Values.between(Cut("b", -1), ABOVE)),
        (Values.between(Cut(datetime(2024, 1, 1), 1), ABOVE), Values.between(Cut(datetime(2024, 1, 2), -1), ABOVE)),
    ],
)
def test_types_without_a_next_value_keep_their_open_ends(one, other):
    assert one != other


def test_points_are_listed_where_there_are_only_points():
    assert Values.of("b", "a").points == ("a", "b")
    assert Values.between(Cut("a", -1), Cut("b", 1)).points is None


def test_the_text_of_a_filter_tells_types_apart():
    assert str(In("c", Values.of("1"))) != str(In("c", Values.of(1))) != str(In("c", Values.of(Fraction(1))))
    assert str(In("a' in [", Values.of("b"))) != str(In("a", Values.of("' in [b")))
