"""The epoch: the head of each ledger as it was last published, in a file of its own, outside of the database.

    commit entries -> write the file -> answer whoever asked for them

So the file never leads: a crash between the two leaves it behind by the entries of that moment, and a chain that goes
past a head contains it. A database that lacks a head was restored from an older copy, or rewritten: what was charged
since then is not known, and whoever went on would spend it again.

JSON lines: whose it is and what was lost for good; then heads, of which a ledger's highest counts. It grows by one
write and one flush for each commit, or for several that wait, and is written anew when it is long, at a start, and
after a write that failed. A last line without its end is one that a crash cut off. Any number of servers write into
one file, each at its turn, so that heads may come in any order, of which the highest counts; whoever writes it anew
keeps what the others have told.
"""

import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from accounting.errors import CodecError
from accounting.records.chain import Head
from accounting.records.documents import canonical, fields, parse, text
from app.ledger import store
from app.persistence.files import StartRefused, locked, write_whole
from app.persistence.session import Database
from app.persistence.tables import ledgers, service
from app.settings import Settings

_LONG = 10_000  # lines
_LOG = logging.getLogger("purse.epoch")
_OLDER = "the database is older than what was published of it"
_RESTORE = (
    "restore the newest copy of the database; if there is none, `purse ledger accept-rollback --reason ...` writes so "
    "into each ledger that lost entries, freezes it, and lets the service start"
)
_FIND = (
    "name the right file (PURSE_EPOCH_FILE; is its disk there?); if it is gone for good, `purse ledger accept-rollback "
    "--reason ...` writes so into every ledger, freezes it, and lets the service start"
)


class BelowEpoch(StartRefused):
    """The database is older than what was published of it, or nobody can tell whether it is."""


class Epoch:
    """The heads that were published. Make one with `Epoch.open`.

    Parameters
    ----------
    file : where they are kept
    service : whose they are, as home and database say it too
    heads : by ledger
    lost : ledgers that are in no database any more, as somebody has accepted it
    """

    def __init__(
        self, file: Path, service: str, heads: Mapping[str, Head], lost: Mapping[str, dict[str, Any]] | None = None
    ) -> None:
        self.file = file
        self.service = service
        self.heads = dict(heads)
        self.lost = dict(lost or {})
        self._known, self._writing = threading.Lock(), threading.Lock()
        self._waiting: set[str] = set()
        self._lines = _LONG

    @staticmethod
    def open(settings: Settings, database: Database) -> "Epoch":
        """The service's, its heads moved to where the ledgers are now; made for a service that never had one.

        Raises
        ------
        BelowEpoch
            if a ledger lacks the head that was published of it; if the file is not there, or cannot be read, or is
            that of another service, and so nobody can tell.
        """
        epoch = Epoch.found(settings, database)
        if wrong := epoch.ahead_of(database):
            told = "; ".join(f"{ledger} lacks its head {head}" for ledger, head in sorted(wrong.items()))
            raise BelowEpoch(f"{_OLDER} in {epoch.file} ({told}): {_RESTORE}")
        epoch.begin(database)
        return epoch

    @staticmethod
    def found(settings: Settings, database: Database) -> "Epoch":
        """As the file says, compared with nothing yet; `BelowEpoch` if there should be a file, and is none to trust."""
        file = settings.epoch
        with database.read() as connection:
            whose, has_one = connection.execute(sa.select(service.c.id, service.c.has_epoch)).one()
        try:
            epoch = _read(file)
        except FileNotFoundError:
            if has_one:
                raise BelowEpoch(f"{file} is missing, and so nobody can tell whether {_OLDER}: {_FIND}") from None
            return Epoch(file, whose, {})
        except (CodecError, OSError):
            raise BelowEpoch(f"{file} cannot be read, and so nobody can tell whether {_OLDER}: {_FIND}") from None
        if epoch.service != whose:
            raise BelowEpoch(f"{file} is that of the service {epoch.service}, and this is {whose}: {_FIND}")
        return epoch

    def ahead_of(self, database: Database) -> dict[str, Head]:
        """The ledgers that do not contain the head that was published of them, and that head."""
        with database.read() as connection:
            return {ledger: head for ledger, head in self.heads.items() if not store.contains(connection, head, ledger)}

    def begin(self, database: Database, is_anew: bool = False) -> None:
        """The heads of now; and from here on every commit is followed by its heads. `StartRefused` without a place.

        Parameters
        ----------
        is_anew : whether what the file says counts no more
        """
        with database.read() as connection:
            known = connection.scalars(sa.select(ledgers.c.id)).all()
            self.heads = {ledger: store.head(connection, ledger) for ledger in known}
        try:
            with locked(self.file):
                self._replace({} if is_anew else self._told())
        except OSError as error:
            raise StartRefused(f"{self.file} cannot be written ({error.strerror}): see PURSE_EPOCH_FILE") from None
        with database.write() as connection:
            connection.execute(sa.update(service).where(~service.c.has_epoch).values(has_epoch=True))
        database.after_commit = self.publish

    @property
    def behind(self) -> int:
        """How many ledgers have a newer head than the file: more than none for long, and it cannot be written."""
        return len(self._waiting)

    def publish(self, heads: Mapping[str, Head]) -> None:
        """Keeps these heads, one write for all that wait. Where it cannot, it says so and tries again with the next."""
        with self._known:
            for ledger, head in heads.items():
                if ledger not in self.heads or self.heads[ledger].sequence < head.sequence:
                    self.heads[ledger] = head
                    self._waiting.add(ledger)
        with self._writing:
            with self._known:
                waiting, self._waiting = self._waiting, set()
                told = {ledger: self.heads[ledger] for ledger in waiting}
            if not waiting:
                return  # another one took ours along
            try:
                with locked(self.file):
                    self._write(told)
            except OSError as error:
                self._lines = _LONG
                with self._known:
                    self._waiting |= waiting
                _LOG.error("epoch_not_written %s", type(error).__name__)

    def _write(self, heads: Mapping[str, Head]) -> None:
        """These heads behind what is there; or where that is long, or was cut off, all of them in its place."""
        if self._lines >= _LONG or not _ends(self.file):
            self._replace(self._told())
            return
        lines = b"".join(_line({"ledger": ledger, "head": str(head)}) for ledger, head in heads.items())
        file = os.open(self.file, os.O_WRONLY | os.O_APPEND)
        try:
            if os.write(file, lines) != len(lines):
                raise OSError("a part was written")
            os.fdatasync(file)
        finally:
            os.close(file)
        self._lines += len(heads)

    def _told(self) -> dict[str, Head]:
        """What the file says by now; nothing where it says nothing of this service."""
        try:
            found = _read(self.file)
        except (FileNotFoundError, CodecError):
            return {}
        self.lost |= found.lost if found.service == self.service else {}
        return found.heads if found.service == self.service else {}

    def _replace(self, told: Mapping[str, Head]) -> None:
        """The file with these heads and ours, of each ledger the higher one."""
        with self._known:
            ours = dict(self.heads)
        heads = ours | {of: head for of, head in told.items() if of not in ours or ours[of].sequence < head.sequence}
        lines = (_line({"ledger": ledger, "head": str(head)}) for ledger, head in heads.items())
        write_whole(self.file, _line({"service": self.service, "lost": self.lost}) + b"".join(lines))
        self._lines = 0


def published(settings: Settings, database: Database) -> dict[str, Head]:
    """Return the published heads by ledger; none if the file cannot be trusted, which `Epoch.open` then refuses."""
    try:
        return Epoch.found(settings, database).heads
    except BelowEpoch:
        return {}


def shortfall(settings: Settings, database: Database) -> dict[str, str]:
    """By ledger, that it lacks the head that was published of it, if so; reads alone, whether a server runs or not."""
    try:
        behind = Epoch.found(settings, database).ahead_of(database)
    except BelowEpoch as error:
        return {"epoch": str(error)}
    return {ledger: f"it lacks the head {head} that was published of it" for ledger, head in behind.items()}


def _line(document: dict[str, Any]) -> bytes:
    return canonical(document) + b"\n"


def _ends(file: Path) -> bool:
    """Whether the file is there, and its last line is whole."""
    try:
        with file.open("rb") as lines:
            lines.seek(-1, os.SEEK_END)
            return lines.read() == b"\n"
    except OSError:
        return False


def _read(file: Path) -> Epoch:
    first, *heads = map(parse, file.read_bytes().split(b"\n")[:-1] or [b""])
    node = fields(first, ("service", "lost"), "an epoch")
    if not isinstance(node["lost"], dict):
        raise CodecError("what was lost is an object")
    said = (fields(head, ("ledger", "head"), "a head") for head in heads)
    parsed = ((text(head["ledger"], "ledger"), Head.parse(text(head["head"], "head"))) for head in said)
    known = dict(sorted(parsed, key=lambda told: told[1].sequence))
    return Epoch(file, text(node["service"], "service"), known, node["lost"])
