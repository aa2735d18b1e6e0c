"""Evaluation: each record counts in one cell for every model, and a record that counts twice is caught."""

import math
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from accounting import Privacy
from accounting.divergences.gaussian import gauss_mu
from accounting.noise import Noise
from accounting.privacy import Unit
from solvers import Problem, count_bounds, plan
from solvers.columns import Columns
from solvers.data_access import inputs
from solvers.data_access.count_sums import PredictionCounts
from solvers.errors import Unsuitable
from solvers.losses import Logistic, Loss, Softmax, Squared
from solvers.problem import Vector
from solvers.solve import run
from solvers.statistics import Evaluation
from tests.support.coupled import complaints
from tests.support.runs import run_quote
from tests.support.seeded import SeededBits

N = 300
COLUMNS = Columns((1, 300, 1), ((-1.0, 1.0), (0.0, 1.0)))
RNG = np.random.default_rng(4)
X = np.column_stack(
    (RNG.uniform(-1, 1, N), np.eye(300)[RNG.integers(0, 300, N)], RNG.uniform(0, 1, N), np.ones(N))
)  # a code of two bytes
KINDS: dict[str, tuple[Loss, Vector]] = {
    "two": (Logistic(), np.where(RNG.random(N) < 0.3, 1.0, -1.0)),
    "three": (Softmax(3), RNG.integers(0, 3, N).astype(float)),
    "number": (Squared(), RNG.uniform(-1, 1, N)),
}


def problem_of(kind: str, **changes: Any) -> Problem:
    facts: dict[str, Any] = {"n": N, "d": COLUMNS.d, "row_norm": COLUMNS.row_norm, "columns": COLUMNS}
    return Problem(KINDS[kind][0], **facts | changes)


def weighted(kind: str, bins: int = 10, scale: float = 1.0) -> Evaluation:
    size = problem_of(kind).size
    return Evaluation(bins=bins, weights=tuple((scale * np.random.default_rng(1).normal(size=size)).tolist()))


def exact(kind: str, method: Evaluation, rows: Vector = X, y: Vector | None = None) -> Vector:
    """Return the counts, computed record by record."""
    problem, y = problem_of(kind), KINDS[kind][1] if y is None else y
    counts = np.zeros(method.size(problem))
    for x, target in zip(rows, y, strict=True):
        margins = np.array(method.weights).reshape(-1, problem.d) @ x
        if kind == "three":
            at = 3 * int(target) + int(np.argmax(margins))
        elif kind == "two":
            at = int(target > 0) * method.bins + min(method.bins - 1, int(method.bins / (1 + math.exp(-margins[0]))))
        else:
            residual = min(max(margins[0] - target, -method.clip), method.clip)
            at = min(method.bins - 1, int((residual / method.clip + 1) / 2 * method.bins))
        counts[at] += 1
    return counts


def far_record(kind: str) -> tuple[Vector, float]:
    row = np.zeros(COLUMNS.d)
    row[[0, 1, 301, -1]] = -1.0, 1.0, 1.0, 1.0
    return row, {"two": 1.0, "three": 2.0, "number": -1.0}[kind]


@pytest.mark.parametrize("kind", KINDS)
class TestEachKind:
    def test_it_counts_targets_by_the_prediction_of_the_model(self, kind: str) -> None:
        method, problem = weighted(kind), problem_of(kind)
        quote = plan(method, problem, Privacy(1.0, 1e-6))
        assert quote.release.plan.gdp() == pytest.approx(gauss_mu(1.0, 1e-6), rel=1e-6)
        data = inputs.of_arrays(X, KINDS[kind][1], problem)
        counts = data.total(PredictionCounts(np.array(method.weights).reshape(-1, problem.d), method.bins, method.clip))
        assert (counts == exact(kind, method)).all()
        answers, transcript, _ = run_quote(quote, data, 2)
        assert answers.shape == (method.size(problem),)
        assert transcript.covers(quote.release.plan)
        assert np.abs(answers - counts).max() < 7 * quote.noise_stds[0]

    @pytest.mark.parametrize("scale", [0.0, 1.0, 1e6, 1e300], ids=str)
    @pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
    def test_no_record_moves_the_counts_by_more_than_the_bound(self, kind: str, scale: float, relation: Any) -> None:
        """Also by models whose margins overflow."""
        problem = problem_of(kind, relation=relation)
        quote = plan(weighted(kind, scale=scale), problem, Privacy(1.0, 1e-6))
        sensitivity = {"replace_one": math.sqrt(2), "zero_out": 1.0}[relation]
        std = quote.release.plan.queries[0].noise_multiplier * sensitivity / (2 if relation == "replace_one" else 1)
        assert quote.noise_stds[0] == pytest.approx(std, rel=1e-4)  # and rounding
        if relation == "replace_one":
            assert complaints(quote, X, KINDS[kind][1], far_record(kind)) == []

    def test_a_persons_rows_count_for_one(self, kind: str) -> None:
        problem = problem_of(kind, n=N // 3, unit=Unit("person", 3))
        quote = plan(weighted(kind), problem, Privacy(1.0, 1e-6))
        assert quote.noise_stds == pytest.approx(plan(weighted(kind), problem_of(kind), Privacy(1.0, 1e-6)).noise_stds)
        row, y = far_record(kind)
        is_present = np.random.default_rng(2).random(N) < 0.7
        full, none = is_present.copy(), is_present.copy()
        full[21:24], none[21:24] = True, False
        for present in ((full, full), (none, full), (full, none)):
            assert complaints(quote, X, KINDS[kind][1], (np.tile(row, (3, 1)), np.full(3, y)), present) == []
        data = inputs.of_arrays(X, KINDS[kind][1], problem, is_present)
        method = quote.method
        assert isinstance(method, Evaluation)
        counts = data.total(PredictionCounts(np.array(method.weights).reshape(-1, problem.d), method.bins, method.clip))
        assert (counts == exact(kind, method, X[is_present], KINDS[kind][1][is_present])).all()

    def test_a_record_that_moves_two_others_is_caught(self, kind: str) -> None:
        """Mutants: bins whose order depends on a target, and half the sensitivity."""
        quote = plan(weighted(kind), problem_of(kind), Privacy(1.0, 1e-6))
        y, neighbor = KINDS[kind][1], far_record(kind)
        original = PredictionCounts.sum

        def shifted(self: PredictionCounts, data: Any, rows: Any) -> Any:
            return np.roll(original(self, data, rows), int(data.y[7] == neighbor[1]))

        with patch.object(PredictionCounts, "sum", shifted):
            assert complaints(quote, X, y, neighbor) != []
        halved = patch.object(count_bounds, "cells", lambda _: math.sqrt(1 / 2) / 2)
        with halved:
            assert complaints(quote, X, y, neighbor) != []


def test_a_forgotten_record_is_null_and_in_no_cell() -> None:
    """zero_out: an empty place adds nothing, and the counts of a person who is there lie on a unit ball."""
    problem = problem_of("two", n=N // 3, unit=Unit("person", 3), relation="zero_out")
    data = inputs.of_arrays(X, KINDS["two"][1], problem, np.zeros(N, dtype=bool))
    assert not data.total(PredictionCounts(np.ones((1, problem.d)), 10, 0.5)).any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bins": 3}, "bins must be even"),
        ({"bins": 258}, "bins must be even"),
        ({"clip": 0.0}, "clip in"),
        ({"clip": math.nan}, "clip in"),
        ({"weights": (1.0, 2.0)}, "weights do not fit"),
    ],
)
def test_invalid_settings_are_refused_before_a_quote(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(Unsuitable, match=message):
        plan(replace(weighted("two"), **changes), problem_of("two"), Privacy(1.0, 1e-6))


def test_many_classes_are_refused() -> None:
    with pytest.raises(Unsuitable, match="too many classes"):
        plan(Evaluation(), problem_of("three") and replace(problem_of("three"), loss=Softmax(257)), Privacy(1.0, 1e-6))


def test_a_model_that_is_not_finite_is_refused() -> None:
    problem = problem_of("two")
    quote = plan(weighted("two"), problem, Privacy(1.0, 1e-6))
    method = replace(weighted("two"), weights=(math.inf,) * problem.d)
    data = inputs.of_arrays(X, KINDS["two"][1], problem)
    with pytest.raises(Unsuitable, match="weights"):
        run(method, problem, data, quote.release, Noise(SeededBits(2)))
