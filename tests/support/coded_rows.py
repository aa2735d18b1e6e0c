"""Rows of declared columns: stored as codes, or written out."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.columns import Columns
from solvers.data_access import inputs
from solvers.data_access.rows import Coded
from solvers.losses import Loss


def folded(X: NDArray[Any], columns: Columns) -> Coded:
    """Return the rows as codes and numbers; the numbers keep their type."""
    coded = inputs.folded(X.astype(float), columns)
    return replace(coded, numbers=coded.numbers.astype(X.dtype))


def unfolded(n: int, columns: Columns, seed: int = 7, kind: type = np.float64) -> NDArray[Any]:
    """Return random rows of the declared columns, written out."""
    rng, X = np.random.default_rng(seed), np.zeros((n, columns.d))
    for start, width in zip(columns.starts, columns.widths, strict=True):
        if width == 1:
            X[:, start] = rng.uniform(-1, 1, n)
        else:
            X[np.arange(n), start + rng.integers(0, width, n)] = 1.0
    X[:, -1] = 1.0
    return X.astype(kind)


def targets(loss: Loss, n: int) -> NDArray[np.float64]:
    """Return targets that suit the loss: class numbers, signs, or 0.7 and -0.7."""
    rng = np.random.default_rng(5)
    if loss.outputs > 1:
        return rng.integers(0, loss.outputs, n).astype(float)
    return np.where(rng.random(n) < 0.4, 1.0, -1.0) * (1.0 if loss.takes == "class" else 0.7)
