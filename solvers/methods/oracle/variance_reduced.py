"""What dp_svrg and dp_svrg_pp share: sampled changes against an anchor, in either form, and their step sizes."""

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from accounting.mechanisms import Gaussian, PoissonGaussian, SvrgStep
from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.bounds import gradient_bound, sampled_bound
from solvers.doors import Oracle
from solvers.errors import Unsuitable
from solvers.methods.checks import check_smooth
from solvers.methods.run import Bounds
from solvers.methods.tuning import answers_std, descent_time
from solvers.problem import Problem, Vector

Form = Literal["safeguarded", "printed"]
StepRule = Literal["fixed", "barzilai_borwein"]

UNPROVEN = (
    "No bound with constants is proven for this method: the noise of a snapshot is shared by its epoch, where the "
    "theorems want fresh noise in every step."
)
_SNAPSHOT_SHARE = 0.25
_TOGETHER, _NUMBERS = 1_000, 1 << 18  # points, and their coordinates, between two reports of progress
_TIME = 0.4  # of dp_gd's: plain steps let less noise average out
_MOST_DEFAULT_STEPS = 5_000
_NOISY_ENOUGH = 1.5  # batches so large that the noise multiplier stays near 3.5, where sampling costs 1.5 % of mu
_LEAST_BATCH = 100
_SHORTEST = 0.25  # of the given step, for a Barzilai-Borwein step
_SAMPLING = 11  # 1 / (L (1 + 11/b)): the paper's 1 / (12 L) at b = 1, 1/L as batches lose their variance


def step_time(problem: Problem, privacy: Privacy) -> float:
    """The sum of all step sizes: 0.4 of `tuning.descent_time`."""
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


def check_forms(name: str, form: Form, step_rule: StepRule) -> None:
    """`Unsuitable` unless both are known and go together."""
    if form not in ("safeguarded", "printed"):
        raise Unsuitable(f"{name}: form is 'safeguarded' or 'printed'")
    if step_rule not in ("fixed", "barzilai_borwein"):
        raise Unsuitable(f"{name}: step_rule is 'fixed' or 'barzilai_borwein'")
    if form == "printed" and step_rule == "barzilai_borwein":
        raise Unsuitable(
            f"{name}: Barzilai-Borwein steps need released snapshots, and as published none is released (the paper's "
            "own take exact gradients, which is not private): use form 'safeguarded' or step_rule 'fixed'"
        )


def queries(problem: Problem, snapshots: int, changes: int, batch: int, form: Form) -> tuple[Query, ...]:
    """Safeguarded: snapshots over all rows, for a quarter of mu^2, and changes over Poisson batches of rate b / n.

    Printed: steps of exact snapshot and change over b of n rows together.
    """
    if form == "printed":
        return (Query("step", changes, SvrgStep(batch, problem.n)),)
    return (
        Query("snapshot", snapshots, Gaussian(), _SNAPSHOT_SHARE),
        Query("change", changes, PoissonGaussian(batch / problem.n), 1 - _SNAPSHOT_SHARE),
    )


def bounds(problem: Problem, batch: int, form: Form) -> Bounds:
    """Of a snapshot and of a batch's mean at its largest, or of a printed step."""
    if form == "printed":
        return {"step": (sampled_bound(problem, batch, 2 * problem.G), problem.size)}
    change = sampled_bound(problem, batch, problem.G)
    return {"snapshot": (gradient_bound(problem), problem.size), "change": (change, problem.size)}


class Estimates:
    """Private estimates of grad F near an anchor, and the step to take with them."""

    __slots__ = ("_anchor", "_form", "_longest", "_oracle", "_problem", "_rule", "_snapshot", "_step")

    def __init__(
        self, oracle: Oracle, problem: Problem, form: Form, step_rule: StepRule, step: float, batch: int
    ) -> None:
        self._oracle, self._problem, self._form, self._rule = oracle, problem, form, step_rule
        self._step, self._longest = step, max(step, longest_step(problem, batch))
        self._anchor: Vector | None = None
        self._snapshot: Vector | None = None

    def move(self, anchor: Vector, steps: int) -> float:
        """Begin an epoch of so many steps around the anchor, and return its step size."""
        if self._form == "printed":
            self._anchor = anchor
            return self._step
        snapshot, step = self._oracle.gradient("snapshot", anchor), self._step
        if self._rule == "barzilai_borwein" and self._anchor is not None and self._snapshot is not None:
            moved, change = anchor - self._anchor, snapshot - self._snapshot
            found = barzilai_borwein(moved, change, steps, self._problem.L)
            step = step if found is None else min(max(found, _SHORTEST * step), self._longest)
        self._anchor, self._snapshot = anchor, snapshot
        return step

    def walk(self, w: Vector, step: float, count: int) -> Iterator[NDArray[np.float64]]:
        """The `count` points after w in this epoch, some at a time, shape (k, d)."""
        if self._anchor is None:
            raise ValueError("there is no anchor yet")
        return walk(self._oracle, self._problem, w, self._anchor, self._snapshot, step, count)


def estimate(oracle: Oracle, problem: Problem, w: Vector, anchor: Vector, snapshot: Vector | None) -> Vector:
    """grad F(w), nearly: snapshot + sampled change while L ||w - anchor|| <= G, a sampled gradient beyond.

    Without a snapshot, as published: the exact one and the change, with one noise.
    """
    if snapshot is None:
        return oracle.printed_change("step", w, anchor)
    if problem.L * float(np.linalg.norm(w - anchor)) <= problem.G:
        return oracle.sampled_change("change", w, anchor) + snapshot
    return oracle.sampled_gradient("change", w)


def walk(
    oracle: Oracle, problem: Problem, w: Vector, anchor: Vector, snapshot: Vector | None, step: float, count: int
) -> Iterator[NDArray[np.float64]]:
    """The `count` points after w, some at a time, shape (k, d): w <- prox(w - step v), v as `estimate` has it."""
    most = max(1, min(_TOGETHER, _NUMBERS // problem.d))
    for done in range(0, count, most):
        wanted = min(most, count - done)
        points = None if snapshot is None else oracle.walk("change", w, anchor, snapshot, step, wanted)
        if points is None:
            points = np.empty((wanted, len(w)))
            for t in range(wanted):
                w = problem.prox(w - step * estimate(oracle, problem, w, anchor, snapshot), step)
                points[t] = w
        w = points[-1]
        yield points


def barzilai_borwein(moved: Vector, change: Vector, steps: int, smoothness: float) -> float | None:
    """||moved||^2 / (steps <moved, change>): 1 / (steps times the curvature along the way); None where noise has it.

    Exact gradients of a convex, L-smooth F have <moved, change> >= 0 and ||change|| <= L ||moved||. Where the noisy
    ones have not, they tell nothing.
    """
    far, along = float(moved @ moved), float(moved @ change)
    if not 0 < along < math.inf or not float(np.linalg.norm(change)) <= smoothness * math.sqrt(far):
        return None
    return far / (steps * along)
