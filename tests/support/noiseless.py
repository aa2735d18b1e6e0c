"""Answers without noise, for tests of the values and bounds that oracles hand to their mechanisms."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from unittest.mock import patch

from accounting.mechanisms import SvrgStep
from accounting.plan import PlannedQuery
from solvers.data_access.meter import Meter
from solvers.problem import Vector


class ExactAnswer(NamedTuple):
    """A value to which no noise was added, and the per-record bound that would scale the noise."""

    value: Vector
    bound: float


@contextmanager
def noiseless() -> Iterator[list[ExactAnswer]]:
    """Add no noise to any answer, and yield the list of all answers. A printed step is the sum of its two parts."""
    answers: list[ExactAnswer] = []

    def perturb(_: Meter, planned: PlannedQuery, value: Vector, bound: float) -> Vector:
        answers.append(ExactAnswer(value.copy(), bound))
        return value.sum(axis=0) if isinstance(planned.mechanism, SvrgStep) else value

    with patch.object(Meter, "perturb", perturb):
        yield answers
