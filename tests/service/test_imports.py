"""Datasets registered from files that the server copies from its own import storage."""

import gzip
import json
import logging
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from httpx import Response
from pyarrow import csv, fs

from app.datasets import imports
from app.settings import Settings
from purse import Client
from purse.wire.problems import ProblemDetails
from tests.service.conftest import MakeService
from tests.support.objects import bucket
from tests.support.service import SPEC, STEWARD, Service, people

MOST_BYTES = 2**20


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, make_service: MakeService) -> Iterator[Service]:
    home = tmp_path_factory.mktemp("imports") / "home"
    (home.parent / "incoming" / "2026").mkdir(parents=True)
    url = f"file://{home.parent}/incoming"
    with make_service(home, import_url=url, max_import_bytes=MOST_BYTES) as started:
        yield started


def incoming(service: Service) -> Path:
    return service.home.parent / "incoming"


def register(service: Service, path: str, role: str = "steward", **changes: Any) -> Response:
    form = {"spec": (None, json.dumps(SPEC | changes)), "path": (None, path)}
    return service.call(role, "POST", "/v1/datasets", files=form)


def rule(refused: Response) -> str:
    """Return the violated rule of the part `path`."""
    problem = ProblemDetails.model_validate(refused.json())
    assert (refused.status_code, problem.code) == (422, "invalid_request")
    [violation] = problem.violations or []
    assert violation.where == "body.path"
    return violation.what


@pytest.mark.parametrize("name", ["plain.csv", "2026/packed.csv.gz", "2026/year=2026/rows.parquet"])
def test_a_file_of_the_import_storage_is_registered_like_an_upload(service: Service, name: str) -> None:
    rows = people(20 + len(name))
    file = incoming(service) / name
    file.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith(".parquet"):
        pq.write_table(csv.read_csv(pa.BufferReader(rows)), file)
    else:
        file.write_bytes(gzip.compress(rows) if name.endswith(".gz") else rows)
    registered = register(service, name, name=name.replace("/", " "))
    assert registered.status_code == 201, registered.text
    again = service.upload(SPEC | {"name": "the same rows"}, rows)
    assert (again.status_code, again.json()["code"]) == (409, "duplicate_dataset")
    assert again.json()["detail"]
    assert file.exists()
    assert not list((service.home / "datasets").glob(".incoming-*"))


OUTSIDE = ("../home/key", "2026/../../home/key", "/etc/passwd", "./a", "s3://bucket/a", "file:///etc/passwd")
MALFORMED = ("", ".hidden", "2026/.hidden", "2026//a", "2026/", " a", "a\\b", "a?b", "a%2e", "*", "é", "a\n")


@pytest.mark.parametrize("path", OUTSIDE + MALFORMED)
def test_a_path_that_could_leave_the_storage_is_refused_before_anything_is_read(service: Service, path: str) -> None:
    with mock.patch.object(imports, "reached", side_effect=AssertionError("the storage was opened")):
        assert "relative path" in rule(register(service, path))


def test_only_regular_files_are_read(service: Service, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_bytes(people(30))
    folder = incoming(service)
    (folder / "link.csv").symlink_to(secret)
    (folder / "linked").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.csv")
    descriptors = len(os.listdir("/proc/self/fd"))
    paths = ("missing.csv", "link.csv", "linked/secret.csv", "pipe.csv", "2026")
    rules = {rule(register(service, path)) for path in paths for _ in range(20)}
    assert len(rules) == 1, "the reasons reveal what exists outside the storage"
    assert len(os.listdir("/proc/self/fd")) < descriptors + 15, "refused files stay open"


def test_limits_of_the_size_and_of_the_disk_hold_before_a_byte_is_copied(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = incoming(service) / "large.csv"
    file.write_bytes(b"x" * (MOST_BYTES + 1))
    refused = register(service, file.name)
    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
    file.write_bytes(people(40))
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: mock.Mock(free=2**28 + 10))
        refused = register(service, file.name)
    assert (refused.status_code, refused.json()["code"]) == (507, "disk_full")


def test_a_copy_ends_when_others_fill_the_disk(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    file = incoming(service) / "meanwhile.csv"
    file.write_bytes(people(45))
    free = iter((10 * 2**30, 2**28))
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: mock.Mock(free=next(free)))
        refused = register(service, file.name)
    assert (refused.status_code, refused.json()["code"]) == (507, "disk_full")
    assert not list((service.home / "datasets").glob(".incoming-*"))


@pytest.mark.parametrize("change", ["shorter", "longer", "other values"])
def test_a_file_that_changes_while_it_is_copied_is_refused(
    service: Service, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    file = incoming(service) / "changing.csv"
    rows = people(50)
    file.write_bytes(rows)
    changed = {"shorter": rows[:-10], "longer": rows + b"1,f,low\n", "other values": rows.replace(b"high", b"soon")}
    usage = shutil.disk_usage

    def after_the_change(folder: Path) -> Any:
        file.write_bytes(changed[change])
        return usage(folder)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", after_the_change)
        refused = register(service, file.name)
    assert (refused.status_code, refused.json()["code"]) == (422, "unreadable_file")
    assert "changed" in refused.json()["detail"]


def test_a_file_that_grows_is_not_followed(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    file = incoming(service) / "growing.csv"
    file.write_bytes(people(9))
    looks = 0

    def growing(_folder: Path) -> Any:
        nonlocal looks
        looks += 1
        if looks <= 20:  # it would be read as long as it grows
            with file.open("ab") as target:
                target.write(b"1,f,low\n")
        return mock.Mock(free=2**40)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", growing)
        refused = register(service, file.name)
    assert looks <= 3
    assert (refused.status_code, refused.json()["code"]) == (422, "unreadable_file")
    assert "changed" in refused.json()["detail"]


def test_the_log_states_who_requested_which_file(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    (incoming(service) / "logged.csv").write_bytes(people(70))
    with caplog.at_level(logging.INFO, "app"):
        assert register(service, "logged.csv", name="logged").status_code == 201
        register(service, "absent.csv")
        register(service, "../malformed.csv")
    lines = [record.getMessage() for record in caplog.records if record.name == "app.datasets.imports"]
    assert [line.split()[1] for line in lines] == ["logged.csv", "absent.csv"]
    assert all(re.fullmatch("file_import_requested [a-z.]+ by idn_[a-z0-9]+", line) for line in lines)


def test_the_log_does_not_state_when_the_reading_of_a_file_began(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(home=tmp_path / "home", import_url=f"file://{tmp_path}/incoming")
    settings.make_home()
    (tmp_path / "incoming").mkdir()
    (tmp_path / "incoming" / "rows.csv").write_bytes(people(9))
    with caplog.at_level(logging.INFO, "app"):
        with imports.copy_of(settings, "idn_1", "rows.csv", tmp_path / "copy") as copy:
            assert copy.read_bytes() == people(9)
            assert caplog.messages == []
        assert caplog.messages == ["file_import_requested rows.csv by idn_1"]


@pytest.mark.parametrize(
    "url", ["file:///srv/home", "file:///srv", "file:///srv/home/datasets", "file:///srv/partitions/x"]
)
def test_the_servers_own_files_cannot_be_imported(url: str) -> None:
    allowed = Settings(home=Path("/srv/home"), storage_url="file:///srv/partitions", import_url="file:///srv/files")
    with pytest.raises(ValueError, match="import_url"):
        Settings(home=allowed.home, storage_url=allowed.storage_url, import_url=url)


def test_only_stewards_import_and_only_if_the_operator_allows_it(service: Service, shared: Service) -> None:
    assert register(service, "plain.csv", role="analyst").status_code == 403
    assert "PURSE_IMPORT_URL" in rule(register(shared, "plain.csv"))
    form = {"spec": (None, json.dumps(SPEC)), "path": (None, "plain.csv"), "file": ("a.csv", people(9))}
    both = service.call("steward", "POST", "/v1/datasets", files=form)
    assert (both.status_code, both.json()["code"]) == (422, "invalid_request")


def purse(service: Service) -> Client:
    """Return a client of the service in this process."""

    def forward(request: httpx.Request) -> httpx.Response:
        headers = {name: request.headers[name] for name in ("authorization", "content-type")}
        answer = service.client.request(request.method, request.url.path, headers=headers, content=request.read())
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

    return Client("http://testserver", STEWARD, transport=httpx.MockTransport(forward))


@pytest.mark.slow
def test_a_file_in_object_storage_is_registered_from_python(tmp_path: Path, make_service: MakeService) -> None:
    with bucket() as url:
        files, root = fs.FileSystem.from_uri(url)
        with files.open_output_stream(f"{root}/2026/people.csv") as target:
            target.write(people(60))
        with make_service(tmp_path / "home", import_url=url) as service, purse(service) as client:
            assert client.datasets.import_file("2026/people.csv", spec=SPEC).rows == 60
            for path in ("2026", "2026/people", "people.csv"):
                assert "no file" in rule(register(service, path))

            def replacing(_folder: Path) -> Any:
                with files.open_output_stream(f"{root}/2026/people.csv") as target:
                    target.write(people(60).replace(b"high", b"soon"))  # the size stays
                return mock.Mock(free=2**40)

            with mock.patch.object(shutil, "disk_usage", replacing):
                changed = register(service, "2026/people.csv", name="changed")
            assert (changed.status_code, changed.json()["code"]) == (422, "unreadable_file")
            assert "changed" in changed.json()["detail"]
    with make_service(tmp_path / "other", import_url=url) as service:  # the storage has stopped
        refused = register(service, "2026/people.csv")
        assert (refused.status_code, refused.json()["code"]) == (503, "storage_unavailable")
