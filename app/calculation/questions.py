"""Questions to the calculating process and their answers; both travel as JSON and depend on public facts alone."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

import solvers
from accounting.calibration import calibrate
from accounting.errors import (
    AccountingError,
    BudgetExhausted,
    FilterMismatch,
    OutOfRange,
    ReceiptInvalid,
)
from accounting.filter import Cost, Filter
from accounting.mechanisms import Gaussian, Laplace, PoissonGaussian
from accounting.plan import Plan, Query, ReleasePlan
from accounting.privacy import Privacy, Relation
from accounting.records import receipt as receipts
from accounting.records.sessions import Certificate, SessionPlan, plan_epsilon, refund
from app.calculation.forecasts import Forecasted, forecast
from app.calculation.speed import measured_speed
from app.sources.design import Design
from app.sources.twins import Twin
from solvers import tuning
from solvers.elsewhere import needs_one_machine
from solvers.errors import NeedsDelta
from solvers.inference import RegressionTable
from solvers.methods import Method
from solvers.preparation import AskedPreparation
from solvers.selection import Auto, Currency
from solvers.solve import WorkLimits
from solvers.statistics import AnyCounting
from solvers.trials import Candidates


@dataclass(frozen=True, slots=True)
class Price:
    """The plan of a run and its charge.

    Parameters
    ----------
    rule : the filter that would be charged
    limits : of the planned run
    preparation, slope_limit : as requested
    """

    method: Method | Auto | AnyCounting | Candidates | RegressionTable
    problem: solvers.Problem
    privacy: Privacy
    rule: Filter
    limits: WorkLimits
    preparation: AskedPreparation | None = None
    slope_limit: float | None = None
    kind: Literal["price"] = "price"


@dataclass(frozen=True, slots=True)
class CalculatedPrice:
    """A plan, its cost in the filter's currency (None if no budget could hold it), and predicted seconds."""

    planned: solvers.PlannedRun
    cost: Cost | None
    seconds: float
    kind: Literal["priced"] = "priced"


@dataclass(frozen=True, slots=True)
class Recompute:
    """A request to recompute the epsilon of a receipt whose signature is valid."""

    receipt: dict[str, Any]
    kind: Literal["recompute"] = "recompute"


@dataclass(frozen=True, slots=True)
class Recomputed:
    """The recomputed cost of a receipt's events."""

    recomputation: receipts.Recomputation
    kind: Literal["recomputed"] = "recomputed"


@dataclass(frozen=True, slots=True)
class Calibrate:
    """A request for the smallest noise of so many answers."""

    mechanism: Annotated[Gaussian | Laplace | PoissonGaussian, Field(discriminator="name")]
    count: int
    privacy: Privacy
    relation: Relation
    kind: Literal["calibrate"] = "calibrate"


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The certified plan of a `Calibrate` request."""

    release: ReleasePlan
    kind: Literal["calibrated"] = "calibrated"


@dataclass(frozen=True, slots=True)
class ForecastScores:
    """A request for the scores of runs on a public twin, at each epsilon.

    Parameters
    ----------
    price : price question of the request, at any epsilon
    design, twin : the matrix, and the distribution of its rows
    epsilons, runs, seed, signal : see `ForecastRequest`
    """

    price: Price
    design: Design
    twin: Twin
    epsilons: tuple[float, ...]
    runs: int | None
    seed: int
    signal: float
    kind: Literal["forecast"] = "forecast"


@dataclass(frozen=True, slots=True)
class PricePlan:
    """A request for the cost of a session's plan.

    Parameters
    ----------
    rule : the filter that would be charged
    delta : at which the plan's epsilon is stated
    """

    plan: SessionPlan
    rule: Filter
    delta: float
    kind: Literal["price_plan"] = "price_plan"


@dataclass(frozen=True, slots=True)
class PricedPlan:
    """The cost of a plan in the filter's currency (None if no budget could hold it), and its guarantee."""

    cost: Cost | None
    certificate: Certificate
    kind: Literal["priced_plan"] = "priced_plan"


@dataclass(frozen=True, slots=True)
class PriceRefund:
    """A request for the refund of a session that has recorded these uses of its plan.

    Parameters
    ----------
    rule, cost, whole : the filter, the charge, and whether it took the whole budget
    delta : at which the epsilon of the recorded uses is stated
    """

    plan: SessionPlan
    recorded: tuple[int, ...]
    rule: Filter
    cost: Cost
    whole: bool
    delta: float
    kind: Literal["price_refund"] = "price_refund"


@dataclass(frozen=True, slots=True)
class PricedRefund:
    """The refund of a session that is closed, and the epsilon of its recorded uses."""

    cost: Cost
    certificate: Certificate
    kind: Literal["priced_refund"] = "priced_refund"


@dataclass(frozen=True, slots=True)
class Refused:
    """A refusal with a reason for the caller: a code of `app.http.errors`, and a sentence."""

    code: str
    detail: str
    kind: Literal["refused"] = "refused"


Question = Price | Recompute | Calibrate | ForecastScores | PricePlan | PriceRefund
Answer = CalculatedPrice | Recomputed | Calibrated | Forecasted | PricedPlan | PricedRefund | Refused

QUESTION: TypeAdapter[Question] = TypeAdapter(Annotated[Question, Field(discriminator="kind")])
ANSWER: TypeAdapter[Answer] = TypeAdapter(Annotated[Answer, Field(discriminator="kind")])


def answer(question: Question) -> Answer:
    """Calculate the answer in this process."""
    match question:
        case Price():
            return _answered(question.rule, lambda: _price(question))
        case ForecastScores():
            return _answered(question.price.rule, lambda: _forecast(question))
        case Recompute():
            return _recompute(question)
        case Calibrate():
            return _answered(None, lambda: _calibrated(question))
        case PricePlan():
            return _answered(question.rule, lambda: _price_plan(question))
        case PriceRefund():
            return _answered(question.rule, lambda: _price_refund(question))


def _answered(rule: Filter | None, work: Callable[[], Answer]) -> Answer:
    """Return the answer, or the reason why there is none.

    Parameters
    ----------
    rule : the filter that would be charged, if there is one
    """
    try:
        return work()
    except NeedsDelta as error:  # under `pure` no other delta is possible, so the method does not suit the dataset
        is_pure = rule is not None and rule.kind == "pure"
        return Refused("method_filter_mismatch" if is_pure else "unsupported_combination", sentence(error))
    except FilterMismatch as error:
        return Refused("method_filter_mismatch", sentence(error))
    except OutOfRange as error:
        return Refused("out_of_range", sentence(error))
    except (AccountingError, ValueError) as error:
        return Refused("unsupported_combination", sentence(error))


def _price(question: Price) -> Answer:
    planned = _plan(question)
    cost = _cost(question.rule, planned.release.plan)
    seconds = measured_speed().seconds(planned.gradient_evaluations, planned.release.plan, question.problem)
    return CalculatedPrice(planned, cost, seconds)


def _forecast(question: ForecastScores) -> Answer:
    """Return the scores of runs of the real method on rows of the twin."""
    planned, price = {}, question.price
    for epsilon in question.epsilons:
        planned[epsilon] = run = _plan(replace(price, privacy=Privacy(epsilon, price.privacy.delta)))
        _cost(price.rule, run.release.plan)  # raises if the plan cannot be charged
        reason = needs_one_machine(run.method, run.met) if price.limits.is_apart else None
        if reason is not None:
            return Refused("method_needs_one_machine", f"{run.method.name}: {reason}. Name another method.")
    return forecast(question.design, planned, question.twin, question.seed, question.signal, question.runs)


def _plan(question: Price) -> solvers.PlannedRun:
    if isinstance(question.method, Candidates):
        return tuning.plan(question.method, question.problem, question.privacy, question.limits)
    # `mu^2`, the currency of gdp, has no price for a sampled answer.
    currency: Currency = "gaussian" if question.rule.kind == "gdp" else "renyi"
    return solvers.plan(
        question.method,
        question.problem,
        question.privacy,
        currency=currency,
        limits=question.limits,
        preparation=question.preparation,
        slope_limit=question.slope_limit,
    )


def _cost(rule: Filter, plan: Plan | SessionPlan) -> Cost | None:
    """Return the cost of a plan; None if no budget could hold it."""
    try:
        return rule.cost(plan)
    except BudgetExhausted:
        return None


def _calibrated(question: Calibrate) -> Calibrated:
    query = Query("answer", question.count, question.mechanism)
    return Calibrated(calibrate((query,), question.privacy, question.relation))


def _price_plan(question: PricePlan) -> PricedPlan:
    return PricedPlan(_cost(question.rule, question.plan), plan_epsilon(question.plan, question.delta))


def _price_refund(question: PriceRefund) -> PricedRefund:
    cost = refund(question.rule, question.cost, question.plan, question.recorded, whole=question.whole)
    return PricedRefund(cost, plan_epsilon(question.plan.recorded(question.recorded), question.delta))


def _recompute(question: Recompute) -> Answer:
    try:
        return Recomputed(receipts.recompute(question.receipt))
    except ReceiptInvalid as error:
        return Refused(
            "invalid_request", f"The document is not a receipt: {error}. Send the file as it was downloaded."
        )


def sentence(error: Exception) -> str:
    """Return the text of an error as a sentence. A name of a method or a field at its start stays as it is."""
    text = str(error)
    starts_with_a_word = text.partition(" ")[0].isalpha()
    return f"{text[:1].upper() if starts_with_a_word else text[:1]}{text[1:]}."
