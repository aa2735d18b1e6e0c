"""The privacy loss of a pure answer: its law lies in [-epsilon, epsilon], and is its own mirror image.

The pairs of randomized response (every epsilon-DP answer), of Laplace noise and of a choice by the exponential
mechanism belong to one family. Under P the loss is +-epsilon with probability `ends` in all, by the law of randomized
response; otherwise its density is proportional to e^(l/2). Proof: docs/proofs/laplace.md, docs/proofs/exponential.md.
"""

import math
from dataclasses import dataclass

import numpy as np

from accounting.divergences import randomized_response
from accounting.divergences.losses import GaussianLoss, Masses, Side, two_sided

_SMALLEST_EPSILON = 1e-3  # below it the formula of the mean loses digits, and its series is as good


@dataclass(frozen=True, slots=True)
class PureLoss:
    """The loss of a pair whose law P gives the losses +-epsilon the probability `ends`.

    Parameters
    ----------
    epsilon : the largest loss
    ends : in [0, 1]. 1 for randomized response, which dominates every epsilon-DP answer; (1 + e^-epsilon) / 2 for
        Laplace noise in one coordinate that moves by epsilon scales; 0 for a choice whose losses differ by at most
        epsilon
    """

    epsilon: float
    ends: float

    @property
    def gaussian_bound(self) -> GaussianLoss:
        """The loss of a Gaussian pair that dominates every epsilon-DP answer."""
        return GaussianLoss(randomized_response.gdp(self.epsilon))

    @property
    def shift(self) -> float:
        """The shift of that Gaussian pair."""
        return self.gaussian_bound.mu

    @property
    def deviation(self) -> float:
        """The root of the mean square, which for a small epsilon is nearly the variance."""
        return math.sqrt(self._mean_square)

    @property
    def widest(self) -> float:
        return self.epsilon

    def moments(self, count: int) -> tuple[float, float]:
        """Return the mean and the mean square, which bounds the variance."""
        ends_mean = self.epsilon * math.tanh(self.epsilon / 2)
        return count * (self.ends * ends_mean + (1 - self.ends) * self._inner_mean), count * self._mean_square

    def masses(self, interval: float) -> Masses:
        """Return the masses of the losses that are not negative, exact in each cell, and of their mirror images."""
        edges = np.minimum(np.arange(math.floor(self.epsilon / interval) + 2) * interval, self.epsilon)
        growth = (1 - self.ends) / (2 * math.sinh(self.epsilon / 2)) * -np.expm1(-np.diff(edges) / 2)
        upper = growth * np.exp(edges[1:] / 2)
        lower = growth * np.exp(-edges[:-1] / 2)
        upper[-1] += self.ends / (1 + math.exp(-self.epsilon))
        lower[-1] += self.ends / (1 + math.exp(self.epsilon))
        side = Side(upper, lower, 0.0, 0.0)
        return two_sided(interval, side, side)

    @property
    def _inner_mean(self) -> float:
        """The mean of the losses between the ends, epsilon coth(epsilon / 2) - 2, at most epsilon^2 / 6."""
        if self.epsilon < _SMALLEST_EPSILON:
            return self.epsilon**2 / 6
        return self.epsilon / math.tanh(self.epsilon / 2) - 2

    @property
    def _mean_square(self) -> float:
        return self.epsilon**2 - 4 * (1 - self.ends) * self._inner_mean
