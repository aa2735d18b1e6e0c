"""Mechanisms that ran elsewhere, as event trees of an allow-list, and their cost on a ledger.

    GaussianDpEvent(z)  LaplaceDpEvent(z)  PoissonSampledDpEvent(q, GaussianDpEvent(z))  EpsilonDeltaDpEvent(epsilon, 0)
    SelfComposedDpEvent(count, one of these)    ComposedDpEvent([these, and the last])

Noise multipliers are noise std (Laplace: scale) over the per-record bound, under either relation; epsilon is between
neighbors of the dataset's own relation. An answer that is only (epsilon, delta)-DP with delta > 0 has no curve, so no
filter could charge it. Other answers may have been given in between. So the charge uses Renyi divergences and mu^2
without sampling, which add up however answers are interleaved, and never an approximation.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from accounting.mechanisms import Gaussian, Laplace, PoissonGaussian
from accounting.mechanisms.mechanism import Curves
from accounting.plan import MAX_COUNT, MULTIPLIERS, AbstractComposition
from accounting.privacy import EPSILON_RANGE, REPLACE_ONE, Relation
from accounting.records.documents import typed

MOST_EVENTS = 64
_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

_Multiplier = Annotated[
    float, Field(ge=MULTIPLIERS[0], le=MULTIPLIERS[1], description="Noise std, or scale, over the per-record bound.")
]


@dataclass(frozen=True, slots=True)
class GaussianDpEvent:
    """One answer with Gaussian noise."""

    __pydantic_config__: ClassVar = _STRICT

    noise_multiplier: _Multiplier
    type: Literal["GaussianDpEvent"] = "GaussianDpEvent"

    def curves(self, relation: Relation) -> Curves:
        """Return the curves of the Gaussian mechanism."""
        return Gaussian().curves(self.noise_multiplier, relation)


@dataclass(frozen=True, slots=True)
class LaplaceDpEvent:
    """One answer with Laplace noise."""

    __pydantic_config__: ClassVar = _STRICT

    noise_multiplier: _Multiplier
    type: Literal["LaplaceDpEvent"] = "LaplaceDpEvent"

    def curves(self, relation: Relation) -> Curves:
        """Return the curves of the Laplace mechanism."""
        return Laplace().curves(self.noise_multiplier, relation)


@dataclass(frozen=True, slots=True)
class PoissonSampledDpEvent:
    """One answer with Gaussian noise, on a secret batch that contains each record independently."""

    __pydantic_config__: ClassVar = _STRICT

    sampling_probability: Annotated[
        float, Field(ge=1e-9, le=1.0, description="Probability that a record takes part in an answer.")
    ]
    event: Annotated[GaussianDpEvent, Field(description="The answer on the batch.")]
    type: Literal["PoissonSampledDpEvent"] = "PoissonSampledDpEvent"

    def curves(self, relation: Relation) -> Curves:
        """Return the curves of the sampled Gaussian mechanism."""
        return PoissonGaussian(self.sampling_probability).curves(self.event.noise_multiplier, relation)


@dataclass(frozen=True, slots=True)
class EpsilonDeltaDpEvent:
    """One epsilon-DP answer of an unknown mechanism."""

    __pydantic_config__: ClassVar = _STRICT

    epsilon: Annotated[float, Field(ge=1e-6, le=EPSILON_RANGE[1], description="Between neighbors of the dataset.")]
    delta: Annotated[float, Field(ge=0.0, le=0.0, description="0: otherwise nothing bounds the cost.")] = 0.0
    type: Literal["EpsilonDeltaDpEvent"] = "EpsilonDeltaDpEvent"

    def curves(self, _relation: Relation) -> Curves:
        """Return the curves of randomized response, which dominates every such answer."""
        return Curves.of_pure(self.epsilon)


Single = GaussianDpEvent | LaplaceDpEvent | PoissonSampledDpEvent | EpsilonDeltaDpEvent


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


@dataclass(frozen=True, slots=True)
class Outside(AbstractComposition):
    """An event that ran elsewhere, accounted for between these neighbors."""

    event: OutsideEvent
    relation: Relation = REPLACE_ONE

    def parts(self) -> tuple[tuple[int, Curves], ...]:
        """Return the number of answers and the cost of one, for each kind of answer."""
        kinds = self.event.events if isinstance(self.event, ComposedDpEvent) else [self.event]
        each = [(k.event, k.count) if isinstance(k, SelfComposedDpEvent) else (k, 1) for k in kinds]
        return tuple((count, _interleaved(single.curves(self.relation))) for single, count in each)


def _interleaved(curves: Curves) -> Curves:
    return Curves(curves.rdp, curves.gdp_bound, curves.gdp_bound, curves.pure)


def event_to_json(event: OutsideEvent) -> dict[str, Any]:
    """Return the event tree as it was stated."""
    document: dict[str, Any] = _EVENT.dump_python(event, mode="json")
    return document


def event_from_json(document: Any) -> OutsideEvent:
    """Return the event tree that `event_to_json` wrote; `CodecError` for anything else."""
    event: OutsideEvent = typed(_EVENT, document, "an event")
    return event
