"""What all commands share: --json and --config, what is printed where, and how an error ends."""

from __future__ import annotations

import errno
import functools
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from sfumato.errors import BudgetExhausted, Failed, InvalidArgument, Refused, SfumatoError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from sfumato.config import Config

DIFFERENT, USAGE, REFUSED, FAILED, INTERRUPTED = 1, 2, 3, 4, 130


_UNWRITABLE = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_AS_JSON = "sfumato.as_json"


class Commands(click.Group):
    """A group that lists its commands in the order in which somebody meets them, and tells usage errors as JSON too."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        as_json = "--json" in args
        with _written(), _usage_told(as_json=as_json):
            context = super().make_context(info_name, args, parent, **extra)
        context.meta.setdefault(_AS_JSON, as_json)
        return context

    def invoke(self, ctx: click.Context) -> Any:
        with _written(), _usage_told(as_json=ctx.meta[_AS_JSON]):
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


Commands.group_class = Commands

with_config = click.option(
    "--config",
    default="sfumato.toml",
    show_default=True,
    metavar="FILE",
    help="The configuration; `sfumato init` makes one.",
)


def answering(command: Callable[..., None]) -> Callable[..., None]:
    """--json, and an error told in one line (or as one JSON problem) with its exit code."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else, on stdout.")
    @functools.wraps(command)
    def told(as_json: bool, **options: Any) -> None:
        try:
            _check_text(options)
            command(as_json, **options)
        except SfumatoError as error:
            _tell(_problem(error), as_json=as_json)
            sys.exit(_exit_code(error))
        except ModuleNotFoundError as missing:
            _tell({"type": "not-installed", "title": "Not installed", "detail": str(missing)}, as_json=as_json)
            sys.exit(USAGE)
        except (KeyboardInterrupt, click.Abort):
            sys.exit(INTERRUPTED)

    return told


@contextmanager
def _usage_told(*, as_json: bool) -> Iterator[None]:
    """Where JSON was asked for, a usage error is a problem as others are."""
    try:
        yield
    except click.UsageError as error:
        if not as_json:
            raise
        _tell({"type": "usage", "title": "Usage", "detail": error.format_message()}, as_json=True)
        raise click.exceptions.Exit(USAGE) from None


@contextmanager
def _written() -> Iterator[None]:
    """Output that cannot be written ends the command. A reader that has left knows it; a full disk is told."""
    try:
        yield
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        with suppress(OSError, ValueError):  # or the interpreter would try to write it once more
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            with suppress(OSError):
                click.echo(f"sfumato: Failed: the output could not be written: {error.strerror}", err=True)
        raise click.exceptions.Exit(FAILED) from None


def show(serial: dict[str, Any], page: Callable[[], RenderableType], *, as_json: bool) -> None:
    """One JSON object, or a page for people."""
    if as_json:
        click.echo(json.dumps(serial, indent=2))
        return
    console().print(page(), crop=False)


def console() -> Console:
    """The terminal. Where its reader has left, that is an error like others."""
    from rich.console import Console

    class Terminal(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError(errno.EPIPE, "the reader has left")

    return Terminal(highlight=False)


def paragraphs(*texts: str) -> RenderableType:
    """Text, wrapped to the terminal, a line between one and the next."""
    from rich.console import Group

    from sfumato.cli.terminal import Words

    lines = [line for text in texts for line in ("", Words(text, cropped=False))]
    return Group(*lines[1:])


def items(texts: Iterable[str]) -> RenderableType:
    """A list with dashes."""
    from rich.table import Table

    from sfumato.cli.terminal import Words

    grid = Table.grid(padding=(0, 1, 0, 0))
    for text in texts:
        grid.add_row("-", Words(text, cropped=False))
    return grid


def typed(*words: str) -> RenderableType:
    """A command to copy: the terminal may break its line, we do not."""
    from rich.text import Text

    from sfumato.show import visible

    encoding = sys.stdout.encoding or "utf-8"
    told = visible(shlex.join(words)).encode(encoding, "backslashreplace").decode(encoding)
    return Text(f"  {told}", "bold", no_wrap=True, overflow="ignore")


def read(path: str) -> Config:
    from sfumato.config import load_config

    return load_config(path)


def on_a_terminal() -> bool:
    """Whether somebody is there to be asked."""
    return sys.stdin.isatty()


def now() -> datetime:
    return datetime.now(UTC)


def _check_text(options: dict[str, Any]) -> None:
    for name, value in options.items():
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and any("\ud800" <= char <= "\udfff" for char in text):
                raise InvalidArgument(name, "must be text in UTF-8")


def _exit_code(error: SfumatoError) -> int:
    if isinstance(error, Refused):
        return REFUSED
    return FAILED if isinstance(error, Failed) else USAGE


def _problem(error: SfumatoError) -> dict[str, Any]:
    words = re.findall("[A-Z][a-z]+", type(error).__name__)
    problem = {"type": "-".join(words).lower(), "title": " ".join(words).capitalize(), "detail": str(error)}
    return problem | _amounts(error) if isinstance(error, BudgetExhausted) else problem


def _amounts(error: BudgetExhausted) -> dict[str, Any]:
    from sfumato.accounting import Charge

    amounts = {"asked": error.asked, "left": error.left}
    charges = {name: amount.to_dict() for name, amount in amounts.items() if isinstance(amount, Charge)}
    return {**charges, "resets": None if error.resets is None else error.resets.isoformat()}


def _tell(problem: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(problem, indent=2))
        return
    from sfumato.show import visible

    click.echo(visible(f"sfumato: {problem['title']}: {problem['detail']}"), err=True)
