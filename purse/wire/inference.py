"""Regression tables: estimates with standard errors, and what a quote expects of them."""

from typing import Annotated

from pydantic import Field

from purse.wire.base import Name, Wire

INTERCEPT = "intercept"
"""Term of the intercept."""

PARAMETER = (
    "Estimates are of a weighted regression on the columns as declared, numbers clamped to their bounds. If the model "
    "is right, its coefficients are those of every population weight; otherwise they are the best fit to the weighted "
    "population. Intervals hold sampling error and privacy noise, each for its own coefficient: there is no correction "
    "for several tests."
)


class TableRow(Wire):
    """A coefficient in the units of the file, with its standard error; all numbers are null if it is not resolved."""

    term: Annotated[str, Field(max_length=500)]
    """The column, `column = level` for a level of a category, or `intercept`."""
    column: Name | None
    """The column; null for the intercept."""
    category: str | None
    """The level of a category column, "(other)" for values that are not declared; otherwise null."""
    reference: str | None
    """The level that it is compared with; null unless the column is a category."""
    resolved: bool
    """Whether the coefficient can be told from the privacy noise."""
    reason: str | None
    """Why it is not resolved; null if it is."""
    estimate: float | None
    """The estimate. For two classes, the change of the log-odds; for a number, the change of the target."""
    std_error: float | None
    """Standard error, with sampling error and privacy noise."""
    sampling_error: float | None
    """Part of the standard error by sampling; the squares of both parts add up to the square of the whole."""
    noise_error: float | None
    """Part of the standard error by privacy noise."""
    degrees_of_freedom: float | None
    """Of the t distribution of the estimate over its standard error."""
    lower: float | None
    """Lower end of the interval."""
    upper: float | None
    """Upper end of the interval."""
    p_value: float | None
    """Two-sided p-value of the hypothesis that the coefficient is 0."""
    per_std: float | None
    """Estimate for a change of one standard deviation of a number column, by its released variance; otherwise null."""


class JointTest(Wire):
    """A test of the hypothesis that the levels of a category do not differ."""

    column: Name
    """The category column."""
    p_value: float
    """p-value of the F test."""


class Inference(Wire):
    """What a regression table refers to."""

    level: float
    """Confidence of each interval."""
    parameter: str = PARAMETER
    """What is estimated."""
    row_limit: float
    """Norm of a standardised row beyond which its weight falls with the square of the norm."""
    score_limit: float | None
    """For two classes, the largest weighted score, as a share of the row limit; null for a number."""
    residual_limit: float | None
    """For a number, the size of residuals, in units of the target, to which larger ones are cut; null for classes."""
    effective_rows: float | None
    """Number of records with which a table without privacy would have intervals as wide; null without a resolved
    row."""
    joint_tests: list[JointTest]
    """Tests of the categories all of whose levels with enough rows are resolved."""


class ExpectedTable(Wire):
    """What a quote expects of a regression table, from public facts, for standardised columns and balanced classes."""

    coefficients: int
    """Number of coefficients, the intercept included."""
    width_ratio: float
    """Expected width of an interval over that of a table without privacy."""
    resolved: float
    """Expected number of resolved coefficients, if no level of a category is rare."""
