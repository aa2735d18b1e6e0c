"""One attempt of one job: open the data, run the method through the oracle, return its output.

This code runs on a worker, without a database, a key or a setting. Input and output are JSON. After the data are open,
every failure returns the same word, because the kind of failure may depend on the data.
"""

import errno
import json
import logging
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from accounting.records.codec import plan_to_json
from app.sources.design import Design, load
from app.sources.errors import Damaged, StorageUnreachable
from app.sources.matrix import checksum, filled_slots, open_coded, widths
from app.sources.partitions import Manifest, prepared
from app.sources.spec import JobSpec
from app.worker.engine import DAMAGED, FULL, RAISED, VANISHED, Folders
from purse.wire.base import Wire
from solvers import tuning
from solvers.data_access.data import Data
from solvers.data_access.partitioned import LocalPartitions, Partitioned, Partitions
from solvers.solve import ReleasedMeans
from solvers.solve import run as run_one
from solvers.trials import Tuning


class Payload(Wire):
    """The input of a worker: the location of the data, and the job. Both folders are paths on the server."""

    folder: Annotated[str, Field(description="The dataset's folder.")]
    scratch: Annotated[str, Field(description="A folder of this attempt alone, deleted when the attempt ends.")]
    checksum: Annotated[str | None, Field(description="SHA-256 of the stored values, if they have one.")]
    spec: Annotated[JobSpec, Field(description="The job, as it was charged.")]
    partitions: Annotated[Manifest | None, Field(description="Where the data is, if not in the folder.")] = None

    def at(self, folders: Folders) -> "Payload":
        """Return the payload with the paths of another machine."""
        folder, scratch = folders.of(self.folder, self.scratch)
        return self.model_copy(update={"folder": str(folder), "scratch": str(scratch)})

    @property
    def present_checksum(self) -> str:
        """Checksum that the stored values have now; of partitions, that of their manifest."""
        return checksum(Path(self.folder)) if self.partitions is None else self.partitions.sha256


class SumFailed(Exception):
    """A sum cannot be calculated; the word states why."""

    def __init__(self, word: str) -> None:
        self.word = word
        super().__init__()


Spread = Callable[[str, int], AbstractContextManager[Partitions]]
"""Function from a payload's JSON and the number of partitions to an object that sums over the partitions."""


def run(
    payload: str,
    on_answer: Callable[[int], None] | None = None,
    spread: Spread | None = None,
    folders: Folders = Folders(),  # noqa: B008, it is frozen
) -> str:
    """Return `{"coefficients": [...], "transcript": {...}}`, or a word of `app.worker.engine`; never raise.

    A run that standardised its rows privately adds `"means": {"values": [...], "noise_std": ...}`, as its oracle
    answered them.

    Parameters
    ----------
    payload : JSON of `Payload`
    on_answer : called after each answer; may raise to stop the run. Its argument stays on the worker
    spread : sums over partitions; this process does if None
    folders : folders of this machine, if they differ from the server's
    """
    scratch: Path | None = None
    try:
        job = Payload.model_validate_json(payload).at(folders)
        scratch = Path(job.scratch)
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        if job.checksum not in (None, job.present_checksum):
            return DAMAGED
        with _data(job, payload, scratch, spread) as data:
            return compute(job.spec, data, on_answer)
    except BaseException as error:
        return word_of(error)
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def word_of(error: BaseException) -> str:
    """Return the only word that is reported of an error; a full disk and missing or damaged files are public facts."""
    match error:
        case SumFailed():
            return error.word
        case Damaged():
            return DAMAGED
        case StorageUnreachable():
            return VANISHED
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return FULL
    return RAISED


@contextmanager
def _data(job: Payload, payload: str, scratch: Path, spread: Spread | None) -> Iterator[Data | Partitioned]:
    spec, manifest = job.spec, job.partitions
    if manifest is None:
        folder = Path(job.folder)
        yield load(spec.design, spec.problem, open_coded(folder), widths(folder), scratch, filled_slots(folder))
        return
    count = len(manifest.partitions)
    if manifest.rows != spec.problem.n:
        raise Damaged("The number of records differs from the registered one. Restore the file from a backup.")
    if spread is None:
        yield Partitioned(spec.problem, LocalPartitions([prepared(spec, manifest, i, scratch) for i in range(count)]))
        return
    with spread(payload, count) as partitions:
        yield Partitioned(spec.problem, partitions)


def compute(spec: JobSpec, data: Data | Partitioned, on_answer: Callable[[int], None] | None) -> str:
    """Return the output document of the job's solver on the data."""
    means: ReleasedMeans | None = None
    if isinstance(spec.method, Tuning) and isinstance(data, Data):
        coefficients, transcript, means = tuning.run(
            spec.method, spec.problem, data, spec.release_plan, on_answer=on_answer
        )
    else:
        coefficients, transcript, means = run_one(
            spec.method, spec.problem, data, spec.release_plan, on_answer=on_answer, preparation=spec.preparation
        )
    output = {"coefficients": coefficients.tolist(), "transcript": plan_to_json(transcript)}
    if means is not None and isinstance(spec.design, Design):
        output["means"] = {"values": means.values.tolist(), "noise_std": means.noise_std}
    return json.dumps(output, allow_nan=False)


def quiet() -> None:
    """Silence logs and warnings: those of numeric libraries may depend on the data (an overflow in row 17)."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
