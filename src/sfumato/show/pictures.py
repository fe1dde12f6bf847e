"""A chart: a drawing and its Vega-Lite specification, and the files they become."""

from __future__ import annotations

import html
import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from sfumato.errors import InvalidArgument
from sfumato.show.drawing import WIDTH, Drawing

_MIME = "application/vnd.vegalite.v5+json"


class Draw(Protocol):
    """What draws a picture for paper of a width; without its head, where the page has one."""

    def __call__(self, *, width: float, headed: bool) -> Drawing: ...


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture: as a drawing, and as a Vega-Lite specification that carries its own data."""

    spec: dict[str, Any]
    draw: Draw = field(repr=False, compare=False)

    @property
    def title(self) -> str:
        text = self.spec["title"]["text"]
        return text if isinstance(text, str) else ", ".join(text)

    def to_json(self) -> str:
        return json.dumps(self.spec, indent=2, ensure_ascii=False)

    def to_svg(self) -> str:
        return self.draw(width=WIDTH, headed=True).with_attributes()

    def to_page_svg(self, *, width: float = WIDTH, classes: tuple[str, ...] = ()) -> str:
        """The drawing without its head, for a page whose stylesheet has its looks."""
        return self.draw(width=width, headed=False).with_classes(*classes)

    def to_png(self, scale: float = 2) -> bytes:
        try:
            import vl_convert
        except ModuleNotFoundError as missing:
            raise ModuleNotFoundError("a chart as PNG needs: pip install 'sfumato[plots]'") from missing
        png: bytes = vl_convert.svg_to_png(self.to_svg(), scale=scale)
        return png

    def to_html(self) -> str:
        """A page with the picture and nothing else: no script, and nothing to fetch."""
        head = f'<meta charset="utf-8"><title>{html.escape(self.title)}</title>'
        return f"<!doctype html>\n<html><head>{head}</head>\n<body>{self.to_svg()}</body></html>\n"

    def save(self, path: str | Path) -> None:
        """Write the chart. The ending of `path` chooses the format: .json, .svg, .png or .html."""
        writers: dict[str, Callable[[], str | bytes]] = {
            ".json": self.to_json,
            ".svg": self.to_svg,
            ".png": self.to_png,
            ".html": self.to_html,
        }
        path = Path(path)
        write = writers.get(path.suffix.lower())
        if write is None:
            raise InvalidArgument("path", f"must end in one of {', '.join(writers)}")
        content = write()
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        bundle: dict[str, Any] = {
            _MIME: self.spec,
            "image/svg+xml": self.to_svg(),
            "text/plain": f"Chart: {self.title}",
        }
        if importlib.util.find_spec("vl_convert"):
            bundle["image/png"] = self.to_png()
        return bundle
