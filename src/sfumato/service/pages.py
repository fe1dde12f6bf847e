"""Pages for people: the interactive documentation and one page per type of problem. All from local files."""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path

import fastapi_offline
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from sfumato.problems import PLACE, PROBLEM_TYPES, ProblemType
from sfumato.service.openapi import openapi

# Swagger UI writes inline styles. Nothing else needs an exception.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; frame-ancestors 'none'"
)
_NO_CACHE = {"cache-control": "no-cache"}
_HEADERS = {"content-security-policy": _POLICY, **_NO_CACHE}

_SWAGGER = Path(fastapi_offline.__file__).parent / "static"

_START = """\
window.ui = SwaggerUIBundle({
  url: "openapi.json", dom_id: "#docs", deepLinking: true, persistAuthorization: false, validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis], syntaxHighlight: false, tryItOutEnabled: true
});
"""

_STYLE = """\
body { font: 17px/1.55 Georgia, serif; max-width: 40rem; margin: 4rem auto; padding: 0 1.2rem; color: #222; }
h1 { font-weight: normal; } h1 small { color: #777; font-size: 60%; margin-left: .6rem; }
code { font-size: 90%; background: #f3f1ec; padding: .1em .3em; } a { color: #7a4a21; }
"""

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="{style}">
</head>
<body>
{body}
</body>
</html>
"""

_DOCS = _PAGE.format(
    title="Sfumato: HTTP API",
    style="assets/swagger/swagger-ui.css",
    body='<div id="docs"></div>\n<script src="assets/swagger/swagger-ui-bundle.js"></script>\n'
    '<script src="assets/start.js"></script>',
)

_FRONT = _PAGE.format(
    title="Sfumato",
    style="assets/page.css",
    body="<h1>Sfumato</h1>\n<p>Private answers about people, under an exact budget.</p>\n"
    '<p><a href="docs">API documentation</a>, <a href="openapi.json">OpenAPI document</a>, '
    '<a href="readyz">readiness</a>.</p>',
)


def add_pages(app: FastAPI) -> None:
    """Add the pages to an application that has all its other routes: they describe them."""
    document = json.dumps(openapi(app), separators=(",", ":")).encode()
    problems = {kind.name: problem_page(kind) for kind in PROBLEM_TYPES}

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi_json() -> Response:
        return Response(document, media_type="application/json", headers=_NO_CACHE)

    @app.get("/", include_in_schema=False)
    async def front() -> Response:
        return HTMLResponse(_FRONT, headers=_HEADERS)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(_DOCS, headers=_HEADERS)

    @app.get("/assets/start.js", include_in_schema=False)
    async def start() -> Response:
        return Response(_START, media_type="text/javascript", headers=_NO_CACHE)

    @app.get("/assets/page.css", include_in_schema=False)
    async def style() -> Response:
        return Response(_STYLE, media_type="text/css", headers=_NO_CACHE)

    @app.get(PLACE + "{name}", include_in_schema=False)
    async def problem(request: Request) -> Response:
        page = problems.get(request.path_params["name"])
        if page is None:
            raise HTTPException(404)
        return HTMLResponse(page, headers=_HEADERS)

    app.mount("/assets/swagger", StaticFiles(directory=_SWAGGER), name="swagger")


def problem_page(kind: ProblemType) -> str:
    meaning = re.sub("`(.*?)`", r"<code>\1</code>", escape(kind.meaning))
    title = f"<h1>{escape(kind.title)} <small>{kind.status}</small></h1>"
    body = f'{title}\n<p>{meaning}</p>\n<p><a href="../docs">API documentation</a></p>'
    return _PAGE.format(title=kind.title, style="../assets/page.css", body=body)
