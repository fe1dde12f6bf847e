"""Pages for people: the interactive documentation and one page for every kind of problem. All from local files."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

import fastapi_offline
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from sfumato.problems import PLACE, PROBLEM_TYPES, ProblemType
from sfumato.service.openapi import openapi

# Swagger UI styles itself inline, and nothing else needs an exception.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; frame-ancestors 'none'"
)
_HEADERS = {"content-security-policy": _POLICY, "cache-control": "no-cache"}

_START = """\
window.ui = SwaggerUIBundle({
  url: "openapi.json", dom_id: "#docs", deepLinking: true, persistAuthorization: false, validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis], syntaxHighlight: false, tryItOutEnabled: true
});
"""

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
{head}
</head>
<body>
{body}
</body>
</html>
"""

_STYLE = """\
body { font: 17px/1.55 Georgia, serif; max-width: 40rem; margin: 4rem auto; padding: 0 1.2rem; color: #222; }
h1 { font-weight: normal; } h1 small { color: #777; font-size: 60%; margin-left: .6rem; }
code { font-size: 90%; background: #f3f1ec; padding: .1em .3em; } a { color: #7a4a21; }
"""


def add(app: FastAPI) -> None:
    """Serve the documentation of an application that has all its routes."""
    document = json.dumps(openapi(app), separators=(",", ":")).encode()
    pages = {kind.name: _problem_page(kind) for kind in PROBLEM_TYPES}

    @app.get("/openapi.json", include_in_schema=False)
    async def described() -> Response:
        return Response(document, media_type="application/json", headers={"cache-control": "no-cache"})

    @app.get("/", include_in_schema=False)
    async def root() -> Response:
        return HTMLResponse(_front(), headers=_HEADERS)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(_docs(), headers=_HEADERS)

    @app.get("/assets/start.js", include_in_schema=False)
    async def start() -> Response:
        return Response(_START, media_type="text/javascript", headers={"cache-control": "no-cache"})

    @app.get("/assets/page.css", include_in_schema=False)
    async def style() -> Response:
        return Response(_STYLE, media_type="text/css", headers={"cache-control": "no-cache"})

    @app.get(PLACE + "{name}", include_in_schema=False)
    async def explained(request: Request) -> Response:
        page = pages.get(request.path_params["name"])
        if page is None:
            raise HTTPException(404)
        return HTMLResponse(page, headers=_HEADERS)

    app.mount("/assets/swagger", StaticFiles(directory=_swagger()), name="swagger")


def _swagger() -> Path:
    """The files of Swagger UI, which fastapi-offline carries."""
    return Path(fastapi_offline.__file__).parent / "static"


def _docs() -> str:
    head = '<link rel="stylesheet" href="assets/swagger/swagger-ui.css">'
    body = (
        '<div id="docs"></div>\n<script src="assets/swagger/swagger-ui-bundle.js"></script>\n'
        '<script src="assets/start.js"></script>'
    )
    return _PAGE.format(title="Sfumato: the HTTP interface", head=head, body=body)


def _front() -> str:
    body = (
        "<h1>Sfumato</h1>\n<p>Private answers about people, under a budget that is accounted exactly.</p>\n"
        '<p><a href="docs">The interface</a>, to read and to try; '
        '<a href="openapi.json">the same for machines</a>; <a href="readyz">whether it can answer</a>.</p>'
    )
    return _PAGE.format(title="Sfumato", head='<link rel="stylesheet" href="assets/page.css">', body=body)


def _problem_page(kind: ProblemType) -> str:
    words = escape(kind.meaning)
    while "`" in words:
        words = words.replace("`", "<code>", 1).replace("`", "</code>", 1)
    title = f"<h1>{escape(kind.title)} <small>{kind.status}</small></h1>"
    body = f'{title}\n<p>{words}</p>\n<p><a href="../docs">The interface</a></p>'
    return _PAGE.format(title=kind.title, head='<link rel="stylesheet" href="../assets/page.css">', body=body)
