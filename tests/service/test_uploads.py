"""Uploads that go on where they stopped: from any byte, at any server, after any end of one, for their owner alone."""

import io
import json
import logging
import os
import time
from collections.abc import Iterator, MutableMapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from httpx import Response

from app.datasets import spool
from app.http.errors import ApiError
from app.settings import Settings
from purse import Client, ClientError, Unreachable
from purse.client import parts, sending
from tests.service.conftest import MakeService
from tests.support.patience import PATIENCE
from tests.support.server import Server
from tests.support.service import SPEC, STEWARD, Service, people
from tests.support.threads import at_once

BODY = "application/offset+octet-stream"


def _new_upload(service: Service, length: int, role: str = "steward") -> str:
    """Return the path of a new upload."""
    response = service.call(role, "POST", "/v1/uploads", headers={"Upload-Length": str(length)})
    assert response.status_code == 201, response.text
    assert response.headers["Location"] == f"/v1/uploads/{response.json()['id']}"
    return str(response.headers["Location"])


def _send_part(service: Service, path: str, at: int, part: Any, role: str = "steward", **headers: str) -> Response:
    all_headers = {"Upload-Offset": str(at), "Content-Type": BODY, "Tus-Resumable": "1.0.0"} | headers
    return service.call(role, "PATCH", path, content=part, headers=all_headers)


def _registered(service: Service, path: str, role: str = "steward", **changes: Any) -> Response:
    parts = {"spec": json.dumps(SPEC | changes), "upload": path.removeprefix("/v1/uploads/")}
    form = {name: (None, text) for name, text in parts.items()}
    return service.call(role, "POST", "/v1/datasets", files=form)


def _code(answer: Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


@pytest.fixture(autouse=True)
def _nothing_waits(request: pytest.FixtureRequest) -> Iterator[None]:
    """Start each test without waiting uploads, and remove its own at the end."""
    yield
    if "shared" in request.fixturenames:
        for file in spool.root(request.getfixturevalue("shared").home).glob("*/up_*"):
            file.unlink()


@pytest.fixture
def second_steward(shared: Service) -> str:
    """The name of a second steward's token."""
    if "other" not in shared.tokens:
        shared.tokens["other"] = shared.token("other", "steward")["token"]
    return "other"


def _cut(service: Service, path: str, at: int, pieces: list[bytes]) -> int:
    """Send these pieces and disconnect. Return the status, or 0 if there was no answer."""
    parts_sent: list[dict[str, Any]] = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    coming = iter([*parts_sent, {"type": "http.disconnect"}])
    statuses = [0]

    async def receive() -> dict[str, Any]:
        return next(coming)

    async def send(message: MutableMapping[str, Any]) -> None:
        statuses.append(message.get("status", 0))

    fields = {"authorization": f"Bearer {STEWARD}", "upload-offset": str(at), "content-type": BODY}
    headers = [(name.encode(), value.encode()) for name, value in fields.items()]
    scope = {"type": "http", "method": "PATCH", "path": path, "query_string": b"", "headers": headers}
    anyio.run(partial(service.app, scope, receive, send))
    return max(statuses)


@pytest.mark.slow
def test_an_upload_continues_at_any_byte_and_becomes_the_same_dataset(shared: Service) -> None:
    file = people(60)
    path = _new_upload(shared, len(file))
    at = 0
    for step in (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89):
        assert _cut(shared, path, at, [file[at : at + step][:2], file[at : at + step][2:]]) != 204
        at += step
        response = shared.call("steward", "HEAD", path)
        assert (response.status_code, response.headers["Upload-Offset"]) == (200, str(at))
        assert (response.headers["Upload-Length"], response.headers["Cache-Control"]) == (str(len(file)), "no-store")
        assert _code(_registered(shared, path)) == (409, "upload_incomplete")
    last = _send_part(shared, path, at, file[at:])
    assert (last.status_code, last.headers["Upload-Offset"]) == (204, str(len(file)))
    refused = _registered(shared, path, budget={"epsilon": 3.0, "delta": 1e-6, "filter": "pure"})
    assert refused.status_code == 422
    assert shared.call("steward", "GET", path).json()["offset"] == len(file), "a refused registration keeps the upload"

    assert _registered(shared, path, name="in parts").status_code == 201
    assert _code(shared.call("steward", "GET", path)) == (404, "not_found")
    assert _code(shared.upload(SPEC | {"name": "at once"}, file)) == (409, "duplicate_dataset")


def test_only_the_next_byte_is_written(shared: Service) -> None:
    path = _new_upload(shared, 10)
    assert _send_part(shared, path, 0, b"01234").status_code == 204
    for at in (0, 4, 6, 10, 11):
        assert _code(_send_part(shared, path, at, b"x")) == (409, "offset_mismatch")
    assert _code(_send_part(shared, path, 5, b"567890")) == (413, "too_large")
    assert _code(_send_part(shared, path, 5, b"x", **{"Content-Type": "text/csv"})) == (415, "unsupported_media_type")
    wrong_version = _send_part(shared, path, 5, b"x", **{"Tus-Resumable": "0.2.2"})
    assert _code(wrong_version) == (412, "unsupported_version")
    assert (wrong_version.headers["Tus-Version"], wrong_version.headers["Tus-Resumable"]) == ("1.0.0", "1.0.0")
    for no_place in ("-1", "x", "1" * 30):
        assert _send_part(shared, path, 5, b"x", **{"Upload-Offset": no_place}).status_code == 422
    assert shared.call("steward", "GET", path).json()["offset"] == 5
    assert _send_part(shared, path, 5, b"56789").status_code == 204
    [file] = spool.root(shared.home).glob("*/up_*")
    assert file.read_bytes() == b"0123456789"
    assert shared.call("steward", "DELETE", path).status_code == 204
    assert not file.exists()


@pytest.mark.parametrize("length", ["0", "-1", "x", str(2**54), None])
def test_a_length_is_a_number_of_bytes(shared: Service, length: str | None) -> None:
    headers = {} if length is None else {"Upload-Length": length}
    assert shared.call("steward", "POST", "/v1/uploads", headers=headers).status_code == 422


def test_one_of_two_writers_at_one_offset_wins(shared: Service) -> None:
    block, writers = 3 * 2**20, 4
    path = _new_upload(shared, 10 * block)
    statuses = at_once(writers, lambda i: _send_part(shared, path, 0, bytes([i + 1]) * block).status_code)
    assert set(statuses) - {204} <= {409, 423}
    written = [number for number, status in enumerate(statuses, 1) if status == 204]
    [file] = spool.root(shared.home).glob("*/up_*")
    content = file.read_bytes()
    # Each block of a MiB goes to whoever asks first with the right end, and who lost one writes no more.
    assert len(written) <= 1
    assert [content == bytes([number]) * block for number in written] == [True] * len(written)
    assert shared.call("steward", "GET", path).json()["offset"] == len(content)


def test_other_stewards_cannot_find_it(shared: Service, second_steward: str) -> None:
    path = _new_upload(shared, 5)
    assert _send_part(shared, path, 0, b"01234").status_code == 204
    for upload_path in (path, "/v1/uploads/up_nobody"):
        for method in ("GET", "HEAD", "DELETE"):
            assert shared.call(second_steward, method, upload_path).status_code == 404
        assert _code(_send_part(shared, upload_path, 5, b"", role=second_steward)) == (404, "not_found")
        assert _code(_registered(shared, upload_path, role=second_steward, name="stolen")) == (404, "not_found")
    for pattern in ("up_*", "*", "../*/up_*", "", "/etc/passwd", path.replace("/v1/uploads", "../*")):
        assert _code(_registered(shared, pattern, role=second_steward, name="stolen")) == (404, "not_found")
    assert shared.call(second_steward, "GET", "/v1/uploads").json()["items"] == []
    [mine] = shared.call("steward", "GET", "/v1/uploads").json()["items"]
    assert mine == shared.call("steward", "GET", path).json()


def test_waiting_uploads_are_limited_by_steward_and_in_total(shared: Service, second_steward: str) -> None:
    for _ in range(spool.WAITING_EACH):
        path = _new_upload(shared, 5)
    refused = shared.call("steward", "POST", "/v1/uploads", headers={"Upload-Length": "5"})
    assert _code(refused) == (429, "too_many_requests")
    assert refused.headers["Retry-After"]
    _new_upload(shared, 5, role=second_steward)
    assert shared.call("steward", "DELETE", path).status_code == 204
    _new_upload(shared, 5)
    strangers = spool.root(shared.home) / "idn_strangers"
    strangers.mkdir(exist_ok=True)
    for number in range(spool.WAITING):
        (strangers / f"up_{number}.5").touch()
    refused = shared.call(second_steward, "POST", "/v1/uploads", headers={"Upload-Length": "5"})
    assert _code(refused) == (503, "overloaded")


def test_an_upload_that_would_not_fit_is_refused_at_its_start(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, max_upload_bytes=2**60)
    with pytest.raises(ApiError) as caught:
        spool.begin(settings, "idn_one", 2**59)
    assert caught.value.code == "disk_full"
    with pytest.raises(ApiError) as caught:
        spool.begin(settings, "idn_one", 2**60 + 1)
    assert caught.value.code == "too_large"
    assert spool.owned(tmp_path, "idn_one") == []


def test_only_expired_uploads_are_deleted(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    old, complete, new = (spool.begin(settings, "idn_one", 5) for _ in range(3))
    assert spool.append(complete, 0, b"01234") == 5
    strange = old.file.with_name("notes.txt")
    strange.touch()
    for path in (old.file, complete.file, strange):
        os.utime(path, (0, time.time() - settings.upload_seconds - 60))
    with spool.complete(tmp_path, "idn_one", complete.id) as file:
        spool.sweep(tmp_path, settings.upload_seconds)
        assert sorted(file.parent.iterdir()) == sorted([complete.file, new.file, strange])
        for use in (spool.remove, lambda upload: spool.append(upload, 5, b"")):
            with pytest.raises(ApiError) as caught:
                use(complete)
            assert caught.value.code == "upload_busy", "an upload that is being registered is not changed"
    with pytest.raises(ApiError) as caught:
        spool.append(old, 0, b"0")
    assert caught.value.code == "not_found"
    spool.sweep(tmp_path, settings.upload_seconds)
    assert sorted(file.parent.iterdir()) == sorted([new.file, strange])


def test_the_log_shows_nothing_of_an_upload(shared: Service, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="purse"):
        headers = {"Upload-Length": "9", "Upload-Metadata": "filename czNjcjN0"}
        path = shared.call("steward", "POST", "/v1/uploads", headers=headers).headers["Location"]
        assert _send_part(shared, path, 0, b"s3cr3t,1\n").status_code == 204
        assert _cut(shared, path, 9, [b"s3cr3t"]) == 413
    assert "PATCH /v1/uploads/{upload_id} 204" in caplog.text
    assert not [word for word in ("s3cr3t", "czNjcjN0", path) if word in caplog.text]
    assert not [line for line in caplog.messages if "uploads" in line and " ms" in line]


class _Breaking(httpx.BaseTransport):
    """Some parts arrive cut off; of some that arrive the answer is lost; and in the end nothing goes through.

    Parameters
    ----------
    most : how many parts are tried
    """

    def __init__(self, service: Service, allowed_patches: int = 1000) -> None:
        self._service, self._remaining, self.patches = service, allowed_patches, 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        content, omitted = request.read(), ("content-length", "host")
        headers = {name: value for name, value in request.headers.items() if name not in omitted}
        if request.method == "PATCH":
            self.patches += 1
            if self.patches > self._remaining:
                raise httpx.ConnectError("no route")
            if self.patches % 3 == 0:
                self._service.client.request("PATCH", request.url.path, headers=headers, content=content[:70])
                raise httpx.WriteError("cut off")
        answer = self._service.client.request(request.method, request.url.path, headers=headers, content=content)
        if request.method == "PATCH" and self.patches % 5 == 0:
            raise httpx.ReadError("lost")
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


async def _at_once(_driver: object, _seconds: float) -> None:
    """Skip the pause between two attempts."""


@pytest.mark.slow
def test_our_client_sends_a_large_file_in_parts_and_continues(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", 256)
    monkeypatch.setattr(sending.Blocking, "sleep", _at_once)
    (tmp_path / "people.csv").write_bytes(file := people(300))
    for source in (tmp_path / "people.csv", io.BytesIO(file)):
        broken = _Breaking(service, allowed_patches=7)
        with Client("http://testserver", STEWARD, transport=broken) as purse, pytest.raises(Unreachable) as failed:
            purse.datasets.upload(source, spec=SPEC)
        [note] = failed.value.__notes__
        [unfinished] = service.call("steward", "GET", "/v1/uploads").json()["items"]
        assert unfinished["id"] in note
        assert 256 < unfinished["offset"] < unfinished["length"] == len(file)

        going = _Breaking(service)
        with Client("http://testserver", STEWARD, transport=going) as purse:
            with pytest.raises(ClientError, match=r"length|bytes|file"):
                purse.datasets.upload(io.BytesIO(file[1:]), spec=SPEC, resume=unfinished["id"])
            dataset = purse.datasets.upload(source, spec=SPEC, resume=unfinished["id"])
        assert dataset.rows == 300
        assert going.patches > (len(file) - unfinished["offset"]) / 256, "some were sent again"
        assert service.call("steward", "DELETE", f"/v1/datasets/{dataset.id}").json()["data"] == "withdrawn"
    with Client("http://testserver", STEWARD, transport=_Breaking(service)) as purse:
        at_once = purse.datasets.upload(io.BytesIO(people(8)[:200]), spec=SPEC)
        assert at_once.rows is not None


@pytest.mark.slow
def test_an_upload_to_a_killed_server_continues_on_another(make_service: MakeService, tmp_path: Path) -> None:
    home, file = tmp_path / "home", people(200_000)
    server = Server(home, workers=1)
    try:
        server.start()
        response = server.client.post("/v1/uploads", headers={"Upload-Length": str(len(file))})
        path = response.headers["Location"]
        [part] = spool.root(home).glob("*/up_*")

        def body() -> Iterator[bytes]:
            yield file[: 3 * 2**19]
            deadline = time.monotonic() + PATIENCE
            while part.stat().st_size < 2**20:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            server.kill()
            while True:
                yield file[: 2**20]

        with pytest.raises(httpx.TransportError):
            server.client.patch(path, content=body(), headers={"Upload-Offset": "0", "Content-Type": BODY})
    finally:
        server.kill()
    with make_service(home) as service:
        at = int(service.call("steward", "HEAD", path).headers["Upload-Offset"])
        assert 2**20 <= at < len(file)
        assert part.read_bytes() == file[:at]
        assert _send_part(service, path, at, file[at:]).status_code == 204
        assert part.read_bytes() == file
        assert _registered(service, path).json()["rows"] == 200_000
