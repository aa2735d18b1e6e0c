"""Webhooks: told with the public end and never before, signed, by one server at a time, to nobody inside."""

import asyncio
import json
import logging
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from app.jobs import attempts, service
from app.persistence.tables import deliveries, webhooks
from app.webhooks import delivery, store
from app.webhooks.courier import Courier, signed
from app.webhooks.store import LEASE_SECONDS, RETRY_DELAYS_SECONDS, Message
from purse import webhooks as received
from purse.receipts import NotVerified
from purse.wire.receipts import KeySet
from tests.service.conftest import MakeService
from tests.support.patience import PATIENCE, until
from tests.support.service import JOB, Service
from tests.support.world import World, output

SECRET = "/jobs?key=canary4711"
MESSAGE = Message("msg_a", "hook_a", "https://a.example", 0, 0.0, "job_a", "ds_a", "done", "2026-11-22T00:00:00.000Z")
INSIDE = (
    "127.0.0.1 10.0.0.1 172.16.5.4 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 224.0.0.1 255.255.255.255 192.0.2.1 "
    "240.0.0.1 ::1 :: fe80::1 fe80::1%eth0 fc00::1 ff02::1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 64:ff9b::7f00:1 "
    "2002:7f00:1:: 2001:0:7f00:1:: 2001:db8::1"
)
PAGE = Path(__file__).parents[2] / "docs/webhooks.md"


@dataclass
class Receiver:
    """A receiver that answers with these statuses, then 204."""

    url: str
    answers: list[int] = field(default_factory=list)
    messages: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)


@contextmanager
def receiving() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            running.messages.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(running.answers.pop(0) if running.answers else 204)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    running = Receiver(f"http://127.0.0.1:{server.server_port}{SECRET}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    new_world = World.at(tmp_path / "home")
    new_world.clock.pass_(1_800_000_000)
    yield new_world
    new_world.database.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


def _hook(world: World, url: str = "https://hooks.example/jobs") -> str:
    with world.database.write() as connection:
        return store.add(connection, world.analyst.id, url, world.database.timestamp())


def _waiting(world: World) -> list[Any]:
    with world.database.read() as connection:
        return list(connection.execute(sa.select(deliveries).order_by(deliveries.c.id)))


def _told_of_one(world: World, url: str) -> str:
    _hook(world, url)
    return world.release(world.dataset())


def _courier(world: World, *hosts: str) -> Courier:
    return Courier(world.database, world.keys, hosts)


def _keys(world: World) -> KeySet:
    return KeySet(keys=world.keys.jwks()["keys"])


def test_one_message_is_written_when_the_end_becomes_public(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    _hook(world), _hook(world, "https://other.example/")
    job = world.submit(world.dataset(), privacy={"epsilon": 0.2}).id
    claim = world.claimed()
    assert attempts.end(world.database, claim, output(claim), world.clock.ticks())
    assert _waiting(world) == [], "the attempt is over, and nobody may know"
    with monkeypatch.context() as patched:
        patched.setattr("app.jobs.attempts.release.receipt", lambda *_: None)  # a job without its receipt is none
        with pytest.raises(sa.exc.IntegrityError):
            world.tell()
    assert _waiting(world) == [], "the end was rolled back, and its messages with it"
    world.tell()
    assert [row.job_id for row in _waiting(world)] == [job, job]
    assert world.job(job).state == "done"
    cancelled = world.submit(world.dataset(), privacy={"epsilon": 0.2}).id
    service.cancel(world.database, world.analyst, cancelled)
    assert [row.job_id for row in _waiting(world)].count(cancelled) == 2
    dataset = world.dataset()
    bob = world.join("bob", dataset)
    service.cancel(world.database, bob, world.submit(dataset, owner=bob, privacy={"epsilon": 0.2}).id)
    assert len(_waiting(world)) == 4, "nobody is told of another's jobs"


def test_a_message_is_signed_and_contains_only_public_facts(
    world: World, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "app.webhooks")
    job = _told_of_one(world, receiver.url)
    courier = _courier(world, "127.0.0.1")
    assert courier.step() == 1
    assert courier.step() == 0
    [(path, headers, body)] = receiver.messages
    view = world.job(job)
    assert json.loads(body) == {
        "type": "job.finished",
        "timestamp": view.finished_at,
        "data": {"job": job, "dataset": view.dataset, "state": "done"},
    }
    assert path == SECRET
    event = received.verify(body, headers, _keys(world), now=world.clock.wall() + 299)
    assert event.data.job == job
    assert _waiting(world) == []
    assert "canary4711" not in caplog.text
    assert "webhook_answered" in caplog.text


def test_a_receiver_rejects_any_other_message(world: World) -> None:
    body, headers = signed(MESSAGE, world.keys, 1000.5)
    keys = _keys(world)
    assert received.verify(body, {k.title(): v for k, v in headers.items()}, keys, now=1000).data.state == "done"
    for change in (
        {"body": body.replace(b"job_a", b"job_b")},
        {"webhook-id": "msg_b"},
        {"webhook-timestamp": "1001"},
        {"webhook-timestamp": "-1"},
        {"webhook-timestamp": ""},
        {"webhook-signature": ""},
        {"webhook-signature": headers["webhook-signature"].replace("v1a", "v1")},
        {"webhook-signature": "v1a,???"},
        {"now": 1301},
        {"now": 699},
        {"keys": KeySet(keys=[])},
    ):
        arguments: dict[str, Any] = {"body": body, "now": 1000, "keys": keys} | change
        all_headers = headers | {name: str(value) for name, value in change.items() if name in headers}
        with pytest.raises(NotVerified):
            received.verify(arguments["body"], all_headers, arguments["keys"], now=arguments["now"])
    both = headers | {"webhook-signature": f"v1,abc v1a,AAAA {headers['webhook-signature']}"}
    assert received.verify(body, both, keys, now=1000).type == "job.finished"
    with pytest.raises(ValueError, match="two full stops"):
        world.keys.sign_message(b"eyJhbGciOiJFZDI1NTE5In0.e30")  # what a JWS would sign


@pytest.mark.slow
def test_a_refused_message_is_repeated_with_growing_delays_and_then_dropped(world: World, receiver: Receiver) -> None:
    _told_of_one(world, receiver.url)
    receiver.answers = [500, 404, 301, 199 + 200, 503, 500, 500, 500, 500]
    courier = _courier(world, "127.0.0.1")
    for attempt, delay in enumerate((*RETRY_DELAYS_SECONDS, None)):
        assert courier.step() == 1
        assert len(receiver.messages) == attempt + 1
        assert courier.step() == 0, "not before it is due"
        if delay is not None:
            [row] = _waiting(world)
            assert (row.attempts, row.due) == (attempt + 1, world.clock.wall() + delay)
            world.clock.pass_(delay)
    assert _waiting(world) == []
    assert len({headers["webhook-id"] for _, headers, _ in receiver.messages}) == 1
    assert sum(RETRY_DELAYS_SECONDS) == pytest.approx(10 * 3600, rel=0.03)
    with world.database.read() as connection:
        assert connection.scalar(sa.select(webhooks.c.failures)) == len(RETRY_DELAYS_SECONDS) + 1


def test_only_the_status_of_an_answer_counts(world: World, receiver: Receiver) -> None:
    _told_of_one(world, receiver.url)
    receiver.answers = [302]
    courier = _courier(world, "127.0.0.1")
    assert courier.step() == 1
    assert [path for path, _, _ in receiver.messages] == [SECRET], "redirects are not followed"
    assert len(_waiting(world)) == 1
    world.clock.pass_(RETRY_DELAYS_SECONDS[0])
    assert courier.step() == 1
    assert _waiting(world) == []
    with world.database.read() as connection:
        row = connection.execute(sa.select(webhooks.c.failures, webhooks.c.busy_until)).one()
    assert row == (0, world.clock.wall())


def test_one_server_at_a_time_sends_to_a_webhook(world: World) -> None:
    hooks = {_hook(world), _hook(world, "https://other.example/")}
    for _ in range(2):
        world.release(world.dataset())
    now = world.clock.wall()

    def claimed(at: float, limit: int = 8) -> list[Message]:
        with world.database.write() as connection:
            return store.claim(connection, at, limit)

    [first] = claimed(now, 1)
    [second] = claimed(now)
    assert {first.webhook, second.webhook} == hooks
    assert claimed(now + LEASE_SECONDS / 2) == [], "two messages wait for each, and one of each is on its way"
    again = claimed(now + LEASE_SECONDS)
    assert {message.webhook for message in again} == hooks
    with world.database.write() as connection:
        store.settle(connection, first, True, now, "late")
    assert len(_waiting(world)) == 4, "whose lease is over has nothing to say"
    with world.database.write() as connection:
        for message in again:
            store.settle(connection, message, True, now, "in time")
    assert len(_waiting(world)) == 2
    with world.database.write() as connection:
        store.delete(connection, first.webhook)
    assert {row.webhook_id for row in _waiting(world)} == {second.webhook}


@pytest.mark.slow
def test_webhooks_take_turns_however_many_messages_wait(world: World) -> None:
    """A slow receiver with many messages delays those of others by one turn at most."""
    slow, job = _hook(world), world.release(world.dataset())
    with world.database.write() as connection:
        row = connection.execute(sa.select(deliveries)).one()._asdict()
        connection.execute(sa.insert(deliveries), [row | {"id": f"msg_{i}"} for i in range(100)])
        other_hook = store.add(connection, world.analyst.id, "https://other.example/", world.database.timestamp())
        last = row | {"id": "msg_of_other", "webhook_id": other_hook, "job_id": job, "due": world.clock.wall()}
        connection.execute(sa.insert(deliveries), last)
    turns = []
    for _ in range(3):
        with world.database.write() as connection:
            [message] = store.claim(connection, world.clock.wall(), 1)
            store.settle(connection, message, False, world.clock.wall(), "at")
        turns.append(message.webhook)
        world.clock.pass_(1.0)
    assert turns.index(other_hook) <= 1
    assert slow in turns


def test_a_name_without_an_address_delays_no_other_message(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The receiver's own name server may never answer."""
    answered, finished = threading.Event(), threading.Event()

    def never(*_: Any, **__: Any) -> list[Any]:
        answered.wait(PATIENCE)
        finished.set()
        return []

    _told_of_one(world, "https://hooks.example/")
    monkeypatch.setattr(socket, "getaddrinfo", never)
    monkeypatch.setattr(delivery, "TIMEOUT_SECONDS", 0.05)
    try:
        assert _courier(world).step() == 1
        assert not finished.is_set()
    finally:
        answered.set()
    assert finished.wait(PATIENCE)


@pytest.mark.parametrize("address", INSIDE.split())
def test_addresses_that_are_not_public_are_not_called(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not delivery.is_public(address)
    _resolve(monkeypatch, ["93.184.215.14", address])
    with pytest.raises(delivery.AddressRefused, match="not public"):
        asyncio.run(delivery.resolved("https://hooks.example/x", ()))
    assert delivery.is_public("93.184.215.14")
    assert delivery.is_public("2606:2800:21f:cb07::1")


def _resolve(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    hosts, remaining = [], list(answers)

    async def lookup(_loop: object, host: str, port: int, **_: Any) -> list[Any]:
        hosts.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in remaining.pop(0)]

    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "getaddrinfo", lookup)
    return hosts


def test_a_name_is_looked_up_once_and_the_checked_address_is_called(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a name could be public when checked and private when called (DNS rebinding)."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    hosts = _resolve(monkeypatch, ["127.0.0.1"], ["192.0.2.7"])
    url = receiver.url.replace("127.0.0.1", "hooks.example")
    status = asyncio.run(delivery.post(url, ("hooks.example",), b"{}", {}))
    assert (status, hosts) == (204, ["hooks.example"])
    [(_, headers, _)] = receiver.messages
    assert headers["host"].startswith("hooks.example:")
    destination = delivery.Destination(delivery.parsed_url("https://hooks.example/a?b", ()), "2606:2800:21f:cb07::1")
    assert destination.url == "https://[2606:2800:21f:cb07::1]:443/a?b"


@pytest.mark.slow
def test_an_address_that_may_not_be_is_refused_when_it_is_named(shared: Service) -> None:
    for url in (
        "http://hooks.example/",
        "https://user:secret@hooks.example/",
        "https://hooks.example/#part",
        "https://hooks.example:99999/",
        "https://hooks.example:x/",
        "https://",
        "https:///path",
        "ftp://hooks.example/",
        "https://hooks.example/ b",
        "https://hooks.example/\\b",
        "https://[::1",
        "https://" + "a" * 1000,
    ):
        refused = shared.call("analyst", "POST", "/v1/webhooks", json={"url": url})
        assert refused.status_code == 422, url
        assert "hooks.example" not in refused.text
    assert shared.call("analyst", "GET", "/v1/webhooks").json()["items"] == []


@pytest.mark.slow
def test_webhooks_belong_to_one_analyst_and_are_limited(shared: Service) -> None:
    shared.analyst("lea")
    responses = [
        shared.call("lea", "POST", "/v1/webhooks", json={"url": f"https://h{n}.example/secret"}) for n in range(5)
    ]
    assert [response.status_code for response in responses] == [201] * 5
    first = responses[0].json()
    assert responses[0].headers["Location"] == f"/v1/webhooks/{first['id']}"
    again = shared.call("lea", "POST", "/v1/webhooks", json={"url": first["url"]})
    assert (again.status_code, again.json()) == (201, first)
    sixth = shared.call("lea", "POST", "/v1/webhooks", json={"url": "https://h6.example/"})
    assert (sixth.status_code, sixth.json()["code"]) == (429, "too_many_requests")
    first_page = shared.call("lea", "GET", "/v1/webhooks", params={"limit": 2}).json()
    assert [hook["url"] for hook in first_page["items"]] == ["https://h4.example/secret", "https://h3.example/secret"]
    assert first["analyst"] == "lea"
    query = {"analyst": "lea", "cursor": first_page["next"]}
    hooks_of_steward = shared.call("steward", "GET", "/v1/webhooks", params=query).json()["items"]
    assert [hook["url"] for hook in hooks_of_steward] == [
        "https://h2.example",
        "https://h1.example",
        "https://h0.example",
    ]
    hooks_of_steward = shared.call("steward", "GET", "/v1/webhooks", params={"analyst": "lea"}).json()["items"]
    assert {hook["url"] for hook in hooks_of_steward} == {f"https://h{n}.example" for n in range(5)}
    place = f"/v1/webhooks/{first['id']}"
    assert [shared.call("analyst", method, place).status_code for method in ("GET", "DELETE")] == [404, 404]
    own = shared.call("analyst", "POST", "/v1/webhooks", json={"url": "https://own.example"}).json()["id"]
    foreign = {"cursor": first["id"], "order": "asc"}
    assert shared.call("analyst", "GET", "/v1/webhooks", params=foreign).json()["items"] == [], (
        "a foreign cursor gives an empty page"
    )
    assert shared.call("analyst", "DELETE", f"/v1/webhooks/{own}").status_code == 204
    assert shared.call("analyst", "GET", "/v1/webhooks").json()["items"] == []
    assert shared.call("lea", "GET", place).json() == first
    assert [shared.call("lea", method, place).status_code for method in ("DELETE", "GET")] == [204, 404]
    assert shared.call("steward", "DELETE", f"/v1/webhooks/{responses[1].json()['id']}").status_code == 204


@pytest.mark.slow
def test_a_server_sends_by_itself(tmp_path: Path, receiver: Receiver, make_service: MakeService) -> None:
    with make_service(tmp_path / "home", webhook_hosts=("127.0.0.1",)) as service:
        response = service.call("analyst", "POST", "/v1/webhooks", json={"url": receiver.url})
        assert response.status_code == 201, response.text
        job = service.done(JOB | {"dataset": service.dataset()})["id"]
        [(_, headers, body)] = until(lambda: receiver.messages)
        keys = KeySet.model_validate(service.client.get("/v1/keys").json())
        timestamp = int(headers["webhook-timestamp"])
        assert received.verify(body, headers, keys, now=timestamp).data.job == job


def test_the_code_on_the_page_reads_a_message(world: World) -> None:
    (code,) = re.findall(r"```python\n(.+?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "webhooks.md", "exec"), names)

    body, headers = signed(MESSAGE, world.keys, time.time())
    assert names["receive"](body, headers, _keys(world)) == "job_a is done"
