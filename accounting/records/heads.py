"""A signed head: the service's own word for how far a ledger went. Light: no NumPy.

    document = {dataset, sequence, hash, at, signature: compact JWS over RFC8785 of the rest}

A ledger that the service shows later contains the head, or the service has shown two ledgers and signed for both. Every
receipt is one too: the entry of its release, by its sequence and hash.
"""

from typing import Any

from accounting.errors import CodecError, ReceiptInvalid
from accounting.records.chain import MOST_ENTRIES, Entry, Head
from accounting.records.documents import fields, integer, parse, text
from accounting.records.signing import HEAD, Jwks, SigningKey, check_json, sign_json
from accounting.records.statement import check

_FIELDS = ("dataset", "sequence", "hash", "at")


def sign_head(dataset: str, entry: Entry, key: SigningKey) -> dict[str, Any]:
    """The head that the ledger's newest entry is, signed; `at` is the entry's own time."""
    head = {"dataset": dataset, "sequence": entry.sequence, "hash": entry.hash, "at": entry.body["at"]}
    return head | {"signature": sign_json(head, key, HEAD)}


def read_head(raw: bytes, trusted: Jwks) -> Head:
    """The head that a file holds: a signed head, or a receipt.

    Parameters
    ----------
    trusted : JWK Set, from a source other than the file

    Raises
    ------
    ReceiptInvalid
        if it holds neither, or no trusted key signed it.
    """
    try:
        document = parse(raw)
        if isinstance(document, dict) and "receipt" in document:
            node = fields(document, ("receipt", "signature"), "the document")
            said, wrong = node["receipt"], check_json(check(node["receipt"]), node["signature"], trusted)
        else:
            node = fields(document, (*_FIELDS, "signature"), "a signed head")
            said = {name: node[name] for name in _FIELDS}
            wrong = check_json(said, node["signature"], trusted, HEAD)
        if wrong is not None:
            raise ReceiptInvalid(wrong)
        return Head.parse(f"{integer(said['sequence'], 1, MOST_ENTRIES, 'sequence')}:{text(said['hash'], 'hash', 64)}")
    except CodecError as error:
        raise ReceiptInvalid(str(error)) from error
