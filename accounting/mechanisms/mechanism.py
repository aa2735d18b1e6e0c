"""What a mechanism is: a frozen dataclass that says what it costs, how it adds its noise and how it is written down.

A class here is abstract, or what it defines is final: nothing is overridden. A new mechanism is one file, one line in
the package's union and one proof.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from accounting.divergences import randomized_response
from accounting.divergences.losses import GaussianLoss, Loss, Search
from accounting.noise import Noise
from accounting.noise.lattice import Lattice
from accounting.privacy import REPLACE_ONE, Relation, Unit

Vector = NDArray[np.float64]
Event = dict[str, Any]
"""What was done to the data, as a JSON value with dp-accounting's names. A noise multiplier there is always noise std
over the per-record bound, which is what dp-accounting's PLD accountant means, under either relation (its RDP accountant
means std over sensitivity, under replace_one twice as much for a full gradient)."""


@dataclass(frozen=True, slots=True)
class Curves:
    """What one use costs at most, between any two neighbors and in both orders, in each currency it is known in.

    Parameters
    ----------
    rdp : rho(a) at each order a > 1
    gdp : mu, where it is charged as mu-GDP; None where sampling or secrecy makes it cheaper than that
    gdp_bound : mu of a Gaussian pair that dominates it: what it would cost without sampling
    pure : epsilon at delta = 0
    losses : privacy losses whose sum is that of one use; empty if there is none
    mirrored : the same with the neighbors in the other order; the losses themselves, which then serve both, if empty
    rough : the same with less work, for a search of noise; the losses themselves if there are none
    over : losses of a pair over the Renyi curve, where there are no others; for filters alone
    approximate_rdp : rho(a) of a law from which this one differs with probability at most the slack, if there is one
    epsilon : of one use at a delta, where it has a profile of its own
    epsilon_beside : the same of one use together with Gaussian answers, whose mu^2 is given after delta
    delta : of one use at an epsilon, by that profile, to begin a search with
    """

    rdp: Callable[[Sequence[float]], Vector]
    gdp: float | None = None
    gdp_bound: float | None = None
    pure: float | None = None
    losses: tuple[Loss, ...] = ()
    mirrored: tuple[Loss, ...] = ()
    rough: Callable[[Search], tuple[Loss, ...]] | None = None
    over: tuple[Loss, ...] = ()
    approximate_rdp: Callable[[Sequence[float], float], Vector | None] | None = None
    epsilon: Callable[[float], float] | None = None
    epsilon_beside: Callable[[float, float], float] | None = None
    delta: Callable[[float], float] | None = None

    @classmethod
    def gaussian(cls, mu: float) -> "Curves":
        """Those of N(0, 1) against N(mu, 1): rho(a) = a mu^2 / 2."""
        return cls(lambda a: np.asarray(a, dtype=float) * (mu**2 / 2), mu, mu, losses=(GaussianLoss(mu),))

    @classmethod
    def of_pure(cls, epsilon: float, rdp: Callable[[Sequence[float]], Vector] | None = None) -> "Curves":
        """Those of every epsilon-DP answer; its own Renyi curve where it has a better one."""
        mu = randomized_response.gdp(epsilon)
        curve = rdp or (lambda orders: randomized_response.renyi(epsilon, orders))
        return cls(curve, mu, mu, epsilon, (GaussianLoss(mu),))


class AbstractMechanism(ABC):
    """One use of a mechanism with a noise multiplier z: noise std over the most that one record adds to an answer, that
    is by how much the null record in its place would change it.
    """

    __slots__ = ()
    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    @property
    @abstractmethod
    def answers(self) -> int:
        """How many answers one use gives, at most."""

    @abstractmethod
    def fits(self, n: int, unit: Unit) -> bool:
        """Return whether a use fits n records of this unit; otherwise it would hide each record better than it did."""

    @abstractmethod
    def curves(self, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> Curves:
        """What one use costs; under zero_out at most what it does under replace_one, which is always valid there."""

    @abstractmethod
    def multiplier(self, mu_squared: float, relation: Relation = REPLACE_ONE) -> float:
        """The z at which one use spends about mu^2, in the limit of many answers."""

    @abstractmethod
    def event(self, noise_multiplier: float) -> Event:
        """One use as an event."""

    @abstractmethod
    def std(self, noise_multiplier: float, bound: float, dimension: int) -> float:
        """The noise std, in the answer's unit, that `perturb` will use."""

    @abstractmethod
    def perturb(self, value: Vector, noise_multiplier: float, bound: float, noise: Noise) -> Vector:
        """The private answer, shape (d,), to which each record adds at most `bound`."""


class AbstractUnsampled(AbstractMechanism):
    """A mechanism that draws no records and costs the same for every number and unit of them."""

    __slots__ = ()

    @final
    def fits(self, n: int, unit: Unit) -> bool:  # noqa: ARG002
        """Return true."""
        return True


class AbstractGaussianNoise(AbstractMechanism):
    """Its answers are vectors, each record's part of l2 norm at most the bound, and carry Gaussian noise."""

    __slots__ = ()
    rounded: ClassVar[float] = 1.0  # by how many lattice steps, in each coordinate, rounding may part two answers

    @final
    def std(self, noise_multiplier: float, bound: float, dimension: int) -> float:
        """The noise std of each coordinate, in the answer's unit."""
        return Lattice.fit(noise_multiplier, bound, dimension, self.rounded).std

    @final
    def perturb(self, value: Vector, noise_multiplier: float, bound: float, noise: Noise) -> Vector:
        """round_gamma(value) + gamma round(N / gamma), N ~ N(0, std^2 I), shape (d,)."""
        return Lattice.fit(noise_multiplier, bound, len(value), self.rounded).perturb(value, noise)


def self_composed(event: Event, count: int) -> Event:
    """`count` adaptive uses of `event`; the event itself when there is one."""
    return event if count == 1 else {"type": "SelfComposedDpEvent", "count": count, "event": event}


def composed(events: Sequence[Event]) -> Event:
    """The adaptive composition of the events."""
    return {"type": "ComposedDpEvent", "events": list(events)}
