"""Receipts, the ledger, keys, and verification."""

from typing import Annotated, Any

from pydantic import Field

from purse.wire.base import Identifier, Sha256, Timestamp, Wire


class ReceiptDocument(Wire):
    """A signed receipt. The signature is a compact JWS (Ed25519) whose payload is the canonical form of `receipt`."""

    receipt: dict[str, Any]
    """The receipt. Canonical JSON is RFC 8785."""
    signature: Annotated[str, Field(max_length=1_000_000)]
    """Compact JWS of the receipt."""


class VerificationReport(Wire):
    """The result of a verification."""

    valid: bool
    """Whether all checks succeeded."""
    signature: bool
    """Whether a key of this server signed exactly this receipt."""
    epsilon: bool
    """Whether the recomputed epsilon is at most the stated one."""
    chain: bool | None
    """Whether the ledger contains the release. Null if not checked."""
    stated_epsilon: float | None
    """Epsilon in the receipt."""
    recomputed_epsilon: float | None
    """Epsilon recomputed from the queries alone."""
    accountant: str | None
    """The accountant that recomputed it."""
    reason: str | None
    """Why the receipt is not valid."""


class LedgerEntry(Wire):
    """An entry of a dataset's hash chain. Its hash is the SHA-256 of the canonical JSON of its other fields."""

    sequence: int
    """Number of the entry in its ledger, from 1."""
    kind: str
    """Kind of event, such as `charged`, `released` or `frozen`."""
    body: dict[str, Any]
    """The event. Charges are strings, in units of 2^-40."""
    previous_hash: Sha256
    hash: Sha256


class LedgerHead(Wire):
    """The newest entry of a ledger, which commits to all earlier ones. Every receipt contains such a head."""

    dataset: Identifier
    sequence: int
    """The newest entry's number."""
    hash: Sha256
    at: Annotated[Timestamp, Field(description="The newest entry's time.")]
    signature: str
    """Compact JWS over the canonical form of the other fields."""


class KeySet(Wire):
    """The server's public keys (JWKS). Save them: offline verification trusts no other keys."""

    keys: list[dict[str, Any]]
    """Public Ed25519 keys, current one first."""
