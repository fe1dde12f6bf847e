"""Run every section, print it as it comes, and write them all to RESULTS.md beside this file.

With names of modules, such as `python -m benchmarks shares padding`, only their sections are run and replaced there.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from benchmarks import (
    answers,
    bounded,
    bounding,
    console,
    counts,
    draws,
    frames,
    globo,
    mechanisms,
    orders,
    padding,
    peers,
    pinot,
    postgres,
    quantiles,
    ranges,
    releases,
    reports,
    reproduction,
    retained,
    service,
    shares,
    soak,
    spark,
    thresholds,
)

RESULTS = Path(__file__).with_name("RESULTS.md")
SECTIONS: tuple[Callable[[], str], ...] = (
    draws.large,
    draws.small,
    draws.opendp,
    mechanisms.report,
    thresholds.report,
    globo.report,
    answers.overhead,
    answers.ledger,
    pinot.report,
    service.report,
    console.report,
    shares.report,
    padding.report,
    bounding.sorts,
    bounding.report,
    orders.report,
    releases.report,
    releases.large,
    frames.report,
    postgres.report,
    spark.report,
    spark.growth,
    retained.report,
    peers.report,
    bounded.report,
    quantiles.report,
    counts.report,
    reproduction.report,
    reports.paper,
    reports.speed,
    reports.noise,
    ranges.report,
    ranges.gaussian,
)


def main() -> None:
    started = time.perf_counter()
    parts = [_opening()]
    print(parts[0])
    for section in SECTIONS:
        parts.append(section())
        print(parts[-1], flush=True)
    RESULTS.write_text("\n".join(parts), encoding="utf-8")
    print(f"written to {RESULTS.name} after {time.perf_counter() - started:.0f} s")


def replace(names: list[str]) -> None:
    """Run the sections of these modules, and put them in the place of the earlier ones; new ones come last."""
    modules = {section.__module__.removeprefix("benchmarks."): section for section in SECTIONS}
    if unknown := sorted({*names} - modules.keys()):
        raise SystemExit(f"there is no section {', '.join(unknown)}; there is {', '.join(modules)}")
    blocks = {block.partition("\n")[0]: block for block in _split(RESULTS.read_text("utf-8"))}
    for section in SECTIONS:
        if section.__module__.removeprefix("benchmarks.") in names:
            measured = section()
            print(measured, flush=True)
            blocks |= {block.partition("\n")[0]: block for block in _split(measured)}
    RESULTS.write_text("\n".join(block.rstrip("\n") + "\n" for block in blocks.values()), "utf-8")


def _split(text: str) -> list[str]:
    """The blocks of a text, each with its heading."""
    return re.split(r"^(?=## )", text, flags=re.MULTILINE)[text.startswith("## ") :]


def _opening() -> str:
    return (
        "# Benchmarks\n\n"
        "Written by `make bench`. Times are the best of several repeats, and contestants take turns, so all of "
        "them see the same machine; trust the ratios more than the times.\n\n"
        f"{os.cpu_count()} cores, Python {platform.python_version()}, numpy {version('numpy')}.\n"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["soak"]:
        sys.exit(soak.main(sys.argv[2:]))
    if sys.argv[1:]:
        replace(sys.argv[1:])
    else:
        main()
