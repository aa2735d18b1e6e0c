"""Sums of hidden slots: the law in high precision, the transform on the line, and the value by simulation."""

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from accounting.divergences import slot_law, slot_sums
from accounting.divergences.allocation import hockey_stick
from accounting.divergences.slot_law import SlotLaw
from accounting.mechanisms import RandomAllocation

Vector = NDArray[np.float64]
UNIT = 2.0**-53
exact = mpmath.MPContext()
exact.dps = 50


def within(low: "mpmath.mpf", high: "mpmath.mpf") -> "mpmath.mpf":
    """P(low < N(0, 1) < high)."""
    return (exact.erfc(low / exact.sqrt(2)) - exact.erfc(high / exact.sqrt(2))) / 2


def masses_of_a_cell(
    form: str, c: float, gamma: float, lower: float, upper: float
) -> tuple["mpmath.mpf", "mpmath.mpf"]:
    """Return the masses to put on the ends of [lower, upper], where X has one sign, so that the mean stays."""
    c, gamma, lower, upper = (exact.mpf(each) for each in (c, gamma, lower, upper))
    if form == "independent":
        k = exact.exp(-c * c / 2)
        y = [exact.log((x + exact.sqrt(x * x + 4 * gamma * k * k)) / (2 * k)) / c for x in (lower, upper)]
        chance = within(*y)
        mean = within(y[0] - c, y[1] - c) - gamma * within(y[0] + c, y[1] + c)
    elif lower >= 0:
        mu = 2 * c
        y = [(exact.log(gamma + x) + mu * mu / 2) / mu for x in (lower, upper)]
        chance = within(*y)
        mean = within(y[0] - mu, y[1] - mu) - gamma * chance
    else:
        mu = 2 * c
        y = [(exact.log((1 - x) / gamma) + mu * mu / 2) / mu for x in (upper, lower)]
        chance = within(*y)
        mean = chance - gamma * within(y[0] - mu, y[1] - mu)
    up = (mean - lower * chance) / (upper - lower)
    return chance - up, up


@pytest.mark.parametrize("form", ["independent", "ordered"])
@pytest.mark.parametrize(("c", "gamma"), [(0.05, 1.05), (0.3, math.e), (1.0, 1.0), (1.0, 50.0), (2.5, 3.0)])
def test_masses_are_within_their_stated_relative_error(form: str, c: float, gamma: float) -> None:
    law: SlotLaw = getattr(slot_law, form)(c, gamma)
    tolerance = 2**13 * UNIT * (1 + law.conditioning)
    for i in np.linspace(2, len(law.points) - 3, 40).astype(int):
        if law.points[i - 1] < 0 < law.points[i + 1] or law.points[i] == 0 or law.masses[i] < 1e-280:
            continue
        edges = [float(x) for x in law.points[i - 1 : i + 2]]
        expected = masses_of_a_cell(form, c, gamma, *edges[:2])[1] + masses_of_a_cell(form, c, gamma, *edges[1:])[0]
        assert abs(float(law.masses[i] / expected - 1)) < tolerance / 4
    assert tolerance < 2e-9
    assert float(law.masses.sum()) == pytest.approx(1.0, abs=1e-13)
    assert float(law.masses @ law.points) == pytest.approx(1 - gamma, abs=1e-13 * gamma * (1 + law.conditioning))
    assert law.masses.min() >= 0
    assert (np.diff(law.points) > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["independent", "ordered"])
def test_a_law_is_one_up_to_where_hidden_slots_are_counted_on(form: str) -> None:
    """Far out the cells begin beyond where the exponents of the others end: ascending, no mass lost, none negative."""
    for c in (1e-3, 0.05, 1.0, 4.6, 6.0, 8.0):
        for epsilon in (1e-9, 1.0, 60.0, 120.0, 149.9):
            law: SlotLaw = getattr(slot_law, form)(c, math.exp(epsilon))
            assert (np.diff(law.points) > 0).all()
            assert law.masses.min() >= 0
            assert float(law.masses.sum()) == pytest.approx(1.0, abs=1e-12)
            mean, error = float(law.masses @ law.points), 1e-13 * (1 + law.conditioning) * math.exp(epsilon)
            assert mean >= -math.expm1(epsilon) - error
            if c < 5:  # beyond, the largest exponent cuts off part of it, which is then added elsewhere
                assert mean <= -math.expm1(epsilon) + error
            assert 0 <= slot_sums.excess(law, 2, 0.0) < math.inf


@pytest.mark.parametrize("trim", [1e-3, 0.3])
def test_a_cap_and_a_floor_raise_every_stop_loss(trim: float) -> None:
    law = slot_law.independent(1.2, 2.0)
    trimmed = slot_law.stretch(law, 50, 0.5).within(trim)
    assert trimmed.points[-1] < law.points[-1]
    assert trimmed.points[0] > law.points[0]
    for x in np.linspace(-30, 300, 40):
        exact_stop_loss, stop_loss = (float(each.masses @ np.maximum(each.points - x, 0.0)) for each in (law, trimmed))
        assert stop_loss + trimmed.cut >= exact_stop_loss * (1 - 1e-12)
    assert float(trimmed.masses.sum()) == pytest.approx(1.0, abs=1e-13)


LAW = SlotLaw(np.array([-1.3, -0.2, 0.0, 0.5, 2.7]), np.array([0.2, 0.3, 0.25, 0.2, 0.05]), 0.0, 1.0)


def test_a_negligible_sum_is_bounded_by_the_negligible_amount() -> None:
    for mirrored, kappa in ((True, -0.9), (True, -0.8), (False, 1.3)):
        law = slot_law.single(1.0, mirrored)
        whole = slot_sums.excess(law, 50, kappa)
        assert slot_sums.excess(law, 50, kappa, negligible=whole) == whole
        assert whole < slot_sums.excess(law, 50, kappa, negligible=100 * whole) <= 100 * whole


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(
    ("theta", "size", "kappa"), [(0.1, 4096, 0.9), (0.4, 1000, 0.9), (0.9, 729, 1.203), (0.3, 900, -0.4)]
)
def test_the_circle_against_plain_convolution(theta: float, size: int, kappa: float, apart: bool) -> None:
    """Convolve twelve slots one by one on the line, in extended precision. The circle may only add wrapped values."""
    T, step = 12, 0.1
    circle = slot_sums.circle_sum(LAW, T, kappa, theta, step, size, apart)
    line, total = np.zeros(41, dtype=np.longdouble), np.ones(1, dtype=np.longdouble)
    line[np.round(LAW.points / step).astype(int) + 13] = LAW.masses
    for _ in range(T):
        total = np.convolve(total, line)
    sums = (np.arange(len(total)) - 13 * T) * np.longdouble(step)
    expected = float(total @ np.maximum(sums - T * np.longdouble(kappa), 0))
    # round the circle from below come e^(-theta C) E[(S + C - T kappa)_+], and at a small circle as much from above
    circumference = size * step
    wrapped = math.exp(-theta * circumference) * float(total @ np.maximum(sums + circumference - T * kappa, 0)) * 2
    assert expected * (1 - 1e-12) <= circle.factor * (circle.value + circle.rounding)
    assert circle.factor * circle.value <= (expected + wrapped) * (1 + 1e-9)
    assert 0 < circle.rounding < 1e-6 * circle.value


def test_a_lattice_only_raises_and_states_by_how_much() -> None:
    T, kappa = 12, 0.9
    values = [slot_sums.circle_sum(LAW, T, kappa, 0.4, step, round(100 / step), True) for step in (0.1, 0.083, 0.17)]
    amounts = [circle.factor * circle.value for circle in values]
    assert amounts == sorted(amounts)
    assert amounts[2] / amounts[0] - 1 == pytest.approx(values[2].raised, rel=0.5)


@pytest.mark.parametrize("apart", [False, True])
def test_the_transform_is_within_its_stated_error(apart: bool) -> None:
    """Compare w - 1 with fifty digits. Most of the law's mass lies near 0 and a little far away, as in real laws."""
    rng, size = np.random.default_rng(7), 2000
    place = np.concatenate([np.arange(-6.0, 7.0), rng.integers(-900, 5000, 30).astype(float)])
    masses = np.concatenate([np.exp(-(np.arange(-6.0, 7.0) ** 2) / 4), np.full(30, 1e-5)])
    masses /= masses.sum()
    frequencies, change, _, error, small = slot_sums.transform(place, masses, 30, size, apart)
    assert 0 <= small < 1e-15
    for k, actual, tolerance in list(zip(frequencies, change, error, strict=True))[:: max(1, len(frequencies) // 25)]:
        terms = (m * exact.expjpi(-2 * exact.mpf(int(k)) * int(p) / size) for m, p in zip(masses, place, strict=True))
        expected = sum(terms) - exact.fsum(masses)
        assert abs(exact.mpc(complex(actual)) - expected) <= tolerance + 4 * UNIT
    if apart:
        assert error.max() < 1e-14


def simulated(slots: int, q: float, c: float, epsilon: float, drawn: int) -> tuple[float, float]:
    """Return an unbiased estimate of q E[(S/T - kappa)_+] of the independent form, and its standard error.

    The method is importance sampling. y is drawn from a mixture of five laws and weighted by the ratio of densities.
    The laws shift all coordinates of y, as the sum's large deviations do, or shift the first one far, or both.
    """
    T, gamma, rng = slots, math.exp(epsilon), np.random.default_rng(11)
    kappa, k = (1 - q) * (gamma - 1) / q, math.exp(-c * c / 2)

    def where(x: float, factor: float) -> float:
        """y with factor (e^(cy) - gamma e^(-cy)) = x."""
        return math.log((x / factor + math.sqrt((x / factor) ** 2 + 4 * gamma)) / 2) / c

    drift = max(where(kappa, 1.0), 0.0)
    jump = max(where(max(T * kappa + (T - 1) * (gamma - 1), 1e-9), k), c)
    laws = [(drift, 0.0), (0.6 * drift, 0.0), (0.0, jump), (0.0, max(0.8 * jump, c)), (0.5 * drift, 0.9 * jump)]
    estimates = []
    for shift, extra in laws:
        y = rng.standard_normal((drawn // len(laws), T)) + shift
        y[:, 0] += extra
        logs = [
            a * y.sum(axis=1) - T * a * a / 2 + (log_mean_exp(b * (y - a) - b * b / 2) if b else 0.0) for a, b in laws
        ]
        ratio = np.exp(-log_mean_exp(np.array(logs).T))
        w = np.exp(c * y)
        x = k * (w - gamma / w)
        estimates.append(q * np.maximum(x.mean(axis=1) - kappa, 0.0) * ratio)
    error = math.sqrt(sum(float(each.var()) / len(each) for each in estimates)) / len(laws)
    return float(np.mean(estimates)), error


def log_mean_exp(x: Vector) -> Vector:
    largest = x.max(axis=1, keepdims=True)
    return np.asarray(np.log(np.exp(x - largest).mean(axis=1)) + largest[:, 0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("slots", "q", "c", "epsilon"),
    [
        (2, 0.5, 1.0, 1.5),
        (10, 0.5, 0.3, 0.5),
        (10, 1.0, 0.6, 1.0),
        (40, 0.1, 1.5, 1.0),
        (100, 0.5, 0.05, 0.02),
        (100, 0.5, 0.24, 0.12),
        (100, 0.5, 1.19, 1.0),
        (100, 1.0, 0.5, 0.7),
        (300, 0.5, 0.8, 0.25),
        (300, 0.5, 1.5, 0.5),
        (300, 0.05, 1.7, 0.6),
    ],
)
def test_the_bound_is_never_below_the_truth_and_near_it(slots: int, q: float, c: float, epsilon: float) -> None:
    """From deltas of a tenth to those of 1e-12, which plain simulation could not see. False alarms: below 1e-9."""
    truth, error = simulated(slots, q, c, epsilon, 40_000 if slots == 300 else 20_000)
    bound = hockey_stick(RandomAllocation(q, slots), 1 / c, epsilon)
    assert error < 0.06 * truth
    assert truth - 6.5 * error <= bound <= 1.02 * truth + 6.5 * error


FORMS: dict[str, Callable[[float, float], SlotLaw]] = {"independent": slot_law.independent, "ordered": slot_law.ordered}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_every_way_bounds_the_same_value(form: str) -> None:
    """Compare each choice of cap, tilt, circle and lattice with a lower bound.

    By Jensen's inequality T excess >= E[(X - J)_+], where J is the mean shortfall of the other slots. The law of X here
    is above the exact one by a percent at most.
    """
    rng = np.random.default_rng(3)
    for _ in range(60):
        T, q = int(2 ** rng.uniform(1, 12)), float(rng.choice([0.05, 0.5, 1.0]))
        c, gamma = math.exp(rng.uniform(-2.5, 1.0)), math.exp(math.exp(rng.uniform(-4, 1.5)))
        law, kappa = FORMS[form](c, gamma), (1 - q) * (gamma - 1) / q
        lower_bound = float(law.masses @ np.maximum(law.points - T * kappa - (T - 1) * (gamma - 1), 0.0)) / T
        part = slot_law.stretch(law, T, kappa)
        bounds = [
            slot_sums.circle_bound(slot_sums.trimmed_law(part, kappa, each.trim), T, kappa, each).value
            for each in slot_sums.CIRCLES
        ]
        assert min(bounds) >= 0.98 * lower_bound
        assert slot_sums.excess(law, T, kappa) >= min(bounds) * (1 - 1e-12)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the lattice steps of all circles since the count was set to 0."""
    total, real = [0], slot_sums.circle_sum

    def counted(law: SlotLaw, T: int, kappa: float, theta: float, step: float, size: int, apart: bool) -> object:
        total[0] += size
        return real(law, T, kappa, theta, step, size, apart)

    monkeypatch.setattr(slot_sums, "circle_sum", counted)
    return total


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "c", "T", "q", "saves"),
    [
        ("independent", 3.3, 1480, 0.5, True),
        ("ordered", 1.7, 1480, 0.5, True),
        ("single", 2.9, 1480, 0.5, True),
        ("single", 2.78, 68, 0.1, False),  # few slots: here much coarser steps would still do
        ("single", 2.73, 220, 0.1, False),
        ("ordered", 1.4, 300, 0.05, False),
    ],
)
def test_lattices_skipped_as_too_coarse_change_no_bound(
    form: str, c: float, T: int, q: float, saves: bool, steps: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lattices that are far too coarse took most of the time at a large epsilon, and are skipped.

    Every bound stays the same, because stored receipts and charges must recompute.
    """

    def along() -> tuple[list[float], int]:
        steps[0], bounds = 0, []
        for gamma in np.exp(np.arange(0.05, 8.0, 0.4)):
            if form == "single":
                bounds.append(slot_sums.excess(slot_law.single(c, False), T, 1 + (gamma - 1) / q))
            else:
                bounds.append(slot_sums.excess(FORMS[form](c, gamma), T, (1 - q) * (gamma - 1) / q))
        return bounds, steps[0]

    skipping_bounds, skipping_steps = along()
    monkeypatch.setattr(slot_sums, "SKIPPED_RAISE", math.inf)
    full_bounds, full_steps = along()
    assert skipping_bounds == full_bounds
    assert skipping_steps < full_steps if saves else skipping_steps <= full_steps


@pytest.mark.slow
@pytest.mark.parametrize("hasty", [False, True])
@pytest.mark.parametrize(("c", "T", "q"), [(2.38, 1480, 0.5), (2.9, 800, 0.02), (2.1, 45, 0.5)])
def test_hints_save_steps_along_a_curve_and_change_bounds_little(
    c: float, T: int, q: float, hasty: bool, steps: list[int]
) -> None:
    """Hints of the previous sum let a search skip strategies. Each sum is still a bound, though not always the same."""

    def curve(along: slot_sums.SearchHints | None) -> tuple[np.ndarray, int]:
        steps[0], bounds = 0, []
        for gamma in np.exp(np.arange(0.05, 8.0, 0.2)):
            bounds.append(slot_sums.excess(slot_law.single(c, False), T, 1 + (gamma - 1) / q, along))
        return np.array(bounds), steps[0]

    plain, plain_steps = curve(None)
    hinted, hinted_steps = curve(slot_sums.SearchHints(begins_with_last=hasty))
    assert (hinted >= 0.97 * plain).all()
    assert (hinted <= 1.03 * plain).all()
    assert hinted_steps < plain_steps
