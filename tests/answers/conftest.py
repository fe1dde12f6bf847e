"""Worlds to ask about: on SQLite, or on each of the two stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.worlds import World, new_world


@pytest.fixture
def world(tmp_path: Path) -> World:
    return new_world(tmp_path / "world")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def ledger_url(request: pytest.FixtureRequest) -> str:
    return "sqlite:ledger.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def each_world(tmp_path: Path, ledger_url: str) -> World:
    return new_world(tmp_path / "world", ledger_url)
