"""Quotes and jobs, as a client reads them. `app.wire` has the requests, whose methods only the service knows."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, RootModel

from purse.text import loss, percent
from purse.wire.base import Identifier, Name, Omitted, Protected, Sha256, Timestamp, Wire
from purse.wire.budgets import PrivacyLoss
from purse.wire.inference import ExpectedTable
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

    name: str
    """Name of the query in the solver."""
    count: int
    """Number of uses of the mechanism."""
    answers: int
    """Number of answers. A query may have several."""
    mechanism: dict[str, object]
    """The mechanism that makes each answer private."""
    noise_multiplier: float
    """Noise std (Laplace: scale) over the per-record bound, unitless. 2 / epsilon for a choice."""
    noise_std: float
    """Noise std of each coordinate of an answer at its largest per-record bound. 0 for a choice."""


class ExpectedRun(Wire):
    """Expectations of the run: a theoretical bound for the worst data, and a time. Not a guarantee."""

    excess_risk: float | None
    """Proven bound on E[F(w) + r(w)] minus its least value over the domain, if a minimizer lies within `distance` of
    the start. Null if no bound with explicit constants is proven for the method."""
    untrained: float | None
    """Largest excess of the start, an untrained model, over the smallest value. Null for a statistic, like the next two
    fields."""
    distance: float | None
    """D, the assumed l2 distance of a minimizer from the start."""
    distance_certain: bool | None
    """Whether the domain or the regularizer ensures the distance. If false, it is a guess."""
    statement: str
    """The meaning of the bound, in words."""
    seconds: float
    """Predicted seconds on an idle core, from a rate that the server measured at its start on made-up numbers. Loading
    the data and waiting in the queue are not included."""


class UsedProfile(Wire):
    """The profile that standardizes the rows of a job."""

    job: Annotated[Identifier, Field(description="The job that released it: /v1/jobs/{id}/profile.")]
    sha256: Annotated[Sha256, Field(description="Digest of the published profile, which its own receipt states too.")]


class Prepared(Wire):
    """The preparation of the rows for the method."""

    name: Literal["declared", "by_method", "private", "profile"]
    """Name of the preparation. `by_method` means that the method itself standardizes privately."""
    reason: str
    """Reason for this preparation."""
    statement: str
    """Meaning of the preparation, with the coefficients that the regularizer and the domain act on."""
    profile: UsedProfile | None = None
    """The profile, if rows are standardized by one."""


Basis = Literal["exact", "worst_case", "profile", "typical"]


class IntervalWidth(Wire):
    """The width of the 95 % interval of an answer, known before the answer is bought.

    It is a function of public facts. `exact`: the released interval has this width, unless it is cut at an end of the
    declared range. `worst_case`: it has at most this width. `profile`: it has this width if values are distributed as
    in the latest released profile. `typical`: it has this width if values, scores or residuals are spread evenly over
    their range, classes are equally frequent, and every person has as many rows as allowed.
    """

    answer: str
    """The answer, such as `count`, `mean`, `share`, `quantile 0.5` or `accuracy`."""
    column: Name | None
    """Its column. Null if the width is the same for all answers."""
    width: float
    """Upper end minus lower end, in the unit of the answer."""
    basis: Basis
    """`exact`, `worst_case`, `profile` or `typical`."""

    @classmethod
    def of(cls, answer: str, column: str | None, width: float, basis: Basis) -> "IntervalWidth":
        """Return the width of the interval of an answer."""
        return cls(answer=answer, column=column, width=width, basis=basis)


class Quote(Wire):
    """The price of a job: a function of public facts only."""

    dataset: Identifier
    title: str | None = None
    """Name of the job, such as `Model of income`. Null for a job of version 0.2.0."""
    method: Method
    """The method, every field filled in."""
    reason: str
    """Reason for this method and these settings."""
    preparation: Prepared
    """The preparation of the rows."""
    epsilon: float
    """The epsilon that the accountant certifies at delta."""
    delta: float
    """Its delta."""
    neighbors: Neighbors
    meaning: Meaning
    elsewhere: OtherRelation
    accountant: str
    """The accountant whose certificate allowed the smallest noise."""
    accountant_version: str
    """Its version."""
    queries: list[QueryPrice]
    """All queries of the data."""
    interval_width: list[IntervalWidth] | None = None
    """Width of the 95 % interval of each answer of a statistic or an evaluation. Null for a model."""
    expected_table: Omitted[ExpectedTable] = None
    """Expected widths of the regression table. Only with `inference`."""
    gradient_evaluations: float
    """Expected number of per-row gradients of the run."""
    forecast: ExpectedRun
    """The forecast."""
    rows: int | None
    """Public number of rows. Null if persons are protected."""
    persons: int | None = None
    """Public number of persons. Null if rows are protected."""
    unit: Protected
    dimension: int
    """Number of coordinates of w, intercepts included. For softmax, of all classes."""
    row_norm: float
    """Norm bound of each prepared row."""
    gradient_bound: float | None
    """Bound G on one record's gradient. Null for a statistic."""
    slope_limit: float
    """Fraction of the loss's largest slope to which slopes are clipped. `adaptive_gd` has its own limit."""
    fits: bool
    """Whether the dataset's filter would admit the job now."""
    share: float | None
    """Fraction of the budget that the job uses right after its charge. If the filter keeps several sums, it refers to
    the sum that is then farthest from its threshold. Null if the job exceeds the budget."""
    remaining: PrivacyLoss
    """Remaining budget now."""
    remaining_after: PrivacyLoss | None
    """The largest job that would fit after this one. Null if this one does not fit."""
    warnings: list[str] = []
    """Warnings for the analyst."""

    def __repr__(self) -> str:
        share = "" if self.share is None else f", {percent(self.share)} of the budget"
        fits = "" if self.fits else ", which it does not fit"
        return f"<quote: {loss(self.epsilon, self.delta)}{share}{fits}, by {self.method.name}>"


class Progress(Wire):
    """The planned answers. They are not counted one by one, because the time of an answer depends on its batch."""

    done: int
    """All planned answers once the job is done, 0 before."""
    total: int
    """Private answers planned."""


class Job(Wire):
    """A job and its state."""

    id: Identifier
    kind: JobKind
    """Kind of the job's release."""
    dataset: Identifier
    analyst: Name
    state: JobState
    """State of the job."""
    attempt: int
    """Number of the attempt, 0 before the start. A repeated attempt costs nothing more."""
    progress: Progress
    """The planned answers."""
    quote: Quote
    """The price as it was charged."""
    share: float | None = None
    """Fraction of the budget that the job uses now; 0 if it was refunded. The shares of all charges and the remaining
    part add up to 1. Null if the dataset is not visible to the caller."""
    error: Literal["job_failed", "worker_lost"] | None = None
    """Code of a failed job. The cause is not stated, because it could depend on the data."""
    created_at: Timestamp
    started_at: Timestamp | None = None
    """Time of the first start."""
    finished_at: Timestamp | None = None
    """Time when it was done, failed or cancelled, rounded to a public grid of times."""

    def __repr__(self) -> str:
        return f"<{self.kind} {self.id}: {self.state}>"


class JobEvent(Wire):
    """The data of a server-sent event."""

    state: JobState
    """The state now."""
    attempt: int
    """The attempt."""
    progress: Progress
    """The planned answers."""
