"""Regression tables: estimates with standard errors, and what a quote expects of them."""

from purse.wire.base import Name, Wire

INTERCEPT = "intercept"
"""Term of the intercept."""

PARAMETER = (
    "Estimates are of a weighted regression on the columns as declared, with numbers clamped to their bounds. If the "
    "model is right, the weights do not change its coefficients. Otherwise they are the best fit to the weighted "
    "population. Each interval covers its coefficient with the stated confidence, over sampling and privacy noise. "
    "It covers one coefficient alone, because intervals and p-values are not corrected for several tests."
)

ROBUST = (
    "Residuals beyond {limit:.4g} are cut. If residuals are skewed and their size depends on the columns, the slopes "
    "differ from those of least squares, often by more than the intervals, and change with epsilon."
)
"""Added to `PARAMETER` for a number target."""
EXPECTED_IF = "if columns are not correlated, classes are balanced, and every level has rows, also (other)"
"""Assumptions of an expected number of resolved coefficients."""


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
    """The estimate, which is the change of the log-odds for two classes, of the target for a number, and of the log of
    the mean count for a Poisson regression."""
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
    """For two classes, the largest weighted score, as a share of the row limit. For counts, the same in units of the
    target's upper bound."""
    residual_limit: float | None
    """For a number target, the size to which larger residuals are cut, in its units."""
    effective_rows: float | None
    """Number of records with which a table without privacy would have intervals as wide. Null if no coefficient is
    resolved, or if the noise hides the sampling error."""
    joint_tests: list[JointTest]
    """A test of each category column."""


class TableAnswers(Wire):
    """The private answers of a regression table. The table is computed from them, `inference` and the receipt alone.

    Matrices and vectors refer to the coordinates of `solvers.inference.coordinates`. Each answer has independent noise,
    whose multiplier the receipt states.
    """

    share: float
    """Share of slots that hold a row. 1 if rows are protected."""
    center: list[float]
    """Mean of each encoded value."""
    variances: list[float]
    """Mean of (value - center)^2 of each encoded value."""
    noise: list[float]
    """Noise std of the variance of a number, and of the mean of a category's value."""
    target_mean: float
    """Mean of the encoded target."""
    target_scale: float
    """For linear regression, the mean distance from `target_mean`. Otherwise 0."""
    target_late_scale: float
    """For linear regression, the mean residual late on the path. Otherwise 0."""
    second_moments: list[list[float]]
    """Mean products of the coordinates of a row."""
    point: list[float]
    """theta_0, at which the next answers are computed."""
    curvature: list[list[float]]
    """H, the mean weighted curvature at theta_0."""
    squared_scores: list[list[float]]
    """G, the mean product of weighted scores at theta_0."""
    gradient: list[float]
    """g, the mean weighted score at theta_0. The estimate is theta_0 - H^-1 g, before corrections."""


class ExpectedAt(Wire):
    """Expected regression table at another epsilon and the same delta."""

    epsilon: float
    """The other epsilon."""
    width_ratio: float | None
    """Width of the intervals relative to a table without privacy. Null if a request at this epsilon is refused."""
    resolved: float
    """Expected number of resolved coefficients."""


class ExpectedTable(Wire):
    """Expected regression table of a quote, from public facts, for standardized columns and balanced classes.

    For counts, their mean is assumed to be a tenth of the target's upper bound. Intervals are wider if it is smaller.
    """

    coefficients: int
    """Number of coefficients, the intercept included."""
    width_ratio: float
    """Expected width of an interval over that of a table without privacy."""
    resolved: float
    """Expected number of resolved coefficients, if columns are not correlated and no level of a category is rare. A
    level without rows is never resolved, and neither is "(other)" if all values are declared."""
    at: list[ExpectedAt] = []
    """The same at other epsilons, in increasing order."""
