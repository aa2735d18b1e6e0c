"""What is stored of a dataset, as one matrix."""

import json
import tempfile
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from app.sources.ingest import Reading, stage
from app.sources.matrix import CODES, META, NUMBERS, VALUES, Floats, decoded, open_coded, widths
from purse.wire.columns import Column


def stored_matrix(folder: Path) -> Floats:
    """A row for each record, a column for each declared one: numbers as they are, categories as positions."""
    return decoded(open_coded(folder, folder), widths(folder))


def as_stored_before(folder: Path, file: bytes, form: str) -> None:
    """The dataset of this file as earlier servers stored it: numbers as `doubles`, or `one` matrix of all."""
    columns = TypeAdapter(list[Column]).validate_python(json.loads((folder / META).read_text())["columns"])
    with tempfile.TemporaryDirectory() as scratch:
        upload, staged = Path(scratch, "upload"), Path(scratch, "staged")
        upload.write_bytes(file)
        stage(upload, Reading(columns), staged)
        if form == "doubles":
            np.save(folder / NUMBERS, np.load(staged / NUMBERS))
            return
        np.save(folder / VALUES, stored_matrix(staged))
    for name in (NUMBERS, CODES):
        (folder / name).unlink()
