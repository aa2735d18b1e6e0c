"""Ordered slots under zero_out: records that occur, an adaptive choice of records, and the laws of the bound.

In units of b, record j has the contribution -c, which record i replaces. Record i moves it by u <= 2c, and null by
u' <= c, and u and u' differ by at most c.
"""

import itertools
import math

import numpy as np
import pytest

from accounting.divergences import allocation, slot_law
from accounting.divergences.allocation import hockey_stick
from accounting.divergences.gaussian import gauss_delta
from accounting.divergences.slot_law import Shifts
from accounting.mechanisms import RandomAllocation
from tests.reference.allocation import of_two
from tests.reference.normal import Vector

CASES = [(0.5, 0.5, 0.1), (0.5, 1.0, 0.5), (0.99, 1.0, 0.02), (0.1, 1.5, 1.0), (0.5, 2.0, 2.0)]  # rate, c and epsilon
SIDES = allocation.ORDERED_SHIFTS["zero_out"]
MUTANT: tuple[tuple[Shifts, Shifts], ...] = (((1, 0), (0, 1)), ((1, 0), (0, 1)))  # as if record j were null, too


def grid(c: float) -> tuple[Vector, Vector]:
    y = np.linspace(-9.0, 9 + 2 * c, 6001)
    return y, np.exp(-y * y / 2) / math.sqrt(2 * math.pi) * (y[1] - y[0])


def ratio(y: Vector, shift: float) -> Vector:
    return np.asarray(np.exp(shift * y - shift * shift / 2))


def of_records(q: float, c: float, epsilon: float) -> float:
    """H_gamma of two slots, of the worse order of a record that differs from record j by twice the bound, and null."""
    y, phi = grid(c)
    gamma, values = math.exp(epsilon), []
    for first, second in ((2 * c, c), (c, 2 * c)):
        x = ratio(y, first) - gamma * ratio(y, second)
        order = np.argsort(x)
        values.append(q * of_two(x[order], phi[order], (1 - q) * (gamma - 1) / q))
    return max(values)


def of_adaptive_records(q: float, c: float, epsilon: float, reverse: bool) -> float:
    """The same, if the displacements in the second slot are chosen for each first answer, on a line."""
    y, phi = grid(c)
    y, phi = y[::20], phi[::20] * 20
    gamma, kappa = math.exp(epsilon), (1 - q) * (math.exp(epsilon) - 1) / q
    shifts = c * np.linspace(-2, 2, 9)
    pairs = [(u, v) for u, v in itertools.product(shifts, shifts) if abs(v) <= c and abs(u - v) <= c * (1 + 1e-9)]
    pairs = [(v, u) for u, v in pairs] if reverse else pairs
    terms = [ratio(y, first) - gamma * ratio(y, second) for first, second in pairs]
    r = np.sinh(np.linspace(-12, 12, 1201)) * 1e-2
    best = np.max([np.maximum(r[:, None] + z / 2 - kappa, 0.0) @ phi for z in terms], axis=0)
    return q * max(float(np.interp(z / 2, r, best) @ phi) for z in terms)


@pytest.mark.parametrize(("q", "c", "epsilon"), CASES)
def test_no_records_exceed_the_bound_and_some_come_near(q: float, c: float, epsilon: float) -> None:
    bound = hockey_stick(RandomAllocation(q, 2, "ordered"), 1 / c, epsilon, "zero_out")
    assert 0.7 * bound < of_records(q, c, epsilon) <= bound
    assert bound < 0.9 * hockey_stick(RandomAllocation(q, 2, "ordered"), 1 / c, epsilon)


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("q", "c", "epsilon"), CASES)
def test_no_adaptive_choice_of_records_exceeds_the_bound(q: float, c: float, epsilon: float, reverse: bool) -> None:
    bound = hockey_stick(RandomAllocation(q, 2, "ordered"), 1 / c, epsilon, "zero_out")
    adaptive = of_adaptive_records(q, c, epsilon, reverse)
    assert adaptive <= bound * 1.002  # of the coarse grid
    assert reverse or adaptive > 0.75 * bound


@pytest.mark.parametrize(("q", "c", "epsilon"), CASES)
def test_mutant_with_half_the_shift_is_exceeded_by_records(
    q: float, c: float, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(allocation.ORDERED_SHIFTS, "zero_out", MUTANT)
    assert hockey_stick(RandomAllocation(q, 2, "ordered"), 1 / c, epsilon, "zero_out") < of_records(q, c, epsilon)


@pytest.mark.parametrize(("above", "below"), [((2, 0), (0, 2)), *SIDES])
@pytest.mark.parametrize(("c", "gamma"), [(0.05, 1.05), (0.3, math.e), (1.0, 1.0), (1.0, 50.0), (2.5, 3.0)])
def test_the_law_has_the_mean_and_the_stop_losses_of_its_parts(
    above: Shifts, below: Shifts, c: float, gamma: float
) -> None:
    law = slot_law.ordered(c, gamma, above, below)
    y = np.linspace(-12 - 4 * c, 12 + 4 * c, 400_001)
    phi = np.exp(-y * y / 2) / math.sqrt(2 * math.pi) * (y[1] - y[0])
    gain, loss = (ratio(y, c * first) - gamma * ratio(y, c * second) for first, second in (above, below))
    assert law.masses.min() >= 0
    assert (np.diff(law.points) > 0).all()
    assert float(law.masses.sum()) == pytest.approx(1.0, abs=1e-12)
    assert float(law.masses @ law.points) + law.cut == pytest.approx(1 - gamma, abs=1e-9 * gamma)
    for s in (-0.9 * gamma, -0.1, -0.01, 0.0, 0.01, 0.1, 2.0):
        sign = 1 if s >= 0 else -1
        exact = float(np.maximum(sign * ((gain if s >= 0 else loss) - s), 0.0) @ phi)
        bound = float(law.masses @ np.maximum(sign * (law.points - s), 0.0))
        assert exact * (1 - 1e-6) - 1e-12 <= bound + law.cut
        assert bound <= exact * 1.01 + 1e-4 * gamma


def test_a_null_record_needs_less_noise_for_ordered_slots_than_a_replaced_one() -> None:
    mechanism = RandomAllocation(0.5, 20, "ordered")
    null_epsilon, replaced_epsilon = (
        allocation.epsilon(mechanism, 3.0, 1e-6, relation) for relation in ("zero_out", "replace_one")
    )
    assert null_epsilon < 0.9 * replaced_epsilon


@pytest.mark.parametrize(
    ("q", "slots", "noise", "delta"),
    [(0.01, 1, 2.0, 1e-6), (0.5, 1, 2.0, 1e-6), (0.01, 20, 2.0, 1e-6), (1e-3, 30_000, 0.7135, 1.63e-8)],
)
def test_a_null_record_costs_at_most_what_a_replaced_record_costs(
    q: float, slots: int, noise: float, delta: float
) -> None:
    """The lattice may raise the laws of a null record more than the law of a replaced record."""
    mechanism = RandomAllocation(q, slots, "ordered")
    null, replaced = (allocation.epsilon(mechanism, noise, delta, relation) for relation in ("zero_out", "replace_one"))
    assert null <= replaced


@pytest.mark.parametrize(("q", "noise", "epsilon"), [(1.0, 0.05, 0.0), (0.5, 2.0, 0.5), (0.1, 1.0, 1.0)])
def test_one_slot_costs_at_most_one_answer_on_its_records(q: float, noise: float, epsilon: float) -> None:
    bound = hockey_stick(RandomAllocation(q, 1, "ordered"), noise, epsilon, "zero_out")
    assert bound <= min(1.0, q * gauss_delta(1 / noise, epsilon) * (1 + 1e-5))


@pytest.mark.parametrize(("above", "below"), SIDES)
def test_the_cut_covers_laws_whose_mean_is_beyond_the_last_cell(above: Shifts, below: Shifts) -> None:
    c, gamma = 8.0, math.e
    law = slot_law.ordered(c, gamma, above, below)
    y = np.linspace(-12.0, 12 + 4 * c, 400_001)
    phi = np.exp(-y * y / 2) / math.sqrt(2 * math.pi) * (y[1] - y[0])
    gain = ratio(y, c * above[0]) - gamma * ratio(y, c * above[1])
    assert float(np.maximum(gain - law.points[-1], 0.0) @ phi) <= law.cut * (1 + 1e-6)
