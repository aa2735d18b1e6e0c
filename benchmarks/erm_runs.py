"""The runs of erm_revisited: a private method with a share of its default steps, on the first n rows of Covertype.

Every point is a whole run whose noise is calibrated for exactly its own answers: what one may have at that price, not
what a longer run looks like on its way. Seconds are CPU time of the run alone, without loading, calibration or optimum.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

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
"""The method that takes a share of the steps that its defaults take: all of them, untouched, at share 1."""


def by_steps(method: DpGd | DpAccMd) -> Variant:
    """The share of T."""

    def shorter(problem: Problem, privacy: Privacy, share: float) -> Method:
        steps = method.resolve(problem, privacy).steps
        return method if share == 1 else replace(method, steps=math.ceil(share * steps))

    return shorter


def by_epochs(method: DpSvrg) -> Variant:
    """The share of T m: fewer epochs, below one of them a shorter one. The batch follows by its default."""

    def shorter(problem: Problem, privacy: Privacy, share: float) -> Method:
        full = method.resolve(problem, privacy)
        epochs = max(1, round(share * full.epochs))
        inner_steps = math.ceil(share * full.epochs * full.inner_steps / epochs)
        return method if share == 1 else replace(method, epochs=epochs, inner_steps=inner_steps)

    return shorter


def by_doublings(method: DpSvrgPp) -> Variant:
    """The share of 2 m (2^T - 1): fewer doublings, below one of them shorter. The batch follows by its default."""

    def shorter(problem: Problem, privacy: Privacy, share: float) -> Method:
        full = method.resolve(problem, privacy)
        epochs = max(1, round(full.epochs + math.log2(share)))
        inner_steps = math.ceil(share * full.inner_steps * (2**full.epochs - 1) / (2**epochs - 1))
        return method if share == 1 else replace(method, epochs=epochs, inner_steps=inner_steps)

    return shorter


def twice_as_long(method: DpGd | DpSvrg) -> Variant:
    """Default step, and the steps that descend for 2 ln(1 + mu s) / mu where the default takes ln(1 + mu s) / mu.

    The first makes the start's part e^(-mu time) of the risk fall as 1/s^2, as the noise's does; the second as 1/s.
    """

    def longer(problem: Problem, privacy: Privacy, share: float) -> Method:
        if isinstance(method, DpGd):  # momentum: the time grows as the square of T
            full = method.resolve(problem, privacy)
            return replace(method, steps=math.ceil(share * full.steps * math.sqrt(2)), step=full.step)
        once = method.resolve(problem, privacy)
        steps = math.ceil(share * once.inner_steps * 2)
        return replace(method, epochs=once.epochs, inner_steps=steps, step=once.step)

    return longer


VARIANTS: dict[str, Variant] = {
    "dp_gd": by_steps(DpGd()),
    "dp_acc_md": by_steps(DpAccMd()),
    "dp_svrg": by_epochs(DpSvrg()),
    "dp_svrg_pp": by_doublings(DpSvrgPp()),
}
LONGER: dict[str, Variant] = {  # where mu > 0
    "dp_gd, 2 x time": twice_as_long(DpGd()),
    "dp_svrg, 2 x time": twice_as_long(DpSvrg()),
}


@dataclass(frozen=True, eq=False)
class Instance:
    """A problem, its data and its optimum."""

    problem: Problem
    data: Data
    best: Optimum

    def excess(self, w: NDArray[np.float64]) -> float:
        """Return F(w) + r(w) minus its certified minimum."""
        return objective(self.problem, rows_of(self.data), self.data.y, w) - self.best.value


def instance(split: Split, n: int, strength: float) -> Instance:
    """The first n rows, with (strength / 2) ||w||^2 or without a regularizer."""
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
    share: float
    passes: float
    risks: NDArray[np.float64]
    seconds: NDArray[np.float64]

    @property
    def risk(self) -> float:
        """The mean over the runs."""
        return float(np.mean(self.risks))

    @property
    def cpu(self) -> float:
        """The mean over the runs."""
        return float(np.mean(self.seconds))


def measure(name: str, one: Instance, privacy: Privacy, seeds: int, share: float = 1.0) -> Point:
    """A named variant at a share of its default steps."""
    return measured(name, (VARIANTS | LONGER)[name](one.problem, privacy, share), one, privacy, seeds, share)


def measured(name: str, method: Method, one: Instance, privacy: Privacy, seeds: int, share: float = 1.0) -> Point:
    """Return risks and CPU seconds of fresh runs of one method, whose noise has no seed."""
    problem = one.problem
    quote = plan(method, problem, privacy)
    risks = np.empty(seeds)
    seconds = np.empty(seeds)
    for i in range(seeds):
        start = time.process_time()
        w, *_ = run(quote.method, problem, one.data, quote.release)
        seconds[i] = time.process_time() - start
        risks[i] = one.excess(w)
    passes = quote.gradient_evaluations / problem.n
    return Point(name, problem.mu, problem.n, privacy.epsilon, share, passes, risks, seconds)
