"""The bytes of bodies that a service holds: limits for each analyst and for all."""

from __future__ import annotations

import pytest

from sfumato.errors import RateLimited
from sfumato.service.bodies import MAX_HELD_BYTES, MAX_HELD_BYTES_PER_ANALYST, HeldBytes

PART = MAX_HELD_BYTES_PER_ANALYST // 4


def count_taken(held: HeldBytes, analyst: str, part: int = PART, most: int = 1000) -> int:
    """How many parts are taken until one is refused."""
    for taken in range(most):
        try:
            held.add(analyst, part)
        except RateLimited:
            return taken
    return most


def test_an_analyst_holds_so_much_and_no_more() -> None:
    held = HeldBytes(1 << 18)
    assert (count_taken(held, "anna"), count_taken(held, "ben")) == (4, 4)
    held.remove("anna", PART)
    assert count_taken(held, "anna") == 1


def test_all_together_hold_so_much_and_no_more() -> None:
    held = HeldBytes(1 << 18)
    names = [f"analyst {number}" for number in range(1000)]
    assert sum(count_taken(held, name) for name in names) == MAX_HELD_BYTES // PART
    held.remove(names[0], 4 * PART)
    assert count_taken(held, "another") == 4


@pytest.mark.parametrize("size", [1 << 20, 1 << 24, 1 << 28])
def test_one_body_of_the_largest_size_is_always_taken(size: int) -> None:
    held = HeldBytes(size)
    held.add("anna", size)
    assert count_taken(held, "anna", size) == max(0, MAX_HELD_BYTES_PER_ANALYST // size - 1)
