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
    cut,
    mapped,
    open_coded,
    sync,
    widths,
    write_meta,
)
from app.sources.singles import ends, single
from app.sources.splitmix import mixed
from purse.wire.columns import Column

MOST_SLOTS = 2**26
"""Largest number of rows, and of slots: their indices in memory take a few GB at most."""


def holdout_folder(folder: Path) -> Path:
    """Return the folder of the holdout set, beside the dataset's folder while both are being stored."""
    return folder.with_name("kept_out")


def count(n: int, share: float) -> int:
    """Return the size of the holdout set of n records: share n, rounded down, at least 1."""
    return max(1, int(n * share))


def are_held_out(n: int, share: float) -> NDArray[np.bool_]:
    """Return whether each position is held out, (n,): the `count` positions with the smallest `splitmix` numbers.

    Raises
    ------
    Unreadable
        if one of the two sets would be empty.
    """
    if n < 2:
        raise Unreadable("The file has fewer than two records, too few for a holdout set. Leave out `holdout`.")
    is_out = np.zeros(n, dtype=np.bool_)
    is_out[np.argpartition(mixed(range(n)), count(n, share) - 1)[: count(n, share)]] = True
    return is_out


def lay_out(
    rows: Path, folder: Path, slots: NDArray[np.int64] | None, columns: Sequence[Column], share: float | None
) -> None:
    """Write records in their slots, with numbers as singles; if a share is held out, write it to `holdout_folder`.

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
    is_out = are_held_out(len(chosen), share)
    _write(rows, folder, chosen[~is_out], columns, are_persons=slots is not None)
    _write(rows, holdout_folder(folder), chosen[is_out], columns, are_persons=slots is not None)


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
        MatrixWriter(folder / NUMBERS, stored.numbers.shape[1], "<f4") as numbers,
        MatrixWriter(folder / CODES, stored.codes.shape[1], "|u1") as codes,
    ):
        for part in cut(n * k, len(columns)):
            block = np.arange(part.start, min(part.stop, n)) if row_of_slot is None else row_of_slot[part]
            is_filled = (block >= 0)[:, None].astype(np.uint8)
            at = np.maximum(block, 0)
            stored = mapped(rows, declared)  # a new map each time frees the pages of the last
            numbers.append(single(stored.numbers[at] * is_filled, within))
            codes.append(stored.codes[at] * is_filled)
    if are_persons and row_of_slot is not None:
        with MatrixWriter(folder / PRESENT, 1, "|u1") as present:
            present.append((row_of_slot >= 0)[:, None].astype(np.uint8))
    write_meta(folder, columns, {"persons": n, "max_rows": k} if are_persons else {"rows": n})
    sync(folder)
