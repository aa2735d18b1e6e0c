"""A dataset's records as partitions in a place that no machine need hold: object storage, or a shared folder.

Partition p holds records p GROUP .. (p + 1) GROUP - 1 of the file, in the same two matrices as a folder's
(`app.sources.matrix`), each with its checksum in a document that stays on the server. A place is a URL, file:///folder
or s3://bucket/prefix; what opens it takes credentials from its own environment, never from a job.
"""

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit, urlunsplit

import numpy as np
from pydantic import Field

from accounting.records.documents import canonical
from app.sources.errors import Away, Damaged
from app.sources.matrix import (
    CODES,
    NUMBERS,
    PARTITIONS,
    Floats,
    code_count,
    mapped,
    sync_folder,
)
from app.sources.spec import JobSpec
from purse.wire.base import Wire
from purse.wire.columns import Column
from solvers.bounds import GROUP
from solvers.data_access.data import Data
from solvers.data_access.rows import Coded
from solvers.problem import Vector

_STEP = 2**20  # bytes that are copied at a time


class Partition(Wire):
    """What is known of one."""

    rows: Annotated[int, Field(ge=1, le=GROUP, description="How many records it holds: GROUP, or the last one fewer.")]
    sha256: Annotated[str, Field(description="Of the SHA-256 of its numbers and that of its codes.")]


class Manifest(Wire):
    """Where a dataset's records are, and what they are: public facts and checksums."""

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
        """For each column 1, a number, or how many codes it has."""
        return tuple(code_count(column) for column in self.columns)

    @property
    def text(self) -> bytes:
        """The document as it is kept in the dataset's folder: canonical JSON."""
        return canonical(self.model_dump(mode="json"))

    @property
    def sha256(self) -> str:
        """The dataset's checksum."""
        return hashlib.sha256(self.text).hexdigest()


def read(folder: Path) -> Manifest | None:
    """The manifest of a dataset whose records are elsewhere; None of others, or if it is no such document."""
    try:
        return Manifest.model_validate_json((folder / PARTITIONS).read_bytes())
    except (OSError, ValueError):
        return None


def described(folder: Path) -> dict[str, Any] | None:
    """`read`, as a worker is told."""
    found = read(folder)
    return None if found is None else found.model_dump(mode="json")


def under(url: str, name: str) -> str:
    """A folder or prefix within another."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{name}"))


def moved(storage: "Storage", folder: Path, number: int, rows: int) -> Partition:
    """Move the files of one partition from a local folder to the storage; return its description."""
    sums = [storage.put(folder / name, _named(number, name)) for name in (NUMBERS, CODES)]
    for name in (NUMBERS, CODES):
        (folder / name).unlink()
    return Partition(rows=rows, sha256=_joined(sums))


def write(folder: Path, manifest: Manifest) -> None:
    """Write the manifest to the dataset's folder, durably."""
    with (folder / PARTITIONS).open("xb") as file:
        file.write(manifest.text)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(folder)


def cut(blocks: Iterable[Floats]) -> Iterator[tuple[int, Floats]]:
    """Yield the blocks, cut where a partition ends, each with the number of its partition."""
    at = 0
    for block in blocks:
        while len(block):
            piece = block[: GROUP - at % GROUP]
            yield at // GROUP, piece
            at, block = at + len(piece), block[len(piece) :]


def opened(manifest: Manifest, number: int, scratch: Path) -> Coded:
    """A partition's records, copied to the scratch disk in files that have no name any more when this returns.

    Raises
    ------
    Damaged
        if it is not there, or not what was stored.
    Away
        if the place cannot be reached.
    OSError
        if the disk is full.
    """
    storage, folder = Storage(manifest.place), Path(tempfile.mkdtemp(dir=scratch))
    try:
        sums = [storage.get(_named(number, name), folder / name) for name in (NUMBERS, CODES)]
        if _joined(sums) != manifest.partitions[number].sha256:
            raise Damaged("A partition is not what was stored.")
        return mapped(folder, manifest.widths)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def are_whole(folder: Path) -> bool:
    """Whether a dataset's partitions, if it has any, are all there and what was stored: reads them all."""
    manifest = read(folder)
    if manifest is None:
        return True
    storage = Storage(manifest.place)
    for number, partition in enumerate(manifest.partitions):
        try:
            sums = [storage.sha256(_named(number, name)) for name in (NUMBERS, CODES)]
        except (Away, Damaged):
            return False
        if _joined(sums) != partition.sha256:
            return False
    return True


def prepared(spec: JobSpec, manifest: Manifest, number: int, scratch: Path) -> Data:
    """A partition as a job's oracles sum over it, its records, targets and scales on the scratch disk."""
    rows, y = spec.design.read(opened(manifest, number, scratch), manifest.widths)
    data = Data.coded(rows, y, replace(spec.problem, n=manifest.partitions[number].rows), in_place=True)
    return replace(data, y=_spilled(data.y, scratch), scale=_spilled(data.scale, scratch))


def erase(folder: Path) -> None:
    """Deletes the records that a dataset's folder says to be elsewhere, if it does; again is as good as once.

    Raises
    ------
    Away
        if it cannot be done, or the folder does not say any more where they are: then it must not go either.
    """
    if (manifest := read(folder)) is not None:
        Storage(manifest.place).clear()
    elif (folder / PARTITIONS).exists():
        raise Away("Where the records are cannot be read any more.")


def _joined(sums: Sequence[bytes]) -> str:
    return hashlib.sha256(b"".join(sums)).hexdigest()


class Storage:
    """A folder or prefix, by its URL; a file system that Arrow knows."""

    def __init__(self, url: str) -> None:
        from pyarrow import fs  # late: Arrow

        self._files, self._path = fs.FileSystem.from_uri(url)
        self._is_local = isinstance(self._files, fs.LocalFileSystem)

    def put(self, file: Path, name: str) -> bytes:
        """Copies a file there, durably; its SHA-256."""
        sums = hashlib.sha256()
        with file.open("rb") as source, _reached():
            if self._is_local:
                Path(self._path).mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._files.open_output_stream(f"{self._path}/{name}") as target:
                while piece := source.read(_STEP):
                    sums.update(piece)
                    target.write(piece)
            if self._is_local:
                with open(f"{self._path}/{name}", "rb") as written:
                    os.fsync(written.fileno())
                sync_folder(Path(self._path))
        return sums.digest()

    def get(self, name: str, file: Path) -> bytes:
        """Copies a file from there; its SHA-256. Raises as `opened`."""
        sums = hashlib.sha256()
        with file.open("xb") as target:
            for piece in self.read(name):
                sums.update(piece)
                target.write(piece)
        return sums.digest()

    def sha256(self, name: str) -> bytes:
        """Of a file there; raises as `opened`."""
        sums = hashlib.sha256()
        for piece in self.read(name):
            sums.update(piece)
        return sums.digest()

    def read(self, name: str) -> Iterator[bytes]:
        """A file's bytes, some at a time; raises as `opened`."""
        try:
            with _reached(), self._files.open_input_stream(f"{self._path}/{name}") as source:
                while piece := source.read(_STEP):
                    yield piece
        except FileNotFoundError:
            raise Damaged("A partition is not there.") from None

    def clear(self) -> None:
        """Deletes all that is there."""
        from pyarrow import fs

        with _reached():
            if self._files.get_file_info(self._path).type != fs.FileType.NotFound:
                self._files.delete_dir(self._path)


@contextmanager
def _reached() -> Iterator[None]:
    """`Away` where the place cannot be reached; what is not there, and what is full, is as it is."""
    try:
        yield
    except OSError as error:
        if isinstance(error, FileNotFoundError) or error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise Away("Where the records are cannot be reached.") from None


def _named(number: int, name: str) -> str:
    return f"{number:08d}.{name}"


def _spilled(values: Vector, scratch: Path) -> Vector:
    """The same numbers in a file that has no name."""
    with tempfile.TemporaryFile(dir=scratch) as file:
        values.tofile(file)
        file.flush()
        found: Vector = np.require(np.memmap(file, values.dtype, "r", shape=values.shape), requirements=["C", "A", "E"])
    return found
