"""The export of a model to scikit-learn: margin = intercept + coefficients * design, then the link."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC

from purse.prediction import design, number_target, predicted_numbers, weights_of
from purse.wire.models import Model


def to_sklearn(model: Model) -> Any:
    """Return a pipeline of the model's encoding and a linear model of scikit-learn with its coefficients."""
    weights, intercepts = weights_of(model)
    if model.link in ("identity", "log"):
        fitted = _clipped_regression(model, weights[0], float(intercepts[0]))
    else:
        fitted = LinearSVC() if model.link == "sign" else LogisticRegression()
        if len(weights) == 2:  # a softmax of two is the logistic function of their difference
            weights, intercepts = weights[1:] - weights[:1], intercepts[1:] - intercepts[:1]
        fitted.coef_, fitted.intercept_, fitted.classes_ = weights, intercepts, np.array(model.classes, dtype=object)
        fitted.n_features_in_ = weights.shape[1]
    return make_pipeline(FunctionTransformer(partial(design, model)), fitted)


def _clipped_regression(model: Model, weights: NDArray[np.float64], intercept: float) -> Any:
    """Return a linear regression of the target, or of the log of a count, clipped to the declared range."""
    target = number_target(model.target)
    middle, half = target.middle_and_half
    clip: Any = partial(np.clip, a_min=target.lower, a_max=target.upper)
    if model.link == "log":
        (middle, half), clip = (0.0, 1.0), partial(predicted_numbers, target, is_log=True)
    regression = LinearRegression()
    regression.coef_, regression.intercept_ = half * weights, half * intercept + middle
    regression.n_features_in_ = len(weights)
    fitted = TransformedTargetRegressor(regression, inverse_func=clip, check_inverse=False)
    fitted.regressor_, fitted._training_dim = regression, 1
    fitted.transformer_ = FunctionTransformer(inverse_func=clip).fit(np.zeros((1, 1)))
    return fitted
