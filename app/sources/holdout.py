"""Holdout sets: records that no model is trained on. A public rule on positions selects them.

Guarantee: whether a record is held out depends only on its position, n and the share, so that neighbors differ in one
of the two sets. A person's position is secret (docs/spec 20). Proof: docs/proofs/evaluation.md.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.sources.errors import Unreadable
from app.sources.matrix import CODES, NUMBERS, PRESENT, MatrixWriter, NumberWriter, open_coded, sync_folder, write_meta
from app.sources.singles import ends
from purse.wire.columns import Column

MOST_SLOTS = 2**26
"""Largest number of rows, and of slots: their indices in memory take a few GB at most."""

_BLOCK_SLOTS = 2**16  # slots that are written at a time


def kept_out_folder(folder: Path) -> Path:
    """Return the folder of the holdout set, beside the dataset's folder while both are being stored."""
    return folder.with_name("kept_out")


def count(n: int, share: float) -> int:
    """Return the size of the holdout set of n records: share n, rounded down, at least 1."""
    return max(1, int(n * share))


def kept_out(n: int, share: float) -> NDArray[np.bool_]:
    """Return whether each position is held out, (n,): the `count` positions with the smallest `mixed` numbers.

    Raises
    ------
    Unreadable
        if one of the two sets would be empty.
    """
    if n < 2:
        raise Unreadable("A holdout set needs at least two records (with a unit, persons) in the file.")
    is_out = np.zeros(n, dtype=np.bool_)
    is_out[np.argpartition(mixed(n), count(n, share) - 1)[: count(n, share)]] = True
    return is_out


def mixed(n: int) -> NDArray[np.uint64]:
    """Return SplitMix64's finalizer (Steele, Lea and Flood 2014) of 1, ..., n times its increment: all are distinct."""
    z = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def lay_out(
    rows: Path, folder: Path, slots: NDArray[np.int64], columns: Sequence[Column], share: float | None, k: int | None
) -> None:
    """Write records in their slots; if a share is held out, write it to `kept_out_folder`.

    Parameters
    ----------
    rows : folder of the records in the file's order
    slots : (n, k), for each slot of a record the row that it holds, -1 for an empty slot: zeros
    k : slots of a person; None where records are rows
    """
    if share is None:
        _write(rows, folder, slots, columns, k)
        return
    is_out = kept_out(len(slots), share)
    _write(rows, folder, slots[~is_out], columns, k)
    _write(rows, kept_out_folder(folder), slots[is_out], columns, k)


def _write(rows: Path, folder: Path, slots: NDArray[np.int64], columns: Sequence[Column], k: int | None) -> None:
    stored, n, row_of_slot = open_coded(rows), len(slots), slots.ravel()
    folder.mkdir()
    with (
        NumberWriter(folder / NUMBERS, stored.numbers.shape[1], ends(columns)) as numbers,
        MatrixWriter(folder / CODES, stored.codes.shape[1], "|u1") as codes,
    ):
        for start in range(0, len(row_of_slot), _BLOCK_SLOTS):
            block = row_of_slot[start : start + _BLOCK_SLOTS]
            is_filled, at = (block >= 0)[:, None].astype(np.uint8), np.maximum(block, 0)
            numbers.append(stored.numbers[at] * is_filled)
            codes.append(stored.codes[at] * is_filled)
    if k is not None:
        with MatrixWriter(folder / PRESENT, 1, "|u1") as present:
            present.append((row_of_slot >= 0)[:, None].astype(np.uint8))
    write_meta(folder, columns, {"rows": n} if k is None else {"persons": n, "max_rows": k})
    sync_folder(folder)
