"""The one door to randomness."""

from __future__ import annotations

import hmac
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from sfumato.accounting.numbers import Number, rational, whole
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.noise import DiscreteGaussian, DiscreteLaplace, Integers, Noise
from sfumato.mechanisms.stream import ContextField, Stream, context

MAX_SIZE = 2**30


@dataclass(slots=True, eq=False, repr=False)
class Rng:
    """A source of exact integer noise: `Rng.system()` or `Rng.keyed(key, context)`.

    A system source never repeats. A keyed source repeats for ever: the same key, context and sequence of
    calls give the same draws on every platform. Two keyed sources with different contexts are independent,
    as far as anyone without the key can tell.

    Keyed noise on two states of the data reveals their exact difference. Put a nonce into the context that
    belongs to one stored release (see `sfumato.mechanisms.context`).

    >>> Rng.keyed(b"0" * 32, context(purpose="docs")).discrete_laplace(10, 5).tolist()
    [-8, 2, 21, 2, -20]
    """

    # Not for callers: use `Rng.system()` or `Rng.keyed(...)`.
    _seed: bytes | None
    _calls: Iterator[int] = field(default_factory=itertools.count)

    @classmethod
    def system(cls) -> Rng:
        """Fresh noise: every stream is keyed by 256 bits from the operating system, also after a fork."""
        return cls(None)

    @classmethod
    def keyed(cls, key: bytes, context: bytes) -> Rng:
        """Repeatable noise: every stream is keyed by HMAC-SHA256 under HMAC-SHA256(key, context)."""
        for name, value in (("key", key), ("context", context)):
            if not isinstance(value, bytes | bytearray):
                raise InvalidArgument(name, f"must be bytes, not {type(value).__name__}")
        if not key:
            raise InvalidArgument("key", "must not be empty; use 32 random bytes")
        return cls(hmac.digest(key, context, "sha256"))

    def __repr__(self) -> str:
        return "Rng.system()" if self._seed is None else "Rng.keyed(...)"

    def child(self, encoded: bytes = b"", /, **fields: ContextField) -> Rng:
        """The source for one purpose. Of a keyed source: a function of its key, its context and `fields`.

        `encoded` is the `context` of the fields, where that is known already.
        """
        if self._seed is None:
            return self
        return Rng(hmac.digest(self._seed, b"child" + (encoded or context(**fields)), "sha256"))

    def stream(self, **fields: ContextField) -> Stream:
        """The words for one purpose, likewise."""
        if self._seed is None:
            return Stream(os.urandom(32))
        return Stream(hmac.digest(self._seed, b"words" + context(**fields), "sha256"))

    def discrete_laplace(self, scale: Number, size: int) -> Integers:
        """`size` integers with P[x] proportional to exp(-|x| / scale), for scales from 2^-40 to 2^40.

        Beyond a scale of 2^34 more and more draws need a closer look, and take a tenth of a millisecond each.
        """
        return self._draws(DiscreteLaplace(rational("scale", scale)), size)

    def discrete_gaussian(self, sigma_squared: Number, size: int) -> Integers:
        """`size` integers with P[x] proportional to exp(-x^2 / (2 sigma_squared))."""
        return self._draws(DiscreteGaussian(rational("sigma_squared", sigma_squared)), size)

    def _draws(self, law: Noise, size: int) -> Integers:
        """Each call has a stream of its own, by its number and its law: two scales never share a word."""
        size = whole("size", size, at_most=MAX_SIZE)
        if self._seed is None:
            return law.sample(self.stream(), size)
        purpose = f"draws {next(self._calls)} {law.family} {law.parameter}".encode()
        return law.sample(Stream(hmac.digest(self._seed, purpose, "sha256")), size)


def check_source(rng: Rng) -> Rng:
    """`rng` itself, if it is a source of ours: no other generator may ever stand in for one."""
    if not isinstance(rng, Rng):
        raise InvalidArgument("rng", "must be Rng.system() or Rng.keyed(key, context), and nothing else")
    return rng
