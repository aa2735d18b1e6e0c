"""The tables in which a released document is shown to people: on a page, on a terminal, in a notebook or as frames."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from types import MappingProxyType
from typing import assert_never

from purse import table1, text
from purse.model import Model
from purse.table1 import estimate_of
from purse.tables import Cell, Dates, Estimate, Span, Table, as_estimate, written
from purse.wire.columns import CategoryColumn
from purse.wire.evaluations import (
    CalibrationBin,
    ManyClasses,
    Measured,
    ReleasedEvaluation,
    Residuals,
    Threshold,
    TwoClasses,
)
from purse.wire.forecasts import AccuracyForecast, Spread
from purse.wire.profiles import ColumnProfile, DatasetProfile
from purse.wire.statistics import (
    Axis,
    CountsResult,
    CovarianceResult,
    MeansResult,
    QuantilesResult,
    ReleasedStatistic,
    Table1Result,
)

Release = Model | ReleasedStatistic | ReleasedEvaluation | DatasetProfile
MEASURES: Mapping[str, str] = MappingProxyType({"r2": "R^2"})  # names of scores that differ from their keys
NO_DATES: Dates = MappingProxyType({})
_STDS = 1.96  # of a 95 % interval


def title(release: Release) -> str:
    """Return a name for a released document: `Model of income`, `Counts of age and sex`."""
    match release:
        case Model(target=target):
            return f"Model of {target.name}"
        case ReleasedStatistic(result=CountsResult(axes=axes)):
            return f"Counts of {' and '.join(axis.column.name for axis in axes)}"
        case ReleasedStatistic(result=CovarianceResult()):
            return "Correlation"
        case ReleasedStatistic(result=Table1Result() as groups):
            return table1.title(groups)
        case ReleasedStatistic(result=result):
            return result.name.capitalize()
        case _:
            return release.kind.capitalize()


def tables(release: Release, dates: Dates = NO_DATES) -> Iterator[Table]:
    """Yield the tables of a released document.

    Parameters
    ----------
    dates : unit (days or seconds) of the columns that hold dates, by name
    """
    match release:
        case ReleasedStatistic():
            return _statistic(release, dates)
        case ReleasedEvaluation():
            return _evaluation(release)
        case DatasetProfile():
            return _profile(release)
        case Model():
            forest = [] if release.table is None else [release.regression.forest()]
            return iter([*release.tables(), *forest])


def forecast(expected: AccuracyForecast) -> Table:
    """Return the expected scores, with the range of 80 % of the runs. Bars begin at the best constant answer."""
    score = MEASURES.get(expected.measure, expected.measure)
    has_errors = any(each.rmse for each in expected.at)
    rows = [
        (each.epsilon, *map(_spread, (each.score, each.rmse) if has_errors else (each.score,)), each.method)
        for each in expected.at
    ]
    headings = ("epsilon", score, "error (rmse)", "method") if has_errors else ("epsilon", score, "method")
    return Table(
        headings,
        rows,
        note="The ranges contain 80 % of the runs. Scores on your data differ. Compare each with the score without "
        "noise.",
        look="bars",
        origin=expected.constant,
    )


def _statistic(released: ReleasedStatistic, dates: Dates) -> Iterator[Table]:
    match released.result:
        case CountsResult() as counts:
            yield _counts(counts, title(released))
        case MeansResult() as means:
            if means.numbers:
                numbers = [(each.column, estimate_of(each.mean, dates.get(each.column))) for each in means.numbers]
                yield Table(("column", "mean"), numbers, "Means")
            for each in means.categories:
                shares = zip(each.column.levels, map(estimate_of, each.shares), strict=True)
                yield Table(("category", "share"), list(shares), each.column.name, look="bars")
        case QuantilesResult() as quantiles:
            rows = [
                (each.column, point.share, estimate_of(point.at, dates.get(each.column)))
                for each in quantiles.columns
                for point in each.quantiles
            ]
            yield Table(("column", "share", "at"), rows, "Quantiles")
        case Table1Result() as groups:
            yield from table1.tables(groups, dates)
        case CovarianceResult(columns=names) as matrices:
            correlations = [[estimate_of(cell) for cell in row] for row in matrices.correlation]
            yield _grid("Correlation", names, names, correlations)
            pairs = (zip(*rows, strict=True) for rows in zip(matrices.covariance, matrices.noise_std, strict=True))
            covariances = [[as_estimate(value, _STDS * std) for value, std in row] for row in pairs]
            yield _grid("Covariance", names, names, covariances)
        case unknown:
            assert_never(unknown)


def _counts(result: CountsResult, caption: str) -> Table:
    labels = [_labels(axis) for axis in result.axes]
    within = max(round(result.within), 1)
    note = f"Each count is within {within:,} of the exact one in 95 of 100 releases."
    counts = [round(count) for count in result.counts]
    if len(labels) == 2:
        first, second = labels
        grid = [counts[start : start + len(second)] for start in range(0, len(counts), len(second))]
        return _grid(caption, first, list(map(written, second)), grid, note, result.within)
    names = [axis.column.name for axis in result.axes]
    if len(labels) == 1 and result.axes[0].edges is not None:
        return Table((*names, "rows"), list(zip(labels[0], counts, strict=True)), caption, note, "histogram")
    rows = [(*cell, count) for cell, count in zip(product(*labels), counts, strict=True)]
    return Table((*names, "rows"), rows, caption, note, "bars", result.within)


def _profile(profile: DatasetProfile) -> Iterator[Table]:
    numbers = [each for each in profile.columns if each.edges is not None]
    if numbers:
        yield Table(("number", "mean", "std", "median", "5 %", "95 %"), list(map(_summary, numbers)), "Numbers")
    for each in profile.columns:
        if isinstance(each.column, CategoryColumn):
            rows = list(zip(each.column.levels, map(round, each.counts), strict=True))
            within = _STDS * each.counts_noise_std
            yield Table(("category", "rows"), rows, each.column.name, look="bars", within=within)
        else:
            bins = list(zip(_spans(each.edges or (), each.column.date), map(round, each.counts), strict=True))
            yield Table((each.column.name, "rows"), bins, each.column.name, look="histogram")


def _summary(profile: ColumnProfile) -> tuple[Cell, ...]:
    date = None if isinstance(profile.column, CategoryColumn) else profile.column.date
    quantiles = {quantile.share: quantile.at for quantile in profile.quantiles or ()}
    places = (profile.mean, quantiles.get(0.5), quantiles.get(0.05), quantiles.get(0.95))
    mean, *estimates = (estimate_of(place, date) for place in places)
    return (profile.column.name, mean, estimate_of(profile.std), *estimates)


def _evaluation(released: ReleasedEvaluation) -> Iterator[Table]:
    match released.result:
        case TwoClasses() as two:
            yield _measures({"accuracy": two.accuracy, "AUC": two.auc, "log loss": two.log_loss})
            yield _roc(two.thresholds, two.classes[1])
            if two.calibration:
                yield _calibration(two.calibration, two.classes[1])
        case ManyClasses() as many:
            recalls = zip((f"recall of {name}" for name in many.classes), many.recall, strict=True)
            yield _measures({"accuracy": many.accuracy, **dict(recalls)})
            counts = [[round(count) for count in row] for row in many.counts]
            yield _grid("Rows by true class, and by predicted class", many.classes, many.classes, counts)
        case Residuals() as residuals:
            squared, absolute = residuals.mean_squared_error, residuals.mean_absolute_error
            yield _measures({"mean squared error": squared, "mean absolute error": absolute})
            rows = list(zip(_spans(residuals.edges), map(round, residuals.counts), strict=True))
            note = (
                f"A residual is the prediction minus the target, cut to {text.number(residuals.clip)} in either "
                "direction. The first and the last bin contain the cut residuals, which make both errors too small."
            )
            yield Table(("residual", "rows"), rows, "Residuals", note, "histogram")


def _measures(measures: Mapping[str, Measured | None]) -> Table:
    rows = [
        (name, estimate_of(each), Span(each.noise_low, each.noise_high))
        for name, each in measures.items()
        if each is not None
    ]
    note = "The interval covers noise and sampling in 95 of 100 evaluations. The last column covers the noise alone."
    return Table(("measure", "value", "noise alone"), rows, "On the holdout set", note)


def _roc(thresholds: Sequence[Threshold], positive: str) -> Table:
    rows = [
        (
            each.threshold,
            estimate_of(each.false_positive_rate),
            estimate_of(each.true_positive_rate),
            estimate_of(each.accuracy),
        )
        for each in thresholds
    ]
    note = f"A row is called {positive} if its score is at least the threshold."
    return Table(("threshold", "false positive rate", "true positive rate", "accuracy"), rows, "ROC curve", note, "roc")


def _calibration(bins: Sequence[CalibrationBin], positive: str) -> Table:
    rows = [(Span(each.low, each.high), round(each.records), estimate_of(each.positive)) for each in bins]
    note = f"If the model is calibrated, the share of {positive} lies inside the range of the score."
    return Table(("score", "rows", f"share of {positive}"), rows, "Calibration", note, "calibration")


def _grid(
    caption: str,
    names: Sequence[Cell],
    headings: Sequence[str],
    cells: Sequence[Sequence[Cell]],
    note: str = "",
    within: float = 0.0,
) -> Table:
    """Return a table of rows and columns as a heat map."""
    rows = [(name, *row) for name, row in zip(names, cells, strict=True)]
    return Table(("", *headings), rows, caption, note, "heat", within)


def _labels(axis: Axis) -> list[Cell]:
    if isinstance(axis.column, CategoryColumn):
        return [*axis.column.levels]
    return _spans(axis.edges or (), axis.column.date)


def _spans(edges: Sequence[float], date: str | None = None) -> list[Cell]:
    return [Span(low, high, date) for low, high in pairwise(edges)]


def _spread(spread: Spread | None) -> Estimate | None:
    return None if spread is None else Estimate(spread.median, spread.low, spread.high)
