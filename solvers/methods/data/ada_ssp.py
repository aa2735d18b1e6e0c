"""AdaSSP: least squares from noisy sufficient statistics, with a ridge chosen from them (Wang 2018, Algorithm 2)."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from accounting.mechanisms import Gaussian
from accounting.plan import Query
from accounting.privacy import Privacy
from solvers.bounds import UNIT, unfolded_rows
from solvers.domains import Free
from solvers.doors import Access
from solvers.errors import NeedsDelta, Unsuitable
from solvers.losses import Squared
from solvers.methods.run import Bounds, DataRun, Strict
from solvers.problem import Problem, Vector
from solvers.regularizers import L2, NoRegularizer

_WIDEST = 1024  # columns: the second moments are d (d + 1) / 2 numbers, their eigenvalues d^3 operations
_LEAST_SHARE = 0.1  # of mu^2, for the least eigenvalue; the rest is halved between the two statistics
_CONFIDENCE = 0.05  # Wang's rho: with what chance the ridge may be too small


@dataclass(frozen=True, slots=True)
class AdaSsp(Strict):
    """min_w (1/2n) sum (<x_i, w> - y_i)^2 + (mu/2) ||w||^2 by
    w = (A + (k + mu) I)^-1 c,  A = X'X/n + noise (symmetric),  c = X'y/n + noise,
    k = the noise's likely norm less a noisy lower bound on the least eigenvalue of X'X/n, where that is positive.

    Precondition: ||x_i|| <= R, |y_i| <= C, enforced per record; C is the loss's residual bound, the target's scale.
    Pseudo-code: release lambda_min(X'X/n); the upper triangle of X'X/n, off-diagonal entries times sqrt(2); X'y/n.
    Postcondition: three Gaussian releases of per-record bounds R^2 / 2n, R^2 / (sqrt(2) n), R C / n; the rest
    post-processes. Proof: docs/proofs/ada_ssp.md. The residual is not clipped: this is plain least squares.

    Reference: Wang 2018, Algorithm 2; docs/spec 10. Deviations: replace-one; exact Gaussian accounting; a tenth of
    mu^2 for the eigenvalue, not a third; the off-diagonal noise has half the variance; the problem's l2 is added.
    """

    name: Literal["ada_ssp"] = "ada_ssp"
    limits_slopes: ClassVar[bool] = False

    def resolve(self, problem: Problem, privacy: Privacy) -> "AdaSspRun":
        """There is nothing to tune.

        Raises
        ------
        Unsuitable
            unless the loss is squared, the domain free, the regularizer none or l2, d at most 1024, and delta positive.
        """
        if not isinstance(problem.loss, Squared):
            raise Unsuitable(f"ada_ssp solves least squares; {problem.loss.name} is another loss: use squared")
        if problem.slope_limit < 1:
            raise Unsuitable("ada_ssp solves plain least squares and limits no slopes: leave out slope_limit")
        if not isinstance(problem.domain, Free) or not isinstance(problem.regularizer, NoRegularizer | L2):
            raise Unsuitable("ada_ssp takes the domain free and the regularizer none or l2")
        if problem.d > _WIDEST:
            raise Unsuitable(f"ada_ssp takes at most {_WIDEST} encoded columns: it releases their second moments")
        if privacy.is_pure:
            raise NeedsDelta("delta = 0 needs a pure mechanism; ada_ssp adds Gaussian noise, which needs delta > 0")
        return AdaSspRun()


@dataclass(frozen=True, slots=True)
class AdaSspRun(DataRun):
    """It has no sizes."""

    name: Literal["ada_ssp"] = "ada_ssp"

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """The least eigenvalue, the second moments and the moments with the target."""
        rest = (1 - _LEAST_SHARE) / 2
        return (
            Query("least_eigenvalue", 1, Gaussian(), _LEAST_SHARE),
            Query("second_moments", 1, Gaussian(), rest),
            Query("target_moments", 1, Gaussian(), rest),
        )

    def bounds(self, problem: Problem) -> Bounds:
        """Each query's per-record bound, half its sensitivity, and its number of coordinates."""
        d, square, error = problem.d, problem.row_norm**2, _error(problem)
        mixed = problem.row_norm * _target_bound(problem)
        return {
            "least_eigenvalue": (square / 2 / problem.n + (error + _eigenvalue_error(problem)) * square, 1),
            "second_moments": (square / math.sqrt(2) / problem.n + error * square, d * (d + 1) // 2),
            "target_moments": (mixed / problem.n + error * mixed, d),
        }

    def gradient_evaluations(self, problem: Problem) -> float:
        """About d / 2 gradients' work a row, for X'X."""
        return float(problem.n) * (1 + problem.d / 2)

    def run(self, access: Access, problem: Problem) -> Vector:
        """The private model."""
        bounds, d = self.bounds(problem), problem.d
        second, mixed = access.moments(_target_bound(problem))
        least = max(0.0, float(np.linalg.eigvalsh(second)[0]))
        least_std = self._std(access, "least_eigenvalue", bounds)
        noisy = access.release("least_eigenvalue", np.array([least]), bounds["least_eigenvalue"][0])[0]
        certain = max(0.0, float(noisy) - math.sqrt(2 * math.log(1 / _CONFIDENCE)) * least_std)
        rows, columns = np.triu_indices(d)
        weight = np.where(rows == columns, 1.0, math.sqrt(2))
        packed = access.release("second_moments", second[rows, columns] * weight, bounds["second_moments"][0]) / weight
        matrix = np.zeros((d, d))
        matrix[rows, columns] = matrix[columns, rows] = packed
        target = access.release("target_moments", mixed, bounds["target_moments"][0])
        # a symmetric Gaussian matrix with off-diagonal std s has norm about 2 s sqrt(d), and rarely much more
        spread = self._std(access, "second_moments", bounds) / math.sqrt(2)
        likely = spread * (2 * math.sqrt(d) + math.sqrt(2 * math.log(2 / _CONFIDENCE)))
        ridge = max(0.0, likely - certain) + problem.mu
        # eigenvalues that noise made smaller than the ridge promises are raised to it: the solution stays bounded
        values, vectors = np.linalg.eigh(matrix)
        floor = max(ridge, spread)
        return np.asarray(vectors @ ((vectors.T @ target) / np.maximum(values + ridge, floor)))

    def _std(self, access: Access, query: str, bounds: Bounds) -> float:
        planned = access.planned(query)
        return planned.mechanism.std(planned.noise_multiplier, *bounds[query])


def _target_bound(problem: Problem) -> float:
    """C."""
    return problem.loss.slope_bound


def _error(problem: Problem) -> float:
    """Relative to R^2 or R C: the rounding of a mean over n rows, in the Frobenius norm, and of the rows' length."""
    block = min(unfolded_rows(problem.d), problem.n)
    return (block + problem.n / block + 4 * problem.d + 32) * UNIT * problem.d


def _eigenvalue_error(problem: Problem) -> float:
    """Relative to R^2, the norm of X'X/n at most: a symmetric eigensolver is backward stable."""
    return 64 * problem.d * math.sqrt(problem.d) * UNIT
