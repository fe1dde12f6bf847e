"""`sfumato ask` and `sfumato estimate`: a question in SQL or as JSON, answered or priced."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.output import answering, show, with_config
from sfumato.errors import InvalidArgument

if TYPE_CHECKING:
    from sfumato.answer import RequestLike
    from sfumato.wire import Answer

CHARTS = (".svg", ".png", ".json", ".html")
MAX_REQUEST = 1_000_000


def _question(command: Callable[..., None]) -> Callable[..., None]:
    """The arguments of a question."""
    options = (
        click.argument("sql", required=False),
        click.option("--request", metavar="FILE", help="Read the question as JSON from a file, or from - (stdin)."),
        click.option("--analyst", required=True, metavar="NAME", help="Who asks, and whose budget pays."),
        with_config,
    )
    for option in options:
        command = option(command)
    return command


@click.command("ask")
@_question
@click.option("--chart", metavar="FILE", help="Save a chart too: FILE.svg, .png, .html, or .json (Vega-Lite).")
@answering
def ask(as_json: bool, config: str, analyst: str, sql: str | None, request: str | None, chart: str | None) -> None:
    """Ask a question and get a noisy answer.

    The answer says how far off a count may be, what it cost and what is left. Asking the same again gives the same
    answer and costs nothing.

    \b
    Which articles do the most members read?
      sfumato ask --analyst anna "SELECT article, COUNT(DISTINCT member_id)
        FROM engagements GROUP BY article ORDER BY 2 DESC LIMIT 10"

    \b
    The same as JSON:
      echo '{"type": "top_k", "table": "engagements", "by": "article",
        "measure": "members", "k": 10}' | sfumato ask --analyst anna --request -
    """
    question = _read(sql, request)
    picture = None if chart is None else chart_path(chart)
    from sfumato.session import Session

    with Session(config) as session:
        if picture is not None and not session.estimate(question, analyst=analyst).error95:
            raise InvalidArgument("--chart", "this list has no counts to draw; ask with counts, or without --chart")
        answer = session.ask(question, analyst=analyst)
    if picture is not None:
        _save(answer, picture)
    from sfumato.cli.terminal import render

    show(answer.to_dict(), lambda: render(answer), as_json=as_json)


@click.command("estimate")
@_question
@answering
def estimate(as_json: bool, config: str, analyst: str, sql: str | None, request: str | None) -> None:
    """Say what a question would cost and how accurate it would be. Free.

    No row is read, so that an estimate is the same whatever the data is.

    \b
      sfumato estimate --analyst anna "SELECT article, COUNT(DISTINCT member_id)
        FROM engagements GROUP BY article ORDER BY 2 DESC LIMIT 10"
    """
    question = _read(sql, request)
    from sfumato.cli.terminal import render_estimate
    from sfumato.session import Session

    with Session(config, finish=False) as session:
        found = session.estimate(question, analyst=analyst)
    show(found.to_dict(), lambda: render_estimate(found), as_json=as_json)


def _read(sql: str | None, request: str | None) -> RequestLike:
    """The question, from the one place where it was put."""
    if (sql is None) == (request is None):
        raise InvalidArgument("question", "write it as SQL, or give it as JSON with --request FILE; one of the two")
    if request is None:
        return sql or ""
    try:
        with click.open_file(request, encoding="utf-8") as file:
            text = file.read(MAX_REQUEST + 1)
    except (OSError, UnicodeDecodeError):
        raise InvalidArgument("--request", f"{request!r} cannot be read") from None
    return _parsed(text)


def _parsed(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text if len(text) <= MAX_REQUEST else "")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidArgument("--request", 'must hold one JSON object, such as {"sql": "SELECT ..."}')
    return found


def chart_path(chart: str) -> Path:
    """What can be known to fail is told before anything is charged."""
    path = Path(chart)
    if path.suffix.lower() not in CHARTS:
        raise InvalidArgument("--chart", f"must end in one of {', '.join(CHARTS)}")
    if not path.absolute().parent.is_dir():
        raise InvalidArgument("--chart", f"there is no folder {str(path.absolute().parent)!r}")
    return path


def _save(answer: Answer, path: Path) -> None:
    try:
        answer.chart().save(path)
    except OSError:
        raise InvalidArgument(
            "--chart", f"{str(path)!r} cannot be written; the answer is paid for, so that asking again is free"
        ) from None
