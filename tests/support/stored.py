"""What is stored of a dataset, as one matrix."""

from pathlib import Path

import numpy as np

from app.sources.matrix import Floats, decoded, open_coded, widths


def stored_matrix(folder: Path) -> Floats:
    """A row for each record, a column for each declared one: numbers as they are, categories as positions."""
    return np.concatenate(list(decoded(open_coded(folder, folder), widths(folder))))
