"""The price of a job: a pure function of the request, the dataset's declaration, n and the ledger. Touches no data.

What takes long, the choice of the noise, is a question to `app.calculation`; here are the question and what its answer
amounts to.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import solvers
from accounting.errors import AccountingError, OutOfRange
from accounting.filter import Cost, Filter
from accounting.privacy import Privacy, Unit
from accounting.records import receipt as receipts
from accounting.records.allotments import Standing
from accounting.records.events import Charged
from app.calculation.questions import Answer, CalculatedPrice, Price, Refused, sentence
from app.datasets.profiles import Released
from app.datasets.store import DatasetRow
from app.http.errors import ApiError
from app.settings import Settings
from app.sources.design import Design, DesignError, Table
from app.sources.spec import JobSpec
from app.wire import FromProfile, JobRequest, Quote, Requested, StatisticRequest, TuningRequest
from purse.wire.columns import CategoryColumn
from purse.wire.datasets import PrivacyLoss
from purse.wire.jobs import Forecast, Prepared, QueryPrice, UsedProfile
from purse.wire.neighbors import between
from purse.wire.problems import Remaining, Violation
from solvers import preparation
from solvers.elsewhere import needs_one_machine
from solvers.losses import Logistic, Loss, Softmax, Squared, names
from solvers.methods import Method
from solvers.preparation import ByProfile
from solvers.preparation.moments import Moments
from solvers.problem import Problem
from solvers.selection import Auto, Wish
from solvers.statistics import AnyCounting, Evaluation, Profile
from solvers.trials import Candidate, Candidates

_TOO_LONG = (
    "The receipt, which states all that runs, would be too long to be signed: ask for fewer candidates or columns."
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request on a dataset, read as far as it goes without a calculation.

    Parameters
    ----------
    weights : of the model that is evaluated, if one is
    """

    request: Requested
    dataset: DatasetRow
    design: Design | Table
    question: Price
    weights: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Priced:
    """A request with everything fixed but the moment.

    Parameters
    ----------
    spec : what will run, if it is submitted
    cost : the charge in the currency of the dataset's filter; None if no budget could hold it
    guarantee : the (epsilon, delta) asked for, which the plan keeps
    seconds : that the run is predicted to take
    """

    request: Requested
    dataset: DatasetRow
    spec: JobSpec
    planned: solvers.Quote
    cost: Cost | None
    guarantee: Privacy
    seconds: float
    warnings: tuple[str, ...]

    def quote(self, standing: Standing) -> Quote:
        """The quote as the ledger stands; `ApiError` dataset_changed if its filter is not the one that was priced."""
        if standing.state.filter != self.dataset.state.filter:  # the cost would be one of other orders
            raise ApiError("dataset_changed")
        release, problem, prepared = self.planned.release, self.planned.met, self.planned.preparation
        after = self._after(standing)
        return Quote(
            dataset=self.dataset.id,
            method=self.planned.method,
            reason=self.planned.reason,
            preparation=Prepared(
                name=prepared.name,
                reason=self.planned.preparation_reason,
                statement=prepared.statement,
                profile=_used(prepared),
            ),
            epsilon=release.epsilon,
            delta=release.delta,
            **between(release.plan.relation, release.epsilon, release.delta),
            accountant=release.accountant,
            accountant_version=release.accountant_version,
            queries=[
                QueryPrice(
                    name=query.name,
                    count=query.count,
                    answers=query.answers,
                    mechanism=asdict(query.mechanism),
                    noise_multiplier=query.noise_multiplier,
                    noise_std=std,
                )
                for query, std in zip(release.plan.queries, self.planned.noise_stds, strict=True)
            ],
            gradient_evaluations=self.planned.gradient_evaluations,
            forecast=self._forecast(),
            rows=None if problem.unit.is_person else problem.n,
            persons=problem.n if problem.unit.is_person else None,
            unit=problem.unit,
            dimension=problem.size,
            row_norm=problem.row_norm,
            gradient_bound=None if self._is_statistic else problem.G,
            slope_limit=problem.slope_limit,
            fits=after is not None,
            share=self._share(standing, after),
            remaining=_remaining(standing),
            remaining_after=None if after is None else _remaining(after),
            warnings=list(self.warnings),
        )

    def _forecast(self) -> Forecast:
        """Theory's, and this machine's pace."""
        theory, told = self.planned.forecast, not self._is_statistic
        return Forecast(
            excess_risk=theory.excess_risk,
            untrained=theory.untrained if told else None,
            distance=theory.distance if told else None,
            distance_certain=theory.distance_certain if told else None,
            statement=theory.statement,
            seconds=self.seconds,
        )

    @property
    def _is_statistic(self) -> bool:
        """A problem's loss is a model's."""
        return isinstance(self.planned.method, AnyCounting)

    def _share(self, standing: Standing, after: Standing | None) -> float | None:
        """As the ledger reads it right after the charge, or would, if there were room; of what is told of."""
        if self.cost is None:
            return None
        if after is None and not standing.sees_parts_only:
            total = tuple(a + b for a, b in zip(standing.state.spent, self.cost, strict=True))
            part = standing.state.filter.share(self.cost, total)
        else:
            part = (after or standing).share(self.cost)
        return part if part <= 1 else None

    def _after(self, standing: Standing) -> Standing | None:
        if self.cost is None:
            return None
        return standing.after(Charged(self.dataset.id, self.cost, self.guarantee))


def ask(
    dataset: DatasetRow,
    request: JobRequest | StatisticRequest | TuningRequest,
    settings: Settings,
    known: Released | None = None,
) -> Asked:
    """The question that a request on a dataset comes to.

    Parameters
    ----------
    known : the profile that a request to standardise by one names, or means by naming none

    Raises
    ------
    ApiError
        invalid_request, out_of_range or unsupported_combination.
    """
    if dataset.holdout_of is not None:
        raise ApiError("unsupported_combination", "This is a kept-out part: models are evaluated on it, no more.")
    try:
        design = _table(dataset, request) if isinstance(request, StatisticRequest) else Design.of(dataset.spec, request)
    except DesignError as error:
        raise _wrong("invalid_request", error.field, error.what) from None
    rule, wish = dataset.state.filter, Wish()
    try:
        if isinstance(request, JobRequest) and isinstance(design, Design):
            problem = problem_of(
                dataset, design, _loss(request, design), regularizer=request.regularizer, domain=request.domain
            )
            wish = Wish(_prepared(dataset, design, request, known), request.slope_limit)
        elif isinstance(request, TuningRequest) and isinstance(design, Design):
            problem = problem_of(dataset, design, _loss(request, design))
        else:  # a statistic minimizes nothing: its problem says how rows are laid out
            problem = problem_of(dataset, design, Squared())
        method, privacy = _method(request), privacy_of(request, rule)
    except OutOfRange as error:
        raise ApiError("out_of_range", sentence(error)) from None
    except (AccountingError, ValueError) as error:
        raise ApiError("unsupported_combination", sentence(error)) from None
    limits = (settings.max_gradient_evaluations, settings.max_answers)
    return Asked(
        request,
        dataset,
        design,
        Price(method, problem, privacy, rule, *limits, wish.preparation, wish.slope_limit),
    )


def _method(request: JobRequest | StatisticRequest | TuningRequest) -> Method | Auto | AnyCounting | Candidates:
    if not isinstance(request, TuningRequest):
        return request.method
    candidates = [
        Candidate(c.method, c.regularizer, c.domain, c.preparation, c.slope_limit) for c in request.candidates
    ]
    return Candidates(tuple(candidates), request.repeats)


def priced(asked: Asked, answer: Answer) -> Priced:
    """The plan of the request and what it costs.

    Raises
    ------
    ApiError
        what the calculation was refused for: out_of_range, unsupported_combination or method_filter_mismatch;
        method_needs_one_machine; out_of_range, too, where the receipt would be too long to be signed.
    """
    if isinstance(answer, Refused):
        raise ApiError(answer.code, answer.detail)
    assert isinstance(answer, CalculatedPrice)
    question, design, dataset, planned = asked.question, asked.design, asked.dataset, answer.planned
    why = needs_one_machine(planned.method, planned.met) if dataset.spec.storage == "partitions" else None
    if why is not None:
        raise ApiError("method_needs_one_machine", f"{planned.method.name}: {why}. Name another method.")
    method = planned.method
    spec = JobSpec(
        design=design,
        problem=answer.planned.problem,
        method=replace(method, weights=asked.weights) if isinstance(method, Evaluation) else method,
        preparation=planned.preparation,
        release_plan=planned.release,
    )
    if not receipts.is_signable(spec.stated, planned.release.plan):
        raise ApiError("out_of_range", _TOO_LONG)
    return Priced(
        request=asked.request,
        dataset=dataset,
        spec=spec,
        planned=planned,
        cost=answer.cost,
        guarantee=question.privacy,
        seconds=answer.seconds,
        warnings=_warnings(design, dataset, question.privacy),
    )


def remaining(standing: Standing) -> Remaining:
    """What the ledger would still admit, as an error tells it."""
    return Remaining(epsilon=standing.remaining_epsilon(), delta=standing.state.filter.privacy.delta)


def _remaining(standing: Standing) -> PrivacyLoss:
    return PrivacyLoss(**remaining(standing).model_dump())


def problem_of(dataset: DatasetRow, design: Design | Table, loss: Loss, **rest: Any) -> Problem:
    """The problem of the dataset's records, as the design lays them out."""
    facts: dict[str, Any] = {"n": dataset.n, "d": design.d, "row_norm": design.row_norm, "columns": design.columns}
    return Problem(loss, relation=dataset.spec.neighbors, unit=dataset.spec.protected, **facts, **rest)


def _table(dataset: DatasetRow, request: StatisticRequest) -> Table:
    if isinstance(request.method, Profile) and request.columns is not None:
        raise DesignError("columns", "must be left out: a profile is of all columns")
    return Table.of(dataset.spec, request.columns)


def _prepared(
    dataset: DatasetRow, design: Design, request: JobRequest, known: Released | None
) -> preparation.AskedPreparation | None:
    """As asked for; a profile's moments of the features that are used, if it is one of these very columns."""
    asked = request.preparation
    if not isinstance(asked, FromProfile):
        return asked
    if known is None:
        named = (
            "there is no released profile of this id" if asked.job else "no profile was released of this dataset yet"
        )
        raise _wrong("invalid_request", "preparation", f"cannot be had: {named}")
    found = {told.column.name: told for told in known.document.columns}
    said, unit = known.document.privacy, dataset.spec.protected
    if (known.document.dataset, said.persons or said.rows, said.unit or Unit()) != (dataset.id, dataset.n, unit):
        raise _wrong("invalid_request", "preparation", "cannot be had: that profile is of another dataset")
    if known.document.privacy.neighbors != dataset.spec.neighbors:
        raise _wrong("invalid_request", "preparation", "cannot be had: that profile is of another relation")
    if any(feature.name not in found or found[feature.name].column != feature for feature in design.features):
        raise _wrong("invalid_request", "preparation", "cannot be had: that profile is of another declaration")
    own = [found[feature.name].moments for feature in design.features]
    center, variances, noise = (
        tuple(value for moments in own for value in getattr(moments, part)) for part in ("center", "variances", "noise")
    )
    return ByProfile(Moments(center, variances, noise), known.document.job, known.sha256)


def _used(prepared: preparation.Preparation) -> UsedProfile | None:
    if not isinstance(prepared, ByProfile) or prepared.job is None or prepared.sha256 is None:
        return None
    return UsedProfile(job=prepared.job, sha256=prepared.sha256)


def privacy_of(request: Requested, rule: Filter) -> Privacy:
    """The privacy asked for, its delta the dataset's by default and never above it."""
    asked = request.privacy.delta
    if asked is not None and asked > rule.privacy.delta:
        raise _wrong("out_of_range", "privacy.delta", "must not exceed the dataset's delta")
    return Privacy(request.privacy.epsilon, rule.privacy.delta if asked is None else asked)


def _loss(request: JobRequest | TuningRequest, design: Design) -> Loss:
    """The loss asked for, or the target's default, if the two suit each other."""
    takes: Literal["class", "number"] = "class" if isinstance(design.target, CategoryColumn) else "number"
    if request.loss is not None and request.loss.takes != takes:
        target_is, other = ("category", "number") if takes == "class" else ("number", "category")
        losses = ", ".join(names(takes))
        raise ApiError(
            "unsupported_combination",
            f"{request.loss.name} needs a {other} as target; a {target_is} takes one of {losses}.",
        )
    if design.outputs == 1:
        return request.loss or (Squared() if takes == "number" else Logistic())
    if isinstance(request.loss, Softmax) and request.loss.classes not in (None, design.outputs):
        raise ApiError("unsupported_combination", f"The target has {design.outputs} categories: leave out `classes`.")
    return Softmax(design.outputs)


def _warnings(design: Design | Table, dataset: DatasetRow, privacy: Privacy) -> tuple[str, ...]:
    found: list[str] = []
    if privacy.delta * dataset.n >= 1:
        found.append("delta is 1/n or more: such a promise would allow publishing some record whole.")
    if isinstance(design, Table):
        return tuple(found)
    several = isinstance(design.target, CategoryColumn) and len(design.target.categories) > 2
    if several and design.positive is not None:
        found.append("The target has more than two categories: all but the positive one count as one class.")
    return tuple(found)


def _wrong(code: str, field: str, what: str) -> ApiError:
    return ApiError(code, "See `violations`.", violations=[Violation(where=f"body.{field}", what=what)])
