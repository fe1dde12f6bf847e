"""The deployment files: their commands are those that run here, in a root of its own, as a user without rights.

No container engine is needed. The steps of the Dockerfile are carried out word by word in a fresh root (a mount
namespace and chroot): build the wheel, install it into a clean environment, then serve with a read-only root, without
capabilities, against a real PostgreSQL. What differs from the image is the base: this machine's Python and libraries.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from sfumato.accounting import Charge
from sfumato.client import Client
from sfumato.config import EngineSettings, LedgerSettings, ServiceSettings
from sfumato.demo import demo
from sfumato.ledger import check_fence_place
from sfumato.service.server import GRACE_S
from tests.helpers import postgres

ROOT = Path(__file__).parents[1]
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/proc", "/dev", "/etc/ssl", "/etc/alternatives")
FILES = ("/etc/passwd", "/etc/group", "/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/ld.so.cache")
OFFLINE = ("Could not fetch", "No matching distribution found", "Connection", "Temporary failure in name resolution")


def dockerfile() -> list[list[tuple[str, str]]]:
    """The stages of the Dockerfile: instructions with their words, on one line each."""
    text = (ROOT / "Dockerfile").read_text("utf-8")
    lines = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    steps = [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines if line]
    starts = [place for place, (verb, _) in enumerate(steps) if verb == "FROM"]
    return [steps[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]


BUILD, RUNTIME = dockerfile()
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
UNIT = (ROOT / "deploy" / "sfumato.service").read_text("utf-8")
NGINX = (ROOT / "deploy" / "nginx.conf").read_text("utf-8")


def told(stage: list[tuple[str, str]], verb: str) -> str:
    [words] = [words for name, words in stage if name == verb]
    return words


def setting(name: str) -> str:
    [value] = re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)
    return value


SERVE = json.loads(told(RUNTIME, "CMD"))
HEALTHY = json.loads(told(RUNTIME, "HEALTHCHECK").partition("CMD ")[2])
ENTRY = json.loads(told(RUNTIME, "ENTRYPOINT"))


class TestTheFilesAgree:
    def test_all_run_the_same_command(self) -> None:
        service = COMPOSE["services"]["sfumato"]
        assert service["command"] == [*SERVE, "--workers", "2"]
        inside = ["127.0.0.1" if word == "0.0.0.0" else word for word in SERVE if word != "--behind-proxy"]  # noqa: S104
        assert shlex.split(setting("ExecStart")) == ["/opt/sfumato/bin/sfumato", *inside]

    def test_whoever_stops_it_waits_for_longer_than_running_questions_may_take(self) -> None:
        assert int(setting("TimeoutStopSec")) > GRACE_S
        assert int(COMPOSE["services"]["sfumato"]["stop_grace_period"].removesuffix("s")) > GRACE_S
        assert {setting("KillSignal"), told(RUNTIME, "STOPSIGNAL")} == {"SIGTERM"}

    @pytest.mark.parametrize("name", ["sfumato", "postgres"])
    def test_containers_can_do_little(self, name: str) -> None:
        service = COMPOSE["services"][name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert not any(
            "password" in str(value).lower() for key, value in service["environment"].items() if "FILE" not in key
        )
        assert all(name in COMPOSE["secrets"] for name in service["secrets"])

    def test_the_ledger_is_not_reachable_from_outside(self) -> None:
        assert COMPOSE["services"]["postgres"]["networks"] == ["inside"]
        assert COMPOSE["networks"]["inside"]["internal"] is True
        assert all(port.startswith("127.0.0.1:") for port in COMPOSE["services"]["sfumato"]["ports"])

    def test_the_image_does_not_run_as_root_and_takes_only_what_it_needs(self) -> None:
        assert told(RUNTIME, "USER") == "10001:10001"
        allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line[:1] == "!"]
        copied = [source for verb, words in BUILD if verb == "COPY" for source in words.split()[:-1]]
        assert sorted(allowed) == sorted(copied)

    def test_a_ledger_of_the_unit_is_not_in_one_folder_with_its_fence(self, monkeypatch: pytest.MonkeyPatch) -> None:
        state = dict(word.split("=") for word in setting("Environment").split())["XDG_STATE_HOME"]
        folders = [f"/var/lib/{name}" for name in setting("StateDirectory").split()]
        assert (folders[0], state) == ("/var/lib/sfumato", folders[1])
        monkeypatch.setenv("XDG_STATE_HOME", state)
        check_fence_place(LedgerSettings(f"sqlite:{folders[0]}/ledger.db"), Path("/etc/sfumato"))

    @pytest.mark.skipif(
        shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed: apt-get install systemd"
    )
    def test_systemd_understands_the_unit(self, tmp_path: Path) -> None:
        unit = tmp_path / "sfumato.service"
        unit.write_text(UNIT.replace("/opt/sfumato/bin/sfumato", shutil.which("true") or ""), "utf-8")
        run = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
        assert (run.returncode, run.stdout + run.stderr) == (0, "")

    def test_the_proxy_keeps_what_is_for_operators_and_has_the_limits_of_the_service(self) -> None:
        for path in ("/metrics", "/readyz"):
            assert re.search(rf"location = {path} +{{ return 404; }}", NGINX)
        assert f"client_max_body_size {ServiceSettings().max_request_bytes >> 10}k;" in NGINX
        [wait] = re.findall(r"proxy_read_timeout +([0-9]+)s;", NGINX)
        assert int(wait) > EngineSettings().timeout_s


def can_unshare() -> bool:
    command = ["unshare", "--mount", "true"]
    return os.geteuid() == 0 and bool(shutil.which("unshare")) and subprocess.run(command).returncode == 0


class Box:
    """A root of its own below `place`, with this machine's programs and nothing else of it."""

    def __init__(self, place: Path) -> None:
        self.root = place / "root"
        for path in ("etc", "tmp", "build", "opt", "var/lib", "run"):
            (self.root / path).mkdir(parents=True)
        for path in FILES:
            if Path(path).exists():
                shutil.copy(path, self.root / path[1:])
        self.mounts = {Path(path): Path(path) for path in SYSTEM if Path(path).exists()}
        if not sys.base_prefix.startswith("/usr"):
            self.mounts[Path(sys.base_prefix)] = Path(sys.base_prefix)

    def command(
        self,
        words: list[str],
        environment: Mapping[str, str],
        *,
        user: Mapping[str, int] | None = None,
        folder: str = "/",
    ) -> list[str]:
        """`words` inside; with a `user`, as them, without any capability, and with a root that is read-only."""
        within = shlex.quote(str(self.root))
        steps = [f"mount --bind {within} {within}", *(self._mount(*pair) for pair in self.mounts.items())]
        become: list[str] = []
        if user is not None:
            steps += [f"mount -o remount,bind,ro {within}", f"mount -t tmpfs -o mode=1777 tmpfs {within}/tmp"]  # noqa: S108
            ids = ["--reuid", str(user["user"]), "--regid", str(user["group"]), "--clear-groups"]
            become = ["setpriv", *ids, "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
        enter = ["chroot", str(self.root), *become, "env", "-i", "-C", folder]
        run = [*enter, *(f"{name}={value}" for name, value in environment.items()), *words]
        return ["unshare", "--mount", "sh", "-euc", "\n".join([*steps, f"exec {shlex.join(run)}"])]

    def _mount(self, source: Path, target: Path) -> str:
        place = self.root / str(target)[1:]
        if source.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.touch()
        rights = "ro" if target == Path("/etc/sfumato") else "rw"
        named = shlex.quote(str(place))
        return f"mount --rbind {shlex.quote(str(source))} {named} && mount -o remount,bind,{rights} {named}"


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    """The build stage of the Dockerfile, carried out."""
    if not can_unshare():
        pytest.skip("imitating a container needs root and mount namespaces: run the tests as root, outside a container")
    place = Path(tempfile.mkdtemp(prefix="sfumato-box-"))  # not pytest's folder, which is closed to other users
    place.chmod(0o755)
    try:
        yield built(Box(place))
    finally:
        shutil.rmtree(place)


def built(box: Box) -> Box:
    python = str(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
    outside = {**os.environ, "PATH": "/image/bin:/usr/bin:/bin", "HOME": "/tmp"}  # noqa: S108
    run(box.command([python, "-m", "venv", "/image"], outside))  # what the image of Python is there for
    for verb, words in BUILD:
        if verb == "COPY":
            *sources, target = words.split()
            for source in sources:
                copy(ROOT / source, box.root / "build" / target)
        if verb == "RUN":
            run(box.command(["sh", "-ec", words], outside, folder="/build"))
    return box


def copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode and any(words in done.stderr for words in OFFLINE):
        pytest.skip("the package index, from which the image installs, cannot be reached: go online")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def settings(box: Box, postgres_server: Path, postgres_url: str, tmp_path: Path) -> dict[str, str]:
    """What stands in the Dockerfile and in compose.yaml, with folders and a database behind it."""
    account = postgres.account()  # whose folder PostgreSQL's socket is in
    config = tmp_path / "config"
    demo.prepare(config, 2000)
    for name in ("books", "state"):
        shutil.rmtree(config / name, ignore_errors=True)
    secret = box.root / "run" / "secrets" / "noise_key"
    secret.parent.mkdir(exist_ok=True)
    shutil.move(config / "noise.key", secret)
    os.chown(secret, account["user"], account["group"])
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    os.chown(state, account["user"], account["group"])
    box.mounts |= {config: Path("/etc/sfumato"), state: Path("/var/lib/sfumato")}
    box.mounts |= {postgres_server: Path("/run/postgresql")}
    environment = (
        dict(word.split("=", 1) for word in told(RUNTIME, "ENV").split())
        | COMPOSE["services"]["sfumato"]["environment"]
    )
    environment["PATH"] = environment["PATH"].replace("$PATH", "/usr/bin:/bin")
    url = postgres_url.replace(quote(str(postgres_server), safe=""), quote("/run/postgresql", safe=""))
    return environment | {"SFUMATO_LEDGER__URL": url}


@contextmanager
def serving(box: Box, words: list[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    command = box.command([*ENTRY, *words], environment, user=postgres.account(), folder="/var/lib/sfumato")
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8"}
    with subprocess.Popen(command, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return str(taken.getsockname()[1])


@pytest.mark.exhaustive  # installs the package and PostgreSQL's driver into a root of its own
@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--workers", "2"]], ids=["Dockerfile", "compose.yaml"])
def test_the_image_serves_without_rights_on_a_read_only_root(
    box: Box, settings: dict[str, str], more: list[str]
) -> None:
    port = free_port()
    words = [word.replace("8080", port) for word in [*SERVE, *more]]
    inside: dict[str, Any] = {"user": postgres.account(), "folder": "/var/lib/sfumato"}
    touch = subprocess.run(
        box.command(["touch", "/etc/sfumato/x", "/opt/x", "/x"], settings, **inside), capture_output=True
    )
    assert touch.stderr.count(b"Read-only file system") == 3
    create = [*ENTRY, "keys", "create", "--config", "/etc/sfumato/sfumato.toml", "--analyst", "anna", "--json"]
    key = json.loads(run(box.command(create, settings, **inside)))["key"]
    with serving(box, words, settings) as process:
        assert process.stdout is not None
        assert f"127.0.0.1:{port}" in process.stdout.readline(), process.communicate()
        with Client(f"http://127.0.0.1:{port}", key, retries=100, sleep=lambda _: time.sleep(0.3)) as client:
            answer = client.ask("SELECT region, members FROM engagements GROUP BY region")
            again = client.ask("SELECT region, members FROM engagements GROUP BY region")
        run(box.command([word.replace("8080", port) for word in HEALTHY], settings, **inside))
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=GRACE_S)
    assert process.returncode in (0, -signal.SIGTERM), stderr
    assert (len(answer.rows), answer.receipt.charge) == (3, Charge(1, 0))
    assert again.rows == answer.rows
    assert all(json.loads(line)["level"] in ("info", "debug") for line in stderr.splitlines()), stderr
