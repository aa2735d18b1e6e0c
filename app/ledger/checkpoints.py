"""Signed checkpoints of ledgers, so that a start need not verify every ledger from its first entry.

A checkpoint is the replay of a ledger up to some entry, and the hash of the rows that agreed with it. Both are signed
with the service's key, so write access to the database is not enough to produce a checkpoint. If the rows have this
hash at a start, they agree with the replay as before. Otherwise the start continues the replay, verifies the entries
after it, and compares the rows. A thread then verifies the entries before the checkpoint, from the first one, and
compares the replays.

A checkpoint is not used if it is missing or damaged, if the current key did not sign it, if the ledger does not contain
its head, as after a rollback, if its first entry has changed, or if the last published head (`app.ledger.epoch`) is
older. The ledger is then verified from its first entry. The published head is therefore always among the entries that
are verified before the start, and a rollback is detected as it is without checkpoints.
"""

import hashlib
import hmac
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from accounting.errors import AccountingError, LedgerInvalid
from accounting.records.chain import Head
from accounting.records.documents import fields
from accounting.records.replay import VERSION, Replay
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


@dataclass(frozen=True, slots=True)
class _Verified:
    """A ledger as it was verified, which is the content of a checkpoint.

    Parameters
    ----------
    replay : document of the replay to the last entry (`Replay.to_json`)
    rows : hash of the rows that agreed with it (`LedgerRows.sha256`)
    """

    replay: dict[str, Any]
    rows: str

    @property
    def head(self) -> Head:
        """The head of the last entry."""
        return Head(self.replay["state"]["sequence"], self.replay["state"]["head"])


class Checkpoints:
    """The checkpoints of a service's ledgers.

    Parameters
    ----------
    database, keys : those of the service
    refused : called once, with a sentence, if a ledger is found not to hold while the server runs
    """

    def __init__(self, database: Database, keys: SigningKeys, refused: Callable[[str], None]) -> None:
        self._database, self._keys, self._refused = database, keys, refused
        self._verified: dict[str, _Verified] = {}  # by ledger, as of the last check
        self._signed: dict[str, _Verified] = {}  # by ledger, its checkpoint
        self._unchecked: set[str] = set()  # ledgers whose checkpoint a whole replay has not yet confirmed
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

    def _verify(self, connection: sa.Connection, ledger: str, rows: LedgerRows, signed: _Verified | None) -> str | None:
        """Verify a ledger from its checkpoint, or from its first entry; return what does not hold, or None."""
        if signed is not None:
            with suppress(AccountingError):
                self._verified[ledger] = _verified(connection, ledger, rows, signed)
                self._signed[ledger] = signed
                self._unchecked.add(ledger)
                return None
        try:
            self._verified[ledger] = _verified(connection, ledger, rows, None)
        except LedgerInvalid as error:
            return str(error)
        return None

    def _usable(
        self, connection: sa.Connection, batch: Sequence[str], published: Mapping[str, Head]
    ) -> dict[str, _Verified]:
        """Return the content of each checkpoint of these ledgers that may be used, by ledger."""
        signed = {}
        for row in connection.execute(sa.select(checkpoints).where(checkpoints.c.ledger_id.in_(batch))):
            with suppress(AccountingError, AttributeError, LookupError, TypeError, ValueError):  # damaged
                # The current key, because a retired one may have been retired because it leaked.
                expected = self._keys.sign_checkpoint(signed_statement(row.ledger_id, row.document))
                if hmac.compare_digest(row.signature.encode(), expected.encode()):
                    content = _Verified(**fields(json.loads(row.document), ("replay", "rows"), "a checkpoint"))
                    last = published.get(row.ledger_id)
                    if last is not None and last.sequence >= content.head.sequence:
                        signed[row.ledger_id] = content
        # Neighbors and unit are read from the first entry, so it must not change before the thread verifies it.
        openings = batches.openings(connection, list(signed))
        present = batches.contained(connection, {ledger: content.head for ledger, content in signed.items()})
        return {
            ledger: content
            for ledger, content in signed.items()
            if ledger in present and openings.get(ledger) == content.replay["opening"]
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
        for ledger in sorted(self._unchecked):
            if not self._is_confirmed(ledger, self._signed[ledger]):
                return
            self._unchecked.remove(ledger)

    def _is_confirmed(self, ledger: str, signed: _Verified) -> bool:
        """Return whether all entries up to a checkpoint were verified; False if the server stops meanwhile.

        Raises
        ------
        LedgerInvalid
            if an entry does not hold, or the entries do not lead to the checkpoint.
        """
        followed, last = Replay(), signed.head.sequence
        while followed.sequence < last:
            if self._stopped.is_set():
                return False
            began = time.monotonic()
            limit = min(audit.PAGE, last - followed.sequence)
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
        if followed.to_json() != Replay.from_json(signed.replay).to_json():  # which gives missing fields their defaults
            raise LedgerInvalid(f"{ledger}: its entries do not lead to its checkpoint")
        return True

    def _sign(self) -> None:
        """Verify ledgers whose rows have changed. Sign their checkpoints if enough entries are without one."""
        if not self.are_confirmed:
            return
        with self._database.read() as connection:
            every = audit.ledger_ids(connection)
        unsigned: dict[str, int] = {}  # by ledger, the number of its entries after its checkpoint
        for batch in batches.split(every):
            with self._database.read() as connection:
                rows = batches.rows_of(connection, batch)
                for ledger in batch:
                    try:
                        verified = _verified(connection, ledger, rows[ledger], self._verified.get(ledger))
                    except LedgerInvalid as error:
                        raise LedgerInvalid(f"{ledger}: {error}") from None
                    self._verified[ledger] = verified
                    signed = self._signed.get(ledger)
                    if signed is None or signed.rows != verified.rows:
                        covered = 0 if signed is None else signed.head.sequence
                        unsigned[ledger] = max(1, verified.head.sequence - covered)
        if sum(unsigned.values()) < MOST_UNSIGNED:
            return
        for batch in batches.split(list(unsigned)):
            content = {ledger: self._verified[ledger] for ledger in batch}
            with self._database.write(alone="names") as connection:
                for ledger in batch:
                    self._store(connection, ledger, content[ledger])
            self._signed |= content

    def _store(self, connection: sa.Connection, ledger: str, content: _Verified) -> None:
        document = json.dumps({"replay": content.replay, "rows": content.rows})
        signature = self._keys.sign_checkpoint(signed_statement(ledger, document))
        connection.execute(sa.delete(checkpoints).where(checkpoints.c.ledger_id == ledger))
        values = {"ledger_id": ledger, "document": document, "signature": signature}
        connection.execute(sa.insert(checkpoints).values(**values))

    def _refuse(self, wrong: str) -> None:
        """Stop all spending, and let the next start verify every entry: it then refuses to start."""
        with suppress(OSError), self._database.write(alone="names") as connection:
            connection.execute(sa.delete(checkpoints))
        self._refused(wrong)


def _verified(connection: sa.Connection, ledger: str, rows: LedgerRows, last: _Verified | None) -> _Verified:
    """Return a ledger as verified now: unchanged if its rows are, because the same entries then lead to them.

    Parameters
    ----------
    last : the ledger as it was verified before; None to verify it from its first entry

    Raises
    ------
    LedgerInvalid
        if the ledger does not hold; `CodecError` if another version made `last`.
    """
    sha256 = rows.sha256
    if last is not None and last.rows == sha256:
        return last
    followed = Replay() if last is None else Replay.from_json(last.replay)
    wrong = audit.follow(connection, ledger, followed, rows)
    if wrong is not None:
        raise LedgerInvalid(wrong)
    return _Verified(followed.to_json(), sha256)


def signed_statement(ledger: str, document: str) -> dict[str, str | int]:
    """Return the signed statement: the ledger, the version of replays, and the hash of the checkpoint's document."""
    return {"ledger": ledger, "replay": VERSION, "sha256": hashlib.sha256(document.encode()).hexdigest()}
