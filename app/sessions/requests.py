"""Requests for sessions: a list of events, or a privacy target for which the service chooses the noise."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import ConfigDict, Discriminator, Field, RootModel, Tag

from accounting.errors import OutOfRange
from accounting.mechanisms import Gaussian, PoissonGaussian
from accounting.plan import MAX_COUNT
from accounting.records.outside import GaussianDpEvent, OutsideEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from accounting.records.sessions import SessionPlan
from app.calculation.questions import Calibrate
from app.datasets import store as datasets
from app.datasets.store import DatasetRow
from app.http.errors import ApiError, invalid_field
from app.identity.store import Principal
from app.ledger.service import refuse_frozen
from app.persistence.session import Database
from app.quotes.requests import privacy_of
from app.wire import JobPrivacy
from purse.wire.base import Title, Wire
from purse.wire.sessions import LIFETIME_SECONDS, MOST_EVENTS, USUAL_LIFETIME_SECONDS

_Lifetime = Annotated[
    int,
    Field(
        ge=LIFETIME_SECONDS[0],
        le=LIFETIME_SECONDS[1],
        description="Seconds until an open session expires, from one minute to 31 days.",
    ),
]


_HOLDOUT = (
    "Nothing was charged. A session is charged to one ledger, but the program may read all rows of the file: those of "
    "the dataset and those of its holdout set. Register the dataset without a holdout set."
)


class EventsSessionRequest(Wire):
    """Reserve the budget for these events."""

    events: Annotated[list[OutsideEvent], Field(min_length=1, max_length=MOST_EVENTS)]
    """The planned answers, with the names of dp-accounting. The parts of a composed event become entries of the plan.
    Noise multipliers are relative to the per-record bound."""
    title: Title | None = None
    """Your name for the session."""
    lifetime: _Lifetime = USUAL_LIFETIME_SECONDS


class TargetSessionRequest(Wire):
    """Reserve the budget for answers with Gaussian noise. The response states the noise that the guarantee needs."""

    privacy: JobPrivacy
    """The guarantee of all answers together."""
    steps: Annotated[int, Field(ge=1, le=MAX_COUNT)]
    """Number of answers."""
    sampling_probability: Annotated[float, Field(ge=1e-9, le=1.0)] = 1.0
    """Probability that a record takes part in an answer, by Poisson sampling. 1 if every record takes part."""
    title: Title | None = None
    """Your name for the session."""
    lifetime: _Lifetime = USUAL_LIFETIME_SECONDS


SessionRequested = EventsSessionRequest | TargetSessionRequest


def _kind(document: Any) -> str:
    """Return the tag of the union member that a document, or an instance, belongs to."""
    has_events = "events" in document if isinstance(document, dict) else hasattr(document, "events")
    return "events" if has_events else "target"


class SessionRequest(
    RootModel[
        Annotated[
            Annotated[EventsSessionRequest, Tag("events")] | Annotated[TargetSessionRequest, Tag("target")],
            Discriminator(_kind),
        ]
    ]
):
    """A request for a session: with `events`, for these events; otherwise for the noise of a privacy target."""

    model_config = ConfigDict(strict=True, frozen=True, hide_input_in_errors=True)


@dataclass(frozen=True, slots=True)
class ReadSession:
    """A request for a session on a dataset.

    Parameters
    ----------
    calibration : question for the noise of the target; None for a list of events
    """

    request: SessionRequested
    dataset: DatasetRow
    calibration: Calibrate | None

    def plan(self, noise_multiplier: float | None) -> SessionPlan:
        """Return the plan, and raise an `ApiError` if an event does not fit the dataset.

        Parameters
        ----------
        noise_multiplier : the noise of the target; None for a list of events
        """
        try:
            plan = SessionPlan.of(_events(self.request, noise_multiplier), self.dataset.spec.neighbors)
        except OutOfRange as error:
            raise invalid_field("body.events", str(error), "out_of_range") from None
        misfit = plan.misfit(self.dataset.n, self.dataset.spec.protected)
        if misfit is not None:
            raise ApiError(
                "unsupported_combination",
                f"{misfit.type} does not fit the dataset: it assumes another number of records, batches of less than "
                "one record, or single rows where persons are protected. Change its numbers, or plan another event.",
            )
        return plan


def _events(request: SessionRequested, noise_multiplier: float | None) -> list[OutsideEvent]:
    if isinstance(request, EventsSessionRequest):
        return list(request.events)
    assert noise_multiplier is not None
    answer, q = GaussianDpEvent(noise_multiplier), request.sampling_probability
    return [SelfComposedDpEvent(answer if q == 1.0 else PoissonSampledDpEvent(q, answer), request.steps)]


def read(database: Database, principal: Principal, dataset_id: str, request: SessionRequested) -> ReadSession:
    """Read a request for a session.

    Raises
    ------
    ApiError
        not_found; the errors of `refuse`; out_of_range for the target's delta or batches; sessions_refused for a
        holdout set.
    """
    with database.read() as connection:
        row = datasets.visible(connection, dataset_id, principal)
        refuse(row)
        if row.holdout_of is not None or datasets.holdout(connection, row.id) is not None:
            raise ApiError("sessions_refused", _HOLDOUT)
        datasets.refuse_changed(connection, row)
    return ReadSession(request, row, None if isinstance(request, EventsSessionRequest) else _calibration(request, row))


def _calibration(request: TargetSessionRequest, dataset: DatasetRow) -> Calibrate:
    """Return the question for the noise of a target.

    Raises
    ------
    ApiError
        out_of_range if its delta exceeds the dataset's, or its batches have less than one record.
    """
    privacy, q = privacy_of(request.privacy, dataset.state.filter), request.sampling_probability
    mechanism = Gaussian() if q == 1.0 else PoissonGaussian(q)
    if not mechanism.fits(dataset.n, dataset.spec.protected):
        reason = f"must be at least 1 / {dataset.n}, so that batches of the dataset have one record on average"
        raise invalid_field("body.sampling_probability", reason, "out_of_range")
    return Calibrate(mechanism, request.steps, privacy, dataset.spec.neighbors)


def refuse(dataset: DatasetRow) -> None:
    """Raise an `ApiError` if no session may be opened: sessions_refused, dataset_deleted, _damaged or _frozen."""
    if dataset.spec.sessions == "refused":
        raise ApiError("sessions_refused")
    if dataset.data not in ("stored", "elsewhere"):
        raise ApiError("dataset_deleted")
    if dataset.is_damaged:
        raise ApiError("dataset_damaged")
    refuse_frozen(dataset.state)
