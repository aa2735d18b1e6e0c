import math

import pytest

from accounting import Privacy
from accounting.errors import OutOfRange


@pytest.mark.parametrize("epsilon", [math.nan, 0.0, 1e-4, 100.1, True])
def test_epsilon_is_finite_and_in_range(epsilon: object) -> None:
    with pytest.raises(OutOfRange):
        Privacy(epsilon, 1e-6)  # type: ignore[arg-type]


@pytest.mark.parametrize("delta", [math.nan, math.inf, -1e-9, 5e-324, 1e-13, 0.02, 1.0, False, "1e-6", None])
def test_delta_is_zero_or_in_range(delta: object) -> None:
    with pytest.raises(OutOfRange):
        Privacy(1.0, delta)  # type: ignore[arg-type]


def test_pure_is_delta_zero() -> None:
    assert Privacy(1).is_pure
    assert not Privacy(1, 1e-6).is_pure
    assert Privacy(1).epsilon == 1.0
    assert type(Privacy(1).epsilon) is float
