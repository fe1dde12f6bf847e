"""The files of the corpus. A statement stands under what is expected of it, and ends at an empty line:

    -- core: SELECT region, customers FROM orders GROUP BY region ORDER BY customers DESC LIMIT 4
    -- price: 1 unit and 0 calls
    SELECT region, COUNT(DISTINCT customer_id) FROM orders GROUP BY region

    -- refused: lists people
    SELECT * FROM orders LIMIT 100

An accepted statement has a `core` for each question that is bought, in the canonical form, and the `price` of all of
them. What the policy answers for nothing has the price `free` and no core. `duckdb` is the same statement in words of
DuckDB, where these are not the words of the statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
FREE = "free"

LABELS: dict[str, str] = {
    "lists people": "rows cannot be listed|would list people|people are counted, not named",
    "values are private": "its values exist only in the data",
    "no private form": "has no private form|have no private form",
    "not in the policy": "is not allowed for",
    "needs a bound": "no bound|has no min|needs bounds",
    "not supported yet": "not supported yet",
    "several meanings": "could mean|is the name of a column of|two columns are called",
    "no such name": "there is no (table|column|schema)|no column|information_schema has",
    "no such function": "is not a function of one row",
    "wrong types": "cannot be compared|is compared with something|is not a condition",
    "text is no date": "text is ordered by its characters|ordered by its characters",
    "changes every time": "would be another question every time",
    "no question": "cannot be asked|ask one SELECT at a time|nothing is asked without FROM",
    "syntax": "could not be read as SQL|is not understood here",
}
"""The reasons of refusals, and how the words of the refusal say them. There are no others."""

_HEAD = re.compile(r"-- (core|price|refused|duckdb): (.*)")


@dataclass(frozen=True)
class Entry:
    """A statement and what is expected of it: a refusal for a reason, or cores and their price."""

    file: str
    sql: str
    refused: str = ""
    cores: tuple[str, ...] = ()
    price: str = ""
    duckdb: str = ""

    @property
    def id(self) -> str:
        return f"{self.file}: {' '.join(self.sql.split())[:80]}"

    def __str__(self) -> str:
        lines = [f"-- duckdb: {self.duckdb}"] if self.duckdb else []
        if self.refused:
            lines += [f"-- refused: {self.refused}"]
        else:
            lines += [*(f"-- core: {core}" for core in self.cores), f"-- price: {self.price}"]
        return "\n".join([*lines, self.sql, ""])


def read_file(path: Path) -> Iterator[Entry | str]:
    """The entries of a file, and the comments between them as they are."""
    for block in re.split(r"\n\s*\n", path.read_text(encoding="utf-8").strip("\n")):
        lines = block.split("\n")
        heads = [found for line in lines if (found := _HEAD.fullmatch(line))]
        text = [line for line in lines if not _HEAD.fullmatch(line)]
        if all(line.startswith("-- ") for line in text) and not heads:
            yield block
            continue
        of = {name: [head[2] for head in heads if head[1] == name] for name in ("core", "price", "refused", "duckdb")}
        one = {name: (of[name] or [""])[0] for name in ("price", "refused", "duckdb")}
        yield Entry(path.stem, "\n".join(text), cores=tuple(of["core"]), **one)


def read_all() -> list[Entry]:
    """All statements of the corpus."""
    files = sorted(FOLDER.glob("*.sql"))
    return [entry for path in files for entry in read_file(path) if isinstance(entry, Entry)]


def fits(words: str, label: str) -> bool:
    """Whether the words of a refusal say this reason."""
    return re.search(LABELS.get(label, "$^"), words) is not None


def write_file(path: Path, blocks: list[Entry | str]) -> None:
    path.write_text("\n".join(f"{block}" if isinstance(block, Entry) else f"{block}\n" for block in blocks), "utf-8")
