"""`sfumato serve`: the HTTP service."""

from __future__ import annotations

import json
from typing import Any

import click

from sfumato.cli.options import with_config
from sfumato.cli.output import with_json

LEVELS = ("debug", "info", "warning", "error")


@click.command("serve")
@with_config
@click.option("--host", metavar="ADDRESS", help="Where to listen; without it [service] host, or 127.0.0.1.")
@click.option("--port", type=click.IntRange(0, 65535), metavar="N", help="The port; 0 takes a free one.")
@click.option("--workers", type=click.IntRange(1, 256), metavar="N", help="Processes; several need PostgreSQL.")
@click.option(
    "--behind-proxy",
    "exposure",
    flag_value="proxy",
    help="Other machines may connect: a proxy with TLS is in front.",
)
@click.option(
    "--plain-http",
    "exposure",
    flag_value="plain",
    help="Other machines may connect without TLS: keys and answers travel readable.",
)
@click.option("--log-level", type=click.Choice(LEVELS), default="info", show_default=True, help="For stderr.")
@with_json
def serve(as_json: bool, config: str, exposure: str | None, log_level: str, **options: Any) -> None:
    """Answer questions over HTTP until stopped.

    Callers need keys: `sfumato keys create`. The page /docs describes the interface and has a form to try it. Put a
    proxy with TLS in front before other machines can reach it; a --host that they can reach needs --behind-proxy or
    --plain-http. Logs are JSON lines on stderr. After Ctrl-C or SIGTERM,
    questions that are running are answered first; one that takes too long stays reserved, and is finished on the next
    start.

    \b
      sfumato serve --config sfumato.toml --port 8080
      sfumato serve --workers 4     # with a PostgreSQL ledger
    """
    try:
        from sfumato.service.server import serve as run
        from sfumato.web.console import WORKER, add_console
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError("the service needs: pip install 'sfumato[service]'") from missing

    def announce(url: str) -> None:
        where = {"url": url, "docs": f"{url}/docs"}
        words = f"Sfumato answers at {url}: pages for people there, and the HTTP interface at {url}/docs"
        click.echo(json.dumps(where) if as_json else words)

    if exposure == "plain":
        click.echo("Keys and answers travel readable: this is plain HTTP.", err=True)
    exposed = exposure is not None
    run(
        config,
        **options,
        is_exposed=exposed,
        log_level=log_level,
        announce=announce,
        add_console=add_console,
        worker=WORKER,
    )
