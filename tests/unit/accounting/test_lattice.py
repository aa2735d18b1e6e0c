import math

import numpy as np
import pytest

from accounting.errors import OutOfRange
from accounting.noise import Noise
from accounting.noise.lattice import Lattice
from tests.support.seeded import SeededBits


@pytest.mark.parametrize("z", [0.05, 1.0, 300.0, 1e6])
@pytest.mark.parametrize("bound", [1e-9, 0.3, 1e5])
@pytest.mark.parametrize("dimension", [1, 54, 4096])
def test_the_std_pays_for_bound_and_rounding(z: float, bound: float, dimension: int) -> None:
    lattice = Lattice.fit(z, bound, dimension)
    assert lattice.std >= z * (bound + lattice.spacing * math.sqrt(dimension))
    assert lattice.std <= z * bound * 1.02
    assert math.frexp(lattice.spacing)[0] == 0.5
    assert 2.0**24 <= lattice.std / lattice.spacing <= 2.0**33


def test_noise_beyond_the_lattice_is_refused() -> None:
    with pytest.raises(OutOfRange, match="beyond the lattice"):
        Lattice.fit(1e9, 1.0, 4096)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_only_positive_finite_numbers(bad: float) -> None:
    for arguments in ((bad, 1.0, 2), (1.0, bad, 2)):
        with pytest.raises(OutOfRange):
            Lattice.fit(*arguments)


def test_answers_are_lattice_points_and_hide_the_sign_of_zero() -> None:
    lattice = Lattice.fit(1.0, 1.0, 3)
    noise = Noise(SeededBits(3))
    for value in (0.0, -0.0, 1.5, -3e300, 3e300):
        answer = lattice.perturb(np.full(2000, value), noise)
        assert np.array_equal(np.rint(answer / lattice.spacing), answer / lattice.spacing)
        assert np.isfinite(answer).all()
        assert not np.any(np.signbit(answer) & (answer == 0))


def test_a_negative_zero_never_comes_out() -> None:
    class Zeros:
        """Bits whose noise is always -0: sign bit set, tail probability just below one half."""

        def words(self, count: int) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
            return np.full(count, (1 << 64) - 1, dtype=np.uint64)

    answer = Lattice.fit(1.0, 1.0, 1).perturb(np.array([-0.0]), Noise(Zeros()))
    assert answer[0] == 0
    assert not np.signbit(answer[0])


@pytest.mark.parametrize("value", [np.zeros((1, 5)), np.zeros((3, 3)), np.array([0.0, np.nan]), np.array([np.inf])])
def test_only_finite_vectors_are_answered(value: np.ndarray) -> None:
    """A matrix would get one draw of noise for many entries."""
    with pytest.raises(OutOfRange):
        Lattice.fit(1.0, 1.0, 3).perturb(value, Noise(SeededBits(3)))


@pytest.mark.parametrize("bound", [1e-300, 1e300])
def test_noise_of_no_exact_arithmetic_is_refused(bound: float) -> None:
    with pytest.raises(OutOfRange, match="outside the range"):
        Lattice.fit(1.0, bound, 2)
