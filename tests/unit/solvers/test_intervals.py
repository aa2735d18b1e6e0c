"""Intervals of coefficients, and their coverage of the minimizer without noise."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from accounting import Privacy
from accounting.noise import Noise
from solvers import Problem, plan
from solvers.data_access import inputs
from solvers.domains import L2Ball
from solvers.intervals import LEVEL, half_widths
from solvers.losses import Logistic
from solvers.methods import (
    AdaptiveGd,
    BootstrapReduction,
    DpGd,
    Localization,
    Method,
    ObjectivePerturbation,
    OutputPerturbation,
    PhasedSgd,
)
from solvers.preparation import AskedPreparation, ByProfile, Declared, Private
from solvers.preparation.private import FLOOR, framed
from solvers.problem import Vector
from solvers.regularizers import L2
from solvers.selection import Auto
from solvers.solve import PlannedRun, run
from tests.support.profiled import LAYOUT, PROFILE_MOMENTS, N, random_records
from tests.support.seeded import SeededBits

RIDGE = 0.5
PROBLEM = Problem(Logistic(), L2(RIDGE), n=N, d=LAYOUT.d, row_norm=LAYOUT.row_norm, columns=LAYOUT)
PRIVACY = Privacy(1.0, 1e-6)
RUNS = 160


def widths(quote: PlannedRun) -> Vector | None:
    return half_widths(quote.method, quote.problem, quote.release.plan, quote.preparation)


def minimizer(X: Vector, y: Vector) -> Vector:
    """Of the mean logistic loss with RIDGE, found by another's solver."""

    def value(w: Vector) -> tuple[float, Vector]:
        margins = y * (X @ w)
        slopes = -y / (1 + np.exp(margins))
        return float(np.logaddexp(0, -margins).mean() + RIDGE / 2 * w @ w), X.T @ slopes / len(y) + RIDGE * w

    return np.asarray(minimize(value, np.zeros(X.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-9}).x)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preparation", "noise"),
    [(Declared(), "gaussian"), (Declared(), "laplace"), (ByProfile(PROFILE_MOMENTS), "gaussian")],
)
def test_each_interval_covers_the_minimizer_without_noise_as_often_as_stated(
    preparation: AskedPreparation, noise: str
) -> None:
    """The share of runs whose interval covers a coefficient is within 4.5 stds of .95, and is not 1."""
    X, y = random_records()
    method = OutputPerturbation(steps=25, ridge=0.0, noise=noise)  # type: ignore[arg-type]
    quote = plan(method, PROBLEM, PRIVACY, preparation=preparation, slope_limit=1.0)
    if isinstance(preparation, ByProfile):
        frame = framed(PROBLEM, np.array(PROFILE_MOMENTS.center), PROFILE_MOMENTS.floored(FLOOR))
        Z = np.column_stack((frame.scale * (X[:, :-1] - frame.center), np.full(N, frame.constant)))
        Z /= np.maximum(1.0, np.linalg.norm(Z, axis=1, keepdims=True))
        truth = frame.raw(minimizer(Z, y)[None])[0]
    else:
        truth = minimizer(X, y)
    data, drawn = inputs.of_arrays(X, y, PROBLEM), Noise(SeededBits(7))
    models = [
        run(quote.method, PROBLEM, data, quote.release, drawn, preparation=quote.preparation)[0] for _ in range(RUNS)
    ]
    h = widths(quote)
    assert h is not None
    share = (np.abs(np.array(models) - truth) <= h).mean(axis=0)
    assert (share < 1).all()
    assert np.abs(share - LEVEL).max() <= 4.5 * math.sqrt(LEVEL * (1 - LEVEL) / RUNS)


def test_steps_that_end_before_the_minimizer_widen_them() -> None:
    short, long = (
        plan(OutputPerturbation(steps=steps, ridge=0.0), PROBLEM, PRIVACY, preparation=Declared()) for steps in (1, 400)
    )
    a, b = widths(short), widths(long)
    assert a is not None
    assert b is not None
    assert short.noise_stds == long.noise_stds
    assert (a > 2 * b).all()
    assert b == pytest.approx(np.full(LAYOUT.d, 1.959964 * long.noise_stds[0]), rel=1e-4)


@pytest.mark.parametrize(
    ("method", "preparation"),
    [
        (OutputPerturbation(), Private()),
        (OutputPerturbation(noise="laplace"), ByProfile(PROFILE_MOMENTS)),
        *(
            (method, Declared())
            for method in (DpGd(), ObjectivePerturbation(), Localization(), PhasedSgd(), BootstrapReduction())
        ),
        (AdaptiveGd(), None),
        (Auto(), None),
    ],
)
def test_models_of_an_unknown_law_have_no_intervals(
    method: Method | Auto, preparation: AskedPreparation | None
) -> None:
    assert widths(plan(method, PROBLEM, PRIVACY, preparation=preparation)) is None


def test_projected_models_have_no_intervals() -> None:
    problem = Problem(Logistic(), L2(RIDGE), L2Ball(2.0), n=N, d=4, row_norm=1.0)
    assert widths(plan(OutputPerturbation(), problem, PRIVACY, preparation=Declared())) is None
