"""Estimators of scikit-learn whose fit is (epsilon, delta)-DP for data that differ in one row; for local use.

    model = purse.PrivateLogisticRegression(epsilon=1, bounds={"age": (18, 90)}, categories={"sex": ["f", "m"]},
                                            classes=["no", "yes"])
    model.fit(X, y)

Declared bounds, categories, classes and the number of rows are public; no range or label is read from the data. Earlier
steps of a pipeline are not private (`check_pipeline`), and neither are predictions and scores of private rows.
See docs/estimators.md.
"""

from purse.estimators.accountant import BudgetAccountant as BudgetAccountant
from purse.estimators.classifiers import PrivateLinearSVC as PrivateLinearSVC
from purse.estimators.classifiers import PrivateLogisticRegression as PrivateLogisticRegression
from purse.estimators.pipelines import LearnedFromData as LearnedFromData
from purse.estimators.pipelines import check_pipeline as check_pipeline
from purse.estimators.regressors import PrivateLinearRegression as PrivateLinearRegression
from purse.estimators.regressors import PrivateQuantileRegressor as PrivateQuantileRegressor
