"""Rows of persons: the first k rows of each person in k slots, which a secret permutation chooses.

Guarantee: the slots of rows depend on the owners of rows and on fresh random bits only. Replacing all rows of a person
replaces the content of that person's slots, and the law of all other slots stays. Proof: docs/proofs/persons.md.
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
from solvers.data_access.rows import copied
from solvers.errors import Unsuitable
from solvers.problem import Problem, Vector


@dataclass(frozen=True, slots=True, eq=False)
class _Placed:
    """Records in their slots."""

    placed: "kernels.Records"

    def records(self, problem: Problem) -> "kernels.Records":  # noqa: ARG002
        """Return the records as they are."""
        return self.placed


def rows_by_slot(owners: NDArray[np.int64], n: int, k: int, noise: Noise) -> NDArray[np.int64]:
    """Return the row of each slot, (n k,), or -1 for an empty slot.

    Person p's first k rows are in the slots from k pi(p) on, where pi is a uniform permutation of 0..n-1.

    Parameters
    ----------
    owners : the person of each row, in order, in [0, n)
    """
    order = np.argsort(owners, kind="stable")
    sorted_owners = owners[order]
    rank = np.arange(len(order)) - np.searchsorted(sorted_owners, sorted_owners)  # of a row among its person's rows
    is_used = rank < k
    rows = np.full(n * k, -1, dtype=np.int64)
    rows[k * draws.ordered_rows(noise, n, n)[sorted_owners[is_used]] + rank[is_used]] = order[is_used]
    return rows


def of_persons(X: Any, y: Any, ids: Any, problem: Problem, noise: Noise) -> Data:
    """Return the data of a problem whose records are persons, from the rows that `inputs.records` accepts.

    Parameters
    ----------
    ids : the name of each row's person, a whole number or text. If there are fewer names than n, the other persons
        have no rows

    Raises
    ------
    Unsuitable
        if X and y do not fit the problem, or there are more persons than its n
    """
    named = _names(ids)
    if not len(named):
        return _without_rows(X, y, problem)
    names, owners = np.unique(named, return_inverse=True)
    if len(names) > problem.n:
        raise Unsuitable("persons has more names than the problem's n. Raise n")
    rows = replace(problem, n=len(named), unit=Unit())
    row_of = rows_by_slot(owners.astype(np.int64), problem.n, problem.unit.slots, noise)
    present, at = row_of >= 0, np.maximum(row_of, 0)
    targets: Vector = np.where(present, inputs.targets(y, rows)[at], 0.0)
    records = copied(inputs.records(X, rows).records(rows), row_of)
    return Data.coded(_Placed(records), targets, problem, present)


def _names(ids: Any) -> NDArray[Any]:
    """Return a name for each row, (rows,); raise `Unsuitable` unless every row has a whole number or text.

    A number in a list may be too large for NumPy, and would change the type of all names. So each number becomes a text
    that differs from all other numbers and texts.
    """
    named = containers.column(ids)
    is_array = isinstance(named, np.ndarray)
    if is_array and named.ndim == 1 and named.dtype.kind in "iuUS":
        return np.asarray(named)
    names: list[Any] = containers.objects(named) if not is_array or named.ndim == 1 else [None]
    if not all(isinstance(name, (str, int, np.integer)) for name in names):
        raise Unsuitable("persons must have a whole number or a text for each row")
    return np.array([f"={name}" if isinstance(name, str) else hex(name) for name in names], dtype=np.str_)


def _without_rows(X: Any, y: Any, problem: Problem) -> Data:
    """Return data with empty slots only, stored in the form of X, as a neighbor of data with one person's rows."""
    one_row = replace(problem, n=1, unit=Unit())
    present = np.zeros(problem.slots, dtype=np.bool_)
    if hasattr(X, "tocsr"):
        shape, blank = X.shape, type(X.tocsr())((1, problem.d), dtype=np.float64)
    elif (names := containers.column_names(X)) is not None:
        shape = (max((len(X[name]) for name in names), default=0),)
        blank = {name: np.zeros(1) for name in names}
    else:
        shape = np.shape(X)
        blank = np.zeros((1, problem.d))
    if shape not in ((0,), (0, problem.d)) or len(y):
        raise Unsuitable("X and y must have a row for each entry of persons")
    records = copied(inputs.records(blank, one_row).records(one_row), np.full(problem.slots, -1))
    return Data.coded(_Placed(records), np.zeros(problem.slots), problem, present)
