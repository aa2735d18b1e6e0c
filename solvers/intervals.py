"""Confidence intervals for a minimizer W that is released with noise of a known law.

|w_j - W_j| <= h_j with probability 0.95 over the noise.
"""

import numpy as np

from accounting.mechanisms import Gaussian, Laplace
from accounting.plan import Plan
from solvers.domains import Free
from solvers.methods import Run
from solvers.preparation import ByProfile, Declared, Preparation
from solvers.problem import Problem, Vector

LEVEL = 0.95
GAUSSIAN_STDS = 1.9599641  # on either side; rounded up by more than two roundings to the lattice add
LAPLACE_STDS = 2.1183027  # ln 20 / sqrt(2), rounded up


def half_widths(method: Run, problem: Problem, plan: Plan, preparation: Preparation) -> Vector | None:
    """Return h, (size,), for each coordinate in the original columns, or None if the law is not known.

    h is a function of public facts. W minimizes the run's own regularized problem on prepared rows, so h does not
    include the errors of sampling, penalties and shortened rows. The law is known for a free domain if the columns are
    public: as declared, or standardized by a released profile. Laplace noise is covered as declared only, because a sum
    of Laplace variables has no quantile in closed form. Proof: docs/proofs/output_perturbation.md.
    """
    if not isinstance(preparation, Declared | ByProfile) or not isinstance(problem.domain, Free):
        return None
    met = preparation.prepared(problem)
    off = method.off_minimizer(met)
    if off is None:
        return None
    frame = preparation.public_frame(problem) if isinstance(preparation, ByProfile) else None
    (query,) = plan.queries
    if not isinstance(query.mechanism, Gaussian | Laplace):
        return None
    std = query.mechanism.std(query.noise_multiplier, *method.bounds(met)[query.name])
    if isinstance(query.mechanism, Laplace) and frame is not None:
        return None
    h = (GAUSSIAN_STDS if isinstance(query.mechanism, Gaussian) else LAPLACE_STDS) * std + off
    return np.tile(h * (np.ones(problem.d) if frame is None else frame.lengths), problem.outputs)
