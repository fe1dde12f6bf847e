"""The one door to randomness: repeatable where keyed, fresh where not, and clear about bad arguments."""

from __future__ import annotations

import os
from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import InvalidArgument
from sfumato.mechanisms import Rng, context, known_laplace, measure_count, unknown_gumbel

KEY = bytes(range(32))


def keyed(name: str = "vectors") -> Rng:
    return Rng.keyed(KEY, context(purpose=name))


def test_frozen_vectors():
    """Same key, same context, same draws: on every platform, for ever. These numbers must never change."""
    rng = keyed()
    assert rng.discrete_laplace(Fraction(40, 3), 10).tolist() == LAPLACE
    assert rng.discrete_gaussian(Fraction(1600, 9), 10).tolist() == GAUSSIAN
    assert rng.discrete_laplace(0.5, 10).tolist() == SMALL
    assert rng.discrete_laplace(2**33, 4).tolist() == LARGE
    assert rng.discrete_gaussian(1e18, 4).tolist() == WIDE


def test_frozen_ranking():
    rows = [(f"item {i:02d}", 200 - 7 * i) for i in range(25)]
    top = unknown_gumbel(rows, k=5, max_k=10, limit=25, epsilon=0.5, delta=1e-6, rng=keyed())
    assert top.rows == RANKING


LAPLACE = [-1, 5, -15, 2, -31, 20, -30, 7, 8, 1]
GAUSSIAN = [30, -16, -2, -13, -13, 7, 2, 21, 5, 12]
SMALL = [0, -1, 1, -1, 0, 0, -1, 0, 0, 0]
LARGE = [-869663576, 5897125869, 1115784979, -12646757777]
WIDE = [79448993, -666782577, -721977215, -120816503]
RANKING = (("item 00", 199), ("item 01", 187), ("item 02", 185), ("item 03", 179), ("item 04", 175))


def test_calls_of_one_source_are_independent_and_repeatable():
    one, other = keyed(), keyed()
    first, second = one.discrete_laplace(1000, 50), one.discrete_laplace(1000, 50)
    assert not np.array_equal(first, second)
    assert np.array_equal(first, other.discrete_laplace(1000, 50))
    assert np.array_equal(second, other.discrete_laplace(1000, 50))


def test_no_two_purposes_share_their_noise():
    """Not another key, context, scale or family: two equations in the same noise would give the count away."""
    draws = [
        keyed().discrete_laplace(1000, 20),
        keyed().discrete_laplace(1001, 20),
        keyed("other").discrete_laplace(1000, 20),
        Rng.keyed(KEY[::-1], context(purpose="vectors")).discrete_laplace(1000, 20),
        keyed().child(a=1).discrete_laplace(1000, 20),
        keyed().child(a=2).discrete_laplace(1000, 20),
        keyed().discrete_gaussian(1000, 20),
    ]
    for i, one in enumerate(draws):
        for other in draws[:i]:
            assert np.count_nonzero(one == other) <= 3
            assert np.count_nonzero(np.sign(one) != np.sign(other)) >= 1


def test_a_keyed_source_is_sub_keyed_by_every_noise_parameter():
    counts = {"a": 0}
    variants = [
        {"epsilon": 0.01},
        {"epsilon": 0.0100001},
        {"epsilon": 0.01, "max_groups": 2},
        {"epsilon": 0.01, "tau": 2},
    ]
    seen = {
        known_laplace(counts, **({"max_groups": 1, "tau": 1} | variant), rng=keyed()).rows[0][1] for variant in variants
    }
    assert len(seen) == len(variants)


def test_refinements_of_one_count_differ():
    one, other = (measure_count(5, epsilon=0.001, refinement=i, rng=keyed()) for i in (0, 1))
    assert one.value != other.value


def test_the_system_source_never_repeats():
    rng = Rng.system()
    assert not np.array_equal(rng.discrete_laplace(2**30, 8), rng.discrete_laplace(2**30, 8))
    assert not np.array_equal(rng.stream(a=1).words(0, 0, 4), rng.stream(a=1).words(0, 0, 4))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork; the test needs one to fork a process")
def test_a_forked_process_does_not_repeat_its_parent():
    rng = Rng.system()
    rng.discrete_laplace(2**30, 2)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, rng.discrete_laplace(2**30, 8).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 64) != rng.discrete_laplace(2**30, 8).tobytes()


def test_draws_are_int64_and_a_scale_counts_by_value():
    assert keyed().discrete_laplace(2, 3).dtype == keyed().discrete_gaussian(2, 3).dtype == np.int64
    assert np.array_equal(keyed().discrete_laplace(0.5, 30), keyed().discrete_laplace(Fraction(1, 2), 30))
    assert keyed().discrete_laplace(2, 0).tolist() == []


def test_a_source_does_not_show_its_key():
    assert repr(keyed()) == "Rng.keyed(...)"
    assert repr(Rng.system()) == "Rng.system()"


BAD_NUMBERS = [
    0,
    -1,
    -0.5,
    float("nan"),
    float("inf"),
    float("-inf"),
    1e300,
    10**400,
    Fraction(1, 10**40),
    "2",
    None,
    True,
]


@pytest.mark.parametrize("value", BAD_NUMBERS, ids=str)
def test_bad_scales_are_refused_by_name(value):
    with pytest.raises(InvalidArgument, match=r"^scale: "):
        keyed().discrete_laplace(value, 3)
    with pytest.raises(InvalidArgument, match=r"^sigma_squared: "):
        keyed().discrete_gaussian(value, 3)


@pytest.mark.parametrize("size", [-1, 2**31, 10**30, 1.0, "3", None, True, float("nan")], ids=str)
def test_bad_sizes_are_refused_by_name(size):
    for draw in (keyed().discrete_laplace, keyed().discrete_gaussian):
        with pytest.raises(InvalidArgument, match=r"^size: "):
            draw(2, size)


@pytest.mark.parametrize(
    ("key", "at", "name"), [(b"", b"c", "key"), ("k", b"c", "key"), (KEY, "c", "context"), (KEY, None, "context")]
)
def test_bad_keys_are_refused_by_name(key, at, name):
    with pytest.raises(InvalidArgument, match=rf"^{name}: "):
        Rng.keyed(key, at)
