"""The command line: `sfumato`.

Commands import what they need when they run, so that help costs nothing.
"""

from __future__ import annotations

import click

from sfumato import __version__
from sfumato.cli.ask import ask, estimate
from sfumato.cli.budget import budget
from sfumato.cli.demo import demo
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
    """Private answers about people, under a budget that is accounted exactly.

    \b
    Try it on generated people:
      sfumato demo
    Point it at data of yours, and ask:
      sfumato init shop --source orders.parquet --unit customer_id
      sfumato ask --config shop/sfumato.toml --analyst anna "SELECT ..."
    Show numbers over time that stay what they are ([reports.NAME]):
      sfumato report --config shop/sfumato.toml --analyst anna \\
        --statistic events --start 2026-10-01 --end 2026-11-01

    Every command takes --json. Exit codes: 0 done, 1 a check found differences, 2 usage or configuration,
    3 refused (policy or budget), 4 the engine, the ledger or the output failed.
    """


for command in (demo, init, serve, ask, estimate, report, budget, keys, policy, release):
    main.add_command(command)
