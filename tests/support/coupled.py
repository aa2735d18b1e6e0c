"""Two neighbors run on the same answers and the same randomness: what may differ between them, and by how much."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from accounting.mechanisms import Exponential, SvrgStep
from accounting.noise import Noise
from accounting.plan import PlannedQuery
from accounting.privacy import sensitivity_factor
from solvers.data_access import frames, inputs
from solvers.data_access.data import Data
from solvers.data_access.meter import Meter
from solvers.frame import Frame
from solvers.problem import Problem, Vector
from solvers.solve import PlannedRun, run
from tests.support.seeded import SeededBits

OtherRecord = tuple[Vector, Vector | float]  # a row and its target, or what a person has in k places
MakeData = Callable[[Vector, Vector, Problem, NDArray[np.bool_] | None], Data]


def complaints(
    quote: PlannedRun,
    X: Vector,
    y: Vector,
    record: OtherRecord,
    present: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None,
) -> list[str]:
    """Return the complaints for one other record at position 7, as `complaints_of_each` does."""
    present_before, present_after = present or (None, None)
    return complaints_of_each(quote, X, y, [(record, present_after)], present_before)


def complaints_of_each(
    quote: PlannedRun,
    X: Vector,
    y: Vector,
    records: Sequence[tuple[OtherRecord, NDArray[np.bool_] | None]],
    present_before: NDArray[np.bool_] | None = None,
    make_data: MakeData = inputs.of_arrays,
) -> list[str]:
    """Return values before noise more than 2b apart (b under zero_out), and bounds, frames and results that differ.

    Record 7 is replaced by each of `records`, with the places that are then present. All runs get the same batches
    and the same answers: the values of the first run, on the unchanged data, plus noise. The published SVRG step
    releases two vectors: a batch's change, and a mean over all rows, which moves by b batch / n (half of it under
    zero_out). `make_data` stores the rows.
    """
    rng, faults = np.random.default_rng(6), []
    answers: list[tuple[str, Vector, float, Vector]] = []
    met: list[Frame] = []
    framed = frames.framed

    def recorded(data: Data, frame: Frame, row_norm: float) -> Data:
        met.append(frame)
        return framed(data, frame, row_norm)

    def first(_: Meter, planned: PlannedQuery, value: Vector, bound: float) -> Vector:
        std = planned.mechanism.std(planned.noise_multiplier, bound, value.size)
        whole = np.atleast_2d(value).sum(axis=0)
        answer = whole + rng.normal(scale=std, size=whole.shape)
        if isinstance(planned.mechanism, Exponential):  # which answers a position
            answer = np.zeros(1)
        answers.append((planned.name, value.copy(), bound, answer))
        return answer.copy()

    def again(_: Meter, planned: PlannedQuery, value: Vector, bound: float) -> Vector:
        name, value_before, stated, answer = next(replayed)
        if (planned.name, bound) != (name, stated):
            faults.append(f"{name}: its bound depends on the data")
        # objective_perturbation's "approximation" is of a minimizer that moves, at the price of its own mechanism
        largest_moves = [sensitivity_factor(problem.relation) * bound]
        if isinstance(planned.mechanism, SvrgStep):
            largest_moves.append(largest_moves[0] * planned.mechanism.batch / (2 * planned.mechanism.rows))
        norm = np.inf if isinstance(planned.mechanism, Exponential) else 2
        moved = np.linalg.norm(np.atleast_2d(value - value_before), norm, axis=1)
        if name != "approximation" and not (len(moved) == len(largest_moves) and (moved <= largest_moves).all()):
            faults.append(f"{name}: moved by more than its bound says")
        return answer.copy()

    problem, k = quote.problem, quote.problem.unit.slots
    at = slice(7 * k, 7 * k + k)

    def result_of(perturb: Callable[..., Vector], record: OtherRecord, present: NDArray[np.bool_] | None) -> Vector:
        mine, targets = X.copy(), y.copy()
        mine[at], targets[at] = record
        with patch.object(Meter, "perturb", perturb), patch.object(frames, "framed", recorded):
            data = make_data(mine, targets, problem, present)
            return run(quote.method, problem, data, quote.release, Noise(SeededBits(5)), preparation=quote.preparation)[
                0
            ]

    result = result_of(first, (X[at], y[at]), present_before)
    for record, present in records:
        replayed = iter(answers)
        if not np.array_equal(result, result_of(again, record, present)):
            faults.append("the result is no function of the answers")
    is_framed = quote.problem.columns is not None and quote.met.columns is None
    if len(met) != (1 + len(records)) * is_framed or any(
        not np.array_equal(getattr(a, part), getattr(b, part))
        for a, b in pairwise(met)
        for part in ("center", "scale", "constant")
    ):
        faults.append("the frame is no function of the answers")
    return faults
