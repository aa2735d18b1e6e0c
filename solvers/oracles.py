"""The oracles: everything that a method can request of the data.

A method declares its queries before the run, and the plan fixes how many answers each query has and how much noise they
get. During the run, each request names a query, uses one of its planned answers, and returns a value with the planned
noise. A request beyond the plan raises `OutOfPlan`. A request that is out of range raises `Unsuitable`. Both errors
depend on the request only, never on the data.

Most methods see such private answers only. Methods that are reviewed like a mechanism see exact values through
`Access`. This module contains only types. `solvers.data_access` implements them, and states each answer's per-record
bound, to which its noise is proportional.

Symbols: w is a point, f_i the loss of record i, F the mean of all f_i, grad a gradient at a point. G bounds the norm of
every grad f_i, and L is the smoothness of every f_i; see `Problem`.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from accounting.plan import PlannedQuery
from solvers.frame import Frame
from solvers.full_frame import FullFrame
from solvers.groups import Groups
from solvers.problem import Problem, Vector
from solvers.weighting import AnyWeights


class FullBatch(Protocol):
    """Private gradients over all records; see `solvers.data_access.full_batch.FullBatchOracle`."""

    def gradient(self, query: str, w: Vector) -> Vector:
        """Return grad F(w) + noise, over all records."""

    def horizon(self, query: str) -> int:
        """Return how many answers the query allows, which some releases draw at random; no data is read."""

    def last_iterate(self, query: str, steps: int, step: float) -> Vector:
        """Return the last point of noisy proximal gradient steps, whose other points stay hidden."""


class Sampled(FullBatch, Protocol):
    """Private gradients over random batches too; see `solvers.data_access.sampled.SampledOracle`."""

    def sampled_gradient(self, query: str, w: Vector) -> Vector:
        """Return the mean of grad f_i(w) over a fresh secret batch + noise."""

    def sampled_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """Return the mean of grad f_i(w) - grad f_i(anchor) over a fresh secret batch + noise.

        The noise shrinks with the distance of w from the anchor.
        """

    def centred_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """Return an estimate of the same mean as `sampled_change` with half the noise.

        (L/2) (w - anchor) is subtracted from the change of each record of the batch, and added back once after the sum.
        So a record moves the sum by half as much.
        """

    def printed_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """Return the mean of grad f_i(w) - grad f_i(anchor) over a secret batch + grad F(anchor) + one noise.

        This is the step as the paper on variance reduction prints it, which adds noise once.
        """

    def walk(
        self, query: str, w: Vector, anchor: Vector, snapshot: Vector, step: float, count: int, centred: bool = False
    ) -> NDArray[np.float64] | None:
        """Return the next `count` points of a run of variance-reduced steps from w, (count, d).

        Each point uses one answer, with the same law as a single request. Returns None, and uses no answer, if these
        steps are not compiled; then request each answer.
        """


class Allocated(Protocol):
    """Private gradients over secret slots; see `solvers.data_access.allocated.AllocatedOracle`."""

    def allocated_gradient(self, query: str, w: Vector) -> Vector:
        """Return the mean of grad f_i(w) over the next slot of a secret random allocation + noise."""


class Standardised(Protocol):
    """Private moments and limited gradients; see `solvers.data_access.standardised.StandardisedOracle`."""

    def planned(self, query: str) -> PlannedQuery:
        """Return the query with its planned noise."""

    @property
    def share(self) -> float:
        """The noisy share of slots that hold a row, which `means` releases if a record is a person; otherwise 1."""

    def means(self, query: str) -> Vector:
        """Return the noisy mean row without the constant."""

    def spread(self, query: str, center: Vector) -> float:
        """Return the noisy mean squared distance of the numbers from the center."""

    def variances(self, query: str, center: Vector, radius: float) -> Vector:
        """Return the noisy mean squared difference of each number from the center."""

    def target_mean(self, query: str) -> float:
        """Return the noisy mean target."""

    def target_spread(self, query: str, center: float) -> float:
        """Return the noisy mean distance of the target from a number."""

    def residual(self, query: str, w: Vector, frame: Frame, limit: float) -> float:
        """Return the noisy mean of min(|residual|, limit)."""

    def gradient(self, query: str, w: Vector, frame: Frame, limit: float, smoothing: float = 0.0) -> Vector:
        """Return the noisy mean gradient in the frame; each record's gradient has at most the norm `limit`.

        A loss with a kink is replaced by its form with at least this smoothing, unless that is 0.
        """


class Counting(Protocol):
    """Private counts and products; see `solvers.data_access.counting.CountingOracle`."""

    @property
    def moments(self) -> Standardised:
        """The oracle of the columns' moments."""

    def histograms(self, query: str, bins: int) -> Vector:
        """Return noisy counts of each number in equal parts of its range."""

    def cells(self, query: str, bins: int) -> Vector:
        """Return noisy counts of rows in the cells of all columns together."""

    def group_counts(self, query: str, groups: Groups, bins: int) -> Vector:
        """Return noisy counts of rows in each group, or in each part of each described feature of each group."""

    def group_moments(self, query: str, groups: Groups) -> Vector:
        """Return noisy sums of each group's described numbers and of their squares."""

    def products(self, query: str, center: Vector) -> Vector:
        """Return noisy mean products of the numbers' differences from the center."""

    def scores(self, query: str, weights: Vector, bins: int, clip: float) -> Vector:
        """Return noisy counts of records by their target and by the prediction of a public model."""


class Weighted(Protocol):
    """Private curvatures and scores of weighted records; see `solvers.data_access.weighted.WeightedOracle`."""

    @property
    def moments(self) -> Standardised:
        """The oracle of the columns' and the target's moments."""

    def planned(self, query: str) -> PlannedQuery:
        """Return the query with its planned noise, also if it is a query of the moments."""

    def second_moments(self, query: str, frame: FullFrame, limit: float) -> NDArray[np.float64]:
        """Return the noisy mean of u u', with u the row in the frame; rows with ||u||^2 > limit get less weight."""

    def residual(self, query: str, w: Vector, frame: FullFrame, limit: float) -> float:
        """Return the noisy mean of min(|residual|, limit)."""

    def gradient(self, query: str, w: Vector, frame: FullFrame, weights: AnyWeights) -> Vector:
        """Return the noisy mean of the weighted scores at w."""

    def curvature(self, query: str, w: Vector, frame: FullFrame, weights: AnyWeights) -> NDArray[np.float64]:
        """Return the noisy mean of the weighted curvatures at w."""

    def squared_scores(self, query: str, w: Vector, frame: FullFrame, weights: AnyWeights) -> NDArray[np.float64]:
        """Return the noisy mean over records of S S', with S a record's mean weighted score at w."""


class Access(Protocol):
    """Exact values for methods that are reviewed like a mechanism; see `solvers.data_access.access.DataAccess`.

    Only `release` adds noise and uses an answer of the plan. A run may return only functions of its answers.
    """

    def mean_gradient(self, rows: range, w: Vector, problem: Problem | None = None) -> Vector:
        """Return the mean gradient over the records with these indices, without noise."""

    def mean_gradients(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean of rounded gradients over all records at each point, (m, d), without noise."""

    def one_pass(self, rows: range, start: Vector, step: float) -> Vector:
        """Return the mean of the points of one gradient step for each record, without noise."""

    def moments(self, limit: float) -> tuple[NDArray[np.float64], Vector]:
        """Return X'X/n and X'y/n, the targets clipped, without noise."""

    def planned(self, query: str) -> PlannedQuery:
        """Return the query with its planned noise."""

    def redrawn(self) -> "Access":
        """Return an access to as many records, drawn in secret from these with replacement."""

    def release(self, query: str, value: Vector, bound: float) -> Vector:
        """Return `value` with noise. A replaced record may move it by 2 `bound` at most, a null one by `bound`."""


class Oracles(Protocol):
    """The oracles of one plan on one dataset. A run opens the one that it needs, and no other."""

    @property
    def problem(self) -> Problem:
        """The problem that the data were prepared for."""

    def full_batch(self, hides_steps: bool) -> FullBatch:
        """Open the oracle of full gradients, with or without hidden steps."""

    def sampled(self, walks: bool) -> Sampled:
        """Open the oracle of sampled gradients, with or without compiled walks."""

    def allocated(self) -> Allocated:
        """Open the oracle of secret slots."""

    def standardised(self) -> Standardised:
        """Open the oracle of moments and limited gradients."""

    def counting(self) -> Counting:
        """Open the oracle of counts and products."""

    def weighted(self) -> Weighted:
        """Open the oracle of weighted scores and curvatures."""

    def access(self, tabulates: bool) -> Access:
        """Open the data access, with or without tables of gradients."""
