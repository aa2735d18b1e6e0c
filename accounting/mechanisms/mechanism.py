"""The interface of a mechanism: a frozen dataclass with its cost, its noise and its record as an event.

A class here is abstract, or its methods are final: nothing is overridden. A new mechanism is one file, one line in the
package's union and one proof.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, final

import numpy as np

from accounting.divergences import randomized_response
from accounting.divergences.losses import GaussianLoss, Loss, Search
from accounting.divergences.losses import Vector as Vector
from accounting.divergences.pure_loss import PureLoss
from accounting.noise import Noise
from accounting.noise.lattice import Lattice
from accounting.privacy import REPLACE_ONE, Relation, Unit

Event = dict[str, Any]
"""The operations on the data, as a JSON value with dp-accounting's names.

Its noise multipliers are noise std over the per-record bound, under either relation, as in dp-accounting's PLD
accountant. Its RDP accountant means std over sensitivity, which under replace_one is twice that bound."""


@dataclass(frozen=True, slots=True)
class Curves:
    """Upper bounds on the cost of one use, between any neighbors in both orders, in each currency that has one.

    Parameters
    ----------
    rdp : rho(a) at each order a > 1
    gdp : mu, if a use is charged as mu-GDP; None if sampling or secrecy makes it cheaper than that
    gdp_bound : mu of a Gaussian pair that dominates it, the cost without sampling
    pure : epsilon at delta = 0
    losses : privacy losses whose sum is that of one use; empty if there is none
    mirrored : losses with the neighbors in the other order; if empty, `losses` are valid for both orders
    rough : approximate losses that take less work, for a search of noise; `losses` if None
    over : losses of a pair over the Renyi curve, if there are no others; for filters only
    approximate_rdp : rho(a) of a law from which this one differs with probability at most the slack, or None
    epsilon : of one use at a delta, if the mechanism has a profile of its own
    epsilon_with_gaussian : of one use together with Gaussian answers, at a delta and the mu^2 of those answers
    delta : of one use at an epsilon, by that profile. Its second argument is the delta of a search: a value far below
        it need not be close.
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
    epsilon_with_gaussian: Callable[[float, float], float] | None = None
    delta: Callable[[float, float], float] | None = None

    @classmethod
    def gaussian(cls, mu: float) -> "Curves":
        """Return the curves of N(0, 1) against N(mu, 1): rho(a) = a mu^2 / 2."""
        return cls(lambda a: np.asarray(a, dtype=float) * (mu**2 / 2), mu, mu, losses=(GaussianLoss(mu),))

    @classmethod
    def of_pure(cls, epsilon: float) -> "Curves":
        """Return the curves of randomized response, which dominates every epsilon-DP answer."""
        mu = randomized_response.gdp(epsilon)
        return cls(lambda a: randomized_response.renyi(epsilon, a), mu, mu, epsilon, (PureLoss(epsilon, ends=1.0),))


class Source(NamedTuple):
    """The records from which a value is computed before its noise is added. By default these are all records."""

    is_drawn: bool = False  # whether they are n records drawn with replacement from the n
    is_part: bool = False  # whether they are one part, which no other answer of the use reads


class AbstractMechanism(ABC):
    """One use of a mechanism with a noise multiplier z: noise std over the per-record bound.

    The per-record bound is the largest change of an answer when a record is replaced by the null record.
    """

    __slots__ = ()
    __pydantic_config__: ClassVar = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    @property
    @abstractmethod
    def answers(self) -> int:
        """The largest number of answers of one use."""

    @property
    @abstractmethod
    def source(self) -> Source | None:
        """The records from which a value for `release` comes, or None if `release` must refuse the mechanism.

        It must refuse a mechanism whose cost relies on a secret batch, hidden steps, a choice among runs, or a random
        number of answers.
        """

    @abstractmethod
    def horizon(self, noise: Noise) -> int | None:
        """Draw and return the number of answers of one use, at most `answers`. Return None if it is not random."""

    @abstractmethod
    def fits(self, n: int, unit: Unit) -> bool:
        """Return whether a use fits n records of this unit; otherwise its stated cost is less than its real one."""

    @abstractmethod
    def needs_all_rows(self, n: int) -> str | None:
        """Return why one machine must hold all n records for a draw from them, or None."""

    @abstractmethod
    def curves(self, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> Curves:
        """Return the cost of one use. The cost under replace_one is also valid under zero_out."""

    @abstractmethod
    def multiplier(self, mu_squared: float, relation: Relation = REPLACE_ONE) -> float:
        """Return the z at which one use spends about mu^2, in the limit of many answers."""

    @abstractmethod
    def event(self, noise_multiplier: float) -> Event:
        """Return one use as an event."""

    @abstractmethod
    def std(self, noise_multiplier: float, bound: float, dimension: int) -> float:
        """Return the noise std that `perturb` uses, in the unit of the answer."""

    @abstractmethod
    def perturb(self, value: Vector, noise_multiplier: float, bound: float, noise: Noise) -> Vector:
        """Return the private answer, shape (d,), to which each record adds at most `bound`."""


class AbstractFixedAnswers(AbstractMechanism):
    """A mechanism whose uses all have the same number of answers."""

    __slots__ = ()

    @final
    def horizon(self, noise: Noise) -> None:
        """Return None, because each use has `answers`."""


class AbstractUnsampled(AbstractFixedAnswers):
    """A mechanism that draws no records, so its cost depends on neither n nor the unit. Every use has `answers`."""

    __slots__ = ()

    @final
    def fits(self, n: int, unit: Unit) -> bool:  # noqa: ARG002
        """Return true."""
        return True

    @final
    def needs_all_rows(self, n: int) -> None:
        """Return None."""


class AbstractGaussianNoise(AbstractMechanism):
    """A mechanism that adds Gaussian noise to vectors to which each record adds at most the bound in l2."""

    __slots__ = ()
    rounded_steps: ClassVar[float] = 1.0  # lattice steps in each coordinate by which rounding may separate two answers

    @final
    def std(self, noise_multiplier: float, bound: float, dimension: int) -> float:
        """Return the noise std of each coordinate, in the unit of the answer."""
        return Lattice.fit(noise_multiplier, bound, dimension, self.rounded_steps).std

    @final
    def perturb(self, value: Vector, noise_multiplier: float, bound: float, noise: Noise) -> Vector:
        """Return round_gamma(value) + gamma round(N / gamma), N ~ N(0, std^2 I), shape (d,)."""
        return Lattice.fit(noise_multiplier, bound, len(value), self.rounded_steps).perturb(value, noise)


def self_composed(event: Event, count: int) -> Event:
    """Return `count` adaptive uses of an event; the event itself if there is one."""
    return event if count == 1 else {"type": "SelfComposedDpEvent", "count": count, "event": event}


def composed(events: Sequence[Event]) -> Event:
    """Return the adaptive composition of the events."""
    return {"type": "ComposedDpEvent", "events": list(events)}
