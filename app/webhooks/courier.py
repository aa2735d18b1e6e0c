"""Sends what is due, signed by the rules of Standard Webhooks, until it is taken or was tried often enough."""

import asyncio
import logging
import threading
from base64 import b64encode
from collections.abc import Sequence

from app.ledger.keys import SigningKeys
from app.persistence.session import Database
from app.webhooks import places, store
from app.webhooks.store import Message
from purse.wire.webhooks import FinishedJob, WebhookEvent

_EVERY = 2.0  # seconds between two looks
_AT_ONCE = 8
_LOG = logging.getLogger(__name__)


class Courier:
    """One thread, for all webhooks of this server's database; others may have theirs.

    Parameters
    ----------
    hosts : those that the operator has named
    """

    def __init__(self, database: Database, keys: SigningKeys, hosts: Sequence[str]) -> None:
        self._database, self._keys, self._hosts = database, keys, hosts
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)

    def start(self) -> None:
        """Returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """What is on its way is sent by the next server once its lease is over."""
        self._stopped.set()
        self._thread.join(1.0)

    def step(self) -> int:
        """Sends what is due now, some at once: how many messages were tried."""
        clock = self._database.clock
        with self._database.read() as connection:
            if not store.is_due(connection, clock.wall()):
                return 0
        with self._database.write() as connection:
            messages = store.claim(connection, clock.wall(), _AT_ONCE)
        if not messages:
            return 0
        loop = asyncio.new_event_loop()
        try:
            taken = loop.run_until_complete(self._all(messages))
        finally:
            loop.close()  # `asyncio.run` would wait for names that are still looked up, as long as their servers like
        with self._database.write() as connection:
            for message, is_taken in zip(messages, taken, strict=True):
                store.settle(connection, message, is_taken, clock.wall(), self._database.timestamp())
        return len(messages)

    def _run(self) -> None:
        while not self._stopped.wait(_EVERY):
            try:
                while not self._stopped.is_set() and self.step():
                    pass
            except Exception as error:
                _LOG.warning("webhooks_wait %s", type(error).__name__)

    async def _all(self, messages: Sequence[Message]) -> list[bool]:
        return await asyncio.gather(*map(self._send, messages))

    async def _send(self, message: Message) -> bool:
        """Whether it was taken. Why not is told to nobody: it would tell of the network that this server is in."""
        body, headers = signed(message, self._keys, self._database.clock.wall())
        try:
            status = await places.post(message.url, self._hosts, body, headers)
        except Exception as error:  # whatever the other side does
            _LOG.info("webhook_failed %s %s", message.webhook, type(error).__name__)
            return False
        _LOG.info("webhook_answered %s %d", message.webhook, status)
        return 200 <= status < 300


def signed(message: Message, keys: SigningKeys, now: float) -> tuple[bytes, dict[str, str]]:
    """A message's body, and the headers that sign it as of now.

    Reference: Standard Webhooks 1.0, asymmetric signatures: Ed25519 of `id.timestamp.body`.
    """
    job = FinishedJob(job=message.job, dataset=message.dataset, state=message.state)
    body = WebhookEvent(type="job.finished", timestamp=message.at, data=job).model_dump_json().encode()
    sent = str(int(now))
    signature = b64encode(keys.sign_message(b".".join((message.id.encode(), sent.encode(), body)))).decode()
    return body, {
        "Content-Type": "application/json",
        "webhook-id": message.id,
        "webhook-timestamp": sent,
        "webhook-signature": f"v1a,{signature}",
    }
