"""A CSV file that a spreadsheet opens runs nothing: text that begins like a formula is written as text."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.release.outputs import read, target
from sfumato.release.outputs.files import from_csv, to_csv
from sfumato.release.table import Released
from sfumato.release.verify import differences
from tests.release.test_table import counted, table

FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1+1", "\r=1+1", "\n=1+1", "=HYPERLINK(1)", "-", "=")
QUOTED = ("'=1+1", "''=1+1", "'-", "'+", "'@", "'\t")
PLAIN = ("a=1", "'", "''", "'a", "1-1", "", " =1", "it's", "\\=", '"=1"')


def written(released: Released, folder: Path) -> tuple[Path, list[list[str]]]:
    """The file, and its cells as a spreadsheet reads them."""
    path = folder / "counts.csv"
    released.write(str(path))
    with path.open(newline="", encoding="utf-8") as file:
        return path, [*csv.reader(file)]


@pytest.fixture
def released() -> Released:
    return counted(*((text, 90) for text in (*FORMULAS, *QUOTED, *PLAIN)))


def test_no_cell_of_text_begins_like_a_formula(released: Released, tmp_path: Path) -> None:
    _, (_, *rows) = written(released, tmp_path)
    cells = [row[0] for row in rows]
    assert not [cell for cell in cells if cell[:1] in "=+-@\t\r\n" and cell]
    assert cells == [*(f"'{text}" for text in (*FORMULAS, *QUOTED)), *PLAIN]


def test_the_table_that_is_read_has_the_original_keys(released: Released, tmp_path: Path) -> None:
    path, _ = written(released, tmp_path)
    assert read(target(str(path))).rows == released.rows
    assert differences(target(str(path))) == []


def test_the_statement_says_so_only_where_it_was_done(released: Released, tmp_path: Path) -> None:
    path, _ = written(released, tmp_path)
    beside = path.with_name("counts.csv.statement.json")
    assert json.loads(beside.read_text())["table"]["formulas"] == "apostrophe"
    counted(("a", 90), ("it's", 80)).write(str(path), overwrite=True)
    assert json.loads(beside.read_text())["table"].keys() == {"format", "sha256"}


def test_a_file_of_before_is_read_as_it_is(tmp_path: Path) -> None:
    """Without the word in the statement, an apostrophe is a part of the text."""
    path, _ = written(counted(("a", 90), ("b", 80)), tmp_path)
    content = path.read_bytes().replace(b"\r\na,", b"\r\n=x,").replace(b"\r\nb,", b"\r\n'=x,")
    statement = json.loads(path.with_name("counts.csv.statement.json").read_text())
    assert from_csv(content, statement).values("article") == ["=x", "'=x"]


def test_numbers_stay_numbers(tmp_path: Path) -> None:
    small = table([(-5, -0.5, 3, -17, 23, 10.0)], {"a": "integer", "b": "number"}, {"units": "integer"})
    _, (_, row) = written(small, tmp_path)
    assert row == ["-5", "-0.5", "3", "-17", "23", "10.0"]


def test_names_of_columns_are_text_too(tmp_path: Path) -> None:
    small = table([("x", 30, 20, 40, 10.0)], {"=cmd()": "text"}, {"units": "integer"})
    path, (header, _) = written(small, tmp_path)
    assert header[0] == "'=cmd()"
    found = read(target(str(path)))
    assert [*found.columns] == [*small.columns]
    assert differences(target(str(path))) == []


@given(st.lists(st.text(st.sampled_from("'=+-@\t\r\na,\""), max_size=5), unique=True))
def test_every_text_comes_back(texts: list[str]) -> None:
    released = counted(*((text, 90) for text in texts))
    statement = {**released.statement, "table": {"formulas": "apostrophe"}}
    assert from_csv(to_csv(released), statement).rows == released.rows
