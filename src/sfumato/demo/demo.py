"""The product in one run: generated people, an owner's policy, an analyst's questions, and a table to publish.

    prepare (data, key, sfumato.toml) -> publish -> serve -> ask over HTTP -> show -> stay up

Nothing here is special to the demo: it uses the same service and the same client as any other use.
"""

from __future__ import annotations

import json
import shlex
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from sfumato.client import Client
from sfumato.config import Config, load_config, read_config
from sfumato.config.noise_key import new_key
from sfumato.demo import sample
from sfumato.demo.engines import DEMO_ENGINES
from sfumato.errors import Failed, InvalidArgument
from sfumato.ledger import check_fence_place, find_store
from sfumato.ledger.api_keys import ApiKeys
from sfumato.ledger.file_fence import forget_place
from sfumato.release import Released, release_counts
from sfumato.session import Session
from sfumato.wire import Answer, BudgetReport, Guarantee, Report

if TYPE_CHECKING:
    import uvicorn

ANALYST, READER, OWNER = "anna", "rita", "omar"
RHO = 0.05
KEY_LASTS = timedelta(days=1)
SERVICE_MODULES = ("fastapi", "fastapi_offline", "httpx2", "jwt", "prometheus_client", "uvicorn")

CONFIG = Template("""\
# The policy of the demo: what may be asked about whom, and who may ask how much.

[ledger]
url = "sqlite:books/ledger.db"          # its fence is in your state folder: a restored copy must not restore it
[noise]
key_file = "noise.key"
[engines.local]
$section

[tables.engagements]
engine = "local"
source = "$source"
privacy_unit = "member_id"
cap = "everyone"                                                   # for all questions of all analysts together
[tables.engagements.columns]
article   = { domain = "unknown" }                                 # any number of articles per member
job_title = { domain = "unknown", max_groups = 1$bound }                 # one title per member
region    = { domain = ["emea", "apac", "amer"], max_groups = 1$bound }  # public, one per member
day       = { type = "date" }
[tables.engagements.measures]
members = { count = "units" }

[reports.reading]                      # numbers that never change: how an article did, by day and by month
table = "engagements"
time = "day"
levels = ["day", "month"]
entities = $entities
epsilon = { total = 0.5 }              # of a day and a month together, on each level and with each attribute
min_count = 3                          # smaller numbers are not shown
options = ["calendar"]                 # days and months are weighed against one another: less noise
[reports.reading.statistics]
reads = { count = "rows" }
[reports.reading.attributes]
region = {}                            # its values are those of the column

[budgets.partner]                      # what `sfumato policy plan --epsilon 8` says
epsilon_per = 0.15
delta_per   = 1e-10
information = 320
calls       = 320
resets      = "monthly"
[budgets.everyone]                     # the same, for questions and releases together
epsilon_per = 0.15
delta_per   = 1e-10
information = 320
calls       = 320
resets      = "monthly"
[analysts.anna]
budget = "partner"
[analysts.rita]                        # sees some of the report
budget = "partner"
role = "reader"
entities = $shown
[analysts.omar]                        # sees who spends what
budget = "partner"
role = "owner"

[service]
pad_ms = 0                             # all three are you
""")

TOP = (
    "SELECT article, COUNT(DISTINCT member_id) FROM engagements WHERE region = 'emea' "
    "GROUP BY article ORDER BY 2 DESC LIMIT {}"
)
TITLES = "SELECT job_title, members FROM engagements WHERE article = 'cookie-free-ads-51' GROUP BY 1 LIMIT 10"
MORE = "SELECT job_title, members FROM engagements GROUP BY job_title LIMIT 5"
REGIONS = "SELECT region, members FROM engagements WHERE day BETWEEN '2026-10-24' AND '2026-10-30' GROUP BY region"

# One question per kind of domain and contribution; then the first one again, and a longer list of it.
QUESTIONS = {
    "Which articles do the most members read in EMEA?": TOP.format(10),
    "Which job titles read the article cookie-free-ads-51?": TITLES,
    "How many members were active in each region from 2026-10-24 to 2026-10-30?": REGIONS,
    "The first question again: the same answer, at no charge": TOP.format(10),
    "Twelve articles instead of ten: the list goes on, and only two rows are charged": TOP.format(12),
}

READS: dict[str, Any] = {"statistics": "reads", "entity": {"article": "cookie-free-ads-51"}, "attribute": "region"}
DAYS = {"start": "2026-10-05", "end": "2026-10-12", "granularity": "day"}
AFTER = datetime(2026, 11, 2, tzinfo=UTC)  # the month of the generated days is complete


@dataclass(frozen=True, slots=True)
class Service:
    """Where the demo answers, and the keys of its analyst, its reader and its owner."""

    url: str
    keys: Mapping[str, str]

    @property
    def key(self) -> str:
        """The key of the analyst."""
        return self.keys[ANALYST]

    @property
    def curl(self) -> str:
        """A command that asks one more question."""
        who, what = f"Authorization: Bearer {self.key}", json.dumps({"sql": MORE})
        return shlex.join(["curl", f"{self.url}/v1/answers", "-H", who, "-d", what])


@dataclass(frozen=True, slots=True)
class Demo:
    """A run with all its answers. `table` is None where a release cannot read from the engine.

    `config` is set if its folder is kept.
    """

    answers: dict[str, Answer]
    numbers: Report
    table: Released | None
    report: BudgetReport
    guarantee: Guarantee
    service: Service
    config: Path | None

    def to_dict(self) -> dict[str, Any]:
        table = self.table
        return {
            "answers": [{"question": words, **answer.to_dict()} for words, answer in self.answers.items()],
            "report": self.numbers.to_dict(),
            "published": None if table is None else {"rows": table.rows, "statement": dict(table.statement)},
            "budget": self.report.to_dict(),
            "guarantee": self.guarantee.to_dict(),
        }


def prepare(folder: Path, members: int = sample.MEMBERS, engine: str = "duckdb") -> Path:
    """Write the data, a new noise key and the policy into a folder. Returns the path of its `sfumato.toml`."""
    config, place = folder / "sfumato.toml", DEMO_ENGINES[engine]
    bound = "" if place.is_nested else ", guaranteed = true"
    entities, shown = '["article"]', '{ article = ["cookie-free-ads-51"] }'
    if place.articles:
        entities = f'{{ levels = ["desk", "topic", "article"], table = "{place.articles}" }}'
        shown = '{ desk = ["marketing"] }'
    text = CONFIG.substitute(section=place.section, source=place.source, bound=bound, entities=entities, shown=shown)
    check_fence_place(read_config(text, folder, {}).ledger, folder)
    try:
        if config.exists():
            hint = f"ask it: sfumato ask --config {config}"
            raise InvalidArgument("--dir", f"{str(folder)!r} holds a demo already; {hint}")
        (folder / "books").mkdir(parents=True, exist_ok=True)
        place.write(folder, members)
        new_key(folder / "noise.key")
        config.write_text(text, "utf-8")
    except OSError:
        raise InvalidArgument("--dir", "cannot be written to") from None
    settings = load_config(config)
    store = find_store(settings.ledger, settings.folder)
    if not store.exists:
        forget_place(store.place)  # an earlier demo was here, and was removed
    return config


def run(members: int = sample.MEMBERS, folder: Path | None = None) -> Demo:
    """The whole demo, once. Its service is stopped when this returns."""
    with start_demo(members, folder) as demo:
        return demo


@contextmanager
def start_demo(members: int = sample.MEMBERS, folder: Path | None = None, engine: str = "duckdb") -> Iterator[Demo]:
    """Prepare a folder, start the service and ask the questions. The service is up until the end of the block.

    Without a `folder`, temporary ones are used for all of it, and then removed.
    """
    place = DEMO_ENGINES[engine]
    if any(find_spec(name) is None for name in (*SERVICE_MODULES, *place.modules)):
        extras = ",".join(filter(None, ("service", "client", place.extra)))
        raise ModuleNotFoundError(f"the demo needs: pip install 'sfumato[{extras}]'")
    import httpx2

    with ExitStack() as stack:

        def temporary_folder() -> Path:
            return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sfumato-demo-")))

        with _progress() as progress:
            task = progress.add_task("generating", total=2 + len(QUESTIONS))
            config = prepare(folder or temporary_folder(), members, engine)
            settings = load_config(config)
            if folder is None:
                settings = replace(settings, ledger=replace(settings.ledger, fence=temporary_folder() / "fence"))
            progress.update(task, advance=1, description="publishing")
            table = publish(settings) if place.releases else None
            service = stack.enter_context(start_service(settings))
            answers = {}
            # A transport of its own ignores the proxies of the environment: the service is on this machine.
            with Client(service.url, service.key, transport=httpx2.HTTPTransport()) as client:
                for words, sql in QUESTIONS.items():
                    progress.update(task, advance=1, description="asking")
                    answers[words] = client.ask(sql)
                numbers, report = client.report({"report": "reading", **READS, **DAYS}), client.budget()
                promised = client.guarantee()
        yield Demo(answers, numbers, table, report, promised, service, config if folder else None)


@contextmanager
def start_service(config: Config) -> Iterator[Service]:
    """The service of a configuration in a thread, with a key that is valid for a day."""
    import uvicorn

    from sfumato.service.app import create_app
    from sfumato.service.server import uvicorn_config
    from sfumato.web.console import add_console

    def clock() -> datetime:
        """The month of the generated days is over, whatever the clock of the machine says."""
        return max(datetime.now(UTC), AFTER)

    listening = open_socket(config.service.host, config.service.port)
    with listening, Session(config, clock=clock, finish=False) as session:
        now = session.now()
        keys = {
            name: ApiKeys(session.ledger).create(name, config.analysts[name].role, now + KEY_LASTS, now)[0]
            for name in (ANALYST, READER, OWNER)
        }
        host, port = listening.getsockname()
        app = create_app(session, add_console=add_console)
        with _run_in_thread(uvicorn.Server(uvicorn_config(app)), listening):
            yield Service(f"http://{host}:{port}", keys)


@contextmanager
def _run_in_thread(server: uvicorn.Server, listening: socket.socket) -> Iterator[None]:
    thread = threading.Thread(target=server.run, args=([listening],), name="service")
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise Failed("the service did not start")
            time.sleep(0.01)
        yield
    finally:
        server.should_exit = True
        thread.join()


def open_socket(host: str, port: int) -> socket.socket:
    """A listening socket at this port or, if it is taken, at a free one."""
    try:
        return socket.create_server((host, port))
    except OSError:
        return socket.create_server((host, 0))


def publish(config: Config) -> Released:
    """A table to publish: members of as many articles as a small budget buys."""
    return release_counts(
        "engagements",
        unit="member_id",
        key="article",
        rho=RHO,
        delta=1e-9,
        config=config,
        budget="partner",
        job="articles",
    )


def _progress() -> Progress:
    """A bar on stderr, only if that is a terminal; removed at the end."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(bar_width=24)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
