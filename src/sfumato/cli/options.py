"""Options that several commands share, and what they mean: the configuration, a question, a chart, exact numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from sfumato.errors import InvalidArgument

if TYPE_CHECKING:
    from sfumato.query.request import RequestLike
    from sfumato.show.pictures import Chart

Command: TypeAlias = Callable[..., None]

CHARTS = (".svg", ".png", ".json", ".html")
MAX_REQUEST = 1_000_000


def with_options(*options: Callable[..., Any]) -> Callable[[Command], Command]:
    """Several options as one decorator; --help lists them in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


with_config = click.option(
    "--config",
    default="sfumato.toml",
    show_default=True,
    metavar="FILE",
    help="The configuration; `sfumato init` writes one.",
)

with_question = with_options(
    with_config,
    click.option("--analyst", required=True, metavar="NAME", help="Who asks, and whose budget pays."),
    click.option("--request", metavar="FILE", help="Read the question as JSON from a file, or from - (stdin)."),
    click.option(
        "--param",
        "params",
        multiple=True,
        metavar="NAME=VALUE",
        help="The value of :NAME in SQL, as text; NAME:TYPE=VALUE for another type, such as k:integer=10.",
    ),
    click.argument("sql", required=False),
)


def with_chart(name: str = "--chart") -> Callable[[Command], Command]:
    return click.option(name, metavar="FILE", help="Also save a chart: FILE.svg, .png, .html, or .json (Vega-Lite).")


def read_question(sql: str | None, request: str | None, params: tuple[str, ...]) -> RequestLike:
    """The question of `with_question`: SQL, or JSON from a file, with the values of its parameters."""
    if (sql is None) == (request is None):
        raise InvalidArgument("question", "write SQL, or give JSON with --request FILE; one of the two")
    question = _read_request(request) if request is not None else sql or ""
    from sfumato.query.sql import bind_request

    with name_options():
        return bind_request(question, _read_params(params))


def _read_request(request: str) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        with click.open_file(request, encoding="utf-8") as file:
            text = file.read(MAX_REQUEST + 1)
    except (OSError, UnicodeDecodeError):
        raise InvalidArgument("--request", f"{request!r} cannot be read") from None
    from sfumato.query.request import unique_object

    try:
        question = json.loads(
            text if len(text) <= MAX_REQUEST else "", object_pairs_hook=partial(unique_object, "--request")
        )
    except InvalidArgument:
        raise
    except (ValueError, RecursionError):
        question = None
    if not isinstance(question, dict):
        raise InvalidArgument("--request", 'must hold one JSON object, such as {"sql": "SELECT ..."}')
    return question


def _read_params(params: tuple[str, ...]) -> dict[str, dict[str, str]] | None:
    """The values of `--param`, with their types; None where there are none."""
    read: dict[str, dict[str, str]] = {}
    for text in params:
        name, equals, value = text.partition("=")
        name, _, kind = name.partition(":")
        if not name or not equals:
            raise InvalidArgument("--param", "must be NAME=VALUE or NAME:TYPE=VALUE, such as k:integer=10")
        if name in read:
            raise InvalidArgument("--param", f"has {name[:60]} twice; keep one of them")
        read[name] = {kind or "text": value}
    return read or None


def chart_path(chart: str | None, option: str = "--chart") -> Path | None:
    """Where the chart goes. Checked before anything is charged."""
    if chart is None:
        return None
    path = Path(chart)
    if path.suffix.lower() not in CHARTS:
        raise InvalidArgument(option, f"must end in one of {', '.join(CHARTS)}")
    if not path.absolute().parent.is_dir():
        raise InvalidArgument(option, f"there is no folder {str(path.absolute().parent)!r}")
    return path


def save_chart(chart: Chart, path: Path, *, option: str = "--chart", hint: str = "") -> None:
    try:
        chart.save(path)
    except OSError:
        raise InvalidArgument(option, f"{str(path)!r} cannot be written{hint}") from None


def command_options() -> dict[str, str]:
    """The option of the running command that each argument comes from: by its parameter, and by its own name."""
    context, options = click.get_current_context(silent=True), dict[str, str]()
    for each in context.command.params if context else ():
        if isinstance(each, click.Option):
            options |= dict.fromkeys((each.name or "", each.opts[0].strip("-").replace("-", "_")), each.opts[0])
        else:
            options[each.name or ""] = each.human_readable_name
    return options


@contextmanager
def name_options(**others: str) -> Iterator[None]:
    """Errors about an argument name the option that it came from; `others` are arguments with another name."""
    try:
        yield
    except InvalidArgument as error:
        options = command_options() | others
        raise InvalidArgument(
            options.get(error.argument, error.argument), error.problem, nearest=error.nearest
        ) from None


class Amount(click.ParamType[Fraction]):
    """An exact number that is not negative: 21, 3/2 or 0.5."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Fraction:
        if isinstance(value, Fraction):
            return value
        if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15}|/[1-9][0-9]{0,14})?", value):
            self.fail("write a number such as 300, 0.5 or 3/2", param, ctx)
        return Fraction(value)


class ExactNumber(click.ParamType[Fraction]):
    """A number exactly as it is written: 0.1, 1e-6 or 1/3."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Fraction:
        if isinstance(value, Fraction):
            return value
        try:
            return read_number(value)
        except ValueError:
            self.fail("write a number such as 0.5, 1e-6 or 1/3", param, ctx)


def read_number(text: str) -> Fraction:
    """The exact number that a text of reasonable length holds; otherwise ValueError."""
    if len(text) > 50 or not set(text) <= set("0123456789+-.eE/"):
        raise ValueError
    _, _, exponent = text.lower().partition("e")
    if abs(int(exponent or 0)) > 300:
        raise ValueError
    try:
        return Fraction(text)
    except ZeroDivisionError:
        raise ValueError from None
