"""The key that signs receipts: made at first start, kept in the home, never given to a worker."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from accounting.errors import ReceiptInvalid
from accounting.records import receipt, signing
from accounting.records.chain import Entry
from accounting.records.heads import sign_head
from accounting.records.receipt import Receipt
from accounting.records.signing import CHECKPOINT, Jwks, SigningKey, sign_json, sign_message
from app.persistence.files import StartRefused
from app.persistence.session import Database
from app.persistence.tables import ledger_entries

KEY_FILE = "signing-key.json"


class KeyLost(StartRefused):
    """The signing key is not where the ledger needs it; the message says what to do."""


class SigningKeys:
    """The service's Ed25519 key, and the public halves of those before it; rotated, the new one signs from then on.

    Parameters
    ----------
    home : the folder that holds the key file (mode 0600); the file is made if it is not there

    Raises
    ------
    KeyLost
        if the file does not hold a key.
    """

    def __init__(self, home: Path) -> None:
        self._file, self._seen = home / KEY_FILE, (0, 0)
        try:
            self._key = signing.load_key(self._file)
        except (ReceiptInvalid, IsADirectoryError):
            raise KeyLost(
                f"{self._file} is damaged: it does not hold a signing key. Restore it from a backup; or, if the key is "
                "lost for good, move the file away and make another with `purse ledger new-key --is-lost`"
            ) from None

    @staticmethod
    def beside(home: Path, database: Database) -> "SigningKeys":
        """The home's key; a fresh one only for a service that has no ledger yet.

        Raises
        ------
        KeyLost
            if there are ledgers and no key: receipts signed by it could no longer be told from forged ones.
        """
        file = home / KEY_FILE
        with database.read() as connection:
            has_ledger = connection.scalar(sa.select(ledger_entries.c.sequence).limit(1)) is not None
        if has_ledger and not file.exists():
            raise KeyLost(
                f"{file} is missing, and there are ledgers whose receipts it signed: restore it from a backup, or, if "
                "it is lost for good, make another with `purse ledger new-key --is-lost`"
            )
        return SigningKeys(home)

    @property
    def is_kept(self) -> bool:
        """Whether the file that another start will need is there, and a key."""
        try:
            signing.read_key(self._file)
        except (OSError, ReceiptInvalid):
            return False
        return True

    def sign(self, document: Receipt) -> str:
        """Compact JWS over the canonical form of the receipt."""
        return receipt.sign(document, self._now())

    def sign_head(self, dataset: str, newest: Entry) -> dict[str, Any]:
        """The ledger's head as of now, signed."""
        return sign_head(dataset, newest, self._now())

    def sign_checkpoint(self, statement: dict[str, str]) -> str:
        """Return the compact JWS of what a checkpoint states (`app.ledger.checkpoints`)."""
        return sign_json(statement, self._now(), CHECKPOINT)

    def sign_message(self, message: bytes) -> bytes:
        """The signature of a message to somebody outside, which is none of a receipt or a head."""
        return sign_message(message, self._now())

    def jwks(self) -> Jwks:
        """The public keys, the current one first."""
        return signing.jwks(self._now())

    def _now(self) -> SigningKey:
        """The file's key, read again once it was rotated; a file that is gone or broken changes nothing."""
        with suppress(OSError, ReceiptInvalid):
            found = self._file.stat()
            seen = (found.st_ino, found.st_mtime_ns)
            if seen != self._seen:
                self._key, self._seen = signing.read_key(self._file), seen
        return self._key
