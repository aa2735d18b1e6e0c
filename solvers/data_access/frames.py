"""Rows as a released frame has them, z(x) = (a o (x' - m), c): formed nowhere; docs/proofs/standardisation.md."""

from dataclasses import replace

import numpy as np

from solvers import kernels
from solvers.data_access.data import Data
from solvers.errors import Unsuitable
from solvers.frame import Frame
from solvers.problem import Problem, Vector

_CONSTANTS = 1e-6, 1e3  # of frames: no square of a norm or its inverse underflows


def framed(data: Data, frame: Frame, row_norm: float) -> Data:
    """The rows t_i (a o (x_i - m), c), t_i = min(1, R_z / their norm), of the records as they are stored.

    How much longer than R_z a term of their sums may be is the problem's `stretch`: a run takes its problem from here.
    That has no declared columns, so that there is no frame within a frame.

    Raises
    ------
    Unsuitable
        if the columns are not declared, the frame is out of range: functions of the question alone.
    """
    problem, own = data.problem, checked(frame, data.problem)
    records = in_frame(data, own)
    scale = np.minimum(1.0, row_norm * kernels.inverse_norms(records)) * data.present()
    return replace(data, records=records, scale=scale, problem=met(problem, own, row_norm), kept={})


def met(problem: Problem, own: Frame, row_norm: float) -> Problem:
    """The problem of the rows of a checked frame."""
    longest = min(1.0, row_norm / own.constant) * own.longest(problem.columns) / row_norm
    return replace(problem, row_norm=row_norm, columns=None, stretch=max(1.0, longest))


def in_frame(data: Data, frame: Frame) -> "kernels.Records":
    """Return the records as the loops read them in a frame, not shortened."""
    framed = data.records._replace(center=frame.center, shrink=frame.scale, intercept=frame.constant)
    return framed.read_only()


def checked(frame: Frame, problem: Problem) -> Frame:
    """A copy of a frame that nobody else holds: what is computed from exact sums is the door's own doing.

    Raises
    ------
    Unsuitable
        if the columns are not declared, or the frame is out of range: functions of the question alone.
    """
    own = Frame(np.array(frame.center, dtype=float), np.array(frame.scale, dtype=float), float(frame.constant))
    if problem.columns is None:
        raise Unsuitable("a frame is for declared columns")
    check_center(own.center, problem)
    fits = own.scale.shape == own.center.shape and ((own.scale > 0) & (own.scale < 1e25)).all()
    if not (fits and _CONSTANTS[0] <= own.constant <= _CONSTANTS[1]):
        raise Unsuitable("a frame has a positive scale for each column and a constant in [1e-6, 1e3]")
    return own


def check_center(center: Vector, problem: Problem) -> None:
    """`Unsuitable` unless the center lies where means can."""
    if center.shape != (problem.d - 1,) or not (np.abs(center) <= 1).all():
        raise Unsuitable("a center has a coordinate in [-1, 1] for each column but the constant")
