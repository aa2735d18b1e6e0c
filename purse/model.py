"""A released model in the hands of whoever has it."""

from typing import TYPE_CHECKING, Any

from purse import text
from purse.wire import models
from purse.wire.columns import Column, NumberColumn
from purse.wire.files import PLAIN, Dialect

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from purse.frames import Rows


class Model(models.Model):
    """margin = intercept + sum over features of coefficient * encoded value; see the fields, which are its JSON."""

    def __repr__(self) -> str:
        said = self.privacy
        promise = f"epsilon {said.epsilon:.6g} at delta {said.delta:.3g}"
        return f"<model of {self.target.name} by {len(self.features)} columns, {promise}>"

    def __str__(self) -> str:
        return self.summary()

    @property
    def named(self) -> dict[str, float] | dict[str, dict[str, float]]:
        """Each coefficient by what it multiplies, "sex = f" say, and the intercept; for link softmax so in each class.

        They are of encoded values: how a column's values are encoded is its declaration in `features`.
        """
        names = [*(name for column in self.features for name in inputs(column)), "intercept"]
        margins = _by_margin(self.coefficients, self.intercept)
        told = [dict(zip(names, weights, strict=True)) for weights in margins]
        return dict(zip(self.classes or (), told, strict=True)) if self.link == "softmax" else told[0]

    def summary(self) -> str:
        """What it predicts, what it promises, and its coefficients, as a table for people."""
        heads = self.classes if self.link == "softmax" and self.classes else ["coefficient"]
        of_one = f", P({self.classes[1]})" if self.classes and self.link == "logistic" else ""
        said = self.privacy
        facts = [
            ("model", f"{self.loss} loss, link {self.link}{of_one}"),
            ("predicts", self.target.name),
            ("privacy", text.loss(said.epsilon, said.delta)),
            ("neighbors", said.neighbors),
        ]
        if self.tuning is not None:
            best = self.tuning
            score = f"noisy score {best.score:.4g} on the training rows"
            facts.append(("best of", f"{best.runs} runs, of candidate {best.candidate}, {score}"))
        names = [*(name for column in self.features for name in inputs(column)), "intercept"]
        columns, note = _by_margin(self.coefficients, self.intercept), ""
        if self.intervals is not None:
            wide = _by_margin(self.intervals.half_widths, self.intervals.intercept)
            columns = [column for pair in zip(columns, wide, strict=True) for column in pair]
            heads = [head for name in heads for head in (name, "+-")]
            note = text.paragraph(f"+- at {self.intervals.level:g}: {self.intervals.statement}")
        rows = list(zip(names, *columns, strict=True))
        return text.facts(facts) + text.table(("input", *heads), rows) + note

    def predict(self, rows: "Rows", dialect: Dialect = PLAIN) -> "NDArray[Any]":
        """See `purse.predict`."""
        from purse.prediction import predict  # late: NumPy

        return predict(self, rows, dialect)

    def to_sklearn(self) -> Any:
        """A fitted pipeline of scikit-learn that predicts the same from a frame, `predict_proba` where it is one.

        Raises
        ------
        NotInstalled
            without `privy-purse[sklearn]`.
        """
        from purse.exports import to_sklearn

        return to_sklearn(self)

    def to_onnx(self) -> bytes:
        """An ONNX model with an input (n, 1) for each column and one output, `prediction`, as `predict` gives it.

        Categories must be exactly as declared there, no space around them; a number that is missing is NaN.

        Raises
        ------
        NotInstalled
            without `privy-purse[onnx]`.
        """
        from purse.exports import to_onnx

        return to_onnx(self)


def _by_margin(weights: Any, intercept: float | list[float]) -> list[list[float]]:
    """What there is of each margin's coefficients, of its intercept last."""
    of_each = [(weights, intercept)] if isinstance(intercept, float) else zip(weights, intercept, strict=True)
    return [[*own, last] for own, last in of_each]


def inputs(column: Column) -> list[str]:
    """What each encoded value of a column stands for."""
    if isinstance(column, NumberColumn):
        return [column.name]
    return [f"{column.name} = {category}" for category in [*column.categories, "(other)"]]
