"""The pure mechanisms: exact integer counts and a random source in, a frozen release out.

from sfumato.mechanisms import Rng, unknown_gumbel
top = unknown_gumbel(rows, k=10, epsilon=0.15, delta=1e-10, rng=Rng.system())
top.rows, top.stopped, top.charge
"""

from sfumato.mechanisms.catalogue import MECHANISMS, reserve_for
from sfumato.mechanisms.key_selection import (
    GaussianRule,
    GeometricRule,
    KeySelection,
    LaplaceRule,
    TruncatedLaplaceRule,
    select_gaussian,
    select_geometric,
    select_laplace,
    select_truncated_laplace,
)
from sfumato.mechanisms.known_domain import (
    KnownGaussian,
    KnownGumbel,
    KnownLaplace,
    known_gaussian,
    known_gumbel,
    known_laplace,
)
from sfumato.mechanisms.mechanism import Mechanism, ShownSizes
from sfumato.mechanisms.noise import DiscreteGaussian, DiscreteLaplace, Noise
from sfumato.mechanisms.pcr import PrivateCount, PrivateCountRelease, PrivateCounts, private_count_release
from sfumato.mechanisms.random import Rng
from sfumato.mechanisms.refinement import RefinedCount, measure_count, refine
from sfumato.mechanisms.release import Release, Step
from sfumato.mechanisms.stream import context
from sfumato.mechanisms.unknown_domain import (
    ThresholdGaussian,
    ThresholdLaplace,
    UnknownGaussian,
    UnknownGumbel,
    UnknownLaplace,
    threshold_gaussian,
    threshold_laplace,
    unknown_gaussian,
    unknown_gumbel,
    unknown_laplace,
)
from sfumato.mechanisms.weighted_selection import WeightedRule, key_weights, select_weighted

__all__ = [
    "MECHANISMS",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "GaussianRule",
    "GeometricRule",
    "KeySelection",
    "KnownGaussian",
    "KnownGumbel",
    "KnownLaplace",
    "LaplaceRule",
    "Mechanism",
    "Noise",
    "PrivateCount",
    "PrivateCountRelease",
    "PrivateCounts",
    "RefinedCount",
    "Release",
    "Rng",
    "ShownSizes",
    "Step",
    "ThresholdGaussian",
    "ThresholdLaplace",
    "TruncatedLaplaceRule",
    "UnknownGaussian",
    "UnknownGumbel",
    "UnknownLaplace",
    "WeightedRule",
    "context",
    "key_weights",
    "known_gaussian",
    "known_gumbel",
    "known_laplace",
    "measure_count",
    "private_count_release",
    "refine",
    "reserve_for",
    "select_gaussian",
    "select_geometric",
    "select_laplace",
    "select_truncated_laplace",
    "select_weighted",
    "threshold_gaussian",
    "threshold_laplace",
    "unknown_gaussian",
    "unknown_gumbel",
    "unknown_laplace",
]
