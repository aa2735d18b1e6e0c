"""Renyi accounting: the sum of Renyi curves, converted at the best order."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from accounting.divergences.gaussian import rdp_epsilon
from accounting.plan import AbstractComposition

ORDERS = tuple(
    float(a)
    for a in np.concatenate(
        [np.linspace(1.1, 3, 20), np.linspace(3.25, 12, 36), np.geomspace(12.5, 512, 60), np.geomspace(560, 1e5, 30)]
    )
)


@dataclass(frozen=True, slots=True)
class RdpAccountant:
    """epsilon = min over a fixed grid of orders a of rho(a) + ln(1 - 1/a) - ln(a delta)/(a - 1), never below 0.

    It covers every plan of this package at delta > 0. Reference: Mironov 2017; Canonne, Kamath and Steinke 2020.
    """

    orders: tuple[float, ...] = ORDERS
    name: ClassVar[str] = "rdp"
    version: ClassVar[str] = "1"

    def epsilon(self, plan: AbstractComposition, delta: float) -> float:
        """Return the epsilon certified for the plan at delta, rounded up; infinite if delta is 0."""
        return rdp_epsilon(self.orders, plan.rdp(self.orders), delta) if delta > 0 else math.inf
