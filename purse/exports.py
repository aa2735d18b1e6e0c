"""Exports of a model to scikit-learn and ONNX: margin = intercept + coefficients * design, then the link."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purse.extras import needing
from purse.onnx_graphs import Graph
from purse.prediction import design, model_features, number_target, predicted_numbers, weights_of
from purse.wire.columns import CategoryColumn, NumberColumn
from purse.wire.models import Model


def to_sklearn(model: Model) -> Any:
    """Return a pipeline of the model's encoding and a linear model of scikit-learn with its coefficients."""
    with needing("to_sklearn"):
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import FunctionTransformer
        from sklearn.svm import LinearSVC
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
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.linear_model import LinearRegression
    from sklearn.preprocessing import FunctionTransformer

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


def to_onnx(model: Model) -> bytes:
    """Return the model as an ONNX graph in double precision, with one input for each column."""
    if not model.features:
        raise ValueError("The model has no feature columns, and an ONNX graph needs at least one input. Use `predict`.")
    with needing("to_onnx"):
        from onnx import TensorProto, helper
    weights, intercepts = weights_of(model)
    graph = Graph()
    start, parts = 0, [graph.constant(intercepts[None, :])]
    for feature in model_features(model):
        size = feature.column.code_count
        parts.append(graph.product(feature, weights[:, start : start + size]))
        start += size
    graph.link(model, graph.node("Sum", *parts))
    types = {NumberColumn: TensorProto.DOUBLE, CategoryColumn: TensorProto.STRING}
    output_type = TensorProto.STRING if model.link == "sign" else TensorProto.DOUBLE
    shape = [None, len(weights)] if model.link == "softmax" else [None]
    assembled = helper.make_graph(
        graph.nodes,
        "privy_purse",
        [helper.make_tensor_value_info(c.name, types[type(c)], [None, 1]) for c in model.row_columns],
        [helper.make_tensor_value_info("prediction", output_type, shape)],
        graph.constants,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    document = helper.make_model(assembled, opset_imports=opsets, ir_version=8, producer_name="privy-purse")
    return bytes(document.SerializeToString())
