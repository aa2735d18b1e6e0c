"""When the end of a job is told: t_k = 2^k / 4 seconds, k = 0, 1, ..., from its submission, not before its forecast.

How long arithmetic takes can depend on the records: on how many a batch drew, say, which a proof keeps secret. So an
attempt that has ended goes on to look like one that runs, to everybody and in everything, until the grid's next point
(docs/spec 24). Its slot comes free by the same rule, from its start or its submission, so that what waits
behind it starts at times that tell no more.
"""

from typing import Final

_FIRST: Final = 0.25
_SAME: Final = 1 + 1e-9  # a difference of two clock readings that should be a point of the grid


def next_point(elapsed: float, least: float = 0.0) -> float:
    """The least t_k > elapsed with t_k >= least."""
    point = _FIRST
    while point <= elapsed * _SAME or point < least:
        point *= 2
    return point


def point_at(elapsed: float, least: float = 0.0) -> float:
    """The least t_k >= elapsed with t_k >= least."""
    point = _FIRST
    while point * _SAME < elapsed or point < least:
        point *= 2
    return point
