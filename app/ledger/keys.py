"""The key that signs receipts: created at the first start, kept in the home, never sent to a worker."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from accounting.errors import ReceiptInvalid
from accounting.records import signing
from accounting.records.chain import Entry
from accounting.records.heads import sign_head
from accounting.records.receipt import Receipt
from accounting.records.signing import Jwks, SigningKey, authenticate_checkpoint, sign_message
from app.persistence.files import StartRefused
from app.persistence.session import Database
from app.persistence.tables import ledger_entries

KEY_FILE = "signing-key.json"


class KeyLost(StartRefused):
    """The signing key of the ledgers is missing or damaged; the message says how to fix it."""


class SigningKeys:
    """The service's Ed25519 key, and the public keys of its predecessors. After a rotation the new key signs.

    Parameters
    ----------
    home : folder of the key file (mode 0600), which is created if it is missing

    Raises
    ------
    KeyLost
        if the file does not contain a key.
    """

    def __init__(self, home: Path) -> None:
        self._file, self._version = home / KEY_FILE, (0, 0)
        try:
            self._key = signing.load_key(self._file)
        except (ReceiptInvalid, IsADirectoryError):
            raise KeyLost(
                f"{self._file} is damaged: it does not hold a signing key. Restore it from a backup; or, if the key is "
                "permanently lost, move the file away and make another with `purse ledger new-key --is-lost`"
            ) from None

    @staticmethod
    def of(home: Path, database: Database) -> "SigningKeys":
        """Return the home's key; a new one only for a service that has no ledger yet.

        Raises
        ------
        KeyLost
            if there are ledgers and no key, because issued receipts could not be distinguished from forged ones.
        """
        file = home / KEY_FILE
        with database.read() as connection:
            has_ledger = connection.scalar(sa.select(ledger_entries.c.sequence).limit(1)) is not None
        if has_ledger and not file.exists():
            raise KeyLost(
                f"{file} is missing, and there are ledgers whose receipts it signed. Restore it from a backup, or, if "
                "it is permanently lost, make another with `purse ledger new-key --is-lost`"
            )
        return SigningKeys(home)

    @property
    def is_kept(self) -> bool:
        """Whether the file, which the next start needs, exists and contains a key."""
        try:
            signing.read_key(self._file)
        except (OSError, ReceiptInvalid):
            return False
        return True

    def sign(self, document: Receipt) -> str:
        """Return the compact JWS over the canonical form of the receipt."""
        return signing.sign_json(document, self._now())

    def sign_head(self, dataset: str, newest: Entry) -> dict[str, Any]:
        """Return the signed head of a ledger as of now."""
        return sign_head(dataset, newest, self._now())

    def sign_checkpoint(self, statement: dict[str, str | int]) -> str:
        """Return the HMAC of what a checkpoint states, by the current key (`app.ledger.checkpoints`)."""
        return authenticate_checkpoint(statement, self._now())

    def sign_message(self, message: bytes) -> bytes:
        """Return the signature of a message to a webhook."""
        return sign_message(message, self._now())

    def jwks(self) -> Jwks:
        """Return the public keys, the current one first."""
        return signing.jwks(self._now())

    def _now(self) -> SigningKey:
        """Return the file's key, read again after a rotation; a missing or damaged file changes nothing."""
        with suppress(OSError, ReceiptInvalid):
            status = self._file.stat()
            version = (status.st_ino, status.st_mtime_ns)
            if version != self._version:
                self._key, self._version = signing.read_key(self._file), version
        return self._key
