"""Key streams and the encoding of contexts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import InvalidArgument
from sfumato.mechanisms.stream import BLOCK, Stream, Uniform, context

KEY = bytes(range(32))

scalars = st.none() | st.booleans() | st.integers() | st.fractions() | st.text() | st.binary()
fields = st.dictionaries(
    st.text(min_size=1), st.recursive(scalars, lambda inner: st.lists(inner, max_size=3)), max_size=4
)


def test_words_are_aes_256_in_counter_mode():
    encryptor = Cipher(algorithms.AES256(KEY), modes.CTR((5 << 64).to_bytes(16, "big"))).encryptor()
    expected = np.frombuffer(encryptor.update(bytes(80)), "<u8")
    assert np.array_equal(Stream(KEY).words(5, 0, 10), expected)


@given(start=st.integers(0, 5000), count=st.integers(0, 300), lane=st.integers(0, 2**60))
def test_a_word_depends_on_its_place_only(start, count, lane):
    words = Stream(KEY).words(lane, start, count)
    assert [int(Stream(KEY).words(lane, start + i, 1)[0]) for i in range(0, count, 97)] == words[::97].tolist()


def test_lanes_do_not_meet():
    longest = Stream(KEY).words(0, 0, 2 * BLOCK)
    assert not set(longest.tolist()) & set(Stream(KEY).words(1, 0, 2 * BLOCK).tolist())


def test_a_uniform_number_finds_its_digits_in_its_own_column():
    uniform = Uniform(Stream(KEY), 7)
    uniform.reveal()
    first, second = (int(Stream(KEY).words(lane, 7, 1)[0]) for lane in (0, 1))
    assert (uniform.numerator, uniform.bits) == (first << 64 | second, 128)


@given(fields, fields)
def test_different_fields_have_different_encodings(one, other):
    assert (context(**one) == context(**other)) == (canonical(one) == canonical(other))


def test_no_text_can_pretend_to_be_further_fields_or_items():
    """A value is written by a caller, who may know the encoding."""
    both = context(a="x", b="y")
    assert context(a="x" + both.removeprefix(context(a="x")).decode()) != both
    for kind in "slxn0b":
        assert context(a=["x", "y"]) != context(a=[f"x{kind}y"])
    assert context(a=[["x"], "y"]) != context(a=[["x", "y"]])


def canonical(value):
    """What `context` should tell apart: True is not 1, but lists and numbers count by value."""
    if isinstance(value, dict):
        return sorted((name, canonical(item)) for name, item in value.items())
    if isinstance(value, list):
        return "list", tuple(canonical(item) for item in value)
    if isinstance(value, int | Fraction) and not isinstance(value, bool):
        return "number", str(Fraction(value))
    return type(value).__name__, repr(value)


def test_numbers_count_by_value():
    assert context(x=2) == context(x=2.0) == context(x=Fraction(2)) != context(x=True)
    assert context(x=0.1) == context(x=Fraction(0.1)) != context(x=Fraction(1, 10))
    assert context(x=["a", "b"]) == context(x=("a", "b")) != context(x="ab")


@pytest.mark.parametrize("number", [0, -1, 2**64 - 1, 2**64, 1 - 2**64, -(2**64), 2**200])
def test_whole_numbers_are_encoded_like_fractions(number):
    assert context(x=number) == context(x=Fraction(number))


def test_the_encoding_is_frozen():
    assert context(table="t", epsilon=0.5, nonce=b"\x00", k=None).hex() == (
        "736675"
        "6d61746f2f31"
        "730000000000000007657073696c6f6e"
        "6e0000000000000003312f32"
        "7300000000000000016b"
        "300000000000000000"
        "7300000000000000056e6f6e6365"
        "78000000000000000100"
        "7300000000000000057461626c65"
        "73000000000000000174"
    )


def test_bytes_are_bytes_and_not_lists_of_numbers():
    assert context(x=bytearray(b"ab")) == context(x=b"ab") != context(x=[97, 98])


def test_words_are_in_the_byte_order_of_the_machine():
    words = Stream(KEY).words(0, 0, 4)
    assert words.dtype.isnative
    assert words.view(np.int64).tolist() == [int(word) - 2**64 * (int(word) >> 63) for word in words]


ENDLESS: list = []
ENDLESS.append(ENDLESS)
UNENCODABLE = [float("nan"), float("inf"), {"a": 1}, object(), {1}, ENDLESS, 10**5000]


@pytest.mark.parametrize("value", UNENCODABLE, ids=lambda value: type(value).__name__)
def test_what_cannot_be_encoded_is_refused_by_name(value):
    with pytest.raises(InvalidArgument, match=r"^nonce: "):
        context(nonce=value)
