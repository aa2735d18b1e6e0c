"""The loops over records in NumPy, on unfolded rows: one operation after the other, in the order documented."""

import math
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from solvers import kernels
from solvers.columns import Columns

Vector = NDArray[np.float64]


def examples(records: kernels.Records, targets: Vector, scale: Vector) -> kernels.Examples:
    """Return examples as the compiled loops take them."""
    return kernels.Examples(records, targets, scale).read_only()


def walk_constants(loss: kernels.Slope, batch_size: float) -> kernels.WalkConstants:
    """Return constants of a walk for comparing two forms of its loop; no plan stands behind them."""
    return kernels.WalkConstants(
        loss=loss,
        smoothness=0.25,
        gradient_bound=1.0,
        row_norm=1.0,
        batch_size=batch_size,
        row_rounding=1e-9,
        sum_rounding=1e-9,
        noise_multiplier=2.0,
        lattice_share=1.0,
        lattice_bits=20,
        step=0.5,
        shrinkage=1.0,
        radius=1e6,
        curvature=0.25,
        centred_row_rounding=1e-9,
        centred_sum_rounding=1e-9,
    )


def lanes(X: Vector, w: Vector) -> Vector:
    """Padded with zeros to a multiple of 8, column j to sum j mod 8, the sums by halves."""
    n, d = X.shape
    wide = np.zeros((n, -(-d // 8) * 8))
    wide[:, :d] = X * w
    sums = np.zeros((n, 8))
    for j in range(0, wide.shape[1], 8):
        sums += wide[:, j : j + 8]
    for half in (4, 2, 1):
        sums = sums[:, :half] + sums[:, half:]
    return sums[:, 0]


def margins(X: Vector, w: Vector, columns: Columns | None = None) -> Vector:
    """The unfolded form: the numbers in lanes, then each block's products, added up, then the constant."""
    if columns is None:
        return lanes(X, w)
    numbers = np.flatnonzero(columns.is_number)
    total = lanes(X[:, numbers], w[numbers])
    for start, width in zip(columns.starts, columns.widths, strict=True):
        if width > 1:
            block = np.zeros(len(X))
            for j in range(start, start + width):
                block += X[:, j] * w[j]
            total += block
    return total + X[:, -1] * w[-1]


def added(rows: Vector) -> Vector:
    """Return the sum of the rows, added in their order."""
    total = np.zeros(rows.shape[1])
    for row in rows:
        total += row
    return total


def weighed(p: list[float], label: int, allowed: float) -> list[float]:
    """Return a row's slopes for softmax from its margins, shortened to the limit, as in `softmax_sum`."""
    p = [kernels.exp(m - max(p)) for m in p]
    mass = reduce(add, p)  # one after the other: `sum` compensates, from Python 3.12 on
    p = [chance / mass for chance in p]
    weight = min(1.0, allowed / math.sqrt(reduce(add, [chance * chance for chance in p]) + 1.0 - 2.0 * min(p)))
    p[label] -= 1.0
    p = [slope * weight for slope in p]
    cut = allowed / max(math.sqrt(reduce(add, [slope * slope for slope in p])), allowed, 1e-300)
    return [slope * cut for slope in p]


class Unfolded:
    """Plain loops on the unfolded rows, as substitutes for the compiled loops on records.

    What knows no record (a point in the inner order, a loss's slope) and what a frame keeps of each (its inverse norm)
    stays compiled.

    Parameters
    ----------
    X : (n, d), as declared
    """

    def __init__(self, X: Vector, columns: Columns, loss: Any) -> None:
        self._order = np.argsort([w > 1 for w in columns.widths], kind="stable")  # numbers, then blocks
        self._columns = Columns(tuple(columns.widths[k] for k in self._order))
        parts = np.split(X[:, :-1], columns.starts[1:], axis=1)
        self._X = np.column_stack([*(parts[k] for k in self._order), X[:, -1]])
        self._loss = loss

    def put(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Replace the compiled loops until the patch is undone."""
        sums = "gradient_sum", "change_sum", "logistic_sum", "squared_sum", "bounded_sum", "softmax_sum", "residual_sum"
        for name in ("margins_of", "weighted_sum", *sums):
            monkeypatch.setattr(kernels, name, getattr(self, name))

    def margins_of(self, records: kernels.Records, w: Vector, places: NDArray[np.int64]) -> Vector:
        return margins(self._X[places], kernels.ENTRIES["to_storage_order"](records, w), self._columns)

    def weighted_sum(self, records: kernels.Records, weights: Vector, places: NDArray[np.int64]) -> Vector:
        total = added(weights[:, None] * self._X[places])
        result: Vector = kernels.ENTRIES["from_storage_order"](records, np.append(total, np.zeros(8)))
        return result

    def gradient_sum(
        self, examples: kernels.Examples, places: NDArray[np.int64], w: Vector, loss: kernels.Slope
    ) -> Vector:
        scale, y = examples.scale[places], examples.targets[places]
        slopes = self._slopes(self.margins_of(examples.records, w, places) * scale, y, loss)
        return self.weighted_sum(examples.records, slopes * scale, places)

    def change_sum(
        self, examples: kernels.Examples, places: NDArray[np.int64],
        w: Vector, anchor: Vector, loss: kernels.Slope, limit: float, curvature: float,
    ) -> Vector:  # fmt: skip
        records, scale, y = examples.records, examples.scale[places], examples.targets[places]
        m, m_anchor = self.margins_of(records, w, places), self.margins_of(records, anchor, places)
        if curvature > 0:
            rise = curvature * (m * scale)
            m, low, high = m + m_anchor, np.minimum(rise, 0.0), np.maximum(rise, 0.0)
        else:
            low, high = np.full(len(m), -limit), np.full(len(m), limit)
        change = self._slopes(m * scale, y, loss) - self._slopes(m_anchor * scale, y, loss)
        return self.weighted_sum(records, np.minimum(np.maximum(change, low), high) * scale, places)

    def logistic_sum(self, examples: kernels.FramedExamples, limit: float, w: Vector, *ends: int) -> Vector:
        places, (records, y, inverse) = np.arange(*ends), examples
        m, own, allowed = self.margins_of(records, w, places), y[places], limit * inverse[places]
        s = np.array([1 / (1 + kernels.exp(each)) for each in own * m])
        slopes = -own * (s * np.minimum(1.0, allowed / np.maximum(s, 1 - s)))
        return self.weighted_sum(records, np.clip(slopes, -allowed, allowed), places)

    def squared_sum(self, examples: kernels.FramedExamples, limit: float, w: Vector, *ends: int) -> Vector:
        places, (records, y, inverse) = np.arange(*ends), examples
        residuals, allowed = self.margins_of(records, w, places) - y[places], limit * inverse[places]
        return self.weighted_sum(records, np.clip(residuals, -allowed, allowed), places)

    def bounded_sum(
        self, examples: kernels.FramedExamples, limit: float, loss: kernels.Slope, w: Vector, *ends: int
    ) -> Vector:  # fmt: skip
        places, (records, y, inverse) = np.arange(*ends), examples
        allowed = limit * inverse[places]
        m, (_, *parameters, bound) = self.margins_of(records, w, places), loss
        derivative = type(self._loss).derivative
        parameters = parameters[: derivative.__code__.co_argcount - 2]
        slopes = np.array([derivative(*each, *parameters) for each in zip(m, y[places], strict=True)])
        weighted = np.clip(slopes, -bound, bound) * np.minimum(1.0, allowed / bound)
        return self.weighted_sum(records, np.clip(weighted, -allowed, allowed), places)

    def softmax_sum(self, examples: kernels.FramedExamples, limit: float, W: Vector, *ends: int) -> Vector:
        places, (records, y, inverse) = np.arange(*ends), examples
        each = np.stack([self.margins_of(records, w, places) for w in W], axis=1).tolist()
        examples_of_rows = zip(each, y[places].astype(int).tolist(), (limit * inverse[places]).tolist(), strict=True)
        slopes = np.array([weighed(p, k, a) for p, k, a in examples_of_rows])
        return np.stack([self.weighted_sum(records, own, places) for own in slopes.T])

    def residual_sum(
        self, records: kernels.Records, y: Vector, scale: Vector, w: Vector, limit: float, *ends: int
    ) -> float:
        places = np.arange(*ends)
        gaps = np.minimum(np.abs(self.margins_of(records, w, places) - y[places]), limit)
        return float(added((gaps * (scale[places] > 0))[:, None])[0])

    def _slopes(self, m: Vector, y: Vector, loss: kernels.Slope) -> Vector:
        bound = loss.bound
        slopes: Vector = np.clip(self._loss.slope(m, y), -bound, bound)
        return slopes
