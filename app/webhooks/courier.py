"""Sends due messages, signed as Standard Webhooks requires, until they are accepted or have failed too often."""

import asyncio
import logging
import threading
from base64 import b64encode
from collections.abc import Sequence

from app.ledger.keys import SigningKeys
from app.persistence.session import Database
from app.webhooks import delivery, store
from app.webhooks.store import Message
from purse.wire.webhooks import FinishedJob, WebhookEvent

_POLL_INTERVAL_SECONDS = 2.0
_MOST_CONCURRENT_MESSAGES = 8
_LOG = logging.getLogger(__name__)


class Courier:
    """The thread of this server that sends messages. Other servers on the database have their own.

    Parameters
    ----------
    hosts : allowed by the operator without TLS and at private addresses
    """

    def __init__(self, database: Database, keys: SigningKeys, hosts: Sequence[str]) -> None:
        self._database, self._keys, self._hosts = database, keys, hosts
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)

    def start(self) -> None:
        """Start the thread; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread. Another server sends unfinished messages after their leases."""
        self._stopped.set()
        self._thread.join(1.0)

    def step(self) -> int:
        """Send due messages, several at a time; return the number of attempts."""
        clock = self._database.clock
        with self._database.read() as connection:
            if not store.is_due(connection, clock.wall()):
                return 0
        with self._database.write() as connection:
            messages = store.claim(connection, clock.wall(), _MOST_CONCURRENT_MESSAGES)
        if not messages:
            return 0
        loop = asyncio.new_event_loop()
        try:
            are_accepted = loop.run_until_complete(self._all(messages))
        finally:
            loop.close()  # `asyncio.run` would wait for pending name lookups, without a bound
        with self._database.write() as connection:
            for message, is_accepted in zip(messages, are_accepted, strict=True):
                store.settle(connection, message, is_accepted, clock.wall(), self._database.timestamp())
        return len(messages)

    def _run(self) -> None:
        while not self._stopped.wait(_POLL_INTERVAL_SECONDS):
            try:
                while not self._stopped.is_set() and self.step():
                    pass
            except Exception as error:
                _LOG.warning("webhooks_wait %s", type(error).__name__)

    async def _all(self, messages: Sequence[Message]) -> list[bool]:
        return await asyncio.gather(*map(self._send, messages))

    async def _send(self, message: Message) -> bool:
        """Return whether the message was accepted. The reason of a failure is not shown: it describes this network."""
        body, headers = signed(message, self._keys, self._database.clock.wall())
        try:
            status = await delivery.post(message.url, self._hosts, body, headers)
        except Exception as error:  # any fault of the receiver
            _LOG.info("webhook_failed %s %s", message.webhook, type(error).__name__)
            return False
        _LOG.info("webhook_answered %s %d", message.webhook, status)
        return 200 <= status < 300


def signed(message: Message, keys: SigningKeys, now: float) -> tuple[bytes, dict[str, str]]:
    """Return a message's body, and the headers that sign it at this time.

    Reference: Standard Webhooks 1.0, asymmetric signatures: Ed25519 of `id.timestamp.body`.
    """
    job = FinishedJob(job=message.job, dataset=message.dataset, state=message.state)
    body = WebhookEvent(type="job.finished", timestamp=message.at, data=job).model_dump_json().encode()
    timestamp = str(int(now))
    signature = b64encode(keys.sign_message(b".".join((message.id.encode(), timestamp.encode(), body)))).decode()
    return body, {
        "Content-Type": "application/json",
        "webhook-id": message.id,
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1a,{signature}",
    }
