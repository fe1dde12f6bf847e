"""Recorded values, and what it means to be the same as one."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DATA, LEDGER = HERE / "data", HERE / "ledger"


def recorded(name: str) -> Any:
    return json.loads((DATA / f"{name}.json").read_text("utf-8"))


def record(name: str, values: Any) -> None:
    text = json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False)
    (DATA / f"{name}.json").write_text(text + "\n", "utf-8")


def differences(found: Any, expected: Any, where: str = "") -> list[str]:
    """Where two JSON values are not the same. Names have no order. Floats may differ in their last digits."""
    if isinstance(found, float) and isinstance(expected, float):
        return [] if math.isclose(found, expected, rel_tol=1e-12) else [f"{where}: {found} is not {expected}"]
    if type(found) is not type(expected):
        return [f"{where}: {found!r} is not {expected!r}"]
    if isinstance(found, dict):
        if found.keys() != expected.keys():
            return [f"{where}: the names {sorted(found)} are not {sorted(expected)}"]
        return [wrong for name in found for wrong in differences(found[name], expected[name], f"{where}/{name}")]
    if isinstance(found, list):
        if len(found) != len(expected):
            return [f"{where}: {len(found)} items are not {len(expected)}"]
        pairs = enumerate(zip(found, expected, strict=True))
        return [wrong for place, pair in pairs for wrong in differences(*pair, f"{where}/{place}")]
    return [] if found == expected else [f"{where}: {found!r} is not {expected!r}"]


def without_notes(value: Any) -> Any:
    """The same without the notes of answers, which are compared by themselves."""
    if isinstance(value, dict):
        return {name: without_notes(item) for name, item in value.items() if name != "notes"}
    return [without_notes(item) for item in value] if isinstance(value, list) else value


def texts(notes: list[Any]) -> list[str]:
    """The texts of notes."""
    return [note["text"] if isinstance(note, dict) else note for note in notes]
