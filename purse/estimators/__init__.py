"""scikit-learn estimators whose fit is (epsilon, delta)-DP between data that differ in one row; for local use.

    model = purse.PrivateLogisticRegression(epsilon=1, bounds={"age": (18, 90)}, categories={"sex": ["f", "m"]},
                                            classes=["no", "yes"])
    model.fit(X, y)

What is declared (bounds, categories, classes, the number of rows) is public; no range, no label is read off the data.
What is fitted before, in a pipeline, is not private (`check_pipeline`), and neither is what is predicted or scored from
rows that nobody else may see. docs/estimators.md.
"""

from purse.estimators.accountant import BudgetAccountant
from purse.estimators.classifiers import PrivateLinearSVC, PrivateLogisticRegression
from purse.estimators.pipelines import LearnedFromData, check_pipeline
from purse.estimators.regressors import PrivateLinearRegression, PrivateQuantileRegressor

__all__ = [
    "BudgetAccountant",
    "LearnedFromData",
    "PrivateLinearRegression",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateQuantileRegressor",
    "check_pipeline",
]
