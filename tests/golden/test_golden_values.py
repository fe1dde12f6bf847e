"""Noise, fingerprints, digests and statements are what they were when they were recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from sfumato.cli import main
from sfumato.errors import Conflict
from tests.golden import subjects
from tests.golden.comparing import DATA, differences, recorded

DRAWS, FINGERPRINTS, QUESTIONS, RELEASES = map(recorded, ("draws", "fingerprints", "questions", "releases"))
EARLIER = recorded("earlier_requests")


def test_everything_that_was_recorded_is_looked_at():
    assert list(subjects.DRAWS) == list(DRAWS)
    assert list(subjects.RELEASES) == list(RELEASES)


def test_every_public_mechanism_is_recorded():
    assert set(subjects.m.MECHANISMS) == set(subjects.MECHANISMS) <= {*DRAWS} & {*FINGERPRINTS}
    assert {name for name in subjects.m.__all__ if name.startswith("select_")} <= {*DRAWS}


@pytest.mark.parametrize("name", DRAWS)
def test_the_same_key_draws_the_same_noise(name: str):
    assert not differences(subjects.plain(subjects.DRAWS[name]()), DRAWS[name])


def test_mechanisms_have_the_same_fingerprints():
    assert not differences(subjects.fingerprints(), FINGERPRINTS)


def test_cells_of_reports_have_the_same_definitions_and_deviations():
    assert not differences(subjects.report_cells(), recorded("report_cells"))


def test_questions_have_the_same_atoms_and_digests():
    assert not differences(subjects.questions(), QUESTIONS)


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    subjects.write_release_rows(tmp_path)
    monkeypatch.chdir(tmp_path)  # where the rows come from is part of a request's digest
    return tmp_path


@pytest.mark.parametrize("name", RELEASES)
def test_releases_have_the_same_digests_statements_and_numbers(name: str, rows: Path):
    with subjects.fixed_world():
        found = subjects.released(subjects.RELEASES[name]())
    assert not differences(found, RELEASES[name])


@pytest.mark.parametrize("name", EARLIER)
def test_releases_are_known_by_their_digests_under_earlier_algorithms(name: str, rows: Path):
    assert set(EARLIER[name]) <= set(subjects.earlier_digests(name))


@pytest.mark.parametrize("name", recorded("releases_before"))
def test_a_job_that_an_earlier_version_finished_returns_its_table(name: str, rows: Path):
    """Quantiles and intervals of variances were others then. The rows are gone: they are not needed."""
    subjects.write_former_table(rows / "former.csv", name)
    written = (rows / "former.csv").read_bytes()
    ran = CliRunner().invoke(main, ["release", "verify", str(rows / "former.csv")])
    assert ran.exit_code == 0, ran.output
    (rows / "rows.csv").unlink()
    again = subjects.RELEASES[name](out=rows / "former.csv", job=name)
    assert not differences(subjects.plain(again.rows), recorded("releases_before")[name]["rows"])
    assert (rows / "former.csv").read_bytes() == written
    with pytest.raises(Conflict):
        subjects.RELEASES[name](out=rows / "former.csv", job=name, filter="n < 5")


def test_a_table_is_written_as_it_was(rows: Path):
    subjects.write_table(rows / "table.csv")
    assert (rows / "table.csv").read_bytes() == (DATA / "table.csv").read_bytes()
    ours, before = (json.loads((place / "table.csv.statement.json").read_text()) for place in (rows, DATA))
    assert not differences({**ours, "code": ""}, {**before, "code": ""})


@pytest.mark.parametrize("name", recorded("table"))
def test_a_written_table_is_still_what_its_statement_says(name: str):
    """Also one of an earlier algorithm."""
    ran = CliRunner().invoke(main, ["release", "verify", str(DATA / name)])
    assert ran.exit_code == 0, ran.output
    assert subjects.table_digest(DATA / name) == recorded("table")[name]
