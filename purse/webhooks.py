"""Verification of webhook messages: the server signed the message, and it is recent.

    event = purse.webhooks.verify(body, headers, keys=client.keys())

Reference: Standard Webhooks 1.0 (https://www.standardwebhooks.com), asymmetric signatures `v1a`.
"""

import time
from base64 import b64decode
from collections.abc import Mapping
from typing import Final

from pydantic import ValidationError

from purse.receipts import NotVerified
from purse.wire.receipts import KeySet
from purse.wire.webhooks import WebhookEvent

TOLERANCE: Final = 300  # seconds
_MAX_BYTES: Final = 10_000
_MAX_SIGNATURES: Final = 8
_MAX_TIMESTAMP_DIGITS: Final = 11


def verify(
    body: bytes, headers: Mapping[str, str], keys: KeySet, *, tolerance: float = TOLERANCE, now: float | None = None
) -> WebhookEvent:
    """Return the event of a message that the server signed recently.

    The server may send a message twice: handle each `webhook-id` once.

    Parameters
    ----------
    body : the received bytes, unchanged
    keys : the keys to trust, from `Client.keys`; read them again after a key rotation
    tolerance : largest difference in seconds between the message's time and `now`

    Raises
    ------
    NotVerified
        if no trusted key signed the message, its time is out of tolerance, or it is not a webhook message.
    """
    from accounting.records.signing import signed_by  # late: the signature library

    fields = {name.lower(): value for name, value in headers.items()}
    identifier, timestamp, signatures = (fields.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    is_timestamp = timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= _MAX_TIMESTAMP_DIGITS
    if not is_timestamp or len(body) > _MAX_BYTES:
        raise NotVerified(
            "this is not a webhook message: it needs the header webhook-timestamp in seconds and a body of at most "
            f"{_MAX_BYTES} bytes"
        )
    if abs((time.time() if now is None else now) - int(timestamp)) > tolerance:
        raise NotVerified(
            f"the message's time differs from this clock by more than {tolerance:g} s: it was sent again later, or a "
            "clock is wrong. Discard it, or check the clocks"
        )
    message = b".".join((identifier.encode(), timestamp.encode(), body))
    entries = [entry for entry in signatures.split()[:_MAX_SIGNATURES] if entry.startswith("v1a,")]
    decoded = [_bytes(entry.removeprefix("v1a,")) for entry in entries]
    if not any(signed_by(message, signature, keys.model_dump()) for signature in decoded):
        raise NotVerified("no trusted key signed this message. Read the server's keys again, or discard the message")
    try:
        return WebhookEvent.model_validate_json(body, extra="ignore")
    except ValidationError:
        raise NotVerified("the message is of a type that this version does not know. Update the client") from None


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return b""
