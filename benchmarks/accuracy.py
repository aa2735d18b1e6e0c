"""Excess empirical risk and test accuracy of the untuned methods beside the optimum without privacy."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from accounting import Privacy
from benchmarks.datasets import Split, adult, available, covertype, protein
from benchmarks.newton import objective
from benchmarks.references import DELTA, Reference, spread
from solvers import Problem, plan, solve
from solvers.losses import Squared
from solvers.methods import AdaptiveGd, DpAccMd, DpGd, DpSvrg, DpSvrgPp, Method
from solvers.methods.oracle.dp_svrg import DpSvrgRun
from solvers.methods.oracle.dp_svrg_pp import DpSvrgPpRun
from solvers.regularizers import L2

EPSILONS = (0.2, 0.5, 1.0)
STRENGTH = 1e-4
METHODS: tuple[Method, ...] = (AdaptiveGd(), DpGd(), DpAccMd(), DpSvrg(), DpSvrgPp())


def report(seeds: int) -> None:
    """Print a table for each dataset."""
    for split in available(adult, partial(covertype, settled=True)):
        reference = Reference.of(split, L2(STRENGTH))
        print(f"\n{_title(reference, seeds)}, untuned")
        print(f"{'method':<12}{'epsilon':>8}{'excess risk':>26}{'test accuracy':>22}{'gradients / n':>15}")
        zero, best = 0 * reference.optimum, reference.optimum
        print(f"{'optimum':<12}{'-':>8}{0:>26.5f}{reference.score(best):>22.4f}{'-':>15}")
        print(f"{'majority':<12}{'-':>8}{reference.excess(zero):>26.5f}{reference.trivial_score:>22.4f}{'-':>15}")
        for method in METHODS:
            for epsilon in EPSILONS:
                _measure(reference, method, epsilon, seeds)


def _measure(reference: Reference, method: Method, epsilon: float, seeds: int) -> None:
    split, problem = reference.split, reference.problem
    releases = [solve(method, problem, split.X, split.y, Privacy(epsilon, DELTA)) for _ in range(seeds)]
    risk = spread([reference.excess(release.coefficients) for release in releases])
    score = spread([reference.score(release.coefficients) for release in releases], 4)
    evaluations = releases[0].gradient_evaluations / problem.n
    print(f"{method.name:<12}{epsilon:>8g}{risk:>26}{score:>22}{evaluations:>15.1f}", flush=True)


def centred(seeds: int) -> None:
    """Compare plain with centred changes of dp_svrg and dp_svrg_pp at the same plan, and print the rule's choice."""
    own = tuple((epsilon, None) for epsilon in (*EPSILONS, 4.0))
    sizes = tuple((epsilon, batch) for epsilon in EPSILONS for batch in (None, 300, 3000))
    for split in available(adult):
        reference = Reference.of(split, L2(STRENGTH))
        _centred(reference, DpSvrg(), sizes, seeds)
        _centred(reference, DpSvrgPp(), own[:-1], seeds)
    for split in available(protein):
        reference = _penalized(split)
        _centred(reference, DpSvrg(), (*own, (4.0, 100)), seeds)
        _centred(reference, DpSvrgPp(), own, seeds)


def _centred(
    reference: Reference, method: DpSvrg | DpSvrgPp, cases: Sequence[tuple[float, int | None]], seeds: int
) -> None:
    problem = reference.problem
    print(f"\n{_title(reference, seeds)}, {method.name}")
    print(f"{'epsilon':>8}{'batch':>8}{'z':>8}{'3 d z^2 / b':>13}{'plain':>22}{'centred':>22}  rule")
    for epsilon, batch in cases:
        quote = plan(replace(method, batch=batch), problem, Privacy(epsilon, DELTA))
        if not isinstance(quote.method, DpSvrgRun | DpSvrgPpRun):
            raise TypeError(f"the plan of {method.name} has a run of another method")
        plain, centred = (
            spread(reference.excesses(replace(method, batch=batch, form=form), epsilon, seeds))
            for form in ("safeguarded", "centred")
        )
        z, size = quote.release.plan.query("change").noise_multiplier, quote.method.batch
        ratio = 3 * quote.problem.d * z**2 / size
        print(f"{epsilon:>8g}{size:>8}{z:>8.2f}{ratio:>13.2f}{plain:>22}{centred:>22}  {quote.method.form}", flush=True)


def _title(reference: Reference, seeds: int) -> str:
    problem = reference.problem
    return (
        f"{reference.split.name}: n = {problem.n}, d = {problem.d}, {problem.loss.name}, l2 {STRENGTH:g}, "
        f"delta = {DELTA:g}, {seeds} runs a cell"
    )


def _penalized(split: Split) -> Reference:
    """Return the squared problem with the penalty, and its minimizer, by L-BFGS to a gradient norm of 1e-8."""
    n, d = split.X.shape
    problem = Problem(Squared(), L2(STRENGTH), n=n, d=d, row_norm=split.row_norm, columns=split.columns)

    def value_and_gradient(w: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        slopes = problem.loss.slope(split.X @ w, split.y)
        return objective(problem, split.X, split.y, w), split.X.T @ slopes / n + problem.mu * w

    options = {"maxiter": 5000, "maxfun": 10_000, "gtol": 1e-8, "ftol": 1e-15}
    solution = minimize(value_and_gradient, np.zeros(d), jac=True, method="L-BFGS-B", options=options)
    return Reference(split, problem, np.asarray(solution.x))
