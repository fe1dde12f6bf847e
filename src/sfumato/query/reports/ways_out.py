"""Questions to a report that may be meant by one that was refused: another name, another range, fewer options.

They are proposals. `sfumato.reports` plans each of them, and offers those that would not be refused. They hold what the
caller sent and names of the policy, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sfumato.errors import NotSupported


def report_ways_out(refusal: NotSupported, question: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The proposals for a refused question, the likeliest first."""
    for changed in refusal.instead:
        yield {**question, **changed}
    if refusal.nearest and refusal.field == refusal.unknown:  # the name of a field
        yield {refusal.nearest if name == refusal.unknown else name: value for name, value in question.items()}
    elif refusal.nearest and refusal.field in question:
        yield {**question, refusal.field: _renamed(question[refusal.field], refusal.unknown, refusal.nearest)}
    elif refusal.field in ("top", "options") and refusal.field in question:
        yield {name: value for name, value in question.items() if name != refusal.field}


def _renamed(value: Any, unknown: str, nearest: str) -> Any:
    """A value of a field, with a known name instead of the one that is not known."""
    if isinstance(value, Mapping):
        return {nearest if name == unknown else name: each for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [nearest if each == unknown else each for each in value]
    return nearest
