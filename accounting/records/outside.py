"""Mechanisms that ran elsewhere, as event trees of an allow-list; what they cost here.

    GaussianDpEvent(z)  LaplaceDpEvent(z)  PoissonSampledDpEvent(q, GaussianDpEvent(z))  EpsilonDeltaDpEvent(epsilon, 0)
    SelfComposedDpEvent(count, one of these)    ComposedDpEvent([these, and the last])

Noise multipliers are noise std (Laplace: scale) over the most that one record adds to an answer, whatever the relation;
epsilon is between neighbors of the dataset's own relation. An answer that is only (epsilon, delta)-DP, delta > 0, has
no curve: no filter here could charge it. Nobody knows what was asked there in between, so the charge rests on what adds
up however answers are interleaved, Renyi divergences and mu^2 (that of no sampling), and never on an approximation.
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
        """Those of the Gaussian mechanism."""
        return Gaussian().curves(self.noise_multiplier, relation)


@dataclass(frozen=True, slots=True)
class LaplaceDpEvent:
    """One answer with Laplace noise."""

    __pydantic_config__: ClassVar = _STRICT

    noise_multiplier: _Multiplier
    type: Literal["LaplaceDpEvent"] = "LaplaceDpEvent"

    def curves(self, relation: Relation) -> Curves:
        """Those of the Laplace mechanism."""
        return Laplace().curves(self.noise_multiplier, relation)


@dataclass(frozen=True, slots=True)
class PoissonSampledDpEvent:
    """One answer with Gaussian noise, on a secret batch that holds each record independently with this probability."""

    __pydantic_config__: ClassVar = _STRICT

    sampling_probability: Annotated[float, Field(ge=1e-9, le=1.0, description="Of each record, for each answer anew.")]
    event: Annotated[GaussianDpEvent, Field(description="The answer on the batch.")]
    type: Literal["PoissonSampledDpEvent"] = "PoissonSampledDpEvent"

    def curves(self, relation: Relation) -> Curves:
        """Those of the sampled Gaussian mechanism."""
        return PoissonGaussian(self.sampling_probability).curves(self.event.noise_multiplier, relation)


@dataclass(frozen=True, slots=True)
class EpsilonDeltaDpEvent:
    """One answer of which nothing more is known than that it is epsilon-DP."""

    __pydantic_config__: ClassVar = _STRICT

    epsilon: Annotated[float, Field(ge=1e-6, le=EPSILON_RANGE[1], description="Between neighbors of the dataset.")]
    delta: Annotated[float, Field(ge=0.0, le=0.0, description="0: with more, nothing bounds what it costs.")] = 0.0
    type: Literal["EpsilonDeltaDpEvent"] = "EpsilonDeltaDpEvent"

    def curves(self, _relation: Relation) -> Curves:
        """Those of randomized response, which dominates."""
        return Curves.of_pure(self.epsilon)


Single = Annotated[
    GaussianDpEvent | LaplaceDpEvent | PoissonSampledDpEvent | EpsilonDeltaDpEvent, Field(discriminator="type")
]


@dataclass(frozen=True, slots=True)
class SelfComposedDpEvent:
    """So many answers of one kind, perhaps each chosen after those before it."""

    __pydantic_config__: ClassVar = _STRICT

    event: Annotated[Single, Field(description="Each of them.")]
    count: Annotated[int, Field(ge=1, le=MAX_COUNT, description="How many.")]
    type: Literal["SelfComposedDpEvent"] = "SelfComposedDpEvent"


Part = Annotated[
    GaussianDpEvent | LaplaceDpEvent | PoissonSampledDpEvent | EpsilonDeltaDpEvent | SelfComposedDpEvent,
    Field(discriminator="type"),
]


@dataclass(frozen=True, slots=True)
class ComposedDpEvent:
    """Answers of several kinds, in whatever order."""

    __pydantic_config__: ClassVar = _STRICT

    events: Annotated[list[Part], Field(min_length=1, max_length=MOST_EVENTS, description="Each kind.")]
    type: Literal["ComposedDpEvent"] = "ComposedDpEvent"


OutsideEvent = Annotated[
    GaussianDpEvent
    | LaplaceDpEvent
    | PoissonSampledDpEvent
    | EpsilonDeltaDpEvent
    | SelfComposedDpEvent
    | ComposedDpEvent,
    Field(discriminator="type"),
]
_EVENT: TypeAdapter[OutsideEvent] = TypeAdapter(OutsideEvent)


@dataclass(frozen=True, slots=True)
class Outside(AbstractComposition):
    """What ran elsewhere, and between which neighbors it is accounted for."""

    event: OutsideEvent
    relation: Relation = REPLACE_ONE

    def parts(self) -> tuple[tuple[int, Curves], ...]:
        """For each kind of answer how many there were, and what one costs."""
        kinds = self.event.events if isinstance(self.event, ComposedDpEvent) else [self.event]
        each = [(k.event, k.count) if isinstance(k, SelfComposedDpEvent) else (k, 1) for k in kinds]
        return tuple((count, _interleaved(single.curves(self.relation))) for single, count in each)


def _interleaved(curves: Curves) -> Curves:
    return Curves(curves.rdp, curves.gdp_bound, curves.gdp_bound, curves.pure)


def event_to_json(event: OutsideEvent) -> dict[str, Any]:
    """The tree, as it was stated."""
    document: dict[str, Any] = _EVENT.dump_python(event, mode="json")
    return document


def event_from_json(document: Any) -> OutsideEvent:
    """The tree that `event_to_json` wrote; `CodecError` for anything else."""
    found: OutsideEvent = typed(_EVENT, document, "an event")
    return found
