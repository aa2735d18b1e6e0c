"""A released model: its coefficients by name, a summary, predictions, and exports."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from purse import text
from purse.extras import needing
from purse.plots import bars
from purse.tables import Cell, Estimate, Table, Tabular
from purse.wire import models
from purse.wire.columns import CategoryColumn, NumberColumn
from purse.wire.files import PLAIN, Dialect
from purse.wire.models import coefficient_terms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from purse.frames import Rows
    from purse.regression import Contrast, Regression

MAX_SHOWN: Final = 10
MAX_COMPLETE: Final = 20  # a model with more coefficients shows the MAX_SHOWN largest
INTERCEPT: Final = "intercept"
COEFFICIENT_HEADING: Final = "input"


class Coefficients(dict[str, float]):
    """Coefficients of one margin by term: a column, or "column = category"; the intercept comes last."""

    def largest(self, count: int = MAX_SHOWN) -> "Coefficients":
        """Return the `count` coefficients that are largest in absolute value and the intercept; all if they are few."""
        return Coefficients({term: self[term] for term in largest([self], count)})

    def __repr__(self) -> str:
        terms = self.largest()
        parts = [f"{term!r}: {value:.6g}" for term, value in terms.items()]
        if len(self) > len(terms):
            parts.append(f"... and {len(self) - len(terms):,} more")
        return f"{{{', '.join(parts)}}}"


class Model(Tabular, models.Model):
    """A linear model. Its margin is the intercept plus the sum over features of coefficient * encoded value."""

    def __repr__(self) -> str:
        privacy = text.loss(self.privacy.epsilon, self.privacy.delta)
        return f"<model of {self.target.name} by {len(self.features)} columns, {privacy}>"

    def __str__(self) -> str:
        return self.summary()

    @property
    def named(self) -> Coefficients | dict[str, Coefficients]:
        """The coefficients of encoded values by term, such as "sex = f", and the intercept; by class for link softmax.

        A number is encoded in [-1, 1] by its bounds or its scale, a category as 0 or 1. `coefficients_in_units` has the
        coefficients of values as the file holds them.
        """
        return self._by_class(self._margins())

    @property
    def coefficients_in_units(self) -> Coefficients | dict[str, Coefficients]:
        """The coefficients per unit of each number column, as the file holds it, laid out as `named`.

        The margin for values inside their declared ranges is the intercept plus the sum of coefficient * value, with
        1 or 0 for a category. For link identity this sum is the target in its own unit.
        """
        return self._by_class([self._in_units(margin) for margin in self._margins()])

    @property
    def unsupported_categories(self) -> dict[str, list[str]]:
        """The categories by column whose released share is below its noise, "(other)" included.

        The released numbers cannot tell these categories from categories without training rows, so their coefficients
        are 0. Empty if the model holds no released shares.
        """
        flags = iter(self.unsupported)
        result = dict[str, list[str]]()
        for column in self.features:
            own = [next(flags) for _ in range(column.code_count)]
            if isinstance(column, CategoryColumn) and any(own):
                names = zip(column.levels, own, strict=True)
                result[column.name] = [name for name, is_unsupported in names if is_unsupported]
        return result

    @property
    def regression(self) -> "Regression":
        """The regression table of a model that was trained with `inference`. Other models raise a ValueError."""
        from purse.regression import Regression  # late: NumPy

        return Regression.of(self)

    def contrast(self, weights: Mapping[str, float]) -> "Contrast":
        """Return an estimated linear combination of coefficients: see `Regression.contrast`."""
        return self.regression.contrast(weights)

    def summary(self, terms: int = MAX_SHOWN) -> str:
        """Return the facts of the model and its largest coefficients as text, or its regression table.

        Parameters
        ----------
        terms : number of coefficients to show, beside the intercept; `named` has all of them
        """
        if self.table is not None:
            return self.regression.summary()
        margins = self._margins()
        shown_terms = {*largest(margins, terms), INTERCEPT}
        hidden_count = len(margins[0]) - len(shown_terms)
        parts = [text.facts(self._facts())]
        for table in self.tables():
            rows = [row for row in table.rows if row[0] in shown_terms] or table.rows
            parts.append(replace(table, rows=rows).to_text())
        hidden = f"... and {hidden_count:,} more coefficients, which the model's JSON contains\n"
        return "\n".join(parts) + (hidden if hidden_count else "")

    def plot(self, axes: Any | None = None, terms: int = MAX_SHOWN) -> Any:
        """Draw the largest coefficients of encoded values as bars; for link softmax those of the first class.

        A model with a regression table draws its forest plot.

        Parameters
        ----------
        axes : axes of Matplotlib; new ones if None

        Raises
        ------
        NotInstalled
            without the extra `plot`.
        """
        if self.table is not None:
            return self.regression.plot(axes)
        margin = self._margins()[0]
        largest_terms = margin.largest(terms)
        name = f" for class {self.classes[0]}" if self.link == "softmax" and self.classes else ""
        return bars(axes, list(largest_terms), list(largest_terms.values()), f"coefficient of the encoded value{name}")

    def predict(self, rows: "Rows", dialect: Dialect = PLAIN, *, interval: bool = False) -> "NDArray[Any]":
        """Return the predictions for rows: see `purse.predict`.

        Parameters
        ----------
        interval : return (n, 3) instead: the mean of the target and the ends of its interval, by the regression table;
            NaN if a row needs a coefficient that is not resolved

        Raises
        ------
        ValueError
            as `purse.predict`, or with `interval` if the model has no regression table.
        """
        import numpy as np  # late: only predictions need it

        from purse.prediction import design, of_margins, predict

        if not interval:
            return predict(self, rows, dialect)
        ends = self.regression.margins(self.features, design(self, rows, dialect))
        if self.link == "identity":
            return ends
        with np.errstate(invalid="ignore"):  # NaN stays NaN
            return of_margins(self, ends.reshape(-1, 1)).reshape(ends.shape)

    def to_sklearn(self) -> Any:
        """Return a fitted pipeline of scikit-learn that predicts the same from a frame.

        It has `predict_proba` for the links logistic and softmax.

        Raises
        ------
        NotInstalled
            without `privy-purse[sklearn]`.
        """
        with needing("to_sklearn"):
            from purse.exports import to_sklearn  # late: an extra
        return to_sklearn(self)

    def to_onnx(self) -> bytes:
        """Return an ONNX model with an input (n, 1) for each column and the output `prediction`, as in `predict`.

        Categories must be written exactly as declared, without spaces around them. A missing number is NaN. The graph
        cannot warn of `unsupported_categories`; their coefficients are 0 there too.

        Raises
        ------
        NotInstalled
            without `privy-purse[onnx]`.
        """
        with needing("to_onnx"):
            from purse.onnx_graphs import to_onnx  # late: an extra
        return to_onnx(self)

    def lay_out(self) -> list[Table]:
        """Return the regression table, or the coefficients of each margin, and the score of a tuning."""
        if self.table is not None:
            return self.regression.tables()
        margins = self._margins()
        half_widths: Iterable[dict[str, float]] = [{}] * len(margins)
        if self.intervals is not None:
            half_widths = self._laid_out(self.intervals.half_widths, self.intervals.intercept)
        captions = ["Coefficients"]
        if self.link == "softmax":
            captions = [f"Coefficients of class {name}" for name in self.classes or ()]
        tables = list(map(self._coefficients, captions, margins, half_widths))
        tables[1:] = [replace(table, note="") for table in tables[1:]]
        if (best := self.tuning) is not None:
            row = (f"candidate {best.candidate + 1}", best.score, best.noise_std)
            tables.append(Table(("chosen", "score", "std of its noise"), [row], f"The best of {best.runs} runs"))
        return tables

    def _coefficients(self, caption: str, margin: Coefficients, half_widths: Mapping[str, float]) -> Table:
        """Return the coefficients of encoded values, perhaps with intervals, and those in the file's units."""
        in_units = self._in_units(margin)
        name = self.target.name
        effects = {"identity": f"{name}, in its unit,", "log": f"the log of {name}", "logistic": "the log-odds"}
        effect = effects.get(self.link, "the score")
        note = (
            "The bars and the first number compare the columns: numbers are encoded in [-1, 1] by their declared "
            f"range. The last number is the change of {effect} for one unit of the column in the file."
        )
        if self.intervals is not None:
            note += f" Intervals at confidence {self.intervals.level:g}: {self.intervals.statement}"
        rows: list[tuple[Cell, ...]] = []
        for term, value in margin.items():
            half = half_widths.get(term)
            encoded = value if half is None else Estimate(value, value - half, value + half)
            rows.append((term, encoded, in_units[term]))
        return Table((COEFFICIENT_HEADING, "encoded", "per unit of the file"), rows, caption, note, "bars")

    def _margins(self) -> list[Coefficients]:
        """Return the coefficients of encoded values of each margin."""
        return [Coefficients(margin) for margin in self._laid_out(self.coefficients, self.intercept)]

    def _laid_out(self, values: Any, intercepts: float | list[float]) -> Iterator[dict[str, float]]:
        """Yield values that are laid out as `coefficients`, by term, for each margin."""
        terms = [*(term for column in self.features for term in coefficient_terms(column)), INTERCEPT]
        pairs = [(values, intercepts)] if isinstance(intercepts, float) else zip(values, intercepts, strict=True)
        for margin, intercept in pairs:
            yield dict(zip(terms, [*margin, intercept], strict=True))

    def _by_class(self, margins: list[Coefficients]) -> Coefficients | dict[str, Coefficients]:
        return dict(zip(self.classes or (), margins, strict=True)) if self.link == "softmax" else margins[0]

    def _in_units(self, margin: Coefficients) -> Coefficients:
        """Return the coefficients of values in units instead of encoded values."""
        middle, half = (0.0, 1.0)
        if self.link == "identity" and isinstance(self.target, NumberColumn):
            middle, half = self.target.middle_and_half
        scaled = Coefficients({term: half * value for term, value in margin.items()})
        scaled[INTERCEPT] += middle
        for column in self.features:
            if isinstance(column, NumberColumn):
                center, scale = column.middle_and_half
                scaled[column.name] /= scale
                scaled[INTERCEPT] -= scaled[column.name] * center
        return scaled

    def _facts(self) -> list[tuple[str, object]]:
        positive = f", P({self.classes[1]})" if self.classes and self.link == "logistic" else ""
        privacy = self.privacy
        facts: list[tuple[str, object]] = [
            ("model", f"{self.loss} loss, link {self.link}{positive}"),
            ("predicts", self.target.name),
            ("privacy", text.loss(privacy.epsilon, privacy.delta)),
            ("neighbors", privacy.neighbors),
        ]
        if unsupported := self.unsupported_categories:
            count = sum(map(len, unsupported.values()))
            noun = "category" if count == 1 else "categories"
            reason = "released share below its noise, coefficient 0"
            facts.append(("unsupported", f"{count} {noun} in {', '.join(unsupported)}: {reason}"))
        return facts


def largest(margins: Sequence[Coefficients], count: int) -> list[str]:
    """Return the terms to show, in the model's order, the intercept last.

    These are the `count` terms with the largest coefficient in any margin, or all if there are at most MAX_COMPLETE.
    """
    if len(margins[0]) <= MAX_COMPLETE:
        return list(margins[0])
    size = {term: max(abs(margin[term]) for margin in margins) for term in margins[0] if term != INTERCEPT}
    chosen = set(sorted(size, key=lambda term: -size[term])[:count])
    return [term for term in margins[0] if term in chosen or term == INTERCEPT]
