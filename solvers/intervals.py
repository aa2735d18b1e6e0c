"""|w_j - W_j| <= h_j with probability .95 over the noise, where a minimizer W is released with noise of a known law."""

import numpy as np

from accounting.mechanisms import Gaussian, Laplace
from accounting.plan import Plan
from solvers.domains import Free
from solvers.methods import Run
from solvers.preparation import ByProfile, Declared, Preparation
from solvers.problem import Problem, Vector

LEVEL = 0.95
WIDE = 1.9599641  # stds of Gaussian noise on either side, rounded up by more than the two roundings to a lattice add
WIDE_LAPLACE = 2.1183027  # the same of Laplace noise: ln 20 / sqrt(2)


def half_widths(method: Run, problem: Problem, plan: Plan, preparation: Preparation) -> Vector | None:
    """h, (size,), each coordinate's own, in the original columns; None where no such law is known. Of public facts.

    W minimizes the run's own regularized problem, of rows as they were prepared: what sampling, penalties and shortened
    rows add is not in h. Known for a free domain, and in columns that are public: as declared, or by a released
    profile; of Laplace noise as declared alone, since no sum of it has a quantile in closed form.
    Proof: docs/proofs/output_perturbation.md.
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
    h = (WIDE if isinstance(query.mechanism, Gaussian) else WIDE_LAPLACE) * std + off
    return np.tile(h * (np.ones(problem.d) if frame is None else frame.lengths), problem.outputs)
