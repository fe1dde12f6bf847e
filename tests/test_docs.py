"""The docs tell the truth: examples run and print what they show, links lead somewhere, reference pages are fresh."""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import sfumato.accounting
import sfumato.mechanisms
from sfumato.cli import main

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "proofs").glob("*.md")])
MODULES = sorted(path for path in (ROOT / "src").rglob("*.py"))
EXAMPLE = re.compile(r"```python\n(?P<code>.*?)```\n\s*```text\n(?P<shown>.*?)```", re.DOTALL)


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name != "reference"], ids=ids)
def test_examples_print_what_the_page_shows(page):
    text = page.read_text(encoding="utf-8")
    for example in EXAMPLE.finditer(text):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(example["code"], str(page), "exec"), {})  # noqa: S102
        assert printed.getvalue() == example["shown"]
    found = doctest.DocTestParser().get_doctest(text, {}, str(page), str(page), 0)
    assert doctest.DocTestRunner().run(found).failed == 0


SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)


RUN = [
    "tutorials/ten-minutes.md",
    "how-to/look-after-the-ledger.md",
    "how-to/publish-a-table.md",
    "how-to/serve-it.md",
    "how-to/show-a-report.md",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_the_commands_of_a_page_run_in_their_order(name, tmp_path):
    """Ports are replaced by free ones. What a page starts in the background is gone when its commands have failed."""
    text = "\n".join(SHELL.findall((ROOT / "docs" / name).read_text(encoding="utf-8")))
    if "curl " in text and shutil.which("curl") is None:
        pytest.skip("the commands of this page call curl, which is not installed: apt-get install curl")
    commands = text.replace("8080", str(free_port()))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "XDG_STATE_HOME": str(tmp_path / "state"), "COLUMNS": "80"}
    with (tmp_path / "told").open("w") as told:
        shell = ["bash", "-euo", "pipefail", "-c", commands]
        process = subprocess.Popen(
            shell, cwd=tmp_path, env=environment, stdout=told, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = process.wait(timeout=300)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert code == 0, (tmp_path / "told").read_text(encoding="utf-8")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@pytest.mark.slow
@pytest.mark.parametrize("notebook", sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")), ids=ids)
def test_notebooks_run_from_the_top(notebook, tmp_path):
    """In a process of its own: Jupyter's machinery warns of things that are not ours."""
    target = tmp_path / "executed.ipynb"
    run = [Path(sys.executable).with_name("jupyter"), "execute", "--output", target, notebook]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    cells = json.loads(target.read_text(encoding="utf-8"))["cells"]
    assert any("text/html" in output.get("data", {}) for cell in cells for output in cell.get("outputs", []))


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert link.startswith("https://") or (page.parent / link).exists(), link


ABOUT_CODE = [
    *(ROOT / "docs" / "how-to").glob("add-*.md"),
    *(ROOT / "docs" / "explanation").glob("*.md"),
    *(ROOT / "proofs").glob("*.md"),
]
OTHER_NAMES = {"pg_dump", "SQLITE_FULL"}


@pytest.fixture(scope="module")
def names_of_code() -> set[str]:
    """All names in the code, and the names of its files."""
    files = [path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    words = (re.findall(r"\w+", path.read_text(encoding="utf-8")) for path in files)
    return {path.stem for path in files}.union(*words)


@pytest.mark.parametrize("page", sorted(ABOUT_CODE), ids=ids)
def test_names_of_code_are_there(page, names_of_code):
    """Names with an underscore, in backticks: those of functions, attributes, settings and files."""
    for code in re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8")):
        for name in set(re.findall(r"\w*_\w+", code, re.ASCII)) - OTHER_NAMES:
            assert name in names_of_code, f"{code}: there is no {name}"


@pytest.mark.parametrize("path", MODULES, ids=ids)
def test_docstring_examples(path):
    name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_readme_begins_with_the_two_commands():
    head = (ROOT / "README.md").read_text(encoding="utf-8").split("## ")[0]
    assert "make demo" in head
    assert "make test" in head


def test_the_readme_is_short_and_promises_what_policy_explain_says(tmp_path):
    """The table of the front page is that of the defaults of `sfumato init`."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 66
    assert max(map(len, text.splitlines())) <= 120
    assert "differential privacy" in text
    (tmp_path / "orders.csv").write_text("customer_id,product\n1,tea\n", encoding="utf-8")
    with contextlib.chdir(tmp_path):
        run = CliRunner()
        made = run.invoke(main, ["init", "shop", "--source", "orders.csv", "--unit", "customer_id"])
        assert made.exit_code == 0, made.output
        explained = run.invoke(main, ["policy", "explain", "--config", "shop/sfumato.toml"], env={"COLUMNS": "120"})
    rows = dict(
        re.findall(r"^  (\S.*?\S) {2,}[\d,]+ +[\d,]+ +([\d.]+ +\S+ +[\d.]+ %) *$", explained.output, re.MULTILINE)
    )
    shown = {"all of it": "the whole monthly budget"}
    for asked in ("one total", "one list of ten", "all of it", "a year of it"):
        epsilon, delta, bet = re.split(r"\s+", rows[asked], maxsplit=2)
        assert f"| {shown.get(asked, asked)} | {epsilon} | {delta} | {bet} |" in text
    counts, lists = re.findall(r"one (?:list of ten|total) .* (\d+) *$", made.output, re.MULTILINE)
    assert f"{lists} lists of ten, or for {counts} totals" in text
    assert "histogram" not in made.output + explained.output  # it costs 1 unit only where a column has max_groups
    tutorial = (ROOT / "docs" / "tutorials" / "ten-minutes.md").read_text(encoding="utf-8")
    assert f"{lists} lists of ten, or {counts} totals" in tutorial
    of_two = re.search(r"2 people have epsilon ([0-9.]+) at", explained.output)[1]
    assert f"two people together a month's epsilon is {of_two}" in text


def test_reference_pages_are_fresh():
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "reference.py")
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    assert reference.STUB.read_text(encoding="utf-8") == reference.stub(), "run: make docs (__init__.pyi)"
    for name, text in reference.pages().items():
        assert (reference.PAGES / name).read_text(encoding="utf-8") == text, f"run: make docs ({name})"


@pytest.mark.parametrize("module", [sfumato.mechanisms, sfumato.accounting], ids=lambda module: module.__name__)
def test_public_names_exist_and_are_explained(module):
    assert module.__all__ == sorted(module.__all__, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    for name in module.__all__:
        thing = getattr(module, name)
        assert thing.__doc__, name


@pytest.mark.parametrize("name", sorted(sfumato.mechanisms.MECHANISMS))
def test_every_mechanism_states_its_guarantee_and_has_its_proof(name):
    docstring = sfumato.mechanisms.MECHANISMS[name].__doc__
    assert "Guarantee:" in docstring
    assert f"proofs/{name}.md" in docstring
    assert (ROOT / "proofs" / f"{name}.md").exists()
    assert f"({name}.md)" in (ROOT / "proofs" / "README.md").read_text(encoding="utf-8")
