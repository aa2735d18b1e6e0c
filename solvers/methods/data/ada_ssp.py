"""AdaSSP: least squares from noisy sufficient statistics, with a ridge chosen from them; plain or boosted.

Review: The second moments, the eigenvalue and each residual mean have the proved bounds.
"""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from accounting.mechanisms import Gaussian
from accounting.plan import Query
from accounting.privacy import Privacy, sensitivity_factor
from solvers.bounds import UNIT, gradient_bound, unfolded_rows
from solvers.domains import Free
from solvers.errors import Unsuitable
from solvers.losses import Squared
from solvers.methods.checks import check_delta
from solvers.methods.run import Bounds, DataRun, Strict
from solvers.oracles import Access
from solvers.problem import Problem, Vector
from solvers.ranges import Whole
from solvers.regularizers import L2, NoRegularizer

_MOST_COLUMNS = 1024  # the second moments have d (d + 1) / 2 numbers, and their eigenvalues take d^3 operations
_DEFAULT_ROUNDS = 5
_MOST_ROUNDS = 1000
_SHARES = 0.1, 0.45, 0.45  # of mu^2 in one round, for the smallest eigenvalue, the second moments and the target's
_BOOSTED_SHARES = 0.05, 0.2, 0.75  # with more rounds, which correct errors of the moments; the last is for all rounds
_CONFIDENCE = 0.05  # Wang's rho, the probability that the ridge is too small


@dataclass(frozen=True, slots=True)
class AdaSsp(Strict):
    """Least squares from noisy second moments, with an adaptive ridge and rounds that correct the residuals.

    min_w (1/2n) sum (<x_i, w> - y_i)^2 + (mu/2) ||w||^2 by
    w = M^-1 c,  M = A + (k + mu) I,  A = X'X/n + noise (symmetric),  c = X'y/n + noise,
    k = the likely norm of the noise less a noisy lower bound on the smallest eigenvalue of X'X/n (half of it if T > 1),
    or 0 if negative;
    then, in rounds 2 to T,  w <- w + M^-1 (X' clip(y - Xw, -C, C) / n + noise - mu w).

    Precondition: ||x_i|| <= R, |y_i| <= C, enforced per record; C is the loss's residual bound, the target's scale.
    Pseudo-code: release lambda_min(X'X/n); the upper triangle of X'X/n, off-diagonal entries times sqrt(2); X'y/n;
    then T - 1 times the mean gradient at the current w.
    Postcondition: Gaussian releases of per-record bounds R^2 / (k n), R^2 / (sqrt(k) n), and T times R C / n, with
    k = 2 for replaced records and 1 for zeroed ones. All else is post-processing. Proof: docs/proofs/ada_ssp.md. With
    one round, residuals are not clipped, so this is plain least squares.

    Parameters
    ----------
    rounds : Number of rounds (T), from 1 to 1000. By default 5

    Reference: Wang 2018, Algorithm 2; Tang et al. 2023 for the rounds; docs/spec 10. Deviations: replace-one; exact
    Gaussian accounting; a smaller share of mu^2 for the eigenvalue and, with several rounds, for X'X; the off-diagonal
    noise has half the variance; the problem's l2 is added.
    """

    rounds: Annotated[int | None, Whole(_MOST_ROUNDS)] = None
    name: Literal["ada_ssp"] = "ada_ssp"
    limits_slopes: ClassVar[bool] = False

    def resolve(self, problem: Problem, privacy: Privacy) -> "AdaSspRun":
        """Return the run, with five rounds by default.

        Raises
        ------
        Unsuitable
            unless the loss is squared, the domain free, the regularizer none or l2, d at most 1024, and delta positive.
        """
        if not isinstance(problem.loss, Squared):
            raise Unsuitable(f"ada_ssp solves least squares, and {problem.loss.name} is another loss. Use squared")
        if problem.slope_limit < 1:
            raise Unsuitable(
                "ada_ssp: slope_limit is not supported, because least squares limits no slopes. Leave it out"
            )
        if not isinstance(problem.domain, Free) or not isinstance(problem.regularizer, NoRegularizer | L2):
            raise Unsuitable(
                "ada_ssp: the domain must be free and the regularizer none or l2, because others have no closed form"
            )
        if problem.d > _MOST_COLUMNS:
            raise Unsuitable(
                f"ada_ssp: at most {_MOST_COLUMNS} encoded columns are supported, because their second moments are "
                f"released, and there are {problem.d}. Use fewer features, or dp_gd"
            )
        check_delta("ada_ssp", privacy)
        return AdaSspRun(self.rounds or _DEFAULT_ROUNDS)


@dataclass(frozen=True, slots=True)
class AdaSspRun(DataRun):
    """Resolved settings of `AdaSsp`. Documents of an earlier version without `rounds` have one round."""

    rounds: Annotated[int, Whole(_MOST_ROUNDS)] = 1
    name: Literal["ada_ssp"] = "ada_ssp"

    def queries(self, problem: Problem) -> tuple[Query, ...]:
        """Return the smallest eigenvalue, the second moments, and the moments with the target and with residuals."""
        eigenvalue_share, second_share, rounds_share = _SHARES if self.rounds == 1 else _BOOSTED_SHARES
        round_share = rounds_share / self.rounds
        queries = (
            Query("least_eigenvalue", 1, Gaussian(), eigenvalue_share),
            Query("second_moments", 1, Gaussian(), second_share),
            Query("target_moments", 1, Gaussian(), round_share),
        )
        if self.rounds == 1:
            return queries
        return (*queries, Query("residual_moments", self.rounds - 1, Gaussian(), round_share * (self.rounds - 1)))

    def bounds(self, problem: Problem) -> Bounds:
        """Return the per-record bound of each query, and its number of coordinates."""
        d, square = problem.d, problem.row_norm**2
        error = 2 * _error(problem)
        k = sensitivity_factor(problem.relation)
        mixed = problem.row_norm * problem.loss.slope_bound
        bounds = {
            "least_eigenvalue": (square / k / problem.n + (error + 2 * _eigenvalue_error(problem)) * square, 1),
            "second_moments": (square / math.sqrt(k) / problem.n + error * square, d * (d + 1) // 2),
            "target_moments": (mixed / problem.n + error * mixed, d),
        }
        return bounds if self.rounds == 1 else bounds | {"residual_moments": (gradient_bound(problem), d)}

    def gradient_evaluations(self, problem: Problem) -> float:
        """Return n times the rounds, plus n d / 2, the equivalent of computing X'X."""
        return float(problem.n) * (self.rounds + problem.d / 2)

    def run(self, access: Access, problem: Problem) -> Vector:
        """Return the private model."""
        bounds, d = self.bounds(problem), problem.d
        second, mixed = access.moments(problem.loss.slope_bound)
        smallest = max(0.0, float(np.linalg.eigvalsh(second)[0]))
        smallest_std = self._std(access, "least_eigenvalue", bounds)
        noisy = access.release("least_eigenvalue", np.array([smallest]), bounds["least_eigenvalue"][0])[0]
        eigenvalue_bound = max(0.0, float(noisy) - math.sqrt(2 * math.log(1 / _CONFIDENCE)) * smallest_std)
        rows, columns = np.triu_indices(d)
        weight = np.where(rows == columns, 1.0, math.sqrt(2))
        packed = access.release("second_moments", second[rows, columns] * weight, bounds["second_moments"][0]) / weight
        matrix = np.zeros((d, d))
        matrix[rows, columns] = matrix[columns, rows] = packed
        target = access.release("target_moments", mixed, bounds["target_moments"][0])
        # a symmetric Gaussian matrix with off-diagonal std s has norm about 2 s sqrt(d), and rarely much more
        spread = self._std(access, "second_moments", bounds) / math.sqrt(2)
        likely_norm = spread * (2 * math.sqrt(d) + math.sqrt(2 * math.log(2 / _CONFIDENCE)))
        # several rounds contract if M is at least half of X'X/n
        ridge = max(0.0, likely_norm - (eigenvalue_bound if self.rounds == 1 else eigenvalue_bound / 2)) + problem.mu
        # noise can make eigenvalues smaller than the ridge, and raising them to it keeps the solution bounded
        values, vectors = np.linalg.eigh(matrix)
        raised = np.maximum(values + ridge, max(ridge, spread))
        w = np.asarray(vectors @ ((vectors.T @ target) / raised))
        for _ in range(self.rounds - 1):
            gradient = access.mean_gradient(range(problem.n), w)
            down = access.release("residual_moments", gradient, bounds["residual_moments"][0]) + problem.mu * w
            w = w - vectors @ ((vectors.T @ down) / raised)
        return w

    def _std(self, access: Access, query: str, bounds: Bounds) -> float:
        planned = access.planned(query)
        return planned.mechanism.std(planned.noise_multiplier, *bounds[query])


def _error(problem: Problem) -> float:
    """Return the rounding of a mean over n k rows in the Frobenius norm, relative to R^2 or R C, and of row norms."""
    block = min(unfolded_rows(problem.d), problem.slots)
    return (block + problem.slots / block + 4 * problem.d + 32) * UNIT * problem.d


def _eigenvalue_error(problem: Problem) -> float:
    """Return the error of a backward stable eigensolver relative to R^2, which bounds the norm of X'X/n."""
    return 64 * problem.d * math.sqrt(problem.d) * UNIT
