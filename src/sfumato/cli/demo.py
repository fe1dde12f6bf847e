"""`sfumato demo`: the product in one run, on generated people."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import click

from sfumato.cli.output import open_console, print_result, with_json
from sfumato.demo.engines import DEMO_ENGINES

DEMO_MEMBERS = 200_000


@click.command("demo")
@click.option(
    "--members",
    default=DEMO_MEMBERS,
    show_default=True,
    metavar="N",
    help="How many people to generate. With fewer people, fewer groups stand out of the noise.",
)
@click.option(
    "--engine",
    type=click.Choice([*DEMO_ENGINES]),
    default="duckdb",
    show_default=True,
    help="Where the generated people are, and what counts them.",
)
@click.option("--dir", "folder", metavar="DIR", help="Keep the data, the policy and the ledger there, to go on asking.")
@click.option("--once", is_flag=True, help="Exit after the questions, instead of staying up.")
@with_json
def demo(as_json: bool, members: int, engine: str, folder: str | None, once: bool) -> None:
    """Serve generated people over HTTP, and ask private questions about them.

    Generates a month of reading by 200,000 members, a policy and a noise key, in a temporary folder or in --dir.
    Starts the service at port 8080, or at a free port, and creates a key. Asks over HTTP which articles, which job
    titles and how many members, and prints the noisy answers with their error, their price and what is left of the
    budget. Then says where the service and its pages are, with keys for an analyst, a reader and an owner, and
    stays up until Ctrl-C. The people are the same in every run; the noise is not. With --json, which implies
    --once, the answers are one object.

    --engine pinot runs on a Pinot at localhost, or at SFUMATO_ENGINES__LOCAL__URL (its broker) and
    SFUMATO_ENGINES__LOCAL__CONTROLLER: it loads the people into a table sfumato_demo, and leaves them there.

    \b
      sfumato demo --members 50000
      sfumato demo --engine spark
      sfumato demo --once --dir shop
    """
    from sfumato.demo.demo import start_demo

    with start_demo(members, None if folder is None else Path(folder), engine) as finished:
        if as_json:
            print_result(finished.to_dict(), lambda: "", as_json=True)
            return
        from sfumato.cli.terminal.demo import print_demo, print_end, print_invitation

        print_demo(finished, open_console())
        if once:
            print_end(finished.service, open_console())
        else:
            print_invitation(finished.service, open_console())
            wait_for_stop()


def wait_for_stop() -> None:
    """Return after Ctrl-C or SIGTERM."""
    stopped = threading.Event()
    before = {each: signal.signal(each, lambda *_: stopped.set()) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        stopped.wait()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
