"""Counts made to agree: the best linear estimate, and the nearest integers that keep floors and sums."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sfumato.errors import InvalidArgument
from sfumato.mechanisms import consistency
from sfumato.mechanisms.consistency import Tree, least_squares, least_squares_weights, settle, split_tree

pytestmark = pytest.mark.slow  # many trees

BIG = 2**53
FAMILY = Tree((-1, 0, 0, 0))
UNEVEN = Tree((-1, 0, 1, 0, 1, 2))  # 0 over 1 and 3, 1 over 2 and 4, 2 over 5 alone

trees = st.lists(st.integers(0, 10**6), max_size=14).map(
    lambda picks: Tree((-1, *(pick % node for node, pick in enumerate(picks, 1))))
)
quarters = st.integers(-200, 200).map(lambda n: n / 4)
huge = st.integers(-BIG, BIG).map(float)
anything = st.floats(-BIG, BIG) | st.floats(-30, 30)


def children(tree: Tree) -> dict[int, list[int]]:
    kids: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parents[1:], 1):
        kids.setdefault(parent, []).append(node)
    return kids


def leaf_sums(tree: Tree) -> np.ndarray:
    """One row for each node, one column for each leaf below it, or that it is."""
    kids = children(tree)
    leaves = [node for node in range(len(tree)) if node not in kids]
    rows = np.zeros((len(tree), len(leaves)))
    rows[leaves, range(len(leaves))] = 1
    for node in reversed(range(len(tree))):
        rows[node] += sum(rows[kid] for kid in kids.get(node, []))
    return rows


def dense(tree: Tree, measured: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Weighted least squares over the leaves, by a solver that knows nothing of trees."""
    known = np.isfinite(variances)
    weights = 1 / np.sqrt(variances[known])[:, None]
    sums = leaf_sums(tree)
    return sums @ np.linalg.lstsq(sums[known] * weights, measured[known] * weights, rcond=None)[0]


@st.composite
def measurements(draw):
    tree = draw(trees)
    size, kids = len(tree), children(tree)
    variances = draw(st.lists(st.floats(0.01, 100), min_size=size, max_size=size))
    missing = [node in kids and draw(st.booleans()) for node in range(size)]
    measured = draw(arrays.arrays(np.float64, (size, draw(st.integers(0, 3))), elements=st.floats(-1e3, 1e3)))
    variances = np.where(missing, math.inf, variances)
    measured[missing] = math.nan  # nobody looks at it
    return tree, measured, variances


@given(measurements())
def test_least_squares_is_the_dense_solution(case):
    tree, measured, variances = case
    found = least_squares(tree, measured, variances)
    np.testing.assert_allclose(found, dense(tree, np.nan_to_num(measured), variances), rtol=1e-8, atol=1e-8)
    for parent, kids in children(tree).items():
        np.testing.assert_allclose(found[kids].sum(axis=0), found[parent], rtol=1e-12, atol=1e-9)


@given(measurements())
def test_least_squares_adds_no_bias_and_no_variance(case):
    tree, _, variances = case
    weights = least_squares(tree, np.eye(len(tree)), variances)
    np.testing.assert_allclose(weights @ leaf_sums(tree), leaf_sums(tree), atol=1e-9)
    known = np.isfinite(variances)
    assert (weights[:, ~known] == 0).all()
    spread = (weights[:, known] ** 2) @ variances[known]
    assert (spread <= variances * (1 + 1e-9)).all()


@given(trees, st.data())
def test_weights_are_those_of_the_best_linear_estimate(tree, data):
    """They give the estimate, add no bias, and have the variance of the dense solution, for any sum of nodes."""
    numbers = st.integers(-9, 9).map(float)
    spreads = np.array(data.draw(st.lists(st.sampled_from([0.25, 1, 3, 40]), min_size=len(tree), max_size=len(tree))))
    wanted = data.draw(arrays.arrays(float, (len(tree), 3), elements=st.sampled_from([0.0, 1.0, 2.0])))
    measured = data.draw(arrays.arrays(float, (len(tree), 1), elements=numbers))
    weights, sums = least_squares_weights(tree, wanted, spreads), leaf_sums(tree)
    assert np.allclose(weights.T @ measured, wanted.T @ least_squares(tree, measured, spreads))
    assert np.allclose(weights.T @ sums, wanted.T @ sums)
    covariance = np.linalg.inv((sums / spreads[:, None]).T @ sums)
    best = np.diag(wanted.T @ sums @ covariance @ sums.T @ wanted)
    assert np.allclose((weights**2 * spreads[:, None]).sum(axis=0), best)


@pytest.mark.parametrize("variance", [0, math.inf])
def test_weights_need_noise_everywhere(variance):
    with pytest.raises(InvalidArgument, match="variances: must be positive and finite for every node"):
        least_squares_weights(FAMILY, np.ones((4, 1)), [variance, 1, 1, 1])


def test_a_tree_is_split_below_the_nodes_that_stand_apart():
    apart = np.array([False, True, False, False, False, False])
    parts = [(nodes.tolist(), tree.parents) for nodes, tree in split_tree(UNEVEN, apart)]
    assert parts == [([0, 1, 3], (-1, 0, 0)), ([2, 5], (-1, 0)), ([4], (-1,))]


@given(trees, st.data())
def test_the_parts_of_a_tree_have_all_of_its_nodes_and_other_links(tree, data):
    apart = np.array(data.draw(st.lists(st.booleans(), min_size=len(tree), max_size=len(tree))))
    parts = split_tree(tree, apart)
    assert sorted(node for nodes, _ in parts for node in nodes) == [*range(len(tree))]
    links = {(nodes[at], nodes[up]) for nodes, part in parts for at, up in enumerate(part.parents) if up >= 0}
    assert links == {(node, up) for node, up in enumerate(tree.parents) if up >= 0 and not apart[up]}


def test_least_squares_by_hand():
    assert least_squares(FAMILY, np.array([9.0, 1, 2, 3]), [1, 1, 1, 1]).tolist() == [8.25, 1.75, 2.75, 3.75]
    assert least_squares(FAMILY, np.array([9, 1, 2, 3]), [math.inf, 1, 1, 1]).tolist() == [6, 1, 2, 3]
    assert least_squares(FAMILY, np.array([9, 1, 2, 3]), [6, 1, 2, 3]).tolist() == [7.5, 1.25, 2.5, 3.75]
    assert least_squares(Tree((-1, 0, 1)), np.array([6, 3, 0]), [1, 1, 1]).tolist() == [3, 3, 3]
    assert least_squares(Tree((-1,)), np.array([[1.5, 2]]), [7]).tolist() == [[1.5, 2]]


def test_what_is_known_exactly_stays():
    measured = np.array([9.0, 1, 2, 3])
    assert least_squares(FAMILY, measured, [0, 1, 1, 1]).tolist() == [9, 2, 3, 4]
    assert least_squares(FAMILY, measured, [0, 0, 1, 1]).tolist() == [9, 1, 3.5, 4.5]
    assert least_squares(FAMILY, measured, [1, 0, 0, 0]).tolist() == [6, 1, 2, 3]
    assert least_squares(FAMILY, measured, [0, 0, 0, 0]).tolist() == [6, 1, 2, 3]


@given(trees, st.data())
def test_numbers_that_agree_are_left_alone_by_least_squares(tree, data):
    sums = leaf_sums(tree)
    leaves = data.draw(arrays.arrays(np.int64, (sums.shape[1], 2), elements=st.integers(-(2**49), 2**49)))
    agreed = sums.astype(np.int64) @ leaves
    variances = data.draw(st.lists(st.floats(0.01, 100), min_size=len(tree), max_size=len(tree)))
    assert (least_squares(tree, agreed, variances) == agreed).all()


def test_least_squares_takes_any_shape_and_leaves_its_arguments_alone():
    measured, variances = np.arange(24).reshape(4, 2, 3) ** 2.0, np.array([1.0, 2, 3, 4])
    before = measured.copy(), variances.copy()
    found = least_squares(FAMILY, measured, variances)
    assert found.shape == (4, 2, 3)
    assert found.dtype == np.float64
    assert (found[:, 1, 2] == least_squares(FAMILY, measured[:, 1, 2], variances)).all()
    assert least_squares(FAMILY, np.zeros((4, 0)), variances).shape == (4, 0)
    assert (measured == before[0]).all()
    assert (variances == before[1]).all()


def test_a_column_does_not_depend_on_its_neighbours():
    """Neither on their number: numpy adds one column in another order than several."""
    random = np.random.default_rng(5)
    tree = Tree((-1, *[0] * 40, *(1 + n % 40 for n in range(400))))
    measured, variances = random.normal(50, 70, (441, 9)), random.uniform(0.1, 9, 441)
    floors = random.integers(0, 9, (441, 9))
    together = least_squares(tree, measured, variances)
    numbers = settle(tree, together, floors)
    for column in range(9):
        own = slice(column, column + 1)
        assert (least_squares(tree, measured[:, own], variances) == together[:, own]).all()
        assert (settle(tree, together[:, own], floors[:, own]) == numbers[:, own]).all()


def needs_of(tree: Tree, floors: list[int]) -> list[int]:
    needs, kids = list(floors), children(tree)
    for node in reversed(range(len(tree))):
        needs[node] = max(needs[node], sum(needs[kid] for kid in kids.get(node, [])))
    return needs


def projection(total: int, wishes: list[float], needs: list[int]) -> list[Fraction]:
    """The nearest point of {x >= needs, sum x = total}, in exact numbers.

    It is max(wish - t, need) for one t. No set of n children gives up more than n t, and those above their needs
    give up just that: t is the largest that any set asks for, and the n largest ask for the most.
    """
    beyond = [Fraction(wish) - need for wish, need in zip(wishes, needs, strict=True)]
    spare, top, asked = total - sum(needs), Fraction(0), []
    for count, largest in enumerate(sorted(beyond, reverse=True), 1):
        top += largest
        asked.append((top - spare) / count)
    t = max(asked)
    return [need + max(size - t, Fraction(0)) for size, need in zip(beyond, needs, strict=True)]


def rounded(exact: list[Fraction]) -> list[int]:
    shares = [math.floor(x) for x in exact]
    order = sorted(range(len(exact)), key=lambda i: (shares[i] - exact[i], i))
    for i in order[: int(sum(exact)) - sum(shares)]:
        shares[i] += 1
    return shares


def settled_exactly(tree: Tree, wishes: list[float], floors: list[int]) -> list[int]:
    needs, numbers = needs_of(tree, floors), [0] * len(tree)
    numbers[0] = max(round(wishes[0]), needs[0])
    for parent, kids in sorted(children(tree).items()):
        exact = projection(numbers[parent], [wishes[kid] for kid in kids], [needs[kid] for kid in kids])
        for kid, number in zip(kids, rounded(exact), strict=True):
            numbers[kid] = number
    return numbers


def columns(wish, largest_floor: int = 12):
    def drawn(tree: Tree):
        shape = st.tuples(st.just(len(tree)), st.integers(1, 3))
        return shape.flatmap(
            lambda shape: st.tuples(
                st.just(tree),
                arrays.arrays(np.float64, shape, elements=wish),
                arrays.arrays(np.int64, shape, elements=st.integers(0, largest_floor)),
            )
        )

    return trees.flatmap(drawn)


@given(columns(anything) | columns(anything, 2**48))
def test_settled_keeps_what_it_promises(case):
    tree, wishes, floors = case
    numbers = settle(tree, wishes, floors)
    assert numbers.dtype == np.int64
    assert numbers.shape == wishes.shape
    assert (numbers >= floors).all()
    for parent, kids in children(tree).items():
        assert (numbers[kids].sum(axis=0) == numbers[parent]).all()
    for column, wished, floor in zip(numbers.T.tolist(), wishes.T.tolist(), floors.T.tolist(), strict=True):
        needs = needs_of(tree, floor)
        assert column[0] == max(round(wished[0]), needs[0])
        for parent, kids in children(tree).items():
            exact = projection(column[parent], [wished[kid] for kid in kids], [needs[kid] for kid in kids])
            assert all(abs(column[kid] - x) < 1 + 1e-9 for kid, x in zip(kids, exact, strict=True))
    assert (settle(tree, wishes, floors) == numbers).all()


@given(columns(quarters) | columns(huge | quarters, 2**48))
def test_settled_is_the_exact_projection_rounded_by_largest_remainders(case):
    tree, wishes, floors = case
    expected = [settled_exactly(tree, *column) for column in zip(wishes.T.tolist(), floors.T.tolist(), strict=True)]
    assert settle(tree, wishes, floors).T.tolist() == expected


def test_the_reference_is_the_nearest_point():
    """By bisection on the shift, and against points nearby."""
    random = np.random.default_rng(3)
    for _ in range(50):
        size = int(random.integers(1, 6))
        needs = random.integers(0, 5, size)
        wishes, total = random.normal(3, 6, size), int(needs.sum() + random.integers(0, 20))
        low, high = wishes.min() - total - 9, wishes.max() + 9
        for _ in range(100):
            t = (low + high) / 2
            low, high = (t, high) if np.maximum(wishes - t, needs).sum() > total else (low, t)
        exact = np.array([float(x) for x in projection(total, wishes.tolist(), needs.tolist())])
        np.testing.assert_allclose(exact, np.maximum(wishes - low, needs), atol=1e-9)
        distance = ((exact - wishes) ** 2).sum()
        for _ in range(20):
            other = needs + random.dirichlet(np.ones(size)) * (total - needs.sum())
            assert ((other - wishes) ** 2).sum() >= distance - 1e-9


@given(trees, st.data())
def test_wishes_that_can_be_met_are_met(tree, data):
    sums = leaf_sums(tree)
    count = sums.shape[1]
    ends = data.draw(st.lists(st.integers(0, BIG), min_size=count, max_size=count))
    leaves = np.diff([0, *sorted(ends)])
    wishes = sums.astype(np.int64) @ leaves[:, None]
    tight = data.draw(arrays.arrays(np.bool_, wishes.shape))
    for floors in (np.zeros_like(wishes), wishes, np.where(tight, wishes, wishes // 2)):
        assert (settle(tree, wishes, floors) == wishes).all()
        assert (settle(tree, wishes.astype(float), floors) == wishes).all()


def test_large_numbers_of_many_children_are_shared_exactly():
    """Sums that no int64 holds: 3,000 wishes of up to 2^53, up or down."""
    random = np.random.default_rng(8)
    tree = Tree((-1, *[0] * 3000))
    leaves = np.diff(np.sort(random.integers(0, BIG, 3000, endpoint=True)), prepend=0)
    leaves[-1] += BIG - leaves.sum()
    agreed = np.concatenate([[BIG], leaves])[:, None]
    assert (settle(tree, agreed, np.zeros_like(agreed)) == agreed).all()
    wishes = np.array(
        [
            np.full(3001, BIG),
            np.r_[BIG, np.full(3000, -BIG)],
            np.r_[BIG, BIG, np.full(2999, -BIG)],
            np.r_[BIG, BIG, np.full(2999, 0.75)],
            np.r_[BIG, BIG, np.full(2999, -0.25)],
            np.r_[BIG, random.integers(-BIG, BIG, 3000)],
            np.r_[5, random.integers(-BIG, BIG, 3000)],
        ]
    ).T.astype(float)
    floors = np.zeros(wishes.shape, np.int64)
    floors[1:, ::2] = random.integers(0, 2**41, (3000, 4))
    expected = [settled_exactly(tree, *column) for column in zip(wishes.T.tolist(), floors.T.tolist(), strict=True)]
    assert settle(tree, wishes, floors).T.tolist() == expected


BY_HAND = [
    ([16, 10, 10, -4], [0, 0, 0, 0], [16, 8, 8, 0]),  # what one is raised by, the others give up in equal parts
    ([16, 10, 10, -4], [0, 0, 9, 2], [16, 5, 9, 2]),
    ([1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 0, 0]),  # ties by place
    ([5, 1, 1, 1], [0, 0, 0, 0], [5, 2, 2, 1]),
    ([5, 1.5, 1.5, 1.75], [0, 0, 0, 0], [5, 2, 1, 2]),  # the largest remainders first
    ([-7, -1, -2, -3], [0, 0, 0, 0], [0, 0, 0, 0]),
    ([-7, -1, -2, -3], [0, 4, 5, 6], [15, 4, 5, 6]),
    ([-7, 3, 3, 3], [20, 4, 5, 6], [20, 7, 7, 6]),
    ([2.5, 3, 0, 0], [0, 0, 0, 0], [2, 2, 0, 0]),  # a half to the even number
    ([3.5, 3, 0, 0], [0, 0, 0, 0], [4, 4, 0, 0]),
]


@pytest.mark.parametrize(("wishes", "floors", "expected"), BY_HAND)
def test_settled_by_hand(wishes, floors, expected):
    assert settle(FAMILY, np.array([wishes]).T, np.array([floors]).T).T.tolist() == [expected]


def test_needs_come_from_below():
    wishes = np.array([[10.0, 4, 1, 6, 3, 1]]).T
    assert settle(UNEVEN, wishes, np.zeros((6, 1), int)).T.tolist() == [[10, 4, 1, 6, 3, 1]]
    assert settle(UNEVEN, wishes, np.array([[0, 0, 0, 0, 0, 5]]).T).T.tolist() == [[10, 5, 5, 5, 0, 5]]
    assert settle(UNEVEN, wishes, np.array([[0, 9, 0, 8, 2, 5]]).T).T.tolist() == [[17, 9, 5, 8, 4, 5]]


@given(anything, st.integers(0, 20))
def test_one_node_is_its_rounded_wish_or_its_floor(wish, floor):
    assert settle(Tree((-1,)), np.array([[wish]]), np.array([[floor]])).tolist() == [[max(round(wish), floor)]]


@given(anything, st.lists(st.integers(0, 20), min_size=1, max_size=6))
def test_a_chain_is_one_number(wish, floors):
    tree = Tree(tuple(range(-1, len(floors) - 1)))
    wishes = np.array([[wish], *[[-3.5]] * (len(floors) - 1)])
    assert set(settle(tree, wishes, np.array([floors]).T).flat) == {max(round(wish), *floors)}


def test_no_columns():
    for tree in (Tree((-1,)), FAMILY, UNEVEN):
        found = settle(tree, np.zeros((len(tree), 0)), np.zeros((len(tree), 0), np.int64))
        assert found.shape == (len(tree), 0)
        assert found.dtype == np.int64


def test_many_columns_are_shared_out_in_blocks(monkeypatch):
    random = np.random.default_rng(2)
    wishes, floors = random.normal(5, 9, (6, 100)), random.integers(0, 4, (6, 100))
    before = wishes.copy(), floors.copy()
    whole = settle(UNEVEN, wishes, floors)
    for size in (1, 7, 64):
        monkeypatch.setattr(consistency, "_AT_ONCE", size)
        assert (settle(UNEVEN, wishes, floors) == whole).all()
    assert (wishes == before[0]).all()
    assert (floors == before[1]).all()


def test_a_large_tree():
    random = np.random.default_rng(4)
    tree = Tree((-1, *[0] * 30, *(1 + n % 30 for n in range(1000))))
    measured, floors = random.normal(20, 30, (1031, 1000)), random.integers(0, 5, (1031, 1000))
    numbers = settle(tree, least_squares(tree, measured, random.uniform(1, 9, 1031)), floors)
    assert (numbers >= floors).all()
    assert (numbers[1:31].sum(axis=0) == numbers[0]).all()
    assert all((numbers[31 + n :: 30].sum(axis=0) == numbers[1 + n]).all() for n in range(30))


@pytest.mark.parametrize("parents", [(), (0,), (-1, -1), (-1, 1), (-1, 0, 3, 1), (-1, 0, -1)])
def test_bad_trees_are_refused(parents):
    with pytest.raises(InvalidArgument, match=r"^parents: "):
        Tree(parents)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("measured", np.zeros((3, 2))),
        ("measured", np.float64(1)),
        ("measured", np.array([[1.0], [2], [math.nan], [3]])),
        ("measured", np.array([["a"]] * 4)),
        ("measured", [[1], [1, 2], [1], [1]]),
        ("variances", [1, 1, 1]),
        ("variances", [[1, 1, 1, 1]]),
        ("variances", [1, 1, math.inf, 1]),
        ("variances", [1, 1, math.nan, 1]),
        ("variances", [-1, 1, 1, 1]),
        ("variances", [-math.inf, 1, 1, 1]),
        ("variances", [1, 1, 1e101, 1]),
        ("variances", [None] * 4),
    ],
)
def test_bad_measurements_are_refused_by_name(argument, value):
    with pytest.raises(InvalidArgument, match=rf"^{argument}: "):
        least_squares(FAMILY, **{"measured": np.zeros((4, 1)), "variances": [1, 1, 1, 1]} | {argument: value})


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("wishes", np.zeros(4)),
        ("wishes", np.zeros((3, 2))),
        ("wishes", np.zeros((4, 2, 1))),
        ("wishes", np.full((4, 2), math.nan)),
        ("wishes", np.full((4, 2), -math.inf)),
        ("wishes", np.full((4, 2), BIG + 1)),
        ("wishes", np.full((4, 2), "1")),
        ("floors", np.zeros((4, 3), np.int64)),
        ("floors", np.zeros((5, 2), np.int64)),
        ("floors", np.zeros(4, np.int64)),
        ("floors", np.zeros((4, 2))),
        ("floors", np.full((4, 2), -1)),
        ("floors", np.full((4, 2), BIG + 1)),
        ("floors", np.full((4, 2), 2**64 - 1, np.uint64)),
        ("floors", np.full((4, 2), BIG // 2)),
    ],
)
def test_bad_wishes_and_floors_are_refused_by_name(argument, value):
    arguments = {"wishes": np.zeros((4, 2)), "floors": np.zeros((4, 2), np.int64)}
    with pytest.raises(InvalidArgument, match=rf"^{argument}: "):
        settle(FAMILY, **arguments | {argument: value})


def test_floors_that_no_int64_can_add_up_are_refused():
    tree = Tree((-1, *[0] * 2048))
    with pytest.raises(InvalidArgument, match=r"^floors: must not add up"):
        settle(tree, np.zeros((2049, 1)), np.full((2049, 1), BIG))
