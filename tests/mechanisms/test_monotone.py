"""More of one thing never gives less of another: prices, thresholds, errors and ranks move one way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.mechanisms import MECHANISMS, UnknownGumbel, known_gaussian, known_gumbel, known_laplace
from tests.contracts.mechanism import keyed, seeds, small_tables

REQUESTS = {
    "known_laplace": {"epsilon": 0.3, "max_groups": 2, "k": 4},
    "known_gaussian": {"epsilon": 0.3, "max_groups": 2, "k": 4},
    "known_gumbel": {"epsilon": 0.3, "k": 4},
    "unknown_laplace": {"epsilon": 0.3, "max_groups": 2, "delta": 1e-4, "k": 4, "limit": 50},
    "unknown_gaussian": {"epsilon": 0.3, "max_groups": 2, "delta": 1e-4, "k": 4, "limit": 50},
    "unknown_gumbel": {"epsilon": 0.3, "delta": 1e-4, "k": 4, "max_k": 40, "limit": 50},
}
names = pytest.mark.parametrize("name", REQUESTS)
factors = st.integers(2, 9)


def at(name, **changes):
    return MECHANISMS[name].of(**(REQUESTS[name] | changes))


@names
@given(k=st.integers(1, 39))
def test_a_longer_list_never_costs_less(name, k):
    assert at(name, k=k).reserve <= at(name, k=k + 1).reserve
    assert at(name, k=k).least <= at(name, k=k + 1).least <= at(name, k=k + 1).reserve


@names
@given(factor=factors)
def test_a_larger_epsilon_is_never_less_accurate_and_a_larger_tau_never_more(name, factor):
    assert at(name, epsilon=0.3 * factor).error95 <= at(name).error95 <= at(name, tau=factor).error95


@pytest.mark.parametrize("name", ["unknown_laplace", "unknown_gaussian"])
@given(factor=factors)
def test_thresholds_fall_with_epsilon_and_delta_and_rise_with_what_a_person_may_do(name, factor):
    gap = at(name).gap
    assert at(name, epsilon=0.3 * factor).gap <= gap
    assert at(name, delta=1e-4 * factor).gap <= gap
    assert gap < at(name, tau=factor).gap
    assert gap < at(name, max_groups=1 + factor).gap


@given(cutoff=st.integers(1, 10**6), factor=factors)
def test_the_bottom_element_falls_with_epsilon_and_delta_and_rises_with_the_cutoff(cutoff, factor):
    at_rest = UnknownGumbel.of(**REQUESTS["unknown_gumbel"])
    gap = at_rest.gap(cutoff)
    assert at("unknown_gumbel", epsilon=0.3 * factor).gap(cutoff) <= gap <= at_rest.gap(cutoff + 1)
    assert at("unknown_gumbel", delta=1e-4 * factor).gap(cutoff) <= gap < at("unknown_gumbel", tau=factor).gap(cutoff)


@given(small_tables, seeds, st.data())
def test_with_the_same_noise_one_more_person_raises_her_groups_and_no_others(counts, seed, data):
    joined = data.draw(st.sets(st.sampled_from(sorted(counts))))
    more = {key: count + (key in joined) for key, count in counts.items()}
    for mechanism in (known_laplace, known_gaussian):
        before, after = (
            dict(mechanism(table, epsilon=0.5, max_groups=3, rng=keyed(seed)).rows) for table in (counts, more)
        )
        assert {key: after[key] - before[key] for key in counts} == {key: int(key in joined) for key in counts}


@given(small_tables, seeds, st.data())
def test_with_the_same_noise_a_larger_count_never_ranks_lower(counts, seed, data):
    key, rise = data.draw(st.sampled_from(sorted(counts))), data.draw(st.integers(1, 50))
    before, after = (
        [item for item, _ in known_gumbel(table, k=len(counts), epsilon=0.5, with_counts=False, rng=keyed(seed)).rows]
        for table in (counts, counts | {key: counts[key] + rise})
    )
    assert after.index(key) <= before.index(key)
    assert [item for item in before if item != key] == [item for item in after if item != key]
