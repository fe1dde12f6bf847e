"""The histogram mechanisms by name."""

from __future__ import annotations

from typing import Any

from sfumato.accounting.charges import Charge
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.known_domain import KnownGaussian, KnownGumbel, KnownLaplace
from sfumato.mechanisms.mechanism import Mechanism
from sfumato.mechanisms.unknown_domain import (
    ThresholdGaussian,
    ThresholdLaplace,
    UnknownGaussian,
    UnknownGumbel,
    UnknownLaplace,
)

MECHANISMS: dict[str, type[Mechanism]] = {
    mechanism.name: mechanism
    for mechanism in (
        *(KnownLaplace, KnownGaussian, KnownGumbel),
        *(UnknownLaplace, UnknownGaussian, UnknownGumbel, ThresholdLaplace, ThresholdGaussian),
    )
}


def reserve_for(mechanism: str, **arguments: Any) -> Charge:
    """The most that a call of `mechanism` with these arguments can cost: a pure function of the request.

    >>> reserve_for("unknown_gumbel", k=10, epsilon=0.15, delta=1e-10)
    Charge(information=21, calls=1)
    """
    if mechanism not in MECHANISMS:
        raise InvalidArgument("mechanism", f"must be one of {', '.join(MECHANISMS)}")
    return MECHANISMS[mechanism].of(**arguments).reserve
