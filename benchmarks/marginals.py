"""Regression from noisy two-way marginals: a reconstruction of data-dependent sufficient statistics.

Ferrando and Sheldon (TMLR 2025, "Private Regression via Data-Dependent Sufficient Statistic Perturbation") release
marginals by AIM, estimate all pairs of columns by Private-PGM, and solve linear regression from their second moments.
For classes, the loss becomes a polynomial of degree 2, so that the same moments suffice.

Here pairs are chosen as AIM and MST choose them, by the exponential mechanism, for their distance from a model of
independent columns. No model is fitted between choices. A pair that was measured has its own table. All other pairs
follow from a tree of measured pairs, as they do in Private-PGM if the measured pairs are a tree.

Numbers are cut at quantiles of the private rows, and a level has the mean of its rows as its value. Neither is charged,
as the tuned settings are not. Both favor this method.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from benchmarks.datasets import Split
from benchmarks.newest import mu2_of

_SELECTING = 0.1  # share of the budget that AIM gives to choices
_FITS = 20  # proportional fits of a table to its one-way marginals

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Tables:
    """All two-way marginals of discretized rows as one matrix of levels by levels.

    Parameters
    ----------
    starts : first level of each column; the constant is the first column, and the target the last one
    counts : number of rows with both levels
    values : coded row of each level, its own coordinates only, followed by the target, (levels, d + 1)
    """

    starts: tuple[int, ...]
    counts: Vector
    values: Vector

    @classmethod
    def of(cls, split: Split, levels: int) -> "Tables":
        """Return the tables with at most this many levels for a number."""
        d = split.X.shape[1]
        assert split.columns is not None
        coded = np.c_[split.X, split.y]
        features = zip(split.columns.starts, split.columns.widths, strict=True)
        parts = [np.array([d - 1]), *(np.arange(start, start + width) for start, width in features), np.array([d])]
        blocks: list[Vector] = []
        values: list[Vector] = []
        starts: list[int] = []
        for part in parts:
            starts.append(sum(block.shape[1] for block in blocks))
            if len(part) > 1:
                means, block = np.eye(len(part)), coded[:, part]
            else:
                level = cut_at_quantiles(coded[:, part[0]], levels)
                block = np.eye(level.max() + 1)[level]
                means = (coded[:, part[0]] @ block / block.sum(axis=0))[:, None]
            blocks.append(block)
            rows = np.zeros((len(means), d + 1))
            rows[:, part] = means
            values.append(rows)
        indicators = np.concatenate(blocks, axis=1).astype(np.float32)  # counts below 2^24 are exact
        return cls(tuple(starts), (indicators.T @ indicators).astype(float), np.concatenate(values))

    @property
    def n(self) -> float:
        return float(self.counts[0, 0])

    @cached_property
    def slices(self) -> list[slice]:
        """The levels of each column."""
        ends = (*self.starts[1:], len(self.counts))
        return [slice(start, end) for start, end in zip(self.starts, ends, strict=True)]

    def distances(self, one_way: Vector) -> Vector:
        """Return the l1 distance of each pair's table from that of independent columns."""
        differences = np.abs(self.counts - np.outer(one_way, one_way) / self.n)
        return np.add.reduceat(np.add.reduceat(differences, self.starts, axis=0), self.starts, axis=1)


def cut_at_quantiles(column: Vector, levels: int) -> NDArray[np.int64]:
    """Return the level of each entry, with edges at the quantiles; each value has its own level if there are few."""
    distinct = np.unique(column)
    edges = distinct[1:] if len(distinct) <= levels else np.unique(np.quantile(column, np.arange(1, levels) / levels))
    _, level = np.unique(np.searchsorted(edges, column, side="right"), return_inverse=True)
    return np.asarray(level, dtype=np.int64)


def from_marginals(
    tables: Tables,
    epsilon: float,
    delta: float,
    change: int,
    *,
    first: str,
    more: int,
    ridge: float,
    interval: float = 0.0,
) -> Vector:
    """Return coefficients from noisy marginals.

    All answers share one zero-concentrated budget rho. A table has sensitivity sqrt(change) in l2 and `change` in l1.
    The exponential mechanism with parameter e costs e^2 / 8.

    Parameters
    ----------
    change : 1 if a record is added, removed or blanked, 2 if it is replaced
    first : pairs that are measured first: "none", "target" (each column with the target) or "tree" (MST's choice)
    more : number of pairs that are chosen afterwards
    ridge : multiple of n that is added to the second moments
    interval : half the length of the interval of the polynomial that stands for the logistic loss; 0 for least squares
    """
    random, columns, slices = np.random.default_rng(), len(tables.starts), tables.slices
    rho = mu2_of(epsilon, delta) / 2
    target = columns - 1
    pairs = [(j, target) for j in range(1, target)] if first == "target" else []
    tree = columns - 2 if first == "tree" else 0
    more = min(more, (columns - 1) * (columns - 2) // 2 - len(pairs) - tree)
    choices = tree + more
    measuring = rho * (1 - _SELECTING) if choices else rho
    std = math.sqrt(change * (columns - 1 + len(pairs) + choices) / (2 * measuring))

    one_way = np.diag(tables.counts).copy()
    for part in slices[1:]:
        noisy = one_way[part] + std * random.standard_normal(part.stop - part.start)
        one_way[part] = _nonnegative(noisy, tables.n)

    if choices:
        scores = tables.distances(one_way) * math.sqrt(8 * _SELECTING * rho / choices) / (2 * change)
        left = np.triu(np.ones((columns, columns), dtype=bool), 1)
        left[0] = False
        left[tuple(np.array(pairs, dtype=int).reshape(-1, 2).T)] = False
        component = np.arange(columns)
        for choice in range(choices):
            allowed = left & (component[:, None] != component) if choice < tree else left
            noisy_scores = np.where(allowed, scores + random.gumbel(size=scores.shape), -np.inf)
            i, j = (int(k) for k in np.unravel_index(np.argmax(noisy_scores), scores.shape))
            pairs.append((i, j))
            left[i, j] = False
            component[component == component[j]] = component[i]

    measured: dict[tuple[int, int], Vector] = {}
    for i, j in pairs:
        table = tables.counts[slices[i], slices[j]]
        table = _nonnegative((table + std * random.standard_normal(table.shape)).ravel(), tables.n).reshape(table.shape)
        measured[i, j] = _fitted(table, one_way[slices[i]], one_way[slices[j]])
    estimated = _all_pairs(tables, one_way, measured)

    moments = tables.values.T @ estimated @ tables.values / tables.n
    second, cross = moments[:-1, :-1], moments[:-1, -1]
    values, vectors = np.linalg.eigh(second)
    solution = vectors @ ((vectors.T @ cross) / (np.maximum(values, 0) + ridge))
    return solution * _logistic_scale(interval) if interval else solution


def _logistic_scale(interval: float) -> float:
    """Return s so that s * least squares minimizes the polynomial of degree 2 for log(1 + exp(-y x'w)), y = +-1.

    The polynomial interpolates at the Chebyshev nodes of [-interval, interval].
    """
    fit = np.polynomial.Chebyshev.interpolate(lambda x: np.logaddexp(0, -x), 2, [-interval, interval])
    coefficients = np.asarray(fit.convert(kind=np.polynomial.Polynomial).coef, dtype=np.float64)
    return float(-coefficients[1] / (2 * coefficients[2]))


def _nonnegative(values: Vector, total: float) -> Vector:
    """Return the nearest vector of nonnegative entries with this sum."""
    descending = np.sort(values)[::-1]
    excess = (np.cumsum(descending) - total) / np.arange(1, len(values) + 1)
    return np.asarray(np.maximum(values - excess[np.count_nonzero(descending > excess) - 1], 0.0))


def _fitted(table: Vector, rows: Vector, columns: Vector) -> Vector:
    """Return the table scaled in turn to these one-way marginals. A little of their product keeps cells positive."""
    table = table + 1e-6 * np.outer(rows, columns) / rows.sum()
    for _ in range(_FITS):
        table = table * (rows / np.maximum(table.sum(axis=1), 1e-300))[:, None]
        table = table * (columns / np.maximum(table.sum(axis=0), 1e-300))
    return table


def _all_pairs(tables: Tables, one_way: Vector, measured: dict[tuple[int, int], Vector]) -> Vector:
    """Return estimates of all tables: measured ones, and others by the tree of the most dependent measured pairs."""
    slices = tables.slices

    def dependence(pair: tuple[int, int]) -> float:
        i, j = pair
        independent = np.outer(one_way[slices[i]], one_way[slices[j]]) / tables.n
        return float(np.abs(measured[pair] - independent).sum())

    component = np.arange(len(slices))
    neighbors: list[list[int]] = [[] for _ in slices]
    for i, j in sorted(measured, key=dependence, reverse=True):
        if component[i] != component[j]:
            component[component == component[j]] = component[i]
            neighbors[i].append(j)
            neighbors[j].append(i)
    for first in [int(np.flatnonzero(component == c)[0]) for c in np.unique(component) if c != component[0]]:
        neighbors[0].append(first)  # the constant, of which every column is independent

    estimated = np.zeros_like(tables.counts)
    placed: list[int] = []
    waiting: list[tuple[int, int]] = [(0, 0)]
    while waiting:
        parent, j = waiting.pop()
        levels = _indices(slices, placed)
        estimated[slices[j], slices[j]] = np.diag(one_way[slices[j]])
        if placed:
            table = measured.get((parent, j), measured.get((j, parent), np.zeros((0, 0))).T)
            if not table.size:
                table = one_way[None, slices[j]]
            given = table / np.maximum(one_way[slices[parent]], 1e-300)[:, None]
            estimated[levels, slices[j]] = estimated[levels, slices[parent]] @ given
            estimated[slices[j], levels] = estimated[levels, slices[j]].T
        placed.append(j)
        waiting += [(j, k) for k in neighbors[j] if k not in placed]
    for (i, j), table in measured.items():
        estimated[slices[i], slices[j]] = table
        estimated[slices[j], slices[i]] = table.T
    return estimated


def _indices(slices: Sequence[slice], columns: Sequence[int]) -> NDArray[np.int64]:
    """Return the levels of these columns."""
    return np.concatenate([np.arange(slices[j].start, slices[j].stop) for j in columns] or [np.zeros(0, int)])
