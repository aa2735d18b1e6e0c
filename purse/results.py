"""Released statistics and evaluations, forecasts and budgets as a client returns them: with frames, HTML and plots."""

import io
from itertools import pairwise
from typing import Any, Final

from purse import table1
from purse.extras import needing
from purse.layouts import tables
from purse.plots import band, bars
from purse.tables import Table, Tabular
from purse.wire.budgets import BudgetStatus
from purse.wire.columns import CategoryColumn
from purse.wire.evaluations import ManyClasses, Measured, ReleasedEvaluation, Residuals, TwoClasses
from purse.wire.files import PLAIN, Dialect
from purse.wire.forecasts import AccuracyForecast
from purse.wire.profiles import Interval
from purse.wire.statistics import (
    Axis,
    CountsResult,
    CovarianceResult,
    MeansResult,
    QuantilesResult,
    ReleasedStatistic,
    Table1Result,
)

MAX_BARS: Final = 40


class Statistic(Tabular, ReleasedStatistic):
    """A released statistic; `result` has its numbers."""

    def tables(self) -> list[Table]:
        """Return the tables in which the statistic is shown to people."""
        return list(tables(self))

    def plot(self, axes: Any | None = None) -> Any:
        """Draw the values as bars with their intervals, the first MAX_BARS of them; NotInstalled without `plot`."""
        table = self._as_table()
        position = {heading: index for index, heading in enumerate(table.headings)}
        value = position.get("value", position.get("count", position.get("correlation", 0)))
        rows = table.rows[:MAX_BARS]
        names = [", ".join(str(cell) for cell in row[:value] if cell is not None) for row in rows]
        values: list[Any] = [row[value] for row in rows]
        if "low" in position:
            ends: list[list[Any]] = [[row[position[end]] for row in rows] for end in ("low", "high")]
        else:
            within = self.result.within if isinstance(self.result, CountsResult) else 0.0
            ends = [[each - within for each in values], [each + within for each in values]]
        return bars(axes, names, values, table.headings[value], ends)

    def _as_table(self) -> Table:
        match self.result:
            case CountsResult() as counts:
                headings = [*(axis.column.name for axis in counts.axes), "count"]
                return Table(headings, [(*cell, n) for cell, n in zip(_cells(counts.axes), counts.counts, strict=True)])
            case MeansResult() as means:
                rows: list[tuple[object, ...]] = [(each.column, None, *_ends(each.mean)) for each in means.numbers]
                for each in means.categories:
                    names = [*each.column.categories, "(other)"]
                    shares = zip(names, each.shares, strict=True)
                    rows += [(each.column.name, name, *_ends(share)) for name, share in shares]
                return Table(("column", "category", "value", "low", "high"), rows)
            case QuantilesResult() as quantiles:
                points = [
                    (each.column, point.share, *_ends(point.at))
                    for each in quantiles.columns
                    for point in each.quantiles
                ]
                return Table(("column", "share", "value", "low", "high"), points)
            case CovarianceResult() as found:
                return _pairs(found)
            case Table1Result() as groups:
                return table1.flat(groups)


class Evaluation(Tabular, ReleasedEvaluation):
    """A released evaluation; `result` has its numbers."""

    def tables(self) -> list[Table]:
        """Return the tables in which the evaluation is shown to people, such as its ROC curve."""
        return list(tables(self))

    def r2(self, target_std: float) -> Measured:
        """Return R^2 = 1 - mean squared error / target_std^2 of a model of a number, with the ends of its intervals.

        An evaluation releases residuals and not the spread of the target. Take that from a released profile, such as
        `profile.columns[i].std.value`; its own noise is not part of the intervals.

        Parameters
        ----------
        target_std : standard deviation of the target, in its unit

        Raises
        ------
        ValueError
            if the model predicts classes, or the standard deviation is not positive.
        """
        if not isinstance(self.result, Residuals):
            raise ValueError("R^2 is for a model of a number; this one predicts classes. Use result.accuracy")
        if not target_std > 0:
            raise ValueError("target_std must be positive. Take it from a profile, columns[i].std.value")
        error, variance = self.result.mean_squared_error, target_std**2
        return Measured(
            value=1 - error.value / variance,
            low=1 - error.high / variance,
            high=1 - error.low / variance,
            noise_low=1 - error.noise_high / variance,
            noise_high=1 - error.noise_low / variance,
        )

    def plot(self, axes: Any | None = None) -> Any:
        """Draw the ROC curve of two classes, or the measures as bars; NotInstalled without the extra `plot`."""
        if isinstance(self.result, TwoClasses):
            from purse.plots import axes_of

            axes = axes_of(axes)
            points = [
                (each.false_positive_rate.value, each.true_positive_rate.value) for each in self.result.thresholds
            ]
            x, y = zip((1.0, 1.0), *points, (0.0, 0.0), strict=True)
            axes.plot(x, y, marker=".", label=f"AUC {self.result.auc.value:.3g}")
            axes.set_xlabel("false positive rate")
            axes.set_ylabel("true positive rate")
            axes.legend()
            return axes
        measures = self._measures()
        values = [each.value for each in measures.values()]
        ends = [[each.low for each in measures.values()], [each.high for each in measures.values()]]
        return bars(axes, list(measures), values, "value", ends)

    def _measures(self) -> dict[str, Measured]:
        match self.result:
            case TwoClasses() as two:
                log_loss = {} if two.log_loss is None else {"log_loss": two.log_loss}
                return {"accuracy": two.accuracy, "auc": two.auc, **log_loss}
            case ManyClasses() as many:
                recalls = zip(many.classes, many.recall, strict=True)
                return {"accuracy": many.accuracy, **{f"recall of {name}": recall for name, recall in recalls}}
            case Residuals() as residuals:
                return {
                    "mean_squared_error": residuals.mean_squared_error,
                    "mean_absolute_error": residuals.mean_absolute_error,
                }

    def _as_table(self) -> Table:
        fields = ("value", "low", "high", "noise_low", "noise_high")
        rows = [(name, *(getattr(each, field) for field in fields)) for name, each in self._measures().items()]
        return Table(("measure", *fields), rows)


class Forecast(Tabular, AccuracyForecast):
    """A forecast; `at` has the expected scores."""

    def __repr__(self) -> str:
        scores = ", ".join(f"{each.score.median:.3g} at epsilon {each.epsilon:g}" for each in self.at)
        return f"<forecast of {self.measure} for {self.target}: {scores}>"

    def plot(self, axes: Any | None = None) -> Any:
        """Draw the expected score against epsilon; NotInstalled without the extra `plot`."""
        scores = [each.score for each in self.at]
        ends = [[each.low for each in scores], [each.high for each in scores]]
        axes = band(axes, [each.epsilon for each in self.at], [each.median for each in scores], ends)
        axes.axhline(self.constant, linestyle=":", label="best constant answer")
        axes.axhline(self.optimum, linestyle="--", label="best model without noise")
        axes.set_xlabel("epsilon")
        axes.set_ylabel(self.measure)
        axes.legend()
        return axes

    def _as_table(self) -> Table:
        rows = [(each.epsilon, each.method, each.score.median, each.score.low, each.score.high) for each in self.at]
        return Table(("epsilon", "method", self.measure, "low", "high"), rows)


class BudgetReport(Tabular, BudgetStatus):
    """A dataset's budget: what is spent, by analyst, and what remains."""

    def plot(self, axes: Any | None = None) -> Any:
        """Draw the share of the budget by analyst, and what remains; NotInstalled without the extra `plot`."""
        names = [*(each.analyst for each in self.analysts), "remaining"]
        return bars(axes, names, [*(each.share for each in self.analysts), 1.0 - self.share], "share of the budget")

    def _as_table(self) -> Table:
        rows = [(each.analyst, each.jobs, each.share, each.spent.epsilon, each.spent.delta) for each in self.analysts]
        return Table(("analyst", "jobs", "share", "epsilon", "delta"), rows)


class Twin(bytes):
    """A CSV file of a dataset's public twin, as bytes."""

    def __repr__(self) -> str:
        return f"<twin: CSV of {len(self)} bytes; see .to_frame()>"

    def to_frame(self, dialect: Dialect = PLAIN) -> Any:
        """Return the rows as a DataFrame of pandas.

        Parameters
        ----------
        dialect : of the dataset's declaration, if it has one

        Raises
        ------
        NotInstalled
            if pandas is not installed.
        """
        with needing("to_frame"):
            from pandas import read_csv  # type: ignore[import-untyped]
        quoting = {"quotechar": dialect.quote} if dialect.quote else {"quoting": 3}
        return read_csv(
            io.BytesIO(self),
            sep=dialect.delimiter,
            encoding=dialect.encoding,
            decimal=dialect.decimal,
            thousands=dialect.thousands,
            na_values=dialect.nulls,
            **quoting,
        )


def _ends(interval: Interval) -> tuple[float, float, float]:
    return interval.value, interval.low, interval.high


def _cells(axes: list[Axis]) -> list[tuple[object, ...]]:
    """Return the label of every cell of a table of counts, with the last axis varying fastest."""
    cells: list[tuple[object, ...]] = [()]
    for axis in axes:
        if isinstance(axis.column, CategoryColumn):
            labels = [*axis.column.categories, "(other)"]
        else:
            edges = axis.edges or []
            labels = [f"{low:g} to {high:g}" for low, high in pairwise(edges)]
        cells = [(*cell, label) for cell in cells for label in labels]
    return cells


def _pairs(result: CovarianceResult) -> Table:
    """Return one row for each pair of columns."""
    rows = [
        (first, second, result.covariance[i][j], result.noise_std[i][j], *_ends(result.correlation[i][j]))
        for i, first in enumerate(result.columns)
        for j, second in enumerate(result.columns[: i + 1])
    ]
    return Table(("first", "second", "covariance", "noise_std", "correlation", "low", "high"), rows)
