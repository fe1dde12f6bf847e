"""Reports with Gaussian noise, through a session: what they promise, when they are drawn again, and how far off."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sfumato.accounting import zcdp_epsilon
from sfumato.errors import SfumatoError
from sfumato.query.reports.policy import guarantee
from tests.helpers.adverts import ATTRIBUTES, BY_COLUMNS, Adverts, ask, events, hierarchy, lasting, new_adverts

pytestmark = pytest.mark.slow  # a ledger for each

A0 = {"account": "a0"}
NOISE = 'noise = "gaussian"\ndelta = 1e-6\n'
GAUSSIAN: dict[str, Any] = {"report": NOISE, "epsilon": "{ total = 2 }", "levels": '["day", "month"]'}
LAPLACE: dict[str, Any] = {"epsilon": "{ total = 1 }", "levels": '["day", "month"]'}


@pytest.fixture
def world(tmp_path: Path) -> Adverts:
    return new_adverts(tmp_path / "world", **GAUSSIAN)


def changed(**config: Any) -> dict[str, Any]:
    return {**GAUSSIAN, **config}


def refusal(world: Adverts, config: Mapping[str, Any]) -> str:
    world.write_config(**config)
    with world.open() as session, pytest.raises(SfumatoError) as refused:
        ask(session, entity=A0)
    return str(refused.value)


# -- what is promised --


def test_what_is_written_is_what_a_receipt_says(world):
    with world.open() as session:
        found = ask(session, entity=A0, attribute="title")
        assert found.receipt.guarantee == {"epsilon": 2.0, "delta": 1e-6, "unit": "event"}
        assert (found.receipt.mechanism, found.receipt.unit) == ("canonical_gaussian", "event")
        assert "epsilon 2 at delta 1e-06 for one event" in found.lines()["guarantee"]
        assert found.to_dict()["receipt"]["guarantee"]["delta"] == 1e-6
        assert session.tables().reports[0].guarantee == found.receipt.guarantee
        assert session.guarantee().reports == {"ads": found.receipt.guarantee}


def test_a_report_with_laplace_noise_has_no_delta(world):
    world.write_config(**LAPLACE)
    with world.open() as session:
        found = ask(session, entity=A0)
    assert "delta" not in (found.receipt.guarantee or {})
    assert found.receipt.mechanism == "canonical_laplace"


@pytest.mark.parametrize(
    ("config", "cells_of_event"),
    [
        ({}, 5 * 3),
        ({"attributes": ""}, 3),
        ({"attributes": "", "report": NOISE, "entities": BY_COLUMNS}, 2),
        ({"report": f'{NOISE}exact_totals = "known to the advertiser"'}, 4 * 3),
        ({"statistics": '\nclicks = { count = "rows" }\nlikes = { count = "rows" }'}, 2 * 5 * 3),
    ],
)
def test_the_total_is_divided_among_all_cells_of_an_event(tmp_path, config, cells_of_event):
    """More cells, more noise, the same promise."""
    more = [f"ALTER TABLE ads ADD COLUMN {name} VARCHAR" for name in ("account", "campaign")]
    world = new_adverts(tmp_path / "world", *hierarchy(1), *events(1), *more, **changed(**config))
    with world.open() as session:
        policy = session._reports.policies["ads"]
    found = guarantee(policy)
    assert (found.epsilon, found.delta) == (2, Fraction(1, 10**6))
    assert found.attributes * found.entities * len(found.statistics) == cells_of_event
    one = {"day": 2.68, "month": 4.09}  # of a single cell on each level
    for level, deviation in policy.gaussian.deviations.items():
        assert float(deviation) == pytest.approx(math.sqrt(cells_of_event) * one[level], rel=0.05)


def test_versions_and_events_of_a_person_are_on_top(world):
    def promised(report: str) -> tuple[float, str]:
        world.write_config(**changed(report=NOISE + report))
        world.forget()
        with world.open() as session:
            told = ask(session, entity=A0).receipt.guarantee or {}
            assert told["delta"] == 1e-6
            return told["epsilon"], told["unit"]

    (two, event), (capped, person), (one, alone) = map(
        promised, ("max_versions = 2", "max_events_per_unit = 5", "max_events_per_unit = 1")
    )
    assert (event, person, alone) == ("event", "person", "person")
    assert 2 < two < 2 * math.sqrt(2) * 1.1
    assert 5 * 2 < capped < 5**2 * 2
    assert one == 2


def test_the_total_of_a_source_has_the_rho_of_the_noise(world):
    world.write_config(**changed(report=f"{NOISE}max_events_per_unit = 3\nmax_versions = 2"))
    with world.open() as session:
        [found] = session.guarantee().sources
        rho = guarantee(session._reports.policies["ads"]).rho
    assert found.reports.period.delta == 1e-7
    assert found.reports.period.epsilon == math.ceil(100 * zcdp_epsilon(rho, Fraction(1, 10**7))) / 100
    assert (found.event_epsilon, found.event_delta) == (pytest.approx(2.95, abs=0.05), 1e-6)
    two = next(each for each in found.groups if each.people == 2)
    assert two.epsilon == math.ceil(100 * zcdp_epsilon(4 * rho, Fraction(1, 10**7))) / 100


# -- when it is drawn again --


def test_the_same_question_has_the_same_answer(world):
    with world.open() as session:
        first = ask(session, entity=A0, attribute="title", granularity="day")
        assert lasting(ask(session, entity=A0, attribute="title", granularity="day")) == lasting(first)
    with world.open() as session:
        again = ask(session, entity=A0, attribute="title", granularity="day")
    assert (lasting(again), again.receipt.repeat) == (lasting(first), True)


@pytest.mark.parametrize(
    "config",
    [
        LAPLACE,
        changed(epsilon="{ total = 1 }"),
        changed(report=NOISE.replace("1e-6", "1e-7")),
        changed(attributes='\ntitle = { domain = ["dentist"] }'),
        changed(report=f'{NOISE}exact_totals = "known to the advertiser"'),
    ],
    ids=["laplace", "epsilon", "delta", "fewer attributes", "exact totals"],
)
def test_another_noise_is_another_release(world, config):
    """Also where it follows from how many cells the total is divided among."""
    with world.open() as session:
        first = lasting(ask(session, entity=A0))
    assert "was sealed under another definition" in refusal(world, config)
    world.write_config(**config | {"report": config.get("report", "") + "\nmax_versions = 2"})
    with world.open() as session:
        assert not ask(session, entity=A0).receipt.repeat
    world.write_config(**GAUSSIAN)
    with world.open() as session:
        assert lasting(ask(session, entity=A0)) == first


def test_more_versions_and_more_values_leave_what_is_drawn(world):
    with world.open() as session:
        first = ask(session, entity=A0, attribute="size")
    more = changed(report=f"{NOISE}max_versions = 3\nmin_count = 0")
    more["attributes"] = ATTRIBUTES.replace('"small"]', '"small", "tiny"]')
    world.write_config(**more)
    with world.open() as session:
        found = ask(session, entity=A0, attribute="size")
        shown = [row for row in found.rows if row["size"] != "tiny"]
        assert shown == first.rows
        dry = session.reseal("ads", start="2026-01-10", end="2026-01-11", dry=True)
    assert (dry.before, float(dry.after), dry.delta) == (2, pytest.approx(2.95, abs=0.05), Fraction(1, 10**6))
    assert dry.to_dict()["guarantee"]["delta"] == 1e-6
    assert dry.promised == guarantee(session._reports.policies["ads"]).epsilon > dry.after


# -- how far off --


@pytest.mark.parametrize("options", [[], ["calendar"], ["monotone"], ["tree", "actions", "totals"]], ids=",".join)
def test_options_work_as_with_laplace_noise(world, options):
    with world.open() as session:
        steps = ask(session, entity=A0, attribute="title", granularity="day", options=options)
        assert steps.rows
        assert all(row["clicks"] >= 0 for row in steps.rows)
        assert steps.receipt.error95["clicks"] > 0
        if "monotone" in options:
            whole = ask(session, entity=A0, attribute="title", options=options)
            for row in whole.rows:
                parts = [part["clicks"] for part in steps.rows if part["title"] == row["title"]]
                assert sum(parts) == row["clicks"]


def test_the_error_is_that_of_the_sum_of_gaussian_cells(world):
    with world.open() as session:
        deviation = float(session._reports.policies["ads"].gaussian.deviations["day"])
        for end, days in (("2026-01-11", 1), ("2026-01-14", 4), ("2026-01-22", 12)):
            found = ask(session, entity=A0, end=end, options=[])
            assert found.receipt.error95["clicks"] == pytest.approx(1.96 * deviation * math.sqrt(days), abs=1)
        weighed = ask(session, entity=A0, end="2026-01-22", options=["calendar"])
        assert weighed.receipt.error95["clicks"] <= found.receipt.error95["clicks"]


def test_less_error_than_laplace_noise_of_the_same_promise(tmp_path):
    """Six attributes, two levels of time, three of entities: 42 cells, the paper's."""
    six = "\n" + "\n".join(f'{name} = {{ domain = ["a"] }}' for name in ("title", "size", "kind", "u", "v", "w"))
    more = [f"ALTER TABLE ads ADD COLUMN {name} VARCHAR" for name in ("u", "v", "w")]
    both = {"attributes": six, "levels": '["day", "month"]', "statistics": '\nclicks = { count = "rows" }'}
    world = new_adverts(tmp_path / "world", *hierarchy(1), *events(1), *more, **both, epsilon="{ total = 0.2 }")
    errors = []
    for config in ({"epsilon": "{ total = 0.2 }"}, {"epsilon": "{ total = 4.2 }", "report": NOISE}):
        world.write_config(**both, **config)
        world.forget()
        with world.open() as session:
            found = ask(session, entity=A0, end="2026-01-17", options=[])
        assert (found.receipt.guarantee or {})["epsilon"] == 4.2
        errors.append(found.receipt.error95["clicks"])
    assert errors[1] < 0.6 * errors[0]


def test_small_counts_are_not_shown(world):
    world.write_config(**changed(report=f"{NOISE}min_count = 1000"))
    with world.open() as session:
        assert [row["clicks"] for row in ask(session, entity=A0).rows] == [None]
