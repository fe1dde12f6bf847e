"""Draw the pictures of docs/pictures/ from the demo's generated people: `python docs/pictures.py`.

The charts are the ones that users get. Only the randomness is fixed: a second run writes the same files.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import duckdb

import sfumato as sf
from sfumato.demo import demo

PICTURES = Path(__file__).parent / "pictures"
ARTICLE = "cookie-free-ads-51"


def draw(target: Path) -> None:
    """Write every picture into `target`."""
    target.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory() as state,  # every run has the same ledger, whose last fence is ahead of it
        mock.patch.dict("os.environ", {"XDG_STATE_HOME": state}),
        contextlib.chdir(folder),  # the path of a source is part of a release, and so of its noise
        mock.patch("os.urandom", fixed_bytes(b"pictures of the docs")),
    ):
        config = demo.prepare(Path())
        fix_version(config)
        with sf.open(config) as session:
            draw_answers(session, target)
            draw_report(session, target)
        draw_release(target)


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


if __name__ == "__main__":
    draw(PICTURES)
    for path in sorted(PICTURES.iterdir()):
        sys.stdout.write(f"wrote docs/pictures/{path.name}, {path.stat().st_size:,} bytes\n")
