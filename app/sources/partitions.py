"""Records stored as partitions in object storage or a shared folder, so that no machine needs space for all of them.

Partition p holds records p GROUP .. (p + 1) GROUP - 1 of the file, in the same two matrices as a folder's
(`app.sources.matrix`). A manifest on the server states the checksum of each. A place is a URL, file:///folder or
s3://bucket/prefix. The reader takes credentials from its environment, never from a job.
"""

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit, urlunsplit

from pydantic import Field

from accounting.records.documents import canonical
from app.sources.design import load
from app.sources.errors import Damaged, StorageUnreachable
from app.sources.matrix import (
    CODES,
    NUMBERS,
    PARTITIONS,
    Floats,
    mapped,
    sync,
    write_durably,
)
from app.sources.spec import JobSpec
from purse.wire.base import Wire
from purse.wire.columns import Column
from solvers.bounds import GROUP
from solvers.data_access.data import Data
from solvers.data_access.rows import Coded

_COPY_BYTES = 2**20  # copied at a time


class Partition(Wire):
    """The description of one partition."""

    rows: Annotated[int, Field(ge=1, le=GROUP, description="Number of records: GROUP, fewer in the last one.")]
    sha256: Annotated[str, Field(description="SHA-256 of the two SHA-256 of its numbers and of its codes.")]


class Manifest(Wire):
    """The place, columns and checksums of a dataset's partitions."""

    format: Literal[1] = 1
    place: Annotated[str, Field(description="The URL of the dataset's own folder or prefix.")]
    columns: Annotated[list[Column], Field(description="As declared.")]
    partitions: Annotated[list[Partition], Field(min_length=1, description="In the file's order.")]

    @property
    def rows(self) -> int:
        """n."""
        return sum(partition.rows for partition in self.partitions)

    @property
    def widths(self) -> tuple[int, ...]:
        """For each column 1 if it is a number, else the number of its codes."""
        return tuple(column.code_count for column in self.columns)

    @property
    def text(self) -> bytes:
        """The document in the dataset's folder: canonical JSON."""
        return canonical(self.model_dump(mode="json"))

    @property
    def sha256(self) -> str:
        """The dataset's checksum."""
        return hashlib.sha256(self.text).hexdigest()


def read(folder: Path) -> Manifest | None:
    """Return the manifest in a dataset's folder, or None if there is none, or it cannot be read."""
    try:
        return Manifest.model_validate_json((folder / PARTITIONS).read_bytes())
    except (OSError, ValueError):
        return None


def described(folder: Path) -> dict[str, Any] | None:
    """Return `read` as JSON, for a worker."""
    manifest = read(folder)
    return None if manifest is None else manifest.model_dump(mode="json")


def under(url: str, name: str) -> str:
    """Return the URL of a folder or prefix within another."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{name}"))


def move(storage: "Storage", folder: Path, number: int, rows: int) -> Partition:
    """Move the files of one partition from a local folder to the storage; return its description."""
    sums = [storage.put(folder / name, _named(number, name)) for name in (NUMBERS, CODES)]
    for name in (NUMBERS, CODES):
        (folder / name).unlink()
    return Partition(rows=rows, sha256=_joined(sums))


def write(folder: Path, manifest: Manifest) -> None:
    """Write the manifest to the dataset's folder, durably."""
    write_durably(folder / PARTITIONS, manifest.text)
    sync(folder)


def cut(blocks: Iterable[Floats]) -> Iterator[tuple[int, Floats]]:
    """Yield the blocks, cut where a partition ends, each with the number of its partition."""
    at = 0
    for block in blocks:
        while len(block):
            piece = block[: GROUP - at % GROUP]
            yield at // GROUP, piece
            at += len(piece)
            block = block[len(piece) :]


def opened(manifest: Manifest, number: int, scratch: Path) -> Coded:
    """Copy a partition's records to the scratch disk, in files that have no name when this returns.

    Raises
    ------
    Damaged
        if it is missing or was changed.
    StorageUnreachable
        if the place cannot be reached.
    OSError
        if the disk is full.
    """
    storage = Storage(manifest.place)
    folder = Path(tempfile.mkdtemp(dir=scratch))
    try:
        sums = [storage.get(_named(number, name), folder / name) for name in (NUMBERS, CODES)]
        if _joined(sums) != manifest.partitions[number].sha256:
            raise Damaged("A partition was changed.")
        return mapped(folder, manifest.widths)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def are_whole(folder: Path) -> bool:
    """Return whether all partitions of a dataset, if it has any, are present and unchanged; reads all of them."""
    manifest = read(folder)
    if manifest is None:
        return True
    storage = Storage(manifest.place)
    for number, partition in enumerate(manifest.partitions):
        try:
            sums = [storage.get(_named(number, name)) for name in (NUMBERS, CODES)]
        except (StorageUnreachable, Damaged):
            return False
        if _joined(sums) != partition.sha256:
            return False
    return True


def prepared(spec: JobSpec, manifest: Manifest, number: int, scratch: Path) -> Data:
    """Return a partition as a job's oracles sum over it, with its records, targets and scales on the scratch disk."""
    problem = replace(spec.problem, n=manifest.partitions[number].rows)
    return load(spec.design, problem, opened(manifest, number, scratch), manifest.widths, scratch)


def erase(folder: Path) -> None:
    """Delete the partitions of a dataset, if it has any; may be repeated.

    Raises
    ------
    StorageUnreachable
        if they cannot be deleted, or the manifest cannot be read: then the folder must not be deleted either.
    """
    if (manifest := read(folder)) is not None:
        Storage(manifest.place).clear()
    elif (folder / PARTITIONS).exists():
        raise StorageUnreachable("The manifest of the partitions cannot be read.")


def _joined(sums: Sequence[bytes]) -> str:
    return hashlib.sha256(b"".join(sums)).hexdigest()


class Storage:
    """The file system and path of a URL."""

    def __init__(self, url: str) -> None:
        from pyarrow import fs  # late: Arrow

        self._files, self._path = fs.FileSystem.from_uri(url)
        self._is_local = isinstance(self._files, fs.LocalFileSystem)
        self._absent = fs.FileType.NotFound

    def put(self, file: Path, name: str) -> bytes:
        """Copy a file to the storage, durably; return its SHA-256."""
        sums = hashlib.sha256()
        with file.open("rb") as source, reached():
            if self._is_local:
                Path(self._path).mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._files.open_output_stream(f"{self._path}/{name}") as target:
                while piece := source.read(_COPY_BYTES):
                    sums.update(piece)
                    target.write(piece)
            if self._is_local:
                with open(f"{self._path}/{name}", "rb") as written:
                    os.fsync(written.fileno())
                sync(Path(self._path))
        return sums.digest()

    def get(self, name: str, copy: Path | None = None) -> bytes:
        """Return the SHA-256 of a stored file, and write its content to `copy` if given. Raise as `opened`."""
        sums = hashlib.sha256()
        with nullcontext() if copy is None else copy.open("xb") as target:
            for piece in self._read(name):
                sums.update(piece)
                if target is not None:
                    target.write(piece)
        return sums.digest()

    def _read(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a stored file in blocks. Raise as `opened`."""
        try:
            with reached(), self._files.open_input_stream(f"{self._path}/{name}") as source:
                while piece := source.read(_COPY_BYTES):
                    yield piece
        except FileNotFoundError:
            raise Damaged("A partition is missing.") from None

    def clear(self) -> None:
        """Delete everything in the place."""
        with reached():
            if self._files.get_file_info(self._path).type != self._absent:
                self._files.delete_dir(self._path)


@contextmanager
def reached() -> Iterator[None]:
    """Raise `StorageUnreachable` if the storage cannot be reached. Pass on errors of missing files and full disks."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FileNotFoundError) or error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise StorageUnreachable("The storage of the records cannot be reached.") from None


def _named(number: int, name: str) -> str:
    return f"{number:08d}.{name}"
