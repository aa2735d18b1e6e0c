"""Signed heads: the service's statement of how far a ledger went. Light: no NumPy.

    document = {dataset, sequence, hash, at, signature: compact JWS over RFC8785 of the other fields}

Every ledger that the service shows later must contain the head. If one does not, the service has signed two ledgers.
Every receipt is a head as well, with the sequence and the hash of its release's entry.
"""

from typing import Any

from accounting.errors import CodecError, ReceiptInvalid
from accounting.records.chain import MOST_ENTRIES, Entry, Head
from accounting.records.documents import fields, integer, parse, text
from accounting.records.signing import HEAD, Jwks, SigningKey, check_json, sign_json
from accounting.records.statement import check

_FIELDS = ("dataset", "sequence", "hash", "at")


def sign_head(dataset: str, entry: Entry, key: SigningKey) -> dict[str, Any]:
    """Return the signed head of the ledger's newest entry; `at` is the entry's own time."""
    head = {"dataset": dataset, "sequence": entry.sequence, "hash": entry.hash, "at": entry.body["at"]}
    return head | {"signature": sign_json(head, key, HEAD)}


def read_head(raw: bytes, trusted: Jwks) -> Head:
    """Return the head in a file, which is a signed head or a receipt.

    Parameters
    ----------
    trusted : JWK Set, from a source other than the file

    Raises
    ------
    ReceiptInvalid
        if it is neither, or no trusted key signed it.
    """
    try:
        document = parse(raw)
        if isinstance(document, dict) and "receipt" in document:
            node = fields(document, ("receipt", "signature"), "the document")
            stated, problem = node["receipt"], check_json(check(node["receipt"]), node["signature"], trusted)
        else:
            node = fields(document, (*_FIELDS, "signature"), "a signed head")
            stated = {name: node[name] for name in _FIELDS}
            problem = check_json(stated, node["signature"], trusted, HEAD)
        if problem is not None:
            raise ReceiptInvalid(problem)
        sequence = integer(stated["sequence"], 1, MOST_ENTRIES, "sequence")
        return Head.parse(f"{sequence}:{text(stated['hash'], 'hash', 64)}")
    except CodecError as error:
        raise ReceiptInvalid(str(error)) from error
