"""What dp_svrg and dp_svrg_pp share: sampled changes against an anchor, in either form, and their step sizes."""

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from accounting.mechanisms import Gaussian, PoissonGaussian, SvrgStep
from accounting.plan import Query
from solvers.bounds import gradient_bound, printed_bound, sampled_bound
from solvers.methods.defaults.batches import SNAPSHOT_SHARE, Form, barzilai_borwein, longest_step
from solvers.methods.run import Bounds
from solvers.oracles import Sampled
from solvers.problem import Problem, Vector

StepRule = Literal["fixed", "barzilai_borwein"]

UNPROVEN = (
    "No bound with constants is proven for this method: the noise of a snapshot is shared by its epoch, where the "
    "theorems want fresh noise in every step."
)
_TOGETHER, _NUMBERS = 1_000, 1 << 18  # points, and their coordinates, between two reports of progress
_SHORTEST = 0.25  # of the given step, for a Barzilai-Borwein step


def queries(problem: Problem, snapshots: int, changes: int, batch: int, form: Form) -> tuple[Query, ...]:
    """Snapshots over all rows, for a quarter of mu^2, and changes, centred or not, over Poisson batches of rate b / n.

    Printed: steps of exact snapshot and change over b of n rows together.
    """
    if form == "printed":
        return (Query("step", changes, SvrgStep(batch, problem.n)),)
    return (
        Query("snapshot", snapshots, Gaussian(), SNAPSHOT_SHARE),
        Query("change", changes, PoissonGaussian(batch / problem.n), 1 - SNAPSHOT_SHARE),
    )


def bounds(problem: Problem, batch: int, form: Form) -> Bounds:
    """What a record adds to a snapshot and to a batch's mean at most, or to a printed step, and the coordinates."""
    if form == "printed":
        return {"step": (printed_bound(problem, batch), problem.size)}
    change = sampled_bound(problem, batch, problem.G)
    return {"snapshot": (gradient_bound(problem), problem.size), "change": (change, problem.size)}


class Estimates:
    """Private estimates of grad F near an anchor, and the step to take with them."""

    __slots__ = ("_anchor", "_form", "_longest", "_oracle", "_problem", "_rule", "_snapshot", "_step")

    def __init__(
        self, oracle: Sampled, problem: Problem, form: Form, step_rule: StepRule, step: float, batch: int
    ) -> None:
        self._oracle, self._problem, self._form, self._rule = oracle, problem, form, step_rule
        self._step, self._longest = step, max(step, longest_step(problem, batch))
        self._anchor: Vector = problem.start
        self._snapshot: Vector | None = None

    def move(self, anchor: Vector, steps: int) -> float:
        """Begin an epoch of so many steps around the anchor, and return its step size."""
        if self._form == "printed":
            self._anchor = anchor
            return self._step
        snapshot, step = self._oracle.gradient("snapshot", anchor), self._step
        if self._rule == "barzilai_borwein" and self._snapshot is not None:
            moved, change = anchor - self._anchor, snapshot - self._snapshot
            found = barzilai_borwein(moved, change, steps, self._problem.L)
            step = step if found is None else min(max(found, _SHORTEST * step), self._longest)
        self._anchor, self._snapshot = anchor, snapshot
        return step

    def walk(self, w: Vector, step: float, count: int) -> Iterator[NDArray[np.float64]]:
        """The `count` points after w in this epoch, some at a time, shape (k, d): w <- prox(w - step v), v as `at`."""
        oracle, anchor, snapshot, centred = self._oracle, self._anchor, self._snapshot, self._form == "centred"
        most = max(1, min(_TOGETHER, _NUMBERS // self._problem.d))
        for done in range(0, count, most):
            wanted, points = min(most, count - done), None
            if snapshot is not None:
                points = oracle.walk("change", w, anchor, snapshot, step, wanted, centred)
            if points is None:
                points = np.empty((wanted, len(w)))
                for t in range(wanted):
                    w = self._problem.prox(w - step * self.at(w), step)
                    points[t] = w
            w = points[-1]
            yield points

    def at(self, w: Vector) -> Vector:
        """grad F(w), nearly: snapshot + a change, centred or not, while L ||w - anchor|| <= G; else a sampled gradient.

        Without a snapshot, as published: the exact one and the change, with one noise.
        """
        if self._snapshot is None:
            return self._oracle.printed_change("step", w, self._anchor)
        if not self._problem.L * float(np.linalg.norm(w - self._anchor)) <= self._problem.G:
            return self._oracle.sampled_gradient("change", w)
        change = self._oracle.centred_change if self._form == "centred" else self._oracle.sampled_change
        return change("change", w, self._anchor) + self._snapshot
