"""Records with a column for each feature of a model's terms, computed from stored records on a scratch disk.

Each stored record is mapped by itself, in blocks, and the result is stored in the form of every other column.
Proof: docs/proofs/encoding.md.
"""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from app.sources.matrix import CodedWriter, cut, mapped, stored_column
from app.sources.singles import ends
from purse.terms import Feature
from solvers.data_access.rows import Coded


def derived(stored: Coded, inputs: Mapping[str, tuple[int, int]], features: Sequence[Feature], scratch: Path) -> Coded:
    """Return the features of stored records, through memory maps of files that have no name when this returns.

    Parameters
    ----------
    inputs : position in the stored records and number of codes of each declared column that the features use, by name
    features : as `purse.terms.expand` returns them
    scratch : an existing folder
    """
    columns = [feature.column for feature in features]
    widths = [column.code_count for column in columns]
    folder = Path(tempfile.mkdtemp(dir=scratch))
    try:
        with CodedWriter(folder, widths, ends(columns)) as writer:
            for rows in cut(len(stored.numbers), len(inputs) + len(features)):
                own = {name: stored_column(stored, position, width, rows) for name, (position, width) in inputs.items()}
                writer.append(np.column_stack([feature.codes(own) for feature in features]))
        return mapped(folder, widths)
    finally:
        shutil.rmtree(folder)
