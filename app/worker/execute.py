"""One attempt of one job, in a straight line: open the data, run the method through the oracle, hand back its answer.

Runs on a worker. It has no database, no key and no setting; what it needs comes as JSON, what it says goes as JSON.
After the data is open, every failure is the same word: which one it was would be a look at the data.
"""

import errno
import json
import logging
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from accounting.records.codec import plan_to_json
from app.sources.matrix import checksum, held
from app.sources.spec import JobSpec
from app.wire.base import Wire
from app.worker.engine import DAMAGED, FAILED, FULL
from solvers.data_access.data import Data
from solvers.solve import run as solve


class Payload(Wire):
    """What a worker is told: where the data is, and the job."""

    folder: Annotated[str, Field(description="The dataset's folder, on a file system that the worker shares.")]
    scratch: Annotated[str, Field(description="A folder of this attempt's own; it goes when the attempt ends.")]
    checksum: Annotated[str | None, Field(description="SHA-256 of the stored values, if they have one.")]
    spec: Annotated[JobSpec, Field(description="The job, as it was charged.")]


def run(payload: str, on_answer: Callable[[int], None] | None = None) -> str:
    """`{"coefficients": [...], "transcript": {...}}`, or `FULL`, `DAMAGED` or `FAILED`; nothing is raised.

    Parameters
    ----------
    payload : JSON of `Payload`
    on_answer : called after each answer; may raise to stop the run. What it is called with stays on the worker
    """
    scratch: Path | None = None
    try:
        job = Payload.model_validate_json(payload)
        scratch = Path(job.scratch)
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        if job.checksum not in (None, checksum(Path(job.folder))):
            return DAMAGED
        return _run(job.spec, Path(job.folder), scratch, on_answer)
    except OSError as error:  # how much room an attempt needs is public
        return FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else FAILED
    except BaseException:
        return FAILED
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def _run(spec: JobSpec, folder: Path, scratch: Path, on_answer: Callable[[int], None] | None) -> str:
    rows, y = spec.design.load(folder, scratch)
    data = Data.coded(rows, y, spec.problem, held(folder))
    coefficients, transcript = solve(
        spec.method, spec.problem, data, spec.release_plan, on_answer=on_answer, preparation=spec.preparation
    )
    output = {"coefficients": coefficients.tolist(), "transcript": plan_to_json(transcript)}
    return json.dumps(output, allow_nan=False)


def quiet() -> None:
    """No log and no warning of a numeric library may tell of the data (an overflow in row 17, say)."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
