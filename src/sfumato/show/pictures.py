"""A chart: a Vega-Lite specification, and the files it becomes."""

from __future__ import annotations

import html
import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from sfumato.errors import InvalidArgument

_MIME = "application/vnd.vegalite.v5+json"


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture as a Vega-Lite specification that carries its own data."""

    spec: dict[str, Any]

    @property
    def title(self) -> str:
        text = self.spec["title"]["text"]
        return text if isinstance(text, str) else ", ".join(text)

    def to_json(self) -> str:
        return json.dumps(self.spec, indent=2, ensure_ascii=False)

    def to_svg(self) -> str:
        svg: str = _converter().vegalite_to_svg(self.spec, allowed_base_urls=[])
        return svg

    def to_png(self, scale: float = 2) -> bytes:
        png: bytes = _converter().vegalite_to_png(self.spec, scale=scale, allowed_base_urls=[])
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
        bundle: dict[str, Any] = {_MIME: self.spec, "text/plain": f"Chart: {self.title}"}
        if importlib.util.find_spec("vl_convert"):
            bundle["image/png"] = self.to_png()
        return bundle


def _converter() -> ModuleType:
    try:
        import vl_convert
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError("drawing a chart needs: pip install 'sfumato[plots]'") from missing
    return vl_convert
