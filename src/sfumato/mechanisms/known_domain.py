"""Histograms and top-k over a public domain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.accounting.charges import Charge
from sfumato.accounting.numbers import Number, whole
from sfumato.mechanisms.inputs import known_domain
from sfumato.mechanisms.mechanism import MAX_GROUPS, CountNoise, Mechanism, Ranking
from sfumato.mechanisms.noise import DiscreteGaussian, DiscreteLaplace, Noise
from sfumato.mechanisms.random import Rng, check_source
from sfumato.mechanisms.release import K, Release, Step
from sfumato.mechanisms.selection import Scores, race


@dataclass(frozen=True, kw_only=True)
class KnownNoise(Mechanism):
    """Noise on every count of a public domain; a person is in at most `max_groups` groups."""

    noise_parameters = ("max_groups",)

    max_groups: int
    k: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.__dict__["max_groups"] = whole("max_groups", self.max_groups, at_least=1, at_most=MAX_GROUPS)
        if self.k is not None:
            self.__dict__["k"] = whole("k", self.k, at_least=1)

    @property
    def worst(self) -> tuple[Step, ...]:
        return (Step("histogram", self.reserve),)

    def steps(self, rows: int, *, stopped: bool) -> tuple[Step, ...]:
        return self.worst

    @property
    def reserve(self) -> Charge:
        return Charge(self.max_groups)

    def list_error95(self, groups: int) -> int:
        """Wider for a part of the groups: those that are shown are the ones whose noise was high (the proof page)."""
        shown = min(self.k or groups, groups)
        return self.noise.half_width(float(1 - Fraction(shown, 20 * groups)))

    def release(self, counts: Mapping[K, int], rng: Rng) -> Release[K]:
        keys, exact = known_domain(counts)
        source = check_source(rng).child(self.fingerprint())
        noisy = exact + self.noise.sample(source.stream(purpose="count"), len(keys))
        order = np.argsort(-noisy, kind="stable")[: self.k]
        return Release(
            mechanism=self.name,
            rows=tuple((keys[i], int(noisy[i])) for i in order),
            steps=self.worst,
            reserve=self.reserve,
            complete=len(order) == len(keys),
            error95=self.error95,
        )


class KnownLaplace(KnownNoise):
    """Discrete Laplace noise of scale 2 tau / epsilon on every count of a public domain.

    Guarantee: (max_groups * epsilon / 2)-DP; max_groups units, no call. Independent of k and of the domain's size.
    Assumes:   the domain is public and complete (zeros included); a person is in at most max_groups groups and
               moves each by at most tau: enforced by the query or true by construction.
    Source:    Dwork et al. (2006); Rogers et al. (2021), Algorithm 1. Proof: proofs/known_laplace.md.
    """

    name = "known_laplace"

    @property
    def noise(self) -> Noise:
        return DiscreteLaplace(2 * self.tau / self.epsilon)


class KnownGaussian(KnownNoise):
    """Discrete Gaussian noise, sigma = 2 tau / epsilon, on every count of a public domain.

    Guarantee: max_groups * epsilon^2 / 8 zCDP: max_groups units, no call. Not pure DP. The deviation is 0.71 of
               the Laplace one.
    Assumes:   as `KnownLaplace`.
    Source:    Canonne, Kamath, Steinke (2020). Proof: proofs/known_gaussian.md.
    """

    name = "known_gaussian"

    @property
    def noise(self) -> Noise:
        return DiscreteGaussian((2 * self.tau / self.epsilon) ** 2)


@dataclass(frozen=True, kw_only=True)
class KnownGumbel(Ranking):
    """The k largest of a public domain by Gumbel noise of scale tau / epsilon, each with a fresh noisy count.

    Guarantee: k selections of epsilon bounded range and k counts: 2k units (k without counts), no call;
               (3k * epsilon / 2)-DP with Laplace counts. k is capped by the size of the domain.
    Assumes:   the domain is public and complete; a person moves each count by 0 to tau, all in one direction.
    Source:    McSherry and Talwar (2007); Durfee and Rogers (2019). Proof: proofs/known_gumbel.md.
    """

    name = "known_gumbel"
    noise_parameters = ()

    @property
    def reserve(self) -> Charge:
        return Charge(self.k * (1 + self.with_counts))

    @property
    def least(self) -> Charge:
        return Charge(1 + self.with_counts)

    def release(self, counts: Mapping[K, int], rng: Rng) -> Release[K]:
        keys, exact = known_domain(counts)
        source = check_source(rng).child(self.fingerprint())
        picked = race(Scores(self.epsilon / self.tau, exact), source.stream(purpose="gumbel"), min(self.k, len(keys)))
        return Release(
            mechanism=self.name,
            rows=self._rows([keys[i] for i in picked], exact[picked].tolist(), source),
            steps=self.steps(len(picked), stopped=False),
            reserve=self.reserve,
            complete=len(picked) == len(keys),
            error95=self.error95,
        )


@dataclass(frozen=True, kw_only=True)
class PublicGroups(Mechanism):
    """The groups of a public domain, in their order and without a count. Nothing of the data is in it.

    Guarantee: 0-DP: it does not look at the counts. No unit, no call.
    Assumes:   the domain is public.
    Source:    post-processing of nothing. Proof: proofs/measures.md.
    """

    name = "public_groups"
    noise_parameters = ()

    k: int

    @property
    def noise(self) -> Noise:
        raise NotImplementedError("public groups have no noise")

    @property
    def error95(self) -> None:
        return None

    def steps(self, rows: int, *, stopped: bool) -> tuple[Step, ...]:
        return ()

    @property
    def worst(self) -> tuple[Step, ...]:
        return ()

    @property
    def reserve(self) -> Charge:
        return Charge()

    def release(self, counts: Mapping[K, int], rng: Rng) -> Release[K]:
        keys, _ = known_domain(counts)
        shown = keys[: self.k]
        rows = tuple((key, None) for key in shown)
        return Release(self.name, rows, (), self.reserve, complete=len(shown) == len(keys))


def known_laplace(
    counts: Mapping[K, int], *, epsilon: Number, max_groups: int, tau: int = 1, k: int | None = None, rng: Rng
) -> Release[K]:
    """A histogram over a public domain with discrete Laplace noise: see `KnownLaplace` for its guarantee."""
    return KnownLaplace.of(epsilon=epsilon, max_groups=max_groups, tau=tau, k=k).release(counts, rng)


def known_gaussian(
    counts: Mapping[K, int], *, epsilon: Number, max_groups: int, tau: int = 1, k: int | None = None, rng: Rng
) -> Release[K]:
    """A histogram over a public domain with discrete Gaussian noise: see `KnownGaussian` for its guarantee."""
    return KnownGaussian.of(epsilon=epsilon, max_groups=max_groups, tau=tau, k=k).release(counts, rng)


def known_gumbel(
    counts: Mapping[K, int],
    *,
    k: int,
    epsilon: Number,
    tau: int = 1,
    rng: Rng,
    with_counts: bool = True,
    count_noise: CountNoise = "laplace",
) -> Release[K]:
    """The top k of a public domain: see `KnownGumbel` for its guarantee."""
    mechanism = KnownGumbel.of(k=k, epsilon=epsilon, tau=tau, with_counts=with_counts, count_noise=count_noise)
    return mechanism.release(counts, rng)
