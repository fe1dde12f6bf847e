"""The noise key: what is taken for one, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sfumato.config.noise_key import KEY_BYTES, new_key, read_key
from sfumato.errors import ConfigError


def written(folder: Path, content: bytes) -> Path:
    path = folder / "noise.key"
    path.write_bytes(content)
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    "content",
    [
        bytes(KEY_BYTES),
        b"\xff" * KEY_BYTES,
        b"k" * KEY_BYTES,
        b"ab" * (KEY_BYTES // 2),
        b"secret\n" * 4 + b"secr",
        bytes(KEY_BYTES - 6) + bytes(range(1, 7)),
    ],
    ids=["zeros", "ones", "one letter", "two letters", "a word", "zeros and a few"],
)
def test_a_key_of_few_different_bytes_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ConfigError, match=r"noise\.key_file: .*can be guessed.*head -c 32 /dev/urandom"):
        read_key(written(tmp_path, content))


@pytest.mark.parametrize("size", [0, 1, KEY_BYTES - 1, KEY_BYTES + 1])
def test_a_key_of_another_length_is_refused(tmp_path: Path, size: int) -> None:
    with pytest.raises(ConfigError, match=r"exactly 32 random bytes.*head -c 32 /dev/urandom"):
        read_key(written(tmp_path, os.urandom(size)))


def test_a_random_key_is_taken(tmp_path: Path) -> None:
    new_key(tmp_path / "noise.key")
    assert read_key(tmp_path / "noise.key") == (tmp_path / "noise.key").read_bytes()


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o604, 0o602, 0o666], ids=oct)
def test_a_key_that_others_can_read_or_write_is_refused(tmp_path: Path, mode: int) -> None:
    new_key(tmp_path / "noise.key")
    (tmp_path / "noise.key").chmod(mode)
    with pytest.raises(ConfigError, match=r"noise\.key_file: .*can be read by others; run: chmod 600"):
        read_key(tmp_path / "noise.key")
