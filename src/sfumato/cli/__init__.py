"""The command line: `sfumato`. One module per verb.

Commands import what they need when they run, so `--help` is fast and loads no engine.
"""

from __future__ import annotations

import click

from sfumato import __version__
from sfumato.cli.ask import ask
from sfumato.cli.budget import budget
from sfumato.cli.demo import demo
from sfumato.cli.estimate import estimate
from sfumato.cli.init import init
from sfumato.cli.keys import keys
from sfumato.cli.output import Commands
from sfumato.cli.policy import policy
from sfumato.cli.release import release
from sfumato.cli.report import report
from sfumato.cli.serve import serve

__all__ = ["main"]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
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


for command in (demo, init, serve, ask, estimate, report, budget, keys, policy, release):
    main.add_command(command)
