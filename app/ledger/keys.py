"""The key that signs receipts: made at first start, kept in the home, never given to a worker."""

from pathlib import Path

from accounting.records import receipt
from accounting.records.receipt import Jwks, Receipt

KEY_FILE = "signing-key.json"


class SigningKeys:
    """The service's Ed25519 key, and the public halves of those before it.

    Parameters
    ----------
    home : the folder that holds the key file (mode 0600); the file is made if it is not there
    """

    def __init__(self, home: Path) -> None:
        self._key = receipt.load_key(home / KEY_FILE)

    def sign(self, document: Receipt) -> str:
        """Compact JWS over the canonical form of the receipt."""
        return receipt.sign(document, self._key)

    def jwks(self) -> Jwks:
        """The public keys, the current one first."""
        return receipt.jwks(self._key)
