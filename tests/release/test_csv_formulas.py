"""A CSV file that a spreadsheet opens runs nothing: text that begins like a formula is written as text."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import InvalidArgument
from sfumato.release.outputs import read, target
from sfumato.release.outputs.files import FORMULAS as FORMULAS_MARK
from sfumato.release.outputs.files import from_csv, to_csv
from sfumato.release.table import Released
from sfumato.release.verify import differences
from sfumato.wire.csv_text import write_csv
from tests.release.test_table import counted, table

FORMULAS = (
    *("=1+1", "+1", "-1", "@SUM(A1)", "=HYPERLINK(1)", "-", "="),
    *("\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20SUM(A1)", "=a\tb", "-a;b"),
)
INSIDE = {  # and their cells
    "\t=1+1": "'\t'=1+1",
    "\r=1+1": "'\r'=1+1",
    "\n=1+1": "'\n'=1+1",
    "'\t": "''\t",
    "a;=1+1": "a;'=1+1",
    "a\t@b": "a\t'@b",
    "a\n-b": "a\n'-b",
    "a;'=1;\uff1d2": "a;''=1;'\uff1d2",
    "=a;+b": "'=a;'+b",
    '";=1': "\";'=1",
}
QUOTED = ("'=1+1", "''=1+1", "'-", "'+", "'@", "'\uff1d")
PLAIN = (
    *("a=1", "'", "''", "'a", "1-1", "", " =1", "it's", "\\=", '"=1"', "a,=1", "a,b", "\uff1b=1"),
    *("a;b", "a;'b", "a\tb", ";", '"a;b"', "a; =1"),
)


def written(released: Released, folder: Path) -> tuple[Path, list[list[str]]]:
    """The file, and its cells as a spreadsheet reads them."""
    path = folder / "counts.csv"
    released.write(str(path))
    with path.open(newline="", encoding="utf-8") as file:
        return path, [*csv.reader(file)]


@pytest.fixture
def released() -> Released:
    return counted(*((text, 90) for text in (*FORMULAS, *QUOTED, *INSIDE, *PLAIN)))


def test_no_cell_of_text_begins_like_a_formula(released: Released, tmp_path: Path) -> None:
    _, (_, *rows) = written(released, tmp_path)
    cells = [row[0] for row in rows]
    assert not [cell for cell in cells if cell[:1] in "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20" and cell]
    assert cells == [*(f"'{text}" for text in (*FORMULAS, *QUOTED)), *INSIDE.values(), *PLAIN]


@pytest.mark.parametrize("separator", [";", "\t"])
def test_no_part_of_a_text_begins_like_a_formula_where_cells_end_otherwise(
    released: Released, tmp_path: Path, separator: str
) -> None:
    """Also for a program that knows no quotes."""
    path, _ = written(released, tmp_path)
    for text in path.read_text(encoding="utf-8").splitlines():
        for cell in text.split(separator)[1:]:
            assert cell[:1] not in tuple("=+-@\uff1d\uff0b\uff0d\uff20")


@pytest.mark.parametrize("separator", [";", "\t"])
def test_text_with_another_separator_is_quoted(tmp_path: Path, separator: str) -> None:
    path, _ = written(counted((f"a{separator}b", 90)), tmp_path)
    assert f'\r\n"a{separator}b",' in path.read_bytes().decode()


def test_other_text_is_written_as_before(tmp_path: Path) -> None:
    """As Python's own writer has it, to the byte: also a row of one empty text."""
    texts = ["a", "", "it's", 'say "x"', "a,b", "ab\ncd", " x "]
    rows = io.StringIO()
    csv.writer(rows, lineterminator="\r\n").writerows([["c"], *([text] for text in texts)])
    assert write_csv({"c": "text"}, {"c": texts}) == rows.getvalue().encode()


def test_the_table_that_is_read_has_the_original_keys(released: Released, tmp_path: Path) -> None:
    path, _ = written(released, tmp_path)
    assert read(target(str(path))).rows == released.rows
    assert differences(target(str(path))) == []


def test_the_statement_says_so_only_where_it_was_done(released: Released, tmp_path: Path) -> None:
    path, _ = written(released, tmp_path)
    beside = path.with_name("counts.csv.statement.json")
    assert json.loads(beside.read_text())["table"]["formulas"] == "apostrophe/2"
    counted(("a", 90), ("it's", 80)).write(str(path), overwrite=True)
    assert json.loads(beside.read_text())["table"].keys() == {"format", "sha256"}


def test_a_file_of_before_keeps_its_meaning(tmp_path: Path) -> None:
    """With the earlier word, one apostrophe was put at the beginning of a cell, before fewer signs."""
    path, _ = written(counted(("a", 90), ("b", 80), ("c", 70)), tmp_path)
    content = path.read_bytes().replace(b"\r\na,", b"\r\n'=x;'=y,")
    content = content.replace(b"\r\nb,", "\r\n'\uff1dx,".encode()).replace(b"\r\nc,", b"\r\n''-x,")
    beside = path.with_name("counts.csv.statement.json")
    statement = json.loads(beside.read_text())
    statement["table"] |= {"formulas": "apostrophe", "sha256": hashlib.sha256(content).hexdigest()}
    assert from_csv(content, statement).values("article") == ["=x;'=y", "'\uff1dx", "'-x"]
    path.write_bytes(content)
    beside.write_text(json.dumps(statement))
    assert not [each for each in differences(target(str(path))) if "SHA-256" in each or "read" in each]


@pytest.mark.parametrize("mark", ["apostrophe/3", ["apostrophe"], 2])
def test_a_mark_of_a_later_version_is_refused(tmp_path: Path, mark: object) -> None:
    path, _ = written(counted(("a", 90)), tmp_path)
    statement = json.loads(path.with_name("counts.csv.statement.json").read_text())
    statement["table"]["formulas"] = mark
    with pytest.raises(InvalidArgument, match="is not a CSV file with the columns that are stated"):
        from_csv(path.read_bytes(), statement)


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


@given(st.lists(st.text(st.sampled_from("'=+-@\t\r\na,;\" \uff1d\uff20"), max_size=5), unique=True))
def test_every_text_comes_back(texts: list[str]) -> None:
    released = counted(*((text, 90) for text in texts))
    statement = {**released.statement, "table": FORMULAS_MARK}
    assert from_csv(to_csv(released), statement).rows == released.rows
