"""Which functions of Sfumato a call visits, and how often."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sfumato

SRC = str(Path(sfumato.__file__).parent)


@contextmanager
def traced(seen: Counter[str]) -> Iterator[None]:
    """Count the calls of every function of Sfumato by file and name."""

    def note(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SRC) and not code.co_name.startswith("<"):
            seen[f"{Path(code.co_filename).relative_to(SRC)}:{code.co_qualname}"] += 1

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
