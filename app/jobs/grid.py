"""The public times at which the end of a job is reported: t_k = 2^k / 4 seconds, k = 0, 1, ..., after its submission.

The duration of arithmetic can depend on the records, for example on how many a batch drew, which a proof may keep
secret. Therefore an attempt that has ended looks in every respect like a running one until the next point of the grid,
and until its predicted end (docs/spec 24). Its worker slot becomes free by the same rule, measured from its start or
its submission, so that the start of the next job reveals nothing more.
"""

from typing import Final

_FIRST_SECONDS: Final = 0.25
_TOLERANCE: Final = 1 + 1e-9  # of a difference of two clock readings that should be a point of the grid


def next_point(elapsed: float, earliest: float = 0.0) -> float:
    """Return the first t_k > elapsed with t_k >= earliest."""
    point = _FIRST_SECONDS
    while point <= elapsed * _TOLERANCE or point < earliest:
        point *= 2
    return point


def point_at(elapsed: float, earliest: float = 0.0) -> float:
    """Return the first t_k >= elapsed with t_k >= earliest."""
    point = _FIRST_SECONDS
    while point * _TOLERANCE < elapsed or point < earliest:
        point *= 2
    return point
