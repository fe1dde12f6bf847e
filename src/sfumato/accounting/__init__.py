"""What a release costs, exactly: charges, totals, and whether the next one still fits."""

from sfumato.accounting.charges import NOTHING, Charge, total_charge
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
from sfumato.accounting.gaussian import GaussianLoss, GaussianStep, smallest_variance
from sfumato.accounting.groups import GroupPromise, group_promise

__all__ = [
    "NOTHING",
    "Charge",
    "Filter",
    "GaussianLoss",
    "GaussianStep",
    "GroupPromise",
    "approximate_zcdp_epsilon",
    "bounded_range_to_zcdp",
    "epsilon",
    "group_promise",
    "pure_to_zcdp",
    "smallest_variance",
    "total_charge",
    "units",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]
