"""The one door to randomness."""

from __future__ import annotations

import hmac
import itertools
import os
from fractions import Fraction

from sfumato.accounting.numbers import Number, positive, whole
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.noise import DiscreteGaussian, DiscreteLaplace, Integers
from sfumato.mechanisms.stream import Field, Stream, context

MAX_SIZE = 2**30
SCALES = Fraction(1, 2**40), Fraction(2**40)
VARIANCES = Fraction(1, 2**80), Fraction(2**80)


class Rng:
    """A source of exact integer noise: `Rng.system()` or `Rng.keyed(key, context)`.

    A system source never repeats. A keyed source repeats for ever: the same key, context and sequence of
    calls give the same draws on every platform. Two keyed sources with different contexts are independent,
    as far as anyone without the key can tell.

    Keyed noise on two states of the data reveals their exact difference. Put a nonce into the context that
    belongs to one stored release (see `sfumato.mechanisms.context`).

    >>> Rng.keyed(b"0" * 32, context(purpose="docs")).discrete_laplace(10, 5).tolist()
    [-7, 1, -2, 14, -3]
    """

    __slots__ = ("_calls", "_seed")

    def __init__(self, seed: bytes | None) -> None:
        """Not for callers: use `Rng.system()` or `Rng.keyed(...)`."""
        self._seed = seed
        self._calls = itertools.count()

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

    def child(self, **fields: Field) -> Rng:
        """The source for one purpose. Of a keyed source: a function of its key, its context and `fields`."""
        return self if self._seed is None else Rng(hmac.digest(self._seed, b"child" + context(**fields), "sha256"))

    def stream(self, **fields: Field) -> Stream:
        """The words for one purpose, likewise."""
        if self._seed is None:
            return Stream(os.urandom(32))
        return Stream(hmac.digest(self._seed, b"words" + context(**fields), "sha256"))

    def discrete_laplace(self, scale: Number, size: int) -> Integers:
        """`size` integers with P[x] proportional to exp(-|x| / scale)."""
        exact = _within("scale", scale, *SCALES)
        size = whole("size", size, at_most=MAX_SIZE)
        stream = self.stream(law="discrete laplace", scale=exact, call=next(self._calls))
        return DiscreteLaplace(exact).sample(stream, size)

    def discrete_gaussian(self, sigma_squared: Number, size: int) -> Integers:
        """`size` integers with P[x] proportional to exp(-x^2 / (2 sigma_squared))."""
        exact = _within("sigma_squared", sigma_squared, *VARIANCES)
        size = whole("size", size, at_most=MAX_SIZE)
        stream = self.stream(law="discrete gaussian", sigma_squared=exact, call=next(self._calls))
        return DiscreteGaussian(exact).sample(stream, size)


def _within(name: str, value: Number, low: Fraction, high: Fraction) -> Fraction:
    exact = positive(name, value, at_most=high)
    if exact < low:
        raise InvalidArgument(name, f"must be at least {float(low):.4g}: smaller noise is no noise")
    return exact
