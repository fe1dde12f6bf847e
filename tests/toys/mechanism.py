"""A toy mechanism: twice the noise of `known_laplace`, at the same charge."""

from __future__ import annotations

from sfumato.mechanisms import DiscreteLaplace, Noise
from sfumato.mechanisms.known_domain import KnownNoise


class ToyMechanism(KnownNoise):
    """Discrete Laplace noise of scale 4 tau / epsilon on every count of a public domain.

    Guarantee: (max_groups * epsilon / 4)-DP, which max_groups units cover.
    Assumes:   as `KnownLaplace`.
    """

    name = "toy"

    @property
    def noise(self) -> Noise:
        return DiscreteLaplace(4 * self.tau / self.epsilon)
