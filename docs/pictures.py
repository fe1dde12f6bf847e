"""Draw the pictures of docs/pictures/ from the demo's generated people: `PYTHONPATH=. python docs/pictures.py`.

The charts and the pages are the ones that users get. Only the randomness is fixed: a second run writes the same files.
Beside the picture of a page stands its text, by which a test notices that the page has changed.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import duckdb

import sfumato as sf
from sfumato.demo import demo
from sfumato.ledger.api_keys import ApiKeys
from sfumato.service.app import create_app
from sfumato.session import Session
from sfumato.web.console import add_console

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

    from tests.helpers.screens import Screen

PICTURES = Path(__file__).parent / "pictures"
ARTICLE, SMALL_ARTICLE = "cookie-free-ads-51", "cookie-free-ads-82"
PAGE_SIZE = (1000, 720)


def draw(target: Path) -> None:
    """Write every chart into `target`."""
    target.mkdir(exist_ok=True)
    with prepared_demo() as config:
        with sf.open(config) as session:
            draw_answers(session, target)
            draw_report(session, target)
        draw_release(target)


@contextlib.contextmanager
def prepared_demo() -> Iterator[Path]:
    """The policy of a demo in the working folder, always with the same noise key."""
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory() as state,  # every run has the same ledger, whose last fence is ahead of it
        mock.patch.dict("os.environ", {"XDG_STATE_HOME": state}),
        contextlib.chdir(folder),  # the path of a source is part of a release, and so of its noise
        mock.patch("os.urandom", fixed_bytes(b"pictures of the docs")),
    ):
        config = demo.prepare(Path())
        fix_version(config)
        yield config


def fixed_bytes(seed: bytes) -> Callable[[int], bytes]:
    """Stands in for `os.urandom`. Never outside this script: noise that can be predicted protects no person."""
    calls = itertools.count()
    return lambda size: hashlib.shake_256(seed + str(next(calls)).encode()).digest(size)


def fix_version(config: Path) -> None:
    """A data version that does not follow the clock: the noise depends on it."""
    section = "[tables.engagements]\n"
    text = config.read_text("utf-8")
    config.write_text(text.replace(section, f'{section}version = {{ value = "2026-11-01" }}\n'), "utf-8")


def draw_answers(session: sf.Session, target: Path) -> None:
    top = sf.TopK("engagements", by="article", measure="members", where={"region": "emea", "day": "2026-10-28"}, k=10)
    session.ask(top, analyst="anna").chart(title="Articles read in EMEA on 28 October").save(target / "answer.svg")


def draw_report(session: sf.Session, target: Path) -> None:
    report = session.report(
        "reading",
        analyst="anna",
        statistics=["reads"],
        entity={"article": ARTICLE},
        attribute="region",
        start="2026-10-05",
        end="2026-10-26",
        granularity="day",
    )
    report.chart().save(target / "report.svg")


def draw_release(target: Path) -> None:
    source = "engagements.parquet"
    with duckdb.connect("demo.duckdb", read_only=True) as database:
        database.sql("FROM engagements").write_parquet(source)
    released = sf.release_counts(source, unit="member_id", key="article", rho=0.05, delta=1e-9)
    released.chart(top=10).save(target / "release.svg")


def photograph(target: Path, browser: Browser) -> None:
    """Write a picture of each page that the docs show into `target`, and its text."""
    from tests.helpers.listening import listening
    from tests.helpers.screens import screen

    with prepared_demo() as config:
        (config.parent / "noise.key").write_bytes(hashlib.sha256(b"pictures of pages").digest())
        days = [demo.AFTER]
        session = Session(config, clock=lambda: days[-1])
        seal_report(session)
        with listening(create_app(session, add_console=add_console)) as url:

            def visit(name: str, walk: Callable[[Screen, Path], None]) -> None:
                role = session.config.analysts[name].role
                key, _ = ApiKeys(session.ledger).create(name, role, None, days[-1])
                with screen(browser, url) as seen:
                    seen.resize(PAGE_SIZE)
                    seen.sign_in(key)
                    walk(seen, target)

            visit(demo.ANALYST, walk_as_analyst)
            visit(demo.READER, walk_as_reader)
            for limit in (8, 12, 3, 9):
                days.append(days[-1] + timedelta(days=1))
                day = {"day": f"2026-10-{limit:02}"}
                session.ask(sf.TopK("engagements", by="article", measure="members", where=day, k=limit), analyst="anna")
            visit(demo.OWNER, walk_as_owner)


def seal_report(session: Session) -> None:
    """Draw the numbers of the pages of the report before there are threads: their turns would change the noise."""
    for article, by in (({}, None), ({"article": SMALL_ARTICLE}, "region")):
        for step in ("day", "all"):
            session.report(
                "reading",
                analyst=demo.READER,
                statistics=["reads"],
                entity={"desk": "marketing", "topic": "cookie-free-ads", **article},
                attribute=by if step == "day" else None,
                start="2026-10-05",
                end="2026-10-12",
                granularity=step,
            )


def walk_as_analyst(seen: Screen, target: Path) -> None:
    seen.sees("What may be asked")
    save_page(seen, target / "page-tables.webp")
    seen.open("/ask?table=engagements")
    for label, value in (("Column of condition 1", "region"), ("Column of condition 2", "day")):
        seen.page.get_by_label(label, exact=True).select_option(value)
    seen.page.get_by_label("Value of condition 1", exact=True).fill("emea")
    seen.page.get_by_label("Value of condition 2", exact=True).fill("2026-10-28")
    seen.page.get_by_text("day = '2026-10-28'").wait_for()
    save_page(seen, target / "page-ask.webp")
    seen.button("Ask").click()
    seen.sees("Answer")
    save_page(seen, target / "page-answer.webp")


def walk_as_reader(seen: Screen, target: Path) -> None:
    seen.sees("Reports")
    week = "statistic=reads&start=2026-10-05&end=2026-10-12&step=day&option="
    seen.open(f"/reports/reading?entity=marketing&entity=cookie-free-ads&{week}")
    save_page(seen, target / "page-report.webp")
    seen.open(f"/reports/reading?entity=marketing&entity=cookie-free-ads&entity={SMALL_ARTICLE}&{week}&by=region")
    save_page(seen, target / "page-numbers.webp", top=seen.page.locator("figure"))


def walk_as_owner(seen: Screen, target: Path) -> None:
    seen.sees("What may be asked")
    seen.open("/overview")
    save_page(seen, target / "page-overview.webp")
    seen.open("/guarantee")
    save_page(seen, target / "page-guarantee.webp", top=seen.page.locator("form[data-bet]"))


def save_page(seen: Screen, path: Path, top: Locator | None = None) -> None:
    """The page from its top, or from an element on."""
    seen.page.evaluate("document.activeElement.blur()")
    if top:
        top.evaluate("node => node.scrollIntoView()")
    taken = seen.debugger.send("Page.captureScreenshot", {"format": "webp", "quality": 80})
    path.write_bytes(base64.b64decode(taken["data"]))
    path.with_suffix(".txt").write_text(seen.text + "\n", "utf-8")


if __name__ == "__main__":
    from tests.helpers import chromium

    draw(PICTURES)
    if why := chromium.why_missing():
        sys.stdout.write(f"the pictures of pages stay as they are: {why}\n")
    else:
        with chromium.launched() as browser:
            photograph(PICTURES, browser)
    for path in sorted(PICTURES.iterdir()):
        sys.stdout.write(f"wrote docs/pictures/{path.name}, {path.stat().st_size:,} bytes\n")
