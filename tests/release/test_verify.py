"""Verification: a table as it was released has no differences, and every way to tamper with one is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from sfumato.accounting import zcdp_epsilon
from sfumato.errors import InvalidArgument
from sfumato.mechanisms.census import KeysPerPerson
from sfumato.mechanisms.noise import DiscreteGaussian
from sfumato.release import Mean, Sum, Units
from sfumato.release.estimand import ALL_KEYS, bounding_record
from sfumato.release.outputs import target
from sfumato.release.table import Released
from sfumato.release.verify import differences
from tests.helpers.aggregating import request_of, run, source_of
from tests.release.test_table import EMPTY, FULL, counted, table

pytestmark = pytest.mark.slow

PLACES = ("counts.parquet", "counts.csv", "counts.duckdb#counts")
SMALL = counted(("a", 90), ("b", 80), ("c", 70))
HASH = "the table is not the one that was released: its SHA-256 differs from the stated one"
RHO = "the steps' rho do not sum to the rho of the guarantee"
DELTA = "the steps' delta do not sum to the delta of the guarantee"


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("released", [SMALL, FULL, EMPTY], ids=["small", "full", "empty"])
def test_a_table_as_it_was_released_has_none(name: str, released: Released, tmp_path: Path) -> None:
    released.write(tmp_path / name)
    assert differences(target(str(tmp_path / name))) == []


@pytest.mark.slow
@pytest.mark.parametrize("released", [SMALL, FULL, EMPTY], ids=["small", "full", "empty"])
def test_a_table_in_postgres_is_verified_too(released: Released, postgres_url: str) -> None:
    place = target(f"{postgres_url}#counts")
    released.write(f"{postgres_url}#counts")
    assert differences(place) == []
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE counts SET units_deviation = 99")
    assert differences(place) == ([HASH] if len(released) else [])


def saved(folder: Path, released: Released = SMALL) -> Path:
    out = folder / "counts.csv"
    released.write(out)
    return out


def edited(out: Path, change: Callable[[dict[str, Any]], object]) -> list[str]:
    """What is told after the statement was changed."""
    file = out.with_name(f"{out.name}.statement.json")
    said = json.loads(file.read_text())
    change(said)
    file.write_text(json.dumps(said))
    return differences(target(str(out)))


def saved_again(out: Path) -> None:
    bounded().write(out, overwrite=True)


def bounded() -> Released:
    """People in at most two keys, of a census that says what that dropped."""
    census = KeysPerPerson((500, 100, 80, 60, *[0] * 21), DiscreteGaussian(Fraction(4)))
    return counted(("a", 90), ("b", 80), ("c", 70), bounding=[bounding_record(ALL_KEYS, 2, census)])


class TestTheTable:
    """In a CSV file and in a database, as anybody can edit them."""

    @pytest.mark.parametrize(
        ("old", "new", "told"),
        [
            ("a,90", "a,91", [HASH]),
            ("b,80,60,100,10.0\r\n", "", [HASH, "the table has 2 rows, and the statement another number"]),
            ("article,units,", "units,article,", None),
            ("units_low,units_high", "units_high,units_low", None),
            ("b,80", "a,80", [HASH, "some keys are there more than once"]),
            ("c,70,50", "c,70,71", [HASH, "'units' is below the low end of its interval in some rows"]),
            ("c,70,50,90", "c,70,50,69", [HASH, "'units' is above the high end of its interval in some rows"]),
            ("c,70,50", "c,9,5", [HASH, "'units' is below the threshold in some rows"]),
            (
                "90,10.0",
                "90,11.0",
                [HASH, "'units_deviation' is not the same in all rows, as the statement says it is"],
            ),
            ("90,10.0", "90,", [HASH, "'units_deviation' is not the same in all rows, as the statement says it is"]),
            ("10.0", "-1.0", [HASH, "'units_deviation' is not above 0, or has no end, in some rows"]),
            ("10.0", "inf", None),
            ("c,70", "c,", None),
            ("c,70", "c,seventy", None),
        ],
    )
    def test_an_edit_is_told(self, old: str, new: str, told: list[str] | None, tmp_path: Path) -> None:
        out = saved(tmp_path)
        text = out.read_bytes().decode()
        assert old in text
        out.write_bytes(text.replace(old, new).encode())
        found = differences(target(str(out)))
        assert found[0] == HASH
        assert found == told if told else len(found) > 1

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ("UPDATE counts SET units = 91 WHERE article = 'a'", [HASH]),
            (
                "DELETE FROM counts WHERE article = 'a'",
                [HASH, "the table has 2 rows, and the statement another number"],
            ),
            ("ALTER TABLE counts RENAME units_low TO low", [HASH, "the columns, their order or their types are not"]),
            ("ALTER TABLE counts ALTER units TYPE DOUBLE", [HASH, "the columns, their order or their types are not"]),
            ("ALTER TABLE counts ALTER units TYPE HUGEINT", [HASH, "the table cannot be read: 'units' must be one of"]),
            (
                "UPDATE counts SET article = NULL",
                [HASH, "the table cannot be read: the column 'article' holds what is not"],
            ),
            (
                "UPDATE counts SET units = NULL",
                [HASH, "the table cannot be read: the column 'units' holds what is not"],
            ),
            ("CREATE OR REPLACE TABLE counts AS FROM counts ORDER BY units", []),
        ],
    )
    def test_an_edit_of_a_database_is_told_and_the_order_of_rows_is_free(
        self, change: str, told: list[str], tmp_path: Path
    ) -> None:
        SMALL.write(tmp_path / "counts.duckdb#counts")
        with duckdb.connect(tmp_path / "counts.duckdb") as connection:
            connection.execute(change)
        found = differences(target(str(tmp_path / "counts.duckdb#counts")))
        assert len(found) == len(told)
        assert all(said.startswith(start) for said, start in zip(found, told, strict=True))

    @pytest.mark.parametrize("name", ["counts.parquet", "counts.csv"])
    def test_a_truncated_file_is_told(self, name: str, tmp_path: Path) -> None:
        out = tmp_path / name
        SMALL.write(out)
        out.write_bytes(out.read_bytes()[:-9])
        first, second = differences(target(str(out)))
        assert first == HASH
        assert second.startswith("the table is not a ")

    def test_numbers_as_keys_are_never_missing_and_a_total_is_one_row(self, tmp_path: Path) -> None:
        released = table([(None, 90, 80, 100, 5.0)], {"size": "number"}, {"units": "integer"})
        assert differences_of(released, tmp_path / "a.csv") == ["the key 'size' is NULL in some rows"]
        totals = table([(90, 80, 100, 5.0)] * 2, {}, {"units": "integer"})
        assert differences_of(totals, tmp_path / "b.csv") == [
            "there are several rows, and no key that tells them apart"
        ]
        assert differences_of(table([(90, 80, 100, 5.0)], {}, {"units": "integer"}), tmp_path / "c.csv") == []

    def test_what_is_not_there_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidArgument, match="there is no file"):
            differences(target(str(tmp_path / "counts.csv")))


def differences_of(released: Released, out: Path) -> list[str]:
    released.write(out)
    return differences(target(str(out)))


class TestTheStatement:
    @pytest.mark.parametrize("epsilon", [3.0, 9.5, 0])
    def test_an_edited_epsilon_is_told(self, epsilon: float, tmp_path: Path) -> None:
        [told] = edited(saved(tmp_path), lambda said: said["guarantee"].update(epsilon=epsilon))
        assert told.startswith(f"the stated epsilon, {epsilon}, does not follow from the steps")

    @pytest.mark.parametrize(
        ("step", "told"),
        [
            *(({"rho": rho}, RHO) for rho in ("1/7", "-1/3", "1e999999999", 0.5, None)),
            *(({"delta": delta}, DELTA) for delta in ("1/1000001", "1/0")),
        ],
    )
    def test_an_edited_step_is_told(self, step: dict[str, Any], told: str, tmp_path: Path) -> None:
        assert edited(saved(tmp_path), lambda said: said["steps"][1].update(step)) == [told]

    def test_a_step_that_is_left_out_or_none_is_told(self, tmp_path: Path) -> None:
        out = saved(tmp_path)
        assert edited(out, lambda said: said["steps"].pop()) == [RHO]
        assert edited(out, lambda said: said["steps"].append("x")) == [RHO, DELTA]

    def test_sums_are_exact(self, tmp_path: Path) -> None:
        tenths = [{"purpose": "p", "law": "l", "rho": "1/10", "delta": "1/5000000"}] * 5
        out = saved(tmp_path)
        assert edited(out, lambda said: said.update(steps=tenths)) == []
        almost = "5000000000000000000000000000001/10000000000000000000000000000000"
        assert RHO in edited(out, lambda said: said["guarantee"].update(rho=almost))

    @pytest.mark.parametrize(
        ("guarantee", "told"),
        [
            ({"epsilon_delta": "1/1000000"}, "the delta of the stated epsilon leaves nothing beyond that of the steps"),
            ({"epsilon_delta": "1/2000000"}, "the delta of the stated epsilon leaves nothing beyond that of the steps"),
            ({"epsilon_delta": "much"}, "the guarantee is not stated in exact numbers"),
        ],
    )
    def test_an_edited_delta_is_told(self, guarantee: dict[str, str], told: str, tmp_path: Path) -> None:
        assert edited(saved(tmp_path), lambda said: said["guarantee"].update(guarantee)) == [told]

    @pytest.mark.parametrize(
        "change",
        [
            {"epsilon": 1.0},
            {"people": 3},
            {"delta": 1e-9},
            {"shown": 0.5},
            {"epsilon": "much"},
            {"people": None},
        ],
    )
    def test_an_edited_promise_to_several_people_is_told(self, change: dict[str, Any], tmp_path: Path) -> None:
        out, rho, spare = saved(tmp_path), Fraction(1, 2), Fraction(1, 10**6)
        group = {"people": 2, "epsilon": zcdp_epsilon(4 * rho, spare), "delta": 3e-6, "shown": 2e-6}
        none = {"people": 10, "epsilon": None, "delta": None, "shown": 1.0}
        assert edited(out, lambda said: said.update(groups=[group, none])) == []
        told = ["what is promised to several people together does not follow from the steps"]
        assert edited(out, lambda said: said.update(groups=[{**group, **change}])) == told
        assert edited(out, lambda said: said.update(groups="none")) == told

    def test_the_statement_of_another_table_is_told(self, tmp_path: Path) -> None:
        out, other = saved(tmp_path), tmp_path / "other.csv"
        counted(("a", 90), ("b", 80), ("c", 71)).write(other)
        Path(f"{other}.statement.json").replace(f"{out}.statement.json")
        assert differences(target(str(out))) == [HASH]
        counted(("a", 90)).write(tmp_path / "other.parquet")
        (tmp_path / "other.parquet.statement.json").replace(f"{out}.statement.json")
        assert differences(target(str(out))) == [
            "the statement is about a table in another format than csv",
            "the table has 3 rows, and the statement another number",
        ]

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"rows": 4}, "the table has 3 rows, and the statement another number"),
            ({"table": None}, "the statement does not say which table it is about"),
            ({"parameters": {"threshold": "ten"}}, "the stated threshold is not a number"),
            ({"parameters": {"threshold": 71}}, "'units' is below the threshold in some rows"),
            ({"parameters": {"threshold": "141/2"}}, "'units' is below the threshold in some rows"),
        ],
    )
    def test_other_edits_are_told(self, change: dict[str, Any], told: str, tmp_path: Path) -> None:
        assert edited(saved(tmp_path), lambda said: said.update(change)) == [told]

    def test_what_was_dropped_follows_from_the_census(self, tmp_path: Path) -> None:
        out = saved(tmp_path, bounded())
        assert differences(target(str(out))) == []
        for change in (
            {"dropped": 0.0},
            {"dropped_low": 0.9},
            {"dropped_high": 0.01},
            {"dropped_high": None},
            {"dropped": "much"},
            {"max_keys": 3},
        ):
            told = edited(out, lambda said, change=change: said["bounding"][0].update(change))
            assert told == ["what bounding is said to have dropped does not follow from the census"]
            saved_again(out)

    @pytest.mark.parametrize(
        "change",
        [
            {"census": None},
            {"census": {}},
            {"census": {"people": [1, 2], "variance": "4", "keys": None}},
            {"census": {"people": ["x"], "variance": "4", "keys": 1}},
            {"census": {"people": [10**30], "variance": "4", "keys": 1}},
            {"census": {"people": [1], "variance": "1e999999999", "keys": 1}},
            {"census": {"people": [1], "variance": "0", "keys": 1}},
            {"max_keys": "two"},
            {"max_keys": 0},
        ],
    )
    def test_a_census_that_is_none_is_told(self, change: dict[str, Any], tmp_path: Path) -> None:
        out = saved(tmp_path, bounded())
        [told] = edited(out, lambda said: said["bounding"][0].update(change))
        assert told == "a census in the statement is not what it should be"

    @pytest.mark.parametrize("records", [None, {}, ["x", 3], [[]]])
    def test_records_that_are_none_are_passed_over(self, records: Any, tmp_path: Path) -> None:
        assert edited(saved(tmp_path, bounded()), lambda said: said.update(bounding=records)) == []

    def test_swapped_columns_are_told(self, tmp_path: Path) -> None:
        [told] = edited(saved(tmp_path), lambda said: said["columns"].reverse())
        assert told == "the columns, their order or their types are not the stated ones"


EXACT = {
    "Laplace noise": {"max_keys": 1, "aggregates": [Units(), Sum("x", 0, 5)]},
    "Gaussian noise": {"max_keys": 8, "aggregates": [Units(), Mean("x", 0, 5)]},
    "one release": {"max_keys": 8, "within_max_keys": True},
    "weights": {"max_keys": 8, "aggregates": [Sum("x", 0, 5)]},
    "decided by a census": {"max_keys": "auto"},
}


@pytest.fixture(scope="module", params=EXACT.values(), ids=EXACT)
def exact(request: pytest.FixtureRequest) -> Released:
    rows = [(person, f"k{key}", 1.0) for person in range(400) for key in range(1 + person % 2)]
    return run(request_of(epsilon=1, delta=1e-6, **request.param), source_of(rows))


@pytest.mark.slow
class TestExactAccounting:
    """Of the noise that the steps state."""

    def test_follows_from_the_steps(self, exact: Released, tmp_path: Path) -> None:
        assert exact.statement["guarantee"]["accounting"] == "exact"
        assert exact.statement["guarantee"]["epsilon"] == 1.0
        assert differences(target(str(saved(tmp_path, exact)))) == []

    def test_less_epsilon_is_told(self, exact: Released, tmp_path: Path) -> None:
        told = edited(saved(tmp_path, exact), lambda said: said["guarantee"].update(epsilon=0.99))
        assert "the stated epsilon, 0.99, does not follow from the steps" in told

    def test_more_noise_than_there_was_is_told(self, exact: Released, tmp_path: Path) -> None:
        def less(said: dict[str, Any]) -> None:
            step = said["steps"][-1]
            if "epsilon" in step:
                step["epsilon"] = "2"
            else:
                step["gaussian"][0]["variance"] = "5"

        assert edited(saved(tmp_path, exact), less) == ["the stated epsilon, 1.0, does not follow from the steps"]

    @pytest.mark.parametrize("broken", ["x", None, [{}], {}, "-2"])
    def test_a_step_that_is_none_is_told(self, broken: Any, exact: Released, tmp_path: Path) -> None:
        def spoil(said: dict[str, Any]) -> None:
            step = said["steps"][0]
            step["epsilon" if "epsilon" in step else "gaussian"] = broken

        assert "does not follow from the steps" in " ".join(edited(saved(tmp_path, exact), spoil))
