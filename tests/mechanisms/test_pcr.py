"""Private Count Release: what it spends, what it promises, and that nothing but the budget ends it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sfumato.errors import InvalidArgument
from sfumato.mechanisms import PrivateCountRelease, PrivateCounts, Rng, context, pcr, private_count_release
from tests.contracts.mechanism import keyed, ranked, seeds
from tests.helpers.false_alarms import FALSE_ALARM, cdf_distance, cdf_slack

pytestmark = pytest.mark.slow  # many passes each

DELTA = Fraction(1, 10**6)
tables = st.dictionaries(st.text(min_size=1, max_size=2), st.integers(0, 400), max_size=12)
budgets = st.fractions(Fraction(1, 100), 3)


def small(rho: Fraction | float = Fraction(1, 2), **more) -> PrivateCountRelease:
    return PrivateCountRelease(**{"rho": rho, "delta": 1e-3, "limit": 12, "first_epsilon": 0.1} | more)


def affordable(rho: Fraction, **more) -> PrivateCountRelease:
    try:
        return small(rho, **more)
    except InvalidArgument as refused:
        assume(refused.argument != "rho")
        raise


def zipf(exponent: float, largest: float, rows: int = 10_001) -> list[tuple[str, int]]:
    return [(f"{rank:05}", math.floor(largest / rank**exponent)) for rank in range(1, rows + 1)]


def spent(mechanism: PrivateCountRelease, released: PrivateCounts) -> tuple[Fraction, Fraction]:
    """The charge with and without the bottom element of the last pass; those before it all ended with theirs."""
    levels = mechanism.levels[: released.levels]
    rows = sum((level.pick + 1 / (2 * level.variance) for row in released.rows for level in [levels[row.level]]), 0)
    stops = [level.epsilon**2 / 8 for level in levels]
    return rows + sum(stops[:-1]), rows + sum(stops)


# --- Budget -----------------------------------------------------------------------------------------------------


@given(tables, budgets, st.fractions(Fraction(1, 20), 2), st.fractions(Fraction(1, 100), 1), seeds)
def test_never_more_than_the_budget_and_exactly_what_was_released(counts, rho, first, relative_error, seed):
    mechanism = affordable(rho, first_epsilon=first, relative_error=relative_error)
    released = mechanism.release(ranked(counts), keyed(seed))
    assert 0 < released.rho <= rho
    assert released.delta == released.levels * mechanism.delta_level <= mechanism.delta
    assert released.rho == spent(mechanism, released)[not released.cut]


@given(tables, budgets, seeds)
def test_the_budget_alone_ends_a_release(counts, rho, seed):
    """What is left would not buy a row: neither of the last pass, if it was cut short, nor of the one after it."""
    mechanism = affordable(rho)
    released = mechanism.release(ranked(counts), keyed(seed))
    left = rho - released.rho
    if released.cut:
        assert left < mechanism.levels[released.levels - 1].row
    else:
        assert released.levels == len(mechanism.levels) or left < mechanism.levels[released.levels].row


@given(budgets, st.fractions(Fraction(1, 10**6), 2))
def test_there_are_as_many_passes_as_rho_can_ever_pay_for(rho, first):
    """So neither cap is broken in any case, and delta is never what runs out."""
    epsilons = [first * 2 ** (i // 8) * Fraction(2 ** (i % 8 / 8)) for i in range(300)]
    paid = itertools.accumulate(epsilon**2 / 8 for epsilon in epsilons)
    passes = sum(total <= rho for total in paid)
    mechanism = affordable(rho, delta=DELTA, relative_error=1, first_epsilon=first)
    assert len(mechanism.levels) == passes
    assert mechanism.delta_level * passes == DELTA
    assert sum(level.pick for level in mechanism.levels) <= rho


@pytest.mark.parametrize("first", [1e-3, 1e-6, 1e-9])
def test_passes_do_not_run_out_before_rho_does(first):
    """From however far below one begins: a fixed number of passes would end before anything is found."""
    released = small(1, first_epsilon=first).release([("a", 4000), ("b", 3000)], keyed(b"first"))
    assert [row.key for row in released.rows] == ["a", "b"]
    assert released.rho > Fraction(1, 4)


def test_picks_get_dearer_by_the_eighth_root_of_two():
    for relative_error in (0.01, 0.1, 1):
        levels = PrivateCountRelease(rho=1, delta=DELTA, relative_error=relative_error).levels
        for one, next_one in itertools.pairwise(levels):
            assert float(next_one.pick / one.pick) == pytest.approx(2 ** (1 / 4), rel=1e-9)


@given(tables, budgets, st.fractions(Fraction(1, 100), 1), seeds)
def test_a_pass_that_the_budget_cuts_is_the_last(counts, rho, relative_error, seed):
    """Also where a row of the next pass would be cheaper, as after the first one."""
    mechanism = affordable(rho, relative_error=relative_error)
    released = mechanism.release(ranked(counts), keyed(seed))
    last = [row for row in released.rows if row.level == released.levels - 1]
    assert last or not released.cut


@given(
    st.lists(st.integers(0, 400), max_size=30), st.integers(1, 300), st.lists(st.integers(1, 100), max_size=3), seeds
)
def test_a_walk_with_stops_is_a_walk_without(counts, ties, parts, seed):
    """Also where a stop cuts a pass: it is taken up again, with the same race and the same noise."""
    mechanism = PrivateCountRelease(rho=Fraction(1, 2), delta=Fraction(1, 10**6), limit=100)
    rows = ranked({f"k{place:03}": count for place, count in enumerate([*counts, *[ties] * 40])})
    stopped, straight = (pcr.Walk(mechanism, rows, keyed(seed)) for _ in range(2))
    for part in sorted(parts):
        stopped.go(mechanism.rho * part / 200, mechanism.rho * part / 100)
        assert stopped.spent <= mechanism.rho * part / 100
        assert len(stopped.keys) == len(stopped.level) == len(stopped.noisy) == len(stopped.pool().counts)
    stopped.go()
    straight.go()
    assert (stopped.keys, stopped.spent, stopped.passes, stopped.cut) == (
        *(straight.keys, straight.spent, straight.passes, straight.cut),
    )
    assert stopped.noisy.tolist() == straight.noisy.tolist()
    assert stopped.level.tolist() == straight.level.tolist()


def test_a_row_is_charged_for_the_noise_that_it_has():
    for relative_error in (0.01, 0.1, 1):
        for level in PrivateCountRelease(rho=1, delta=DELTA, relative_error=relative_error).levels:
            assert level.row == level.epsilon**2 / 8 + 1 / (2 * level.noise.sigma_squared)


def test_a_tiny_rho_is_refused_before_anything_is_read():
    for rho in (Fraction(1, 10**9), 1e-300, Fraction(1, 2000) ** 2 / 8):
        with pytest.raises(InvalidArgument, match=r"^rho: cannot buy a single count"):
            private_count_release(None, rho=rho, delta=1e-6, rng=None)
    bought = []
    for rho in (Fraction(n, 20) for n in range(1, 40)):
        try:
            mechanism = small(rho, first_epsilon=Fraction(1))
        except InvalidArgument:
            assert not bought
        else:
            bought.append(rho)
            assert mechanism.levels[0].row <= rho
            assert mechanism.release([], Rng.system()).levels >= 1
    assert 5 < len(bought) < 35


def test_a_relative_error_that_the_budget_cannot_buy_is_refused_with_the_way_out():
    assert PrivateCountRelease(rho=Fraction(1, 10), delta=DELTA, relative_error=Fraction(1, 10**4))
    with pytest.raises(InvalidArgument, match=r"^rho: cannot buy a single count; give more, a larger relative_error"):
        PrivateCountRelease(rho=Fraction(1, 10), delta=DELTA, relative_error=Fraction(1, 10**5))


# --- Tables -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [[], [("a", 0)], [(f"{i:02}", 70) for i in range(13)]], ids=["empty", "zero", "equal"])
def test_nothing_to_find_is_paid_for_to_the_end(rows):
    """All-equal counts as well: no row is above the first one out of sight."""
    mechanism = small()
    released = mechanism.release(rows, keyed(b"nothing"))
    empty = mechanism.release([], keyed(b"other"))
    assert released == empty
    assert released.rows == ()
    assert released.rho == sum(level.pick for level in mechanism.levels[: released.levels])
    assert all(released.rho + level.row > mechanism.rho for level in mechanism.levels[released.levels :])


def test_equal_counts_above_the_rest_are_all_found_early():
    released = small(100).release([(f"{i:02}", 10_000) for i in range(12)], keyed(b"equal"))
    assert {row.key for row in released.rows} == {f"{i:02}" for i in range(12)}
    assert {row.level for row in released.rows} == {0}


def test_one_huge_count():
    mechanism = small()
    released = mechanism.release([("huge", 2**53), ("small", 3)], keyed(b"huge"))
    (row,) = released.rows
    assert (row.key, row.level) == ("huge", 0)
    assert abs(row.noisy - 2**53) <= 10 * row.deviation
    assert abs(row.count - row.noisy) <= 1


def test_a_limit_of_one():
    mechanism = small(limit=1)
    assert [row.key for row in mechanism.release([("a", 900)], keyed(b"one")).rows] == ["a"]
    assert [row.key for row in mechanism.release([("a", 900), ("b", 1)], keyed(b"one")).rows] == ["a"]
    assert mechanism.release([("a", 900), ("b", 900)], keyed(b"one")).rows == ()
    with pytest.raises(InvalidArgument, match=r"^rows: must be at most limit \+ 1"):
        mechanism.release([("a", 3), ("b", 2), ("c", 1)], keyed(b"one"))


def test_the_first_count_out_of_sight_is_read_once():
    """Twelve heavy rows over a thirteenth: once they are gone it is still out of sight, and is never shown."""
    rows = [(f"{i:02}", 10_000) for i in range(12)] + [("last", 5000)]
    released = small(100).release(rows, keyed(b"once"))
    assert len(released.rows) == 12
    assert "last" not in {row.key for row in released.rows}


@given(tables, seeds)
def test_rows_come_from_the_table_and_once(counts, seed):
    released = small(3).release(ranked(counts), keyed(seed))
    found = [row.key for row in released.rows]
    assert len(set(found)) == len(found)
    assert all(counts[key] > 0 for key in found)
    assert [row.level for row in released.rows] == sorted(row.level for row in released.rows)


# --- Noise ------------------------------------------------------------------------------------------------------


@given(tables, seeds)
def test_a_key_repeats_and_the_order_of_equal_rows_is_canonical(counts, seed):
    rows, mechanism = ranked(counts), small(2)
    released = mechanism.release(rows, keyed(seed))
    assert released == mechanism.release(ranked(dict(reversed(counts.items()))), keyed(seed))
    assert released == small(2.0).release(rows, keyed(seed))


def test_every_parameter_changes_the_noise():
    rows = [(f"{i:02}", 10**6) for i in range(12)]
    others = {"rho": 2.01, "delta": 2e-3, "limit": 13, "relative_error": 0.11, "first_epsilon": 0.11}
    base = small(2)
    results = [replace(base, **{name: value}).release(rows, keyed(b"x")) for name, value in others.items()]
    counts = {tuple(row.count for row in result.rows) for result in [base.release(rows, keyed(b"x")), *results]}
    assert len(counts) == 1 + len(others)


def test_a_cheaper_walk_is_the_beginning_of_a_dearer_one(monkeypatch):
    """With the same noise, and the same passes, a smaller rho only ends sooner."""
    rows = zipf(1.0, 3000, 200)
    mechanism = small(3, limit=300)
    monkeypatch.setattr(pcr, "_source", lambda mechanism, rng: rng)

    def found(mechanism: PrivateCountRelease) -> list[tuple[str, int, int]]:
        return [(row.key, row.noisy, row.level) for row in mechanism.release(rows, keyed(b"prefix")).rows]

    full = found(mechanism)
    for rho in (Fraction(1, 2), Fraction(1), Fraction(2)):
        less = small(rho, limit=300)
        less.__dict__["levels"] = mechanism.levels
        head = found(less)
        assert 0 < len(head) < len(full)
        assert head == full[: len(head)]


def test_rows_out_of_order_are_refused_without_a_word_of_them():
    for rows in ([("a", 1), ("b", 2)], [("b", 2), ("a", 2)], [("a", 1), ("a", 1)]):
        with pytest.raises(InvalidArgument, match=r"^rows: must "):
            small().release(rows, Rng.system())


def test_passes_have_noise_of_their_own():
    """The level is part of the seed: pass by pass the same runners get other words."""
    seen = []

    class Watched(Rng):
        def child(self, **fields):
            return Watched(super().child(**fields)._seed)

        def stream(self, **fields):
            seen.append(fields)
            return super().stream(**fields)

    released = small().release([("a", 50)], Watched(b"0" * 32))
    assert len({context(**fields) for fields in seen}) == len(seen) >= released.levels
    assert {fields["level"] for fields in seen} == set(range(released.levels))


def test_noise_at_each_pass_is_as_stated():
    """3000 rows of the first pass, 3000 found later. False alarm once in a million each (Massart; Laurent-Massart)."""
    mechanism = small(200, limit=6000)
    heavy, later = mechanism.levels[0].gap * 10, (mechanism.levels[3].gap + mechanism.levels[2].gap) // 2
    rows = [(f"{i:04}", heavy) for i in range(3000)] + [(f"{i:04}", later) for i in range(3000, 6000)]
    exact = dict(rows)
    found = mechanism.release(rows, keyed(b"variance")).rows
    many = 0
    for number, group in itertools.groupby(found, key=lambda row: row.level):
        noise, law = np.array([row.noisy - exact[row.key] for row in group]), mechanism.levels[number].noise
        assert cdf_distance(noise, lambda x, law=law: 1 - np.array([law.tail(int(n) + 1) for n in x])) <= cdf_slack(
            len(noise)
        )
        x = math.log(2 / FALSE_ALARM)
        squares = float(np.sum(noise.astype(float) ** 2)) / float(mechanism.levels[number].variance)
        assert abs(squares - len(noise)) <= 2 * math.sqrt(len(noise) * x) + 2 * x
        many += len(noise) >= 1000
    assert many >= 2


@pytest.mark.parametrize("relative_error", [Fraction(1, 1000), Fraction(1, 20), Fraction(1, 10), Fraction(1)])
def test_the_relative_error_is_1645_deviations_of_a_count_with_its_pass(relative_error):
    """Of one that just stands out. A pass is taken to tell a count to 2 / epsilon, and the first one nothing."""
    first, *others = PrivateCountRelease(rho=1, delta=DELTA, relative_error=relative_error).levels
    for level in (first, *others):
        assert level.gap == math.ceil(1 + math.log(10_000 * 90 / 1e-6) / level.epsilon)
        error, told = float(relative_error) * 0.9 * level.gap, 0 if level is first else (float(level.epsilon) / 2) ** 2
        pooled = 1 / math.sqrt(float(1 / level.variance) + told)
        assert 1.645 * pooled <= error * (1 + 1e-9)
        assert 1.1 * level.noise.deviation <= error * (1 + 1e-9)
        assert max(1.645 * pooled, 1.1 * level.noise.deviation) == pytest.approx(error)


# --- How much is released ---------------------------------------------------------------------------------------

# How many rows the paper's own loop finds.
TABLE = [
    (1.0, 1e5, Fraction(1, 10), 195.1),
    (1.0, 1e5, Fraction(1), 414.4),
    (0.7, 2e4, Fraction(1, 10), 170.9),
    (0.7, 2e4, Fraction(1), 430.5),
]


@pytest.mark.parametrize(("exponent", "largest", "rho", "paper"), TABLE)
def test_more_counts_within_the_relative_error_than_as_printed(exponent, largest, rho, paper):
    """Means of six releases, with a standard error below 5; the paper's own loop has 1e-11 for every call."""
    rows = zipf(exponent, largest)
    exact, mechanism = dict(rows), PrivateCountRelease(rho=rho, delta=DELTA)
    found = [mechanism.release(rows, keyed(bytes([run]))).rows for run in range(6)]
    accurate = np.mean([sum(abs(row.count - exact[row.key]) <= 0.1 * exact[row.key] for row in run) for run in found])
    counts, random = np.array([n for _, n in rows]), np.random.default_rng(1)
    theirs, good = np.mean([printed(counts, float(rho), 1e-11, random) for _ in range(6)], axis=0)
    assert theirs == pytest.approx(paper, rel=0.03)
    assert accurate > 1.25 * good
    assert accurate > 0.92 * np.mean([*map(len, found)])


def printed(counts: np.ndarray, rho: float, delta: float, random: np.random.Generator) -> tuple[int, int]:
    """Rogers (2024), Algorithm 2, each pass as one race with inexact noise: how many rows, and how many within 10 %."""
    c, left, epsilon, spent = counts[-1], counts[counts > counts[-1]].astype(float), 0.0005, 0.0
    found = good = 0
    while spent + epsilon**2 / 4 <= rho:
        gap = 1 + math.log((len(counts) - 1) / delta) / epsilon
        row = epsilon**2 / 8 + 1 / (2 * (0.1 / 1.5 * gap) ** 2)
        noisy = left + random.gumbel(0, 1 / epsilon, len(left))
        ahead = np.flatnonzero(noisy > c + gap + random.gumbel(0, 1 / epsilon))
        taken = min(len(ahead), math.floor((rho - spent - epsilon**2 / 4) / row) + 1)
        found, spent = found + taken, spent + taken * row + (taken == len(ahead)) * epsilon**2 / 8
        errors = np.abs(random.normal(0, 0.1 / 1.5 * gap, taken))
        good += np.count_nonzero(errors <= 0.1 * left[ahead[:taken]])
        left = np.delete(left, ahead[:taken])
        epsilon *= math.sqrt(2)
    return found, good


# --- Arguments --------------------------------------------------------------------------------------------------

BAD = [
    *[("rho", bad) for bad in (0, -1, float("nan"), float("inf"), 1e4, "1", None, True, 1j)],
    *[("delta", bad) for bad in (0, 1, -1e-9, float("nan"), "1", None, 1e-300)],
    *[("limit", bad) for bad in (0, -1, 2.0, "3", True, None, 2**30)],
    *[("relative_error", bad) for bad in (0, -0.1, 1.1, float("inf"), "1", None)],
    *[("first_epsilon", bad) for bad in (0, -1, 101, float("nan"), "1", None, 1e-13, 1e-300)],
]


@pytest.mark.parametrize(("name", "value"), BAD, ids=str)
def test_bad_arguments_are_refused_by_name(name, value):
    arguments = {"rho": 1, "delta": 1e-6, "limit": 10, "relative_error": 0.1, "first_epsilon": 1e-3} | {name: value}
    with pytest.raises(InvalidArgument, match=rf"^{name}: "):
        private_count_release([("a", 3)], **arguments, rng=Rng.system())
    with pytest.raises(InvalidArgument, match=rf"^{name}: "):
        PrivateCountRelease(**arguments)


@pytest.mark.parametrize("bad", [None, 1, np.random.default_rng(1)])
def test_no_other_generator_stands_in_for_ours(bad):
    with pytest.raises(InvalidArgument, match=r"^rng: "):
        private_count_release([("a", 3)], rho=1, delta=1e-6, rng=bad)


@pytest.mark.parametrize("delta", [1e-270, 0.999])
@pytest.mark.parametrize(("first", "rho"), [(1e-9, 1e-6), (1e-9, pcr.MAX_RHO), (50, pcr.MAX_RHO)])
def test_the_extremes_of_every_argument_run(first, rho, delta):
    rows = [("a", 2**53), ("b", 2**53 - 1), ("c", 0)]
    mechanism = PrivateCountRelease(rho=rho, delta=delta, first_epsilon=first, relative_error=1, limit=2**20)
    released = mechanism.release(rows, Rng.system())
    assert released.rho <= rho
    assert all(1 <= row.low <= row.count <= row.high for row in released.rows)
