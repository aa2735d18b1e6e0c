"""The published form of a solved regression table: terms by name, numbers in the units of the file.

It takes the table of `solvers.inference.table` without importing it, because clients need no solvers.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from purse.wire.columns import CategoryColumn, Column, NumberColumn
from purse.wire.inference import INTERCEPT, PARAMETER, ROBUST, Inference, JointTest, TableAnswers, TableRow
from purse.wire.models import coefficient_terms

_LINE_FIELDS = (
    "estimate",
    "std_error",
    "sampling_error",
    "noise_error",
    "degrees_of_freedom",
    "lower",
    "upper",
    "p_value",
)
_LARGEST, _SMALLEST_UNIT = 1e40, 1e-40  # of bounds and of their distance, so that no square overflows


def refusal(features: Sequence[Column], target: Column | None) -> str | None:
    """Return why a table of these columns cannot be published, or None; a target of classes may be None."""
    for column in (*features, target):
        if isinstance(column, NumberColumn):
            middle, half = column.middle_and_half
            if not (abs(middle) <= _LARGEST and _SMALLEST_UNIT <= half <= _LARGEST):
                return (
                    f"{column.name}: a table needs bounds within 1e40 that are more than 1e-40 apart, because it is in "
                    "the units of the file. Declare the column in another unit"
                )
    terms = Counter([INTERCEPT, *(term for column in features for term in coefficient_terms(column))])
    if repeated := [term for term, count in terms.items() if count > 1]:
        return f"two terms of the table would have the name {repeated[0]}. Rename the column or the category"
    return None


def count_refusal(target: Column | None) -> str | None:
    """Return why this target has no Poisson regression, or None."""
    if not isinstance(target, NumberColumn):
        return "a Poisson regression needs a number as target. Choose a number column, or leave out family"
    if target.lower != 0 or target.upper < 2 or target.middle_and_half != (target.upper / 2, target.upper / 2):
        return (
            f"{target.name}: the target of a Poisson regression is a count. Declare it with the lower bound 0, an "
            "upper bound of at least 2, and no origin or scale"
        )
    return None


def units(features: Sequence[Column], target: Column | None, is_count: bool = False) -> dict[str, Any]:
    """Return the fields of `solvers.inference.table.Units`.

    Parameters
    ----------
    target : a number target; None for classes
    is_count : whether the table is of a Poisson regression, whose linear function is the log of the mean count
    """
    numbers = [feature.middle_and_half for feature in features if isinstance(feature, NumberColumn)]
    origin, unit = target.middle_and_half if isinstance(target, NumberColumn) else (0.0, 1.0)
    if is_count and isinstance(target, NumberColumn):
        origin, unit = math.log(target.upper), 1.0
    own = {"origins": tuple(o for o, _ in numbers), "units": tuple(u for _, u in numbers)}
    return own | {"target_origin": origin, "target_unit": unit}


def model_coefficients(solved: Any, target: Column | None, is_count: bool) -> list[float]:
    """Return the coefficients of the encoded columns and the intercept of the model of a table; parameters as `units`.

    The solved linear function is the log of the mean count as a share of the upper bound, and the model's is the log
    of the mean count.
    """
    coefficients: list[float] = solved.estimate.coefficients.tolist()
    if is_count and isinstance(target, NumberColumn):
        coefficients[-1] += math.log(target.upper)
    return coefficients


def published(features: Sequence[Column], target: Column | None, solved: Any, level: float) -> dict[str, Any]:
    """Return the fields of a model that hold its table.

    Parameters
    ----------
    target : as in `units`
    solved : a `solvers.inference.table.SolvedTable`
    level : confidence of its intervals
    """
    weights, residual_limit, parameter = solved.estimate.weights, None, PARAMETER
    if weights.is_linear:
        residual_limit = weights.residual_limit * units(features, target)["target_unit"]
        parameter = f"{PARAMETER} {ROBUST.format(limit=residual_limit)}"
    facts = Inference(
        level=level,
        parameter=parameter,
        row_limit=weights.row_limit,
        score_limit=None if weights.is_linear else weights.score_limit,
        residual_limit=residual_limit,
        effective_rows=solved.effective_rows,
        joint_tests=[JointTest(column=features[f].name, p_value=p) for f, p in solved.joint_p_values.items()],
    )
    rows = [_row(features, row) for row in solved.rows]
    return {
        "table": rows,
        "covariance": solved.covariance.tolist(),
        "inference": facts,
        "answers": _answers(solved.answers),
    }


def _answers(answers: Any) -> TableAnswers:
    """Return the answers, a `solvers.inference.answers.Answers`, in their published form."""
    moments, target = answers.moments, answers.target
    return TableAnswers(
        share=answers.share,
        center=list(moments.center),
        variances=list(moments.variances),
        noise=list(moments.noise),
        target_mean=target.mean,
        target_scale=target.scale,
        target_late_scale=target.late_scale,
        second_moments=answers.second_moments.tolist(),
        point=answers.point.tolist(),
        curvature=answers.curvature.tolist(),
        squared_scores=answers.squared_scores.tolist(),
        gradient=answers.gradient.tolist(),
    )


def _row(features: Sequence[Column], row: Any) -> TableRow:
    values = {name: None if row.line is None else getattr(row.line, name) for name in _LINE_FIELDS}
    facts = {"resolved": row.line is not None, "reason": row.reason, "per_std": row.per_std}
    return TableRow.model_validate(_named(features, row.contrast) | facts | values)


def _named(features: Sequence[Column], contrast: Any) -> dict[str, Any]:
    """Return the term, column and levels of a contrast."""
    if contrast.kind == "intercept":
        return {"term": INTERCEPT, "column": None, "category": None, "reference": None}
    column = features[contrast.feature]
    if not isinstance(column, CategoryColumn):
        return {"term": column.name, "column": column.name, "category": None, "reference": None}
    levels = column.levels
    return {
        "term": coefficient_terms(column)[contrast.level],
        "column": column.name,
        "category": levels[contrast.level],
        "reference": levels[contrast.reference],
    }
