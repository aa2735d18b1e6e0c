"""A model as other libraries hold it: margin = intercept + coefficients * design, then the link."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purse.extras import needing
from purse.frames import Rows
from purse.prediction import default_code, design, number_scale, weights_of
from purse.wire.columns import CategoryColumn, NumberColumn
from purse.wire.models import Model


def to_sklearn(model: Model) -> Any:
    """The design of a frame, and a linear model of scikit-learn with our coefficients."""
    with needing("to_sklearn"):
        from sklearn.linear_model import LinearRegression, LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import FunctionTransformer
        from sklearn.svm import LinearSVC
    weights, intercepts = weights_of(model)
    if model.link == "identity":
        middle, half = number_scale(model.target)
        fitted = LinearRegression()
        fitted.coef_, fitted.intercept_ = half * weights[0], half * float(intercepts[0]) + middle
    else:
        fitted = LinearSVC() if model.link == "sign" else LogisticRegression()
        if len(weights) == 2:  # a softmax of two is the logistic function of their difference
            weights, intercepts = weights[1:] - weights[:1], intercepts[1:] - intercepts[:1]
        fitted.coef_, fitted.intercept_, fitted.classes_ = weights, intercepts, np.array(model.classes, dtype=object)
    fitted.n_features_in_ = weights.shape[1]
    return make_pipeline(FunctionTransformer(partial(_design, model)), fitted)


def _design(model: Model, rows: Rows) -> NDArray[np.float64]:
    return design(model, rows)


def to_onnx(model: Model) -> bytes:
    """The same in double precision: a number is clamped and scaled, a category looks its coefficient up."""
    with needing("to_onnx"):
        from onnx import TensorProto, helper, numpy_helper
    if not model.features:
        raise ValueError("a model without columns has no input to be given")
    weights, intercepts = weights_of(model)
    nodes: list[Any] = []
    constants: list[Any] = []

    def constant(value: Any) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value), f"constant_{len(constants)}"))
        return str(constants[-1].name)

    def node(kind: str, *inputs: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [f"value_{len(nodes)}"], **attributes))
        return f"value_{len(nodes) - 1}"

    def number(column: NumberColumn, weight: NDArray[np.float64]) -> str:
        x, middle, half = column.name, *number_scale(column)
        inside = node("Clip", x, constant(column.lower), constant(column.upper))
        if column.coding is None:
            twice = node(
                "Sub", node("Sub", inside, constant(column.lower)), node("Sub", constant(column.upper), inside)
            )
            code = node("Div", twice, constant(column.upper - column.lower))
        else:
            scaled = node("Div", node("Sub", inside, constant(middle)), constant(half))
            code = node("Clip", scaled, constant(-1.0), constant(1.0))
        is_finite = node("Equal", node("Sub", x, x), constant(0.0))
        return node("Mul", node("Where", is_finite, code, constant(default_code(column))), constant(weight))

    def category(column: CategoryColumn, weight: NDArray[np.float64]) -> str:
        codes = {name: code for code, name in enumerate(column.categories)}
        other = len(codes) if column.default is None else codes[column.default]
        said = {"keys_strings": list(codes), "values_int64s": list(codes.values()), "default_int64": other}
        code = node("LabelEncoder", column.name, domain="ai.onnx.ml", **said)
        return node("Gather", constant(weight.T.copy()), node("Reshape", code, constant(np.array([-1]))), axis=0)

    at, parts = 0, [constant(intercepts[None, :])]
    for column in model.features:
        if isinstance(column, CategoryColumn):
            width = len(column.categories) + 1
            parts.append(category(column, weights[:, at : at + width]))
        else:
            width = 1
            parts.append(number(column, weights[:, at][None, :]))
        at += width
    margin = node("Sum", *parts)
    flat = constant(np.array([-1]))
    output, shape = TensorProto.DOUBLE, [None, *([len(weights)] if model.link == "softmax" else [])]
    if model.link == "softmax":
        node("Softmax", margin, axis=1)
    elif model.link == "logistic":
        node("Reshape", node("Sigmoid", margin), flat)
    elif model.link == "identity":
        middle, half = number_scale(model.target)
        node("Reshape", node("Add", node("Mul", margin, constant(half)), constant(middle)), flat)
    else:
        is_positive = node("Cast", node("Greater", margin, constant(0.0)), to=TensorProto.INT64)
        node("Gather", constant(np.array(model.classes, dtype=object)), node("Reshape", is_positive, flat))
        output = TensorProto.STRING
    nodes[-1].output[0] = "prediction"
    types = {NumberColumn: TensorProto.DOUBLE, CategoryColumn: TensorProto.STRING}
    graph = helper.make_graph(
        nodes,
        "privy_purse",
        [helper.make_tensor_value_info(c.name, types[type(c)], [None, 1]) for c in model.features],
        [helper.make_tensor_value_info("prediction", output, shape)],
        constants,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="privy-purse")
    return bytes(made.SerializeToString())
