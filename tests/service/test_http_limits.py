"""Limits for callers without a token, tested by raw sockets against a real server.

Tests of its time limits use a server whose limits are short. All others use one whose limits are long, so that a slow
machine is not mistaken for a slow caller.
"""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from app.http.protocol import ConnectionLimits
from tests.support.live import Live, live
from tests.support.patience import PATIENCE, until
from tests.support.service import JOB, SPEC, people

LIMITS = ConnectionLimits(connections=12, head_bytes=2**14, seconds_head=PATIENCE, seconds_unread=PATIENCE)
START = b"GET /health/live HTTP/1.1\r\nHost: x\r\n"

VERIFY = b"POST /v1/receipts/verify HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("live"), limits=LIMITS) as running:
        yield running


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server with short time limits."""
    limits = replace(LIMITS, seconds_head=1.0, seconds_unread=0.5)
    with live(tmp_path_factory.mktemp("hurried"), limits=limits) as running:
        yield running


@contextmanager
def connected(server: Live) -> Iterator[socket.socket]:
    address = urlsplit(server.url)
    assert address.port is not None
    with closing(socket.create_connection((address.hostname, address.port), timeout=PATIENCE)) as connection:
        yield connection


@contextmanager
def answered(server: Live, request: bytes, status: int) -> Iterator[socket.socket]:
    """Yield a connection on which the request got this status. On a slow machine it may first be too late."""
    while True:
        with connected(server) as connection:
            connection.sendall(request)
            head = connection.recv(2**16)
            if head.startswith(b"HTTP/1.1 408"):
                continue
            assert head.startswith(b"HTTP/1.1 %d" % status)
            yield connection
            return


def remaining_answer(connection: socket.socket) -> bytes:
    """Return the remaining answer. The server must end the connection by itself."""
    answer = bytearray()
    try:
        while piece := connection.recv(2**16):
            answer += piece
    except ConnectionResetError:
        pass
    return bytes(answer)


def problem(answer: bytes) -> tuple[int, str]:
    """Return status and code of a problem document, which has no other content of the request."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head, answer[:300]
    document: dict[str, Any] = json.loads(body)
    assert int(head.split()[1]) == document["status"]
    assert "4711" not in body.decode()
    return document["status"], document["code"]


def answers(server: Live) -> bool:
    """Return whether the server answers a new caller."""
    return httpx.get(f"{server.url}/health/live", timeout=PATIENCE).status_code == 200


def test_a_header_without_an_end_is_refused_early(server: Live) -> None:
    """Otherwise 128 MB of one header cost 26 seconds of the event loop."""
    sent_bytes = 0
    with connected(server) as connection:
        connection.sendall(START + b"X-Long: ")
        try:
            while sent_bytes < 2**27:
                sent_bytes += connection.send(b"4711" * 2**12)
        except ConnectionError:
            pass
        remaining_answer(connection)
    assert sent_bytes < 2**25, "only the kernel's buffers"
    assert answers(server)


@pytest.mark.parametrize(
    "headers",
    [b"X-Long: " + b"4711" * 2**13, b"a: 4711\r\n" * 4000, b"a: 4711\r\n" * 101, b"X-Long: " + b"4711" * 4090],
    ids=["one long", "many short", "one too many", "a little too long"],
)
def test_too_large_a_head_gets_an_answer(server: Live, headers: bytes) -> None:
    with connected(server) as connection:
        connection.sendall(START + b"Connection: close\r\n" + headers.rstrip() + b"\r\n\r\n")
        assert problem(remaining_answer(connection)) == (431, "headers_too_large")


def test_a_large_head_is_accepted(server: Live) -> None:
    headers = b"".join(b"x-%d: %s\r\n" % (i, b"v" * 100) for i in range(90))
    with connected(server) as connection:
        connection.sendall(START + b"Connection: close\r\n" + headers + b"\r\n")
        assert b'{"status":"ok"}' in remaining_answer(connection)


@pytest.mark.parametrize(
    "request_",
    [
        b"4711\r\n\r\n",
        b"GET /4711\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nno colon 4711\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -4711\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: 4711\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_a_request_that_is_not_http_gets_a_problem_document(server: Live, request_: bytes) -> None:
    with connected(server) as connection:
        connection.sendall(request_)
        status, code = problem(remaining_answer(connection))
    assert code in ("malformed_request", "headers_too_large")
    assert status in (400, 431)


def test_a_request_with_two_lengths_is_refused_and_the_rest_is_not_read(server: Live) -> None:
    """Otherwise a proxy could forward bytes as a body that the server would answer as another request."""
    hidden = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"
    with connected(server) as connection:
        connection.sendall(VERIFY + b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n" % (5 + len(hidden)))
        connection.sendall(b"0\r\n\r\n" + hidden)
        assert problem(remaining_answer(connection)) == (400, "malformed_request")


@pytest.mark.slow
def test_an_invalid_chunk_ends_the_request(server: Live) -> None:
    with connected(server) as connection:
        head = b"POST /v1/receipts/verify HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        connection.sendall(head + b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"a":\r\n')
        time.sleep(0.2)
        connection.sendall(b"4711 no chunk\r\n")
        assert problem(remaining_answer(connection)) == (400, "malformed_request")
    assert answers(server)


@pytest.mark.slow
@pytest.mark.parametrize("partial_head", [b"", b"G", START, START + b"X: " + b"4" * 5000])
def test_an_incomplete_head_is_refused_after_the_time_limit(hurried: Live, partial_head: bytes) -> None:
    with connected(hurried) as connection:
        connection.sendall(partial_head)
        assert problem(remaining_answer(connection)) == (408, "request_timeout")


@pytest.mark.slow
def test_a_head_that_drips_is_not_waited_for(hurried: Live) -> None:
    """Each byte in time, and yet no end: the clock is that of the whole head, on a used connection too."""
    with answered(hurried, START + b"\r\n", 200) as connection:
        deadline = time.monotonic() + PATIENCE
        try:
            for byte in START * 100:
                assert time.monotonic() < deadline
                connection.sendall(bytes((byte,)))
                time.sleep(0.05)
        except ConnectionError:
            pass
        else:
            pytest.fail("dripped to its end")


@pytest.mark.slow
def test_an_unused_body_is_not_read_without_limit(hurried: Live) -> None:
    request = b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n"
    with answered(hurried, request, 404) as connection:
        deadline = time.monotonic() + PATIENCE
        try:
            while True:
                assert time.monotonic() < deadline
                connection.sendall(b"x")
                time.sleep(0.05)
        except ConnectionError:
            pass


@pytest.mark.slow
def test_an_answer_that_is_not_read_is_dropped(hurried: Live) -> None:
    until(lambda: not hurried.connections())
    with connected(hurried) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        # More answers than the kernel would keep for us. All requests are sent at once: the server may end the
        # connection half a second after the first answer.
        connection.sendall(50 * b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(1, socket.MSG_PEEK), "the server has answered, and nothing was read"
        until(lambda: not hurried.connections())


def test_half_open_connections_are_closed_for_new_ones(server: Live) -> None:
    """Otherwise hundreds of them stay open."""
    with ExitStack() as stack:
        connections = [stack.enter_context(connected(server)) for _ in range(3 * LIMITS.connections)]
        for connection in connections:
            connection.setblocking(False)
        assert answers(server)
        open_ = 0
        for connection in connections:
            try:
                connection.recv(1)
            except BlockingIOError:
                open_ += 1
            except ConnectionError:
                pass
        assert open_ <= LIMITS.connections


@pytest.mark.slow
def test_a_connection_above_the_limit_gets_503(server: Live) -> None:
    head = (
        b"POST /v1/receipts/verify HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
    )
    with ExitStack() as stack:
        connections = [stack.enter_context(connected(server)) for _ in range(LIMITS.connections)]
        for connection in connections:
            connection.sendall(head)
        until(lambda: server.working() == LIMITS.connections)
        with connected(server) as late:
            answer = remaining_answer(late)
        assert problem(answer) == (503, "overloaded")
        assert b"Retry-After" in answer
        for connection in connections:
            connection.sendall(b"[1, 2, 3]")
            assert connection.recv(2**16).startswith(b"HTTP/1.1 422")
    assert answers(server)


def test_there_are_no_other_protocols(server: Live) -> None:
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n"
    with connected(server) as connection:
        connection.sendall(START + upgrade + b"\r\n")
        assert connection.recv(2**16).startswith(b"HTTP/1.1 200")


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("live")) as running:
        running.engine.gate.clear()
        yield running


@pytest.fixture(scope="module")
def steward(roomy: Live) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {roomy.token}"}
    with httpx.Client(base_url=roomy.url, headers=headers, timeout=PATIENCE) as client:
        yield client


def _analyst(steward: httpx.Client, dataset: str) -> tuple[str, dict[str, str]]:
    token = steward.post("/v1/tokens", json={"name": "an analyst", "role": "analyst"}).json()
    assert steward.put(f"/v1/datasets/{dataset}/grants/an analyst").status_code == 200
    return token["id"], {"Authorization": f"Bearer {token['token']}"}


@pytest.fixture(scope="module")
def dataset(steward: httpx.Client) -> str:
    response = steward.post("/v1/datasets", data={"spec": json.dumps(SPEC)}, files={"file": ("f", people())})
    return str(response.json()["id"])


def _job(steward: httpx.Client, dataset: str, headers: dict[str, str]) -> str:
    body = JOB | {"dataset": dataset, "privacy": {"epsilon": 0.1}}
    response = steward.post("/v1/jobs", json=body, headers=headers)
    assert response.status_code == 202, response.text
    return f"/v1/jobs/{response.json()['id']}/events"


@pytest.mark.slow
def test_streams_end_when_the_token_is_revoked(steward: httpx.Client, dataset: str) -> None:
    token, headers = _analyst(steward, dataset)
    path = _job(steward, dataset, headers)
    with steward.stream("GET", path, headers=headers) as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith(("id", "event", "data"))
        assert steward.delete(f"/v1/tokens/{token}").status_code == 204
        assert not [line for line in lines if "done" in line and "final" in line]
    assert steward.get(path, headers=headers).status_code == 401


@pytest.mark.slow
def test_streams_of_one_caller_are_limited(steward: httpx.Client, dataset: str) -> None:
    _, headers = _analyst(steward, dataset)
    path = _job(steward, dataset, headers)
    with ExitStack() as stack:
        for _ in range(8):
            opened = stack.enter_context(steward.stream("GET", path, headers=headers))
            assert opened.status_code == 200
        refused = steward.get(path, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
        assert int(refused.headers["Retry-After"]) > 0
        with steward.stream("GET", path) as stream_of_steward:
            assert stream_of_steward.status_code == 200, "other callers have their own limit"
    deadline = time.monotonic() + PATIENCE
    while True:
        with steward.stream("GET", path, headers=headers) as again:
            if again.status_code == 200:
                break
        assert time.monotonic() < deadline


@pytest.mark.slow
def test_a_head_request_opens_no_stream(steward: httpx.Client, dataset: str) -> None:
    _, headers = _analyst(steward, dataset)
    path = _job(steward, dataset, headers)
    for _ in range(20):
        assert steward.head(path, headers=headers).status_code in (200, 429)
    assert steward.head(path, headers=headers).headers["Content-Type"].startswith("text/event-stream")
