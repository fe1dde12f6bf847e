"""Pages of `sfumato demo`."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from sfumato.cli.terminal.answer import render_answer
from sfumato.cli.terminal.release import render_release
from sfumato.cli.terminal.report import render_report
from sfumato.demo.demo import ANALYST, OWNER, READER, REGIONS, Demo, Service


def print_demo(finished: Demo, console: Console) -> None:
    """Print the answers, each with its receipt, and what the budget as a whole promises."""
    for words, answer in finished.answers.items():
        console.print(render_answer(answer, title=words), "", sep="\n")
    console.print(Text("How the article cookie-free-ads-51 did in a week, by day; a report debits no budget", "bold"))
    console.print("", render_report(finished.numbers), "", sep="\n")
    if finished.table is not None:
        title = "A table to publish: members of as many articles as a small budget buys"
        console.print(Text(title, "bold"), "", render_release(finished.table, top=5), "", sep="\n")
    own, *_ = finished.guarantee.accounts
    whole = own.bound("period")
    if whole is not None:
        console.print(
            Text(
                f"Whatever {ANALYST} asks within this month's budget of {own.limit}, one member's presence moves any "
                f"conclusion by at most epsilon = {whole.epsilon:.2f}, delta = {whole.delta:.0e}."
            )
        )
    if finished.config is not None:
        console.print(Text(f'\nGo on: sfumato ask --config {finished.config} --analyst {ANALYST} "{REGIONS}"'))


def print_invitation(service: Service, console: Console) -> None:
    """Print where the service is and how to ask it. Lines are not wrapped, so they can be copied."""
    lines = {
        "pages": f"{service.url} (sign in with one of the keys, which last a day)",
        ANALYST: f"{service.keys[ANALYST]} (analyst: asks)",
        READER: f"{service.keys[READER]} (reader: her part of the report)",
        OWNER: f"{service.keys[OWNER]} (owner: who spends what)",
        "docs": f"{service.url}/docs",
        "API": f"{service.url}/v1/answers",
        "ask": service.curl,
    }
    console.print(Text("\nThe service is up. Ask it yourself, from a browser or a shell:", "bold"), "", sep="\n")
    for name, text in lines.items():
        console.print(Text(f"  {name:<5} {text}"), soft_wrap=True)
    console.print("", Text("Ctrl-C stops it."), sep="\n")


def print_end(service: Service, console: Console) -> None:
    """Print where the service was."""
    where = f"Asked over HTTP: the API was at {service.url}/v1/answers, its docs at {service.url}/docs, and pages for"
    rest = f"people at {service.url}. Without --once they stay up, with a key for an analyst, a reader and an owner."
    console.print("", Text(f"{where} {rest}"), sep="\n")
