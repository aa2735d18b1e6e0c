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
    CalibrationFailed,
    FilterMismatch,
    OutOfRange,
    ReceiptInvalid,
)
from accounting.filter import Cost, Filter
from accounting.mechanisms import Gaussian, Laplace, PoissonGaussian
from accounting.plan import Query, ReleasePlan
from accounting.privacy import Privacy, Relation
from accounting.records import receipt as receipts
from app.calculation.forecasts import Forecasted, forecast
from app.calculation.sessions import PricedPlan, PricedRefund, PricePlan, PriceRefund, price_plan, price_refund
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
    most_evaluations, most_answers : limits of the planned run
    preparation, slope_limit : as requested
    is_apart : whether the dataset's records are on several machines
    """

    method: Method | Auto | AnyCounting | Candidates | RegressionTable
    problem: solvers.Problem
    privacy: Privacy
    rule: Filter
    most_evaluations: float
    most_answers: int
    preparation: AskedPreparation | None = None
    slope_limit: float | None = None
    is_apart: bool = False
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
            return _calibrate(question)
        case PricePlan():
            return _answered(question.rule, lambda: price_plan(question))
        case PriceRefund():
            return _answered(question.rule, lambda: price_refund(question))


def _answered(rule: Filter, work: Callable[[], Answer]) -> Answer:
    """Return the answer, or the reason why there is none."""
    try:
        return work()
    except NeedsDelta as error:  # under `pure` no other delta is possible, so the method does not suit the dataset
        pure = rule.kind == "pure"
        return Refused("method_filter_mismatch" if pure else "unsupported_combination", sentence(error))
    except FilterMismatch as error:
        return Refused("method_filter_mismatch", sentence(error))
    except OutOfRange as error:
        return Refused("out_of_range", sentence(error))
    except (AccountingError, ValueError) as error:
        return Refused("unsupported_combination", sentence(error))


def _price(question: Price) -> Answer:
    planned = _plan(question)
    cost = _cost(question.rule, planned)
    seconds = measured_speed().seconds(planned.gradient_evaluations, planned.release.plan, question.problem)
    return CalculatedPrice(planned, cost, seconds)


def _forecast(question: ForecastScores) -> Answer:
    """Return the scores of runs of the real method on rows of the twin."""
    planned, price = {}, question.price
    for epsilon in question.epsilons:
        planned[epsilon] = run = _plan(replace(price, privacy=Privacy(epsilon, price.privacy.delta)))
        _cost(price.rule, run)  # raises if the plan cannot be charged
        reason = needs_one_machine(run.method, run.met) if price.is_apart else None
        if reason is not None:
            return Refused("method_needs_one_machine", f"{run.method.name}: {reason}. Name another method.")
    return forecast(question.design, planned, question.twin, question.seed, question.signal, question.runs)


def _plan(question: Price) -> solvers.PlannedRun:
    # `mu^2`, the currency of gdp, has no price for a sampled answer.
    currency: Currency = "gaussian" if question.rule.kind == "gdp" else "renyi"
    evaluations = question.most_evaluations
    limits = WorkLimits(evaluations, question.most_answers, evaluations, question.is_apart)
    if isinstance(question.method, Candidates):
        return tuning.plan(question.method, question.problem, question.privacy, limits)
    how: Any = {"currency": currency, "limits": limits}
    how |= {"preparation": question.preparation, "slope_limit": question.slope_limit}
    return solvers.plan(question.method, question.problem, question.privacy, **how)


def _cost(rule: Filter, planned: solvers.PlannedRun) -> Cost | None:
    try:
        return rule.cost(planned.release.plan)
    except BudgetExhausted:
        return None


def _recompute(question: Recompute) -> Answer:
    try:
        return Recomputed(receipts.recompute(question.receipt))
    except ReceiptInvalid as error:
        return Refused(
            "invalid_request", f"The document is not a receipt: {error}. Send the file as it was downloaded."
        )


def _calibrate(question: Calibrate) -> Answer:
    query = Query("answer", question.count, question.mechanism)
    try:
        return Calibrated(calibrate((query,), question.privacy, question.relation))
    except CalibrationFailed as error:
        return Refused("unsupported_combination", sentence(error))
    except (AccountingError, ValueError) as error:
        return Refused("out_of_range", sentence(error))


def sentence(error: Exception) -> str:
    """Return the text of an error as a sentence. A name of a method or a field at its start stays as it is."""
    text = str(error)
    starts_with_a_word = text.partition(" ")[0].isalpha()
    return f"{text[:1].upper() if starts_with_a_word else text[:1]}{text[1:]}."
