"""The stored records of a dataset, as one matrix."""

from pathlib import Path

from app.sources.matrix import Floats, decoded, open_coded, widths


def stored_matrix(folder: Path) -> Floats:
    """Return a row for each record and a column for each declared one: numbers as stored, categories as positions."""
    return decoded(open_coded(folder), widths(folder))
