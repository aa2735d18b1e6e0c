"""One attempt of one job, in a straight line: open the data, run the method through the oracle, hand back its answer.

Runs on a worker. It has no database, no key and no setting; what it needs comes as JSON, what it says goes as JSON.
After the data is open, every failure is the same word: which one it was would be a look at the data.
"""

import errno
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from accounting.records.codec import plan_to_json, release_plan_from_json
from app.sources.design import Design
from app.sources.matrix import VALUES, checksum
from app.wire.base import Wire
from app.wire.datasets import DatasetSpec
from app.wire.jobs import JobRequest
from app.worker.engine import DAMAGED, FAILED, FULL
from solvers.data_access.data import Data
from solvers.losses import Loss
from solvers.methods import Run
from solvers.problem import Problem
from solvers.solve import run as solve


class Payload(Wire):
    """What a worker is told of a job: where the data is, and public facts."""

    folder: Annotated[str, Field(description="The dataset's folder, on a file system that the worker shares.")]
    scratch: Annotated[str, Field(description="A folder of this attempt's own; it goes when the attempt ends.")]
    rows: Annotated[int, Field(description="n, public.")]
    checksum: Annotated[str | None, Field(description="SHA-256 of the stored values, if they have one.")]
    spec: Annotated[DatasetSpec, Field(description="The dataset's declaration.")]
    request: Annotated[JobRequest, Field(description="The job as submitted.")]
    loss: Annotated[Annotated[Loss, Field(discriminator="name")], Field(description="The loss, resolved.")]
    method: Annotated[Annotated[Run, Field(discriminator="name")], Field(description="The method, resolved.")]
    release_plan: Annotated[dict[str, Any], Field(description="The queries with their noise, as charged.")]


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
        if job.checksum not in (None, checksum(Path(job.folder) / VALUES)):
            return DAMAGED
        return _run(job, scratch, on_answer)
    except OSError as error:  # how much room an attempt needs is public
        return FULL if error.errno in (errno.ENOSPC, errno.EDQUOT) else FAILED
    except BaseException:
        return FAILED
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def _run(job: Payload, scratch: Path, on_answer: Callable[[int], None] | None) -> str:
    design = Design.of(job.spec, job.request)
    problem = Problem(
        loss=job.loss,
        regularizer=job.request.regularizer,
        domain=job.request.domain,
        n=job.rows,
        d=design.d,
        row_norm=design.row_norm,
        columns=design.columns,
    )
    release = release_plan_from_json(job.release_plan)
    data = Data.of(*design.load(Path(job.folder), scratch), problem)
    coefficients, transcript = solve(job.method, problem, data, release, on_answer=on_answer)
    output = {"coefficients": coefficients.tolist(), "transcript": plan_to_json(transcript)}
    return json.dumps(output, allow_nan=False)
