"""The runs of erm_revisited: a private method with a share of its default steps, on the first n rows of Covertype.

Every point is a complete run, whose noise is calibrated for exactly its own answers. It is not an intermediate point of
a longer run. Seconds are CPU time of the run alone, without loading, calibration or optimum.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from accounting import Privacy
from benchmarks.datasets import Split
from benchmarks.newton import Optimum, minimize, objective
from solvers import Problem, plan
from solvers.data_access import inputs
from solvers.data_access.data import Data
from solvers.data_access.unfolded import rows_of
from solvers.losses import Logistic
from solvers.methods import DpAccMd, DpGd, DpSvrg, DpSvrgPp, Method
from solvers.regularizers import L2, NoRegularizer
from solvers.solve import run

Variant = Callable[[Problem, Privacy, float], Method]
"""The method with a share of the steps of its defaults; share 1 is the method at its defaults."""


def by_steps(method: DpGd | DpAccMd, problem: Problem, privacy: Privacy, share: float) -> Method:
    """Return the method with a share of T."""
    steps = method.resolve(problem, privacy).steps
    return method if share == 1 else replace(method, steps=math.ceil(share * steps))


def by_epochs(problem: Problem, privacy: Privacy, share: float) -> Method:
    """Return dp_svrg with a share of T m: fewer epochs, or one shorter epoch. The batch follows by its default."""
    full = DpSvrg().resolve(problem, privacy)
    epochs = max(1, round(share * full.epochs))
    inner_steps = math.ceil(share * full.epochs * full.inner_steps / epochs)
    return DpSvrg() if share == 1 else DpSvrg(epochs=epochs, inner_steps=inner_steps)


def by_doublings(problem: Problem, privacy: Privacy, share: float) -> Method:
    """Return dp_svrg_pp with a share of 2 m (2^T - 1): fewer doublings, or shorter ones. The batch follows."""
    full = DpSvrgPp().resolve(problem, privacy)
    epochs = max(1, round(full.epochs + math.log2(share)))
    inner_steps = math.ceil(share * full.inner_steps * (2**full.epochs - 1) / (2**epochs - 1))
    return DpSvrgPp() if share == 1 else DpSvrgPp(epochs=epochs, inner_steps=inner_steps)


def longer_gd(problem: Problem, privacy: Privacy, share: float) -> Method:
    """Return dp_gd with its default step, and steps that descend for 2 ln(1 + mu s) / mu instead of half of that.

    The start's part e^(-mu time) of the risk then falls as 1/s^2, as the noise's part does, and not as 1/s. Because of
    momentum, the time grows as the square of T.
    """
    full = DpGd().resolve(problem, privacy)
    return DpGd(steps=math.ceil(share * full.steps * math.sqrt(2)), step=full.step)


def longer_svrg(problem: Problem, privacy: Privacy, share: float) -> Method:
    """Return dp_svrg with its default step and twice its inner steps, for the reason of `longer_gd`."""
    full = DpSvrg().resolve(problem, privacy)
    return DpSvrg(epochs=full.epochs, inner_steps=math.ceil(share * full.inner_steps * 2), step=full.step)


VARIANTS: dict[str, Variant] = {
    "dp_gd": partial(by_steps, DpGd()),
    "dp_acc_md": partial(by_steps, DpAccMd()),
    "dp_svrg": by_epochs,
    "dp_svrg_pp": by_doublings,
}
LONGER: dict[str, Variant] = {"dp_gd, 2 x time": longer_gd, "dp_svrg, 2 x time": longer_svrg}
"""Variants for mu > 0."""


@dataclass(frozen=True, eq=False)
class Instance:
    """A problem, its data and its optimum."""

    problem: Problem
    data: Data
    best: Optimum

    def excess(self, w: NDArray[np.float64]) -> float:
        """Return F(w) + r(w) minus its certified minimum."""
        return objective(self.problem, rows_of(self.data), self.data.y, w) - self.best.value


def instance_of(split: Split, n: int, strength: float) -> Instance:
    """Return the problem on the first n rows, with (strength / 2) ||w||^2 or without a regularizer."""
    X, y = split.X[:n], split.y[:n]
    regularizer = L2(strength) if strength else NoRegularizer()
    problem = Problem(Logistic(), regularizer, n=n, d=X.shape[1], row_norm=split.row_norm)
    return Instance(problem, inputs.of_arrays(X, y, problem), minimize(problem, X, y))


@dataclass(frozen=True, eq=False)
class Point:
    """Runs of one method at one budget: expected gradient evaluations over n; per run, excess risk and CPU seconds."""

    name: str
    strength: float
    n: int
    epsilon: float
    passes: float
    risks: NDArray[np.float64]
    seconds: NDArray[np.float64]

    @property
    def risk(self) -> float:
        """Mean risk over the runs."""
        return float(np.mean(self.risks))

    @property
    def cpu(self) -> float:
        """Mean CPU seconds over the runs."""
        return float(np.mean(self.seconds))


def measure_variant(name: str, instance: Instance, privacy: Privacy, seeds: int, share: float = 1.0) -> Point:
    """Measure a named variant at a share of its default steps."""
    method = (VARIANTS | LONGER)[name](instance.problem, privacy, share)
    return measure(name, method, instance, privacy, seeds)


def measure(name: str, method: Method, instance: Instance, privacy: Privacy, seeds: int) -> Point:
    """Return risks and CPU seconds of several runs of one method."""
    problem = instance.problem
    quote = plan(method, problem, privacy)
    risks = np.empty(seeds)
    seconds = np.empty(seeds)
    for i in range(seeds):
        start = time.process_time()
        w, *_ = run(quote.method, problem, instance.data, quote.release)
        seconds[i] = time.process_time() - start
        risks[i] = instance.excess(w)
    passes = quote.gradient_evaluations / problem.n
    return Point(name, problem.mu, problem.n, privacy.epsilon, passes, risks, seconds)
