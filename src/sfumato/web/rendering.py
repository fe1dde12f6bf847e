"""Templates, the stylesheet and the script. Everything is in the package: no file comes from elsewhere."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from sfumato.show import figure, heading, key_label, visible
from sfumato.show.palette import DARK, LIGHT, stylesheet
from sfumato.show.text import describe_report_promise
from sfumato.wire.base import Cell
from sfumato.wire.tables import bounds_words

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "same-origin",  # with `no-referrer`, browsers post forms with `Origin: null`
}

WIDE, NARROW = 640, 300
"""The widths of pictures, of which a page shows the one that fits."""

_FOR_EVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Asset:
    """A file that pages load. Its digest is in its name, so it may be kept for ever."""

    path: str
    media: str
    content: bytes
    packed: bytes

    @classmethod
    def of(cls, name: str, ending: str, media: str, text: str) -> Asset:
        content = text.encode()
        digest = hashlib.sha256(content).hexdigest()[:16]
        return cls(f"/assets/{name}-{digest}.{ending}", media, content, gzip.compress(content, mtime=0))

    def reply(self, request: Request) -> Response:
        headers = {"cache-control": _FOR_EVER, "vary": "Accept-Encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(self.packed, headers=headers | {"content-encoding": "gzip"}, media_type=self.media)
        return Response(self.content, headers=headers, media_type=self.media)


def _read(name: str) -> str:
    return (resources.files("sfumato.web") / "static" / name).read_text("utf-8")


def _colours(values: dict[str, str]) -> str:
    return ";".join(f"--{name}:{value}" for name, value in values.items())


def _write_style() -> str:
    light, dark = (_colours(dict(values)) for values in (LIGHT, DARK))
    papers = f":root{{{light}}}\n@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}\n"
    return papers + _read("console.css") + stylesheet()


STYLE = Asset.of("console", "css", "text/css", _write_style())
SCRIPT = Asset.of("console", "js", "text/javascript", _read("console.js"))


def _environment() -> Environment:
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=PackageLoader("sfumato.web"),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"visible": visible, "label": key_label, "heading": heading, "figure": figure, "cell": _cell}
    environment.filters |= {"promise": describe_report_promise, "bounds": bounds_words}
    environment.globals |= {"style": STYLE.path, "script": SCRIPT.path}
    return environment


def _cell(value: Cell | None) -> str:
    from sfumato.show import cell

    return key_label(cell(value))


_ENVIRONMENT = _environment()


def render(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page."""
    return HTMLResponse(_ENVIRONMENT.get_template(template).render(values), status, HEADERS)


def picture(svg: str) -> Markup:
    """A drawing of ours as a part of a page: what it holds of the data is escaped already."""
    return Markup(svg)  # noqa: S704


def download(content: str | bytes, name: str, media: str) -> Response:
    """A file to be saved. Its name is ours."""
    headers = HEADERS | {"content-disposition": f'attachment; filename="{name}"'}
    return Response(content, headers=headers, media_type=media)
