"""Prototypes for adaptive_gd: other forms of slopes, with the same bound, noise, run and plan.

The prototypes read the rows directly and are not mechanisms of the product. Their noise is that of its plans.
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize as scipy_minimize
from scipy.special import expit, log_softmax

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.divergences.gaussian import gauss_epsilon, gauss_mu
from accounting.noise import Noise
from benchmarks.datasets import Split, available, california, cover_types, protein
from benchmarks.newton import minimize
from benchmarks.references import DELTA, Reference, print_row, spread
from benchmarks.trials import print_title
from solvers import Problem, plan, solve
from solvers.data_access import inputs
from solvers.data_access.standardised import StandardisedOracle
from solvers.frame import Frame
from solvers.losses import Logistic, Softmax
from solvers.methods import AdaptiveGd, DpGd
from solvers.preparation import ByProfile, moments
from solvers.solve import run

EPSILONS = (0.2, 0.5, 1.0, 4.0)
_NOISELESS = 100.0  # an epsilon with hardly any noise: the excess is then a bias of the slopes
_ROWS = 20_000  # of Covertype
MOMENTS = {"means": 5.0, "spread": 1.0, "variances": 3.0}  # percent of mu^2, as adaptive_gd has them
_PEAK = 16 / (25 * math.sqrt(5))  # the largest t (1 - t^2)^2, at t = 1 / sqrt(5)

Vector = NDArray[np.float64]
Slopes = Callable[[Vector, Vector, Vector], Vector]
"""Slopes (n, K) from margins (n, K), y, and the bound of each row's slope."""


def clipped(margins: Vector, y: Vector, bounds: Vector) -> Vector:
    """Return the residual, clipped to [-bound, bound], as in adaptive_gd."""
    return np.asarray(np.clip(margins[:, 0] - y, -bounds, bounds))[:, None]


def tukey(margins: Vector, y: Vector, bounds: Vector) -> Vector:
    """Return r (1 - (r/k)^2)^2 within k and 0 beyond, k such that its largest is the bound; no convex loss has it."""
    share = (margins[:, 0] - y) * _PEAK / bounds
    return np.asarray(bounds / _PEAK * share * np.maximum(1 - share**2, 0) ** 2)[:, None]


def one_against_rest(margins: Vector, y: Vector, bounds: Vector) -> Vector:
    """Return the slopes of K logistic losses, one class against the rest, times a weight that no label changes."""
    p = expit(margins)
    longest = np.sqrt((p**2).sum(axis=1) + 1 - 2 * p.min(axis=1))
    p[np.arange(len(y)), y.astype(int)] -= 1
    return np.asarray(p * np.minimum(1, bounds / longest)[:, None])


def replaced_slopes(split: Split, slopes: Slopes, share: float = 1.0) -> AbstractContextManager[Any]:
    """Return a context in which `StandardisedOracle.gradient` has these slopes, and noise as planned for them.

    A slope's norm is at most `share` of the limit over the norm of z.
    """
    framed: list[tuple[Frame, Vector, Vector]] = []  # the last frame with its rows and their norms
    random = np.random.default_rng()

    def gradient(
        oracle: StandardisedOracle, query: str, w: Vector, frame: Frame, limit: float, _smoothing: float = 0.0
    ) -> Vector:
        if not framed or framed[0][0] is not frame:
            z = frame.rows(split.X)
            framed[:] = [(frame, z, np.linalg.norm(z, axis=1))]
        _, z, lengths = framed[0]
        t = slopes(z @ w.reshape(-1, z.shape[1]).T, split.y, share * limit / lengths)
        std = oracle.planned(query).noise_multiplier * share * limit / len(z)
        return np.asarray((t.T @ z).ravel() / len(z) + std * random.standard_normal(w.size))

    return mock.patch.object(StandardisedOracle, "gradient", gradient)


def redescending(seeds: int) -> None:
    """Compare slopes that fall back to 0 for large residuals with clipped ones, at the same bound and at half of it."""
    for split in available(california, protein):
        _redescending(Reference.of(split), seeds)


def _redescending(reference: Reference, seeds: int) -> None:
    split, epsilons = reference.split, (*EPSILONS, _NOISELESS)
    residuals = np.abs(split.y - split.X @ reference.optimum)
    print_title(reference, seeds)
    quantiles = ", ".join(f"{np.quantile(residuals, share):.2f}" for share in (0.5, 0.9, 0.99))
    zero = reference.excess(0 * reference.optimum)
    print(f"of w = 0: {zero:.5f}; without noise a half, .9 and .99 of the residuals are below {quantiles}")
    print_row("adaptive_gd, by its residuals' slopes", [f"eps {epsilon:g}" for epsilon in epsilons])

    def entries() -> list[str]:
        return [spread(reference.excesses(AdaptiveGd(), epsilon, seeds)) for epsilon in epsilons]

    print_row("  the product's: cut", entries())
    for label, slopes, share in (
        ("cut, 0.5 of the bound", clipped, 0.5),
        ("redescending", tukey, 1.0),
        ("redescending, 0.5 of the bound", tukey, 0.5),
    ):
        with replaced_slopes(split, slopes, share):
            print_row(f"  {label}", entries())


def classes(seeds: int) -> None:
    """Compare softmax under one joint limit with two forms of one-against-rest, on seven classes."""
    split = cover_types(_ROWS)
    n, d = split.X.shape
    problem = Problem(Softmax(7), n=n, d=d, row_norm=split.row_norm, columns=split.columns)
    best = softmax_optimum(split)
    least = _risk(split, best, softmax_shares)
    print(f"\n{split.name}, seven classes: n = {n}, d = {d}, delta = {DELTA:g}, {seeds} runs a cell")
    print(f"without noise: softmax {_accuracy(split, best):.4f} of the rows kept out, ", end="")
    separate = np.array([minimize(*_one_against_rest(problem, split, kind)).w for kind in range(7)])
    excess = _risk(split, separate, one_against_rest_shares) - least
    print(f"each against the rest {_accuracy(split, separate):.4f}, its excess risk {excess:.5f}")
    print("excess risk over softmax without noise; accuracy")
    print_row("", [f"eps {epsilon:g}" for epsilon in EPSILONS])

    def by(method: AdaptiveGd | DpGd) -> Callable[[float], Vector]:
        def fit(epsilon: float) -> Vector:
            return solve(method, problem, split.X, split.y, Privacy(epsilon, DELTA)).coefficients.reshape(7, -1)

        return fit

    def jointly_limited(epsilon: float) -> Vector:
        with replaced_slopes(split, one_against_rest):
            return by(AdaptiveGd())(epsilon)

    for label, fit, shares in (
        ("adaptive_gd, softmax, a joint limit", by(AdaptiveGd()), softmax_shares),
        ("  each against the rest, a joint limit", jointly_limited, one_against_rest_shares),
        ("  each against the rest, a budget each", partial(_separately, problem, split), one_against_rest_shares),
        ("dp_gd, softmax", by(DpGd()), softmax_shares),
    ):
        runs = [[fit(epsilon) for _ in range(seeds)] for epsilon in EPSILONS]
        print_row(label, [spread([_risk(split, W, shares) - least for W in cell]) for cell in runs])
        print_row("", [spread([_accuracy(split, W) for W in cell], 4) for cell in runs])


def _separately(problem: Problem, split: Split, epsilon: float) -> Vector:
    """Run adaptive_gd seven times for a seventh of mu^2 each, after the shared cost of the moments; return (7, d)."""
    mu = gauss_mu(epsilon, DELTA)
    share = sum(MOMENTS.values()) / 100
    for_moments = Privacy(gauss_epsilon(mu * math.sqrt(share), DELTA), DELTA)
    for_class = Privacy(gauss_epsilon(mu * math.sqrt((1 - share) / 7), DELTA), DELTA)
    release_plan = calibrate(moments.queries(problem, **MOMENTS), for_moments).plan
    oracle = StandardisedOracle(problem, inputs.of_arrays(split.X, split.y, problem), release_plan, Noise())
    profile = ByProfile(moments.answered(oracle, problem))
    models = []
    for kind in range(7):
        logistic, X, y = _one_against_rest(problem, split, kind)
        quote = plan(AdaptiveGd(), logistic, for_class, preparation=profile)
        rows = inputs.of_arrays(X, y, quote.problem)
        models.append(run(quote.method, quote.problem, rows, quote.release, preparation=quote.preparation)[0])
    return np.array(models)


def _one_against_rest(problem: Problem, split: Split, kind: int) -> tuple[Problem, Vector, Vector]:
    """Return the problem of one class against the other classes, its X and its y."""
    return replace(problem, loss=Logistic()), split.X, np.where(split.y == kind, 1.0, -1.0)


def softmax_optimum(split: Split) -> Vector:
    """Return the optimum, (K, d), by L-BFGS on standardized columns."""
    spread = split.X[:, :-1].std(axis=0)
    frame = Frame(split.X[:, :-1].mean(axis=0), 1 / np.where(spread > 0, spread, 1.0), 1.0)
    z = frame.rows(split.X)
    targets = np.eye(int(split.y.max()) + 1)[split.y.astype(int)]

    def value_and_gradient(w: Vector) -> tuple[float, Vector]:
        logs = log_softmax(z @ w.reshape(-1, z.shape[1]).T, axis=1)
        return -float((logs * targets).sum()) / len(z), ((np.exp(logs) - targets).T @ z).ravel() / len(z)

    options = {"maxiter": 3000, "maxfun": 4000, "gtol": 1e-6, "ftol": 1e-12}
    start = np.zeros(z.shape[1] * targets.shape[1])
    solution = scipy_minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options=options)
    return frame.raw(np.asarray(solution.x).reshape(-1, z.shape[1]))


def softmax_shares(margins: Vector) -> Vector:
    """Return ln p of each class."""
    return np.asarray(log_softmax(margins, axis=1))


def one_against_rest_shares(margins: Vector) -> Vector:
    """Return ln p, with p in proportion to each class's probability against the rest."""
    logs = -np.logaddexp(0, -margins)
    return np.asarray(logs - np.logaddexp.reduce(logs, axis=1)[:, None])


def _risk(split: Split, W: Vector, shares: Callable[[Vector], Vector]) -> float:
    return -float(np.mean(shares(split.X @ W.T)[np.arange(len(split.y)), split.y.astype(int)]))


def _accuracy(split: Split, W: Vector) -> float:
    return float(np.mean((split.X_test @ W.T).argmax(axis=1) == split.y_test))
