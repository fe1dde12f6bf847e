"""Check a released table against its statement, and the statement against itself. No key is needed.

What is checked: the SHA-256 of the table, its rows, columns and kinds; that keys are unique; that every statistic lies
in its interval; that the steps' costs sum, exactly, to the guarantee, and that the stated epsilon follows from it; that
what bounding is said to have dropped follows from the census. What cannot be checked: that the noise was drawn as
stated. A writer of both the table and the statement can make them agree.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.accounting import zcdp_epsilon
from sfumato.accounting.gaussian import GaussianStep
from sfumato.accounting.naming import NamingLoss, NamingPart
from sfumato.accounting.numbers import whole
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.census import LAWS, KeysPerPerson
from sfumato.release.bounding import MAX_KEYS
from sfumato.release.estimand import bounding_records
from sfumato.release.outputs import Target
from sfumato.release.statement import statement_types
from sfumato.release.table import Released

TOLERANCE = 1e-9
UNITS = "units"

_EXACT = re.compile(r"\d{1,4000}(/0*[1-9]\d{0,3999})?")


def differences(place: Target) -> list[str]:
    """Every difference, in words. A missing table is refused."""
    stored = place.load()
    found = [*_file(place, stored.statement, stored.sha256)]
    if stored.released is None:
        return [*found, f"the table {stored.problem}", *_accounts(stored.statement), *_bounding(stored.statement)]
    found += _shape(stored.released)
    if statement_types(stored.statement) == stored.released.columns:
        found += itertools.chain(_keys(stored.released), _intervals(stored.released), _threshold(stored.released))
    return [*found, *_accounts(stored.statement), *_bounding(stored.statement)]


def _file(place: Target, statement: Mapping[str, Any], sha256: str) -> Iterator[str]:
    table = statement.get("table")
    if not isinstance(table, dict):
        yield "the statement does not say which table it is about"
        return
    if table.get("format") != place.format:
        yield f"the statement is about a table in another format than {place.format}"
    elif table.get("sha256") != sha256:
        yield "the table is not the one that was released: its SHA-256 differs from the stated one"


def _shape(released: Released) -> Iterator[str]:
    rows = released.statement.get("rows")
    if rows != len(released):
        yield f"the table has {len(released):,} rows, and the statement another number"
    stated = [(column["name"], column["type"]) for column in released.statement["columns"]]
    if stated != [*released.columns.items()]:
        yield "the columns, their order or their types are not the stated ones"


def _keys(released: Released) -> Iterator[str]:
    """NULLs are refused by `Released` in all kinds of column but one."""
    keys = released.keys
    for name in keys:
        if released.columns[name] == "number" and np.isnan(released.data[name]).any():
            yield f"the key {name!r} is NULL in some rows"
    if not keys:
        if len(released) > 1:
            yield "there are several rows, and no key that tells them apart"
        return
    if len({*zip(*map(released.values, keys), strict=True)}) != len(released):
        yield "some keys are there more than once"


def _intervals(released: Released) -> Iterator[str]:
    for name in released.statistics:
        values = released.data[name]
        low, high = (released.beside(name, role) for role in ("low", "high"))
        if low is not None and (released.data[low] > values).any():
            yield f"{name!r} is below the low end of its interval in some rows"
        if high is not None and (released.data[high] < values).any():
            yield f"{name!r} is above the high end of its interval in some rows"
    for column in released.statement["columns"]:
        if column["role"] == "deviation":
            yield from _deviation(released.data[column["name"]], column)


def _deviation(values: np.ndarray[Any, Any], column: Mapping[str, Any]) -> Iterator[str]:
    there = values[~np.isnan(values)]
    if not (np.isfinite(there) & (there > 0)).all():
        yield f"{column['name']!r} is not above 0, or has no end, in some rows"
    if column.get("constant") is True and len(values) and (len(there) < len(values) or there.min() < there.max()):
        yield f"{column['name']!r} is not the same in all rows, as the statement says it is"


def _threshold(released: Released) -> Iterator[str]:
    parameters = released.statement["parameters"]
    threshold = parameters.get("threshold")
    # People who are counted again, on the selected keys, may be fewer.
    if threshold is None or UNITS not in released.columns or not parameters.get("one_release", True):
        return
    try:
        least = Fraction(threshold)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        yield "the stated threshold is not a number"
        return
    if len(released) and Fraction(released.data[UNITS].min().item()) < least:
        yield f"{UNITS!r} is below the threshold in some rows"


def _accounts(statement: Mapping[str, Any]) -> Iterator[str]:
    """Whether the steps come to the guarantee, and the guarantee to its epsilon."""
    guarantee, steps = statement["guarantee"], statement["steps"]
    exact = {name: _exact(guarantee.get(name)) for name in ("rho", "delta", "epsilon_delta")}
    for name in ("rho", "delta"):
        costs = [_exact(step.get(name)) if isinstance(step, dict) else None for step in steps]
        if sum(cost or 0 for cost in costs) != exact[name] or None in costs:
            yield f"the steps' {name} do not sum to the {name} of the guarantee"
    rho, delta, whole = exact.values()
    if rho is None or delta is None or whole is None:
        yield "the guarantee is not stated in exact numbers"
        return
    if guarantee.get("accounting") == "exact":
        yield from _exact_epsilon(guarantee["epsilon"], steps, whole)
    else:
        yield from _epsilon(guarantee["epsilon"], rho, whole - delta)
    yield from _groups(statement.get("groups", []), guarantee["epsilon"], rho, whole - delta)


def _exact_epsilon(stated: float, steps: Sequence[Mapping[str, Any]], whole: Fraction) -> Iterator[str]:
    """The epsilons of Laplace noise add up, and the rest is that of all Gaussian noise together."""
    parts: list[NamingPart] = []
    left = Fraction(stated)
    try:
        for step in steps:
            if "epsilon" in step:
                left -= abs(Fraction(step["epsilon"]))
                continue
            noise = tuple(GaussianStep.from_dict(each) for each in step["gaussian"])
            parts.append(NamingPart(noise, Fraction(step["delta"])))
            if not 0 < sum(each.rho for each in noise) <= Fraction(step["rho"]):
                left = Fraction(-1)
        follows = left >= 0
        if follows and parts:
            follows = NamingLoss.of_any([parts]).delta(left) <= whole * (1 + TOLERANCE)
    except (InvalidArgument, KeyError, TypeError, ValueError, ZeroDivisionError, OverflowError):
        follows = False
    if not follows:
        yield f"the stated epsilon, {stated:,}, does not follow from the steps"


def _groups(groups: object, alone: float, rho: Fraction, spare: Fraction) -> Iterator[str]:
    """Whether what is promised to several people follows from rho. What naming keys shows of them is not checked."""
    for group in groups if isinstance(groups, list) else [{}]:
        try:
            people, epsilon, delta, shown = (group[name] for name in ("people", "epsilon", "delta", "shown"))
            if epsilon is None:
                continue
            due = zcdp_epsilon(people**2 * rho, spare) if spare else people * alone
            follows = math.isclose(epsilon, due, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
            follows = follows and math.isclose(delta, shown + float(spare), rel_tol=TOLERANCE)
        except (InvalidArgument, KeyError, TypeError):
            follows = False
        if not follows:
            yield "what is promised to several people together does not follow from the steps"
            return


def _epsilon(stated: float, rho: Fraction, spare: Fraction) -> Iterator[str]:
    try:
        epsilon = zcdp_epsilon(rho, spare)
    except InvalidArgument:
        yield "the delta of the stated epsilon leaves nothing beyond that of the steps"
        return
    if not math.isclose(stated, epsilon, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
        yield f"the stated epsilon, {stated:,}, does not follow from the steps, which come to {epsilon:,}"


def _bounding(statement: Mapping[str, Any]) -> Iterator[str]:
    """Whether what was dropped follows from the census."""
    for record in bounding_records(statement):
        try:
            stored = record["census"]
            [(law, parameter)] = [(LAWS[name], _exact(stored[name])) for name in LAWS if name in stored]
            census = KeysPerPerson(tuple(stored["people"]), law(parameter or Fraction(0)), stored["keys"])
            again = census.dropped(whole("max_keys", record["max_keys"], at_least=1, at_most=MAX_KEYS))
        except (KeyError, TypeError, ValueError, InvalidArgument):
            yield "a census in the statement is not what it should be"
            continue
        stated = [record.get(name) for name in ("dropped", "dropped_low", "dropped_high")]
        if not all(map(_is_close, stated, (again.share, again.low, again.high))):
            yield "what bounding is said to have dropped does not follow from the census"


def _is_close(stated: object, found: float | None) -> bool:
    if found is None or not isinstance(stated, int | float):
        return stated is found
    return math.isclose(stated, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _exact(text: object) -> Fraction | None:
    return Fraction(text) if isinstance(text, str) and _EXACT.fullmatch(text) else None
