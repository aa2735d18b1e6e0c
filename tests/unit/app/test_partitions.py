"""Datasets as partitions in a folder or in object storage: what is stored, known again, checked and deleted."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import fs

from app.settings import Settings
from app.sources import ingest, partitions
from app.sources.errors import Damaged, StorageUnreachable
from app.sources.matrix import checksum, open_coded, stored_column
from app.sources.partitions import Storage, opened
from purse.wire.datasets import DatasetSpec
from tests.support import objects
from tests.support.service import SPEC, people

COLUMNS = DatasetSpec.model_validate_json(json.dumps(SPEC)).columns
READING = ingest.Reading(COLUMNS)
ROWS = 150


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "GROUP", 64)


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with objects.bucket() as url:
        yield url


@pytest.fixture(params=["folder", pytest.param("bucket", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    url = f"file://{tmp_path}/store" if request.param == "folder" else request.getfixturevalue("bucket")
    return partitions.under(url, f"ds_{os.urandom(4).hex()}")


def stored(tmp_path: Path, place: str) -> tuple[int, str, Path]:
    file = tmp_path / "people.csv"
    file.write_bytes(people(ROWS))
    folder = tmp_path / "parted"
    n, checksum_of_rows = ingest.store(file, READING, folder, ingest.Layout(place=place))
    return n, checksum_of_rows, folder


def test_partitions_contain_the_same_rows_as_a_single_folder(tmp_path: Path, place: str) -> None:
    n, checksum_of_rows, folder = stored(tmp_path, place)
    whole = tmp_path / "whole"
    stored_whole = ingest.store(tmp_path / "people.csv", READING, whole)
    assert stored_whole == (n, checksum_of_rows)  # the checksum does not depend on the layout
    assert n == ROWS
    assert [path.name for path in folder.iterdir()] == ["partitions.json"]
    manifest = partitions.read(folder)
    assert manifest is not None
    assert manifest.sha256 == checksum(folder)
    assert [part.rows for part in manifest.partitions] == [64, 64, 22]
    parts = [opened(manifest, i, tmp_path) for i in range(3)]
    single = open_coded(whole)
    assert {part.numbers.dtype for part in parts} == {single.numbers.dtype} == {np.dtype(np.float32)}
    assert np.array_equal(np.concatenate([part.numbers for part in parts]), single.numbers)
    assert np.array_equal(
        np.concatenate([stored_column(part, part.offsets[2], 3) for part in parts]),
        stored_column(single, single.offsets[2], 3),
    )
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "store") == ["parted", "people.csv", "whole"]


def test_opening_a_damaged_partition_reports_the_damage(tmp_path: Path, place: str) -> None:
    _, _, folder = stored(tmp_path, place)
    manifest = partitions.read(folder)
    assert manifest is not None
    files, path = fs.FileSystem.from_uri(place)
    with files.open_output_stream(f"{path}/00000001.codes.npy") as broken:
        broken.write(b"nothing")
    opened(manifest, 0, tmp_path)
    with pytest.raises(Damaged):
        opened(manifest, 1, tmp_path)
    files.delete_file(f"{path}/00000002.numbers.npy")
    with pytest.raises(Damaged):
        opened(manifest, 2, tmp_path)
    partitions.erase(folder)
    with pytest.raises(Damaged):
        opened(manifest, 0, tmp_path)
    partitions.erase(folder)


def test_a_failed_upload_leaves_no_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, original_put, calls = f"file://{tmp_path}/store/ds_0", Storage.put, []

    def full(self: Storage, *arguments: Any) -> bytes:
        calls.append(arguments)
        if len(calls) > 2:
            raise OSError("the disk is full")
        return original_put(self, *arguments)

    monkeypatch.setattr(Storage, "put", full)
    with pytest.raises(OSError, match="full"):
        stored(tmp_path, place)
    assert len(calls) == 3
    assert not (tmp_path / "store" / "ds_0").exists()


def test_bytes_moved_between_the_files_of_a_partition_are_damage(tmp_path: Path) -> None:
    _, _, folder = stored(tmp_path, f"file://{tmp_path}/store/ds_0")
    manifest = partitions.read(folder)
    assert manifest is not None
    numbers, codes = (tmp_path / "store" / "ds_0" / f"00000000.{name}" for name in ("numbers.npy", "codes.npy"))
    there = codes.read_bytes()
    numbers.write_bytes(numbers.read_bytes() + there[:8])
    codes.write_bytes(there[8:])
    with pytest.raises(Damaged):
        opened(manifest, 0, tmp_path)


def test_an_unavailable_place_is_not_reported_as_damage(tmp_path: Path) -> None:
    _, _, folder = stored(tmp_path, f"file://{tmp_path}/store/ds_0")
    manifest = partitions.read(folder)
    assert manifest is not None
    unavailable = manifest.model_copy(update={"place": f"file://{tmp_path}/people.csv"})  # not a folder
    with pytest.raises(StorageUnreachable):
        opened(unavailable, 0, tmp_path)


_MALFORMED = ("http://b/x", "file:///", "file://host/x", "file:///a b", "FILE:///a", "/tmp/x", "file:///a#b")


@pytest.mark.parametrize(
    "url", [*_MALFORMED, "s3://key:secret@b/x", "s3:///x", "s3://b:80/x", "s3://bu%63ket/x", "s3://"]
)
def test_a_place_is_a_folder_or_a_bucket_without_credentials(url: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="storage_url"):
        Settings(home=tmp_path, storage_url=url)


def test_places_lie_under_one_another() -> None:
    assert partitions.under("s3://b/p/?region=x", "ds_1") == "s3://b/p/ds_1?region=x"
    assert partitions.under("file:///data", "ds_1") == "file:///data/ds_1"
    assert partitions.under("s3://b", "ds_1") == "s3://b/ds_1"
