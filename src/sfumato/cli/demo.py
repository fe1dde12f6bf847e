"""`sfumato demo`: the product in one run, on generated people."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sfumato.cli.output import answering, console, show

if TYPE_CHECKING:
    from rich.console import Console

    from sfumato.demo.demo import Demo, Service

DEMO_MEMBERS = 200_000


@click.command("demo")
@click.option(
    "--members",
    default=DEMO_MEMBERS,
    show_default=True,
    metavar="N",
    help="How many people to generate. Fewer people, fewer groups that stand out of the noise.",
)
@click.option("--dir", "folder", metavar="DIR", help="Keep the data, the policy and the books there, to go on asking.")
@click.option("--once", is_flag=True, help="Exit after the questions, instead of staying up.")
@answering
def demo(as_json: bool, members: int, folder: str | None, once: bool) -> None:
    """Serve generated people over HTTP, and ask private questions about them.

    Makes a month of reading by 200,000 members, a policy and a noise key, in a folder that is gone afterwards (unless
    you name one); starts the service at port 8080, or at a free one, and makes a key; asks over HTTP which articles,
    which job titles and how many members, and prints the noisy answers with their error, their price and what is left
    of the budget; then says where the service is, and stays up until Ctrl-C. The people are the same in every run; the
    noise is not. With --json, which implies --once, the answers are one object.

    \b
      sfumato demo --members 50000
      sfumato demo --once --dir shop
    """
    from sfumato.demo.demo import running

    with running(members, None if folder is None else Path(folder)) as asked:
        if as_json:
            show(asked.to_dict(), lambda: "", as_json=True)
            return
        show_demo(asked, console())
        if once:
            part(asked.service, console())
        else:
            invite(asked.service, console())
            stay()


def stay() -> None:
    """Wait for Ctrl-C, or for SIGTERM."""
    stopped = threading.Event()
    before = {each: signal.signal(each, lambda *_: stopped.set()) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        stopped.wait()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def show_demo(finished: Demo, console: Console) -> None:
    """Print the answers, a receipt below each, and what the budget as a whole promises."""
    from rich.text import Text

    from sfumato.cli.terminal import render, render_release
    from sfumato.cli.terminal.reports import render_report
    from sfumato.demo.demo import ANALYST, REGIONS

    for words, answer in finished.answers.items():
        console.print(render(answer, title=words), "", sep="\n")
    console.print(Text("How the article cookie-free-ads-51 did by week, for nothing: a report debits nobody", "bold"))
    console.print("", render_report(finished.numbers), "", sep="\n")
    console.print(
        Text("A table for everybody: members of as many articles as a small budget buys", "bold"), "", sep="\n"
    )
    console.print(render_release(finished.table, top=5), "", sep="\n")
    console.print(Text(_promise(finished)))
    if finished.config is not None:
        console.print(Text(f'\nGo on: sfumato ask --config {finished.config} --analyst {ANALYST} "{REGIONS}"'))


def invite(service: Service, console: Console) -> None:
    """Print where the service is and how to ask it. Nothing is wrapped, so that it can be copied."""
    from rich.text import Text

    from sfumato.demo.demo import ANALYST

    told = {
        "docs": f"{service.url}/docs",
        "API": f"{service.url}/v1/answers",
        "key": f"{service.key} ({ANALYST}'s, for a day)",
        "ask": service.curl,
    }
    console.print(Text("\nThe service is up. Ask it yourself, from a browser or a shell:", "bold"), "", sep="\n")
    for name, words in told.items():
        console.print(Text(f"  {name:<5} {words}"), soft_wrap=True)
    console.print("", Text("Ctrl-C stops it."), sep="\n")


def part(service: Service, console: Console) -> None:
    """Say where the questions were answered, now that nobody answers there any more."""
    from rich.text import Text

    told = f"Asked over HTTP: the API was at {service.url}/v1/answers and its docs at {service.url}/docs."
    console.print("", Text(f"{told} Without --once both stay up."), sep="\n")


def _promise(finished: Demo) -> str:
    from sfumato.demo.demo import ANALYST, DELTA

    return (
        f"Whatever {ANALYST} asks within this month's budget of {finished.budget.cap}, one member's presence moves any "
        f"conclusion by at most epsilon = {finished.epsilon:.2f}, delta = {DELTA:.0e}."
    )
