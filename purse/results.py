"""Released statistics and evaluations, forecasts and budgets as a client returns them: with frames, HTML and plots."""

import io
from collections.abc import Iterator, Sequence
from typing import Any, Final

from purse.extras import needing
from purse.plots import axes_of, bars
from purse.tables import Table, Tabular
from purse.wire.budgets import BudgetStatus
from purse.wire.evaluations import Measured, ReleasedEvaluation, Residuals, TwoClasses
from purse.wire.files import PLAIN, Dialect
from purse.wire.forecasts import AccuracyForecast, Wanted, reaching
from purse.wire.statistics import ReleasedStatistic

MAX_BARS: Final = 40


class Statistic(ReleasedStatistic):
    """A released statistic; `result` has its numbers."""

    def plot(self, axes: Any | None = None) -> Any:
        """Draw the numbers of the first table as bars with their intervals. This needs the extra `plot`."""
        return _drawn(axes, self.tables()[0])


class Evaluation(ReleasedEvaluation):
    """A released evaluation; `result` has its numbers."""

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
        """Draw the ROC curve of two classes, or the measures as bars. This needs the extra `plot`."""
        if isinstance(self.result, TwoClasses):
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
        return _drawn(axes, self.tables()[0])


class Forecast(AccuracyForecast):
    """A forecast; `at` has the expected scores."""

    @classmethod
    def joined(cls, parts: Sequence["Forecast"]) -> "Forecast":
        """Return one forecast from forecasts of the same job at other epsilons, which are in increasing order."""
        first = parts[0]
        at = [scored for part in parts for scored in part.at]
        goal = first.wanted and Wanted(score=first.wanted.score, epsilon=reaching(first.wanted.score, at))
        changes = {
            "at": at,
            "wanted": goal,
            "runs": min(part.runs for part in parts),
            "twin_records": min(part.twin_records for part in parts),
            "rests_on": list(dict.fromkeys(sentence for part in parts for sentence in part.rests_on)),
        }
        return first.model_copy(update=changes)

    def __repr__(self) -> str:
        scores = ", ".join(f"{each.score.median:.3g} at epsilon {each.epsilon:g}" for each in self.at)
        return f"<forecast of {self.measure} for {self.target}: {scores}>"

    def plot(self, axes: Any | None = None) -> Any:
        """Draw the expected score against epsilon. This needs the extra `plot`."""
        axes = axes_of(axes)
        scores = [each.score for each in self.at]
        epsilons = [each.epsilon for each in self.at]
        axes.plot(epsilons, [each.median for each in scores], marker="o", label="median")
        lows = [each.low for each in scores]
        highs = [each.high for each in scores]
        axes.fill_between(epsilons, lows, highs, alpha=0.3, label="10 % to 90 % of the runs")
        axes.set_xscale("log")
        axes.axhline(self.constant, linestyle=":", label="best constant answer")
        axes.axhline(self.optimum, linestyle="--", label="best model without noise")
        axes.set_xlabel("epsilon")
        axes.set_ylabel(self.measure)
        axes.legend()
        return axes


class BudgetReport(Tabular, BudgetStatus):
    """A dataset's budget: what is spent, by analyst, and what remains."""

    def plot(self, axes: Any | None = None) -> Any:
        """Draw the share of the budget by analyst, and what remains. This needs the extra `plot`."""
        names = [*(each.analyst for each in self.analysts), "remaining"]
        return bars(axes, names, [*(each.share for each in self.analysts), 1.0 - self.share], "share of the budget")

    def lay_out(self) -> Iterator[Table]:
        """Yield the spending of each analyst."""
        rows = [(each.analyst, each.jobs, each.share, each.spent.epsilon, each.spent.delta) for each in self.analysts]
        yield Table(("analyst", "jobs", "share", "epsilon", "delta"), rows)


class Twin(bytes):
    """A CSV file of a dataset's public twin, as bytes."""

    def __repr__(self) -> str:
        return f"<twin: CSV of {len(self):,} bytes; see .to_frame()>"

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
            from pandas import read_csv  # type: ignore[import-untyped]  # late: pandas is optional
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


def _drawn(axes: Any | None, table: Table) -> Any:
    """Draw the main numbers of a table as bars with their intervals, the first MAX_BARS of them."""
    lines = table.lines
    estimates = lines.estimates[:MAX_BARS]
    values = [each.value for each in estimates]
    return bars(axes, lines.labels[:MAX_BARS], values, table.caption, estimates)
