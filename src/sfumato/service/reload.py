"""A changed `sfumato.toml` is taken while the service runs.

    the file has changed, or SIGHUP -> read -> check against the live tables -> journal -> later calls ask under it

A file that makes no sense changes nothing: the policy that is in force stays, and the log says which setting is wrong.
Calls that have begun end under the policy that they began with. Each worker process looks for itself.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from sfumato.config import Config, load_config
from sfumato.errors import ConfigError, NeedsRestart, SfumatoError
from sfumato.service.telemetry import locate
from sfumato.session import Session

INTERVAL_S = 1.0

_LOG = logging.getLogger("sfumato.service")

Stat: TypeAlias = tuple[int, int, int] | None


class PolicyWatch:
    """A background thread that looks at the file every second, and at once after a SIGHUP.

    A file that was changed within the last second may be half written, so it is read a second later. `take` gets the
    session under the new policy. `written` is the configuration as the file had it when the service started.
    """

    def __init__(
        self,
        file: str,
        written: Config,
        session: Session,
        take: Callable[[Session], None],
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._file, self._written, self._session, self._take = Path(file), written, session, take
        self._interval_s = interval_s
        self._taken: Stat = None  # of the file that was read last
        self._seen: Stat = None
        self._wake, self._hup, self._stop = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="policy", daemon=True)

    def start(self) -> None:
        """Begin to look. In the main thread, SIGHUP is handled too."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGHUP, lambda *_: self.hurry())
        self._thread.start()

    def stop(self) -> None:
        """Take nothing more."""
        self._stop.set()
        self._wake.set()

    def hurry(self) -> None:
        """Read the file now, whether or not it has changed."""
        self._hup.set()
        self._wake.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(self._interval_s)
            self._wake.clear()
            if not self._stop.is_set():
                self.look()

    def look(self) -> None:
        """Take the file if it has changed and is at rest, or if it has to be read now."""
        stat, before, asked = self._stat(), self._seen, self._hup.is_set()
        self._hup.clear()
        self._seen = stat
        if asked or (stat != self._taken and stat == before):
            self._taken = stat
            self.reload(again=asked)

    def _stat(self) -> Stat:
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def reload(self, *, again: bool = True) -> None:
        """Take the file, or say why not. The log names settings, never what stands there.

        Without `again`, a file with the text that is in force is left alone.
        """
        try:
            config = load_config(self._file)
            if config.digest == self._written.digest and not again:
                return
            _check_restart(self._written, config)
            # Options of the command line win over [service].
            session = self._session.under(replace(config, service=self._session.config.service))
            self._take(session)
        except SfumatoError as error:
            fields: dict[str, str | int] = {
                "problem": type(error).__name__,
                "setting": getattr(error, "setting", None) or "",
                "hint": HINT,
            }
            if isinstance(error, NeedsRestart):
                fields["hint"] = error.problem
            elif isinstance(error, ConfigError) and error.at is not None:
                fields["line"], fields["column"] = error.at
            _LOG.error("policy not taken, the one before stays", extra={"fields": fields})
            return
        except Exception as error:
            _LOG.error("policy not taken, the one before stays", extra={"fields": {"error": locate(error)}})
            return
        self._session, self._written = session, config
        _LOG.info("policy taken", extra={"fields": {"file_sha256": config.digest}})


HINT = "sfumato policy check says what is wrong"


def _check_restart(before: Config, after: Config) -> None:
    """Raise `NeedsRestart` for a section that is read only when the service starts."""
    for section, same in {
        "ledger": before.ledger == after.ledger,
        "noise": before.key_file == after.key_file,
        "engines": before.engines == after.engines,
        "service": before.service == after.service,
    }.items():
        if not same:
            raise NeedsRestart(section)
