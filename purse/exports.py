"""Exports of a model to scikit-learn and ONNX: margin = intercept + coefficients * design, then the link."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purse.coding import default_code
from purse.extras import needing
from purse.frames import Rows
from purse.prediction import design, number_target, weights_of
from purse.wire.columns import CategoryColumn, NumberColumn
from purse.wire.models import Model, width


def to_sklearn(model: Model) -> Any:
    """Return a pipeline of the model's encoding and a linear model of scikit-learn with its coefficients."""
    with needing("to_sklearn"):
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import FunctionTransformer
        from sklearn.svm import LinearSVC
    weights, intercepts = weights_of(model)
    if model.link == "identity":
        fitted = _clipped_regression(model, weights[0], float(intercepts[0]))
    else:
        fitted = LinearSVC() if model.link == "sign" else LogisticRegression()
        if len(weights) == 2:  # a softmax of two is the logistic function of their difference
            weights, intercepts = weights[1:] - weights[:1], intercepts[1:] - intercepts[:1]
        fitted.coef_, fitted.intercept_, fitted.classes_ = weights, intercepts, np.array(model.classes, dtype=object)
        fitted.n_features_in_ = weights.shape[1]
    return make_pipeline(FunctionTransformer(partial(_design, model)), fitted)


def _design(model: Model, rows: Rows) -> NDArray[np.float64]:
    return design(model, rows)


def _clipped_regression(model: Model, weights: NDArray[np.float64], intercept: float) -> Any:
    """Return a linear regression of the target in its units, whose predictions are clipped to the declared range."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.linear_model import LinearRegression
    from sklearn.preprocessing import FunctionTransformer

    target = number_target(model.target)
    middle, half = target.middle_and_half
    regression = LinearRegression()
    regression.coef_, regression.intercept_ = half * weights, half * intercept + middle
    regression.n_features_in_ = len(weights)
    clip = partial(np.clip, a_min=target.lower, a_max=target.upper)
    fitted = TransformedTargetRegressor(regression, inverse_func=clip, check_inverse=False)
    fitted.regressor_, fitted._training_dim = regression, 1
    fitted.transformer_ = FunctionTransformer(inverse_func=clip).fit(np.zeros((1, 1)))
    return fitted


def to_onnx(model: Model) -> bytes:
    """Return the model as an ONNX graph in double precision, with one input for each column."""
    if model.terms is not None:
        raise ValueError("A model with terms has no ONNX graph yet. Use to_sklearn, which computes the terms.")
    if not model.features:
        raise ValueError("The model has no feature columns, and an ONNX graph needs at least one input.")
    with needing("to_onnx"):
        from onnx import TensorProto, helper
    weights, intercepts = weights_of(model)
    graph = _Graph()
    start, terms = 0, [graph.constant(intercepts[None, :])]
    for column in model.features:
        block = weights[:, start : start + width(column)]
        if isinstance(column, CategoryColumn):
            terms.append(graph.category(column, block))
        else:
            terms.append(graph.number(column, block.T))
        start += width(column)
    graph.link(model, graph.node("Sum", *terms))
    types = {NumberColumn: TensorProto.DOUBLE, CategoryColumn: TensorProto.STRING}
    output_type = TensorProto.STRING if model.link == "sign" else TensorProto.DOUBLE
    shape = [None, len(weights)] if model.link == "softmax" else [None]
    assembled = helper.make_graph(
        graph.nodes,
        "privy_purse",
        [helper.make_tensor_value_info(c.name, types[type(c)], [None, 1]) for c in model.features],
        [helper.make_tensor_value_info("prediction", output_type, shape)],
        graph.constants,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    document = helper.make_model(assembled, opset_imports=opsets, ir_version=8, producer_name="privy-purse")
    return bytes(document.SerializeToString())


@dataclass(frozen=True, slots=True)
class _Graph:
    """The nodes and constants of an ONNX graph in the making; every method returns the name of its output."""

    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def constant(self, value: Any) -> str:
        """Add a constant."""
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.asarray(value), f"constant_{len(self.constants)}"))
        return str(self.constants[-1].name)

    def node(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add an operation."""
        from onnx import helper

        name = output or f"value_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def number(self, column: NumberColumn, weight: NDArray[np.float64]) -> str:
        """Add the term of a number column: clamp, scale, replace what is not finite, multiply."""
        lower, upper = self.constant(column.lower), self.constant(column.upper)
        inside = self.node("Clip", column.name, lower, upper)
        if column.coding is None:
            from_lower, to_upper = self.node("Sub", inside, lower), self.node("Sub", upper, inside)
            code = self.node("Div", self.node("Sub", from_lower, to_upper), self.constant(column.upper - column.lower))
        else:
            origin, scale = map(self.constant, column.coding)
            scaled = self.node("Div", self.node("Sub", inside, origin), scale)
            code = self.node("Clip", scaled, self.constant(-1.0), self.constant(1.0))
        is_finite = self.node("Equal", self.node("Sub", column.name, column.name), self.constant(0.0))
        code = self.node("Where", is_finite, code, self.constant(default_code(column)))
        return self.node("Mul", code, self.constant(weight))

    def category(self, column: CategoryColumn, weight: NDArray[np.float64]) -> str:
        """Add the term of a category column: the coefficient of its value."""
        codes = {name: code for code, name in enumerate(column.categories)}
        default = len(codes) if column.default is None else codes[column.default]
        lookup: dict[str, Any] = {
            "keys_strings": list(codes),
            "values_int64s": list(codes.values()),
            "default_int64": default,
        }
        code = self.node("LabelEncoder", column.name, domain="ai.onnx.ml", **lookup)
        flat = self.node("Reshape", code, self.constant(np.array([-1])))
        return self.node("Gather", self.constant(weight.T.copy()), flat, axis=0)

    def link(self, model: Model, margin: str) -> str:
        """Add the link, from the margin to the output `prediction`."""
        from onnx import TensorProto

        flat, output = self.constant(np.array([-1])), "prediction"
        match model.link:
            case "softmax":
                return self.node("Softmax", margin, axis=1, output=output)
            case "logistic":
                return self.node("Reshape", self.node("Sigmoid", margin), flat, output=output)
            case "identity":
                target = number_target(model.target)
                middle, half = map(self.constant, target.middle_and_half)
                value = self.node("Add", self.node("Mul", margin, half), middle)
                clipped = self.node("Clip", value, self.constant(target.lower), self.constant(target.upper))
                return self.node("Reshape", clipped, flat, output=output)
            case "sign":
                is_positive = self.node("Greater", margin, self.constant(0.0))
                index = self.node("Reshape", self.node("Cast", is_positive, to=TensorProto.INT64), flat)
                return self.node("Gather", self.constant(np.array(model.classes, dtype=object)), index, output=output)
