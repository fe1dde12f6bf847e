"""Rows as CSV, safe to open in a spreadsheet.

A spreadsheet runs a cell that begins like a formula. Such text gets an apostrophe, which spreadsheets take for text. In
some countries a spreadsheet begins a new cell at a semicolon or a tab, wherever it is. So the text behind one is looked
at like the beginning, and text with one is quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from sfumato.types import TYPES

_SIGNS = "=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20"  # the last four are = + - @ in full width
_BEGINNING = "(?:\\A|(?<=[;\t\r\n]))"
# Apostrophes before a sign are counted: one more of them can be taken away again.
_FORMULA = re.compile(f"{_BEGINNING}(?='*[{_SIGNS}])")
_ESCAPED = re.compile(f"{_BEGINNING}'(?='*[{_SIGNS}])")
_ESCAPED_EARLIER = re.compile("\\A'(?='*[=+\\-@\t\r\n])")
_QUOTED = re.compile('[",;\t\r\n]')


def write_csv(columns: Mapping[str, str], data: Mapping[str, Iterable[Any]]) -> bytes:
    """`data`, an iterable per column, as CSV (RFC 4180) with a header, in UTF-8. What is missing is empty."""
    cells = (
        ["" if value is None else str(write(value)) for value in data[name]]
        for name, write in ((name, _cell if kind == "text" else TYPES[kind].to_csv) for name, kind in columns.items())
    )
    # A row of one empty text is not an empty line, which would be no row.
    rows = [",".join(row) or '""' for row in (tuple(map(_cell, columns)), *zip(*cells, strict=True))]
    return "".join(f"{row}\r\n" for row in rows).encode()


def _cell(text: str) -> str:
    escaped = escape(text)
    return '"' + escaped.replace('"', '""') + '"' if _QUOTED.search(escaped) else escaped


def is_formula(text: str) -> bool:
    """Whether a spreadsheet may run a cell with this text, or a part of it."""
    return _FORMULA.search(text) is not None


def escape(text: str) -> str:
    """The text as a cell that no spreadsheet runs."""
    return _FORMULA.sub("'", text)


def unescape(text: str) -> str:
    """The inverse of `escape`."""
    return _ESCAPED.sub("", text)


def unescape_earlier(text: str) -> str:
    """The same for files of before: then only the beginning of a cell was looked at, for fewer signs."""
    return _ESCAPED_EARLIER.sub("", text)
