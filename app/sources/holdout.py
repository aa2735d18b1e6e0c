"""A part of the records that is kept out of all training: which ones, says a public rule on their positions.

Promise: whether a record is kept out is a function of its position, of n and of the share alone, so that neighbors
differ in one part. A person's position is that of docs/spec 20, a secret permutation. Proof: docs/proofs/evaluation.md.
"""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.sources.errors import Unreadable
from app.sources.ingest import Reading, stage, write_meta
from app.sources.matrix import CODES, NUMBERS, PRESENT, MatrixWriter, NumberWriter, open_coded, sync_folder
from app.sources.singles import ends
from purse.wire.columns import Column

MOST_PLACES = 2**26
"""The most rows, and the most places: what is kept of them in memory stays within some GB."""

_BLOCK = 2**16  # places that are written at a time


def kept_out_folder(folder: Path) -> Path:
    """Beside a dataset's folder, while it is being made."""
    return folder.with_name("kept_out")


def count(n: int, share: float) -> int:
    """How many of n are kept out: share n, rounded down, at least 1."""
    return max(1, int(n * share))


def kept_out(n: int, share: float) -> NDArray[np.bool_]:
    """(n,): the `count` positions whose `mixed` number is the least; `Unreadable` if a part would be empty."""
    if n < 2:
        raise Unreadable("A part can be kept out of two records or more.")
    found = np.zeros(n, dtype=np.bool_)
    found[np.argpartition(mixed(n), count(n, share) - 1)[: count(n, share)]] = True
    return found


def mixed(n: int) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64 (Steele, Lea and Flood 2014) of 1, ..., n times its increment: no two are alike."""
    z = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def ingest_parts(file: Path, reading: Reading, folder: Path, share: float) -> tuple[int, str]:
    """As `ingest`, in two parts; returns n, of both, and all rows' fingerprint. Memory: 50 bytes of each."""
    rows = folder.with_name("rows")
    n, known = stage(file, replace(reading, most_rows=min(reading.most_rows, MOST_PLACES)), rows)
    lay_out(rows, folder, np.arange(n)[:, None], reading.columns, share, None)
    shutil.rmtree(rows)
    return n, known


def lay_out(
    rows: Path, folder: Path, found: NDArray[np.int64], columns: Sequence[Column], share: float | None, k: int | None
) -> None:
    """Writes records in the places found for them; where a share is kept out, that beside, in `kept_out_folder`.

    Parameters
    ----------
    rows : where they are stored as the file has them
    found : (n, k), for each place of a record the row that it holds, -1 for none: zeros
    k : places of a person; None where records are rows
    """
    if share is None:
        _part(rows, folder, found, columns, k)
        return
    out = kept_out(len(found), share)
    _part(rows, folder, found[~out], columns, k)
    _part(rows, kept_out_folder(folder), found[out], columns, k)


def _part(rows: Path, folder: Path, found: NDArray[np.int64], columns: Sequence[Column], k: int | None) -> None:
    stored, n, found = open_coded(rows), len(found), found.ravel()
    folder.mkdir()
    with (
        NumberWriter(folder / NUMBERS, stored.numbers.shape[1], ends(columns)) as numbers,
        MatrixWriter(folder / CODES, stored.codes.shape[1], "|u1") as codes,
    ):
        for start in range(0, len(found), _BLOCK):
            some = found[start : start + _BLOCK]
            held, at = (some >= 0)[:, None].astype(np.uint8), np.maximum(some, 0)
            numbers.append(stored.numbers[at] * held)
            codes.append(stored.codes[at] * held)
    if k is not None:
        with MatrixWriter(folder / PRESENT, 1, "|u1") as present:
            present.append((found >= 0)[:, None].astype(np.uint8))
    write_meta(folder, columns, {"rows": n} if k is None else {"persons": n, "max_rows": k})
    sync_folder(folder)
