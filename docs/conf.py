"""Build the site: `make docs`. Its pages are the Markdown files of the repository, where they are and as they are.

The source folder is the root of the repository, so a link that works between two files works between two pages too.
Nothing is fetched, and no page loads anything from elsewhere (`tests/test_site.py`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# The menu: a page, and what stands below it under each caption. A pattern stands for its pages in alphabetical order.
NAVIGATION = {
    "docs/index": {
        "Tutorials": [
            "/docs/tutorials/ten-minutes",
            "/docs/tutorials/everyday-questions",
            "/docs/notebooks/first-questions",
        ],
        "How-to": [
            "/docs/how-to/serve-it",
            "/docs/how-to/give-rights",
            "/docs/how-to/show-a-report",
            "/docs/how-to/publish-a-table",
            "/docs/how-to/look-after-the-ledger",
            "/docs/how-to/*",
        ],
        "Reference": ["/docs/reference/cli", "/docs/reference/python", "/docs/reference/*"],
        "Explanation": ["/docs/explanation/promise", "/docs/explanation/*"],
        "Proofs": ["/proofs/README"],
        "Decisions": ["/docs/adr/README"],
        "Project": [
            "Read me </README>",
            "Benchmarks </benchmarks/RESULTS>",
            "/CHANGELOG",
            "/CONTRIBUTING",
            "/SECURITY",
        ],
    },
}

LISTS = ("proofs/README", "docs/adr/README")  # below these stand the pages they link to, in that order

project = "Sfumato"
html_title = "Sfumato"
language = "en"

root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "proofs/*.md", "benchmarks/RESULTS.md"]
exclude_patterns = [".*", "build", "dist", "src", "tests", "**/.ipynb_checkpoints"]

extensions = ["myst_nb"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # outputs are those in the file; the tests run notebooks from the top
suppress_warnings = ["mystnb.unknown_mime_type"]  # of a chart in Vega-Lite; its picture beside it is shown

html_theme = "furo"
html_static_path = ["site/site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
templates_path = ["site"]
html_additional_pages = {"index": "redirect.html"}
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#2f5d8a", "color-brand-content": "#2f5d8a"},
    "dark_css_variables": {"color-brand-primary": "#8fafcf", "color-brand-content": "#8fafcf"},
}


def add_menu(_app: Sphinx, page: str, source: list[str]) -> None:
    """Append hidden lists of pages (`NAVIGATION`, `LISTS`), so the files themselves hold no directives."""
    menus = {"Pages": re.findall(r"^\|.*\]\(([\w-]+)\.md\)", source[0], re.MULTILINE)} if page in LISTS else {}
    for caption, pages in (menus | NAVIGATION.get(page, {})).items():
        below = "\n".join(pages)
        source[0] += f"\n\n```{{toctree}}\n:hidden:\n:glob:\n:caption: {caption}\n\n{below}\n```\n"


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_menu)
