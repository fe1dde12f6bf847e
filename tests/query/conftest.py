"""The table that the query tests ask about, and what its answers cost."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sfumato.query.policy import Policy, Prices
from tests.helpers.engagements import ENGAGEMENTS


@pytest.fixture(scope="session")
def policy() -> Policy:
    return Policy({"engagements": ENGAGEMENTS})


@pytest.fixture(scope="session")
def prices() -> Prices:
    return Prices(Fraction(3, 20), Fraction(1, 10**10))
