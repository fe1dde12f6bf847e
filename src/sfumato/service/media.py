"""Media types of answers and reports: JSON, and their rows as CSV or as an Arrow stream. `Accept` chooses."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec

from starlette.responses import Response

from sfumato.errors import InvalidArgument
from sfumato.service.bodies import AsgiScope
from sfumato.service.reply import JSON, budget_headers, json_reply
from sfumato.wire import Answer

CSV, ARROW = "text/csv", "application/vnd.apache.arrow.stream"
TABLES = (CSV, ARROW)
"""The types that have the rows alone; the essentials of the receipt are in headers."""


class NotAcceptable(InvalidArgument):
    """`Accept` has none of the types that there are."""


def accepted(scope: AsgiScope) -> str | None:
    """The `Accept` of a request; several are one list."""
    return ",".join(str(value, "latin-1") for name, value in scope["headers"] if name == b"accept") or None


@lru_cache(maxsize=256)
def negotiate(accept: str | None) -> str:
    """The media type that `Accept` prefers, and JSON where it has no preference (RFC 9110, 12.5.1)."""
    offered = (JSON, CSV, ARROW) if find_spec("pyarrow") else (JSON, CSV)
    if accept is None or not accept.strip():
        return JSON
    ranges = [_read_range(each) for each in accept.split(",")]
    qualities = {media: _quality(media, ranges) for media in offered}
    best = max(offered, key=qualities.__getitem__)  # of equals the first
    if qualities[best] > 0:
        return best
    missing = "" if ARROW in offered else f"; {ARROW} needs pip install 'sfumato[arrow]' at the service"
    raise NotAcceptable("Accept", f"must allow {' or '.join(offered)}{missing}")


def _read_range(text: str) -> tuple[str, float]:
    """A media range and its quality, without its other parameters. What cannot be read is not wanted."""
    media, *parameters = (part.strip().lower() for part in text.split(";"))
    weights = [value for name, _, value in (each.partition("=") for each in parameters) if name.strip() == "q"]
    try:
        quality = float(weights[0]) if weights else 1.0
    except ValueError:
        quality = 0.0
    return media, quality if 0 <= quality <= 1 else 0.0


def _quality(media: str, ranges: list[tuple[str, float]]) -> float:
    """The quality of a type: that of the most specific range that it is in."""
    for name in (media, f"{media.partition('/')[0]}/*", "*/*"):
        fitting = [quality for each, quality in ranges if each == name]
        if fitting:
            return max(fitting)
    return 0.0


def answer_reply(answer: Answer, media: str, headers: dict[str, str] | None = None) -> Response:
    """An answer or a report as this type. Without its own headers it has those of its receipt's budget."""
    receipt = answer.receipt
    headers = {
        **(budget_headers(receipt.left, receipt.resets) if headers is None else headers),
        "sfumato-digest": receipt.digest,
        "sfumato-charge-information": str(receipt.charge.information),
        "sfumato-charge-calls": str(receipt.charge.calls),
        "vary": "Accept",
    }
    if media == CSV:
        return Response(answer.to_csv(), headers=headers, media_type=CSV)
    if media == ARROW:
        return Response(answer.to_arrow_stream(), headers=headers, media_type=ARROW)
    return json_reply(answer, headers)


def etag(digest: str, media: str) -> str:
    """The ETag of a stored answer: its digest, and what tells the types of its rows apart."""
    return f'"{digest}"' if media == JSON else f'"{digest};{media.rpartition(".")[2].rpartition("/")[2]}"'
