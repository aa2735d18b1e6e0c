"""Runs of what was quoted, and the way from a run back to a request."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

from pydantic import Field, TypeAdapter

from accounting.noise import Noise
from accounting.plan import Plan
from solvers.data_access.access import DataAccess
from solvers.data_access.data import Data
from solvers.data_access.partitioned import Partitioned
from solvers.methods import Method, Run
from solvers.problem import Vector
from solvers.solve import PlannedRun, ReleasedMeans, run
from tests.support.seeded import SeededBits

_METHOD: TypeAdapter[Method] = TypeAdapter(Annotated[Method, Field(discriminator="name")])


def as_method(run: Run) -> Method:
    """Return the method with all fields given, as a request may state it; its JSON is that of the run."""
    return _METHOD.validate_json(json.dumps(asdict(run)))


def access_to(data: Data, plan: Plan | None = None) -> DataAccess:
    """Return the access to the data that answers the plan's queries, or none, with seeded noise."""
    return DataAccess(data.problem, data, plan or Plan(()), Noise(SeededBits(1)))


def run_quote(
    quote: PlannedRun, data: Data | Partitioned, seed: int = 1, on_answer: Callable[[int], None] | None = None
) -> tuple[Vector, Plan, ReleasedMeans | None]:
    """Return the result, the transcript and the released means of what was quoted, with seeded noise."""
    noise = Noise(SeededBits(seed))
    return run(quote.method, quote.problem, data, quote.release, noise, on_answer, quote.preparation)
