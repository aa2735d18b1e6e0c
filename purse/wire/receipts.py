"""Receipts, the ledger, keys, and verification."""

from typing import Annotated, Any

from pydantic import Field

from purse.wire.base import Identifier, Sha256, Timestamp, Wire


class ReceiptDocument(Wire):
    """A signed receipt. The signature is a compact JWS (Ed25519) whose payload is the canonical form of `receipt`."""

    receipt: Annotated[dict[str, Any], Field(description="The receipt. Canonical JSON is RFC 8785.")]
    signature: Annotated[str, Field(max_length=1_000_000, description="Compact JWS.")]


class VerificationReport(Wire):
    """The result of a verification."""

    valid: Annotated[bool, Field(description="Whether all checks succeeded.")]
    signature: Annotated[bool, Field(description="Whether a key of this server signed exactly this receipt.")]
    epsilon: Annotated[bool, Field(description="Whether the recomputed epsilon is at most the stated one.")]
    chain: Annotated[bool | None, Field(description="Whether the ledger contains the release. Null if not checked.")]
    stated_epsilon: Annotated[float | None, Field(description="Epsilon in the receipt.")]
    recomputed_epsilon: Annotated[float | None, Field(description="Epsilon recomputed from the queries alone.")]
    accountant: Annotated[str | None, Field(description="The accountant that recomputed it.")]
    reason: Annotated[str | None, Field(description="Why the receipt is not valid.")]


class LedgerEntry(Wire):
    """An entry of a dataset's hash chain. Its hash is the SHA-256 of the canonical JSON of its other fields."""

    sequence: Annotated[int, Field(description="1, 2, ... within the dataset.")]
    kind: Annotated[str, Field(description="Kind of event, such as `charged`, `released` or `frozen`.")]
    body: Annotated[dict[str, Any], Field(description="The event. Charges are strings, in units of 2^-40.")]
    previous_hash: Sha256
    hash: Sha256


class LedgerHead(Wire):
    """The newest entry of a ledger, which commits to all earlier ones. Every receipt contains such a head."""

    dataset: Identifier
    sequence: Annotated[int, Field(description="The newest entry's number.")]
    hash: Sha256
    at: Annotated[Timestamp, Field(description="The newest entry's time.")]
    signature: Annotated[str, Field(description="Compact JWS over the canonical form of the other fields.")]


class KeySet(Wire):
    """The server's public keys (JWKS). Save them: offline verification trusts no other keys."""

    keys: Annotated[list[dict[str, Any]], Field(description="Public Ed25519 keys, current one first.")]
