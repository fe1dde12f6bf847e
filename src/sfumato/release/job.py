"""One release from beginning to end: check, reserve, read, release, settle, write.

    without a ledger    the noise is fresh, and earlier releases are not known
    with a ledger       the whole price is reserved before a row is read, and settled with the table in one transaction

A job has a name. Once it is finished, its table comes from the ledger, without a look at the data; under another
request the name is refused; and what was begun and never finished is run again under its one charge. Nothing of the
first run was seen, so the second may be of other rows with the same nonce.
"""

from __future__ import annotations

import base64
import glob
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from sfumato.config import Config, noise_key
from sfumato.engines.places import table_places, tables_at
from sfumato.errors import (
    ConfigError,
    Conflict,
    EngineFailed,
    Failed,
    InvalidArgument,
    NotFound,
    NotSupported,
    find_nearest,
)
from sfumato.ledger import Account, Debit, Ledger, Revealed, open_ledger
from sfumato.ledger.accounts import cap_accounts, release_account
from sfumato.ledger.policy_trail import record_policy
from sfumato.mechanisms import Step, context
from sfumato.release import outputs
from sfumato.release.frames import Frame
from sfumato.release.request import ProgressCallback, ReleaseRequest, quiet
from sfumato.release.source import Source, locate_table, open_source, open_table, tables_of_source
from sfumato.release.table import Released
from sfumato.spending import Purchase, SingleFlight, forfeit, spend, without_frames
from sfumato.wire import AccountStanding

COULD_NOT = "the rows could not be read, and nothing was released"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")


@dataclass(frozen=True, slots=True)
class Payer:
    """Whose budget pays: a budget of a configuration, by name."""

    config: Config = field(repr=False)
    budget: str

    def __post_init__(self) -> None:
        if self.budget not in self.config.budgets:
            known = self.config.budgets
            near = find_nearest(self.budget, known)
            raise NotFound(f"there is no budget {self.budget[:60]!r} in the configuration", nearest=near)

    def accounts(self, tables: Sequence[str]) -> tuple[Account, ...]:
        """The budget's own account and, of each table of the configuration that has a cap, the table's."""
        own = release_account(self.config, self.budget)
        capped = {table: cap_accounts(self.config, table, own.name) for table in tables}
        for table, accounts in capped.items():
            if any(each.budget.unit_prices != own.budget.unit_prices for each in accounts):
                problem = f"has other prices (epsilon_per, delta_per) than the budget {self.budget}"
                raise ConfigError(f"tables.{table}.cap", f"{problem}; a release of its rows is paid from both")
        return own, *(account for accounts in capped.values() for account in accounts)


@dataclass(frozen=True, kw_only=True)
class Job:
    """A request with everything around it."""

    request: ReleaseRequest
    source: str | Path | Frame
    keys: str | Path | None = None
    database: Path | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    memory: str = "2GB"
    out: outputs.Target | None = None
    overwrite: bool = False
    payer: Payer | None = None
    name: str | None = None
    progress: ProgressCallback = quiet

    def __post_init__(self) -> None:
        if self.name is not None and not _NAME.fullmatch(self.name):
            raise InvalidArgument("job", "is a name of letters, digits and . _ : -, at most 100 of them")
        if self.name is not None and self.payer is None and self.out is None:
            raise InvalidArgument("job", "has to be remembered somewhere: give a config and a budget, or an out")
        if self.name is None and self.payer is not None:
            object.__setattr__(self, "name", secrets.token_hex(8))
        if self._table is not None and (self.database is not None or self.types):
            given = "types" if self.database is None else "database"
            raise InvalidArgument(given, f"does not go with {self._table}, which is a table of the configuration")
        paid = None if self.payer is None else self.payer.config.budgets[self.payer.budget].tables
        released = (self._named,) if self._named else self._tables
        if self.payer is not None and paid is not None and released and not set(released).intersection(paid):
            problem = f"{self.payer.budget} does not pay for {released[0]}; it pays for {', '.join(paid) or 'nothing'}"
            raise NotSupported(problem, field="budget")

    @property
    def digest(self) -> str:
        """A name for the request and who pays for it."""
        return self._digests[0]

    @property
    def _digests(self) -> tuple[str, ...]:
        """Its digest, and those that the same job had under earlier algorithms: what was charged is charged once."""
        payer = "" if self.payer is None else self.payer.budget
        contexts = (context(request=digest, budget=payer) for digest in self.request.digests)
        return tuple(hashlib.sha256(encoded).hexdigest() for encoded in contexts)

    def plan(self) -> dict[str, Any]:
        """What would be done and what it would cost. Reads no row."""
        with self._opened() as source:
            self.request.check(source)
        self.request.check_affordable()
        request = self.request
        spent = request.spendings()
        record: dict[str, Any] = {
            "method": request.method,
            "guarantee": request.promised.to_dict(),
            "groups": request.promised.to_groups(spent),
            "parameters": request.parameters,
            "steps": [each.to_dict(request.promised.accounting) for each in spent],
        }
        return record | self._price()

    def _price(self) -> dict[str, Any]:
        if self.payer is None:
            return {}
        debit = self._debit("")
        with self._ledger() as ledger:
            if self._is_finished(ledger, debit):
                debit = self._debit("", finished=True)
            [charge] = ledger.prices(debit, lambda _: [debit.worst])  # nothing, where the job is begun or finished
            standings = ledger.standings(debit.accounts, _now())
        accounts = [AccountStanding.from_attributes(standing).to_dict() for standing in standings]
        return {"charge": charge.to_dict(), "accounts": accounts}

    @without_frames
    def run(self) -> Released:
        """Release the table and write it. What is wrong with the request is refused before anything is charged."""
        done = self._done_before()
        if done is not None:
            return done
        overwrite = self.overwrite or self._written
        if self.payer is None:
            released = self._release_without_ledger(overwrite=overwrite)
        else:
            released = self._release_with_ledger(overwrite=overwrite)
        if self.out is not None:
            self.progress("writing", 0)
            self._write(self.out, released, overwrite=overwrite)
        return released

    def _release_without_ledger(self, *, overwrite: bool) -> Released:
        with self._checked_source(overwrite=overwrite) as source:
            try:
                return self._compute(source, os.urandom(32))
            except Exception:
                raise EngineFailed(COULD_NOT) from None

    def _release_with_ledger(self, *, overwrite: bool) -> Released:
        """Buy the release on the one paid path. Of a finished job the source is not opened: it may be gone."""
        assert self.payer is not None  # noqa: S101
        debit = self._debit("")
        now = _now()
        with self._ledger() as ledger, ExitStack() as stack:
            record_policy(ledger, self.payer.config, now)
            if self._is_finished(ledger, debit):
                key, source, debit = b"", None, self._debit("", finished=True)
                if self.out is not None:
                    self.out.check(overwrite=overwrite)
            else:
                self._forfeit_earlier(ledger, debit, now)
                source = stack.enter_context(self._checked_source(overwrite=overwrite))
                key = noise_key.read_key(self.payer.config.key_file)
                debit = self._debit(noise_key.epoch(key))

            def compute(nonce: bytes) -> str:
                assert source is not None  # noqa: S101
                secret = hmac.digest(key, context(job=self.name, nonce=nonce, purpose="release"), "sha256")
                return _pack(self._compute(source, secret))

            again = f"what was reserved stays reserved, and costs no more when it is run again with --job {self.name}"
            purchase = Purchase(debit, compute, self._reveal, f"{COULD_NOT}; {again}", self._check_same)
            settled = spend(purchase, ledger, SingleFlight(), now)
            self._check_same(json.loads(settled.body))
            return _unpack(ledger.payload(debit.atom))

    def _forfeit_earlier(self, ledger: Ledger, debit: Debit, now: datetime) -> None:
        """Close what an earlier algorithm reserved for this job: what it would have released is not known any more."""
        held = ledger.reservation(debit.own.name, debit.digest)
        if held is not None and held.request.get("request") != self.digest:
            forfeit(held, ledger, now)
            raise Conflict(
                f"job {self.name} was begun by an earlier version of Sfumato and not finished. What it reserved is "
                "spent, because this version has other noise. Run it again to release the table under a new charge",
                reused=True,
            )

    def _is_finished(self, ledger: Ledger, debit: Debit) -> bool:
        """Whether the ledger has the table of this job, and not only its reservation."""
        begun = ledger.requests(debit.digest)
        for each in begun:
            self._check_same(each)
        return any(each.get("type") != "release" for each in begun)

    @contextmanager
    def _checked_source(self, *, overwrite: bool) -> Iterator[Source]:
        """The source, once everything that can be refused before a row is read was checked."""
        if self.out is not None:
            self.out.check(overwrite=overwrite)
        self._check_apart()
        self.request.check_affordable()
        with self._opened() as source:
            self.request.check(source)
            yield source

    def _compute(self, source: Source, secret: bytes) -> Released:
        """Exact counts are in here and nowhere else."""
        released = self.request.run(source, secret, self.progress)
        return replace(released, statement={**released.statement, "job": self.name, "request": self.digest})

    def _check_apart(self) -> None:
        """A table must not replace the rows that it is made of."""
        out = self.out
        if isinstance(out, outputs.FileTarget):
            same = any(out.path.resolve() in _files(read) for read in (self.source, self.keys, self._file_of_table))
        elif isinstance(out, outputs.DuckDBTarget) and self.database is not None:
            tables = out.table.casefold(), str(self.source).casefold()
            same = out.path.resolve() == self.database.resolve() and tables[0] == tables[1]
        else:
            same = False
        if same:
            raise InvalidArgument("out", "is where the rows are; choose another place for the table")

    def _write(self, out: outputs.Target, released: Released, *, overwrite: bool) -> None:
        try:
            outputs.write(out, released, overwrite=overwrite)
            return
        except Failed as failed:
            words = str(failed)
        if self.payer is None:
            raise Failed(words)
        if not self._written:  # or the same job was run twice at once, and its one table is there
            raise Failed(f"{words}; it is paid for, and costs no more when it is run again with --job {self.name}")

    def _done_before(self) -> Released | None:
        """Without a ledger, a job is remembered by its table alone."""
        statement = self._standing
        if self.payer is not None or self.out is None or self.name is None or statement.get("job") != self.name:
            return None
        self._check_same(statement)
        return outputs.read(self.out)

    @property
    def _written(self) -> bool:
        """Whether what stands at `out` is the table of this job."""
        standing = self._standing
        return self.name is not None and standing.get("job") == self.name and standing.get("request") in self._digests

    @property
    def _standing(self) -> Mapping[str, Any]:
        """The statement of what stands at `out`; nothing where nothing is there, or something else."""
        try:
            return {} if self.out is None else self.out.load().statement
        except InvalidArgument:
            return {}

    def _check_same(self, statement: Mapping[str, Any]) -> None:
        if statement.get("job") == self.name and statement.get("request") not in self._digests:
            words = f"job {self.name} was begun with other parameters; give this release another name"
            raise Conflict(words, reused=True)

    def _debit(self, epoch: str, *, finished: bool = False) -> Debit:
        assert self.payer is not None  # noqa: S101
        # What was released when only names were looked up has left: it is not charged to the caps of other names now.
        named = (self._named,) if self._named else ()
        accounts = self.payer.accounts(named if finished else self._tables)
        digest = hmac.digest(b"release", context(job=self.name), "sha256").hex()
        return Debit(
            analyst="",
            accounts=accounts,
            digest=f"sha256:{digest}",
            atom=f"release:{digest}",
            epoch=epoch,
            version="",
            request={"job": self.name, "request": self.digest, "type": "release"},
            worst=(self._step,),
        )

    @property
    def _step(self) -> Step:
        assert self.payer is not None  # noqa: S101
        prices = self.payer.config.budgets[self.payer.budget].prices
        return Step("histogram", self.request.promised.charge(prices))

    def _reveal(self, payload: str) -> Revealed:
        return Revealed(json.dumps(json.loads(payload)["statement"]), (self._step,))

    @property
    def _table(self) -> str | None:
        """The table of the configuration that is released, if it is one."""
        known = {} if self.payer is None else self.payer.config.tables
        return self.source if isinstance(self.source, str) and self.source in known else None

    @property
    def _named(self) -> str:
        """The table of the configuration that the caller names: the one that is released, or whose rows a frame has."""
        return self.source.table if isinstance(self.source, Frame) else self._table or ""

    @cached_property
    def _tables(self) -> tuple[str, ...]:
        """The tables of the configuration that have rows of this source, whatever name or path it is given by.

        The caps of all of them pay: a release says something about the people of each.
        """
        if self.payer is None:
            return ()
        if self._table is not None:
            return tables_at(self.payer.config, table_places(self.payer.config, self._table))
        return tables_of_source(self.payer.config, self.source, self.database)

    @property
    def _file_of_table(self) -> str | None:
        config = None if self.payer is None else self.payer.config
        return None if config is None or self._table is None else locate_table(config, self._table)

    @contextmanager
    def _opened(self) -> Iterator[Source]:
        table = self._table
        self._check_unit()
        if table is None or self.payer is None:
            options: dict[str, Any] = {"database": self.database, "types": self.types, "memory": self.memory}
            with open_source(self.source, keys=self.keys, **options) as source:
                yield source
            return
        if self.keys is not None:
            raise InvalidArgument("keys", "go with a file; name the table's file instead of the table")
        with open_table(self.payer.config, table, memory=self.memory) as source:
            yield source

    def _check_unit(self) -> None:
        """A table's cap limits all results about its own people, so a release of its rows must protect the same."""
        tables = {} if self.payer is None else self.payer.config.tables
        names = (self._named,) if self._named else self._tables
        units = {tables[name].privacy_unit: name for name in names if tables[name].privacy_unit}
        if units and self.request.reading.unit not in units:
            unit, table = next(iter(units.items()))
            rows = "" if self._table else ", whose rows these are"
            raise InvalidArgument("unit", f"must be {unit}, the privacy unit of {table}{rows}")

    @contextmanager
    def _ledger(self) -> Iterator[Ledger]:
        assert self.payer is not None  # noqa: S101
        with open_ledger(self.payer.config.ledger, self.payer.config.folder) as ledger:
            yield ledger


def _files(pattern: str | Path | Frame | None) -> set[Path]:
    """The files that a source is, as far as they are there."""
    if pattern is None or isinstance(pattern, Frame):
        return set()
    return {Path(file).resolve() for file in (pattern, *glob.glob(str(pattern)))}  # noqa: PTH207


def _pack(released: Released) -> str:
    """The table and its statement as the text that the ledger stores."""
    table = base64.b64encode(outputs.payload(released)).decode()
    return json.dumps({"statement": released.statement, "table": table})


def _unpack(payload: str) -> Released:
    kept = json.loads(payload)
    return outputs.from_payload(base64.b64decode(kept["table"]), kept["statement"])


def _now() -> datetime:
    return datetime.now(UTC)
