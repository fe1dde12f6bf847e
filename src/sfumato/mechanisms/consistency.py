"""Noisy counts of a tree, made to agree: the free steps after the noise. No row is read and nothing is charged.

Least squares adds no bias: every estimate is a sum of the measured numbers with weights that were fixed before any
noise was drawn. Where the noise is independent and the variances are the true ones, no other unbiased linear estimate
has a smaller variance, so no number gets worse for being made to agree. The errors of relatives are no longer
independent.

Raising to floors adds bias: a number whose noise took it below its floor is moved up, and none is moved down to make
up for it, so the root is too large on average, most of all where the truth is at the floor; its variance falls. Below
the root the sum is kept: what one child is raised by, its siblings give up in equal parts, so small ones become too
large and large ones too small. Therefore do it once, on the numbers that are shown, never on numbers that are added up
later.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import InvalidArgument
from sfumato.mechanisms.inputs import MAX_COUNT
from sfumato.mechanisms.noise import Integers

Reals: TypeAlias = NDArray[np.float64]

MAX_VARIANCE = 1e100

_BEYOND = 2 * MAX_COUNT
"""More than there ever is to share out, and far from the end of int64."""
_AT_ONCE = 2**16
"""Numbers shared out together: enough to be fast, few enough to stay in the cache."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Who is whose parent: node 0 is the root, with parent -1, and every other node comes after its parent."""

    parents: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.parents or self.parents[0] != -1:
            raise InvalidArgument("parents", "must begin with -1, for the root")
        if not all(0 <= parent < node for node, parent in enumerate(self.parents[1:], 1)):
            raise InvalidArgument("parents", "must name, for every node but the root, a node that comes before it")

    def __len__(self) -> int:
        return len(self.parents)

    def families(self) -> list[tuple[int, NDArray[np.intp]]]:
        """Each parent and its children in order, from the root down; reversed, children come before their parents."""
        parents = np.array(self.parents[1:], np.intp)
        order = np.argsort(parents, kind="stable")
        names, starts = np.unique(parents[order], return_index=True)
        return list(zip(names.tolist(), np.split(order + 1, starts[1:]), strict=True)) if len(names) else []


def least_squares(tree: Tree, measured: NDArray[Any], variances: Sequence[float] | Reals) -> Reals:
    """The numbers nearest to the measured ones, each weighed by its precision, whose parents are their children's sums.

    `measured` holds one row for each node, and `variances` one number for each row: math.inf for a node that was not
    measured, whose row is passed over, and 0 for one that is known exactly. Every leaf must be measured. Where a parent
    and all of its children are known exactly and disagree, the children count.
    Numbers that agree already come back as they are. Each column is worked out for itself.
    Source: Hay et al. (2010), with unequal variances: once up the tree, once down.
    """
    spreads = _variances(tree, variances)
    numbers = _check_measured(tree, measured, spreads)
    estimates = numbers.reshape(len(tree), -1)
    families = tree.families()
    sums: dict[int, Reals] = {}
    for parent, children in reversed(families):
        sums[parent] = np.cumsum(estimates[children], axis=0)[-1]  # .sum() would add in another order for one column
        below, own = float(spreads[children].sum()), float(spreads[parent])
        if below == 0 or math.isinf(own):
            estimates[parent], spreads[parent] = sums[parent], below
        else:
            weight = below / (below + own)
            estimates[parent] = sums[parent] + weight * (estimates[parent] - sums[parent])
            spreads[parent] = weight * own
    for parent, children in families:
        below = float(spreads[children].sum())
        if below > 0:
            estimates[children] += (spreads[children] / below)[:, None] * (estimates[parent] - sums[parent])
    return estimates.reshape(numbers.shape)


def least_squares_weights(tree: Tree, wanted: NDArray[Any], variances: Sequence[float] | Reals) -> Reals:
    """What each measured number is multiplied by in the `least_squares` estimate of a sum.

    `wanted` holds one row for each node and one column for each sum: how often the node's estimate counts in it. Every
    variance must be positive and finite. The variance of an estimate is the sum of weights^2 * variances, and no other
    unbiased linear estimate has a smaller one. Proof: proofs/reports.md.

    >>> tree = Tree((-1, 0, 0))  # a parent of two children; the estimate of the first child
    >>> least_squares_weights(tree, np.array([[0], [1], [0]]), [1, 1, 1]).ravel().round(3).tolist()
    [0.333, 0.667, -0.333]
    """
    spreads = _variances(tree, variances)
    if not ((spreads > 0) & (spreads < math.inf)).all():
        raise InvalidArgument("variances", "must be positive and finite for every node")
    columns = _rows(tree, "wanted", wanted) * spreads[:, None]
    return least_squares(tree, columns, spreads) / spreads[:, None]


def split_tree(tree: Tree, apart: NDArray[np.bool_]) -> list[tuple[NDArray[np.intp], Tree]]:
    """The trees that are left when the nodes of `apart` are cut off from their children: each with its nodes."""
    roots = np.zeros(len(tree), np.intp)  # of every node, the top of its tree
    for node, parent in enumerate(tree.parents):
        roots[node] = node if parent < 0 or apart[parent] else roots[parent]
    parts = []
    for root in np.unique(roots):
        nodes = np.flatnonzero(roots == root)
        place = {int(node): at for at, node in enumerate(nodes)}
        parts.append((nodes, Tree((-1, *(place[tree.parents[node]] for node in nodes[1:])))))
    return parts


def settle(tree: Tree, wishes: NDArray[Any], floors: NDArray[Any]) -> Integers:
    """Integers near the wishes, none below its floor, every parent exactly the sum of its children.

    `wishes` and `floors` hold one row for each node and one column for each tree to settle; floors are integers >= 0.
    A node needs its floor, or what its children need together if that is more. The root becomes its rounded wish (a
    half goes to the even number), or its need if that is more. The children share their parent's number: as near to
    their wishes as may be, in squared distance, none below its need; then rounded down, and what is missing goes to
    the largest remainders, at equal ones to the first.
    Wishes that are such integers already come back as they are, up to 2^53. Each column is worked out for itself.
    """
    wanted, needs = _wishes(tree, wishes), _needs(tree, floors)
    if wanted.shape != needs.shape:
        raise InvalidArgument("floors", "must have a number for each wish")
    numbers = needs.copy()
    np.maximum(np.rint(wanted[0]).astype(np.int64), needs[0], out=numbers[0])
    for parent, children in tree.families():
        width = max(1, _AT_ONCE // len(children))
        for start in range(0, numbers.shape[1], width):
            block = children, slice(start, start + width)
            spare = numbers[parent, block[1]] - needs[block].sum(axis=0)
            numbers[block] += _shares(spare, wanted[block], needs[block])
    return numbers


def _shares(spare: Integers, wishes: Reals, needs: Integers) -> Integers:
    """What each child gets beyond its need. Wishes are split into whole numbers and parts: nothing is lost."""
    whole = np.floor(wishes)
    steps, parts = whole.astype(np.int64) - needs, wishes - whole
    level, rest = _water_level(spare, steps, parts)
    parts -= rest
    whole = np.floor(parts)
    shares = steps - level + whole.astype(np.int64)
    remainders = np.where(shares < 0, 0.0, parts - whole)
    np.maximum(shares, 0, out=shares)
    missing = spare - shares.sum(axis=0)
    order = np.argsort(-remainders, axis=0, kind="stable")
    gains = np.empty_like(shares)
    np.put_along_axis(gains, order, _ranks(len(order)) <= missing, axis=0)
    return shares + gains


def _water_level(spare: Integers, steps: Integers, parts: Reals) -> tuple[Integers, Reals]:
    """The t, as a whole number and a rest, for which max(steps + parts - t, 0) sums to `spare`.

    From the largest number down: as long as lowering t to the next number takes less than there is, that number is
    above t too. The whole numbers are counted exactly: a fall that takes more than there ever is ends the descent,
    and is cut short, because it could overflow.
    """
    order = np.lexsort((parts, steps), axis=0)[::-1]
    steps, parts = np.take_along_axis(steps, order, axis=0), np.take_along_axis(parts, order, axis=0)
    ranks = _ranks(len(order))
    falls = np.minimum(steps[:-1] - steps[1:], _BEYOND // ranks[:-1] + 1) * ranks[:-1]
    taken = np.cumsum(np.concatenate([-spare[None], falls]), axis=0)
    taken_by_parts = np.cumsum(parts, axis=0) - ranks * parts
    above = np.maximum(np.logical_and.accumulate(taken + taken_by_parts < 0, axis=0).sum(axis=0), 1)
    last = above - 1, np.arange(len(above))
    quotient, remainder = np.divmod(-taken[last], above)
    return steps[last] - quotient, parts[last] - (remainder - taken_by_parts[last]) / above


def _ranks(count: int) -> Integers:
    return np.arange(1, count + 1)[:, None]


def _variances(tree: Tree, variances: Sequence[float] | Reals) -> Reals:
    spreads = _numbers("variances", variances).astype(np.float64)
    if spreads.shape != (len(tree),):
        raise InvalidArgument("variances", f"must be {len(tree)} numbers, one for each node")
    if not (((spreads >= 0) & (spreads <= MAX_VARIANCE)) | (spreads == math.inf)).all():
        raise InvalidArgument("variances", f"must lie between 0 and {MAX_VARIANCE:g}, or be inf for what is unmeasured")
    leaves = np.ones(len(tree), bool)
    leaves[list(tree.parents[1:])] = False
    if np.isinf(spreads[leaves]).any():
        raise InvalidArgument("variances", "must be finite for every leaf: a leaf that is not measured has no estimate")
    return spreads


def _check_measured(tree: Tree, measured: NDArray[Any], spreads: Reals) -> Reals:
    numbers = _numbers("measured", measured).astype(np.float64)
    if numbers.ndim == 0 or len(numbers) != len(tree):
        raise InvalidArgument("measured", f"must have {len(tree)} rows, one for each node")
    if not np.isfinite(numbers[np.isfinite(spreads)]).all():
        raise InvalidArgument("measured", "must be finite numbers wherever the variance is finite")
    return numbers


def _wishes(tree: Tree, wishes: NDArray[Any]) -> Reals:
    numbers = _rows(tree, "wishes", wishes)
    low, high = numbers.min(initial=0).item(), numbers.max(initial=0).item()
    if not (low >= -MAX_COUNT and high <= MAX_COUNT):
        raise InvalidArgument("wishes", f"must lie between -{MAX_COUNT} and {MAX_COUNT}")
    return numbers.astype(np.float64)


def _needs(tree: Tree, floors: NDArray[Any]) -> Integers:
    """The floors, each raised to what the children need together."""
    numbers = _rows(tree, "floors", floors)
    if numbers.dtype.kind not in "iu":
        raise InvalidArgument("floors", "must be integers")
    if numbers.min(initial=0).item() < 0 or numbers.max(initial=0).item() > MAX_COUNT:
        raise InvalidArgument("floors", f"must lie between 0 and {MAX_COUNT}")
    needs = numbers.astype(np.int64)
    for parent, children in reversed(tree.families()):
        together = needs[children].sum(axis=0)
        roughly = needs[children].sum(axis=0, dtype=np.float64)  # exact up to 2^53, and it cannot overflow
        if max(roughly.max(initial=0).item(), together.max(initial=0).item()) > MAX_COUNT:
            raise InvalidArgument("floors", f"must not add up to more than {MAX_COUNT}")
        np.maximum(needs[parent], together, out=needs[parent])
    return needs


def _rows(tree: Tree, name: str, values: NDArray[Any]) -> NDArray[Any]:
    numbers = _numbers(name, values)
    if numbers.ndim != 2 or len(numbers) != len(tree):
        raise InvalidArgument(name, f"must be a table of {len(tree)} rows, one for each node")
    return numbers


def _numbers(name: str, values: Sequence[float] | NDArray[Any]) -> NDArray[Any]:
    try:
        numbers = np.asarray(values)
    except ValueError:
        numbers = np.empty(0, object)
    if numbers.dtype.kind not in "iuf":
        raise InvalidArgument(name, "must be an array of numbers")
    return numbers
