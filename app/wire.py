"""Wire models of the service alone: requests that name a loss, method or mechanism of a union.

All other wire models are in `purse.wire`, which does not load `accounting` or `solvers`.
"""

from typing import Annotated, Any, Literal, get_args

from pydantic import ConfigDict, Discriminator, Field, RootModel, Tag

from accounting.mechanisms.selection import MOST_RUNS
from accounting.records.outside import OutsideEvent
from purse.wire import jobs
from purse.wire.base import DatasetReference, Delta, Epsilon, Identifier, Name, Omitted, Title, Wire
from purse.wire.datasets import MAX_COLUMNS
from purse.wire.forecasts import EPSILONS, MOST_EPSILONS, MOST_TRIES
from purse.wire.table1 import Condition
from purse.wire.terms import MAX_TERMS, Term
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

MOST_BY = 2
MOST_CONDITIONS = 16


class JobPrivacy(Wire):
    """The privacy that a job requests."""

    epsilon: Epsilon
    delta: Delta | None = None
    """At most the dataset's delta, which is used if null."""


class FromProfile(Wire):
    """Center and scale rows by a released profile of the dataset, at no further charge."""

    name: Literal["profile"]
    """Name of this preparation."""
    job: Identifier | None = None
    """Job that released the profile. If null, the dataset's latest, which the quote names."""


AskedRegularizer = Annotated[
    Annotated[Regularizer, Field(discriminator="name")], Field(description="Penalty that is added to the mean loss.")
]
AskedDomain = Annotated[
    Annotated[Domain, Field(discriminator="name")], Field(description="Set of allowed coefficients.")
]
AskedMethod = Annotated[
    Annotated[Method | Auto, Field(discriminator="name")],
    Field(description="The private solver. `auto` chooses it from public facts."),
]
AskedSlopeLimit = Annotated[
    float | None,
    Field(
        ge=1e-6,
        le=1,
        description="Limit each record's slope to this share of the loss's largest slope, for less noise and some "
        "bias. If null, 0.7 for two classes with few standardized rows, otherwise 1.",
    ),
]
AskedRowNorm = Annotated[
    float | None,
    Field(
        gt=0,
        le=1e6,
        description="Clip declared rows to this l2 norm. The default is the norm that the schema implies. A smaller "
        "value requires preparation `declared`.",
    ),
]


class AskedModel(Wire):
    """The columns and the loss of a model that is to be trained."""

    dataset: DatasetReference
    target: Annotated[Name, Field(description="The declared column to predict.")]
    positive: str | None = None
    """The class of a category target that is coded +1. All others are -1. If null, the second of two categories. With
    more than two categories, null means one model for all classes, by softmax."""
    features: Annotated[list[Name] | None, Field(max_length=MAX_COLUMNS)] = None
    """Declared columns to use. If null, all other columns. If [], only the intercept is trained."""
    terms: Omitted[Annotated[list[Term], Field(min_length=1, max_length=MAX_TERMS)]] = None
    """Columns of the model as functions of declared columns, instead of `features`: powers, splines, merged categories
    and interactions. A term with one factor that sets `column` alone is the column itself."""
    loss: Annotated[Loss, Field(discriminator="name")] | None = None
    """Loss that suits the target. The default is logistic for a category, softmax for more than two categories without
    `positive`, and squared for a number."""


class JobRequest(AskedModel):
    """Train one private model. Only dataset, target and privacy are required. A seed cannot be set."""

    regularizer: AskedRegularizer = L2(1e-4)
    domain: AskedDomain = Free()
    method: AskedMethod = Auto()
    privacy: JobPrivacy
    """The requested guarantee."""
    preparation: Annotated[Declared | Private | FromProfile, Field(discriminator="name")] | None = None
    """`private` centers and scales rows by private means and variances, which the price includes. `regularizer` and
    `domain` then act on standardized coefficients. `profile` does so by the moments of a released profile, at no
    further charge. `declared` leaves rows as the declaration codes them. The default is `private` if possible,
    otherwise `declared`."""
    slope_limit: AskedSlopeLimit = None
    row_norm: AskedRowNorm = None
    inference: Annotated[bool, Field(exclude_if=lambda inference: not inference)] = False
    """If true, the job releases a regression table, whose standard errors and intervals include sampling error and
    privacy noise. The regression is logistic for two classes and linear for a number, unless `family` is set. Leave out
    method, regularizer, domain, preparation, slope_limit and row_norm. A loss, if you give one, must be logistic or
    squared."""
    family: Omitted[Literal["poisson"]] = None
    """With inference, `poisson` fits a Poisson regression with log link: the log of the mean count is a linear
    function. The target is then a number column from 0 to the largest count. The default is logistic for two classes,
    and linear for a number."""
    reference: Omitted[dict[Name, Name]] = None
    """With inference, the level of each category feature that its other levels are compared with. The default is the
    first category."""
    level: Annotated[float, Field(ge=0.5, le=0.999, exclude_if=lambda level: level == 0.95)] = 0.95
    """With inference, the confidence of each interval."""


class ForecastPrivacy(Wire):
    """The guarantees that a forecast tries."""

    epsilons: Annotated[tuple[Epsilon, ...], Field(min_length=1, max_length=MOST_EPSILONS)] = EPSILONS
    """Values to try, in increasing order."""
    delta: Delta | None = None
    """At most the dataset's delta, which is used if null."""


class ForecastRequest(JobRequest):
    """Forecast the accuracy of a job at each epsilon, without running it. Only dataset and target are required."""

    privacy: ForecastPrivacy = ForecastPrivacy()  # type: ignore[assignment]
    """Guarantees to try."""
    source: Annotated[
        TwinSource | None,
        Field(description=f"Source of the twin's rows. If null, {USUAL_SOURCE}."),
    ] = None
    signal: Annotated[float, Field(ge=0.01, le=0.99)] = 0.5
    """Assumed quality of the best model, because no public fact states it: 0 is as good as a constant answer, and 1 is
    perfect. The measure is accuracy, or explained variance for a number."""
    runs: Annotated[int | None, Field(ge=3, le=MOST_TRIES)] = None
    """Number of runs of the method at each epsilon, with fresh noise. The default is 10, or 5 or 3 if more would exceed
    the work limit."""
    twin: TwinNumber = 0
    wanted: Annotated[float | None, Field(gt=0, lt=1)] = None
    """Target score: accuracy, or r2 for a number. The forecast states the smallest epsilon that reaches it."""

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The epsilons to try, in increasing order."""
        return tuple(sorted(set(self.privacy.epsilons)))

    @property
    def job(self) -> JobRequest:
        """The job at the smallest epsilon."""
        own = {name: getattr(self, name) for name in JobRequest.model_fields if name != "privacy"}
        return JobRequest(**own, privacy=JobPrivacy(epsilon=self.epsilons[0], delta=self.privacy.delta))


class StatisticRequest(Wire):
    """Release a statistic of a dataset: counts, means, quantiles, a covariance, a description of groups, or a profile.

    It is priced and charged like a model, and has a receipt. A profile describes all columns and belongs to the
    dataset: everybody with access to the dataset may read it, and standardize by it at no charge.
    """

    dataset: DatasetReference
    columns: Omitted[Annotated[list[Name], Field(min_length=1, max_length=MAX_COLUMNS)]] = None
    """Declared columns, in the order of the answer. The default is all columns. Counts of several columns are a cross
    table. A profile always covers all columns. `table1` describes the columns, by default all that do not group."""
    by: Omitted[Annotated[list[Name], Field(min_length=1, max_length=MOST_BY)]] = None
    """For `table1`: one or two category columns, whose combinations of categories are the groups."""
    where: Omitted[Annotated[list[Condition], Field(min_length=1, max_length=MOST_CONDITIONS)]] = None
    """For `table1`: conditions that every described row satisfies. The default is all rows."""
    method: Annotated[AnyStatistic, Field(discriminator="name")]
    """The statistic and its resolution."""
    privacy: JobPrivacy
    """The requested guarantee. Its delta must be above 0."""


class EvaluationBody(Wire):
    """The resolution of an evaluation, and the privacy that it requests of the holdout set."""

    bins: Bins = 40
    """Number of equal bins of the score, or of the residual. Unused for more than two classes."""
    clip: Clip = 0.5
    """For a number: clip residuals to this multiple of half the target's declared range."""
    privacy: JobPrivacy
    """The requested guarantee. Its delta must be above 0."""


class EvaluationRequest(EvaluationBody):
    """Evaluate a released model on the holdout set of its dataset, whose budget is charged."""

    model: Annotated[Identifier, Field(description="Your job that released the model.")]


class CandidateRequest(Wire):
    """A way to train the model of a tuning. Missing fields have the defaults of a job request."""

    method: AskedMethod = Auto()
    regularizer: AskedRegularizer = L2(1e-4)
    domain: AskedDomain = Free()
    preparation: Annotated[Declared | Private, Field(discriminator="name")] | None = None
    """Preparation of the rows, as in a job, but without profile. Default: private if possible."""
    slope_limit: AskedSlopeLimit = None


class TuningRequest(AskedModel):
    """Train models in several ways, and release the one with the best private score.

    Each candidate is run `repeats` times. A secret fair coin decides for each run whether it counts. The best counted
    run is released. The price is higher than that of one run and lower than that of all runs.
    """

    candidates: Annotated[list[CandidateRequest], Field(min_length=1, max_length=MOST_RUNS)]
    """The candidates to compare. The list is public, so no part of it may depend on the data."""
    repeats: Annotated[int, Field(ge=1, le=MOST_RUNS)] = 2
    """Number of runs of each candidate. All candidates together have 2 to 256 runs."""
    privacy: JobPrivacy
    """The requested guarantee for the whole tuning. Its delta must be above 0."""
    row_norm: AskedRowNorm = None


Requested = JobRequest | StatisticRequest | EvaluationRequest | TuningRequest
_STATISTICS = frozenset(str(member.__dataclass_fields__["name"].default) for member in get_args(AnyStatistic))


def _kind(document: Any) -> str:
    """Return the tag of the union member that a document, or an instance, belongs to."""
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
    """Any job request: `model` makes it an evaluation, `candidates` a tuning, and otherwise `method` decides."""

    model_config = ConfigDict(strict=True, frozen=True, hide_input_in_errors=True)


class Quote(jobs.Quote):
    """The price of a job: a function of public facts only."""

    method: Annotated[Run | AnyCounting | Tuning, Field(discriminator="name")]  # type: ignore[assignment]
    """The method with every field set."""


class Job(jobs.Job):
    """A job and its state."""

    quote: Quote
    """The price as it was charged."""


class ExternalCharge(Wire):
    """A mechanism that ran elsewhere on the same people, and whose cost is charged to the dataset's ledger."""

    label: Annotated[
        Title, Field(description="Your name for the charge. The same label and event again is the same charge.")
    ]
    event: OutsideEvent
    """The event, with the names of dp-accounting. Noise multipliers are relative to the per-record bound."""
    exceeds: bool = False
    """If true, record the charge even if it does not fit. The budget is then exceeded and the ledger frozen. If false,
    a charge that does not fit is refused."""
