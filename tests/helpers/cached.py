"""What tests download once, in a cache folder of the user."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sfumato-tests"


def cached(name: str, fill: Callable[[Path], object]) -> Path:
    """The folder `name` of the cache, which exists when it is complete. One process fills it; others wait for it."""
    folder = cache() / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            part = folder.with_name(f"{folder.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            fill(part)
            part.rename(folder)
    return folder
