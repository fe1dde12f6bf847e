"""The command line: `sfumato`. One module per verb.

Commands import what they need when they run, so `--help` is fast and loads no engine.
"""

from __future__ import annotations

from importlib import import_module

import click

from sfumato import __version__
from sfumato.cli.output import Commands

__all__ = ["main"]

VERBS = ("demo", "init", "serve", "ask", "estimate", "report", "budget", "keys", "policy", "release")


class Verbs(Commands):
    """The verbs in the order of their list. Each is in the module of its name, imported when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*VERBS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = getattr(import_module(f"sfumato.cli.{cmd_name}"), cmd_name)
        return command


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sfumato")
def main() -> None:
    """Private answers about people, from a budget with exact accounting.

    \b
    Try it on generated people:
      sfumato demo
    Ask about data of your own:
      sfumato init shop --source orders.parquet --unit customer_id
      sfumato ask --config shop/sfumato.toml --analyst anna "SELECT ..."
    Show numbers over time that never change ([reports.NAME]):
      sfumato report --config shop/sfumato.toml --analyst anna \\
        --statistic events --start 2026-10-01 --end 2026-11-01

    Every command has --json. Exit codes: 0 done, 1 a check found differences, 2 usage or configuration,
    3 refused (policy or budget), 4 the engine, the ledger or the output failed.
    """
