"""A wheel, built and installed into an empty environment without a network, holds all that the service serves."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.helpers.browsing import Page

pytestmark = pytest.mark.slow  # a build, an installation and a demo

ROOT = Path(__file__).parents[1]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")


def run(*command: str | Path, cwd: Path) -> str:
    ended = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wheel")


@pytest.fixture(scope="module")
def wheel(folder: Path) -> Path:
    run(*PIP, "wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("sfumato-*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, folder: Path) -> Path:
    """The programs of an environment that has the wheel, and from this one what it depends on."""
    place = folder / "empty"
    run(sys.executable, "-m", "venv", "--without-pip", place, cwd=folder)
    python = place / "bin" / "python"
    run(*PIP, "--python", python, "install", "--no-index", "--no-deps", wheel, cwd=folder)
    (packages,) = place.glob("lib/python*/site-packages")
    # A folder that is named here is searched last, and what is linked from it (the tree of this project) is not.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = run(python, "-c", "import sfumato; print(sfumato.__file__)", cwd=folder).strip()
    assert where == str(packages / "sfumato" / "__init__.py")
    return python.parent


def test_it_has_every_file_of_the_package(wheel: Path) -> None:
    source = ROOT / "src"
    files = {str(path.relative_to(source)) for path in (source / "sfumato").rglob("*") if path.is_file()}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == {name for name in files if "__pycache__" not in name}


@contextmanager
def demo(programs: Path, folder: Path) -> Iterator[list[str]]:
    """A demo that is up, and the lines with which it invites."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    environment.pop("PYTHONPATH", None)
    command = [programs / "sfumato", "demo", "--members", "500"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8"}
    with subprocess.Popen(command, env=environment, cwd=folder, **pipes) as process:
        lines = [""]
        try:
            while not lines[-1].startswith("Ctrl-C"):
                lines.append(process.stdout.readline())
                assert lines[-1], process.stderr.read()
            yield lines
        finally:
            process.terminate()
            process.communicate(timeout=60)


def test_every_page_is_served_from_it(programs: Path, folder: Path) -> None:
    with demo(programs, folder) as lines:
        (url,) = [line.split()[1] for line in lines if line.startswith("  pages ")]
        keys = dict(re.findall(r"^  (anna|rita|omar) +(sfumato_\S+)", "".join(lines), re.MULTILINE))
        assert len(keys) == 3
        seen: dict[str, set[str]] = {}
        for name, key in keys.items():
            with httpx2.Client(base_url=url, follow_redirects=True, trust_env=False) as browser:
                opened = browser.post("/sign-in", data={"key": key, "next": "/"}, headers={"origin": url})
                seen[name] = open_all(browser, opened)
        with httpx2.Client(base_url=url, trust_env=False) as browser:
            assert browser.get("/docs").status_code == browser.get("/openapi.json").status_code == 200
            assert browser.get("/problems/not-found").status_code == 200
    assert {"/tables", "/ask", "/history", "/budget", "/reports"} <= seen["anna"]
    assert "/reports" in seen["rita"] - {"/ask"}
    assert "/tables" in seen["omar"]


def open_all(browser: httpx2.Client, opened: httpx2.Response) -> set[str]:
    """Open all pages of the frame, the first report, and all that they load. Returns the paths of the frame."""
    page = check_page(browser, opened)
    (frame,) = page.find("nav", **{"aria-label": "Pages"})
    paths = {link["href"] for link in frame.find("a")}
    for path in sorted(paths):
        shown = check_page(browser, browser.get(path))
        for link in [each["href"] for each in shown.find("a") if each["href"].startswith("/reports/")][:1]:
            check_page(browser, browser.get(link))
    return paths


def check_page(browser: httpx2.Client, reply: httpx2.Response) -> Page:
    """Whether it is a page, and all that it loads is there and of the service itself."""
    assert reply.status_code == 200, (reply.url, reply.status_code)
    assert "Signed in as" in reply.text
    page = Page(reply.text)
    loaded = [node["href"] for node in page.find("link") if not node["href"].startswith("data:")]
    loaded += [node["src"] for tag in ("script", "img") for node in page.find(tag) if node.get("src")]
    assert len(loaded) >= 2
    for path in loaded:
        assert re.fullmatch(r"/assets/[a-z]+-[0-9a-f]{16}\.(css|js)", path), path
        assert browser.get(path).status_code == 200
    return page
