"""The rule by which steps of adaptive_gd grow with a model of classes. Sources as in `defaults.adaptive_gd`."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GrowthRule:
    """Constants by which the steps of a run for classes grow with the model.

    Parameters
    ----------
    usual_variance : Steps grow if the variance of margins is above this value. Source: proof, "Steps that grow with
        the model"; trials, `variants`
    begins_at : Steps grow from this share of the steps on, counted from the start of the path. Source: same
    alarm : A step that has grown is cut if its gradient points along the last move by more than this number of stds of
        its noise. If the true gradient is 0 along the move, noise does this in one of 30,000 steps. Source: same
    strong_alarm : By more than this number of stds, momentum begins anew, too. Source: same
    cut, recovery : A cut multiplies the step by the first number. In each later step, the largest size grows by the
        second. Source: same
    most_noise : Steps grow up to the size at which the noise of one step moves margins by this std. Source: same
    """

    usual_variance: float = 2.5
    begins_at: float = 0.1
    alarm: float = 4.0
    strong_alarm: float = 8.0
    cut: float = 0.7
    recovery: float = 1.01
    most_noise: float = 0.15

    def factor(self, variance: float) -> float:
        """Return the mean curvature at the usual variance of margins over that at `variance`."""
        return math.sqrt((1 + math.pi * variance / 8) / (1 + math.pi * self.usual_variance / 8))


GROWTH = GrowthRule()
