"""How often a test repeats itself: enough in every run, more in `make exhaustive`."""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")

# Set by `make exhaustive`. Tests with the mark `exhaustive` run only then (conftest.py), and `repeats` gives more.
EXHAUSTIVE = os.environ.get("EXHAUSTIVE") == "1"


def repeats(small: T, large: T) -> T:
    """A number of repeats, or a range of seeds: the small one, unless this is an exhaustive run."""
    return large if EXHAUSTIVE else small
