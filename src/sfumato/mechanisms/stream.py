"""Key streams: uniform 64-bit words at fixed places, and uniform numbers revealed word by word.

A `Stream` is AES-256 in counter mode. Its words are addressed, not consumed: word `index` of lane `lane`
is always the same 64 bits, so a draw that needs a closer look finds its further digits in a higher lane
without moving those of others. That is what makes a draw a function of (key, place) and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from sfumato.accounting.numbers import rational
from sfumato.errors import InvalidArgument

Words64: TypeAlias = NDArray[np.uint64]
ContextField: TypeAlias = "str | bytes | bool | int | float | Fraction | Sequence[ContextField] | None"

BLOCK = 2**15
"""Draws are made this many at a time: their arrays stay in the cache."""

MAX_NESTING = 20

_ZEROS = memoryview(bytes(8 * (2 * BLOCK + 1)))


class Stream:
    """Uniform 64-bit words, addressed by lane and index, from one AES-256 key.

    The counter block of word i in lane l is (l, i // 2) as two big-endian 64-bit numbers; the block's 16
    bytes are two little-endian words.
    """

    __slots__ = ("_cipher",)

    def __init__(self, key: bytes) -> None:
        self._cipher = algorithms.AES256(key)

    def words(self, lane: int, start: int, count: int) -> Words64:
        """Words `start` to `start + count - 1` of `lane`."""
        block, odd = divmod(start, 2)
        counter = modes.CTR((lane << 64 | block).to_bytes(16, "big"))
        length = 8 * (count + odd)
        zeros = _ZEROS[:length] if length <= len(_ZEROS) else bytes(length)
        raw = Cipher(self._cipher, counter).encryptor().update(zeros)
        return np.frombuffer(raw, "<u8").astype(np.uint64, copy=False)[odd:]


class Uniform:
    """A uniform number in [0, 1) of which the first `bits` binary digits, `numerator`, are known.

    Its digits are word `index` of lane 0, then of lane 1, and so on.
    """

    __slots__ = ("_index", "_lane", "_stream", "bits", "numerator")

    def __init__(self, stream: Stream, index: int) -> None:
        self._stream, self._index, self._lane = stream, index, 0
        self.numerator, self.bits = 0, 0
        self.reveal()

    def reveal(self) -> None:
        """Look at 64 more digits."""
        word = int(self._stream.words(self._lane, self._index, 1)[0])
        self.numerator, self.bits = self.numerator << 64 | word, self.bits + 64
        self._lane += 1

    def drop_first_bit(self) -> None:
        """Forget the leading digit, which served as a sign. What remains is uniform again."""
        self.bits -= 1
        self.numerator &= (1 << self.bits) - 1

    def context(self) -> Context:
        """Decimal arithmetic with 40 digits to spare over the digits known; its exp and ln round correctly."""
        return digits(40 + self.bits // 3)

    def below(self, probability: Callable[[Context], tuple[Decimal, Decimal]]) -> bool:
        """Whether this number is below a probability, given bounds for it that tighten with the context.

        Exact: digits are revealed until the number lies on one side of both bounds.
        """
        while True:
            context = self.context()
            low, high = probability(context)
            scale = context.power(2, self.bits)
            if self.numerator + 1 <= context.multiply(low, scale):
                return True
            if self.numerator >= context.multiply(high, scale):
                return False
            self.reveal()


def digits(precision: int) -> Context:
    """Decimal arithmetic of so many digits that nothing else in the process has a say in."""
    return Context(prec=precision, rounding=ROUND_HALF_EVEN, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])


def decimal(value: Fraction, context: Context) -> Decimal:
    """A fraction in decimal arithmetic, rounded once."""
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def context(**fields: ContextField) -> bytes:
    """Encode named fields as bytes, injectively: different fields or values give different bytes.

    Every name and value is written with its kind and its length, names in order, so no two sets of fields
    can run together. Numbers count by value (2, 2.0 and Fraction(2) are one; True is not 1).

    >>> context(table="ab", column="c") == context(table="a", column="bc")
    False
    """
    parts = [b"sfumato/1"]
    for name in sorted(fields):
        parts += _encode(name, name), _encode(name, fields[name])
    return b"".join(parts)


def _encode(name: str, value: ContextField, depth: int = 0) -> bytes:
    if isinstance(value, str):
        kind, payload = b"s", value.encode("utf-8", "surrogatepass")
    elif value is None:
        kind, payload = b"0", b""
    elif isinstance(value, bool):
        kind, payload = b"b", b"1" if value else b"0"
    elif type(value) is int and abs(value) < 2**64:  # nothing to check and nothing to reduce
        kind, payload = b"n", str(value).encode()
    elif isinstance(value, bytes | bytearray):
        kind, payload = b"x", bytes(value)
    elif isinstance(value, int | float | Fraction):
        kind, payload = b"n", str(rational(name, value)).encode()
    elif isinstance(value, list | tuple) and depth < MAX_NESTING:
        kind, payload = b"l", b"".join([_encode(name, item, depth + 1) for item in value])
    else:
        raise InvalidArgument(name, f"cannot be encoded: {type(value).__name__} is not text, bytes, a number or a list")
    return kind + len(payload).to_bytes(8, "big") + payload
