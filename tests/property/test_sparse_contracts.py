"""Every method and statistic on sparse rows of declared columns, and on singles: within its bounds, and as on dense."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from accounting import Privacy
from solvers import Problem, plan
from solvers.columns import Columns
from solvers.data_access import inputs
from solvers.data_access.data import Data
from solvers.domains import Free, LinfBall
from solvers.errors import Unsuitable
from solvers.losses import Hinge, Logistic, Softmax, Squared
from solvers.methods import Method
from solvers.preparation import Declared
from solvers.problem import Vector
from solvers.regularizers import L2
from solvers.solve import PlannedRun
from solvers.statistics import AnyStatistic
from tests.support.coupled import MakeData, complaints_of_each
from tests.support.members import ANSWERING, PROMISES, every_method
from tests.support.runs import run_quote

N = 400
MIXED = Columns((1, 3, 1, 1), ((-1.0, 1.0), (0.0, 1.0), (-0.5, 1.0)))
PAIR, SINGLE = Columns((1, 1)), Columns((1,))
PROBLEMS = [
    Problem(loss, L2(0.05), n=N, d=MIXED.d, row_norm=MIXED.row_norm, columns=MIXED)
    for loss in (Logistic(), Squared(), Softmax(3))
]
PROBLEMS += [Problem(Squared(), L2(0.05), n=N, d=3, row_norm=PAIR.row_norm, columns=PAIR)]
PROBLEMS += [
    Problem(loss, L2(0.05), domain, n=N, d=2, row_norm=SINGLE.row_norm, columns=SINGLE)
    for loss in (Squared(), Hinge())
    for domain in (Free(), LinfBall(1.0))
]


def rows(problem: Problem) -> tuple[Vector, Vector]:
    """Half of the numbers are there, in their ranges; targets that follow them."""
    assert problem.columns is not None
    rng, columns, X = np.random.default_rng(8), problem.columns, np.zeros((N, problem.d))
    there = rng.random((N, columns.widths.count(1))) < 0.5
    X[:, :-1][:, columns.is_number] = rng.uniform(columns.low, columns.high, there.shape) * there
    if columns is MIXED:
        X[:, 1:4] = np.eye(3)[rng.integers(3, size=N)]
    X[:, -1] = 1.0
    return X, rng.integers(3, size=N).astype(float) if problem.outputs > 1 else np.sign(X[:, 0] - 0.1)


def replacement_row(problem: Problem, full: bool) -> Vector:
    """A record with all its entries, as far out as there are; or with none."""
    assert problem.columns is not None
    x, columns = np.zeros(problem.d), problem.columns
    if full:
        x[:-1][columns.is_number] = columns.low
        x[0] = -1.0
    if columns is MIXED:
        x[3 if full else 1] = 1.0
    x[-1] = 1.0
    return x


def sparse(X: Vector, y: Vector, problem: Problem, _: NDArray[np.bool_] | None = None) -> Data:
    return Data.coded(inputs.records(sp.csr_array(X), problem), y, problem)


def singles(X: Vector, y: Vector, problem: Problem, _: NDArray[np.bool_] | None = None) -> Data:
    """Round numbers towards 0 as the service stores them, because a range may end between two singles."""
    assert problem.columns is not None
    coded = inputs.folded(X, problem.columns)
    numbers = coded.numbers.astype(np.float32)
    beyond = np.abs(numbers) > np.abs(coded.numbers)
    return Data.coded(
        replace(coded, numbers=np.where(beyond, np.nextafter(numbers, np.float32(0)), numbers)), y, problem
    )


def quotes(method: Method | AnyStatistic) -> list[PlannedRun]:
    """Return the quotes of all accepted problems: of both promises, and of one of them with rows as declared."""
    all_quotes = []
    for i, problem in enumerate(PROBLEMS):
        for privacy, preparation in (*((privacy, None) for privacy in PROMISES), (PROMISES[i % 2], Declared())):
            try:
                all_quotes.append(plan(method, problem, privacy, preparation=preparation))
            except Unsuitable:
                continue
    assert all_quotes
    return all_quotes


@pytest.mark.slow
@pytest.mark.parametrize("storage", [sparse, singles])
@every_method
def test_replacing_a_record_moves_no_value_by_more_than_its_bound(
    method: Method | AnyStatistic, storage: MakeData
) -> None:
    for quote in quotes(method):
        X, y = rows(quote.problem)
        X[7], y[7] = replacement_row(quote.problem, True), 1.0
        replacements = [
            ((replacement_row(quote.problem, full), target), None) for full, target in ((True, 0.0), (False, 1.0))
        ]
        if quote.problem.outputs == 1:
            replacements = [
                ((replacement_row(quote.problem, False), -1.0), None),
                ((np.full(quote.problem.d, np.nan), 1.0), None),
            ]
        assert complaints_of_each(quote, X, y, replacements, make_data=storage) == []


@pytest.mark.slow
@every_method
def test_results_of_sparse_and_dense_rows_are_equal_up_to_rounding(method: Method | AnyStatistic) -> None:
    """With the same noise, only the order of additions differs; rounding is far below the noise."""
    for quote in quotes(method):
        X, y = rows(quote.problem)
        sparse_result, dense_result = (
            run_quote(quote, data, 5)[0]
            for data in (sparse(X, y, quote.problem), inputs.of_arrays(X, y, quote.problem))
        )
        assert np.linalg.norm(dense_result) > 0
        assert np.allclose(sparse_result, dense_result, rtol=1e-6, atol=1e-6 * float(np.abs(dense_result).max())), (
            quote.preparation
        )


def test_every_statistic_and_method_is_here() -> None:
    assert {type(method) for method in ANSWERING} == {*get_args(Method), *get_args(AnyStatistic)}
    assert Privacy(1.0, 1e-6) in PROMISES
