"""Regression tables: estimates with standard errors, and what a quote expects of them."""

from purse.wire.base import Name, Wire

INTERCEPT = "intercept"
"""Term of the intercept."""

PARAMETER = (
    "Estimates are of a weighted regression on the columns as declared, with numbers clamped to their bounds. If the "
    "model is right, the weights do not change its coefficients. Otherwise they are the best fit to the weighted "
    "population. Each interval covers its coefficient with the probability `level`, over sampling and privacy noise. "
    "It covers one coefficient alone, because intervals and p-values are not corrected for several tests."
)


class TableRow(Wire):
    """A coefficient in the units of the file, with its standard error. All numbers are null if it is not resolved."""

    term: str
    """The column, `column = level` for a level of a category, or `intercept`."""
    column: Name | None
    """The column. Null for the intercept."""
    category: str | None
    """The level of a category column, "(other)" for values that are not declared. Null for other columns."""
    reference: str | None
    """The level that it is compared with. Null unless the column is a category."""
    resolved: bool
    """Whether the coefficient is visible above the privacy noise."""
    reason: str | None
    """Why it is not resolved. Null if it is."""
    estimate: float | None
    """The estimate, which is the change of the log-odds for two classes, and of the target for a number."""
    std_error: float | None
    """Standard error, with sampling error and privacy noise."""
    sampling_error: float | None
    """Part of the standard error by sampling. The squares of both parts add up to the square of the whole."""
    noise_error: float | None
    """Part of the standard error by privacy noise."""
    degrees_of_freedom: float | None
    """Degrees of freedom of the t distribution of the estimate over its standard error."""
    lower: float | None
    """Lower end of the interval."""
    upper: float | None
    """Upper end of the interval."""
    p_value: float | None
    """Two-sided p-value of the hypothesis that the coefficient is 0."""
    per_std: float | None
    """Estimate for a change of one standard deviation of a number column, by its released variance."""


class JointTest(Wire):
    """A test of the hypothesis that the levels of a category do not differ."""

    column: Name
    """The category column."""
    p_value: float | None
    """p-value of the F test. Null if a level with enough rows is not resolved."""


class Inference(Wire):
    """Quantities to which a regression table refers."""

    level: float
    """Confidence of each interval."""
    parameter: str = PARAMETER
    """Description of the estimated quantity."""
    row_limit: float
    """Norm of a standardized row beyond which its weight falls with the square of the norm."""
    score_limit: float | None
    """For two classes, the largest weighted score, as a share of the row limit."""
    residual_limit: float | None
    """For a number target, the size to which larger residuals are cut, in its units."""
    effective_rows: float | None
    """Number of records with which a table without privacy would have intervals as wide."""
    joint_tests: list[JointTest]
    """A test of each category column."""


class ExpectedTable(Wire):
    """Expected regression table of a quote, from public facts, for standardized columns and balanced classes."""

    coefficients: int
    """Number of coefficients, the intercept included."""
    width_ratio: float
    """Expected width of an interval over that of a table without privacy."""
    resolved: float
    """Expected number of resolved coefficients, if no level of a category is rare."""
