"""Quotes and jobs."""

from typing import Annotated, Any, Literal, get_args

from pydantic import ConfigDict, Discriminator, Field, RootModel, Tag

from accounting.privacy import REPLACE_ONE, Unit
from purse.wire.base import Delta, Epsilon, Identifier, Name, Protected, Sha256, Timestamp, Wire
from purse.wire.datasets import MAX_COLUMNS, PrivacyLoss
from purse.wire.neighbors import Meaning, Neighbors, Other
from solvers.domains import Domain, Free
from solvers.losses import Loss
from solvers.methods import Method, Run
from solvers.preparation import Declared, Private
from solvers.regularizers import L2, Regularizer
from solvers.selection import Auto
from solvers.statistics import AnyStatistic

JobState = Literal["queued", "running", "done", "failed", "cancelled"]
JobKind = Literal["model", "profile", "statistic"]


class JobPrivacy(Wire):
    """The privacy a job asks for."""

    epsilon: Epsilon
    delta: Annotated[Delta | None, Field(description="The dataset's delta if null; never above it.")] = None


class FromProfile(Wire):
    """Rows are centred and scaled by a profile that was released of the dataset before; the price holds no moments."""

    name: Annotated[Literal["profile"], Field(description="By its name.")]
    job: Annotated[
        Identifier | None,
        Field(description="The job that released it; the dataset's latest if null. The quote says which."),
    ] = None


class JobRequest(Wire):
    """Train one private model. Only dataset, target and privacy are required; there is no seed to give."""

    dataset: Identifier
    target: Annotated[Name, Field(description="The declared column to predict.")]
    positive: Annotated[
        str | None,
        Field(
            description="For a category target: the class coded +1, all others -1. If null, the second of two "
            "categories; more than two are all told apart, by softmax."
        ),
    ] = None
    features: Annotated[
        list[Name] | None,
        Field(
            max_length=MAX_COLUMNS,
            description="Declared columns to use; all others if null. [] leaves the intercept alone.",
        ),
    ] = None
    loss: Annotated[
        Annotated[Loss, Field(discriminator="name")] | None,
        Field(
            description="One that suits the target; if null, logistic for a category, softmax for one of more than two "
            "categories without `positive`, squared for a number."
        ),
    ] = None
    regularizer: Annotated[
        Annotated[Regularizer, Field(discriminator="name")], Field(description="Added to the mean loss.")
    ] = L2(1e-4)
    domain: Annotated[Annotated[Domain, Field(discriminator="name")], Field(description="Where w may lie.")] = Free()
    method: Annotated[
        Annotated[Method | Auto, Field(discriminator="name")],
        Field(description="The private solver; auto chooses from public facts."),
    ] = Auto()
    privacy: Annotated[JobPrivacy, Field(description="The promise asked for.")]
    preparation: Annotated[
        Annotated[Declared | Private | FromProfile, Field(discriminator="name")] | None,
        Field(
            description="private: rows are centred and scaled by private means and variances, which the price "
            "includes, and `regularizer` and `domain` act on standardised coefficients; profile: so, by moments that "
            "were released before, at no further charge; declared: rows as the declaration codes them. If null, "
            "private where it fits, else declared. Either way the model is in the declared columns."
        ),
    ] = None
    slope_limit: Annotated[
        float | None,
        Field(
            ge=1e-6,
            le=1,
            description="Shorten each record's slope to this share of the loss's bound: less noise, some bias. If "
            "null, 0.7 for classes told apart by one margin from few standardised rows, else 1.",
        ),
    ] = None
    row_norm: Annotated[
        float | None,
        Field(
            gt=0,
            le=1e6,
            description="Clip rows as declared to this l2 norm; what the schema implies if null. Less than that goes "
            "with preparation declared alone.",
        ),
    ] = None


class StatisticRequest(Wire):
    """Release a statistic of a dataset: counts, means, quantiles, a covariance, or a profile of all its columns.

    Priced, charged and receipted as a model is. A profile is the dataset's: whoever may use that may read it, and
    standardise by it, free.
    """

    dataset: Identifier
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
    privacy: Annotated[JobPrivacy, Field(description="The promise asked for; delta > 0.")]


Asked = JobRequest | StatisticRequest
_STATISTICS = frozenset(str(member.__dataclass_fields__["name"].default) for member in get_args(AnyStatistic))


def _kind(document: Any) -> str:
    method = document.get("method") if isinstance(document, dict) else getattr(document, "method", None)
    name = method.get("name") if isinstance(method, dict) else getattr(method, "name", None)
    return "statistic" if isinstance(name, str) and name in _STATISTICS else "model"


class AnyRequest(
    RootModel[
        Annotated[
            Annotated[JobRequest, Tag("model")] | Annotated[StatisticRequest, Tag("statistic")], Discriminator(_kind)
        ]
    ]
):
    """A model, or a statistic: the method's name tells."""

    model_config = ConfigDict(strict=True, frozen=True, hide_input_in_errors=True)


class QueryPrice(Wire):
    """One kind of question the solver will ask, with its noise."""

    name: Annotated[str, Field(description="What the solver calls it.")]
    count: Annotated[int, Field(description="How many uses of the mechanism.")]
    answers: Annotated[int, Field(description="How many answers that is: a use may answer more than once.")]
    mechanism: Annotated[dict[str, object], Field(description="How each answer is made private.")]
    noise_multiplier: Annotated[
        float,
        Field(description="Noise std (Laplace: scale) over the per-record bound, unitless; 2 / epsilon for a choice."),
    ]
    noise_std: Annotated[
        float,
        Field(description="Noise std of each coordinate of an answer at its largest per-record bound; 0 for a choice."),
    ]


class Forecast(Wire):
    """What to expect of the run: theory's bound for the worst data, and this server's pace. No promise."""

    excess_risk: Annotated[
        float | None,
        Field(
            description="Proven bound on E[F(w) + r(w)] minus its least value over the domain, if a minimizer lies "
            "within `distance` of the start; null where no bound with constants is proven for the method."
        ),
    ]
    untrained: Annotated[
        float | None,
        Field(
            description="By how much the start, a model without training, can miss the least value at most; null, as "
            "the next two, for a statistic."
        ),
    ]
    distance: Annotated[
        float | None, Field(description="D, how far from the start a minimizer is supposed to lie, in l2.")
    ]
    distance_certain: Annotated[
        bool | None,
        Field(description="Whether the domain or the regularizer ensures the distance; else it is a guess."),
    ]
    statement: Annotated[str, Field(description="What the bound is a bound on, in words.")]
    seconds: Annotated[
        float,
        Field(
            description="Predicted time on an idle core, by a rate measured when the server started, on numbers that "
            "are nobody's; loading the data and waiting for a slot come on top."
        ),
    ]


class UsedProfile(Wire):
    """Which profile a job standardises by."""

    job: Annotated[Identifier, Field(description="The job that released it: /v1/jobs/{id}/profile.")]
    sha256: Annotated[Sha256, Field(description="Of the profile as published; its own receipt says the same.")]


class Prepared(Wire):
    """How rows become the vectors that the method meets."""

    name: Annotated[
        Literal["declared", "by_method", "private", "profile"],
        Field(description="declared, private, profile, or by_method: the method standardises privately by itself."),
    ]
    reason: Annotated[str, Field(description="Why.")]
    statement: Annotated[str, Field(description="What it means, and what regularizer and domain act on.")]
    profile: Annotated[UsedProfile | None, Field(description="The profile, if rows are standardised by one.")] = None


class Quote(Wire):
    """The price of a job: a function of public facts only."""

    dataset: Identifier
    method: Annotated[Run | AnyStatistic, Field(discriminator="name", description="The method, every field filled in.")]
    reason: Annotated[str, Field(description="Why this method and these settings.")]
    preparation: Annotated[
        Prepared | None, Field(description="How rows are prepared; null for a job priced before there was a choice.")
    ] = None
    epsilon: Annotated[float, Field(description="What the accountant certifies at delta.")]
    delta: Annotated[float, Field(description="delta")]
    neighbors: Neighbors = REPLACE_ONE
    meaning: Meaning = None
    elsewhere: Other = None
    accountant: Annotated[str, Field(description="Whose certificate allowed the least noise.")]
    accountant_version: Annotated[str, Field(description="Its version.")]
    queries: Annotated[list[QueryPrice], Field(description="Everything that will be asked of the data.")]
    gradient_evaluations: Annotated[
        float, Field(description="Expected number of per-row gradients that the run computes.")
    ]
    forecast: Annotated[
        Forecast | None, Field(description="What to expect; null for a job priced before there were forecasts.")
    ] = None
    rows: Annotated[int | None, Field(description="n; null where a person is the unit.")]
    persons: Annotated[int | None, Field(description="n, where a person is the unit.")] = None
    unit: Protected = Unit()
    dimension: Annotated[int, Field(description="Coordinates of w, intercepts included; for softmax, of all classes.")]
    row_norm: Annotated[float, Field(description="Bound on each row that the method meets, prepared.")]
    gradient_bound: Annotated[
        float | None, Field(description="G, the bound on one record's gradient; null for a statistic.")
    ]
    slope_limit: Annotated[
        float, Field(description="The share of the loss's bound that slopes are shortened to; adaptive_gd has its own.")
    ] = 1.0
    fits: Annotated[bool, Field(description="Whether the dataset's filter would admit it now.")]
    share: Annotated[
        float | None,
        Field(
            description="The part of the budget that it takes, on the filter's coordinate that then has the most room; "
            "null if it would take more than all, or was priced before shares were told."
        ),
    ] = None
    remaining: Annotated[PrivacyLoss, Field(description="What remains now.")]
    remaining_after: Annotated[
        PrivacyLoss | None, Field(description="What would remain after it; null if it does not fit.")
    ]
    warnings: Annotated[list[str], Field(description="What the analyst should know.")] = []


class Progress(Wire):
    """How many answers were planned. They are not counted one by one: the time of an answer would tell its batch."""

    done: Annotated[int, Field(description="All of them once the job is done, none before.")]
    total: Annotated[int, Field(description="Private answers planned.")]


class Job(Wire):
    """A job and its state."""

    id: Identifier
    kind: Annotated[JobKind, Field(description="What it releases.")] = "model"
    dataset: Identifier
    analyst: Name
    state: Annotated[JobState, Field(description="queued, running, done, failed or cancelled.")]
    attempt: Annotated[int, Field(description="0 until started; another one runs under the same charge.")]
    progress: Annotated[Progress, Field(description="The planned answers.")]
    quote: Annotated[Quote, Field(description="The price as it was charged.")]
    error: Annotated[
        Literal["job_failed", "worker_lost"] | None,
        Field(description="For a failed job. One opaque code: more would be a look at the data."),
    ] = None
    created_at: Timestamp
    started_at: Annotated[Timestamp | None, Field(description="When it was claimed for the first time.")] = None
    finished_at: Annotated[
        Timestamp | None,
        Field(description="When it was done, failed or cancelled; an end is told on a public grid of times only."),
    ] = None


class JobEvent(Wire):
    """What a server-sent event carries."""

    state: Annotated[JobState, Field(description="The state now.")]
    attempt: Annotated[int, Field(description="The attempt.")]
    progress: Annotated[Progress, Field(description="The planned answers.")]
