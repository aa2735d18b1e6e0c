"""The lines of a regression table: contrasts against reference levels, in the units of the file. Post-processing."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from solvers.inference.answers import Answers, unpacked
from solvers.inference.coordinates import Matrix, Stds
from solvers.inference.estimate import (
    FEW_ROWS,
    MOSTLY_UNRESOLVED,
    NOISE_HIDES,
    NOT_SETTLED,
    TableEstimate,
    TableLine,
)
from solvers.inference.regression_table import RegressionTableRun
from solvers.preparation.moments import columns_of
from solvers.problem import Problem, Vector

_LEAST_GIVEN = 0.5  # share of lines that must be visible; if fewer are, noise of the curvature made most of them large


@dataclass(frozen=True, slots=True)
class Units:
    """Units of the file: a number is origin + unit * code.

    Parameters
    ----------
    origins, units : one for each number column
    target_origin, target_unit : of a number target; 0 and 1 for classes, the log of the largest count and 1 for counts
    """

    origins: tuple[float, ...]
    units: tuple[float, ...]
    target_origin: float = 0.0
    target_unit: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class TableContrast:
    """A coefficient of a table.

    Parameters
    ----------
    kind : of the coefficient
    feature : index of the column; -1 for the intercept
    level, reference : indices of levels, for a level of a category
    weights : contrast over the coded columns and the intercept, in the units of the file, (d,)
    origin : added to the estimate
    reason : why the released counts rule it out, or None
    """

    kind: Literal["number", "level", "intercept"]
    feature: int
    level: int | None
    reference: int | None
    weights: Vector
    origin: float = 0.0
    reason: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SolvedRow:
    """A row of a table: its contrast, and its line or the reason why there is none.

    Parameters
    ----------
    per_std : estimate for one released standard deviation of a number column; None otherwise
    """

    contrast: TableContrast
    line: TableLine | None
    reason: str | None
    per_std: float | None


@dataclass(frozen=True, slots=True, eq=False)
class SolvedTable:
    """A regression table.

    Parameters
    ----------
    estimate, answers : of the run
    rows : one for each coefficient, the intercept last
    covariance : of the rows that have a line, in their order
    joint_p_values : for each category by its index, of the hypothesis that its levels do not differ; None unless every
        level with enough rows has a line
    effective_rows : number of rows with which a table without privacy would have intervals as wide (median); None if
        no row has a line, or if the noise hides the sampling error
    """

    estimate: TableEstimate
    answers: Answers
    rows: tuple[SolvedRow, ...]
    covariance: Matrix
    joint_p_values: dict[int, float | None]
    effective_rows: float | None


def table(problem: Problem, run: RegressionTableRun, flat: Vector, stds: Stds, units: Units) -> SolvedTable:
    """Return the table of a run from its answers.

    Parameters
    ----------
    flat : the answers of the run
    stds : noise stds of its plan
    """
    answers = unpacked(problem, flat, stds)
    estimate = TableEstimate.of(problem, run.budget(problem), answers, stds)
    contrasts = _contrasts(problem, run.references, estimate, answers, units)
    is_possible = np.array([contrast.reason is None for contrast in contrasts])
    weights_of_contrasts = np.array([contrast.weights for contrast in contrasts])
    are_levels = np.array([contrast.kind == "level" for contrast in contrasts])
    is_given = estimate.is_given(weights_of_contrasts)
    is_settled = estimate.is_settled(weights_of_contrasts, are_levels)
    is_hidden = (is_given & is_possible).sum() < _LEAST_GIVEN * is_possible.sum()
    refusal = estimate.refusal or (MOSTLY_UNRESOLVED if is_hidden else None)
    deviations = np.sqrt(answers.moments.floored(2.0))
    rows = []
    for contrast, is_visible, has_settled in zip(contrasts, is_given.tolist(), is_settled.tolist(), strict=True):
        reason = contrast.reason or refusal or (None if is_visible else NOISE_HIDES)
        reason = reason or (None if has_settled else NOT_SETTLED)
        line = None if reason else estimate.line(contrast.weights, run.level, contrast.origin)
        per_std = None
        if line is not None and contrast.kind == "number":
            (position,) = np.flatnonzero(contrast.weights)
            per_std = float(units.target_unit * estimate.coefficients[position] * deviations[position])
        rows.append(SolvedRow(contrast, line, reason, per_std))
    chosen = np.array([row.contrast.weights for row in rows if row.line is not None]).reshape(-1, problem.d)
    lines = [row.line for row in rows if row.line is not None and estimate.is_sampling_known]
    effective = [problem.n * (line.sampling_error / line.std_error) ** 2 for line in lines]
    return SolvedTable(
        estimate,
        answers,
        tuple(rows),
        estimate.covariance(chosen),
        _joint_p_values(problem, rows, estimate),
        float(np.median(effective)) if effective else None,
    )


def _contrasts(
    problem: Problem, references: tuple[int, ...], estimate: TableEstimate, answers: Answers, units: Units
) -> list[TableContrast]:
    """Return the contrast of each coefficient, the intercept last.

    A reference level that is left out is replaced by the level with the largest released share.
    """
    columns, has_weight = columns_of(problem), estimate.coordinates.frame.has_weight
    center, contrasts = np.array(answers.moments.center), []
    intercept, numbers, blocks = np.zeros(problem.d), 0, 0
    intercept[-1] = 1.0
    for feature, (start, width) in enumerate(zip(columns.starts.tolist(), columns.widths, strict=True)):
        if width == 1:
            weights = np.zeros(problem.d)
            weights[start] = units.target_unit / units.units[numbers]
            intercept[start] = -units.origins[numbers] / units.units[numbers]
            contrasts.append(TableContrast("number", feature, None, None, weights))
            numbers += 1
            continue
        own = has_weight[start : start + width]
        reference = references[blocks] if references else 0
        if not own[reference]:
            reference = int(np.argmax(np.where(own, center[start : start + width], -1.0)))
        intercept[start + reference] = 1.0
        for level in range(width):
            if level != reference:
                weights = np.zeros(problem.d)
                weights[start + level], weights[start + reference] = units.target_unit, -units.target_unit
                reason = None if own[level] else FEW_ROWS
                contrasts.append(TableContrast("level", feature, level, reference, weights, reason=reason))
        blocks += 1
    contrasts.append(TableContrast("intercept", -1, None, None, units.target_unit * intercept, units.target_origin))
    return contrasts


def _joint_p_values(problem: Problem, rows: list[SolvedRow], estimate: TableEstimate) -> dict[int, float | None]:
    """Return the p-value of each category; None unless all its levels with enough rows have a line."""
    p_values: dict[int, float | None] = {}
    for feature, width in enumerate(columns_of(problem).widths):
        if width == 1:
            continue
        own = [row for row in rows if row.contrast.feature == feature and row.contrast.reason is None]
        is_resolved = bool(own) and all(row.line is not None for row in own)
        weights = np.array([row.contrast.weights for row in own])
        p_values[feature] = estimate.joint_p_value(weights) if is_resolved else None
    return p_values
