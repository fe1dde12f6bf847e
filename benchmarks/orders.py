"""What xxHash64 costs a release on DuckDB, beside the order of keys that there was before it.

That order was a mix of products modulo 2^64, which only numpy can compute at a reasonable price: it is kept here, and
nowhere else.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from sqlglot import exp

from benchmarks import bounding, plume_data, releases
from benchmarks.timing import milliseconds, side_by_side, table
from sfumato.engines.contributions import CODE_BITS, CodeValues
from sfumato.engines.duckdb import codes as duckdb_codes
from sfumato.mechanisms.stream import Words64
from sfumato.release import Job, aggregates_job
from sfumato.release.bounding import KeyOrder

REPEATS, TARGET = 5, 1.15
FORMS = ("integers", "text")
_MIX = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)


class EarlierOrder(KeyOrder):
    """h = the upper 20 bits of mix(a * person + b * key), with odd a and b."""

    def pair_hashes(self, people: CodeValues, persons: Words64, keys: CodeValues, codes: Words64) -> Words64:
        hashes, of_keys = people.bits(persons), keys.bits(codes)
        hashes *= np.uint64(self.a | 1)
        of_keys *= np.uint64(self.b | 1)
        hashes += of_keys
        for factor in _MIX:
            hashes ^= hashes >> np.uint64(33)
            hashes *= factor
        return hashes


def report(people: int = releases.PEOPLE) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "integers.parquet"
        rows = plume_data.write(path, people)
        lines = [line for form in FORMS for line in _lines(form, bounding._rewritten(path, form))]
    return (
        "## The order of keys: xxHash64 beside the mix before it\n\n"
        f"The Plume paper's synthetic data, {people:,} people and {rows:,} rows in one Parquet file; the whole release "
        "on DuckDB, from opening the file to the noisy table. The earlier order was a mix of products, and its 64 bits "
        f"of text were the lower half of MD5. {CODE_BITS} bits of a word are codes in both.\n\n"
        + table(["person and key", "L", "mix", "xxHash64", "ratio", "target", "verdict"], lines)
    )


def _lines(form: str, path: Path) -> list[tuple[str, ...]]:
    lines = []
    for most in bounding.TARGETS:
        job = aggregates_job(
            str(path), unit="person", key="key", max_keys=most, epsilon=releases.EPSILON, delta=releases.DELTA
        )
        best = side_by_side(
            {"mix": partial(_run_earlier, job), "xxHash64": partial(releases.run, job)}, repeats=REPEATS
        )
        ratio = best["xxHash64"] / best["mix"]
        times = milliseconds(best["mix"]), milliseconds(best["xxHash64"])
        verdict = "met" if ratio <= TARGET else "missed"
        lines.append((form, str(most), *times, f"{ratio:.2f}", f"≤ {TARGET}", verdict))
    return lines


def _run_earlier(job: Job) -> Any:
    with earlier():
        return releases.run(job)


@contextmanager
def earlier() -> Iterator[None]:
    """The order and the bits that there were before."""
    of: Callable[..., KeyOrder] = KeyOrder.of
    with ExitStack() as patches:
        made = classmethod(lambda cls, *given: EarlierOrder(of(*given).a, of(*given).b))
        patches.enter_context(patch.object(KeyOrder, "of", made))
        patches.enter_context(patch.object(duckdb_codes, "_bits_of", _earlier_bits))
        yield


def _earlier_bits(columns: Sequence[duckdb_codes.CodedColumn], names: Sequence[str]) -> exp.Expr:
    if len(columns) == 1 and columns[0].kind in duckdb_codes.INTEGERS:
        return exp.cast(exp.column(names[0]), "BIGINT")
    texts = [exp.cast(exp.column(name), "VARCHAR") for name in names]
    pieces = [piece for text in texts for piece in (exp.func("length", text.copy()), exp.Literal.string(":"), text)]
    return exp.func("md5_number_lower", exp.func("concat", *pieces))
