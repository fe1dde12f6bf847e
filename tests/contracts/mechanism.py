"""What every histogram mechanism must keep. A mechanism's test inherits this and says how to call it."""

from __future__ import annotations

from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.accounting import NOTHING, Charge
from sfumato.errors import InvalidArgument
from sfumato.mechanisms import MECHANISMS, Release, Rng, context, reserve_for

small_tables = st.dictionaries(st.text(min_size=1, max_size=3), st.integers(0, 60), min_size=1, max_size=12)
seeds = st.binary(min_size=4, max_size=4)


def keyed(seed: bytes) -> Rng:
    return Rng.keyed(b"k" * 32, context(test=seed))


def ranked(counts: dict[Any, int]) -> list[tuple[Any, int]]:
    return sorted(counts.items(), key=lambda row: (-row[1], row[0]))


class MechanismContract:
    """`name` and the least `arguments` a call needs are all that a mechanism's test writes."""

    name: str
    arguments: dict[str, Any]

    def data(self, counts: dict[Any, int]) -> Any:
        """The table as this mechanism takes it."""
        raise NotImplementedError

    def run(self, counts: dict[Any, int], rng: Rng, **more: Any) -> Release:
        return MECHANISMS[self.name].of(**(self.arguments | more)).release(self.data(counts), rng)

    @given(small_tables, seeds, st.integers(1, 12))
    def test_the_reserve_is_known_beforehand_and_never_exceeded(self, counts, seed, k):
        released = self.run(counts, keyed(seed), k=k)
        assert released.reserve == reserve_for(self.name, **(self.arguments | {"k": k}))
        assert NOTHING <= released.charge <= released.reserve
        assert MECHANISMS[self.name].of(**(self.arguments | {"k": k})).least <= released.charge

    @given(small_tables, seeds, st.integers(1, 12))
    def test_no_step_is_revealed_that_was_not_reserved(self, counts, seed, k):
        mechanism = MECHANISMS[self.name].of(**(self.arguments | {"k": k}))
        released = mechanism.release(self.data(counts), keyed(seed))
        steps = mechanism.steps(len(released.rows), stopped=released.stopped)
        assert released.steps == steps
        assert sum((step.charge for step in mechanism.worst), NOTHING) == mechanism.reserve
        assert sum((step.charge for step in steps), NOTHING) <= mechanism.reserve
        assert {step for step in steps if step.kind != "stop"} <= set(mechanism.worst)

    @given(st.integers(1, 12), st.integers(1, 12))
    def test_the_length_of_a_list_is_no_noise_parameter(self, k, other):
        mechanism = MECHANISMS[self.name].of(**(self.arguments | {"k": k}))
        assert mechanism.at(other) == MECHANISMS[self.name].of(**(self.arguments | {"k": other}))
        assert mechanism.at(other).fingerprint() == mechanism.fingerprint()
        with pytest.raises(InvalidArgument, match=r"^k: must be at least 1"):
            mechanism.at(0)

    def test_several_people_show_no_less_than_one(self):
        mechanism = MECHANISMS[self.name].of(**self.arguments)
        one, *more = [mechanism.group_delta(people) for people in (1, 2, 5, 10, 1000)]
        assert [one, *more] == sorted([one, *more])
        if not mechanism.reserve.calls:
            assert not any(more)
        else:
            assert 0 < one <= float(mechanism.delta) * (1 + 1e-9) < more[0]
            assert more[-1] == 1.0

    @given(small_tables, seeds)
    def test_every_step_costs_something_and_nothing_is_given_back(self, counts, seed):
        steps = self.run(counts, keyed(seed)).steps
        assert all(step.charge > NOTHING for step in steps)
        assert len(set(steps)) == len(steps)

    @given(small_tables, seeds, st.integers(1, 12), st.integers(0, 12))
    def test_a_shorter_list_is_the_head_of_a_longer_one(self, counts, seed, k, more):
        short, long = (self.run(counts, keyed(seed), k=n) for n in (k, k + more))
        assert long.rows[:k] == short.rows
        assert long.prefix(k).rows == short.rows
        assert long.prefix(k).steps == short.steps
        assert long.prefix(k).stopped == short.stopped
        assert short.charge + long.newly(short.steps) == long.charge

    @given(small_tables, seeds)
    def test_items_come_from_the_table_and_only_once(self, counts, seed):
        items = [item for item, _ in self.run(counts, keyed(seed)).rows]
        assert len(set(items)) == len(items)
        assert set(items) <= counts.keys()

    @given(small_tables, seeds)
    def test_noisy_counts_are_integers(self, counts, seed):
        assert all(type(count) is int for _, count in self.run(counts, keyed(seed)).rows)

    @given(small_tables, seeds)
    def test_a_keyed_source_repeats_and_the_order_of_the_input_does_not_matter(self, counts, seed):
        backwards = dict(reversed(counts.items()))
        assert self.run(counts, keyed(seed)) == self.run(backwards, keyed(seed))

    def test_another_parameter_is_another_noise(self):
        counts = {f"{i:03d}": 40_000 for i in range(40)}
        results = [
            self.run(counts, keyed(b"x"), k=5, tau=tau, epsilon=epsilon).rows
            for tau, epsilon in ((1, 0.1), (2, 0.1), (1, 0.2), (1, Fraction(1, 10)))
        ]
        assert len(set(results)) == len(results)

    def test_everything_that_the_noise_depends_on_is_in_its_seed(self):
        """Two laws from one seed would be two equations in one noise."""
        mechanism = MECHANISMS[self.name].of(**self.arguments)
        others = {"epsilon": Fraction(1, 7), "tau": 2, "delta": Fraction(1, 7), "max_groups": 7, "cutoff": "fixed"}
        others |= {"max_k": 25, "limit": 70}
        names = {field.name for field in fields(mechanism)} - {"k", "with_counts", "count_noise"}
        assert names <= others.keys()
        wide = replace(mechanism, limit=60) if "limit" in names else mechanism
        seeds = [wide.fingerprint(), *(replace(wide, **{name: others[name]}).fingerprint() for name in sorted(names))]
        assert len({*seeds}) == len(seeds)

    def test_the_error_is_stated_and_holds(self):
        """400 counts; a correct bar fails here less often than once in a million (binomial tail at 0.85)."""
        counts = {f"{i:03d}": 10_000 for i in range(400)}
        released = self.run(counts, keyed(b"y"), k=400)
        within = sum(abs(count - 10_000) <= released.error95 for _, count in released.rows)
        assert within >= 0.88 * len(released.rows) >= 0.88 * 300

    @pytest.mark.parametrize("bad", [-1, 2**54, 1.0, 0.5, "3", None, 10**30, float("nan"), 1 + 0j])
    def test_counts_that_are_not_exact_are_refused(self, bad):
        with pytest.raises(InvalidArgument, match=r"^(counts|rows): ") as refusal:
            self.run({"a": bad}, Rng.system())
        assert repr(bad) not in str(refusal.value).replace(str(2**53), "")

    @pytest.mark.parametrize(
        ("name", "value"),
        [("epsilon", bad) for bad in (0, -1, float("nan"), float("inf"), 1000, "1", None, True)]
        + [("tau", bad) for bad in (0, -1, 1.5, "1", None, True)]
        + [("k", bad) for bad in (0, -1, 2.0, "3", True)],
    )
    def test_arguments_out_of_range_are_refused_by_name(self, name, value):
        with pytest.raises(InvalidArgument, match=rf"^{name}: "):
            self.run({"a": 3}, Rng.system(), **{name: value})

    def test_noise_that_cannot_be_drawn_is_refused_before_any_row_is_read(self):
        with pytest.raises(InvalidArgument, match=r"^epsilon: asks for noise that cannot be drawn"):
            reserve_for(self.name, **(self.arguments | {"epsilon": 1e-9, "tau": 2**31}))

    def test_an_unknown_or_a_missing_argument_is_refused_by_name(self):
        with pytest.raises(InvalidArgument, match=r"^colour: is not an argument of"):
            reserve_for(self.name, **self.arguments, colour="blue")
        with pytest.raises(InvalidArgument, match=r"^epsilon: is required"):
            reserve_for(self.name, **{name: value for name, value in self.arguments.items() if name != "epsilon"})

    def test_a_charge_is_exact(self):
        assert isinstance(self.run({"a": 3}, Rng.system()).charge.information, Fraction)
        assert isinstance(self.run({"a": 3}, Rng.system()).charge, Charge)


class PrivateDomainContract(MechanismContract):
    """What a mechanism must keep that reads a table whose keys are private."""

    def data(self, counts: dict[Any, int]) -> Any:
        try:
            return ranked(counts)
        except TypeError:
            return list(counts.items())

    def test_nothing_is_said_of_an_empty_table_and_it_is_paid_for(self):
        released = MECHANISMS[self.name].of(**self.arguments).release([], keyed(b"empty"))
        assert released.rows == ()
        assert released.stopped
        assert released.charge.calls == 1
        assert released.charge.information >= 1

    def test_zero_counts_are_never_shown(self):
        zeros = {f"{i:02d}": 0 for i in range(20)}
        assert all(not self.run(zeros, keyed(bytes([i])), epsilon=0.01, delta=0.5).rows for i in range(40))

    @pytest.mark.parametrize(
        "rows",
        [
            [("secret", 4711), ("secret", 4710)],
            [("secret", 4711, 1)],
            ["secret"],
            [4711],
            [("secret", 4711)] * 30,
            "secret",
        ],
        ids=lambda rows: str(rows)[:60],
    )
    def test_rows_out_of_shape_are_refused_without_a_word_of_them(self, rows):
        self.refuse(rows)

    def refuse(self, rows: Any) -> None:
        """Rows of the keys "secret" and "other", with counts around 4711, are refused without a word of them."""
        with pytest.raises(InvalidArgument, match=r"^rows: ") as refused:
            MECHANISMS[self.name].of(**self.arguments).release(rows, Rng.system())
        assert not any(word in str(refused.value) for word in ("secret", "other", "471"))

    @pytest.mark.parametrize("value", [0, 1, 2, -1e-9, float("nan"), "1", 1e-300])
    def test_a_delta_out_of_range_is_refused_by_name(self, value):
        with pytest.raises(InvalidArgument, match=r"^delta: "):
            self.run({"a": 3}, Rng.system(), delta=value)


class UnknownDomainContract(PrivateDomainContract):
    """What a mechanism must keep that reads the top rows of such a table."""

    @pytest.mark.parametrize(
        "rows",
        [
            [("secret", 4711), ("other", 4712)],
            [("secret", 4711), ("other", 4711)],
            [(("secret", 1), 4711), (("other", 1), 4711)],
        ],
        ids=str,
    )
    def test_rows_out_of_order_are_refused_without_a_word_of_them(self, rows):
        self.refuse(rows)

    @pytest.mark.parametrize("value", [0, -1, 2, 2**30, 3.0])
    def test_a_limit_out_of_range_is_refused_by_name(self, value):
        lengths = {"k": 5, "max_k": 5} if "max_k" in self.arguments else {"k": 5}
        with pytest.raises(InvalidArgument, match=r"^limit: "):
            self.run({"a": 3}, Rng.system(), **lengths, limit=value)

    def test_by_default_a_thousand_rows_or_ten_lists_are_looked_at(self):
        kind = MECHANISMS[self.name]
        free = {name: value for name, value in self.arguments.items() if name not in ("limit", "max_k")}
        assert kind.of(**(free | {"k": 10})).limit == 1000
        assert kind.of(**(free | {"k": 250})).limit == 2500

    def test_more_rows_than_the_limit_are_refused(self):
        rows = [(f"{i:03d}", 5) for i in range(self.arguments["limit"] + 2)]
        mechanism = MECHANISMS[self.name].of(**self.arguments)
        assert mechanism.release(rows[:-1], Rng.system()).reserve
        with pytest.raises(InvalidArgument, match=r"^rows: must be at most"):
            mechanism.release(rows, Rng.system())
