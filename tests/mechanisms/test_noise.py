"""The samplers are exact: checked against a second construction, an oracle of high precision, and exact tails."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import InvalidArgument
from sfumato.mechanisms import DiscreteGaussian, DiscreteLaplace, Rng, noise
from sfumato.mechanisms.stream import Stream
from tests.helpers.chosen import ChosenStream

STREAM = Stream(bytes(range(32)))
SCALES = [
    Fraction(1, 50),
    Fraction(1, 2),
    Fraction(2),
    Fraction(40, 3),
    Fraction(0.15),
    Fraction(1000),
    Fraction(2**31),
]


def oracle_t(scale: Fraction, words: list[int]) -> mpmath.mpf:
    """scale * (ln(2 / (1 + a)) - ln U) for the uniform whose digits are `words`, the first bit left out."""
    numerator = words[0] & (2**63 - 1)
    for word in words[1:]:
        numerator = numerator << 64 | word
    with mpmath.workdps(150):
        b = mpmath.mpf(scale.numerator) / scale.denominator
        uniform = mpmath.mpf(numerator) / mpmath.mpf(2) ** (63 + 64 * (len(words) - 1))
        return b * (mpmath.log(2 / (1 + mpmath.exp(-1 / b))) - mpmath.log(uniform))


@pytest.mark.parametrize("scale", SCALES)
def test_laplace_draws_are_the_formula_of_their_words(scale):
    lanes = [STREAM.words(lane, 0, 400) for lane in range(3)]
    for i, draw in enumerate(DiscreteLaplace(scale).sample(STREAM, 400)):
        words = [int(lane[i]) for lane in lanes]
        sign = -1 if words[0] >> 63 else 1
        assert draw == sign * int(mpmath.floor(oracle_t(scale, words)))


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES)
def test_the_float_filter_only_says_where_to_look_closer(scale, monkeypatch):
    laplace, gaussian = DiscreteLaplace(scale), DiscreteGaussian(scale)
    fast = laplace.sample(STREAM, 200), gaussian.sample(STREAM, 200)
    monkeypatch.setattr(noise, "MIN_HEAD", 2**63)
    monkeypatch.setattr(noise, "CERTAIN", 2.0)
    assert np.array_equal(laplace.sample(STREAM, 200), fast[0])
    assert np.array_equal(gaussian.sample(STREAM, 200), fast[1])


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("scale", [Fraction(2), Fraction(40, 3), Fraction(2**20)])
def test_a_draw_next_to_a_boundary_is_settled_by_further_words(scale, depth):
    """Words that agree with the boundary between m - 1 and m for `depth` words, and differ after that."""
    m = math.ceil(scale)
    with mpmath.workdps(200):
        b = mpmath.mpf(scale.numerator) / scale.denominator
        boundary = 2 / (1 + mpmath.exp(-1 / b)) * mpmath.exp(-m / b)
        digits = int(mpmath.floor(boundary * mpmath.mpf(2) ** (63 + 64 * depth)))
    shared = [digits >> 64 * (depth - i) & (2**64 - 1) for i in range(depth)]
    last = digits & (2**64 - 1)
    for word, magnitude in ((last - 1, m), (last + 1, m - 1)):
        lanes = dict(enumerate([*shared, word]))
        stream = ChosenStream({lane: {0: word} for lane, word in lanes.items()})
        assert DiscreteLaplace(scale).sample(stream, 1).tolist() == [magnitude]


def test_a_coarse_head_is_looked_at_more_closely():
    """A head of 26 bits places t only to within scale * 2^-26, however far from an integer float64 sees it."""
    scale = Fraction(2**20)
    for head in range(2**25, 2**25 + 2000):
        ends = [int(mpmath.floor(oracle_t(scale, [head, word]))) for word in (1, 2**64 - 1)]
        middle = oracle_t(scale, [head, 2**63])
        if ends[0] != ends[1] and abs(middle - mpmath.nint(middle)) > float(scale) * 2.0**-38 + middle * 2.0**-44:
            break
    else:
        pytest.fail("no such head: the search above is at fault")
    for word, end in zip((1, 2**64 - 1), ends, strict=True):
        stream = ChosenStream({0: {0: head}, 1: {0: word}, 2: {0: 2**63}})
        assert DiscreteLaplace(scale).sample(stream, 1).tolist() == [end]


def test_a_uniform_of_many_zero_bits_is_a_large_draw():
    stream = ChosenStream({0: {0: 0}, 1: {0: 0}, 2: {0: 2**63}, 3: {0: 0}})
    expected = math.floor(10 * ((63 + 64 + 1) * math.log(2) + math.log(2 / (1 + math.exp(-0.1)))))
    assert DiscreteLaplace(Fraction(10)).sample(stream, 1).tolist() == [expected]


@pytest.mark.parametrize("variance", [Fraction(1, 50), Fraction(2), Fraction(1600, 9), Fraction(10**7)])
def test_gaussian_draws_are_the_formula_of_their_words(variance):
    """Candidate c from word 2c, accepted by word 2c + 1, both with the digits of three lanes."""
    t, drawn = math.isqrt(math.floor(variance)) + 1, []
    lanes = [STREAM.words(lane, 0, 800) for lane in range(3)]
    for c in range(400):
        value, chance = ([int(lane[2 * c + i]) for lane in lanes] for i in (0, 1))
        magnitude = int(mpmath.floor(oracle_t(Fraction(t), value)))
        with mpmath.workdps(100):
            sigma_squared = mpmath.mpf(variance.numerator) / variance.denominator
            bar = mpmath.exp(-((magnitude - sigma_squared / t) ** 2) / (2 * sigma_squared))
            uniform = sum(mpmath.mpf(word) / mpmath.mpf(2) ** (64 * (i + 1)) for i, word in enumerate(chance))
        if uniform < bar:
            drawn.append(-magnitude if value[0] >> 63 else magnitude)
    assert len(drawn) > 150
    assert DiscreteGaussian(variance).sample(STREAM, len(drawn)).tolist() == drawn


@pytest.mark.parametrize("variance", [5, 9, 10, 11, 13, 15])
def test_acceptance_next_to_equality_is_settled_by_further_words(variance):
    """Candidate 0 has the value 0 and an acceptance on the edge; the others have 2 and are certain."""
    t = math.isqrt(variance) + 1
    with mpmath.workdps(100):
        probability = mpmath.exp(-((mpmath.mpf(variance) / t) ** 2) / (2 * variance))
        edge = int(mpmath.floor(probability * mpmath.mpf(2) ** 128))
    two = next(u for u in range(2**63 - 1, 0, -(2**54)) if oracle_t(Fraction(t), [u, 0]) > 2.3)
    for word, expected in (((edge & (2**64 - 1)) - 1, 0), ((edge & (2**64 - 1)) + 1, 2)):
        pairs = {0: 2**63 - 1, 1: edge >> 64} | {i: 0 if i % 2 else two for i in range(2, 40)}
        stream = ChosenStream({0: pairs, 1: {1: word}})
        assert DiscreteGaussian(Fraction(variance)).sample(stream, 1).tolist() == [expected]


def test_float64_keeps_the_margins():
    """The filters assume that exp, log and log1p err by far less than 2^-40; this is where it would show."""
    x = np.concatenate([STREAM.words(9, 0, 500) * 2.0**-64, 2.0 ** -np.arange(1, 60)])
    for function, oracle, at in ((np.log, mpmath.log, x), (np.log1p, mpmath.log1p, -x), (np.exp, mpmath.exp, -x)):
        exact = [oracle(mpmath.mpf(value)) for value in at.tolist()]
        errors = [abs((f - e) / e) for f, e in zip(function(at).tolist(), exact, strict=True)]
        assert max(errors) < 2.0**-49


@given(size=st.integers(0, 300), more=st.integers(0, 40_000))
def test_a_longer_request_continues_a_shorter_one(size, more):
    for law in (DiscreteLaplace(Fraction(3)), DiscreteGaussian(Fraction(9))):
        assert np.array_equal(law.sample(STREAM, size), law.sample(STREAM, size + more)[:size])


# ---- tails and thresholds ------------------------------------------------------------------------------------


def masses(law, reach: int) -> dict[int, mpmath.mpf]:
    """The exact probabilities of -reach..reach, from the definition."""
    with mpmath.workdps(50):
        width = mpmath.mpf(float(law.parameter))
        power = 1 if isinstance(law, DiscreteLaplace) else 2
        weights = {x: mpmath.exp(-(abs(x) ** power) / (power * width)) for x in range(-reach, reach + 1)}
        total = mpmath.fsum(weights.values())
        return {x: weight / total for x, weight in weights.items()}


LAWS = [
    DiscreteLaplace(Fraction(1, 2)),
    DiscreteLaplace(Fraction(3)),
    DiscreteGaussian(Fraction(1, 4)),
    DiscreteGaussian(Fraction(16)),
]


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_tails_are_the_sums_of_the_law_rounded_up(law):
    p = masses(law, 200)
    for n in (-5, -1, 0, 1, 2, 7, 15):
        exact = float(mpmath.fsum(mass for x, mass in p.items() if x >= n))
        assert exact <= law.tail(n) <= exact * (1 + 1e-10)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_difference_tails_are_convolutions_rounded_up(law):
    p = masses(law, 120)
    at_least = {n: mpmath.fsum(mass for x, mass in p.items() if x >= n) for n in range(-130, 240)}
    for n in (0, 1, 2, 5, 12):
        exact = float(mpmath.fsum(mass * at_least[min(n + y, 239)] for y, mass in p.items() if n + y >= -130))
        assert exact <= law.difference_tail(n) <= exact * (1 + 1e-10)


@pytest.mark.parametrize("law", [*LAWS, DiscreteGaussian(Fraction(2**40)), DiscreteLaplace(Fraction(2**33))], ids=repr)
@pytest.mark.parametrize("probability", [0.3, 1e-3, 1e-10, 1e-100])
def test_thresholds_are_the_smallest_that_hold(law, probability):
    for tail, smallest in ((law.tail, law.smallest_tail), (law.difference_tail, law.smallest_difference_tail)):
        n = smallest(probability)
        assert tail(n) <= probability
        assert n == 0 or tail(n - 1) > probability


def test_sums_and_integrals_meet_where_one_takes_over(monkeypatch):
    law = DiscreteGaussian(Fraction(2**24))
    smooth = [law.tail(n) for n in (1, 5000, 30_000)] + [law.difference_tail(n) for n in (5000, 40_000)]
    noise._theta.cache_clear()
    monkeypatch.setattr(noise, "SMOOTH_VARIANCE", 2**26)
    summed = [law.tail(n) for n in (1, 5000, 30_000)] + [law.difference_tail(n) for n in (5000, 40_000)]
    noise._theta.cache_clear()
    assert smooth[0] == pytest.approx(summed[0], rel=1e-3)
    assert smooth[3] == pytest.approx(summed[3], rel=1e-3)
    for bound, value in zip(smooth, summed, strict=True):
        assert value * (1 - 1e-12) <= bound
    assert smooth[2] == pytest.approx(summed[2], rel=1e-6)
    assert smooth[4] == pytest.approx(summed[4], rel=1e-6)


@pytest.mark.parametrize("variance", [2**24, 2**40])
def test_tails_below_zero_are_rounded_up_too(variance):
    at_zero = 0.5 + 0.5 / math.sqrt(2 * math.pi * variance)
    law = DiscreteGaussian(Fraction(variance))
    assert at_zero <= law.tail(0) <= 1
    assert law.tail(0) <= law.tail(-1) <= law.tail(-5000) <= 1


@pytest.mark.parametrize("confidence", [0, 1, 1.5, -1, float("nan")])
def test_a_confidence_is_a_share(confidence):
    with pytest.raises(InvalidArgument, match=r"^confidence: "):
        DiscreteLaplace(Fraction(3)).half_width(confidence)


@pytest.mark.parametrize("law", [DiscreteLaplace, DiscreteGaussian])
@pytest.mark.parametrize("parameter", ["3", None, 0, -1, float("nan"), Fraction(10) ** 400, Fraction(1, 10**400)])
def test_laws_refuse_what_they_cannot_draw(law, parameter):
    with pytest.raises(InvalidArgument, match=r"^(scale|sigma_squared): "):
        law(parameter)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_deviation_and_half_width(law):
    p = masses(law, 200)
    variance = float(mpmath.fsum(x * x * mass for x, mass in p.items()))
    assert math.sqrt(variance) <= law.deviation * (1 + 1e-12)
    if float(law.parameter) >= 1:
        assert law.deviation == pytest.approx(math.sqrt(variance), rel=1e-7)
    width = law.half_width()
    within = float(mpmath.fsum(mass for x, mass in p.items() if abs(x) <= width))
    narrower = float(mpmath.fsum(mass for x, mass in p.items() if abs(x) < width))
    assert within >= 0.95 > narrower


@pytest.mark.parametrize("missed", [0.05, 0.045, 0.005, 0.0001])
def test_a_sum_of_two_laplace_draws_is_within_the_deviations_of_one(missed):
    """The law of a weighted sum of two continuous draws, for weights a and b with a^2 + b^2 = 1."""
    reach = DiscreteLaplace(1000).deviations(missed) * math.sqrt(2)
    for a in np.linspace(0.7072, 0.99999, 200):
        b = math.sqrt(1 - a * a)
        outside = (a * a * math.exp(-reach / a) - b * b * math.exp(-reach / b)) / (a * a - b * b)
        assert outside <= missed * (1 + 1e-9)
    assert math.exp(-reach) == pytest.approx(missed)


@pytest.mark.slow
@pytest.mark.parametrize("law", [DiscreteLaplace(50), DiscreteGaussian(2500)])
def test_weighted_sums_are_within_the_stated_deviations(law):
    """False alarms: one in a million, by Hoeffding, for each of the weights. A fixed stream."""
    size, missed = 200_000, 0.05
    draws = law.sample(Rng.keyed(b"k" * 32, b"sums").stream(purpose="sums"), 5 * size).reshape(5, size)
    for weights in ([1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 1, 1], [4, -2, 1, 0, 0]):
        width = law.deviations(missed) * law.deviation * math.hypot(*weights)
        outside = float(np.mean(np.abs(weights @ draws) > width))
        assert outside <= missed + math.sqrt(math.log(1e6) / (2 * size))


def test_normal_noise_has_normal_deviations():
    assert DiscreteGaussian(7).deviations(0.05) == pytest.approx(1.959964, abs=1e-6)
    assert DiscreteLaplace(7).deviations(0.05) == pytest.approx(math.log(20) / math.sqrt(2))
    assert DiscreteLaplace(7).deviations(0.5) == DiscreteGaussian(7).deviations(0.5)
