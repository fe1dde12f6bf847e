"""What a command prints and how it ends: a result or a problem, as JSON or for people, and an exit code."""

from __future__ import annotations

import errno
import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from sfumato.errors import Failed, InvalidArgument, Refused, SfumatoError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from sfumato.problems import ProblemType

DIFFERENT, USAGE, REFUSED, FAILED, INTERRUPTED = 1, 2, 3, 4, 130

_UNWRITABLE = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_AS_JSON = "sfumato.as_json"


class Commands(click.Group):
    """A group that lists its commands in the order of the code, and with --json prints usage errors as problems."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        as_json = "--json" in args
        with _catch_write_errors(), _catch_usage_errors(as_json=as_json):
            context = super().make_context(info_name, args, parent, **extra)
        context.meta.setdefault(_AS_JSON, as_json)
        return context

    def invoke(self, ctx: click.Context) -> Any:
        with _catch_write_errors(), _catch_usage_errors(as_json=ctx.meta[_AS_JSON]):
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


Commands.group_class = Commands


@contextmanager
def _catch_usage_errors(*, as_json: bool) -> Iterator[None]:
    """With --json, print a usage error as a problem."""
    try:
        yield
    except click.UsageError as error:
        if not as_json:
            raise
        from sfumato.problems import find_problem_type

        print_problem(SfumatoError(error.format_message()), find_problem_type("usage"), as_json=True)
        raise click.exceptions.Exit(USAGE) from None


@contextmanager
def _catch_write_errors() -> Iterator[None]:
    """End the command if its output cannot be written."""
    try:
        yield
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        with suppress(OSError, ValueError):  # or the interpreter would try to write it again
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:  # a reader that closed the pipe needs no message
            with suppress(OSError):
                click.echo(f"sfumato: Failed: the output could not be written: {error.strerror}", err=True)
        raise click.exceptions.Exit(FAILED) from None


def with_json(command: Callable[..., None]) -> Callable[..., None]:
    """Add --json to a command. An error becomes one line on stderr, or one JSON problem, and an exit code."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout, and nothing else.")
    @functools.wraps(command)
    def run(as_json: bool, **options: Any) -> None:
        try:
            _check_text(options)
            command(as_json, **options)
        except SfumatoError as error:
            print_problem(error, as_json=as_json)
            sys.exit(REFUSED if isinstance(error, Refused) else FAILED if isinstance(error, Failed) else USAGE)
        except ModuleNotFoundError as missing:
            print_problem(missing, as_json=as_json)
            sys.exit(USAGE)
        except (KeyboardInterrupt, click.Abort):
            sys.exit(INTERRUPTED)

    return run


def _check_text(options: dict[str, Any]) -> None:
    for name, value in options.items():
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and any("\ud800" <= char <= "\udfff" for char in text):
                raise InvalidArgument(name, "must be text in UTF-8")


def print_result(serial: dict[str, Any], page: Callable[[], RenderableType], *, as_json: bool) -> None:
    """Print one JSON object, or a page for people."""
    if as_json:
        click.echo(json.dumps(serial, indent=2))
        return
    open_console().print(page(), crop=False)


def print_problem(error: Exception, kind: ProblemType | None = None, *, as_json: bool) -> None:
    """Print the same problem object that HTTP has, or its title and detail in one line."""
    from sfumato.problems import problem

    record = problem(error, kind, to_owner=True)
    if as_json:
        click.echo(json.dumps(record.to_dict(), indent=2))
        return
    from sfumato.show.text import visible

    click.echo(visible(f"sfumato: {record.title}: {record.detail}"), err=True)


def open_console() -> Console:
    """The terminal. A closed pipe raises, as any other failure to write does."""
    from rich.console import Console

    class Terminal(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError(errno.EPIPE, "the reader has left")

    return Terminal(highlight=False)


def is_interactive() -> bool:
    """Whether stdin is a terminal, so the command can ask back."""
    return sys.stdin.isatty()


def now() -> datetime:
    return datetime.now(UTC)
