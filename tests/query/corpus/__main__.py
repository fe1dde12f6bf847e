"""Compare the corpus with what the product does now; with `--write`, write it into the files."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from sfumato.errors import Refused
from tests.query.corpus.entries import FOLDER, LABELS, Entry, fits, read_file, write_file
from tests.query.corpus.exact import Shop


def actual(entry: Entry, shop: Shop) -> tuple[Entry, str]:
    """The entry as the product has it now, and what is wrong with its result or its reason."""
    try:
        found = shop.ask(entry.sql)
    except Refused as refusal:
        words = str(refusal)
        label = entry.refused
        if not fits(words, label):
            label = next((each for each in LABELS if fits(words, each)), "?")
        return replace(entry, refused=label, cores=(), price=""), f"refused: {words}"
    now = replace(entry, refused="", cores=found.cores, price=found.price)
    if entry.duckdb == "none":
        return now, ""
    return now, shop.expect(entry.duckdb or entry.sql).problem(found)


def main() -> int:
    is_written, only = "--write" in sys.argv, [each for each in sys.argv[1:] if each != "--write"]
    counts = dict.fromkeys(("accepted", *LABELS), 0)
    with TemporaryDirectory() as folder, closing(Shop(Path(folder))) as shop:
        for path in sorted(FOLDER.glob("*.sql")):
            if only and path.stem not in only:
                continue
            blocks = [*read_file(path)]
            for place, block in enumerate(blocks):
                if isinstance(block, str):
                    continue
                try:
                    now, problem = actual(block, shop)
                except Exception as error:
                    print(f"{block.id}\n    {type(error).__name__}: {error}")  # noqa: T201
                    continue
                counts[now.refused or "accepted"] = counts.get(now.refused or "accepted", 0) + 1
                if now != block or (problem and not now.refused):
                    print(f"{block.id}\n    {problem or now.cores}")  # noqa: T201
                blocks[place] = now
            if is_written:
                write_file(path, blocks)
    print("\n".join(f"{count:5} {label}" for label, count in counts.items() if count))  # noqa: T201
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
