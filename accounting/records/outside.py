"""Mechanisms that run elsewhere, as event trees of an allow-list, and their cost on a ledger.

    GaussianDpEvent(z)  LaplaceDpEvent(z)  EpsilonDeltaDpEvent(epsilon, 0)  PoissonSampledDpEvent(q, GaussianDpEvent(z))
    SampledWithoutReplacementDpEvent(n, b, GaussianDpEvent(z))  RandomAllocationDpEvent(q, T, form, GaussianDpEvent(z))
    SelfComposedDpEvent(count, one of these)    ComposedDpEvent([these, and the last])

Noise multipliers are noise std (Laplace: scale) over the per-record bound, under either relation; epsilon is between
neighbors of the dataset's own relation. An answer that is only (epsilon, delta)-DP with delta > 0 has no curve, so no
filter could charge it. Other answers may be given in between. So the charge uses Renyi divergences and mu^2 without
sampling, which add up however answers are interleaved, and never an approximation. Proof: docs/proofs/sessions.md.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, final

from pydantic import ConfigDict, Field, TypeAdapter

from accounting.mechanisms import Gaussian, Laplace, Mechanism, PoissonGaussian, RandomAllocation, WithoutReplacement
from accounting.mechanisms.mechanism import Curves
from accounting.mechanisms.random_allocation import MOST_SLOTS, Form
from accounting.mechanisms.without_replacement import MOST_ROWS
from accounting.numbers import SMALLEST_RATE
from accounting.plan import MAX_COUNT, MULTIPLIERS
from accounting.privacy import EPSILON_RANGE, Relation, Unit
from accounting.records.documents import typed

MOST_EVENTS = 64
_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

_Multiplier = Annotated[
    float, Field(ge=MULTIPLIERS[0], le=MULTIPLIERS[1], description="Noise std, or scale, over the per-record bound.")
]


class _OfMechanism(ABC):
    """One use of a mechanism that this package has too."""

    __slots__ = ()
    __pydantic_config__: ClassVar = _STRICT

    @property
    @abstractmethod
    def use(self) -> tuple[Mechanism, float]:
        """The mechanism and its noise multiplier."""

    @final
    def curves(self, relation: Relation) -> Curves:
        """Return the curves of the mechanism."""
        mechanism, noise_multiplier = self.use
        return mechanism.curves(noise_multiplier, relation)

    @final
    def fits(self, n: int, unit: Unit) -> bool:
        """Return whether the use fits n records of this unit."""
        return self.use[0].fits(n, unit)


@dataclass(frozen=True, slots=True)
class GaussianDpEvent(_OfMechanism):
    """One answer with Gaussian noise."""

    noise_multiplier: _Multiplier
    type: Literal["GaussianDpEvent"] = "GaussianDpEvent"

    @property
    def use(self) -> tuple[Mechanism, float]:
        """The Gaussian mechanism."""
        return Gaussian(), self.noise_multiplier


@dataclass(frozen=True, slots=True)
class LaplaceDpEvent(_OfMechanism):
    """One answer with continuous Laplace noise, or noise rounded from it.

    Discrete Laplace noise costs more in compositions. It is charged as an `EpsilonDeltaDpEvent`.
    """

    noise_multiplier: _Multiplier
    type: Literal["LaplaceDpEvent"] = "LaplaceDpEvent"

    @property
    def use(self) -> tuple[Mechanism, float]:
        """The Laplace mechanism."""
        return Laplace(), self.noise_multiplier


@dataclass(frozen=True, slots=True)
class PoissonSampledDpEvent(_OfMechanism):
    """One answer with Gaussian noise, on a secret batch that contains each record independently."""

    sampling_probability: Annotated[
        float, Field(ge=SMALLEST_RATE, le=1.0, description="Probability that a record takes part in an answer.")
    ]
    event: Annotated[GaussianDpEvent, Field(description="The answer on the batch.")]
    type: Literal["PoissonSampledDpEvent"] = "PoissonSampledDpEvent"

    @property
    def use(self) -> tuple[Mechanism, float]:
        """The sampled Gaussian mechanism."""
        return PoissonGaussian(self.sampling_probability), self.event.noise_multiplier


@dataclass(frozen=True, slots=True)
class SampledWithoutReplacementDpEvent(_OfMechanism):
    """One answer with Gaussian noise, on a secret batch of distinct records that is drawn uniformly."""

    source_dataset_size: Annotated[
        int, Field(ge=1, le=MOST_ROWS, description="Number of records of which the batch is drawn.")
    ]
    sample_size: Annotated[
        int, Field(ge=1, le=MOST_ROWS, description="Number of records in the batch; at most source_dataset_size.")
    ]
    event: Annotated[GaussianDpEvent, Field(description="The answer on the batch.")]
    type: Literal["SampledWithoutReplacementDpEvent"] = "SampledWithoutReplacementDpEvent"

    def __post_init__(self) -> None:
        WithoutReplacement(self.sample_size, self.source_dataset_size)  # refuses a batch of more records than there are

    @property
    def use(self) -> tuple[Mechanism, float]:
        """The Gaussian mechanism on a batch without replacement."""
        return WithoutReplacement(self.sample_size, self.source_dataset_size), self.event.noise_multiplier


@dataclass(frozen=True, slots=True)
class RandomAllocationDpEvent(_OfMechanism):
    """One answer with Gaussian noise for each slot, where each record is in one secret slot at most.

    The answers of all slots are one use. They are charged as a whole, even if only the first one is recorded.
    """

    rate: Annotated[float, Field(ge=SMALLEST_RATE, le=1.0, description="Probability that a record has a slot.")]
    slots: Annotated[int, Field(ge=1, le=MOST_SLOTS, description="Number of slots, and of answers.")]
    event: Annotated[GaussianDpEvent, Field(description="The answer on one slot.")]
    form: Annotated[
        Form,
        Field(description="`independent`: each record draws its slot. `ordered`: equal slots, filled in random order."),
    ] = "independent"
    type: Literal["RandomAllocationDpEvent"] = "RandomAllocationDpEvent"

    @property
    def use(self) -> tuple[Mechanism, float]:
        """The Gaussian mechanism on the slots of a random allocation."""
        return RandomAllocation(self.rate, self.slots, self.form), self.event.noise_multiplier


@dataclass(frozen=True, slots=True)
class EpsilonDeltaDpEvent:
    """One epsilon-DP answer of an unknown mechanism, or all answers of an interactive one."""

    __pydantic_config__: ClassVar = _STRICT

    epsilon: Annotated[float, Field(ge=1e-6, le=EPSILON_RANGE[1], description="Between neighbors of the dataset.")]
    delta: Annotated[float, Field(ge=0.0, le=0.0, description="Must be 0. Otherwise no filter bounds the cost.")] = 0.0
    type: Literal["EpsilonDeltaDpEvent"] = "EpsilonDeltaDpEvent"

    def curves(self, _relation: Relation) -> Curves:
        """Return the curves of randomized response, which dominates every such answer."""
        return Curves.of_pure(self.epsilon)

    def fits(self, _n: int, _unit: Unit) -> bool:
        """Return true."""
        return True


Single = (
    GaussianDpEvent
    | LaplaceDpEvent
    | PoissonSampledDpEvent
    | SampledWithoutReplacementDpEvent
    | RandomAllocationDpEvent
    | EpsilonDeltaDpEvent
)


@dataclass(frozen=True, slots=True)
class SelfComposedDpEvent:
    """`count` answers of one kind, each perhaps chosen after those before it."""

    __pydantic_config__: ClassVar = _STRICT

    event: Annotated[Single, Field(description="One answer.", discriminator="type")]
    count: Annotated[int, Field(ge=1, le=MAX_COUNT, description="Number of answers.")]
    type: Literal["SelfComposedDpEvent"] = "SelfComposedDpEvent"


Part = Annotated[Single | SelfComposedDpEvent, Field(discriminator="type")]


@dataclass(frozen=True, slots=True)
class ComposedDpEvent:
    """Answers of several kinds, in any order."""

    __pydantic_config__: ClassVar = _STRICT

    events: Annotated[list[Part], Field(min_length=1, max_length=MOST_EVENTS, description="Events of each kind.")]
    type: Literal["ComposedDpEvent"] = "ComposedDpEvent"


OutsideEvent = Annotated[Single | SelfComposedDpEvent | ComposedDpEvent, Field(discriminator="type")]
_EVENT: TypeAdapter[OutsideEvent] = TypeAdapter(OutsideEvent)


def counted(event: OutsideEvent) -> tuple[tuple[Single, int], ...]:
    """Return each kind of answer of an event, and the number of its answers."""
    kinds = event.events if isinstance(event, ComposedDpEvent) else [event]
    return tuple((k.event, k.count) if isinstance(k, SelfComposedDpEvent) else (k, 1) for k in kinds)


def interleaved(single: Single, relation: Relation) -> Curves:
    """Return the cost of one use if other answers may come between its own. Its mu is the one without sampling."""
    curves = single.curves(relation)
    return Curves(curves.rdp, curves.gdp_bound, curves.gdp_bound, curves.pure)


def event_to_json(event: OutsideEvent) -> dict[str, Any]:
    """Return the event tree as it was stated."""
    document: dict[str, Any] = _EVENT.dump_python(event, mode="json")
    return document


def event_from_json(document: Any) -> OutsideEvent:
    """Return the event tree that `event_to_json` wrote. Raise `CodecError` for anything else."""
    event: OutsideEvent = typed(_EVENT, document, "an event")
    return event
