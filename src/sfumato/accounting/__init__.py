"""What a release costs, exactly: charges, totals, and whether the next one still fits."""

from sfumato.accounting.charges import NOTHING, Charge
from sfumato.accounting.composition import (
    approximate_zcdp_epsilon,
    bounded_range_to_zcdp,
    epsilon,
    pure_to_zcdp,
    units,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)
from sfumato.accounting.filters import Filter

__all__ = [
    "NOTHING",
    "Charge",
    "Filter",
    "approximate_zcdp_epsilon",
    "bounded_range_to_zcdp",
    "epsilon",
    "pure_to_zcdp",
    "units",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]
