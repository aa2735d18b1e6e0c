"""Requests that only the service reads, because they name losses, methods or mechanisms of the solvers.

All other messages are in `purse.wire`, which does not load the solvers.
"""

from typing import Annotated, Any, Literal, get_args

from pydantic import ConfigDict, Discriminator, Field, RootModel, Tag

from accounting.mechanisms import Gaussian, Laplace, PoissonGaussian
from accounting.mechanisms.selection import MOST_RUNS
from accounting.plan import MAX_COUNT
from accounting.privacy import Relation
from accounting.records.outside import OutsideEvent
from purse.wire import jobs
from purse.wire.base import DatasetReference, Delta, Epsilon, Identifier, Name, Title, Wire
from purse.wire.datasets import MAX_COLUMNS
from purse.wire.forecasts import EPSILONS, MOST_EPSILONS, MOST_TRIES
from purse.wire.twins import USUAL_SOURCE, TwinNumber, TwinSource
from solvers.domains import Domain, Free
from solvers.losses import Loss
from solvers.methods import Method, Run
from solvers.preparation import Declared, Private
from solvers.regularizers import L2, Regularizer
from solvers.selection import Auto
from solvers.statistics import AnyCounting, AnyStatistic
from solvers.statistics.evaluation import Bins, Clip
from solvers.trials import Tuning


class JobPrivacy(Wire):
    """The privacy target of a job."""

    epsilon: Epsilon
    delta: Annotated[Delta | None, Field(description="The dataset's delta if null; never above it.")] = None


class FromProfile(Wire):
    """Standardisation by a released profile of the dataset, whose moments cost nothing more."""

    name: Annotated[Literal["profile"], Field(description="By its name.")]
    job: Annotated[
        Identifier | None,
        Field(description="The job that released the profile; the latest if null. The quote states it."),
    ] = None


AskedPositive = Annotated[
    str | None,
    Field(
        description="For a category target, the class coded +1; all others are -1. If null, the second of two "
        "categories; a target with more categories gets softmax."
    ),
]
AskedFeatures = Annotated[
    list[Name] | None,
    Field(
        max_length=MAX_COLUMNS,
        description="Declared columns to use; all but the target if null. With [], only the intercept is fitted.",
    ),
]
AskedLoss = Annotated[
    Annotated[Loss, Field(discriminator="name")] | None,
    Field(
        description="A loss that suits the target. If null, logistic for a category, softmax for one of more than two "
        "categories without `positive`, squared for a number."
    ),
]
AskedRegularizer = Annotated[
    Annotated[Regularizer, Field(discriminator="name")], Field(description="Added to the mean loss.")
]
AskedDomain = Annotated[Annotated[Domain, Field(discriminator="name")], Field(description="Allowed values of w.")]
AskedMethod = Annotated[
    Annotated[Method | Auto, Field(discriminator="name")],
    Field(description="The private solver; auto chooses from public facts."),
]
AskedSlopeLimit = Annotated[
    float | None,
    Field(
        ge=1e-6,
        le=1,
        description="Shorten each record's slope to this share of the loss's bound: less noise, some bias. If "
        "null, 0.7 for classes told apart by one margin from few standardised rows, else 1.",
    ),
]
AskedRowNorm = Annotated[
    float | None,
    Field(
        gt=0,
        le=1e6,
        description="Clip rows as declared to this l2 norm; what the schema implies if null. Less than that goes "
        "with preparation declared alone.",
    ),
]


class JobRequest(Wire):
    """Train one private model. Only dataset, target and privacy are required. There is no seed."""

    dataset: DatasetReference
    target: Annotated[Name, Field(description="The declared column to predict.")]
    positive: AskedPositive = None
    features: AskedFeatures = None
    loss: AskedLoss = None
    regularizer: AskedRegularizer = L2(1e-4)
    domain: AskedDomain = Free()
    method: AskedMethod = Auto()
    privacy: Annotated[JobPrivacy, Field(description="The requested guarantee.")]
    preparation: Annotated[
        Annotated[Declared | Private | FromProfile, Field(discriminator="name")] | None,
        Field(
            description="private: rows are centred and scaled by private means and variances, which the price "
            "includes, and `regularizer` and `domain` act on standardised coefficients; profile: so, by moments that "
            "were released before, at no further charge; declared: rows as the declaration codes them. If null, "
            "private where it fits, else declared. Either way the model is in the declared columns."
        ),
    ] = None
    slope_limit: AskedSlopeLimit = None
    row_norm: AskedRowNorm = None


class ForecastPrivacy(Wire):
    """The privacy targets to try."""

    epsilons: Annotated[
        tuple[Epsilon, ...],
        Field(min_length=1, max_length=MOST_EPSILONS, description="Each is tried, in increasing order."),
    ] = EPSILONS
    delta: Annotated[Delta | None, Field(description="The dataset's delta if null; never above it.")] = None


class ForecastRequest(JobRequest):
    """A forecast of a job's accuracy at several epsilons. Only dataset and target are required."""

    privacy: Annotated[ForecastPrivacy, Field(description="What is tried.")] = ForecastPrivacy()  # type: ignore[assignment]
    source: Annotated[
        TwinSource | None,
        Field(description=f"By what the twin's rows are drawn; if null, {USUAL_SOURCE}."),
    ] = None
    signal: Annotated[
        float,
        Field(
            ge=0.01,
            le=0.99,
            description="Assumed strength of the relation, which nothing public reveals: the quality of the best model "
            "between a constant answer (0) and a perfect one (1), in accuracy or explained variance.",
        ),
    ] = 0.5
    runs: Annotated[int, Field(ge=3, le=MOST_TRIES, description="Of the method at each epsilon, with fresh noise.")] = (
        10
    )
    twin: TwinNumber = 0
    wanted: Annotated[
        float | None,
        Field(
            gt=0,
            lt=1,
            description="Target accuracy, or R^2 for a number. The response gives the "
            "smallest epsilon that reaches it.",
        ),
    ] = None

    @property
    def epsilons(self) -> tuple[float, ...]:
        """Those to be tried, the least first."""
        return tuple(sorted(set(self.privacy.epsilons)))

    @property
    def job(self) -> JobRequest:
        """The job at the least of them."""
        own = {name: getattr(self, name) for name in JobRequest.model_fields if name != "privacy"}
        return JobRequest(**own, privacy=JobPrivacy(epsilon=self.epsilons[0], delta=self.privacy.delta))


class StatisticRequest(Wire):
    """Release a statistic of a dataset: counts, means, quantiles, a covariance, or a profile of all its columns.

    Priced, charged and receipted as a model is. A profile is the dataset's: whoever may use that may read it, and
    standardise by it, free.
    """

    dataset: DatasetReference
    columns: Annotated[
        list[Name] | None,
        Field(
            min_length=1,
            max_length=MAX_COLUMNS,
            exclude_if=lambda columns: columns is None,
            description="Declared columns, in the order of the answer: of several, counts are of all together, a cross "
            "table. All if null, which a profile always is of.",
        ),
    ] = None
    method: Annotated[AnyStatistic, Field(discriminator="name", description="Which statistic, and how fine.")]
    privacy: Annotated[JobPrivacy, Field(description="The requested guarantee; delta > 0.")]


class EvaluationBody(Wire):
    """The settings of an evaluation and its privacy target on the holdout set."""

    bins: Annotated[
        Bins,
        Field(description="Even; of the score, or of the residual. Of more than two classes there are none."),
    ] = 40
    clip: Annotated[
        Clip,
        Field(description="For a number: residuals are cut to this many halves of the target's declared range."),
    ] = 0.5
    privacy: Annotated[JobPrivacy, Field(description="The requested guarantee; delta > 0.")]


class EvaluationRequest(EvaluationBody):
    """Evaluate a released model on the holdout set of its dataset, whose budget pays for it."""

    model: Annotated[Identifier, Field(description="The job that released the model, one of your own.")]


class CandidateRequest(Wire):
    """One way to train the model of a tuning, with the defaults of a job request."""

    method: AskedMethod = Auto()
    regularizer: AskedRegularizer = L2(1e-4)
    domain: AskedDomain = Free()
    preparation: Annotated[
        Annotated[Declared | Private, Field(discriminator="name")] | None,
        Field(description="As of a job, without profile; private where it fits if null."),
    ] = None
    slope_limit: AskedSlopeLimit = None


class TuningRequest(Wire):
    """Train models in several ways and release the one with the best private score, at one price.

    Each candidate is tried `repeats` times. A secret fair coin decides for each try whether it counts, and the best
    counted one is released. The price is below that of all tries and above that of one.
    """

    dataset: DatasetReference
    target: Annotated[Name, Field(description="The declared column to predict.")]
    positive: AskedPositive = None
    features: AskedFeatures = None
    loss: AskedLoss = None
    candidates: Annotated[
        list[CandidateRequest],
        Field(min_length=1, max_length=MOST_RUNS, description="A public list: no part of it may come from the data."),
    ]
    repeats: Annotated[
        int, Field(ge=1, le=MOST_RUNS, description="How often each is tried; 2 to 256 tries in all.")
    ] = 2
    privacy: Annotated[JobPrivacy, Field(description="The requested guarantee for the whole tuning; delta > 0.")]
    row_norm: AskedRowNorm = None


Requested = JobRequest | StatisticRequest | EvaluationRequest | TuningRequest
_STATISTICS = frozenset(str(member.__dataclass_fields__["name"].default) for member in get_args(AnyStatistic))


def _kind(document: Any) -> str:
    if isinstance(document, EvaluationRequest) or (isinstance(document, dict) and "model" in document):
        return "evaluation"
    fields = document.keys() if isinstance(document, dict) else getattr(document, "__pydantic_fields_set__", ())
    if "candidates" in fields:
        return "tuning"
    method = document.get("method") if isinstance(document, dict) else getattr(document, "method", None)
    name = method.get("name") if isinstance(method, dict) else getattr(method, "name", None)
    return "statistic" if isinstance(name, str) and name in _STATISTICS else "model"


class AnyRequest(
    RootModel[
        Annotated[
            Annotated[JobRequest, Tag("model")]
            | Annotated[StatisticRequest, Tag("statistic")]
            | Annotated[EvaluationRequest, Tag("evaluation")]
            | Annotated[TuningRequest, Tag("tuning")],
            Discriminator(_kind),
        ]
    ]
):
    """A model, or a statistic: the method tells; with `model` an evaluation of that, with `candidates` a tuning."""

    model_config = ConfigDict(strict=True, frozen=True, hide_input_in_errors=True)


class Quote(jobs.Quote):
    """The price of a job, from public facts only."""

    method: Annotated[  # type: ignore[assignment]
        Run | AnyCounting | Tuning, Field(discriminator="name", description="The method, every field filled in.")
    ]


class Job(jobs.Job):
    """A job and its state."""

    quote: Annotated[Quote, Field(description="The price as it was charged.")]


class ExternalCharge(Wire):
    """A charge to the dataset's ledger for a mechanism that ran elsewhere on the same people."""

    label: Annotated[
        Title, Field(description="Your own name for it. The same label with the same event again is the same charge.")
    ]
    event: Annotated[
        OutsideEvent,
        Field(description="What ran, in the names of dp-accounting; noise multipliers over the per-record bound."),
    ]
    exceeds: Annotated[
        bool,
        Field(
            description="Record it also if it does not fit, for it has happened: the budget is then exceeded, and "
            "the ledger frozen. Without this, what does not fit is refused."
        ),
    ] = False


class CalibrationRequest(Wire):
    """A mechanism and the privacy target of all its answers together."""

    mechanism: Annotated[
        Gaussian | Laplace | PoissonGaussian,
        Field(discriminator="name", description="How each answer is made private."),
    ]
    count: Annotated[int, Field(ge=1, le=MAX_COUNT, description="How many answers.")] = 1
    epsilon: Epsilon
    delta: Delta = 0.0
    neighbors: Annotated[Relation, Field(description="Between which datasets.")] = "replace_one"
