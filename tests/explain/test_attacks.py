"""The chances of attacks, against exact computation, simulation, the numbers of the paper, and the promise."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from scipy.linalg import hadamard

from sfumato.explain.attacks import Attack, attacks, averaging, differencing, overlap, reconstruction
from sfumato.explain.buying import plan_budget
from sfumato.mechanisms.noise import DiscreteGaussian, DiscreteLaplace, Noise

PAPER = DiscreteLaplace(2 / Fraction(15, 100))
NOISES: list[Noise] = [
    DiscreteLaplace(Fraction(1, 2)),
    DiscreteLaplace(Fraction(4)),
    DiscreteGaussian(Fraction(1, 3)),
    DiscreteGaussian(Fraction(9)),
]
ALARM = 1e-6


def law(noise: Noise, reach: int = 400) -> np.ndarray:
    """P[X = x] for x from -reach to reach, from the definition."""
    x = np.arange(-reach, reach + 1)
    if isinstance(noise, DiscreteLaplace):
        weights = np.exp(-np.abs(x) / float(noise.scale))
    else:
        weights = np.exp(-(x**2) / (2 * float(noise.sigma_squared)))
    return weights / weights.sum()


def slack(n: int) -> float:
    """Hoeffding: a right value is missed by more once in a million runs."""
    return math.sqrt(math.log(2 / ALARM) / (2 * n))


@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("answers", [1, 2, 3, 7, 12])
def test_averaging_is_the_sum_of_the_convolved_law(noise: Noise, answers: int) -> None:
    masses = np.array([1.0])
    for _ in range(answers):
        masses = np.convolve(masses, law(noise))
    sums = np.abs(np.arange(len(masses)) - len(masses) // 2)
    assert averaging(noise, answers) == pytest.approx(masses[2 * sums < answers].sum(), abs=1e-9)


def test_the_numbers_of_the_paper() -> None:
    """11 % for 30 days of Laplace noise; p = 0.0368, and 738 rows of which one is expected to be exact twice."""
    normal = 2 * NormalDist().cdf(0.15 * math.sqrt(30) / (4 * math.sqrt(2))) - 1
    assert normal == pytest.approx(0.115, abs=0.001)
    assert averaging(PAPER, 30) == pytest.approx(normal, abs=0.005)
    p = 1 - math.exp(-0.15 / 4)  # its noise is continuous
    assert (round(p, 4), int(1 / p**2)) == (0.0368, 738)
    assert averaging(PAPER, 1) == pytest.approx(p, abs=0.001)
    assert overlap(PAPER, 738) == pytest.approx(1 - math.exp(-738 * averaging(PAPER, 1) ** 2), abs=0.001)


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_two_lists_by_simulation(noise: Noise) -> None:
    runs, rows = 40_000, 5
    exact = np.random.default_rng(11).random((2, runs, rows)) < law(noise)[400]
    seen = exact.all(axis=0).any(axis=1).mean()
    assert abs(seen - overlap(noise, rows)) <= slack(runs)


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_differencing_by_simulation_and_as_the_best_guess(noise: Noise) -> None:
    masses = np.convolve(law(noise), law(noise))
    best = np.maximum(masses, np.roll(masses, 1)).sum() / 2  # the likelier of the two laws, at every difference
    assert differencing(noise) == pytest.approx(best, abs=1e-9)
    runs, random = 100_000, np.random.default_rng(12)
    x, y = (random.choice(np.arange(-400, 401), p=law(noise), size=runs) for _ in range(2))
    member = random.integers(0, 2, runs)
    assert abs(((member + x - y >= 1) == member).mean() - differencing(noise)) <= slack(runs)


@pytest.mark.parametrize(("people", "rounds"), [(7, 1), (7, 12), (15, 4), (1, 30)])
def test_reconstruction_by_simulation(people: int, rounds: int) -> None:
    """An S-matrix of sets, asked several times over; least squares; rounding."""
    noise = DiscreteGaussian(Fraction(25))
    design = np.ones((1, 1)) if people == 1 else (1 - hadamard(people + 1)[1:, 1:]) / 2
    design = np.repeat(design, rounds, axis=0)
    runs, random = 4000, np.random.default_rng(13)
    secrets = random.integers(0, 2, (runs, people))
    drawn = random.choice(np.arange(-400, 401), p=law(noise), size=(runs, len(design)))
    estimates = (secrets @ design.T + drawn) @ np.linalg.pinv(design).T
    right = ((estimates > 0.5) == secrets).mean()
    told, share = reconstruction(noise, 10**6 if people == len(design) else people, len(design))
    assert told == people
    # The bits of one run are not independent, so only the runs count. The normal law is off by a little.
    assert abs(right - share) <= slack(runs) + 0.005


def test_no_more_people_than_answers() -> None:
    assert reconstruction(PAPER, 1000, 10)[0] == 10
    assert reconstruction(PAPER, 4, 10)[0] == 4
    assert reconstruction(PAPER, 4, 0) == (0, 0.5)


@pytest.mark.parametrize("epsilon", [1, 3, 8, 30])
def test_no_attack_does_better_than_the_promise(epsilon: int) -> None:
    plan = plan_budget(epsilon)
    found = {(each.attack, each.answers): each for each in attacks(plan.budget, 1000)}
    assert {name for name, _ in found} == {"averaging", "overlap", "differencing", "reconstruction", "single"}
    for (name, _), attack in found.items():
        assert 0 < attack.succeeds <= 1
        if name in ("differencing", "reconstruction"):
            assert attack.blind < attack.succeeds <= plan.period.wins
    assert plan.period.delta is not None
    assert next(each.succeeds for each in found.values() if each.attack == "single") <= plan.period.delta


def test_the_answers_are_what_a_month_buys() -> None:
    assert [each.answers for each in attacks(plan_budget(8).budget, 50)] == [30, 320, 158, 2, 320, 320]
    assert [each.people for each in attacks(plan_budget(8).budget, 50)] == [None, None, None, None, 50, None]
    daily = plan_budget(1, resets="daily").budget
    [most] = [each for each in attacks(daily, 50) if each.attack == "single"]
    assert most == Attack("single", int(daily.cap.calls) * 31, float(daily.cap.calls * 31 * Fraction(1, 10**10)))
