"""The sizes that the benchmark of partitions compares."""

from itertools import pairwise

import pytest

from benchmarks.partitions import sizes


@pytest.mark.parametrize("count", [1, 2, 3, 8, 11, 31, 344])
def test_sizes_grow_up_to_all_partitions(count: int) -> None:
    chosen = sizes(count)
    assert all(smaller < larger for smaller, larger in pairwise(chosen)), "an exponent needs two different sizes"
    assert chosen[-1] == count


def test_many_partitions_give_three_sizes() -> None:
    assert sizes(344) == [21, 86, 344]
