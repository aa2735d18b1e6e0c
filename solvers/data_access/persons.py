"""Rows of persons: of each the first k, in k places of its own; which ones, a secret permutation says.

Promise: places are a function of whose rows there are and of fresh bits; replacing one person's rows, all of them,
replaces what is in that person's places, and the law of all other places stays. Proof: docs/proofs/persons.md.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting.noise import Noise, draws
from accounting.privacy import Unit
from solvers import kernels
from solvers.data_access import containers, inputs
from solvers.data_access.data import Data
from solvers.data_access.rows import taken
from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector


@dataclass(frozen=True, slots=True, eq=False)
class _Placed:
    """Records in their places."""

    placed: "kernels.Records"

    def records(self, problem: Problem) -> "kernels.Records":  # noqa: ARG002
        """As they are."""
        return self.placed


def places(owners: NDArray[np.int64], n: int, k: int, noise: Noise) -> NDArray[np.int64]:
    """(n k,), for each place the row that it holds, -1 for none: person p's first k rows, then none, from place k pi(p)
    on, pi a uniform permutation of 0..n-1.

    Parameters
    ----------
    owners : for each row, in order, whose it is, in [0, n)
    """
    order = np.argsort(owners, kind="stable")
    mine = owners[order]
    turn = np.arange(len(mine)) - np.searchsorted(mine, mine)  # how many of its person's rows come before it
    first = turn < k
    found = np.full(n * k, -1, dtype=np.int64)
    found[k * draws.ordered_rows(noise, n, n)[mine[first]] + turn[first]] = order[first]
    return found


def of_persons(X: Any, y: Any, ids: Any, problem: Problem, noise: Noise) -> Data:
    """The data of a problem whose records are persons, from rows as `inputs.records` takes them.

    Parameters
    ----------
    ids : for each row the name of its person, a whole number or text; persons without rows are those that n has more,
        perhaps all of them

    Raises
    ------
    Unsuitable
        if X and y are not rows of the problem's, or there are more persons than its n.
    """
    named = _names(ids)
    if not len(named):
        return _without_rows(X, y, problem)
    names, owners = np.unique(named, return_inverse=True)
    if len(names) > problem.n:
        raise Unsuitable("there are more persons than the problem's n")
    rows = replace(problem, n=len(named), unit=Unit())
    found = places(owners.astype(np.int64), problem.n, problem.unit.slots, noise)
    present, at = found >= 0, np.maximum(found, 0)
    targets: Vector = np.where(present, inputs.targets(y, rows)[at], 0.0)
    records = taken(inputs.records(X, rows).records(rows), found)
    return Data.coded(_Placed(records), targets, problem, present)


def _names(ids: Any) -> NDArray[Any]:
    """Return what tells persons apart, (rows,); `Unsuitable` unless every row has a whole number or text.

    Numbers of a list may be too large for NumPy, and one of them would make doubles or objects of all: so each has its
    own text, which no other number and no text has.
    """
    named = containers.column(ids)
    is_array = isinstance(named, np.ndarray)
    if is_array and named.ndim == 1 and named.dtype.kind in "iuUS":
        return np.asarray(named)
    held: list[Any] = containers.objects(named) if not is_array or named.ndim == 1 else [None]
    if not all(isinstance(name, (str, int, np.integer)) for name in held):
        raise Unsuitable("persons are named by whole numbers or text, one for each row")
    return np.array([f"={name}" if isinstance(name, str) else hex(name) for name in held], dtype=np.str_)


def _without_rows(X: Any, y: Any, problem: Problem) -> Data:
    """All places empty, of records stored as those of X would be: a neighbor of what one person's rows make."""
    one, none = replace(problem, n=1, unit=Unit()), np.zeros(problem.places, dtype=np.bool_)
    if hasattr(X, "tocsr"):
        shape, blank = X.shape, type(X.tocsr())((1, problem.d), dtype=np.float64)
    elif (names := containers.column_names(X)) is not None:
        shape, blank = (max((len(X[name]) for name in names), default=0),), {name: np.zeros(1) for name in names}
    else:
        shape, blank = np.shape(X), np.zeros((1, problem.d))
    if shape not in ((0,), (0, problem.d)) or len(y):
        raise Unsuitable("X and y must have a row for each name of a person")
    records = taken(inputs.records(blank, one).records(one), np.full(problem.places, -1))
    return Data.coded(_Placed(records), np.zeros(problem.places), problem, none)
