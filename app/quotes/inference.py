"""Requests for regression tables, and what their quotes expect, from public facts."""

from collections.abc import Mapping

from accounting.divergences.gaussian import gauss_mu
from app.http.errors import ApiError, invalid_field
from app.sources.design import Design
from app.wire import JobRequest
from purse.solved_tables import count_refusal, refusal
from purse.wire.columns import CategoryColumn, NumberColumn
from purse.wire.forecasts import EPSILONS
from purse.wire.inference import ExpectedAt, ExpectedTable
from solvers.domains import Free
from solvers.inference import RegressionTable, RegressionTableRun
from solvers.inference.budget import TableBudget
from solvers.problem import Problem
from solvers.regularizers import L2, NoRegularizer
from solvers.selection import Auto

_COUNT_WARNING = (
    "The stated width assumes a mean count of a tenth of the largest count. If the mean is smaller, intervals are "
    "wider. If clamped counts make the model wrong, they cover the weighted fit only."
)
_WIDE_SIGNAL = 2.3  # times the least signal, below which intervals are much wider than without privacy


def requested(request: JobRequest, design: Design) -> RegressionTable:
    """Return the requested table.

    Raises
    ------
    ApiError
        unsupported_combination if the request also sets how a model is trained, or if no table of these columns can be
        published, invalid_request if `reference` names no level of a category feature.
    """
    settings = {
        "method": isinstance(request.method, Auto),
        "regularizer": request.regularizer in (L2(1e-4), NoRegularizer()),
        "domain": isinstance(request.domain, Free),
        "preparation": request.preparation is None,
        "slope_limit": request.slope_limit is None,
        "row_norm": request.row_norm is None,
    }
    if wrong := [name for name, is_default in settings.items() if not is_default]:
        raise ApiError(
            "unsupported_combination",
            f"A regression table chooses its own method and takes no penalty: leave out {', '.join(wrong)}.",
        )
    if request.terms is not None and request.reference is not None:
        raise invalid_field(
            "body.reference", "must be left out with terms. Set the `reference` of the term's factor instead"
        )
    is_count = request.family == "poisson"
    if is_count and request.loss is not None:
        raise invalid_field("body.loss", "must be left out with family, which decides what is fitted")
    reason = refusal(design.features, design.target) or (count_refusal(design.target) if is_count else None)
    if reason:
        raise ApiError("unsupported_combination", f"{reason}.")
    largest_count = design.target.upper if is_count and isinstance(design.target, NumberColumn) else None
    return RegressionTable(request.level, _references(request.reference or {}, design), largest_count)


def _references(named: Mapping[str, str], design: Design) -> tuple[int, ...]:
    """Return the index of the reference level of each category feature."""
    categories = [feature for feature in design.features if isinstance(feature, CategoryColumn)]
    if unknown := sorted(set(named) - {category.name for category in categories}):
        raise invalid_field(
            "body.reference", f"must name category features only, and {unknown[0]} is not a category feature"
        )
    indices = []
    for category in categories:
        levels = category.levels
        level = named.get(category.name, levels[0])
        if level not in levels:
            raise invalid_field(f"body.reference.{category.name}", "must be one of the column's categories, or (other)")
        indices.append(levels.index(level))
    return tuple(indices)


def expected(run: RegressionTableRun, problem: Problem, delta: float) -> ExpectedTable:
    """Return the expected table of a quote, also at other epsilons with the delta of the request."""
    budget = run.budget(problem)
    family = run.family(problem)
    count = budget.parameters
    at_epsilons = [
        _expected_at(epsilon, TableBudget.of(problem, gauss_mu(epsilon, delta), family)) for epsilon in EPSILONS
    ]
    return ExpectedTable(
        coefficients=count, width_ratio=budget.width_ratio, resolved=budget.resolved_share * count, at=at_epsilons
    )


def _expected_at(epsilon: float, budget: TableBudget) -> ExpectedAt:
    if budget.signal < budget.family.least_signal:
        return ExpectedAt(epsilon=epsilon, width_ratio=None, resolved=0.0)
    resolved = budget.resolved_share * budget.parameters
    return ExpectedAt(epsilon=epsilon, width_ratio=budget.width_ratio, resolved=resolved)


def warnings(run: RegressionTableRun, problem: Problem) -> list[str]:
    """Return the warnings of a quote about a table."""
    budget = run.budget(problem)
    of_counts = [] if run.largest_count is None else [_COUNT_WARNING]
    if budget.signal >= _WIDE_SIGNAL * budget.family.least_signal:
        return of_counts
    return [
        *of_counts,
        f"Few records for {budget.parameters} coefficients at this privacy: intervals may be several times as wide as "
        "without privacy, and some coefficients may not be resolved. Use fewer columns, merge levels, or raise "
        "epsilon.",
    ]
