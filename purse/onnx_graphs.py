"""Graphs of ONNX in the making: encoded values of columns and terms, their products with coefficients, and the link."""

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from purse.coding import default_code
from purse.number_functions import Function, spline_knots
from purse.prediction import model_features, number_target, weights_of
from purse.terms import Feature, Parts
from purse.wire.columns import CategoryColumn, NumberColumn
from purse.wire.models import Model


@dataclass(frozen=True, slots=True)
class Graph:
    """The nodes and constants of an ONNX graph in the making; every method returns the name of its output."""

    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def constant(self, value: Any) -> str:
        """Add a constant."""
        self.constants.append(numpy_helper.from_array(np.asarray(value), f"constant_{len(self.constants)}"))
        return str(self.constants[-1].name)

    def node(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add an operation."""
        name = output or f"value_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def product(self, feature: Feature, weights: NDArray[np.float64]) -> str:
        """Add the product of a feature's encoded values with its coefficients, (margins, width of the feature)."""
        if isinstance(feature.column, CategoryColumn):
            flat = self.node("Reshape", self._category(feature), self.constant(np.array([-1])))
            return self.node("Gather", self.constant(weights.T.copy()), flat, axis=0)
        return self.node("Mul", self._number(feature), self.constant(weights.T))

    def _category(self, feature: Feature) -> str:
        """Add the code of a category feature, an integer."""
        column, parts = feature.column, feature.parts
        if parts is None:
            assert isinstance(column, CategoryColumn)
            return self._declared_category(column)
        return self._looked_up(parts, parts.table().astype(np.int64))

    def _number(self, feature: Feature) -> str:
        """Add the code of a number feature."""
        column, parts = feature.column, feature.parts
        assert isinstance(column, NumberColumn)
        if parts is None:
            return self._declared_number(column)
        value = self.constant(1.0)
        for function in parts.functions:
            value = self.node("Mul", value, self._function(function))
        if parts.categories:
            value = self.node("Mul", value, self._looked_up(parts, parts.table()))
        return self._code(column, value)

    def _looked_up(self, parts: Parts, table: NDArray[Any]) -> str:
        """Add the entry of a table for the categories of a row."""
        flat = self.constant(np.array([[0]]))
        for column in parts.categories:
            shifted = self.node("Mul", flat, self.constant(np.array(column.code_count)))
            flat = self.node("Add", shifted, self._declared_category(column))
        return self.node("Gather", self.constant(table), flat, axis=0)

    def _function(self, function: Function) -> str:
        """Add a power or a B-spline of a number column."""
        column, factor = function.column, function.factor
        middle, half = map(self.constant, column.middle_and_half)
        x = self.node("Add", middle, self.node("Mul", half, self._declared_number(column)))
        x = self.node("Clip", x, *map(self.constant, column.ends))
        if function.index is not None:
            return self._spline(x, function, function.index)
        centered = self.node("Sub", x, self.constant(factor.center))
        base = self.node("Div", centered, self.constant(factor.scale))
        power = base
        for _ in range(factor.power - 1):
            power = self.node("Mul", power, base)
        return power

    def _spline(self, x: str, function: Function, index: int) -> str:
        """Add a B-spline by the recursion of `purse.number_functions`."""
        degree, (low, high) = function.factor.degree, function.column.ends
        knots = spline_knots(function.column, function.factor)
        share = self.node("Div", self.node("Sub", x, self.constant(low)), self.constant(high - low))
        piece = self.constant(float(degree))
        for knot in knots[degree + 1 : -degree - 1].tolist():
            piece = self.node("Add", piece, self._as_number(self.node("GreaterOrEqual", share, self.constant(knot))))
        own = range(index, index + degree + 1)
        splines = [self._as_number(self.node("Equal", piece, self.constant(float(each)))) for each in own]
        for order in range(1, degree + 1):
            splines = [
                self.node(
                    "Add",
                    self.node("Mul", self._ramp(share, knots[i], knots[i + order]), left),
                    self.node("Mul", self._fall(share, knots[i + 1], knots[i + order + 1]), right),
                )
                for i, (left, right) in enumerate(pairwise(splines), start=index)
            ]
        return splines[0]

    def _ramp(self, x: str, start: float, end: float) -> str:
        """Add (x - start) / (end - start), or 0 if both ends are equal."""
        if end <= start:
            return self.constant(0.0)
        return self.node("Div", self.node("Sub", x, self.constant(start)), self.constant(end - start))

    def _fall(self, x: str, start: float, end: float) -> str:
        """Add 1 minus the ramp."""
        return self.node("Sub", self.constant(1.0), self._ramp(x, start, end))

    def _as_number(self, condition: str) -> str:
        return self.node("Cast", condition, to=TensorProto.DOUBLE)

    def _declared_number(self, column: NumberColumn) -> str:
        """Add the code of a declared number column; values that are not finite become the default."""
        code = self._code(column, column.name)
        is_finite = self.node("Equal", self.node("Sub", column.name, column.name), self.constant(0.0))
        return self.node("Where", is_finite, code, self.constant(default_code(column)))

    def _code(self, column: NumberColumn, value: str) -> str:
        """Add the code of a number: clamp and scale."""
        lower = self.constant(column.lower)
        upper = self.constant(column.upper)
        inside = self.node("Clip", value, lower, upper)
        if column.coding is None:
            from_lower = self.node("Sub", inside, lower)
            to_upper = self.node("Sub", upper, inside)
            return self.node("Div", self.node("Sub", from_lower, to_upper), self.constant(column.upper - column.lower))
        origin, scale = map(self.constant, column.coding)
        scaled = self.node("Div", self.node("Sub", inside, origin), scale)
        return self.node("Clip", scaled, self.constant(-1.0), self.constant(1.0))

    def _declared_category(self, column: CategoryColumn) -> str:
        """Add the code of a declared category column, an integer."""
        lookup: dict[str, Any] = {
            "keys_strings": column.categories,
            "values_int64s": list(range(len(column.categories))),
            "default_int64": column.default_code,
        }
        return self.node("LabelEncoder", column.name, domain="ai.onnx.ml", **lookup)

    def link(self, model: Model, margin: str) -> str:
        """Add the link, from the margin to the output `prediction`."""
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
            case "log":
                limited = self.node("Min", margin, self.constant(math.log(number_target(model.target).upper)))
                return self.node("Reshape", self.node("Exp", limited), flat, output=output)
            case "sign":
                is_positive = self.node("Greater", margin, self.constant(0.0))
                index = self.node("Reshape", self.node("Cast", is_positive, to=TensorProto.INT64), flat)
                return self.node("Gather", self.constant(np.array(model.classes, dtype=object)), index, output=output)


def to_onnx(model: Model) -> bytes:
    """Return the model as an ONNX graph in double precision, with one input for each column."""
    if not model.features:
        raise ValueError("The model has no feature columns, and an ONNX graph needs at least one input. Use `predict`.")
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
