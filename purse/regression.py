"""The regression table of a model: estimates, standard errors and intervals, for papers and for statsmodels' users."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from purse import latex, text
from purse.extras import needing
from purse.plots import bars, intervals_svg
from purse.tables import Cell, Estimate, PValue, Table, Tabular
from purse.wire.columns import Column, NumberColumn
from purse.wire.inference import INTERCEPT, Inference, TableRow
from purse.wire.models import Link, Model, coefficient_terms

_HEADINGS = ("term", "estimate", "std error", "p", "relative to")
_FAMILIES: dict[Link, str] = {"logistic": "logistic", "identity": "linear", "log": "Poisson, with log link"}
_RATIOS = {"logistic": "odds ratio", "log": "rate ratio"}


@dataclass(frozen=True, slots=True)
class Contrast:
    """An estimated linear combination of coefficients."""

    estimate: float
    std_error: float
    lower: float
    upper: float
    p_value: float


class Regression(Tabular):
    """The regression table of a model; names follow the results of statsmodels.

    Values are by term and contain only resolved terms: the noise hides the others
    (`unresolved`). Everything here is computed from released numbers, and costs nothing.

    Parameters
    ----------
    rows : all coefficients
    covariance : of the resolved rows
    facts : the quantities to which the table refers
    heading : facts that the summary shows first, by name
    link : of the model: estimates are changes of log-odds (logistic), of the mean (identity), or of the log of the mean
        count (log)
    """

    def __init__(
        self,
        rows: Sequence[TableRow],
        covariance: Sequence[Sequence[float]],
        facts: Inference,
        heading: Mapping[str, str],
        link: Link,
    ) -> None:
        self.rows = tuple(rows)
        self._facts = facts
        self._heading = dict(heading)
        self._link = link
        self._resolved = [row for row in self.rows if row.resolved]
        self._covariance = np.array(covariance, dtype=float).reshape(len(self._resolved), len(self._resolved))

    @classmethod
    def of(cls, model: Model) -> "Regression":
        """Return the table of a model that was trained with `inference`; a ValueError if it has none."""
        if model.table is None or model.covariance is None or model.inference is None:
            raise ValueError("the model has no regression table: request the job with inference=True")
        privacy = model.privacy
        records = f"{privacy.persons:,} persons" if privacy.persons else f"{privacy.rows:,} rows"
        heading = {
            "target": f"{model.target.name}, {records}",
            "privacy": f"{text.loss(privacy.epsilon, privacy.delta)}, {privacy.neighbors}",
        }
        return cls(model.table, model.covariance, model.inference, heading, model.link)

    @property
    def params(self) -> dict[str, float]:
        """Estimates."""
        return self._values("estimate")

    @property
    def bse(self) -> dict[str, float]:
        """Standard errors, with sampling error and privacy noise."""
        return self._values("std_error")

    @property
    def pvalues(self) -> dict[str, float]:
        """Two-sided p-values."""
        return self._values("p_value")

    @property
    def unresolved(self) -> dict[str, str]:
        """The terms without an estimate, and the reason of each."""
        return {row.term: row.reason or "" for row in self.rows if not row.resolved}

    @property
    def ratios(self) -> dict[str, float]:
        """Odds ratios of a logistic model, or rate ratios of a Poisson model: e to the power of each estimate.

        The intercept is left out.

        Raises
        ------
        ValueError
            if the model is linear.
        """
        self._check_ratios()
        return {term: math.exp(value) for term, value in self.params.items() if term != INTERCEPT}

    def conf_int(self, alpha: float | None = None) -> dict[str, tuple[float, float]]:
        """Return the ends of each interval.

        Parameters
        ----------
        alpha : 1 - confidence; by default that of the table, which needs no further package

        Raises
        ------
        ValueError
            if alpha is not between 0 and 1.
        NotInstalled
            at another confidence, without `privy-purse[solvers]`.
        """
        if alpha is None or math.isclose(alpha, 1 - self._facts.level):
            ends = self._values("lower"), self._values("upper")
            return {term: (lower, ends[1][term]) for term, lower in ends[0].items()}
        if not 0.0 < alpha < 1.0:
            raise ValueError("alpha must be between 0 and 1, because it is 1 - confidence. Pass 0.05 for 95 %")
        intervals = {}
        for row in self._resolved:
            estimate, error, degrees = _numbers(row)
            half = _quantile(1 - alpha / 2, degrees) * error
            intervals[row.term] = (estimate - half, estimate + half)
        return intervals

    def ratios_conf_int(self, alpha: float | None = None) -> dict[str, tuple[float, float]]:
        """Return the ends of the interval of each ratio; parameters and errors are those of `conf_int` and `ratios`."""
        self._check_ratios()
        ends = self.conf_int(alpha)
        return {term: (math.exp(low), math.exp(high)) for term, (low, high) in ends.items() if term != INTERCEPT}

    def _check_ratios(self) -> None:
        """Raise a ValueError unless estimates are logarithms of ratios."""
        if self._link not in _RATIOS:
            raise ValueError("ratios are for logistic and Poisson models, and this one is linear. Use `params`")

    def cov_params(self) -> NDArray[np.float64]:
        """Return the covariance of the resolved terms, in the order of `params`."""
        return self._covariance.copy()

    def contrast(self, weights: Mapping[str, float]) -> Contrast:
        """Return an estimated linear combination of coefficients, such as {"ward = south": 1, "ward = east": -1}.

        Parameters
        ----------
        weights : by term; the reference level of a category has the coefficient 0

        Raises
        ------
        ValueError
            if a term is not known or not resolved, or weights are not finite, or all are 0.
        NotInstalled
            without `privy-purse[solvers]`.
        """
        if not all(map(math.isfinite, weights.values())):
            raise ValueError("weights must be finite numbers. Correct those that are NaN or infinite")
        references = {f"{row.column} = {row.reference}" for row in self.rows if row.reference is not None}
        terms = [row.term for row in self._resolved]
        for term in weights:
            if term not in terms and term not in references:
                reason = self.unresolved.get(term, "the table has no such term")
                raise ValueError(f"{term}: {reason}")
        vector = np.array([float(weights.get(term, 0.0)) for term in terms])
        if not vector.any():
            raise ValueError("weights must name at least one term of the table, with a weight that is not 0")
        used = [row for row, weight in zip(self._resolved, vector, strict=True) if weight]
        estimate = float(vector @ list(self.params.values()))
        error = math.sqrt(float(vector @ self._covariance @ vector))
        degrees = min(_numbers(row)[2] for row in used)
        half = _quantile((1 + self._facts.level) / 2, degrees) * error
        return Contrast(estimate, error, estimate - half, estimate + half, _p_value(estimate / error, degrees))

    def margins(self, features: Sequence[Column], encoded: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the margin of each row and the ends of its interval, (n, 3); NaN if a row needs an unresolved term.

        Parameters
        ----------
        features : the columns of the model
        encoded : encoded values of the rows, as `purse.prediction.design` returns them

        Raises
        ------
        NotInstalled
            without `privy-purse[solvers]`.
        """
        weights = {INTERCEPT: np.ones(len(encoded))} | _weights(features, encoded)
        vectors = np.column_stack([weights[row.term] for row in self._resolved] or [np.zeros((len(encoded), 0))])
        hidden = np.zeros(len(encoded), dtype=bool)
        for term in self.unresolved:
            hidden |= weights[term] != 0
        half = np.sqrt(np.einsum("ij,jk,ik->i", vectors, self._covariance, vectors))
        if self._resolved:
            degrees = min(_numbers(row)[2] for row in self._resolved)
            half *= _quantile((1 + self._facts.level) / 2, degrees)
        margins = vectors @ np.array(list(self.params.values()))
        ends = np.column_stack((margins, margins - half, margins + half))
        return np.where(hidden[:, None], np.nan, ends)

    def summary(self) -> str:
        """Return the table as text, with what it refers to."""
        kind = ("regression", _FAMILIES[self._link])
        intervals = ("intervals", f"{self._facts.level:.3g}, with sampling error and privacy noise")
        facts = text.facts([kind, *self._heading.items(), intervals, *self.precision])
        return "\n".join([facts, *(table.to_text() for table in self.tables())])

    @property
    def precision(self) -> list[tuple[str, str]]:
        """The number of rows that would be as precise without privacy, and the joint test of each category column."""
        facts: list[tuple[str, str]] = []
        if self._facts.effective_rows is not None:
            rows = f"as precise as {self._facts.effective_rows:,.0f} rows without privacy"
            facts.append(("effective rows", rows))
        for test in self._facts.joint_tests:
            result = "not resolved" if test.p_value is None else PValue(test.p_value).statement
            facts.append((f"test of {test.column}", result))
        return facts

    def to_csv(self) -> str:
        """Return all rows and columns of the table as CSV."""
        out = io.StringIO()
        writer = csv.DictWriter(out, list(TableRow.model_fields), lineterminator="\n")
        writer.writeheader()
        writer.writerows(row.model_dump() for row in self.rows)
        return out.getvalue()

    def to_latex(self) -> str:
        """Return the table as a LaTeX `tabular`, with a line for each term."""
        return latex.tabular(self.rows)

    def to_html(self) -> str:
        """Return the whole table, what it refers to, and the forest plot as HTML."""
        (table,) = self.tables()
        forest = self.forest()
        plot = intervals_svg("Forest plot", forest.labels, forest.estimates)
        notes = "".join(f"<p>{escape(note)}</p>" for note in (table.note, forest.note))
        return f"{table.to_html(table.caption, len(table.rows))}{plot}{notes}"

    def plot(self, axes: Any | None = None) -> Any:
        """Draw the forest plot.

        Parameters
        ----------
        axes : axes of Matplotlib; new ones if None

        Raises
        ------
        NotInstalled
            without the extra `plot`.
        """
        forest = self.forest()
        estimates = forest.estimates
        return bars(axes, forest.labels, [each.value for each in estimates], forest.headings[1], estimates)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"<regression: {len(self._resolved)} of {len(self.rows)} terms resolved>"

    def lay_out(self) -> list[Table]:
        """Return the table. A coefficient that is not resolved has its reason instead of an estimate."""
        rows: list[tuple[Cell, ...]] = []
        for row in self.rows:
            estimate: Cell = f"not resolved: {row.reason}"
            if row.estimate is not None and row.lower is not None and row.upper is not None:
                estimate = Estimate(row.estimate, row.lower, row.upper)
            p_value = None if row.p_value is None else PValue(row.p_value)
            rows.append((row.term, estimate, row.std_error, p_value, row.reference or ""))
        note = f"The intervals hold at confidence {self._facts.level:.3g}. "
        if ratio := _RATIOS.get(self._link):
            note += f"e to the power of an estimate is the {ratio} of its term. "
        note += self._facts.parameter
        return [Table(_HEADINGS, rows, "Regression table", note)]

    def forest(self) -> Table:
        """Return the resolved coefficients but the intercept with bars and intervals, comparable between columns."""
        estimates: list[tuple[Cell, ...]] = []
        for row in self._resolved:
            if row.term == INTERCEPT or row.estimate is None or row.lower is None or row.upper is None:
                continue
            scale = row.per_std / row.estimate if row.per_std is not None and row.estimate else 1.0
            estimates.append((row.term, Estimate(scale * row.estimate, scale * row.lower, scale * row.upper)))
        note = (
            "The change for one standard deviation of a number column, by its released variance, or for a level in "
            "place of its reference. Coefficients that are not resolved and the intercept are left out."
        )
        headings = ("term", f"estimate, {self._facts.level:.3g} interval")
        return Table(headings, estimates, "Forest plot", note, "bars")

    def _values(self, field: str) -> dict[str, float]:
        return {row.term: float(getattr(row, field)) for row in self._resolved}


def _weights(features: Sequence[Column], encoded: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Return the weight of each term in each row's margin: a number in the unit of the file, or 0 or 1 for a level."""
    terms = [term for column in features for term in coefficient_terms(column)]
    weights = dict(zip(terms, encoded.T, strict=True))
    for column in features:
        if isinstance(column, NumberColumn):
            middle, half = column.middle_and_half
            weights[column.name] = middle + half * weights[column.name]
    return weights


def _numbers(row: TableRow) -> tuple[float, float, float]:
    """Return the estimate, the standard error and the degrees of freedom of a resolved row."""
    assert row.estimate is not None
    assert row.std_error is not None
    assert row.degrees_of_freedom is not None
    return row.estimate, row.std_error, row.degrees_of_freedom


def _quantile(level: float, degrees: float) -> float:
    """Return a quantile of the t distribution."""
    return float(_student_t("this confidence").ppf(level, degrees))


def _p_value(ratio: float, degrees: float) -> float:
    """Return the two-sided p-value of an estimate over its standard error."""
    return 2 * float(_student_t("a p-value").sf(abs(ratio), degrees))


def _student_t(feature: str) -> Any:
    """Return the t distribution, which the feature needs."""
    with needing(feature):
        from scipy import stats  # late: an extra
    return stats.t
