"""The documentation site builds without warnings or a network, loads nothing from elsewhere, and has no dead link."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]

# Sphinx, in a process that cannot connect to anything.
BUILD = """
import socket, sys
from sphinx.cmd.build import main

def refuse(*_):
    raise OSError("the site is built without a network")

socket.socket.connect = refuse
sys.exit(main(sys.argv[1:]))
"""

KEY_PAGES = [
    "index.html",
    "search.html",
    "docs/index.html",
    "docs/tutorials/ten-minutes.html",
    "docs/notebooks/first-questions.html",
    "docs/how-to/serve-it.html",
    "docs/reference/cli.html",
    "docs/reference/stability.html",
    "docs/explanation/promise.html",
    "docs/adr/0001-exact-charges.html",
    "proofs/unknown_gumbel.html",
    "benchmarks/RESULTS.html",
    "README.html",
    "CHANGELOG.html",
    "CONTRIBUTING.html",
    "SECURITY.html",
]


@dataclass
class Page(HTMLParser):
    """What a page links to, what it loads, and the anchors it has."""

    text: str
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            if name in ("href", "src", "data", "poster", "xlink:href") and value:
                (self.links if tag == "a" else self.loads).append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    options = ["-q", "-W", "--keep-going", "-d", folder / "doctrees", "-c", ROOT / "docs", ROOT, folder / "html"]
    done = subprocess.run([sys.executable, "-c", BUILD, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def is_external(address: str) -> bool:
    return bool(urlsplit(address).netloc)


@pytest.mark.slow
def test_key_pages_are_there(site):
    assert [name for name in KEY_PAGES if not (site / name).exists()] == []


@pytest.mark.slow
def test_every_markdown_file_is_a_page(site):
    sources = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "proofs").glob("*.md")]
    names = [source.relative_to(ROOT).with_suffix(".html") for source in sources]
    assert [str(name) for name in names if not (site / name).exists()] == []


@pytest.mark.slow
def test_no_page_loads_anything_from_elsewhere(site, pages):
    assert [
        (str(path), address) for path, page in pages.items() for address in page.loads if is_external(address)
    ] == []
    for path in site.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"url\(\s*[\"']?(?:https?:)?//[^)]*\)|@import[^;]*//[^;]*;", text) == [], path


@pytest.mark.slow
def test_every_local_link_leads_somewhere(site, pages):
    broken = []
    for path, page in pages.items():
        for address in [*page.links, *page.loads]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            is_known = target.is_file() and (
                not parts.fragment or target not in pages or unquote(parts.fragment) in pages[target].anchors
            )
            if not is_known:
                broken.append((str(path.relative_to(site)), address))
    assert broken == []


@pytest.mark.slow
def test_the_search_index_knows_the_words_of_the_pages(site):
    text = (site / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    found = index["terms"]["fenc"]  # the stem of "fence"
    names = {index["docnames"][number] for number in ([found] if isinstance(found, int) else found)}
    assert "docs/how-to/look-after-the-ledger" in names


@pytest.mark.slow
def test_the_charts_are_shown(pages):
    shown = {Path(address).name for page in pages.values() for address in page.loads}
    pictures = [path for path in (ROOT / "docs" / "pictures").iterdir() if path.suffix != ".txt"]
    assert pictures
    for picture in pictures:
        assert picture.name in shown
        assert picture.stat().st_size < 100_000


DRAW_TWICE = """
import pathlib, runpy, sys
draw = runpy.run_path(sys.argv[1])["draw"]
for target in sys.argv[2:]:
    draw(pathlib.Path(target))
"""


@pytest.mark.slow
def test_pictures_are_the_same_when_they_are_drawn_again(tmp_path):
    """On one machine: the ledger of every run is the same, and the user's state folder stays."""
    targets = [tmp_path / "first", tmp_path / "second"]
    command = [sys.executable, "-c", DRAW_TWICE, ROOT / "docs" / "pictures.py", *targets]
    subprocess.run(command, check=True, timeout=300)
    first, second = ({file.name: file.read_bytes() for file in target.iterdir()} for target in targets)
    assert first.keys() == {file.name for file in (ROOT / "docs" / "pictures").glob("*.svg")}
    assert first == second
