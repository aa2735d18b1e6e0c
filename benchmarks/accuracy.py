"""Excess empirical risk and test accuracy of the untuned methods beside the non-private optimum."""

import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from accounting import Privacy
from benchmarks.datasets import Split, adult, covertype, protein
from solvers import Problem, plan, solve
from solvers.losses import Logistic, Squared
from solvers.methods import AdaptiveGd, DpAccMd, DpGd, DpSvrg, DpSvrgPp, Method
from solvers.methods.defaults.batches import Form
from solvers.methods.oracle.dp_svrg import DpSvrgRun
from solvers.methods.oracle.dp_svrg_pp import DpSvrgPpRun
from solvers.regularizers import L2

EPSILONS = (0.2, 0.5, 1.0)
DELTA = 1e-5
STRENGTH = 1e-4
METHODS: tuple[Method, ...] = (AdaptiveGd(), DpGd(), DpAccMd(), DpSvrg(), DpSvrgPp())


def report(seeds: int) -> None:
    """Print one table a dataset."""
    for load in (adult, lambda: covertype(settled=True)):
        split = load()
        if split is None:
            print("accuracy: BENCHMARK_DATA names no folder that holds the real datasets; nothing measured")
            return
        table(split, seeds, METHODS)


def centred(seeds: int) -> None:
    """Compare plain with centred changes of dp_svrg and dp_svrg_pp at the same plan, and print the rule's choice."""
    own = tuple((epsilon, None) for epsilon in (*EPSILONS, 4.0))
    sizes = tuple((epsilon, batch) for epsilon in EPSILONS for batch in (None, 300, 3000))
    for load, method, cases in (
        (adult, DpSvrg(), sizes),
        (adult, DpSvrgPp(), own[:-1]),
        (protein, DpSvrg(), (*own, (4.0, 100))),
        (protein, DpSvrgPp(), own),
    ):
        split = load()
        if split is None:
            print("centred: BENCHMARK_DATA names no folder that holds the real datasets; nothing measured")
            return
        _centred(split, method, cases, seeds)


def _centred(split: Split, method: DpSvrg | DpSvrgPp, cases: Sequence[tuple[float, int | None]], seeds: int) -> None:
    n, d = split.X.shape
    loss = Logistic() if set(np.unique(split.y)) == {-1.0, 1.0} else Squared()
    problem = Problem(loss, L2(STRENGTH), n=n, d=d, row_norm=split.row_norm, columns=split.columns)
    least = objective(problem, split, optimum(problem, split))
    print(
        f"\n{split.name}: n = {n}, d = {d}, {loss.name}, l2 {STRENGTH:g}, delta = {DELTA:g}, {seeds} runs a cell, "
        f"{method.name}"
    )
    print(f"{'epsilon':>8}{'batch':>8}{'z':>8}{'3 d z^2 / b':>13}{'plain':>22}{'centred':>22}  rule")
    for epsilon, batch in cases:
        privacy, cells = Privacy(epsilon, DELTA), []
        quote = plan(replace(method, batch=batch), problem, privacy)
        if not isinstance(quote.method, DpSvrgRun | DpSvrgPpRun):
            raise TypeError("a quote of either is one of their runs")
        z, size = quote.release.plan.query("change").noise_multiplier, quote.method.batch
        forms: tuple[Form, ...] = ("safeguarded", "centred")
        for form in forms:
            asked = replace(method, batch=batch, form=form)
            releases = [solve(asked, problem, split.X, split.y, privacy) for _ in range(seeds)]
            risks = [objective(problem, split, release.coefficients) - least for release in releases]
            cells.append(f"{np.mean(risks):.5f} +- {np.std(risks):.5f}")
        worth = 3 * quote.problem.d * z**2 / size
        print(f"{epsilon:>8g}{size:>8}{z:>8.2f}{worth:>13.2f}{cells[0]:>22}{cells[1]:>22}  {quote.method.form}")
        sys.stdout.flush()


def table(split: Split, seeds: int, methods: Sequence[Method]) -> None:
    """Print mean and standard deviation over fresh runs, whose noise has no seed."""
    n, d = split.X.shape
    problem = Problem(Logistic(), L2(STRENGTH), n=n, d=d, row_norm=split.row_norm, columns=split.columns)
    best = optimum(problem, split)
    least = objective(problem, split, best)
    print(
        f"\n{split.name}: n = {n}, d = {d}, logistic, l2 {STRENGTH:g}, delta = {DELTA:g}, {seeds} runs a cell, untuned"
    )
    print(f"{'method':<12}{'epsilon':>8}{'excess risk':>26}{'test accuracy':>22}{'gradients / n':>15}")
    print(f"{'optimum':<12}{'-':>8}{0:>26.5f}{accuracy(split, best):>22.4f}{'-':>15}")
    print(
        f"{'majority':<12}{'-':>8}{objective(problem, split, 0 * best) - least:>26.5f}{majority(split):>22.4f}{'-':>15}"
    )
    for method in methods:
        for epsilon in EPSILONS:
            risks, hits, evaluations = [], [], 0.0
            for _ in range(seeds):
                release = solve(method, problem, split.X, split.y, Privacy(epsilon, DELTA))
                risks.append(objective(problem, split, release.coefficients) - least)
                hits.append(accuracy(split, release.coefficients))
                evaluations = release.gradient_evaluations / n
            risk = f"{np.mean(risks):.5f} +- {np.std(risks):.5f}"
            hit = f"{np.mean(hits):.4f} +- {np.std(hits):.4f}"
            print(f"{method.name:<12}{epsilon:>8g}{risk:>26}{hit:>22}{evaluations:>15.1f}")
            sys.stdout.flush()


def optimum(problem: Problem, split: Split) -> NDArray[np.float64]:
    """The non-private minimizer, to a gradient norm of 1e-8."""

    def value_and_gradient(w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        slopes = problem.loss.slope(split.X @ w, split.y)
        return objective(problem, split, w), split.X.T @ slopes / problem.n + problem.mu * w

    found = minimize(
        value_and_gradient,
        np.zeros(problem.d),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 10_000, "gtol": 1e-8, "ftol": 1e-15},
    )
    return np.asarray(found.x)


def objective(problem: Problem, split: Split, w: NDArray[np.float64]) -> float:
    """Return F(w) + r(w) on the training rows."""
    return float(np.mean(problem.loss.value(split.X @ w, split.y))) + problem.regularizer.value(w)


def accuracy(split: Split, w: NDArray[np.float64]) -> float:
    """The share of rows kept out whose class the sign of the margin tells."""
    return float(np.mean(np.where(split.X_test @ w > 0, 1.0, -1.0) == split.y_test))


def majority(split: Split) -> float:
    """The share of the larger class among the rows kept out."""
    share = float(np.mean(split.y_test > 0))
    return max(share, 1 - share)
