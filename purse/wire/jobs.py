"""Quotes and jobs, as a client reads them.

What a request may name, and which methods there are, only the service knows: `app.wire`.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, RootModel

from accounting.privacy import REPLACE_ONE, Unit
from purse.wire.base import Identifier, Name, Protected, Sha256, Timestamp, Wire
from purse.wire.datasets import PrivacyLoss
from purse.wire.neighbors import Meaning, Neighbors, Other

JobState = Literal["queued", "running", "done", "failed", "cancelled"]
JobKind = Literal["model", "profile", "statistic", "evaluation"]


class Method(RootModel[dict[str, Any]]):
    """A method by its name, every field filled in: which fields there are depends on the method."""

    model_config = ConfigDict(strict=True, frozen=True)

    @property
    def name(self) -> str:
        """Which method."""
        return str(self.root["name"])

    def __getitem__(self, field: str) -> Any:
        """What it was settled to."""
        return self.root[field]


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
    reason: Annotated[str, Field(description="Why rows are prepared so.")]
    statement: Annotated[str, Field(description="What it means, and what regularizer and domain act on.")]
    profile: Annotated[UsedProfile | None, Field(description="The profile, if rows are standardised by one.")] = None


class Quote(Wire):
    """The price of a job: a function of public facts only."""

    dataset: Identifier
    method: Annotated[Method, Field(description="The method, every field filled in.")]
    reason: Annotated[str, Field(description="Why this method and these settings.")]
    preparation: Annotated[
        Prepared | None, Field(description="How rows are prepared; null for a job priced before there was a choice.")
    ] = None
    epsilon: Annotated[float, Field(description="What the accountant certifies at delta.")]
    delta: Annotated[float, Field(description="Its delta.")]
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

    def __repr__(self) -> str:
        takes = "" if self.share is None else f", {self.share:.3%} of the budget"
        fits = "" if self.fits else ", which it does not fit"
        return f"<quote: epsilon {self.epsilon:.6g} at delta {self.delta:g}{takes}{fits}, by {self.method.name}>"


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

    def __repr__(self) -> str:
        return f"<{self.kind} {self.id}: {self.state}>"


class JobEvent(Wire):
    """What a server-sent event carries."""

    state: Annotated[JobState, Field(description="The state now.")]
    attempt: Annotated[int, Field(description="The attempt.")]
    progress: Annotated[Progress, Field(description="The planned answers.")]
