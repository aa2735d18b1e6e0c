"""Quotes and jobs, as a client reads them. `app.wire` has the requests, whose methods only the service knows."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, RootModel

from accounting.privacy import REPLACE_ONE, Unit
from purse.text import loss
from purse.wire.base import Identifier, Name, Protected, Sha256, Timestamp, Wire
from purse.wire.budgets import PrivacyLoss
from purse.wire.neighbors import Meaning, Neighbors, OtherRelation

JobState = Literal["queued", "running", "done", "failed", "cancelled"]
JobKind = Literal["model", "profile", "statistic", "evaluation"]


class Method(RootModel[dict[str, Any]]):
    """A method with all its fields, which depend on the method."""

    model_config = ConfigDict(strict=True, frozen=True)

    @property
    def name(self) -> str:
        """Name of the method."""
        return str(self.root["name"])

    def __getitem__(self, field: str) -> Any:
        """Return the value of a field."""
        return self.root[field]


class QueryPrice(Wire):
    """A kind of query of the solver, with its noise."""

    name: Annotated[str, Field(description="Name of the query in the solver.")]
    count: Annotated[int, Field(description="How many uses of the mechanism.")]
    answers: Annotated[int, Field(description="Number of answers. A query may have several.")]
    mechanism: Annotated[dict[str, object], Field(description="How each answer is made private.")]
    noise_multiplier: Annotated[
        float,
        Field(description="Noise std (Laplace: scale) over the per-record bound, unitless. 2 / epsilon for a choice."),
    ]
    noise_std: Annotated[
        float,
        Field(description="Noise std of each coordinate of an answer at its largest per-record bound. 0 for a choice."),
    ]


class Forecast(Wire):
    """Expectations of the run: a theoretical bound for the worst data, and a time. Not a guarantee."""

    excess_risk: Annotated[
        float | None,
        Field(
            description="Proven bound on E[F(w) + r(w)] minus its least value over the domain, if a minimizer lies "
            "within `distance` of the start. Null where no bound with constants is proven for the method."
        ),
    ]
    untrained: Annotated[
        float | None,
        Field(
            description="Largest excess of the start, an untrained model, over the "
            "smallest value. Null for a statistic, "
            "like the next two fields."
        ),
    ]
    distance: Annotated[float | None, Field(description="D, the assumed l2 distance of a minimizer from the start.")]
    distance_certain: Annotated[
        bool | None,
        Field(description="Whether the domain or the regularizer ensures the distance. If false, it is a guess."),
    ]
    statement: Annotated[str, Field(description="The meaning of the bound, in words.")]
    seconds: Annotated[
        float,
        Field(
            description="Predicted seconds on an idle core, from a rate that the server "
            "measured at its start on made-up "
            "numbers. Loading the data and waiting in the queue are not included."
        ),
    ]


class UsedProfile(Wire):
    """The profile that standardizes the rows of a job."""

    job: Annotated[Identifier, Field(description="The job that released it: /v1/jobs/{id}/profile.")]
    sha256: Annotated[Sha256, Field(description="Digest of the published profile, which its own receipt states too.")]


class Prepared(Wire):
    """How the rows are prepared for the method."""

    name: Annotated[
        Literal["declared", "by_method", "private", "profile"],
        Field(description="declared, private, profile, or by_method: the method standardizes privately by itself."),
    ]
    reason: Annotated[str, Field(description="Why rows are prepared so.")]
    statement: Annotated[
        str,
        Field(
            description="Meaning of the preparation, with the coefficients that the regularizer and the domain act on."
        ),
    ]
    profile: Annotated[UsedProfile | None, Field(description="The profile, if rows are standardized by one.")] = None


Basis = Literal["exact", "worst_case", "typical"]


class IntervalWidth(Wire):
    """The width of the 95 % interval of an answer, known before the answer is bought.

    It is a function of public facts. `exact`: the released interval has this width, unless it is cut at an end of the
    declared range. `worst_case`: it has at most this width. `typical`: it has this width if values, scores or residuals
    are spread evenly over their range, classes are equally frequent, and every person has as many rows as allowed.
    """

    answer: Annotated[
        str, Field(description="The answer, such as `count`, `mean`, `share`, `quantile 0.5` or `accuracy`.")
    ]
    column: Annotated[Name | None, Field(description="Its column. Null if the width is the same for all answers.")]
    width: Annotated[float, Field(description="Upper end minus lower end, in the unit of the answer.")]
    basis: Annotated[Basis, Field(description="`exact`, `worst_case` or `typical`.")]

    @classmethod
    def of(cls, answer: str, column: str | None, width: float, basis: Basis) -> "IntervalWidth":
        """Return the width of the interval of an answer."""
        return cls(answer=answer, column=column, width=width, basis=basis)


class Quote(Wire):
    """The price of a job: a function of public facts only."""

    dataset: Identifier
    method: Annotated[Method, Field(description="The method, every field filled in.")]
    reason: Annotated[str, Field(description="Why this method and these settings.")]
    preparation: Annotated[
        Prepared | None, Field(description="How rows are prepared. Null for a job of an earlier version.")
    ] = None
    epsilon: Annotated[float, Field(description="The epsilon that the accountant certifies at delta.")]
    delta: Annotated[float, Field(description="Its delta.")]
    neighbors: Neighbors = REPLACE_ONE
    meaning: Meaning = None
    elsewhere: OtherRelation = None
    accountant: Annotated[str, Field(description="The accountant whose certificate allowed the smallest noise.")]
    accountant_version: Annotated[str, Field(description="Its version.")]
    queries: Annotated[list[QueryPrice], Field(description="All queries of the data.")]
    interval_width: Annotated[
        list[IntervalWidth] | None,
        Field(
            description="Width of the 95 % interval of each answer of a statistic or an evaluation. Null for a model."
        ),
    ] = None
    gradient_evaluations: Annotated[float, Field(description="Expected number of per-row gradients of the run.")]
    forecast: Annotated[Forecast | None, Field(description="The forecast. Null for a job of an earlier version.")] = (
        None
    )
    rows: Annotated[int | None, Field(description="n. Null if persons are protected.")]
    persons: Annotated[int | None, Field(description="n, where a person is the unit.")] = None
    unit: Protected = Unit()
    dimension: Annotated[
        int, Field(description="Number of coordinates of w, intercepts included. For softmax, of all classes.")
    ]
    row_norm: Annotated[float, Field(description="Norm bound of each prepared row.")]
    gradient_bound: Annotated[
        float | None, Field(description="Bound G on one record's gradient. Null for a statistic.")
    ]
    slope_limit: Annotated[
        float,
        Field(description="Fraction of the loss's bound to which slopes are clipped. `adaptive_gd` has its own limit."),
    ] = 1.0
    fits: Annotated[bool, Field(description="Whether the dataset's filter would admit the job now.")]
    share: Annotated[
        float | None,
        Field(
            description="Fraction of the budget that the job uses, at the filter's order with the largest remainder "
            "afterwards. Null if the job exceeds the budget, or is of an earlier version."
        ),
    ] = None
    remaining: Annotated[PrivacyLoss, Field(description="What remains now.")]
    remaining_after: Annotated[
        PrivacyLoss | None,
        Field(description="The largest job that would fit after this one. Null if this one does not fit."),
    ]
    warnings: Annotated[list[str], Field(description="What the analyst should know.")] = []

    def __repr__(self) -> str:
        share = "" if self.share is None else f", {self.share:.3%} of the budget"
        fits = "" if self.fits else ", which it does not fit"
        return f"<quote: {loss(self.epsilon, self.delta)}{share}{fits}, by {self.method.name}>"


class Progress(Wire):
    """The planned answers. They are not counted one by one, because the time of an answer depends on its batch."""

    done: Annotated[int, Field(description="All planned answers once the job is done, 0 before.")]
    total: Annotated[int, Field(description="Private answers planned.")]


class Job(Wire):
    """A job and its state."""

    id: Identifier
    kind: Annotated[JobKind, Field(description="What the job releases.")] = "model"
    dataset: Identifier
    analyst: Name
    state: Annotated[JobState, Field(description="queued, running, done, failed or cancelled.")]
    attempt: Annotated[
        int, Field(description="Number of the attempt, 0 before the start. A repeated attempt costs nothing more.")
    ]
    progress: Annotated[Progress, Field(description="The planned answers.")]
    quote: Annotated[Quote, Field(description="The price as it was charged.")]
    error: Annotated[
        Literal["job_failed", "worker_lost"] | None,
        Field(description="Code of a failed job. The cause is not stated, because it could depend on the data."),
    ] = None
    created_at: Timestamp
    started_at: Annotated[Timestamp | None, Field(description="Time of the first start.")] = None
    finished_at: Annotated[
        Timestamp | None,
        Field(description="Time when it was done, failed or cancelled, rounded to a public grid of times."),
    ] = None

    def __repr__(self) -> str:
        return f"<{self.kind} {self.id}: {self.state}>"


class JobEvent(Wire):
    """The data of a server-sent event."""

    state: Annotated[JobState, Field(description="The state now.")]
    attempt: Annotated[int, Field(description="The attempt.")]
    progress: Annotated[Progress, Field(description="The planned answers.")]
