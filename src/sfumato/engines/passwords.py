"""Passwords of roles: each stands in a file, which `password_file` names."""

from __future__ import annotations

from pathlib import Path

from sfumato.errors import EngineFailed


def read_password(file: Path | None) -> str | None:
    """The text of the file, without the end of its line; None without a file."""
    if file is None:
        return None
    try:
        return file.read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError):
        raise EngineFailed(f"{str(file)!r} cannot be read", setting="password_file") from None
