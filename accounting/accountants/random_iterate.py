"""The exact profile of one random prefix of Gaussian answers."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

from accounting.mechanisms import RandomIterate
from accounting.plan import Plan

_LEAST_MU, _LEAST_DELTA = 1e-5, 1e-12  # as for one Gaussian: below these, cancellation would eat the margins
_MOST_MU = 1e6
_GROUPS = 4096  # more lengths than that are taken in groups, each as costly as its longest
_ROOT, _SAFE_EPSILON, _SAFE_DELTA = 1e-12, 1 + 1e-9, 1 - 1e-6


@dataclass(frozen=True, slots=True)
class RandomIterateAccountant:
    """epsilon with (1/T) sum_(m<T) delta_Gauss(epsilon; mu_1 sqrt(m)) = delta, rounded up; mu_1 = 2/z.

    For a plan of exactly one use of `RandomIterate`. Proof: docs/proofs/random_iterate.md.
    """

    name: ClassVar[str] = "random_iterate"
    version: ClassVar[str] = "1"

    def supports(self, plan: Plan, delta: float) -> bool:
        """Whether the plan is one such use and delta is positive."""
        return delta >= _LEAST_DELTA and [(q.count, type(q.mechanism)) for q in plan.queries] == [(1, RandomIterate)]

    def epsilon(self, plan: Plan, delta: float) -> float:
        """The epsilon this accountant certifies for the plan at delta; infinite where it does not support the plan."""
        if not self.supports(plan, delta):
            return math.inf
        (query,) = plan.queries
        one, steps = 2.0 / query.noise_multiplier, query.answers + 1
        if one * math.sqrt(steps) > _MOST_MU:
            return math.inf
        ends = np.unique(np.linspace(0, steps - 1, min(steps, _GROUPS)).astype(np.int64))[1:]
        shares = np.diff(ends, prepend=0) / steps
        mu = np.maximum(one * np.sqrt(ends), _LEAST_MU)

        def beyond(epsilon: float) -> float:
            log_a = log_ndtr(mu / 2 - epsilon / mu)
            log_b = log_ndtr(-mu / 2 - epsilon / mu) + epsilon
            return float(shares @ (np.exp(log_a) * -np.expm1(np.minimum(log_b - log_a, 0.0)))) - delta * _SAFE_DELTA

        if beyond(0.0) <= 0:
            return 0.0
        high = 1e-9
        while beyond(high) > 0:
            high *= 2
        return float(brentq(beyond, 0.0, high, xtol=1e-18, rtol=_ROOT)) * _SAFE_EPSILON
