"""adaptive_gd on so few records that noise exceeds the signal, where it is no worse than a model of zeros."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting import Privacy
from accounting.noise import Noise
from accounting.privacy import Unit
from solvers import Problem, plan
from solvers.columns import Columns
from solvers.losses import Logistic, Loss, Softmax, Squared
from solvers.methods import AdaptiveGd
from solvers.methods.standardised.adaptive_gd import AdaptiveGdRun
from solvers.solve import data_of, run
from tests.support.seeded import SeededBits
from tests.support.standardised import LIMITED_LOSSES

Vector = NDArray[np.float64]
RUNS = 6
CELLS = [
    (100, 4, 0.1, Unit()),
    (100, 30, 0.5, Unit()),
    (2000, 30, 0.1, Unit()),
    (300, 8, 0.1, Unit("person", 3)),
]


def drawn(problem: Problem, rows: int, seed: int) -> tuple[Vector, Vector]:
    """Rows of numbers and of one block, and targets of which a linear model explains a half."""
    rng, size = np.random.default_rng(seed), (problem.d - 1) // 2
    X = np.column_stack(
        (np.clip(rng.normal(0.2, 0.3, (rows, size)), -1, 1), np.eye(size)[rng.choice(size, rows)], np.ones(rows))
    )
    spread = X[:, :-1].std(axis=0)
    signal = (X[:, :-1] - X[:, :-1].mean(axis=0)) @ (rng.normal(size=2 * size) / (spread * math.sqrt(2 * size)))
    if problem.loss.takes == "number":
        return X, np.clip(0.2 + 0.15 * (signal + rng.normal(size=rows)), -1, 1)
    y = np.where(rng.random(rows) < 1 / (1 + np.exp(-1.5 * signal - 0.5)), 1.0, -1.0)
    return X, np.maximum(y, 0.0) if problem.outputs > 1 else y


def risk(loss: Loss, X: Vector, y: Vector, w: Vector) -> float:
    margins = X @ w.reshape(-1, X.shape[1]).T
    return float(np.mean(loss.value(margins.T if loss.outputs > 1 else margins[:, 0], y)))


@pytest.mark.slow
@pytest.mark.parametrize("loss", LIMITED_LOSSES, ids=repr)
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_no_cell_is_worse_than_zeros(loss: Loss, cell: tuple[int, int, float, Unit]) -> None:
    """In the mean of several runs, up to a tenth of the risk and the error of the mean."""
    n, size, epsilon, unit = cell
    columns = Columns((*(1,) * (size // 2), size // 2))
    problem = Problem(loss, n=n, d=columns.d, row_norm=columns.row_norm, columns=columns, unit=unit)
    quote = plan(AdaptiveGd(steps=120), problem, Privacy(epsilon, 1e-5))
    excess = []
    for seed in range(RUNS):
        rows = n * unit.slots // 2 if unit.is_person else n
        X, y = drawn(problem, rows, seed)
        data = data_of(quote.problem, X, y, np.arange(rows) % n if unit.is_person else None)
        w, _, _ = run(
            quote.method, quote.problem, data, quote.release, Noise(SeededBits(seed)), preparation=quote.preparation
        )
        zero = risk(loss, X, y, 0 * w)
        excess.append((risk(loss, X, y, w) - zero) / max(zero, 0.2))  # zeros are almost best for one of the losses
    assert np.mean(excess) < 0.1 + 2 * np.std(excess) / math.sqrt(RUNS)
    assert max(excess) < 3.0


@pytest.mark.parametrize(("loss", "threshold"), [(Logistic(), 1.0), (Softmax(3), 1.0), (Squared(), 4.0)], ids=str)
@pytest.mark.parametrize("times", [0.9, 1.1])
def test_below_the_least_signal_the_model_is_a_constant(loss: Loss, threshold: float, times: float) -> None:
    columns, privacy = Columns((1, 1)), Privacy(0.5, 1e-5)

    def case(n: int) -> Problem:
        return Problem(loss, n=n, d=3, row_norm=columns.row_norm, columns=columns)

    def signal(n: int) -> float:
        quote = plan(AdaptiveGd(steps=50), case(n), privacy)
        assert isinstance(quote.method, AdaptiveGdRun)
        return quote.method.signal(case(n), quote.release.plan.query("gradient").noise_multiplier)

    n = math.ceil(times * threshold / signal(1000) * 1000)
    quote = plan(AdaptiveGd(steps=50), case(n), privacy)
    assert isinstance(quote.method, AdaptiveGdRun)
    is_constant = quote.method.is_constant(case(n), quote.release.plan.query("gradient").noise_multiplier)
    assert is_constant == (times < 1)
    rng = np.random.default_rng(1)
    X = np.column_stack((rng.uniform(-1, 1, (n, 2)), np.ones(n)))
    y = np.maximum(np.sign(X[:, 0]), 0.0) if loss.outputs > 1 else np.sign(X[:, 0])
    data = data_of(quote.problem, X, y)
    w, _, _ = run(quote.method, quote.problem, data, quote.release, Noise(SeededBits(3)), preparation=quote.preparation)
    slopes = w.reshape(-1, 3)[:, :-1]
    assert bool((slopes == 0).all()) == is_constant
