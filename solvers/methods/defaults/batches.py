"""Default numbers of steps, batch sizes and step sizes of sampled methods; docs/proofs/dp_svrg.md has the reasons."""

import math
from typing import Literal

import numpy as np

from accounting.divergences.gaussian import gauss_mu
from accounting.mechanisms import PoissonGaussian
from accounting.privacy import Privacy
from solvers.errors import Unsuitable
from solvers.methods.checks import check_smooth
from solvers.methods.defaults.descent import answers_std, descent_time
from solvers.problem import Problem, Vector

Form = Literal["safeguarded", "centred", "printed"]
SNAPSHOT_SHARE = 0.25  # of mu^2
_TIME_SHARE = 0.4  # of the descent time of dp_gd, because plain steps average out less noise
_MOST_DEFAULT_STEPS = 5_000
_BATCH_FACTOR = 1.5  # keeps the noise multiplier near 3.5, where sampling costs 1.5 % of mu
_LEAST_BATCH = 100
_SAMPLING = 11  # 1 / (L (1 + 11/b)) is the paper's 1 / (12 L) at b = 1, and 1/L for large batches
_CENTRED_FACTOR = 3  # changes are centered if 3 d z^2 > b


def step_time(problem: Problem, privacy: Privacy) -> float:
    """Return the sum of all step sizes: 0.4 of `defaults.descent_time`."""
    return _TIME_SHARE * descent_time(problem, privacy)


def step_count(problem: Problem, time: float, step: float | None) -> float:
    """Return how many steps of the requested size, or of 1/L, sum to the time; at most 5000."""
    return min(time / (step or 1 / problem.L), _MOST_DEFAULT_STEPS)


def fill_batch(name: str, batch: int | None, problem: Problem, privacy: Privacy, total: int) -> int:
    """Return the batch size: as requested, or 1.5 n mu* / sqrt(total), at least 100 and at most n.

    Raises
    ------
    Unsuitable
        if the batch exceeds n.
    """
    if batch is None:
        size = _BATCH_FACTOR * 2 * problem.G / (answers_std(problem, privacy) * math.sqrt(total))
        return min(problem.n, max(_LEAST_BATCH, math.ceil(size)))
    if batch > problem.n:
        raise Unsuitable(f"{name}: batch must not exceed n = {problem.n}, the number of records")
    return batch


def fill_form(name: str, form: Form | None, problem: Problem, privacy: Privacy, batch: int, total: int) -> Form:
    """Return the form: as requested, or centered if 3 d z^2 > b and the loss has one margin, and otherwise safeguarded.

    z is the noise multiplier of `total` changes, in the limit of many. If 3 d z^2 > b, centering lowers the variance of
    the noise, z^2 d (L ||u|| / b)^2, by three quarters. That exceeds (L ||u|| / 2)^2 / b, the largest increase of the
    variance of the batch (docs/proofs/dp_svrg.md).

    Raises
    ------
    Unsuitable
        if form is 'centred' and the loss has several margins.
    """
    if form is not None:
        if form == "centred" and problem.outputs > 1:
            raise Unsuitable(f"{name}: form 'centred' needs a loss of one margin. Use form 'safeguarded'")
        return form
    if problem.outputs > 1:
        return "safeguarded"
    noise = limit_noise(problem, privacy, batch, total)
    return "centred" if _CENTRED_FACTOR * problem.d * noise**2 > batch else "safeguarded"


def limit_noise(problem: Problem, privacy: Privacy, batch: int, total: int) -> float:
    """Return z of `total` changes for their share of mu^2, in the limit of many; the planned multiplier is close."""
    share = (1 - SNAPSHOT_SHARE) * gauss_mu(privacy.epsilon, privacy.delta) ** 2 / total
    return PoissonGaussian(batch / problem.n).multiplier(share, problem.relation)


def fill_step(name: str, step: float | None, problem: Problem, batch: int, longest: float) -> float:
    """Return eta: as requested, or `longest`, but at most 1 / (L (1 + 11/b)).

    Raises
    ------
    Unsuitable
        if eta exceeds 1/L.
    """
    step = step or min(longest_step(problem, batch), longest)
    check_smooth(f"{name}: step", step, problem)
    return step


def longest_step(problem: Problem, batch: int) -> float:
    """Return 1 / (L (1 + 11/b)), the longest step that the variance of a batch allows."""
    return 1 / (problem.L * (1 + _SAMPLING / batch))


def barzilai_borwein(move: Vector, change: Vector, steps: int, smoothness: float) -> float | None:
    """Return ||move||^2 / (steps <move, change>), that is 1 / (steps times the curvature along the move).

    Exact gradients of a convex, L-smooth F have <move, change> >= 0 and ||change|| <= L ||move||. Noisy gradients that
    violate this say nothing about the curvature, and the result is None.
    """
    square = float(move @ move)
    product = float(move @ change)
    if not 0 < product < math.inf or not float(np.linalg.norm(change)) <= smoothness * math.sqrt(square):
        return None
    return square / (steps * product)
