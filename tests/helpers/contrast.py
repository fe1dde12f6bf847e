"""Contrast of two colours, as WCAG 2 computes it."""

from __future__ import annotations

from collections.abc import Sequence


def luminance(parts: Sequence[float]) -> float:
    """The relative luminance of red, green and blue, each from 0 to 1."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    """Of two colours like `#1d5fa3`."""
    light, dark = sorted((luminance(_parts(one)), luminance(_parts(other))), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _parts(colour: str) -> list[float]:
    return [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
