"""The published regression table of a run, computed from its answers: post-processing."""

from typing import Any

import numpy as np

from app.sources.design import Design
from app.sources.spec import JobSpec
from purse.wire.columns import CategoryColumn, NumberColumn
from purse.wire.inference import INTERCEPT, Inference, JointTest, TableRow
from solvers.inference.coordinates import Stds
from solvers.inference.regression_table import RegressionTableRun
from solvers.inference.table import Contrast, Table, Units, table
from solvers.inference.table import TableRow as SolvedRow
from solvers.weighting import LogisticWeights

_LINE_FIELDS = {
    "estimate": "estimate",
    "std_error": "std_error",
    "sampling_error": "sampling_error",
    "noise_error": "noise_error",
    "degrees_of_freedom": "degrees",
    "lower": "lower",
    "upper": "upper",
    "p_value": "p_value",
}


def result(spec: JobSpec, run: RegressionTableRun, answers: tuple[float, ...]) -> Table:
    """Return the table of a run, in the units of the file; `ValueError` if the answers have another length."""
    if len(answers) != run.size(spec.problem):
        raise ValueError("the output is of another length")
    assert isinstance(spec.design, Design)
    plan = spec.release_plan.plan
    stds = Stds(spec.problem, lambda query: plan.query(query).noise_multiplier)
    return table(spec.problem, run, np.array(answers), stds, _units(spec.design))


def published(design: Design, solved: Table, level: float) -> dict[str, Any]:
    """Return the fields of a model that hold its table."""
    weights, score_limit, residual_limit = solved.estimate.weights, None, None
    if isinstance(weights, LogisticWeights):
        score_limit = weights.score_limit
    else:
        residual_limit = weights.residual_limit * _units(design).target_unit
    tests = [JointTest(column=design.features[f].name, p_value=p) for f, p in solved.joint_p_values.items()]
    return {
        "table": [_row(design, row) for row in solved.rows],
        "covariance": solved.covariance.tolist(),
        "inference": Inference(
            level=level,
            row_limit=weights.row_limit,
            effective_rows=solved.effective_rows,
            joint_tests=tests,
            score_limit=score_limit,
            residual_limit=residual_limit,
        ),
    }


def _units(design: Design) -> Units:
    numbers = [feature.middle_and_half for feature in design.features if isinstance(feature, NumberColumn)]
    target = design.target.middle_and_half if isinstance(design.target, NumberColumn) else (0.0, 1.0)
    return Units(tuple(origin for origin, _ in numbers), tuple(unit for _, unit in numbers), *target)


def _row(design: Design, row: SolvedRow) -> TableRow:
    values = {name: None if row.line is None else getattr(row.line, field) for name, field in _LINE_FIELDS.items()}
    facts = {"resolved": row.line is not None, "reason": row.reason, "per_std": row.per_std}
    return TableRow.model_validate(_named(design, row.contrast) | facts | values)


def _named(design: Design, contrast: Contrast) -> dict[str, Any]:
    """Return the term, column and levels of a contrast."""
    if contrast.kind == "intercept":
        return {"term": INTERCEPT, "column": None, "category": None, "reference": None}
    column = design.features[contrast.feature]
    if not isinstance(column, CategoryColumn):
        return {"term": column.name, "column": column.name, "category": None, "reference": None}
    assert contrast.level is not None
    assert contrast.reference is not None
    levels = [*column.categories, "(other)"]
    category, reference = levels[contrast.level], levels[contrast.reference]
    return {
        "term": f"{column.name} = {category}",
        "column": column.name,
        "category": category,
        "reference": reference,
    }
