"""A webhook's message in the receiver's hands: who sent it, and that it is none of long ago.

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
_MOST_BYTES = 10_000


def verify(
    body: bytes, headers: Mapping[str, str], keys: KeySet, *, tolerance: float = TOLERANCE, now: float | None = None
) -> WebhookEvent:
    """What the server says has happened, if it was the server that said so, and lately.

    A message may come twice: what was done for its `webhook-id` is not to be done again.

    Parameters
    ----------
    body : as it came, byte for byte
    keys : the keys to trust, from `Client.keys`; asked for again after a rotation
    tolerance : how many seconds its time may lie from `now`

    Raises
    ------
    NotVerified
        if no trusted key signed it, its time is another, or it is no message of ours.
    """
    from accounting.records.signing import signed_by  # late: the signature library

    said = {name.lower(): value for name, value in headers.items()}
    identifier, sent, signatures = (said.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    if not (sent.isascii() and sent.isdigit() and len(sent) < 12) or len(body) > _MOST_BYTES:
        raise NotVerified("this is no message of a webhook")
    if abs((time.time() if now is None else now) - int(sent)) > tolerance:
        raise NotVerified("the message is of another time: an old one sent again, or a clock is wrong")
    message = b".".join((identifier.encode(), sent.encode(), body))
    found = [_bytes(one.removeprefix("v1a,")) for one in signatures.split()[:8] if one.startswith("v1a,")]
    if not any(signed_by(message, signature, keys.model_dump()) for signature in found):
        raise NotVerified("no trusted key signed this message")
    try:
        return WebhookEvent.model_validate_json(body, extra="ignore")
    except ValidationError:
        raise NotVerified("the message is of a kind that this version does not know") from None


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return b""
