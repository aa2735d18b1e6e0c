"""Signed checkpoints of ledgers, so that a start need not verify every ledger from its first entry.

A checkpoint is the replay of a ledger up to some entry, signed with the service's key. Write access to the database is
not enough to produce one. A start continues the replay of the checkpoint and verifies the entries after it. A thread
then verifies the entries before it, from the first one, and compares the replays.

A checkpoint is not used if it is missing or damaged, if the current key did not sign it, if the ledger does not contain
its head, as after a rollback, if its first entry has changed, or if the last published head (`app.ledger.epoch`) is
older. The ledger is then verified from its first entry. The published head is therefore always among the entries that
are verified before the start, and a rollback is detected as it is without checkpoints.
"""

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import sqlalchemy as sa

from accounting.errors import AccountingError, LedgerInvalid
from accounting.records.chain import Head
from accounting.records.documents import canonical, parse
from accounting.records.replay import Replay
from accounting.records.signing import CHECKPOINT, check_json
from app.ledger import audit, batches, store
from app.ledger.batches import LedgerRows
from app.ledger.keys import SigningKeys
from app.persistence.session import Database
from app.persistence.tables import checkpoints

INTERVAL_SECONDS = 300.0  # between two checks for ledgers that have grown
FIRST_SECONDS = 5.0  # until the first check, which would otherwise slow down the start
_RETRY_SECONDS = 5.0  # after the database did not answer
MOST_UNSIGNED = 1000  # entries without a checkpoint, of all ledgers; verifying so few takes about 20 ms
_LOG = logging.getLogger("purse.ledger")


class Checkpoints:
    """The checkpoints of a service's ledgers.

    Parameters
    ----------
    database, keys : those of the service
    refused : called once, with a sentence, if a ledger is found not to hold while the server runs
    """

    def __init__(self, database: Database, keys: SigningKeys, refused: Callable[[str], None]) -> None:
        self._database, self._keys, self._refused = database, keys, refused
        self._followed: dict[str, dict[str, Any]] = {}  # by ledger, the replay to its end at the last check
        self._stored: dict[str, int] = {}  # by ledger, the sequence number of its checkpoint
        self._unchecked: dict[str, Replay] = {}  # checkpoints that a whole replay has not yet confirmed
        self._stopped = threading.Event()
        self._then: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, name="checkpoints", daemon=True)

    def verify(self, published: Mapping[str, Head]) -> None:
        """Verify every ledger: from its checkpoint, or from the first entry if the checkpoint cannot be used.

        Parameters
        ----------
        published : last published head, by ledger

        Raises
        ------
        UnsoundLedger
            if a ledger does not hold.
        """
        with self._database.read() as connection:
            every = audit.ledger_ids(connection)
        results = {}
        for batch in batches.split(every):
            with self._database.read() as connection:
                rows = batches.rows_of(connection, batch)
                signed = self._usable(connection, batch, published)
                for ledger in batch:
                    results[ledger] = self._verify(connection, ledger, rows[ledger], signed.get(ledger))
        audit.refuse(results)

    @property
    def are_confirmed(self) -> bool:
        """Whether every ledger was verified from its first entry."""
        return not self._unchecked

    def start(self, then: Callable[[], None] = lambda: None) -> None:
        """Start the thread that verifies whole ledgers and signs checkpoints; to be called after `verify`.

        Parameters
        ----------
        then : called after each check
        """
        self._then = then
        self._thread.start()

    def stop(self) -> None:
        """End the thread, and sign a last checkpoint unless a ledger is still to be verified."""
        self._stopped.set()
        self._thread.join()
        if not self.are_confirmed:
            return
        try:
            self._sign()
        except LedgerInvalid as error:
            self._refuse(str(error))
        except (AccountingError, OSError) as error:  # the next start verifies more entries
            _LOG.warning("ledgers_not_verified %s", type(error).__name__)

    def _verify(self, connection: sa.Connection, ledger: str, rows: LedgerRows, signed: Replay | None) -> str | None:
        """Verify a ledger from its checkpoint, or from its first entry; return what does not hold, or None."""
        if signed is not None:
            followed = Replay.from_json(signed.to_json())
            if audit.follow(connection, ledger, followed, rows) is None:
                self._unchecked[ledger], self._stored[ledger] = signed, signed.sequence
                self._followed[ledger] = followed.to_json()
                return None
        followed = Replay()
        wrong = audit.follow(connection, ledger, followed, rows)
        if wrong is None:
            self._followed[ledger] = followed.to_json()
        return wrong

    def _usable(
        self, connection: sa.Connection, batch: Sequence[str], published: Mapping[str, Head]
    ) -> dict[str, Replay]:
        """Return the replay of each checkpoint of these ledgers that may be used, by ledger."""
        current = {"keys": self._keys.jwks()["keys"][:1]}  # a retired key may have been retired because it leaked
        signed = {}
        for row in connection.execute(sa.select(checkpoints).where(checkpoints.c.ledger_id.in_(batch))):
            with suppress(AccountingError, ValueError):
                document = parse(row.document)
                wrong = check_json(_statement(row.ledger_id, document), row.signature, current, CHECKPOINT)
                replay = Replay.from_json(document) if wrong is None else None
                last = published.get(row.ledger_id)
                if replay is not None and last is not None and last.sequence >= replay.sequence:
                    signed[row.ledger_id] = replay
        # Neighbors and unit are read from the first entry, so it must not change before the thread verifies it.
        openings = batches.openings(connection, list(signed))
        present = batches.contained(connection, {ledger: replay.head for ledger, replay in signed.items()})
        return {
            ledger: replay
            for ledger, replay in signed.items()
            if ledger in present and openings.get(ledger) == replay.opening
        }

    def _run(self) -> None:
        wait = FIRST_SECONDS
        while not self._stopped.wait(wait):
            try:
                self._check_unchecked()
                self._sign()
                self._then()
                wait = INTERVAL_SECONDS
            except LedgerInvalid as error:
                self._refuse(str(error))
                return
            except (AccountingError, OSError) as error:
                _LOG.warning("ledgers_not_verified %s", type(error).__name__)
                wait = _RETRY_SECONDS

    def _check_unchecked(self) -> None:
        """Verify from the first entry what a start took from checkpoints; raise `LedgerInvalid` if it does not hold."""
        for ledger, signed in list(self._unchecked.items()):
            if not self._is_confirmed(ledger, signed):
                return
            del self._unchecked[ledger]

    def _is_confirmed(self, ledger: str, signed: Replay) -> bool:
        """Return whether all entries up to a checkpoint were verified; False if the server stops meanwhile.

        Raises
        ------
        LedgerInvalid
            if an entry does not hold, or the entries do not lead to the checkpoint.
        """
        followed = Replay()
        while followed.sequence < signed.sequence:
            if self._stopped.is_set():
                return False
            began = time.monotonic()
            limit = min(audit.PAGE, signed.sequence - followed.sequence)
            try:
                with self._database.read() as connection:  # for one page, because a long snapshot blocks the database
                    page = store.entries(connection, ledger, followed.sequence, limit)
                followed.follow(page)
            except LedgerInvalid as error:
                raise LedgerInvalid(f"{ledger}: {error}") from None
            except ValueError:
                raise LedgerInvalid(f"{ledger}: a stored row or entry cannot be read") from None
            if not page:
                raise LedgerInvalid(f"{ledger}: its entries end before its checkpoint")
            self._stopped.wait(time.monotonic() - began)  # leave half of the time to requests
        if followed.to_json() != signed.to_json():
            raise LedgerInvalid(f"{ledger}: its entries do not lead to its checkpoint")
        return True

    def _sign(self) -> None:
        """Verify the new entries of all ledgers. Sign checkpoints of those that have grown, if by enough in total."""
        if not self.are_confirmed:
            return
        with self._database.read() as connection:
            every = audit.ledger_ids(connection)
        grown: dict[str, int] = {}  # by ledger, the number of its last entry
        unsigned = 0
        for batch in batches.split(every):
            with self._database.read() as connection:
                rows = batches.rows_of(connection, batch)
                for ledger in batch:
                    sequence = self._follow(connection, ledger, rows[ledger])
                    signed = self._stored.get(ledger, 0)
                    if sequence > signed:
                        grown[ledger] = sequence
                        unsigned += sequence - signed
        if unsigned < MOST_UNSIGNED:
            return
        for batch in batches.split(list(grown)):
            with self._database.write(alone="names") as connection:
                for ledger in batch:
                    self._store(connection, ledger, self._followed[ledger])
            self._stored |= {ledger: grown[ledger] for ledger in batch}

    def _follow(self, connection: sa.Connection, ledger: str, rows: LedgerRows) -> int:
        """Verify the new entries of a ledger, and return the number of the last one.

        Raises
        ------
        LedgerInvalid
            if the ledger does not hold.
        """
        last = self._followed.get(ledger)
        followed = Replay() if last is None else Replay.from_json(last)
        wrong = audit.follow(connection, ledger, followed, rows)
        if wrong is not None:
            raise LedgerInvalid(f"{ledger}: {wrong}")
        self._followed[ledger] = followed.to_json()
        return followed.sequence

    def _store(self, connection: sa.Connection, ledger: str, document: dict[str, Any]) -> None:
        signature = self._keys.sign_checkpoint(_statement(ledger, document))
        connection.execute(sa.delete(checkpoints).where(checkpoints.c.ledger_id == ledger))
        values = {"ledger_id": ledger, "document": json.dumps(document), "signature": signature}
        connection.execute(sa.insert(checkpoints).values(**values))

    def _refuse(self, wrong: str) -> None:
        """Stop all spending, and let the next start verify every entry: it then refuses to start."""
        with suppress(OSError), self._database.write(alone="names") as connection:
            connection.execute(sa.delete(checkpoints))
        self._refused(wrong)


def _statement(ledger: str, document: Any) -> dict[str, str]:
    """Return the signed statement: the ledger and the hash of its checkpoint, because a document may be long."""
    return {"ledger": ledger, "sha256": hashlib.sha256(canonical(document)).hexdigest()}
