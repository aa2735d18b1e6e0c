"""Rows in a released frame, z(x) = (a o (x' - m), c), which are never formed; docs/proofs/standardisation.md."""

from dataclasses import replace

import numpy as np

from solvers import kernels
from solvers.data_access.data import Data
from solvers.errors import Unsuitable
from solvers.frame import Frame
from solvers.problem import Problem, Vector

_LEAST_CONSTANT, _LARGEST_CONSTANT = 1e-6, 1e3  # of a frame, so that no square of a norm or its inverse underflows


def framed(data: Data, frame: Frame, row_norm: float) -> Data:
    """Return the rows t_i (a o (x_i - m), c) of stored records, with t_i = min(1, R_z / norm).

    The problem of the rows has the `stretch` of the frame: the largest length of a term of their sums over R_z. It has
    no declared columns, so there is no frame within a frame.

    Raises
    ------
    Unsuitable
        if the columns are not declared, or the frame is out of range; both depend on the request only
    """
    problem, own = data.problem, checked(frame, data.problem)
    records = in_frame(data, own)
    scale = np.minimum(1.0, row_norm * kernels.inverse_norms(records)) * data.present()
    return replace(data, records=records, scale=scale, problem=problem_in_frame(problem, own, row_norm), cache={})


def problem_in_frame(problem: Problem, own: Frame, row_norm: float) -> Problem:
    """Return the problem of the rows in a checked frame."""
    longest = min(1.0, row_norm / own.constant) * own.longest(problem.columns) / row_norm
    return replace(problem, row_norm=row_norm, columns=None, stretch=max(1.0, longest))


def in_frame(data: Data, frame: Frame) -> "kernels.Records":
    """Return the records for loops that read them in a frame, without shortening."""
    framed = data.records._replace(center=frame.center, shrink=frame.scale, intercept=frame.constant)
    return framed.read_only()


def checked(frame: Frame, problem: Problem) -> Frame:
    """Return a private copy of a frame, so that its caller cannot change it between two sums.

    Raises
    ------
    Unsuitable
        if the columns are not declared, or the frame is out of range; both depend on the request only
    """
    own = Frame(np.array(frame.center, dtype=float), np.array(frame.scale, dtype=float), float(frame.constant))
    if problem.columns is None:
        raise Unsuitable("frames need declared columns")
    check_center(own.center, problem)
    fits = own.scale.shape == own.center.shape and ((own.scale > 0) & (own.scale < 1e25)).all()
    if not (fits and _LEAST_CONSTANT <= own.constant <= _LARGEST_CONSTANT):
        raise Unsuitable("frame: scales must lie in (0, 1e25), one for each column, and the constant in [1e-6, 1e3]")
    return own


def check_center(center: Vector, problem: Problem) -> None:
    """Raise `Unsuitable` unless the center is in the range of means."""
    if center.shape != (problem.d - 1,) or not (np.abs(center) <= 1).all():
        raise Unsuitable("center must have one coordinate in [-1, 1] for each column but the constant")
