"""The price of a job: a pure function of the request, the dataset's declaration, n and the ledger. It reads no data.

`app.calculation` chooses the noise, which takes long. Here its answer becomes a price, and a price becomes a quote.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import solvers
from accounting.errors import BudgetExhausted, LedgerFrozen
from accounting.filter import Cost
from accounting.plan import Plan
from accounting.privacy import Privacy
from accounting.records import receipt as receipts
from accounting.records.allotments import Standing
from accounting.records.events import Charged
from app.calculation.pool import accepted
from app.calculation.questions import Answer, CalculatedPrice
from app.datasets.store import DatasetRow
from app.http.errors import ApiError
from app.quotes import inference
from app.quotes.requests import ReadRequest
from app.results.intervals import Widths
from app.results.widths import widths
from app.sources.design import Design, StatisticDesign
from app.sources.spec import JobSpec
from app.wire import JobRequest, Quote, Requested, StatisticRequest, TuningRequest
from purse.wire.budgets import PrivacyLoss
from purse.wire.columns import CategoryColumn
from purse.wire.jobs import ExpectedRun, Prepared, QueryPrice, UsedProfile
from purse.wire.neighbors import between
from purse.wire.statistics import RESULTS
from solvers import preparation
from solvers.elsewhere import needs_one_machine
from solvers.inference import RegressionTableRun
from solvers.methods.defaults.little_signal import ModelKind, may_be_sparse, model_kind
from solvers.methods.standardised.adaptive_gd import AdaptiveGdRun
from solvers.preparation import ByProfile
from solvers.problem import Problem
from solvers.statistics import AnyCounting, Evaluation
from solvers.trials import Tuning

_LITTLE_SIGNAL = {
    "constant": (
        "Few records for the number of coefficients at this privacy: noise would exceed what coefficients could "
        "explain, so the model will be a constant. Use fewer features, merge categories, or raise epsilon."
    ),
    "small": (
        "Few records for the number of coefficients at this privacy: adaptive_gd keeps all coefficients small, so that "
        "noise costs little. Predicted classes can be good if rows are sparse, but probabilities are drawn "
        "towards the shares of the classes. Use fewer features, merge categories, or raise epsilon."
    ),
}
_SPARSE_ROWS = (
    "If most numbers of a row are 0, such as counts of words, and no class is rare, set row_norm and leave the method "
    "to auto, which then chooses one whose noise grows with row_norm. The default is {bound:.3g}, the norm of the "
    "longest row that the declared columns allow. A row with m ones has the norm sqrt(m + 1), about 8 for m = 60. Take "
    "the norm of a typical row from public knowledge. A smaller row_norm makes probabilities too extreme."
)
_MOST_COLUMNS = 3  # that a title names
_TOO_LONG = "The receipt states everything that runs, and would be too long to sign: use fewer candidates or columns."


@dataclass(frozen=True, slots=True)
class Priced:
    """A request with its plan and cost. Whether the ledger admits the cost is still open.

    Parameters
    ----------
    spec : the job that runs if the request is submitted
    cost : in the currency of the dataset's filter; None if no budget could hold it
    guarantee : the requested (epsilon, delta), which the plan keeps
    seconds : predicted duration of the run
    interval_width : of each answer of a statistic or an evaluation
    """

    request: Requested
    dataset: DatasetRow
    spec: JobSpec
    planned: solvers.PlannedRun
    cost: Cost | None
    guarantee: Privacy
    seconds: float
    warnings: tuple[str, ...]
    interval_width: Widths | None

    def charge(self, standing: Standing, job_id: str, analyst: str) -> Charged:
        """Return the charge of a job.

        Raises
        ------
        BudgetExhausted
            if no budget could hold its cost.
        ApiError
            dataset_changed if the ledger's filter is not the priced one: the cost would be in another currency.
        """
        if standing.state.filter != self.dataset.state.filter:
            raise ApiError("dataset_changed")
        if self.cost is None:
            raise BudgetExhausted("the cost of this job exceeds every budget")
        return Charged(job_id, self.cost, self.guarantee, analyst, self.dataset.id, self.planned.method.name)

    def outlook(self, standing: Standing) -> Quote:
        """Return the quote of a job that is not submitted. Raise as `charge`."""
        try:
            return self.quote(standing, standing.plus(self.charge(standing, "", "")))
        except (BudgetExhausted, LedgerFrozen):
            return self.quote(standing, None)

    def quote(self, standing: Standing, charged: Standing | None) -> Quote:
        """Return the quote.

        Parameters
        ----------
        standing, charged : the ledger as it stands before the charge, and after it; None if it is not admitted
        """
        release, problem, prepared = self.planned.release, self.planned.met, self.planned.preparation
        method = self.planned.method
        return Quote(
            dataset=self.dataset.id,
            title=title(self.request, self.spec.design),
            method=self.planned.method,
            reason=self.planned.reason,
            preparation=Prepared(
                name=prepared.name,
                reason=self.planned.preparation_reason,
                statement=_preparation_statement(self.planned),
                profile=_used_profile(prepared),
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
            interval_width=self.interval_width,
            expected_table=inference.expected(method, problem, release.delta)
            if isinstance(method, RegressionTableRun)
            else None,
            gradient_evaluations=self.planned.gradient_evaluations,
            forecast=self._forecast(),
            rows=None if problem.unit.is_person else problem.n,
            persons=problem.n if problem.unit.is_person else None,
            unit=problem.unit,
            dimension=problem.size,
            row_norm=problem.row_norm,
            gradient_bound=None if self._is_statistic else problem.G,
            slope_limit=problem.slope_limit,
            fits=charged is not None,
            share=self._share(standing, charged),
            remaining=remaining(standing),
            remaining_after=None if charged is None else remaining(charged),
            warnings=list(self.warnings),
        )

    def _forecast(self) -> ExpectedRun:
        """Return the theory's forecast, with the duration on this machine."""
        theory, is_model = self.planned.risk_bound, not self._is_statistic
        return ExpectedRun(
            excess_risk=theory.excess_risk,
            untrained=theory.untrained if is_model else None,
            distance=theory.distance if is_model else None,
            distance_certain=theory.distance_certain if is_model else None,
            statement=theory.statement,
            seconds=self.seconds,
        )

    @property
    def _is_statistic(self) -> bool:
        """Whether no model is trained."""
        return isinstance(self.planned.method, AnyCounting)

    def _share(self, standing: Standing, charged: Standing | None) -> float | None:
        """Return the charge's share of the visible budget after the charge, admitted or not, or None if above 1."""
        if self.cost is None:
            return None
        if charged is None and not standing.sees_parts_only:
            total = tuple(a + b for a, b in zip(standing.state.spent, self.cost, strict=True))
            part = standing.state.filter.share(self.cost, total)
        else:
            part = (charged or standing).share(self.cost)
        return part if part <= 1 else None


def priced(requested: ReadRequest, answer: Answer) -> Priced:
    """Return the plan of the request and its cost.

    Raises
    ------
    ApiError
        out_of_range, unsupported_combination or method_filter_mismatch if the calculation was refused;
        method_needs_one_machine; out_of_range if the receipt would be too long to sign.
    """
    price = accepted(answer, CalculatedPrice)
    dataset, planned, method = requested.dataset, price.planned, price.planned.method
    reason = needs_one_machine(method, planned.met) if dataset.spec.storage == "partitions" else None
    if reason is not None:
        raise ApiError("method_needs_one_machine", f"{method.name}: {reason}. Choose another method.")
    spec = JobSpec(
        design=requested.design,
        problem=planned.problem,
        method=replace(method, weights=requested.weights) if isinstance(method, Evaluation) else method,
        preparation=planned.preparation,
        release_plan=planned.release,
    )
    if not receipts.is_signable(spec.stated, planned.release.plan):
        raise ApiError("out_of_range", _TOO_LONG)
    return Priced(
        request=requested.request,
        dataset=dataset,
        spec=spec,
        planned=planned,
        cost=price.cost,
        guarantee=requested.question.privacy,
        seconds=price.seconds,
        warnings=_warnings(requested.design, dataset, requested.question.privacy) + _method_warnings(planned),
        interval_width=widths(spec, requested.profile),
    )


def remaining(standing: Standing) -> PrivacyLoss:
    """Return the largest further job that the ledger admits."""
    return PrivacyLoss(epsilon=standing.remaining_epsilon(), delta=standing.state.filter.privacy.delta)


def _preparation_statement(planned: solvers.PlannedRun) -> str:
    """Return what the preparation means for this job."""
    if isinstance(planned.method, Tuning):
        return "Each candidate has its own preparation. Scores use rows as declared."
    if isinstance(planned.method, RegressionTableRun):
        return (
            "The regression table centers and scales rows by private moments of its own, which its price includes. "
            "The estimates are in the original columns."
        )
    if isinstance(planned.method, AnyCounting):
        return "Rows are coded as declared."
    return planned.preparation.statement


def _used_profile(prepared: preparation.Preparation) -> UsedProfile | None:
    if not isinstance(prepared, ByProfile) or prepared.job is None or prepared.sha256 is None:
        return None
    return UsedProfile(job=prepared.job, sha256=prepared.sha256)


def _method_warnings(planned: solvers.PlannedRun) -> tuple[str, ...]:
    method = planned.method
    if isinstance(method, RegressionTableRun):
        return tuple(inference.warnings(method, planned.problem))
    if isinstance(method, Tuning):
        kinds = [
            _model_kind(trial.method, trial.preparation.prepared(trial.problem(planned.problem)), trial.plan)
            for trial in method.trials
        ]
        return tuple(
            f"{text} Candidates: {', '.join(str(number) for number, its in enumerate(kinds, 1) if its == kind)}."
            for kind, text in _LITTLE_SIGNAL.items()
            if kind in kinds
        )
    text = _LITTLE_SIGNAL.get(_model_kind(method, planned.met, planned.release.plan))
    if text is None:
        return ()
    is_advised = planned.problem.loss.takes == "class" and may_be_sparse(planned.problem)
    return (text, _SPARSE_ROWS.format(bound=planned.problem.row_norm)) if is_advised else (text,)


def _model_kind(method: object, problem: Problem, plan: Plan) -> ModelKind:
    """Return which coefficients the noise of the plan leaves a model; "full" for methods without a rule."""
    if not isinstance(method, AdaptiveGdRun):
        return "full"
    return model_kind(problem, method.signal(problem, plan.query("gradient").noise_multiplier))


def _warnings(design: Design | StatisticDesign, dataset: DatasetRow, privacy: Privacy) -> tuple[str, ...]:
    warnings: list[str] = []
    if privacy.delta * dataset.n >= 1:
        warnings.append("delta is 1/n or more: such a guarantee would allow publishing some records whole.")
    if isinstance(design, StatisticDesign):
        return tuple(warnings)
    has_more_classes = isinstance(design.target, CategoryColumn) and len(design.target.categories) > 2
    if has_more_classes and design.positive is not None:
        warnings.append("The target has more than two categories: all except the positive one count as one class.")
    return tuple(warnings)


def title(request: Requested, design: Design | StatisticDesign) -> str:
    """Return the title of a job, such as `Model of income` or `Counts of age and sex`."""
    if isinstance(request, StatisticRequest):
        columns = request.by or request.columns
        result = RESULTS.get(request.method.name)
        return f"{result.heading} {_listed(columns)}" if result else request.method.name.capitalize()
    assert isinstance(design, Design)
    target = design.target.name
    if isinstance(request, TuningRequest):
        return f"Best model of {target}"
    if isinstance(request, JobRequest):
        return f"{'Regression table' if request.inference else 'Model'} of {target}"
    return f"Evaluation of the model of {target}"


def _listed(names: Sequence[str] | None) -> str:
    """Return the names of columns as words; only their number if there are many."""
    if names is None:
        return "all columns"
    if len(names) > _MOST_COLUMNS:
        return f"{len(names)} columns"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
