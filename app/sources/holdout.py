"""Holdout sets: records that no model is trained on. A public rule on positions selects them.

Guarantee: whether a record is held out depends only on its position, n and the share, so that neighbors differ in one
of the two sets. A person's position is secret (docs/spec 20). Proof: docs/proofs/evaluation.md.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.sources.errors import Unreadable
from app.sources.matrix import (
    CODES,
    NUMBERS,
    PRESENT,
    MatrixWriter,
    NumberWriter,
    cut,
    mapped,
    open_coded,
    sync,
    widths,
    write_meta,
)
from app.sources.singles import ends
from purse.wire.columns import Column

MOST_SLOTS = 2**26
"""Largest number of rows, and of slots: their indices in memory take a few GB at most."""


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
    rows: Path, folder: Path, slots: NDArray[np.int64] | None, columns: Sequence[Column], share: float | None
) -> None:
    """Write records in their slots, with numbers as singles; if a share is held out, write it to `kept_out_folder`.

    Parameters
    ----------
    rows : folder of the records in the file's order
    slots : (n, k), for each slot of a person the row that it holds, -1 for an empty slot: zeros; None if records are
        rows
    """
    if share is None:
        _write(rows, folder, slots, columns, are_persons=slots is not None)
        return
    chosen = np.arange(len(open_coded(rows).numbers))[:, None] if slots is None else slots
    is_out = kept_out(len(chosen), share)
    _write(rows, folder, chosen[~is_out], columns, are_persons=slots is not None)
    _write(rows, kept_out_folder(folder), chosen[is_out], columns, are_persons=slots is not None)


def _write(
    rows: Path, folder: Path, slots: NDArray[np.int64] | None, columns: Sequence[Column], *, are_persons: bool
) -> None:
    """Write these slots; all rows in the file's order if None."""
    declared = widths(rows)
    within = ends(columns)
    stored = mapped(rows, declared)
    n, k = (len(stored.numbers), 1) if slots is None else slots.shape
    row_of_slot = None if slots is None else slots.ravel()
    folder.mkdir()
    with (
        NumberWriter(folder / NUMBERS, stored.numbers.shape[1], within) as numbers,
        MatrixWriter(folder / CODES, stored.codes.shape[1], "|u1") as codes,
    ):
        for part in cut(n * k, len(columns)):
            block = np.arange(part.start, min(part.stop, n)) if row_of_slot is None else row_of_slot[part]
            is_filled = (block >= 0)[:, None].astype(np.uint8)
            at = np.maximum(block, 0)
            stored = mapped(rows, declared)  # a new map each time frees the pages of the last
            numbers.append(stored.numbers[at] * is_filled)
            codes.append(stored.codes[at] * is_filled)
    if are_persons and row_of_slot is not None:
        with MatrixWriter(folder / PRESENT, 1, "|u1") as present:
            present.append((row_of_slot >= 0)[:, None].astype(np.uint8))
    write_meta(folder, columns, {"persons": n, "max_rows": k} if are_persons else {"rows": n})
    sync(folder)
