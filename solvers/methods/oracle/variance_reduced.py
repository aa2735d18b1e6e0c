"""Settings, queries, bounds and steps that dp_svrg and dp_svrg_pp share: sampled changes against an anchor."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray

from accounting.mechanisms import Gaussian, PoissonGaussian, SvrgStep
from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.bounds import gradient_bound, printed_bound, sampled_bound
from solvers.errors import Unsuitable
from solvers.methods.checks import check_loss
from solvers.methods.defaults import batches
from solvers.methods.defaults.batches import SNAPSHOT_SHARE, Form, barzilai_borwein, longest_step
from solvers.methods.run import Bounds, SampledRun, Start, Strict
from solvers.oracles import Sampled
from solvers.problem import Problem, Vector
from solvers.ranges import Batch, Step, Whole

StepRule = Literal["fixed", "barzilai_borwein"]
MOST_STEPS = 1_000_000

_UNPROVEN = (
    "No error bound with explicit constants is proven for this method: all steps of an epoch share the noise of its "
    "snapshot, and the theorems need fresh noise in every step."
)
_MOST_POINTS, _MOST_COORDINATES = 1_000, 1 << 18  # of a walk between two reports of progress
_SHORTEST = 0.25  # a Barzilai-Borwein step is at least this share of the planned step


@dataclass(frozen=True, slots=True)
class VarianceReduced(Strict, ABC):
    """Settings that both methods have."""

    epochs: Annotated[int | None, Whole(MOST_STEPS)] = None
    inner_steps: Annotated[int | None, Whole(MOST_STEPS)] = None
    batch: Batch = None
    step: Step = None
    form: Form | None = None
    step_rule: StepRule = "fixed"

    @final
    def check_own(self) -> None:
        """Raise `Unsuitable` unless form and step rule are compatible."""
        if self.form == "printed" and self.step_rule == "barzilai_borwein":
            raise Unsuitable(
                f"{self.name}: step_rule 'barzilai_borwein' needs released snapshots, and form 'printed' releases none "
                "(the paper uses exact gradients, which is not private). Use form 'safeguarded' or step_rule 'fixed'"
            )

    @abstractmethod
    def lengths(self, steps: float) -> tuple[int, int]:
        """Return T and m for about this number of steps."""

    @staticmethod
    @abstractmethod
    def total(epochs: int, inner_steps: int) -> int:
        """Return K, the number of steps of all epochs."""

    @final
    def resolved(self, problem: Problem, privacy: Privacy) -> tuple[int, int, int, float, Form, StepRule]:
        """Return the fields of the run, with every open setting chosen from public facts.

        Raises
        ------
        Unsuitable
            if the loss is not smooth or not convex, batch exceeds n, step exceeds 1/L, delta is 0, or form is 'centred'
            and the loss has several margins.
        """
        check_loss(self.name, problem, convex=True)
        time = batches.step_time(problem, privacy)
        epochs, inner_steps = self.lengths(batches.step_count(problem, time, self.step))
        total = self.total(epochs, inner_steps)
        batch = batches.fill_batch(self.name, self.batch, problem, privacy, total)
        step = batches.fill_step(self.name, self.step, problem, batch, time / total)
        form = batches.fill_form(self.name, self.form, problem, privacy, batch, total)
        return epochs, inner_steps, batch, step, form, self.step_rule


@dataclass(frozen=True, slots=True)
class VarianceReducedRun(SampledRun):
    """Resolved settings that both methods have."""

    epochs: int
    inner_steps: int
    batch: int
    step: float
    form: Form = "safeguarded"
    step_rule: StepRule = "fixed"

    walks: ClassVar[bool] = True

    @property
    @abstractmethod
    def total_steps(self) -> int:
        """K, the number of steps of all epochs."""

    @final
    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Return snapshots over all rows, for a quarter of mu^2, and changes over Poisson batches of rate b / n.

        Form 'printed' has steps instead, of an exact snapshot and a change over b of n rows together.
        """
        if self.form == "printed":
            return (Query("step", self.total_steps, SvrgStep(self.batch, problem.n)),)
        return (
            Query("snapshot", self.epochs, Gaussian(), SNAPSHOT_SHARE),
            Query("change", self.total_steps, PoissonGaussian(self.batch / problem.n), 1 - SNAPSHOT_SHARE),
        )

    @final
    def bounds(self, problem: Problem) -> Bounds:
        """Return the largest effect of a record on each answer, and the number of coordinates."""
        if self.form == "printed":
            return {"step": (printed_bound(problem, self.batch), problem.size)}
        change = sampled_bound(problem, self.batch, problem.G)
        return {"snapshot": (gradient_bound(problem), problem.size), "change": (change, problem.size)}

    @final
    def gradient_evaluations(self, problem: Problem) -> float:
        """Return T n + 2 K b, an upper bound on the expected number."""
        return float(self.epochs) * problem.n + 2.0 * self.total_steps * self.batch

    @final
    def excess_risk(self, problem: Problem, noise_std: float, start: Start) -> str:
        """Return why no bound is proven."""
        return _UNPROVEN


class Estimates:
    """Private estimates of grad F near an anchor, and the step size for them."""

    __slots__ = ("_anchor", "_oracle", "_problem", "_settings", "_snapshot")

    def __init__(self, oracle: Sampled, problem: Problem, settings: VarianceReducedRun) -> None:
        self._oracle, self._problem, self._settings = oracle, problem, settings
        self._anchor: Vector = problem.start
        self._snapshot: Vector | None = None

    def move(self, anchor: Vector, steps: int) -> float:
        """Begin an epoch of so many steps around the anchor, and return its step size."""
        settings, step = self._settings, self._settings.step
        if settings.form == "printed":
            self._anchor = anchor
            return step
        snapshot = self._oracle.gradient("snapshot", anchor)
        if settings.step_rule == "barzilai_borwein" and self._snapshot is not None:
            move, change = anchor - self._anchor, snapshot - self._snapshot
            adapted = barzilai_borwein(move, change, steps, self._problem.L)
            if adapted is not None:
                longest = max(step, longest_step(self._problem, settings.batch))
                step = min(max(adapted, _SHORTEST * step), longest)
        self._anchor, self._snapshot = anchor, snapshot
        return step

    def walk(self, w: Vector, step: float, count: int) -> Iterator[NDArray[np.float64]]:
        """Yield the next `count` points in blocks of shape (k, d): w <- prox(w - step v), with v from `estimate`."""
        anchor, snapshot = self._anchor, self._snapshot
        largest = max(1, min(_MOST_POINTS, _MOST_COORDINATES // self._problem.d))
        for begin in range(0, count, largest):
            size, points = min(largest, count - begin), None
            if snapshot is not None:
                centred = self._settings.form == "centred"
                points = self._oracle.walk("change", w, anchor, snapshot, step, size, centred)
            if points is None:
                points = np.empty((size, len(w)))
                for t in range(size):
                    w = self._problem.prox(w - step * self.estimate(w), step)
                    points[t] = w
            w = points[-1]
            yield points

    def estimate(self, w: Vector) -> Vector:
        """Return an estimate of grad F(w): snapshot + change while L ||w - anchor|| <= G, else a sampled gradient.

        Form 'printed' has no snapshot; its estimate is the exact gradient at the anchor and the change, with one noise.
        """
        if self._snapshot is None:
            return self._oracle.printed_change("step", w, self._anchor)
        if not self._problem.L * float(np.linalg.norm(w - self._anchor)) <= self._problem.G:
            return self._oracle.sampled_gradient("change", w)
        change = self._oracle.centred_change if self._settings.form == "centred" else self._oracle.sampled_change
        return change("change", w, self._anchor) + self._snapshot
