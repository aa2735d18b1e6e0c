"""The growth benchmark's instances: their closed forms against sampled rows, their growth, their prox."""

import itertools

import numpy as np
import pytest

from benchmarks.growth import measure
from benchmarks.growth_instances import SHIFT, Instance, PowerNorm, convex, linear, one_sided, power
from solvers.losses.smoothing import smoothed

ALL = [power(1.25, 1), power(1.5, 5), one_sided(1.25), one_sided(1.5), linear(2, 5), linear(3, 5), convex(5)]
N = 40_000


def _ids(instance: Instance) -> str:
    return f"{instance.name} {instance.kappa} {instance.d}"


@pytest.mark.parametrize("instance", ALL, ids=_ids)
def test_the_excess_is_the_expected_loss_less_its_least_value(instance: Instance) -> None:
    rng = np.random.default_rng(1)
    X, y, excess = instance.draw(N, 1.0, rng)
    problem = instance.problem(N, 1.0)

    def losses(w: np.ndarray) -> np.ndarray:
        return problem.loss.value(X @ w, y) + problem.regularizer.value(w)

    points = [problem.domain.project(rng.normal(size=instance.d) / 2) for _ in range(4)]
    for first, second in itertools.pairwise(points):
        gaps = losses(first) - losses(second)
        assert abs(gaps.mean() - (excess(first) - excess(second))) <= 6 * gaps.std() / np.sqrt(N) + 1e-9
        assert min(excess(first), excess(second)) >= 0


@pytest.mark.parametrize("instance", ALL, ids=_ids)
def test_the_least_excess_is_nought_and_not_at_the_start(instance: Instance) -> None:
    _, _, excess = instance.draw(N, 1.0, np.random.default_rng(2))
    problem = instance.problem(N, 1.0)
    # from the instance's center, since the hard minimizers lie within a hair of it
    center = np.zeros(instance.d) if np.isinf(instance.kappa) else np.full(instance.d, SHIFT / np.sqrt(instance.d))
    assert excess(center) < 0.1 * excess(problem.start) or np.isinf(instance.kappa)
    assert 0 <= excess(center) < 2 / np.sqrt(N)


@pytest.mark.parametrize("kappa", [1.25, 1.5])
def test_the_smoothed_one_sided_slope_is_near_the_derivative(kappa: float) -> None:
    loss = one_sided(kappa).problem(N, 1.0).loss
    m = np.linspace(-1.0, 1.0, 4_001) + 1e-5
    for y in (-1.0, 1.0):
        targets = np.full(m.shape, y)
        exact = (loss.value(m + 1e-7, targets) - loss.value(m - 1e-7, targets)) / 2e-7
        smooth = smoothed(loss, 1e-3)
        is_exact = np.abs(y * (m - SHIFT) - loss.a) > 2e-3  # type: ignore[union-attr]
        assert np.allclose(smooth.slope(m, targets)[is_exact], exact[is_exact], atol=2e-6)
        assert np.abs(np.diff(smooth.slope(m, targets))).max() <= smooth.curvature_bound * 5.1e-4
        assert np.abs(smooth.slope(m, targets)).max() <= loss.slope_bound


@pytest.mark.parametrize("instance", [one_sided(1.5), linear(2, 3), convex(3)], ids=_ids)
def test_methods_run_on_the_losses_of_the_theorems(instance: Instance) -> None:
    points = list(measure([(instance, 1024, 4.0)], 1))
    assert [point.name for point in points] == ["localization", "epoch_growth"]
    assert all(np.isfinite(point.risks).all() for point in points)


@pytest.mark.parametrize("exponent", [2, 3])
def test_the_prox_of_the_power_of_the_norm_is_optimal(exponent: int) -> None:
    r, rng = PowerNorm(exponent, 0.3), np.random.default_rng(3)
    for step in (0.01, 1.0, 30.0):
        w = rng.normal(size=3)
        u = r.prox(w, step)
        here = step * r.value(u) + np.sum((u - w) ** 2) / 2
        for _ in range(50):
            v = u + rng.normal(size=3) * 1e-3
            assert here <= step * r.value(v) + np.sum((v - w) ** 2) / 2 + 1e-12
