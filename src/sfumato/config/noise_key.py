"""The noise key: 32 random bytes in a file that only its owner can read.

With the key and its nonce, the noise can be taken off a stored answer. To lose the key loses no answer: another key is
another epoch, in which every question is new and is charged.
"""

from __future__ import annotations

import hmac
import os
import stat
from pathlib import Path

from sfumato.errors import ConfigError

KEY_BYTES = 32
MIN_DIFFERENT = 8  # 32 random bytes have fewer different ones once in 10^36 draws
SETTING = "noise.key_file"
MAKE_ONE = "`sfumato init` makes a key, and so does: head -c 32 /dev/urandom > noise.key"


class NoiseKey(bytes):
    """A key whose `repr` hides it: tracebacks and logs do not show it."""

    def __repr__(self) -> str:
        return "<noise key>"

    __str__ = __repr__


def new_key(path: Path) -> None:
    """Write a fresh key, readable by its owner only. A file that is there already stays as it is."""
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise ConfigError(SETTING, f"{str(path)!r} exists; a key is never overwritten") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(os.urandom(KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())


def read_key(path: Path) -> NoiseKey:
    """The key. `ConfigError` where it is none, or where others can read the file."""
    try:
        with path.open("rb") as file:
            mode, key = os.fstat(file.fileno()).st_mode, file.read(KEY_BYTES + 1)
    except OSError:
        way_out = "put it back, or make a new one: see docs/how-to/look-after-the-ledger.md"
        raise ConfigError(SETTING, f"{str(path)!r} cannot be read; {way_out}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise ConfigError(SETTING, f"{str(path)!r} can be read by others; run: chmod 600 {str(path)!r}")
    if len(key) != KEY_BYTES:
        raise ConfigError(SETTING, f"{str(path)!r} must hold exactly {KEY_BYTES} random bytes; {MAKE_ONE}")
    if len(set(key)) < MIN_DIFFERENT:
        problem = f"holds the same few bytes again and again, which can be guessed; {MAKE_ONE}"
        raise ConfigError(SETTING, f"{str(path)!r} {problem}")
    return NoiseKey(key)


def epoch(key: bytes) -> str:
    """A public name for a key: 8 hex digits, from which the key cannot be computed."""
    return hmac.digest(key, b"epoch", "sha256").hex()[:8]
