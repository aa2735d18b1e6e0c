"""What a method sees of the data: an oracle's private answers, or, for those reviewed like a mechanism, data access."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from accounting.plan import PlannedQuery
from solvers.frame import Frame
from solvers.problem import Problem, Vector


class Oracle(Protocol):
    """See `solvers.data_access.oracle.PrivateOracle`."""

    def gradient(self, query: str, w: Vector) -> Vector:
        """Noisy mean gradient over all rows."""

    def horizon(self, query: str) -> int:
        """How many answers the query will give."""

    def sampled_gradient(self, query: str, w: Vector) -> Vector:
        """Noisy mean gradient over a fresh random batch."""

    def sampled_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """Noisy mean of grad f_i(w) - grad f_i(anchor) over a fresh random batch."""

    def centred_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """The same, with half the noise: what half the curvature would make of it is added back, not sampled."""

    def printed_change(self, query: str, w: Vector, anchor: Vector) -> Vector:
        """Mean of grad f_i(w) - grad f_i(anchor) over a fresh random batch, plus grad F(anchor), with one noise."""

    def walk(
        self, query: str, w: Vector, anchor: Vector, snapshot: Vector, step: float, count: int, centred: bool = False
    ) -> NDArray[np.float64] | None:
        """`count` points of a variance-reduced walk, shape (count, d), one answer each; None if not compiled."""

    def last_iterate(self, query: str, steps: int, step: float) -> Vector:
        """The last point of so many noisy proximal gradient steps, whose other points stay hidden."""


class Allocated(Protocol):
    """See `solvers.data_access.allocated.AllocatedOracle`."""

    def allocated_gradient(self, query: str, w: Vector) -> Vector:
        """Noisy mean gradient over the next slot of a random allocation."""


class Standardised(Protocol):
    """See `solvers.data_access.standardised.StandardisedOracle`."""

    def planned(self, query: str) -> PlannedQuery:
        """The query with its noise, as planned."""
        ...

    @property
    def share(self) -> float:
        """The noisy share of places that hold a row."""
        ...

    def means(self, query: str) -> Vector:
        """Noisy mean row, the constant left out."""
        ...

    def spread(self, query: str, center: Vector) -> float:
        """Noisy mean squared distance of the numbers from the center."""
        ...

    def variances(self, query: str, center: Vector, radius: float) -> Vector:
        """Noisy mean squared difference of each number from the center."""
        ...

    def target_mean(self, query: str) -> float:
        """Noisy mean target."""
        ...

    def target_spread(self, query: str, center: float) -> float:
        """Noisy mean distance of the target from a number."""
        ...

    def residual(self, query: str, w: Vector, frame: Frame, most: float) -> float:
        """Noisy mean of min(|residual|, most)."""
        ...

    def gradient(self, query: str, w: Vector, frame: Frame, limit: float) -> Vector:
        """Noisy mean gradient in the frame, each record's no longer than the limit."""
        ...


class Counting(Protocol):
    """See `solvers.data_access.counting.CountingOracle`."""

    @property
    def moments(self) -> Standardised:
        """The columns' moments."""
        ...

    def histograms(self, query: str, bins: int) -> Vector:
        """Noisy counts of each number in equal parts of its range."""
        ...

    def cells(self, query: str, bins: int) -> Vector:
        """Noisy counts of rows in the cells of all columns together."""
        ...

    def products(self, query: str, center: Vector) -> Vector:
        """Noisy mean products of the numbers' differences from the center."""
        ...

    def scores(self, query: str, weights: Vector, bins: int, clip: float) -> Vector:
        """Noisy counts of records in the cells of target and what a public model says."""
        ...


class Access(Protocol):
    """See `solvers.data_access.access.DataAccess`. Only what `release` answers may leave a run."""

    def mean_gradient(self, rows: range, w: Vector, problem: Problem | None = None) -> Vector:
        """The mean gradient over the positions, without noise."""

    def mean_gradients(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean gradient over all rows at each point, (m, d), of rounded gradients, without noise."""

    def one_pass(self, rows: range, start: Vector, step: float) -> Vector:
        """The mean of the points of one step a position, without noise."""

    def moments(self, limit: float) -> tuple[NDArray[np.float64], Vector]:
        """X'X/n and X'y/n, the targets clipped, without noise."""

    def planned(self, query: str) -> PlannedQuery:
        """The query with its noise, as planned."""

    def redrawn(self) -> "Access":
        """An access to as many rows, drawn from these with replacement."""

    def release(self, query: str, value: Vector, bound: float) -> Vector:
        """`value` made private: a neighbor may move it by 2 `bound` (null: by `bound`), in the mechanism's norm."""
