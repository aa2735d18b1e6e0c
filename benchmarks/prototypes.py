"""Prototypes for adaptive_gd: other forms of slopes, with the same bound, noise, run and plan.

Rows are met here in the open: none of this is a mechanism of the product, but noise is what its plans say.
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize as descend
from scipy.special import expit, log_softmax

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.divergences.gaussian import gauss_epsilon, gauss_mu
from accounting.noise import Noise
from benchmarks.datasets import Split, california, cover_types, protein
from benchmarks.newton import minimize, objective
from benchmarks.trials import DELTA, mean, row, solver
from solvers import Problem, plan
from solvers.data_access import inputs
from solvers.data_access.standardised import StandardisedOracle
from solvers.frame import Frame
from solvers.losses import Logistic, Softmax, Squared
from solvers.methods import AdaptiveGd, DpGd
from solvers.preparation import ByProfile, moments
from solvers.solve import run

EPSILONS = (0.2, 0.5, 1.0, 4.0)
_NOISELESS = 100.0  # an epsilon at which noise is next to none: what is left is what the slopes lose
_ROWS = 20_000  # of Covertype
MOMENTS = {"means": 5.0, "spread": 1.0, "variances": 3.0}  # percent of mu^2, as adaptive_gd has them
_PEAK = 16 / (25 * math.sqrt(5))  # the largest t (1 - t^2)^2, at t = 1 / sqrt(5)

Vector = NDArray[np.float64]
Slopes = Callable[[Vector, Vector, Vector], Vector]
"""Slopes (n, K) from margins (n, K), y and the limit of each row's slope."""


def cut(margins: Vector, y: Vector, most: Vector) -> Vector:
    """The residual, cut to [-most, most]: as adaptive_gd has it."""
    return np.asarray(np.clip(margins[:, 0] - y, -most, most))[:, None]


def tukey(margins: Vector, y: Vector, most: Vector) -> Vector:
    """r (1 - (r/k)^2)^2 within k and 0 beyond, k such that its largest is `most`: of no convex loss."""
    share = (margins[:, 0] - y) * _PEAK / most
    return np.asarray(most / _PEAK * share * np.maximum(1 - share**2, 0) ** 2)[:, None]


def against(margins: Vector, y: Vector, most: Vector) -> Vector:
    """Of K logistic losses, each class against the rest, times a weight that is the same for every label."""
    p = expit(margins)
    longest = np.sqrt((p**2).sum(axis=1) + 1 - 2 * p.min(axis=1))
    p[np.arange(len(y)), y.astype(int)] -= 1
    return np.asarray(p * np.minimum(1, most / longest)[:, None])


def instead(split: Split, slopes: Slopes, share: float = 1.0) -> AbstractContextManager[Any]:
    """Within it `StandardisedOracle.gradient` has these slopes, of norm `share` of the limit over that of z, and noise
    as planned for that.
    """
    kept: list[tuple[Frame, Vector, Vector]] = []
    random = np.random.default_rng()

    def gradient(oracle: StandardisedOracle, query: str, w: Vector, frame: Frame, limit: float) -> Vector:
        if not kept or kept[0][0] is not frame:
            z = frame.rows(split.X)
            kept[:] = [(frame, z, np.linalg.norm(z, axis=1))]
        _, z, lengths = kept[0]
        t = slopes(z @ w.reshape(-1, z.shape[1]).T, split.y, share * limit / lengths)
        std = oracle.planned(query).noise_multiplier * share * limit / len(z)
        return np.asarray((t.T @ z).ravel() / len(z) + std * random.standard_normal(w.size))

    return mock.patch.object(StandardisedOracle, "gradient", gradient)


def redescending(seeds: int) -> None:
    """Residuals that fall back to 0 where they are large, beside those that are cut, at the same bound and at half."""
    for split in (california(), protein()):
        if split is None:
            print("redescending: BENCHMARK_DATA names no folder that holds the dataset")
        else:
            _redescending(split, seeds)


def _redescending(split: Split, seeds: int) -> None:
    problem = Problem(Squared(), n=len(split.y), d=split.X.shape[1], row_norm=split.row_norm, columns=split.columns)
    best = np.asarray(np.linalg.lstsq(split.X, split.y, rcond=None)[0])
    least, epsilons = objective(problem, split.X, split.y, best), (*EPSILONS, _NOISELESS)
    residuals = np.abs(split.y - split.X @ best)

    def risk(w: Vector) -> float:
        return objective(problem, split.X, split.y, w) - least

    def cells() -> list[str]:
        return [mean(solver(AdaptiveGd(), problem, split, epsilon), risk, seeds) for epsilon in epsilons]

    print(f"\n{split.name}: n = {problem.n}, d = {problem.d}, delta = {DELTA:g}, {seeds} runs a cell; excess risk")
    within = ", ".join(f"{np.quantile(residuals, share):.2f}" for share in (0.5, 0.9, 0.99))
    print(f"of w = 0: {risk(0 * best):.5f}; without noise a half, .9 and .99 of the residuals are below {within}")
    row("adaptive_gd, by its residuals' slopes", [f"eps {epsilon:g}" for epsilon in epsilons])
    row("  the product's: cut", cells())
    for label, slopes, share in (("cut", cut, 0.5), ("redescending", tukey, 1.0), ("redescending", tukey, 0.5)):
        with instead(split, slopes, share):
            row(f"  {label}{'' if share == 1 else f', {share:g} of the bound'}", cells())


def classes(seeds: int) -> None:
    """Compare softmax under one joint limit with two forms of each class against the rest, on seven classes."""
    split = cover_types(_ROWS)
    if split is None:
        print("classes: BENCHMARK_DATA names no folder that holds Covertype")
        return
    n, d = split.X.shape
    problem = Problem(Softmax(7), n=n, d=d, row_norm=split.row_norm, columns=split.columns)
    best = softmax_optimum(split)
    least = _risk(split, best, softmax_shares)
    print(f"\n{split.name}, seven classes: n = {n}, d = {d}, delta = {DELTA:g}, {seeds} runs a cell")
    print(f"without noise: softmax {_accuracy(split, best):.4f} of the rows kept out, ", end="")
    rest = np.array([minimize(*_one(problem, split, kind)).w for kind in range(7)])
    told = _risk(split, rest, rest_shares) - least
    print(f"each against the rest {_accuracy(split, rest):.4f}, its excess risk {told:.5f}")
    print("excess risk over softmax without noise; accuracy")
    row("", [f"eps {epsilon:g}" for epsilon in EPSILONS])
    for label, fit, shares in (
        ("adaptive_gd, softmax, a joint limit", AdaptiveGd(), softmax_shares),
        ("  each against the rest, a joint limit", against, rest_shares),
        ("  each against the rest, a budget each", None, rest_shares),
        ("dp_gd, softmax", DpGd(), softmax_shares),
    ):
        risks, hits = [], []
        for epsilon in EPSILONS:
            found = [_classes(fit, problem, split, epsilon) for _ in range(seeds)]
            values, scores = zip(*((_risk(split, W, shares) - least, _accuracy(split, W)) for W in found), strict=True)
            risks.append(f"{np.mean(values):.5f} +- {np.std(values):.5f}")
            hits.append(f"{np.mean(scores):.4f} +- {np.std(scores):.4f}")
        row(label, risks)
        row("", hits)


def _classes(fit: AdaptiveGd | DpGd | Slopes | None, problem: Problem, split: Split, epsilon: float) -> Vector:
    """Return the coefficients of one run for seven classes, (7, d)."""
    if fit is None:
        return _each(problem, split, epsilon)
    if isinstance(fit, AdaptiveGd | DpGd):
        return solver(fit, problem, split, epsilon)().reshape(7, -1)
    with instead(split, fit):
        return solver(AdaptiveGd(), problem, split, epsilon)().reshape(7, -1)


def _each(problem: Problem, split: Split, epsilon: float) -> Vector:
    """Run adaptive_gd seven times for a seventh of mu^2 each, minus the cost of the moments that all share."""
    mu = gauss_mu(epsilon, DELTA)
    share = sum(MOMENTS.values()) / 100
    first = Privacy(gauss_epsilon(mu * math.sqrt(share), DELTA), DELTA)
    each = Privacy(gauss_epsilon(mu * math.sqrt((1 - share) / 7), DELTA), DELTA)
    asked = calibrate(moments.queries(problem, **MOMENTS), first).plan
    data = inputs.of_arrays(split.X, split.y, problem)
    known = ByProfile(moments.answered(StandardisedOracle(problem, data, asked, Noise()), problem))
    found = []
    for kind in range(7):
        one, X, y = _one(problem, split, kind)
        quote = plan(AdaptiveGd(), one, each, preparation=known)
        rows = inputs.of_arrays(X, y, quote.problem)
        found.append(run(quote.method, quote.problem, rows, quote.release, preparation=quote.preparation)[0])
    return np.array(found)


def _one(problem: Problem, split: Split, kind: int) -> tuple[Problem, Vector, Vector]:
    """One class against the rest: the problem, X and y."""
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
    found = descend(
        value_and_gradient, np.zeros(z.shape[1] * targets.shape[1]), jac=True, method="L-BFGS-B", options=options
    )
    return frame.raw(np.asarray(found.x).reshape(-1, z.shape[1]))


def softmax_shares(margins: Vector) -> Vector:
    """Return ln p of each class."""
    return np.asarray(log_softmax(margins, axis=1))


def rest_shares(margins: Vector) -> Vector:
    """Return ln p, with p in proportion to each class's probability against the rest."""
    logs = -np.logaddexp(0, -margins)
    return np.asarray(logs - np.logaddexp.reduce(logs, axis=1)[:, None])


def _risk(split: Split, W: Vector, shares: Callable[[Vector], Vector]) -> float:
    return -float(np.mean(shares(split.X @ W.T)[np.arange(len(split.y)), split.y.astype(int)]))


def _accuracy(split: Split, W: Vector) -> float:
    return float(np.mean((split.X_test @ W.T).argmax(axis=1) == split.y_test))
