"""The six mechanisms keep the contract, and each what is its own."""

from __future__ import annotations

import decimal
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.accounting import Charge
from sfumato.errors import InvalidArgument
from sfumato.mechanisms import (
    MECHANISMS,
    DiscreteGaussian,
    DiscreteLaplace,
    KnownGaussian,
    KnownGumbel,
    KnownLaplace,
    Rng,
    Step,
    ThresholdGaussian,
    UnknownGaussian,
    UnknownGumbel,
    UnknownLaplace,
    key_selection,
    known_gaussian,
    known_gumbel,
    known_laplace,
    measure_count,
    noise,
    reserve_for,
    select_geometric,
    selection,
    unknown_domain,
    unknown_gaussian,
    unknown_gumbel,
    unknown_laplace,
)
from tests.contracts.mechanism import MechanismContract, PrivateDomainContract, UnknownDomainContract, keyed

TABLE = {f"{i:02d}": 1000 - 30 * i for i in range(30)}
ROWS = sorted(TABLE.items(), key=lambda row: (-row[1], row[0]))


class KnownContract(MechanismContract):
    def data(self, counts):
        return counts

    def test_an_empty_domain_is_refused(self):
        with pytest.raises(InvalidArgument, match=r"^counts: .* empty"):
            self.run({}, Rng.system())

    def test_a_list_of_rows_is_not_a_domain(self):
        with pytest.raises(InvalidArgument, match=r"^counts: must map every item"):
            self.run([("a", 1)], Rng.system())


class TestKnownLaplace(KnownContract):
    name, arguments = "known_laplace", {"epsilon": 0.5, "max_groups": 2}


class TestKnownGaussian(KnownContract):
    name, arguments = "known_gaussian", {"epsilon": 0.5, "max_groups": 3}


class TestKnownGumbel(KnownContract):
    name, arguments = "known_gumbel", {"k": 3, "epsilon": 0.5}


class TestUnknownLaplace(UnknownDomainContract):
    name, arguments = "unknown_laplace", {"epsilon": 1.5, "delta": 1e-2, "max_groups": 2, "limit": 24}

    def test_the_error_is_stated_and_holds(self):
        self.arguments = self.arguments | {"limit": 400}
        super().test_the_error_is_stated_and_holds()

    def test_another_parameter_is_another_noise(self):
        self.arguments = self.arguments | {"limit": 40}
        super().test_another_parameter_is_another_noise()


class TestUnknownGaussian(TestUnknownLaplace):
    name, arguments = "unknown_gaussian", {"epsilon": 1.5, "delta": 1e-2, "max_groups": 2, "limit": 24}


class TestThresholdLaplace(PrivateDomainContract):
    name, arguments = "threshold_laplace", {"epsilon": 1.5, "delta": 1e-2, "max_groups": 2}


class TestThresholdGaussian(PrivateDomainContract):
    name, arguments = "threshold_gaussian", {"epsilon": 1.5, "delta": 1e-2, "max_groups": 2}


class TestUnknownGumbel(UnknownDomainContract):
    name, arguments = "unknown_gumbel", {"k": 3, "max_k": 24, "limit": 24, "epsilon": 1.5, "delta": 1e-2}

    def test_the_error_is_stated_and_holds(self):
        self.arguments = self.arguments | {"max_k": 400, "limit": 400}
        super().test_the_error_is_stated_and_holds()

    def test_another_parameter_is_another_noise(self):
        self.arguments = self.arguments | {"limit": 40}
        super().test_another_parameter_is_another_noise()


# ---- what each of them adds --------------------------------------------------------------------------------


def test_the_thresholds_of_the_specification():
    at = {"epsilon": Fraction(3, 20), "delta": Fraction(1, 10**10)}
    assert [UnknownLaplace.of(max_groups=n, **at).gap for n in (1, 5)] == [333, 794]
    assert [UnknownGaussian.of(max_groups=n, **at).gap for n in (1, 5)] == [121, 279]
    assert [ThresholdGaussian.of(max_groups=n, **at).threshold for n in (1, 5)] == [87, 199]
    assert UnknownGumbel.of(k=10, **at).gap(1000) == 1 + 200  # ln(1e13) / 0.15 = 199.6


def test_scales_of_noise():
    assert KnownLaplace.of(epsilon=0.5, max_groups=7, tau=3).noise == DiscreteLaplace(Fraction(12))
    assert KnownGaussian.of(epsilon=0.5, max_groups=7, tau=3).noise == DiscreteGaussian(Fraction(144))
    assert UnknownLaplace.of(epsilon=0.5, delta=1e-6, max_groups=4, tau=3).noise == DiscreteLaplace(Fraction(24))
    assert UnknownGaussian.of(epsilon=0.5, delta=1e-6, max_groups=5, tau=3).noise == DiscreteGaussian(Fraction(720))


@given(st.integers(1, 10**9))
def test_a_scale_that_is_irrational_is_rounded_up(groups):
    scale = UnknownLaplace.of(epsilon=2, delta=1e-6, max_groups=groups).noise.scale
    assert groups <= scale**2 <= groups * (1 + Fraction(1, 2**63)) ** 2


def test_gaussian_counts_have_seven_tenths_of_the_deviation():
    laplace, gaussian = (KnownLaplace, KnownGaussian)
    ratio = (
        gaussian.of(epsilon=0.15, max_groups=1).noise.deviation / laplace.of(epsilon=0.15, max_groups=1).noise.deviation
    )
    assert ratio == pytest.approx(0.5**0.5, rel=1e-3)


def test_the_price_of_a_list():
    """The table of charges: (reserve, least) with and without counts, cutoff selected or fixed."""
    at = {"k": 10, "epsilon": 0.15, "delta": 1e-10}
    prices = {
        ("select", True): (21, 2),
        ("select", False): (11, 2),
        ("fixed", True): (20, 1),
        ("fixed", False): (10, 1),
    }
    for (cutoff, with_counts), (reserve, least) in prices.items():
        mechanism = UnknownGumbel.of(**at, cutoff=cutoff, with_counts=with_counts)
        assert (mechanism.reserve, mechanism.least) == (Charge(reserve, 1), Charge(least, 1))
    assert reserve_for("known_gumbel", k=10, epsilon=1) == Charge(20)
    assert reserve_for("known_gumbel", k=10, epsilon=1, with_counts=False) == Charge(10)
    assert reserve_for("known_laplace", epsilon=1, max_groups=5) == Charge(5)
    assert reserve_for("unknown_gaussian", epsilon=1, delta=0.1, max_groups=5) == Charge(1, 1)


@pytest.mark.parametrize(
    ("cutoff", "with_counts"), [("select", True), ("select", False), ("fixed", True), ("fixed", False)]
)
def test_a_list_that_stops_pays_for_what_it_got(cutoff, with_counts):
    rows = [("a", 5000), ("b", 4000)]
    top = unknown_gumbel(rows, k=10, epsilon=0.5, delta=1e-6, rng=keyed(b"1"), cutoff=cutoff, with_counts=with_counts)
    assert [item for item, _ in top.rows] == ["a", "b"]
    assert top.stopped
    picks = 2 * (1 + with_counts)
    assert top.charge == Charge(picks + 1 + (cutoff == "select"), 1)
    kinds = [step.kind for step in top.steps]
    assert kinds == ["call", *["cutoff"][: cutoff == "select"], *["pick", "count"][: 1 + with_counts] * 2, "stop"]


def test_counts_can_be_bought_later():
    bare = unknown_gumbel(ROWS, k=5, max_k=10, epsilon=0.5, delta=1e-6, rng=keyed(b"2"), with_counts=False)
    full = unknown_gumbel(ROWS, k=5, max_k=10, epsilon=0.5, delta=1e-6, rng=keyed(b"2"))
    assert [item for item, _ in bare.rows] == [item for item, _ in full.rows]
    assert full.without_counts().rows == bare.rows
    assert full.without_counts().charge == bare.charge
    assert full.newly(bare.steps) == Charge(5)


def test_the_family_of_the_counts_does_not_move_the_ranking():
    both = [
        unknown_gumbel(ROWS, k=5, epsilon=0.5, delta=1e-6, rng=keyed(b"3"), count_noise=family)
        for family in ("laplace", "gaussian")
    ]
    assert [item for item, _ in both[0].rows] == [item for item, _ in both[1].rows]
    assert both[0].rows != both[1].rows
    assert both[1].newly(both[0].steps) == Charge(5)


def test_after_a_stop_every_longer_list_is_free():
    top = unknown_gumbel([("a", 5000)], k=3, max_k=10, epsilon=0.5, delta=1e-6, rng=keyed(b"4"))
    longer = unknown_gumbel([("a", 5000)], k=10, max_k=10, epsilon=0.5, delta=1e-6, rng=keyed(b"4"))
    assert top.stopped
    assert longer.newly(top.steps) == Charge()
    assert top.prefix(10) == top


def test_a_cut_list_cannot_be_made_longer():
    top = known_gumbel(TABLE, k=3, epsilon=1, rng=keyed(b"5"))
    with pytest.raises(InvalidArgument, match=r"^k: is longer"):
        top.prefix(4)
    with pytest.raises(InvalidArgument, match=r"^k: must be at least 1"):
        top.prefix(0)


def test_a_histogram_without_its_counts_costs_the_same():
    full = known_laplace(TABLE, epsilon=1, max_groups=1, rng=keyed(b"6"))
    bare = full.without_counts()
    assert bare.rows == tuple((item, None) for item, _ in full.rows)
    assert bare.steps == full.steps
    assert bare.error95 is None
    assert full.newly(bare.steps) == Charge()


@pytest.mark.parametrize("cutoff", ["select", "fixed"])
def test_the_worst_case_of_a_ranking(cutoff):
    for with_counts in (True, False):
        worst = UnknownGumbel.of(k=2, epsilon=1, delta=0.1, cutoff=cutoff, with_counts=with_counts).worst
        kinds = ["call", *["cutoff"][: cutoff == "select"], *["pick", "count"][: 1 + with_counts] * 2]
        assert [step.kind for step in worst] == kinds
        assert [step.kind for step in KnownGumbel.of(k=2, epsilon=1, with_counts=with_counts).worst] == kinds[
            -2 * (1 + with_counts) :
        ]


def test_the_count_is_not_the_gumbel_noise_again():
    """The order of the race and the noise of the counts are independent: over many runs, uncorrelated."""
    flat = {f"{i:03d}": 500 for i in range(300)}
    counts = np.array([count for _, count in known_gumbel(flat, k=300, epsilon=0.1, rng=keyed(b"7")).rows])
    correlation = np.corrcoef(np.arange(300), counts)[0, 1]
    assert abs(correlation) < 5.5 / np.sqrt(300)


def test_k_is_capped_by_a_known_domain():
    top = known_gumbel({"a": 1, "b": 2}, k=10, epsilon=1, rng=Rng.system())
    assert len(top.rows) == 2
    assert not top.stopped
    assert top.charge == Charge(4)
    assert top.reserve == Charge(20)


def test_ties_are_broken_by_key_and_not_by_rank():
    """Noise far below one: equal noisy counts are common. Their order must not be that of the exact counts."""
    at = {"epsilon": 100, "max_groups": 1}
    assert [item for item, _ in known_laplace({"b": 5, "a": 5}, rng=keyed(b"8"), **at).rows] == ["a", "b"]
    rows = [("z", 60), ("a", 59)]
    for i in range(200):
        released = unknown_laplace(rows, epsilon=4, delta=0.1, max_groups=1, rng=keyed(bytes([i]))).rows
        if len(released) == 2 and released[0][1] == released[1][1]:
            assert [item for item, _ in released] == ["a", "z"]
            break
    else:
        pytest.fail("no tie in 200 runs")


def test_the_threshold_is_released_and_rows_exceed_it():
    for mechanism in (unknown_laplace, unknown_gaussian):
        released = mechanism(ROWS[:21], epsilon=0.5, delta=1e-6, max_groups=1, limit=20, rng=keyed(b"9"))
        assert isinstance(released.threshold, int)
        assert released.rows
        assert all(count > released.threshold for _, count in released.rows)
        assert released.steps == (Step("histogram", Charge(1, 1)),)


def test_the_threshold_starts_from_the_first_row_out_of_sight():
    flat = [(f"{i:02d}", 10_000) for i in range(21)]
    cut = unknown_gaussian(flat, epsilon=0.5, delta=1e-6, max_groups=1, limit=20, rng=keyed(b"a"))
    free = unknown_gaussian(flat, epsilon=0.5, delta=1e-6, max_groups=1, limit=21, rng=keyed(b"a"))
    assert cut.rows == ()
    assert len(free.rows) == 21


def test_rows_tied_with_the_cutoff_are_never_picked():
    """Strictly above, so that no tie rule can matter: of 20 equal rows and one out of sight, none is eligible.

    If they were, one of them would come before the bottom element in a quarter of the runs.
    """
    flat = [(f"{i:02d}", 10_000) for i in range(21)]
    for i in range(50):
        top = unknown_gumbel(flat, k=5, max_k=20, limit=20, epsilon=0.5, delta=0.9, rng=keyed(bytes([i])))
        assert top.rows == ()


def test_the_cutoff_range_is_fixed_even_on_an_empty_table():
    mechanism = UnknownGumbel.of(k=2, max_k=5, limit=50, epsilon=1, delta=1e-3)
    chosen = {mechanism._choose_cutoff(np.zeros(51, np.int64), keyed(bytes([i]))) for i in range(250)}
    assert min(chosen) == 5
    assert max(chosen) > 40


def test_keys_of_any_type():
    aware, naive = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1)
    plain = [
        None,
        3,
        "3",
        ("a", 1),
        ("a", None),
        2.5,
        b"x",
        Decimal("1.5"),
        date(2026, 1, 1),
        aware,
        naive,
        UUID(int=5),
    ]
    mixed = dict.fromkeys([*plain, np.float64(7.5), np.str_("y"), np.True_], 5)
    once = known_laplace(mixed, epsilon=1, max_groups=1, rng=keyed(b"b"))
    again = known_laplace(dict(reversed(mixed.items())), epsilon=1, max_groups=1, rng=keyed(b"b"))
    assert once == again
    for ordered in (
        [("a", 1), ("a", 2), ("b", 0)],
        [9.0, 10.0],
        [np.int64(9), np.int64(10)],
        [Decimal(9), Decimal(10)],
        [naive, datetime(2026, 1, 2)],
    ):
        rows = [(key, 9) for key in ordered]
        assert unknown_gumbel(rows, k=1, epsilon=1, delta=0.5, rng=Rng.system()).reserve == Charge(3, 1)
        with pytest.raises(InvalidArgument, match=r"^rows: must be in order"):
            unknown_gumbel(rows[::-1], k=1, epsilon=1, delta=0.5, rng=Rng.system())


UNSURE = [object(), frozenset({1}), float("nan"), 1j, len, ("a", float("nan"))]


@pytest.mark.parametrize("key", UNSURE, ids=lambda key: type(key).__name__)
def test_keys_without_a_sure_order_are_refused_whether_there_are_ties_or_not(key):
    for call in (
        lambda: known_laplace({key: 1, "a": 2}, epsilon=1, max_groups=1, rng=Rng.system()),
        lambda: unknown_gumbel([("a", 5), (key, 1)], k=1, epsilon=1, delta=0.5, rng=Rng.system()),
        lambda: unknown_laplace([(key, 1)], epsilon=1, delta=0.5, max_groups=1, rng=Rng.system()),
    ):
        with pytest.raises(InvalidArgument, match="has no order that is sure"):
            call()


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.int64, np.uint64])
@pytest.mark.parametrize("name", ["tau", "k", "max_groups", "limit", "max_k", "epsilon"])
def test_numpy_numbers_are_the_numbers_they_look_like(kind, name):
    """A uint8 that doubles past 255, or an int64 that is shifted by 128, would take the noise away."""
    for mechanism, arguments in {
        "known_laplace": {"epsilon": 1, "max_groups": 100, "tau": 100, "k": 3},
        "known_gumbel": {"epsilon": 1, "tau": 100, "k": 3},
        "unknown_laplace": {"epsilon": 1, "delta": 0.1, "max_groups": 2, "tau": 100, "k": 3, "limit": 30},
        "unknown_gumbel": {"epsilon": 1, "delta": 0.1, "tau": 100, "k": 3, "max_k": 9, "limit": 30},
    }.items():
        if name in arguments:
            plain = MECHANISMS[mechanism].of(**arguments)
            odd = MECHANISMS[mechanism].of(**(arguments | {name: kind(arguments[name])}))
            assert odd == plain
            assert odd.noise == plain.noise
            assert odd.fingerprint() == plain.fingerprint()
            assert type(getattr(odd, name)) is type(getattr(plain, name))


def test_records_are_exact_however_they_are_made():
    assert KnownLaplace(epsilon=0.15, max_groups=1).noise.scale == 2 / Fraction(0.15)
    with pytest.raises(InvalidArgument, match=r"^epsilon: "):
        KnownLaplace(epsilon="1", max_groups=1)


@pytest.mark.parametrize("rng", [None, "system", Rng, np.random.default_rng(1), 7], ids=lambda rng: type(rng).__name__)
def test_no_other_generator_stands_in_for_ours(rng):
    for call in (
        lambda: known_laplace({"a": 1}, epsilon=1, max_groups=1, rng=rng),
        lambda: unknown_gumbel(ROWS, k=1, epsilon=1, delta=0.1, rng=rng),
        lambda: select_geometric(np.array([1]), epsilon=1, delta=0.1, max_keys=1, rng=rng),
        lambda: measure_count(1, epsilon=1, rng=rng),
    ):
        with pytest.raises(InvalidArgument, match=r"^rng: "):
            call()


NOT_ROWS = [None, 5, "ab", {"a": 1}, {("a", 1)}, iter(ROWS)]


@pytest.mark.parametrize("rows", NOT_ROWS, ids=lambda rows: type(rows).__name__)
def test_rows_are_a_list(rows):
    with pytest.raises(InvalidArgument, match=r"^rows: must be a list of pairs"):
        unknown_gumbel(rows, k=1, epsilon=1, delta=0.1, rng=Rng.system())


def test_numpy_counts_are_integers_too():
    counts = {"a": np.int64(5), "b": np.uint8(7)}
    assert known_gaussian(counts, epsilon=1, max_groups=1, rng=Rng.system()).charge == Charge(1)


@pytest.mark.slow
def test_nothing_depends_on_the_decimal_context_of_the_caller(monkeypatch):
    """A careless or hostile context: two digits, and an exception whenever anything is rounded."""

    def everything():
        unknown_domain.bottom_gap.cache_clear()
        top = unknown_gumbel(ROWS, k=5, max_k=10, epsilon=0.3, delta=1e-6, rng=keyed(b"c"))
        kept = select_geometric(np.arange(40), epsilon=1, delta=1e-3, max_keys=3, rng=keyed(b"c")).kept.tolist()
        return top, kept, keyed(b"c").discrete_gaussian(50, 60).tolist()

    for module, name, value in (
        (noise, "MIN_HEAD", 2**63),
        (noise, "CERTAIN", 2.0),
        (key_selection, "CERTAIN", 2.0),
        (selection, "MARGIN", 1.0),
    ):
        monkeypatch.setattr(module, name, value)
    expected = everything()
    with decimal.localcontext(prec=2, traps=[decimal.Inexact, decimal.Rounded]):
        assert everything() == expected
    monkeypatch.setitem(decimal.DefaultContext.traps, decimal.Inexact, True)
    monkeypatch.setattr(decimal.DefaultContext, "rounding", decimal.ROUND_UP)
    assert everything() == expected


def test_a_list_longer_than_max_k_is_refused():
    with pytest.raises(InvalidArgument, match=r"^max_k: must be at least 11"):
        unknown_gumbel(ROWS, k=11, max_k=10, epsilon=1, delta=1e-6, rng=Rng.system())


@pytest.mark.parametrize(("name", "value"), [("cutoff", "guess"), ("count_noise", "uniform"), ("with_counts", 1)])
def test_choices_are_refused_by_name(name, value):
    with pytest.raises(InvalidArgument, match=rf"^{name}: must be"):
        unknown_gumbel(ROWS, k=5, epsilon=1, delta=1e-6, rng=Rng.system(), **{name: value})


def test_an_unknown_mechanism_is_refused_by_name():
    with pytest.raises(InvalidArgument, match=r"^mechanism: must be one of known_laplace"):
        reserve_for("magic", epsilon=1)
