"""The 95 % bound of what bounding drops holds the truth, for every shape of data.

False alarms: where the bound holds with 95 %, one of the cases alarms less than once in a million choices of the noise,
which is fixed (Chernoff, and a union over the cases).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.mechanisms import Rng, context
from sfumato.mechanisms.census import MAX_SEEN, KeyCensus
from tests.helpers.false_alarms import FALSE_ALARM, divergence
from tests.helpers.repeats import repeats

pytestmark = pytest.mark.slow

TRIALS = repeats(150, 2000)
SHAPES = {
    "one key each": [1] * 3000,
    "evenly spread": [1 + person % 200 for person in range(3000)],
    "a heavy tail": [int(min(MAX_SEEN, (1 - (person + 0.5) / 5000) ** -1.1)) for person in range(5000)],
    "two kinds of people": [1] * 2000 + [900] * 30,
    "a few people": [5, 50, 500],
}
BUDGETS = (Fraction(1, 1000), Fraction(1, 20), Fraction(3))
MAX_KEYS = (1, 24)
CASES = len(SHAPES) * len(BUDGETS) * len(MAX_KEYS) * 2


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rho", BUDGETS, ids=str)
@pytest.mark.parametrize("public", [False, True])
def test_the_bound_holds_the_truth(shape: str, rho: Fraction, public: bool) -> None:
    sizes = np.array(SHAPES[shape])
    people = np.bincount(sizes, minlength=MAX_SEEN + 2)
    census = KeyCensus(rho=rho, keys=int(sizes.max()) if public else None)
    truths = {max_keys: np.maximum(sizes - max_keys, 0).sum() / sizes.sum() for max_keys in MAX_KEYS}
    held = dict.fromkeys(MAX_KEYS, 0)
    for trial in range(TRIALS):
        released = census.release(people, Rng.keyed(b"k" * 32, context(trial=trial)))
        for max_keys, truth in truths.items():
            found = released.dropped(max_keys)
            held[max_keys] += found.low <= truth <= (1 if found.high is None else found.high)
    for share in (times / TRIALS for times in held.values()):
        assert share >= 0.95 or TRIALS * divergence(share, 0.95) <= math.log(CASES / FALSE_ALARM)
