"""The benchmark of regression tables: what intervals aim at, and the lines that it prints."""

import numpy as np
import pytest

from benchmarks.inference import Draws, report, settings, table_of
from benchmarks.inference_designs import correlated_rows
from benchmarks.inference_populations import Rows, Sample, center, sandwich
from benchmarks.inference_rivals import sufficient_statistics
from solvers.columns import Columns


def test_a_finite_population_aims_at_its_weighted_fit() -> None:
    """With errors that are independent of the columns, the weights do not move the slopes, and rows are many."""
    rng, slopes = np.random.default_rng(1), np.array([0.5, -0.3])
    X = correlated_rows(50_000, rng, 2)
    rows = Rows("test", Columns((1, 1)), "linear", Sample(X, X @ slopes + 0.1 + 0.1 * rng.standard_normal(50_000)))
    draws = Draws(rows, 5000, "replace_one")
    quote = draws.quote(4.0)
    assert quote is not None
    result = table_of(quote, rows.draw(5000, rng), rng)
    np.testing.assert_allclose(rows.aim(result), [*slopes, 0.1], atol=0.01)
    np.testing.assert_allclose(rows.whole_fit, [*slopes, 0.1], atol=0.01)


def test_the_center_of_symmetric_errors_is_their_mean_and_that_of_skewed_errors_is_below() -> None:
    errors = np.random.default_rng(1).standard_exponential(100_000) - 1
    assert center(np.concatenate((errors, -errors)), 0.5) == pytest.approx(0, abs=1e-9)
    assert -0.4 < center(errors, 0.5) < -0.1
    assert center(errors, 100.0) == pytest.approx(float(errors.mean()), abs=1e-9)


def test_the_covariance_without_privacy_is_that_of_least_squares() -> None:
    rng, n = np.random.default_rng(1), 100_000
    X = correlated_rows(n, rng, 2)
    sample = Sample(X, X @ np.array([0.5, 0.0]) + 0.1 * rng.standard_normal(n))
    rows = sample.with_constant
    expected = 0.1**2 * np.linalg.inv(rows.T @ rows / n)
    np.testing.assert_allclose(sandwich(sample, np.array([0.5, 0.0, 0.0]), "linear", 1), expected, rtol=0.1, atol=1e-3)


def test_sufficient_statistics_have_the_coefficients_of_least_squares_without_noise() -> None:
    rng, n = np.random.default_rng(1), 5000
    level = rng.integers(0, 3, n)
    X = np.column_stack((correlated_rows(n, rng, 1), np.eye(3)[level]))
    y = 0.4 * X[:, 0] + 0.2 * (level == 1) - 0.1
    statistics = sufficient_statistics(Sample(X, y), (1, 3), 1e9, rng)
    np.testing.assert_allclose(statistics.coefficients, [0.4, 0.0, 0.2, 0.0, -0.1], atol=1e-6)
    assert (np.diag(statistics.covariance)[[0, 2, 3, 4]] > 0).all()


@pytest.mark.parametrize("mu", [0.5, 1e9])
def test_bootstrap_intervals_of_many_rows_are_as_wide_as_analytic_ones(mu: float) -> None:
    """With many rows the coefficients are nearly linear in the noise, so both methods estimate one covariance."""
    rng, n = np.random.default_rng(2), 200_000
    X = correlated_rows(n, rng, 2)
    y = X @ np.array([0.5, -0.3]) + 0.1 * rng.standard_normal(n)
    statistics = sufficient_statistics(Sample(X, y), (1, 1), mu, rng)
    (low, high), (bootstrap_low, bootstrap_high) = (
        statistics.analytic(np.eye(3)),
        statistics.bootstrap(np.eye(3), rng),
    )
    np.testing.assert_allclose((bootstrap_high - bootstrap_low) / (high - low), 1.0, atol=0.25)
    np.testing.assert_allclose((bootstrap_high + bootstrap_low) / 2, (high + low) / 2, atol=0.3 * (high - low).max())


def test_the_names_of_cells_differ() -> None:
    names = [setting.name(epsilon) for setting in settings() for epsilon in setting.epsilons]
    assert len(names) == len(set(names))


def test_a_report_prints_the_chosen_cells_and_the_same_figures_again(capsys: pytest.CaptureFixture[str]) -> None:
    report(3, r"linear correlated n=1000 d=(3|30) epsilon=4")
    first = capsys.readouterr().out
    report(3, r"linear correlated n=1000 d=(3|30) epsilon=4")
    assert capsys.readouterr().out == first
    head, line, refused = first.splitlines()
    assert line.startswith("linear correlated n=1000 d=3 epsilon=4")
    assert len(line) > len(head.split("suff.")[0])
    assert refused.startswith("linear correlated n=1000 d=30 epsilon=4")
    assert "refused" in refused
