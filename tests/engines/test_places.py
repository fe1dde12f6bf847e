"""Which tables have rows in common: by the file, whatever it is called."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from sfumato.catalog import Catalog
from sfumato.config import Config, EngineSettings, read_config
from sfumato.engines.places import source_places, tables_at, tables_by_source

TABLE = """
[tables.{name}]
engine = "{engine}"
source = "{source}"
privacy_unit = "u"
measures.people = {{ count = "units" }}
"""
ENGINES = """
[engines.files]
type = "duckdb"
[engines.one]
type = "duckdb"
database = "one.duckdb"
[engines.same]
type = "duckdb"
database = "link.duckdb"
[engines.two]
type = "duckdb"
database = "two.duckdb"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.parquet", "b.parquet"):
        duckdb.sql(f"COPY (SELECT 1 AS u) TO '{tmp_path / name}'")
    for name in ("one.duckdb", "two.duckdb"):
        with duckdb.connect(str(tmp_path / name)) as connection:
            connection.execute("CREATE TABLE rows AS SELECT 1 AS u")
            connection.execute("CREATE VIEW seen AS SELECT * FROM rows")
    (tmp_path / "link.duckdb").symlink_to("one.duckdb")
    (tmp_path / "soft.parquet").symlink_to("a.parquet")
    (tmp_path / "hard.parquet").hardlink_to(tmp_path / "a.parquet")
    return tmp_path


def config(folder: Path, **tables: tuple[str, str]) -> Config:
    """Tables by name: their engine and their source."""
    text = [TABLE.format(name=name, engine=engine, source=source) for name, (engine, source) in tables.items()]
    return read_config(ENGINES + "".join(text), folder, {})


def groups(folder: Path, *sources: str, engine: str = "files") -> list[list[str]]:
    """The sources that are one."""
    found = config(folder, **{f"t{at}": (engine, source) for at, source in enumerate(sources)})
    return [[sources[int(name[1:])] for name in names] for names in tables_by_source(found)]


def test_files_are_told_apart_by_what_they_are(folder: Path) -> None:
    assert groups(folder, "a.parquet", "b.parquet") == [["a.parquet"], ["b.parquet"]]
    same = ["a.parquet", "./a.parquet", f"{folder}/a.parquet", "soft.parquet", "hard.parquet"]
    assert groups(folder, *same, "b.parquet") == [same, ["b.parquet"]]


def test_patterns_join_the_files_that_they_match(folder: Path) -> None:
    assert groups(folder, "a.parquet", "b.parquet", "?.parquet") == [["a.parquet", "b.parquet", "?.parquet"]]
    assert groups(folder, "a*.parquet", "b*.parquet") == [["a*.parquet"], ["b*.parquet"]]
    assert groups(folder, "none*.parquet", "./none*.parquet") == [["none*.parquet", "./none*.parquet"]]


def test_tables_are_told_apart_by_their_database_and_name(folder: Path) -> None:
    found = config(folder, a=("one", "rows"), b=("same", "rows"), c=("two", "rows"), d=("one", "seen"))
    assert tables_by_source(found) == [("a", "b"), ("c",), ("d",)]


def test_a_view_is_another_source_and_says_so(folder: Path) -> None:
    found = config(folder, rows=("one", "rows"), seen=("one", "seen"), file=("files", "a.parquet"))
    catalog = Catalog(found)
    try:
        assert catalog.views() == {"seen"}
    finally:
        catalog.close()


def test_the_tables_of_a_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    found = config(folder, a=("files", "a.parquet"), every=("files", "*.parquet"), rows=("same", "rows"))
    assert tables_at(found, source_places(EngineSettings(), "soft.parquet", Path())) == ("a", "every")
    assert tables_at(found, source_places(EngineSettings(), "b.parquet", Path())) == ("every",)
    settings = EngineSettings(options={"database": Path("one.duckdb")})
    assert tables_at(found, source_places(settings, "rows", Path())) == ("rows",)
    assert tables_at(found, source_places(settings, "seen", Path())) == ()
