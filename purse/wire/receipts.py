"""Receipts, the ledger, keys, and verification."""

from typing import Annotated, Any

from pydantic import Field

from purse.wire.base import Identifier, Sha256, Timestamp, Wire


class ReceiptDocument(Wire):
    """A signed receipt. The signature is a compact JWS (Ed25519) whose payload is the canonical form of `receipt`."""

    receipt: Annotated[dict[str, Any], Field(description="The receipt; canonical JSON is RFC 8785.")]
    signature: Annotated[str, Field(max_length=1_000_000, description="Compact JWS.")]


class VerificationReport(Wire):
    """What a verifier found."""

    valid: Annotated[bool, Field(description="Whether everything below holds.")]
    signature: Annotated[bool, Field(description="Signed by a key of this server, payload identical.")]
    epsilon: Annotated[bool, Field(description="Recomputed epsilon does not exceed the stated one.")]
    chain: Annotated[bool | None, Field(description="The ledger holds its release entry; null if not looked up.")]
    stated_epsilon: Annotated[float | None, Field(description="epsilon in the receipt")]
    recomputed_epsilon: Annotated[float | None, Field(description="epsilon recomputed from the queries alone")]
    accountant: Annotated[str | None, Field(description="The accountant that recomputed it.")]
    reason: Annotated[str | None, Field(description="Why it is not valid.")]


class LedgerEntry(Wire):
    """One entry of a dataset's hash chain: hash = SHA-256 of the canonical JSON of everything else in it."""

    sequence: Annotated[int, Field(description="1, 2, ... within the dataset.")]
    kind: Annotated[
        str, Field(description="What happened: charged, released, frozen, rolled_back ... (docs/auditing.md).")
    ]
    body: Annotated[dict[str, Any], Field(description="What happened; charges in units of 2^-40 as strings.")]
    previous_hash: Sha256
    hash: Sha256


class LedgerHead(Wire):
    """How far a ledger goes: its newest entry commits to all before it. Every receipt holds one: its release."""

    dataset: Identifier
    sequence: Annotated[int, Field(description="The newest entry's number.")]
    hash: Sha256
    at: Annotated[Timestamp, Field(description="The newest entry's time.")]
    signature: Annotated[str, Field(description="Compact JWS over the canonical form of the other fields.")]


class KeySet(Wire):
    """The server's public keys (JWKS). Save it: an offline verifier trusts nothing else."""

    keys: Annotated[list[dict[str, Any]], Field(description="Public Ed25519 keys, current one first.")]
