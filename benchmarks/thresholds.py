"""How many people a group needs to be seen, when which groups there are is part of the data."""

from __future__ import annotations

import math

from benchmarks.timing import table
from sfumato.mechanisms import UnknownGaussian, UnknownGumbel, UnknownLaplace

EPSILON, DELTA = 0.15, 1e-10


def report() -> str:
    rows = [
        (f"{groups}", f"{printed(groups):.1f}", *(f"{gap(kind, groups)}" for kind in (UnknownLaplace, UnknownGaussian)))
        for groups in (1, 5)
    ]
    gumbel = UnknownGumbel.of(k=10, max_k=100, limit=1000, epsilon=EPSILON, delta=DELTA)
    return (
        "## People needed to be seen\n\n"
        f"At epsilon {EPSILON}, delta {DELTA:.0e}: how far the threshold stands above the first count that is out of "
        "sight, for one unit. A group that stands so much higher has about an even chance to be shown. No noise is "
        "involved: these numbers are the same in every run.\n\n"
        + table(
            ["groups per person", "Rogers et al. (2021), as printed", "`unknown_laplace`", "`unknown_gaussian`"], rows
        )
        + f"\nWith any number of groups per person (`unknown_gumbel`): {gumbel.gap(100)} at a cutoff of 100 rows, "
        f"{gumbel.gap(1000)} at 1000.\n"
    )


def gap(kind: type[UnknownLaplace | UnknownGaussian], groups: int) -> int:
    return kind.of(epsilon=EPSILON, delta=DELTA, max_groups=groups).gap


def printed(groups: int) -> float:
    """Algorithm 3 of Rogers et al. (2021): 1 + 2 D ln(D / dhat) / epsilon, D groups, with dhat solved from
    delta = dhat / 4 * (exp(epsilon / 2) + 1) * (3 + ln(D / dhat)), which rises in dhat.
    """
    low, high = -200.0, math.log(DELTA)  # ln dhat
    while high - low > 1e-12:
        middle = (low + high) / 2
        delta = math.exp(middle) / 4 * (math.exp(EPSILON / 2) + 1) * (3 + math.log(groups) - middle)
        low, high = (middle, high) if delta < DELTA else (low, middle)
    return 1 + 2 * groups * (math.log(groups) - low) / EPSILON
