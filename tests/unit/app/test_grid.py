"""The public grid of times."""

import pytest

from app.jobs.grid import next_point, point_at


@pytest.mark.parametrize(
    ("elapsed", "earliest", "at", "next_time"),
    [
        (0.0, 0.0, 0.25, 0.25),
        (-5.0, 0.0, 0.25, 0.25),
        (0.2, 0.0, 0.25, 0.25),
        (0.25, 0.0, 0.25, 0.5),
        (0.26, 0.0, 0.5, 0.5),
        (0.1, 3.0, 4.0, 4.0),
        (4.0, 3.0, 4.0, 8.0),
        (5.0, 3.0, 8.0, 8.0),
        (3600.0, 0.0, 4096.0, 4096.0),
        ((1e9 + 0.25) - 1e9, 0.0, 0.25, 0.5),
        ((1e6 + 0.1 + 0.25) - (1e6 + 0.1), 0.0, 0.25, 0.5),  # 0.25 and some roundings
        ((3e5 + 0.7 + 64.0) - (3e5 + 0.7), 0.0, 64.0, 128.0),
    ],
)
def test_points_are_quarters_times_powers_of_two(elapsed: float, earliest: float, at: float, next_time: float) -> None:
    assert point_at(elapsed, earliest) == at
    assert next_point(elapsed, earliest) == next_time
