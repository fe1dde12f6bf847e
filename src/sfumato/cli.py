"""The command line: `sfumato`.

Exit codes: 0 done, 2 a call or a setting that makes no sense, 3 refused.
"""

from __future__ import annotations

import functools
import json
import re
import sys
from collections.abc import Callable
from typing import Any

import click

from sfumato import __version__, demo
from sfumato.errors import Refused, SfumatoError

USAGE, REFUSED = 2, 3


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sfumato")
def main() -> None:
    """Private answers about people, under a budget that is accounted exactly.

    Every command takes --json. Exit codes: 0 done, 2 usage, 3 refused.
    """


def answering(command: Callable[..., None]) -> Callable[..., None]:
    """What all commands share: --json, and an error told in one line (or as one JSON problem) with its exit code."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else, on stdout.")
    @functools.wraps(command)
    def told(as_json: bool, **options: Any) -> None:
        try:
            command(as_json, **options)
        except SfumatoError as error:
            _tell(error, as_json=as_json)
            sys.exit(REFUSED if isinstance(error, Refused) else USAGE)

    return told


@main.command("demo")
@click.option(
    "--members",
    default=demo.MEMBERS,
    show_default=True,
    metavar="N",
    help="How many people to generate. Fewer people, fewer groups that stand out of the noise.",
)
@click.option("--once", is_flag=True, help="Exit after the questions.")
@answering
def demo_command(as_json: bool, members: int, once: bool) -> None:
    """Ask three private questions about generated people.

    Makes a month of reading by 200,000 members in memory, asks which articles, which job titles and how many
    members, and prints the noisy answers with their error, their price and what is left of the budget.
    The people are the same in every run; the noise is not.
    """
    finished = demo.run(members)
    if as_json:
        click.echo(json.dumps(finished.to_dict(), indent=2))
    else:
        demo.show(finished)


def _tell(error: SfumatoError, *, as_json: bool) -> None:
    words = re.findall("[A-Z][a-z]+", type(error).__name__)
    title = " ".join(words).capitalize()
    if as_json:
        problem = {"type": "-".join(words).lower(), "title": title, "detail": str(error)}
        click.echo(json.dumps(problem, indent=2))
    else:
        click.echo(f"sfumato: {title}: {error}", err=True)
