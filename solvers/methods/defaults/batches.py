"""How many steps over how large batches, and how long they are; docs/proofs/dp_svrg.md has the reasons."""

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
_TIME = 0.4  # of dp_gd's: plain steps let less noise average out
_MOST_DEFAULT_STEPS = 5_000
_NOISY_ENOUGH = 1.5  # batches so large that the noise multiplier stays near 3.5, where sampling costs 1.5 % of mu
_LEAST_BATCH = 100
_SAMPLING = 11  # 1 / (L (1 + 11/b)): the paper's 1 / (12 L) at b = 1, 1/L as batches lose their variance


def step_time(problem: Problem, privacy: Privacy) -> float:
    """The sum of all step sizes: 0.4 of `defaults.descent_time`."""
    return _TIME * descent_time(problem, privacy)


def steps_wanted(problem: Problem, time: float, step: float | None) -> float:
    """How many steps of the given size, or of 1/L, spend the time; at most 5000."""
    return min(time / (step or 1 / problem.L), _MOST_DEFAULT_STEPS)


def fill_batch(name: str, batch: int | None, problem: Problem, privacy: Privacy, total: int) -> int:
    """b = 1.5 n mu* / sqrt(total) where it is open, at least 100 and at most n.

    Raises
    ------
    Unsuitable
        if the batch exceeds n.
    """
    if batch is None:
        wanted = _NOISY_ENOUGH * 2 * problem.G / (answers_std(problem, privacy) * math.sqrt(total))
        return min(problem.n, max(_LEAST_BATCH, math.ceil(wanted)))
    if batch > problem.n:
        raise Unsuitable(f"{name}: batch must not exceed n = {problem.n}")
    return batch


def fill_form(name: str, form: Form | None, problem: Problem, privacy: Privacy, batch: int, total: int) -> Form:
    """Centred where it is open, 3 d z^2 > b and the loss has one margin; z of `total` changes, in the limit of many.

    There the noise's variance, z^2 d (L ||u|| / b)^2, falls by three quarters, which is more than the most by which the
    batch's own rises, (L ||u|| / 2)^2 / b (docs/proofs/dp_svrg.md).

    Raises
    ------
    Unsuitable
        if changes are to be centred of a loss of several margins.
    """
    if form is not None:
        if form == "centred" and problem.outputs > 1:
            raise Unsuitable(f"{name}: form 'centred' needs a loss of one margin: use form 'safeguarded'")
        return form
    if problem.outputs > 1:
        return "safeguarded"
    return "centred" if 3 * problem.d * limit_noise(problem, privacy, batch, total) ** 2 > batch else "safeguarded"


def limit_noise(problem: Problem, privacy: Privacy, batch: int, total: int) -> float:
    """z of `total` changes for their share of mu^2, in the limit of many: what the plan's own is near."""
    share = (1 - SNAPSHOT_SHARE) * gauss_mu(privacy.epsilon, privacy.delta) ** 2 / total
    return PoissonGaussian(batch / problem.n).multiplier(share, problem.relation)


def fill_step(name: str, step: float | None, problem: Problem, batch: int, longest: float) -> float:
    """eta where it is open: `longest`, but at most 1 / (L (1 + 11/b)).

    Raises
    ------
    Unsuitable
        if it exceeds 1/L.
    """
    step = step or min(longest_step(problem, batch), longest)
    check_smooth(f"{name}: step", step, problem)
    return step


def longest_step(problem: Problem, batch: int) -> float:
    """1 / (L (1 + 11/b)): what a batch's variance bears."""
    return 1 / (problem.L * (1 + _SAMPLING / batch))


def barzilai_borwein(moved: Vector, change: Vector, steps: int, smoothness: float) -> float | None:
    """||moved||^2 / (steps <moved, change>): 1 / (steps times the curvature along the way); None where noise has it.

    Exact gradients of a convex, L-smooth F have <moved, change> >= 0 and ||change|| <= L ||moved||. Where the noisy
    ones have not, they tell nothing.
    """
    far, along = float(moved @ moved), float(moved @ change)
    if not 0 < along < math.inf or not float(np.linalg.norm(change)) <= smoothness * math.sqrt(far):
        return None
    return far / (steps * along)
