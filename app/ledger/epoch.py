"""The epoch: the last published head of each ledger, in a file outside of the database.

    commit entries -> write the file -> answer the request

The file is therefore never ahead of the database. After a crash between the first two steps, the file lacks the newest
heads. The next start accepts this, because each chain still contains its head in the file. A database that lacks a
published head was restored from an older copy, or rewritten. Charges made since then are unknown, and would be spent
again.

The file contains JSON lines: first the service and the ledgers that were permanently lost, then heads, of which the
highest of each ledger counts. Each commit, or several that wait, adds one write and one flush. The file is rewritten at
a start, when it is long, and after a write that failed. A last line without its end was cut off by a crash. Any number
of servers write to one file in turn, so heads may be in any order; a rewrite keeps the heads of other servers.

Answers that a session has recorded are not entries of a ledger. Each open session has a line of its own. Instead of a
sequence number, this line states how many answers were recorded. An older copy of the database would otherwise allow a
session more answers than it planned, and refund answers that were given. The line is removed when the head of the
session's ledger in the file covers the entry that ended the session: at a start, and by `Epoch.forget_ended`.
"""

import hashlib
import json
import logging
import os
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from accounting.errors import CodecError
from accounting.records.chain import Head
from accounting.records.documents import canonical, fields, parse, text
from app.ledger import batches, store
from app.persistence.dialect import Unavailable
from app.persistence.files import StartRefused, locked, write_whole
from app.persistence.session import Database
from app.persistence.tables import datasets, service, sessions
from app.settings import Settings

MOST_LINES = 10_000  # before the file is rewritten
_LOG = logging.getLogger("purse.epoch")
_OLDER = "the database is older than its published heads"
_UNKNOWN = f"Without it, the server cannot tell whether {_OLDER}"
_RESTORE = (
    "Restore the newest copy of the database. If none exists, `purse ledger accept-rollback --reason ...` records the "
    "loss in each ledger that lost entries, freezes it, and lets the service start"
)
_FIND = (
    "Mount the disk of the right file, or name this file in PURSE_EPOCH_FILE. If the file is permanently lost, "
    "`purse ledger accept-rollback --reason ...` records the loss in every ledger, freezes all of them, and lets the "
    "service start"
)


class BelowEpoch(StartRefused):
    """The database is older than its published heads, or this cannot be determined."""


class Epoch:
    """The published heads. To be created by `Epoch.open`.

    Parameters
    ----------
    file : file of the heads
    service : identity of the service, as in home and database
    heads : published head, by ledger, and by session that may be open
    lost : ledgers that no database contains any more, as an operator has accepted
    """

    def __init__(
        self, file: Path, service: str, heads: Mapping[str, Head], lost: Mapping[str, dict[str, Any]] | None = None
    ) -> None:
        self.file = file
        self.service = service
        self.heads = dict(heads)
        self.lost = dict(lost or {})
        self._guard = threading.Lock()
        self._writing = threading.Lock()
        self._waiting: set[str] = set()
        self._lines = MOST_LINES

    @staticmethod
    def open(settings: Settings, database: Database) -> "Epoch":
        """Return the epoch of a service with the current heads; the file is created for a service that never had one.

        Raises
        ------
        BelowEpoch
            if a ledger lacks its published head; or if the file is missing, cannot be read, or belongs to another
            service.
        """
        epoch = Epoch.read(settings, database)
        if wrong := epoch.ahead_of(database):
            details = "; ".join(f"{name} lacks {_part(name)} {head}" for name, head in sorted(wrong.items()))
            raise BelowEpoch(f"{_OLDER} in {epoch.file} ({details}). {_RESTORE}")
        epoch.begin(database)
        return epoch

    @staticmethod
    def read(settings: Settings, database: Database) -> "Epoch":
        """Return the epoch in the file; raise `BelowEpoch` if the file is missing, damaged, or of another service."""
        file = settings.epoch
        with database.read() as connection:
            identity, has_file = connection.execute(sa.select(service.c.id, service.c.has_epoch)).one()
        try:
            epoch = _read(file)
        except FileNotFoundError:
            if has_file:
                raise BelowEpoch(f"{file} is missing. {_UNKNOWN}. {_FIND}") from None
            return Epoch(file, identity, {})
        except (CodecError, OSError):
            raise BelowEpoch(f"{file} cannot be read. {_UNKNOWN}. {_FIND}") from None
        if epoch.service != identity:
            raise BelowEpoch(f"{file} belongs to the service {epoch.service}, and this is {identity}. {_FIND}")
        return epoch

    def ahead_of(self, database: Database) -> dict[str, Head]:
        """Return the ledgers that lack their published head, the sessions that lack recorded answers, and these heads.

        A session that ended needs no head: the entry that ended it is covered by its ledger's.
        """
        with database.read() as connection:
            recorded = _recorded(connection)
            of_ledgers = {name: head for name, head in self.heads.items() if not is_session(name)}
            present = batches.contained(connection, of_ledgers)
        lacking = {name: head for name, head in of_ledgers.items() if name not in present}
        of_sessions = {name: head for name, head in self.heads.items() if is_session(name)}
        return lacking | {
            name: head for name, head in of_sessions.items() if recorded.get(name, head).sequence < head.sequence
        }

    def begin(self, database: Database, is_anew: bool = False) -> None:
        """Publish the current heads, and the new heads after every commit from now on.

        Parameters
        ----------
        is_anew : whether the heads in the file are discarded

        Raises
        ------
        StartRefused
            if the file cannot be written.
        """
        try:
            with locked(self.file):
                stored = {} if is_anew else self._stored()
                # The sessions are read after the file, which other servers write. The heads are read after the
                # sessions, so that they cover the end of each session whose line is left out.
                with database.read() as connection:
                    of_sessions = _recorded(connection)
                    self.heads = batches.heads(connection)
                self.heads |= {name: head for name, head in of_sessions.items() if head.sequence}
                current = {name: head for name, head in stored.items() if not is_session(name) or name in of_sessions}
                self._replace(current)
        except Unavailable:  # of the database, not of the file
            raise
        except OSError as error:
            raise StartRefused(
                f"{self.file} cannot be written ({error.strerror}), so a rollback could not be detected. Let this user "
                "write it, or set PURSE_EPOCH_FILE to another file"
            ) from None
        with database.write() as connection:
            connection.execute(sa.update(service).where(~service.c.has_epoch).values(has_epoch=True))
        database.after_commit = self.publish

    @property
    def behind(self) -> int:
        """Number of ledgers and open sessions whose newest head is not published; above 0 while writes fail."""
        return len(self._waiting)

    def publish(self, heads: Mapping[str, Head]) -> None:
        """Write these heads, together with others that wait; after a failure they wait for the next call."""
        with self._guard:
            for ledger, head in heads.items():
                if ledger not in self.heads or self.heads[ledger].sequence < head.sequence:
                    self.heads[ledger] = head
                    self._waiting.add(ledger)
        with self._writing:
            with self._guard:
                waiting, self._waiting = self._waiting, set()
                newest = {ledger: self.heads[ledger] for ledger in waiting}
            if not waiting:
                return  # another thread wrote ours with its own
            try:
                with locked(self.file):
                    self._write(newest)
            except OSError as error:
                self._lines = MOST_LINES
                with self._guard:
                    self._waiting |= waiting
                _LOG.error("epoch_not_written %s", type(error).__name__)

    def forget_ended(self, database: Database) -> None:
        """Remove the lines of sessions whose end is published with the head of their ledger.

        Every copy of the database that contains this head contains the end, so it allows these sessions nothing more. A
        crash meanwhile leaves the old file. If the file cannot be written, the lines remain until the next call.
        """
        if not self._sessions(self._stored()):
            return
        try:
            with self._writing, locked(self.file):
                stored = self._stored()
                with database.read() as connection:
                    ended_sessions = _published_ends(connection, stored, self._sessions(stored))
                if not ended_sessions:
                    return
                open_heads = {name: head for name, head in stored.items() if name not in ended_sessions}
                self._replace(open_heads, without=ended_sessions)
                with self._guard:  # inside `_writing`: a publication that fails needs its heads again
                    forgotten = ended_sessions - self._waiting
                    self.heads = {name: head for name, head in self.heads.items() if name not in forgotten}
        except Unavailable:  # of the database, not of the file
            raise
        except OSError as error:
            _LOG.error("epoch_not_written %s", type(error).__name__)

    def _sessions(self, stored: Mapping[str, Head]) -> list[str]:
        """Return the sessions of these heads and of ours."""
        with self._guard:
            return [name for name in {**stored, **self.heads} if is_session(name)]

    def _write(self, heads: Mapping[str, Head]) -> None:
        """Append these heads; rewrite the file if it is long or its last line is incomplete."""
        if self._lines >= MOST_LINES or not _is_complete(self.file):
            self._replace(self._stored())
            return
        lines = b"".join(_line({"ledger": ledger, "head": str(head)}) for ledger, head in heads.items())
        file = os.open(self.file, os.O_WRONLY | os.O_APPEND)
        try:
            if os.write(file, lines) != len(lines):
                raise OSError("only a part of the heads was written; the next write replaces the file")
            os.fdatasync(file)
        finally:
            os.close(file)
        self._lines += len(heads)

    def _stored(self) -> dict[str, Head]:
        """Return the heads in the file; none if it is missing or damaged, or belongs to another service."""
        try:
            epoch = _read(self.file)
        except (FileNotFoundError, CodecError):
            return {}
        if epoch.service != self.service:
            return {}
        self.lost |= epoch.lost
        return epoch.heads

    def _replace(self, stored: Mapping[str, Head], without: Collection[str] = ()) -> None:
        """Rewrite the file with the higher of the stored head and ours for each name, and without ours of `without`."""
        with self._guard:
            heads = {name: head for name, head in self.heads.items() if name not in without}
        for ledger, head in stored.items():
            if ledger not in heads or heads[ledger].sequence < head.sequence:
                heads[ledger] = head
        lines = (_line({"ledger": ledger, "head": str(head)}) for ledger, head in heads.items())
        write_whole(self.file, _line({"service": self.service, "lost": self.lost}) + b"".join(lines))
        self._lines = 0


def published(settings: Settings, database: Database) -> dict[str, Head]:
    """Return the published heads by ledger; none if the file cannot be trusted, which `Epoch.open` then refuses."""
    try:
        return Epoch.read(settings, database).heads
    except BelowEpoch:
        return {}


def shortfall(settings: Settings, database: Database) -> dict[str, str]:
    """Return an error for each ledger that lacks its published head, and each session that lacks recorded answers.

    Only reads, so a server may run meanwhile.
    """
    try:
        behind = Epoch.read(settings, database).ahead_of(database)
    except BelowEpoch as error:
        return {"epoch": str(error)}
    return {name: f"it lacks {_part(name, 'published ')} {head}" for name, head in behind.items()}


def is_session(name: str) -> bool:
    """Return whether the name of a head is that of a session."""
    return name.startswith("sess_")


def note_recorded(connection: sa.Connection, session_id: str, recorded: Sequence[int]) -> None:
    """Let the answers that an open session has recorded be published after the commit."""
    connection.info[session_id] = _head(canonical(list(recorded)))


def _head(recorded: bytes) -> Head:
    return Head(sum(json.loads(recorded)), hashlib.sha256(recorded).hexdigest())


def _recorded(connection: sa.Connection) -> dict[str, Head]:
    """Return the head of each open session; its number is that of the recorded answers."""
    query = sa.select(sessions.c.id, sessions.c.recorded).where(sessions.c.state == "open")
    return {row.id: _head(row.recorded.encode()) for row in connection.execute(query)}


def _published_ends(connection: sa.Connection, published: Mapping[str, Head], names: Sequence[str]) -> set[str]:
    """Return the sessions with these names whose end is an entry up to the published head of their ledger."""
    ends: dict[str, dict[str, int]] = {}  # by ledger and session, the number of the entry
    for batch in batches.split(names):
        query = sa.select(datasets.c.ledger_id, sessions.c.id, sessions.c.settled).join_from(sessions, datasets)
        is_named = sessions.c.id.in_(batch)
        for row in connection.execute(query.where(is_named, sessions.c.settled.is_not(None))):
            ends.setdefault(row.ledger_id, {})[row.id] = row.settled
    ended_sessions: set[str] = set()
    for ledger, of_sessions in ends.items():
        head = published.get(ledger)
        if head is not None and store.contains(connection, head, ledger):
            ended_sessions |= {session for session, sequence in of_sessions.items() if sequence <= head.sequence}
    return ended_sessions


def _part(name: str, adjective: str = "") -> str:
    return "recorded answers up to" if is_session(name) else f"its {adjective}head"


def _line(document: dict[str, Any]) -> bytes:
    return canonical(document) + b"\n"


def _is_complete(file: Path) -> bool:
    """Return whether the file exists and its last line is complete."""
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
        raise CodecError("lost: must be an object")
    nodes = (fields(head, ("ledger", "head"), "a head") for head in heads)
    parsed = ((text(head["ledger"], "ledger"), Head.parse(text(head["head"], "head"))) for head in nodes)
    highest = dict(sorted(parsed, key=lambda item: item[1].sequence))
    return Epoch(file, text(node["service"], "service"), highest, node["lost"])
