"""The pictures of pages in the docs: a page that has changed its words needs a new picture."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from playwright.sync_api import Browser

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
MAX_BYTES = 60_000
NOISY = re.compile(r"\b[a-z]+(?:-[a-z]+)+-\d+\b|\b[0-9a-f]{64}\b|\d[\d,.]*")
"""Names of articles and numbers."""


def words(path: Path) -> list[str]:
    """What is seen but for what follows from noise."""
    return NOISY.sub("", path.read_text("utf-8")).split()


def test_pages_in_the_docs_say_what_they_said_when_their_pictures_were_taken(tmp_path: Path, browser: Browser) -> None:
    """Otherwise: `make docs`."""
    runpy.run_path(str(DOCS / "pictures.py"))["photograph"](tmp_path, browser)
    taken = {path.name: words(path) for path in tmp_path.glob("*.txt")}
    assert taken == {path.name: words(path) for path in (DOCS / "pictures").glob("*.txt")}
    assert len(taken) >= 7


def test_pictures_of_pages_are_small_and_have_their_words() -> None:
    pictures = [*(DOCS / "pictures").glob("*.webp")]
    assert {path.stem for path in pictures} == {path.stem for path in (DOCS / "pictures").glob("*.txt")}
    for path in pictures:
        assert 5_000 < path.stat().st_size < MAX_BYTES
