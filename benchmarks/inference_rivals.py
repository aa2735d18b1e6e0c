"""A rival of regression tables for numbers: noisy sufficient statistics with analytic standard errors."""

import math

import numpy as np

from benchmarks.inference_populations import Matrix, Sample, Vector

_SHARES = 0.45, 0.45, 0.1  # of mu^2: products of columns, products with the target, squared targets
_LEAST_EIGENVALUE = 0.5  # in norms of the noise
_LEAST_VARIANCE = 1e-4


def sufficient_statistics(
    sample: Sample, widths: tuple[int, ...], mu: float, rng: np.random.Generator
) -> tuple[Vector, Matrix]:
    """Return coefficients of the coded columns and the intercept, and their covariance, from noisy X'X, X'y and y'y.

    Columns are as declared, each category less its first level. The covariance has sampling error and all noise.
    A row is replaced. Standard: Evans et al. (2023), dp-statsmodels.
    """
    starts = np.concatenate(([0], np.cumsum(widths)))[:-1]
    chosen = np.array([s + j for s, w in zip(starts, widths, strict=True) for j in range(min(w - 1, 1), w)])
    chosen = np.append(chosen, sum(widths))
    rows, y = sample.with_constant[:, chosen], sample.y
    n, d = rows.shape
    by_rows, by_target, by_squares = (1 / (n * mu * math.sqrt(share)) for share in _SHARES)
    std = math.sqrt(2) * d * by_rows
    noise = np.triu(rng.standard_normal((d, d)), 1) / math.sqrt(2)
    moments = rows.T @ rows / n + std * (noise + noise.T + np.diag(rng.standard_normal(d)))
    values, vectors = np.linalg.eigh(moments)
    values = np.maximum(values, _LEAST_EIGENVALUE * std * math.sqrt(2 * d))
    moments, inverse = (vectors * values) @ vectors.T, (vectors / values) @ vectors.T
    target_std = 2 * math.sqrt(d) * by_target
    products = rows.T @ y / n + target_std * rng.standard_normal(d)
    squares = float(np.mean(y * y)) + by_squares * float(rng.standard_normal())
    b = inverse @ products
    variance = max(squares - 2 * float(b @ products) + float(b @ moments @ b), _LEAST_VARIANCE)
    spread = target_std**2 * np.eye(d) + std**2 / 2 * (float(b @ b) * np.eye(d) + np.outer(b, b))
    covariance = inverse @ (variance * moments / n + spread) @ inverse
    embedding = np.eye(sum(widths) + 1)[:, chosen]
    return embedding @ b, embedding @ covariance @ embedding.T
