"""Populations for regression tables, and tables of them with seeded noise."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting import Privacy
from solvers import Problem, plan
from solvers.columns import Columns
from solvers.data_access import inputs
from solvers.inference import RegressionTable
from solvers.inference.coordinates import Stds
from solvers.inference.table import SolvedTable, Units, table
from solvers.losses import Logistic, Squared
from solvers.solve import PlannedRun
from tests.support.runs import run_quote

Vector = NDArray[np.float64]


def problem_of(columns: Columns, is_linear: bool, n: int, **facts: Any) -> Problem:
    """Return the problem of a table."""
    loss = Squared() if is_linear else Logistic()
    return Problem(loss, n=n, d=columns.d, row_norm=columns.row_norm, columns=columns, **facts)


def quiet(quote: PlannedRun) -> PlannedRun:
    """Return the quote with hardly any noise, which no accountant certified."""
    queries = tuple(replace(query, noise_multiplier=1e-3) for query in quote.release.plan.queries)
    return replace(quote, release=replace(quote.release, plan=replace(quote.release.plan, queries=queries)))


def table_of(
    quote: PlannedRun, X: Vector, y: Vector, seed: int = 1, present: NDArray[np.bool_] | None = None
) -> SolvedTable:
    """Return the table of a run with this noise.

    Parameters
    ----------
    X : rows without the constant
    """
    problem, numbers = quote.problem, columns_of(quote).widths.count(1)
    rows = np.column_stack((X, np.ones(len(X))))
    data = inputs.of_arrays(rows, y, problem, present)
    answers, *_ = run_quote(quote, data, seed)
    stds = Stds(problem, lambda query: quote.release.plan.query(query).noise_multiplier)
    return table(problem, quote.method, answers, stds, Units((0.0,) * numbers, (1.0,) * numbers))  # type: ignore[arg-type]


def columns_of(quote: PlannedRun) -> Columns:
    """Return the declared layout."""
    assert quote.problem.columns is not None
    return quote.problem.columns


def correlated(n: int, p: int, rng: np.random.Generator) -> Vector:
    """Return numbers with correlations .6, .36, ... of standard deviation 1/4, clamped to [-1, 1]."""
    e = rng.standard_normal((n, p))
    for j in range(1, p):
        e[:, j] = 0.6 * e[:, j - 1] + 0.8 * e[:, j]
    return np.asarray(np.clip(e / 4, -1, 1))


def slopes(p: int) -> Vector:
    """Return true coefficients; every fourth is 0."""
    return np.where(np.arange(p) % 4 == 3, 0.0, np.where(np.arange(p) % 2, 1.0, -1.4)) * 6 / p


def drawn(n: int, p: int, is_linear: bool, rng: np.random.Generator) -> tuple[Vector, Vector]:
    """Return rows and targets of a model with `slopes` and the intercept -.3, or -.1 for numbers."""
    X = correlated(n, p, rng)
    if is_linear:
        return X, np.clip(X @ slopes(p) / 8 - 0.1 + 0.2 * rng.standard_normal(n), -1, 1)
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(0.3 - X @ slopes(p))), 1.0, -1.0)


def drawn_counts(
    n: int, p: int, rng: np.random.Generator, mean: float = 1.0, overdispersion: float = 0.0
) -> tuple[Vector, Vector]:
    """Return rows and counts of a Poisson model with the coefficients `slopes` / 4 and the log mean count at 0.

    Parameters
    ----------
    overdispersion : variance of the factor that each row's mean is multiplied by
    """
    X = correlated(n, p, rng)
    means = mean * np.exp(X @ slopes(p) / 4)
    if overdispersion:
        means = means * rng.gamma(1 / overdispersion, overdispersion, n)
    return X, rng.poisson(means).astype(float)


def coded_counts(counts: Vector, largest: float) -> Vector:
    """Return counts in [0, largest] as coded targets."""
    return np.asarray(2 * np.clip(counts, 0, largest) / largest - 1)


def quoted(
    columns: Columns,
    is_linear: bool,
    n: int,
    epsilon: float = 2.0,
    largest_count: float | None = None,
    **facts: Any,
) -> PlannedRun:
    """Return the quote of a table at delta 1e-6."""
    method = RegressionTable(largest_count=largest_count)
    return plan(method, problem_of(columns, is_linear, n, **facts), Privacy(epsilon, 1e-6))
