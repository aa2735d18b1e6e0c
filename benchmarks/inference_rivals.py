"""Rivals of regression tables for numbers: noisy sufficient statistics, with analytic and with bootstrap intervals."""

import math
from dataclasses import dataclass

import numpy as np

from benchmarks.inference_populations import Matrix, Sample, Vector

_Z = 1.959964
_SHARES = 0.45, 0.45, 0.1  # of mu^2: products of columns, products with the target, squared targets
_LEAST_EIGENVALUE = 0.5  # in norms of the noise
_LEAST_VARIANCE = 1e-4
_REPLICATES = 200  # of a bootstrap
_TAILS = 0.025, 0.975


@dataclass(frozen=True, eq=False)
class SufficientStatistics:
    """Noisy means of products of a row, its target and itself; one release for all rivals.

    Parameters
    ----------
    records : n
    moments : X'X / n, with small eigenvalues raised
    products : X'y / n
    residual_variance : y'y / n less the part that the coefficients explain
    moments_std, products_std : noise stds of a diagonal entry of `moments`, and of an entry of `products`
    embedding : from the free parameters to the coded columns and the intercept; each category lacks its first level
    """

    records: int
    moments: Matrix
    products: Vector
    residual_variance: float
    moments_std: float
    products_std: float
    embedding: Matrix

    @property
    def _free(self) -> Vector:
        return np.asarray(np.linalg.solve(self.moments, self.products))

    @property
    def coefficients(self) -> Vector:
        """Coefficients of the coded columns and the intercept."""
        return np.asarray(self.embedding @ self._free)

    @property
    def covariance(self) -> Matrix:
        """Covariance of `coefficients`, with sampling error and all noise, to first order."""
        b, inverse = self._free, np.linalg.inv(self.moments)
        by_moments = self.moments_std**2 / 2 * (float(b @ b) * np.eye(len(b)) + np.outer(b, b))
        scores = self._sampling + self.products_std**2 * np.eye(len(b)) + by_moments
        return np.asarray(self.embedding @ inverse @ scores @ inverse @ self.embedding.T)

    @property
    def _sampling(self) -> Matrix:
        return self.residual_variance * self.moments / self.records

    def analytic(self, contrasts: Matrix) -> tuple[Vector, Vector]:
        """Return the lower and upper ends of normal intervals with `covariance`. Method of dp-statsmodels."""
        half = _Z * np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", contrasts, self.covariance, contrasts), 1e-300))
        return contrasts @ self.coefficients - half, contrasts @ self.coefficients + half

    def bootstrap(self, contrasts: Matrix, rng: np.random.Generator) -> tuple[Vector, Vector]:
        """Return the ends of intervals from a parametric bootstrap of statistics and noise (Ferrando et al. 2022).

        A replicate adds new noise to the moments. Its products are drawn from the fitted model with the released
        moments, and get new noise. An interval subtracts the quantiles of the replicates' errors from the estimate.
        """
        b, d = self._free, len(self.products)
        moments = _raised(self.moments + self.moments_std * symmetric(rng, d, _REPLICATES), self.moments_std)
        sampling = rng.standard_normal((_REPLICATES, d)) @ np.linalg.cholesky(self._sampling).T
        noise = self.products_std * rng.standard_normal((_REPLICATES, d))
        replicates = np.linalg.solve(moments, (self.moments @ b + sampling + noise)[:, :, None])[:, :, 0]
        low, high = np.quantile((replicates - b) @ self.embedding.T @ contrasts.T, _TAILS, axis=0)
        return contrasts @ self.coefficients - high, contrasts @ self.coefficients - low


def sufficient_statistics(
    sample: Sample, widths: tuple[int, ...], mu: float, rng: np.random.Generator
) -> SufficientStatistics:
    """Return noisy X'X, X'y and y'y of columns as declared, each category less its first level; a row is replaced."""
    starts = np.concatenate(([0], np.cumsum(widths)))[:-1]
    chosen = np.array([s + j for s, w in zip(starts, widths, strict=True) for j in range(min(w - 1, 1), w)])
    chosen = np.append(chosen, sum(widths))
    rows, y = sample.with_constant[:, chosen], sample.y
    n, d = rows.shape
    by_rows, by_target, by_squares = (1 / (n * mu * math.sqrt(share)) for share in _SHARES)
    moments_std, products_std = math.sqrt(2) * d * by_rows, 2 * math.sqrt(d) * by_target
    moments = _raised(rows.T @ rows / n + moments_std * symmetric(rng, d, 1)[0], moments_std)
    products = rows.T @ y / n + products_std * rng.standard_normal(d)
    squares = float(np.mean(y * y)) + by_squares * float(rng.standard_normal())
    b = np.linalg.solve(moments, products)
    variance = max(squares - 2 * float(b @ products) + float(b @ moments @ b), _LEAST_VARIANCE)
    embedding = np.eye(sum(widths) + 1)[:, chosen]
    return SufficientStatistics(n, moments, products, variance, moments_std, products_std, embedding)


def symmetric(rng: np.random.Generator, size: int, count: int) -> Matrix:
    """Return symmetric matrices of normal noise, with variance 1 on the diagonal and 1/2 off it."""
    noise = np.triu(rng.standard_normal((count, size, size)), 1) / math.sqrt(2)
    diagonal = rng.standard_normal((count, size))[:, :, None] * np.eye(size)
    return np.asarray(noise + noise.transpose(0, 2, 1) + diagonal)


def _raised(moments: Matrix, std: float) -> Matrix:
    """Return matrices whose small eigenvalues are raised to a multiple of the norm of their noise."""
    values, vectors = np.linalg.eigh(moments)
    values = np.maximum(values, _LEAST_EIGENVALUE * std * math.sqrt(2 * moments.shape[-1]))
    return np.asarray((vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2))
