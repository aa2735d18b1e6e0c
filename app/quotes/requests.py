"""Requests on a dataset, read into the question that their price answers. Pure functions of public facts."""

from dataclasses import dataclass
from typing import Any, Literal

from accounting.errors import AccountingError, OutOfRange
from accounting.filter import Filter
from accounting.privacy import Privacy, Unit
from app.calculation.questions import Price, sentence
from app.datasets.profiles import PublishedProfile
from app.datasets.store import DatasetRow
from app.http.errors import ApiError, invalid_field
from app.quotes import inference, table1
from app.settings import Settings
from app.sources.design import Design, StatisticDesign
from app.wire import FromProfile, JobPrivacy, JobRequest, Requested, StatisticRequest, TuningRequest
from purse.errors import DesignError
from purse.wire.columns import CategoryColumn
from purse.wire.profiles import DatasetProfile
from solvers import preparation
from solvers.inference import RegressionTable
from solvers.losses import Logistic, Loss, Softmax, Squared, names
from solvers.methods import Method
from solvers.preparation import ByProfile
from solvers.preparation.moments import Moments
from solvers.problem import Problem
from solvers.regularizers import NoRegularizer
from solvers.selection import Auto
from solvers.solve import WorkLimits
from solvers.statistics import AnyCounting, Profile, Table1
from solvers.trials import Candidate, Candidates


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A request on a dataset, with everything that needs no calculation.

    Parameters
    ----------
    question : asks for the noise and the cost
    weights : of the model to evaluate; empty for other requests
    profile : the latest released profile of the dataset, for the widths of intervals
    """

    request: Requested
    dataset: DatasetRow
    design: Design | StatisticDesign
    question: Price
    weights: tuple[float, ...] = ()
    profile: DatasetProfile | None = None


def read(
    dataset: DatasetRow,
    request: JobRequest | StatisticRequest | TuningRequest,
    settings: Settings,
    profile: PublishedProfile | None = None,
) -> ReadRequest:
    """Read a request on a dataset.

    Parameters
    ----------
    profile : the released profile by which a job standardises rows, if it does; for a statistic, the latest one

    Raises
    ------
    ApiError
        invalid_request, out_of_range or unsupported_combination.
    """
    if dataset.holdout_of is not None:
        raise ApiError(
            "unsupported_combination",
            "A holdout set only evaluates models. Train on its dataset.",
        )
    rule = dataset.state.filter
    prepared: preparation.AskedPreparation | None = None
    try:
        design = _table(dataset, request) if isinstance(request, StatisticRequest) else Design.of(dataset.spec, request)
        if isinstance(request, JobRequest) and isinstance(design, Design):
            regularizer = NoRegularizer() if request.inference else request.regularizer
            problem = problem_of(
                dataset, design, _loss(request, design), regularizer=regularizer, domain=request.domain
            )
            prepared = _preparation(dataset, design, request, profile)
        elif isinstance(request, TuningRequest) and isinstance(design, Design):
            problem = problem_of(dataset, design, _loss(request, design))
        else:  # a statistic minimizes nothing: its problem only describes the rows
            problem = problem_of(dataset, design, Squared())
        method = _method(request, design)
        privacy = privacy_of(request.privacy, rule)
    except DesignError as error:
        raise invalid_field(f"body.{error.field}", error.rule) from None
    except OutOfRange as error:
        raise ApiError("out_of_range", sentence(error)) from None
    except (AccountingError, ValueError) as error:
        raise ApiError("unsupported_combination", sentence(error)) from None
    slope_limit = request.slope_limit if isinstance(request, JobRequest) else None
    question = Price(method, problem, privacy, rule, limits_of(settings, dataset), prepared, slope_limit)
    released = profile.document if profile is not None and isinstance(request, StatisticRequest) else None
    return ReadRequest(request, dataset, design, question, profile=released)


def limits_of(settings: Settings, dataset: DatasetRow) -> WorkLimits:
    """Return the limits on the work of one job on a dataset."""
    evaluations = settings.max_gradient_evaluations
    is_apart = dataset.spec.storage == "partitions"
    return WorkLimits(evaluations, settings.max_answers, evaluations, is_apart)


def _method(
    request: JobRequest | StatisticRequest | TuningRequest, design: Design | StatisticDesign
) -> Method | Auto | AnyCounting | Candidates | RegressionTable:
    if isinstance(request, JobRequest) and isinstance(design, Design) and request.inference:
        return inference.requested(request, design)
    if isinstance(request, JobRequest):
        for name in ("family", "reference", "level"):
            if getattr(request, name) != JobRequest.model_fields[name].default:
                raise invalid_field(f"body.{name}", "must be left out without inference, because a model has no table")
    if isinstance(request, StatisticRequest) and isinstance(design, StatisticDesign):
        return table1.method(request, design)
    if not isinstance(request, TuningRequest):
        return request.method
    candidates = [
        Candidate(c.method, c.regularizer, c.domain, c.preparation, c.slope_limit) for c in request.candidates
    ]
    return Candidates(tuple(candidates), request.repeats)


def problem_of(dataset: DatasetRow, design: Design | StatisticDesign, loss: Loss, **options: Any) -> Problem:
    """Return the problem of the dataset's records in the coding of the design."""
    facts: dict[str, Any] = {"n": dataset.n, "d": design.d, "row_norm": design.row_norm, "columns": design.columns}
    return Problem(loss, relation=dataset.spec.neighbors, unit=dataset.spec.protected, **facts, **options)


def _table(dataset: DatasetRow, request: StatisticRequest) -> StatisticDesign:
    if isinstance(request.method, Profile) and request.columns is not None:
        raise DesignError("columns", "must be left out, because a profile describes all columns")
    if isinstance(request.method, Table1):
        return table1.table(dataset.spec, request)
    table1.refuse_groups(request)
    return StatisticDesign.of(dataset.spec, request.columns)


def _preparation(
    dataset: DatasetRow, design: Design, request: JobRequest, profile: PublishedProfile | None
) -> preparation.AskedPreparation | None:
    """Return the requested preparation; for a profile, with its moments of the features in use."""
    requested = request.preparation
    if not isinstance(requested, FromProfile):
        return requested
    if profile is None:
        reason = "this job released no profile" if requested.job else "no profile of this dataset has been released"
        raise _no_profile(f"{reason}. Release one first, or choose another preparation")
    privacy, columns = profile.document.privacy, {entry.column.name: entry for entry in profile.document.columns}
    facts = (profile.document.dataset, privacy.persons or privacy.rows, privacy.unit or Unit())
    if facts != (dataset.id, dataset.n, dataset.spec.protected):
        raise _no_profile("this profile describes another dataset")
    if privacy.neighbors != dataset.spec.neighbors:
        raise _no_profile("this profile was released for other neighbors")
    if design.terms and any(feature not in design.inputs for feature in design.features):
        raise _no_profile("it has no moments of terms. Choose another preparation, or leave out terms")
    if any(feature.name not in columns or columns[feature.name].column != feature for feature in design.features):
        raise _no_profile("this profile describes another declaration of the columns")
    own = [columns[feature.name].moments for feature in design.features]
    center, variances, noise = (
        tuple(value for moments in own for value in getattr(moments, part)) for part in ("center", "variances", "noise")
    )
    return ByProfile(Moments(center, variances, noise), profile.document.job, profile.sha256)


def _no_profile(reason: str) -> ApiError:
    return invalid_field("body.preparation", f"cannot use a profile: {reason}")


def privacy_of(requested: JobPrivacy, rule: Filter) -> Privacy:
    """Return the requested privacy. The default delta is the dataset's, which is also the largest one."""
    delta, largest = requested.delta, rule.privacy.delta
    if delta is not None and delta > largest:
        reason = f"must not exceed the dataset's delta: at most {largest:g}"
        raise invalid_field("body.privacy.delta", reason, "out_of_range")
    return Privacy(requested.epsilon, largest if delta is None else delta)


def _loss(request: JobRequest | TuningRequest, design: Design) -> Loss:
    """Return the requested loss, or the default of the target; raise an `ApiError` if it does not fit the target."""
    takes: Literal["class", "number"] = "class" if isinstance(design.target, CategoryColumn) else "number"
    if request.loss is not None and request.loss.takes != takes:
        target_is, needed = ("category", "number") if takes == "class" else ("number", "category")
        losses = ", ".join(names(takes))
        raise ApiError(
            "unsupported_combination",
            f"{request.loss.name} needs a {needed} as target; this target is a {target_is}. Choose one of {losses}.",
        )
    if design.outputs == 1:
        return request.loss or (Squared() if takes == "number" else Logistic())
    if isinstance(request.loss, Softmax) and request.loss.classes not in (None, design.outputs):
        raise ApiError("unsupported_combination", f"The target has {design.outputs} categories. Leave out `classes`.")
    return Softmax(design.outputs)
