"""The tables in which a released document is shown to people. They hold typed cells, which a page or a terminal writes.

`Tabular.to_frame` has the same numbers for programs, one value per cell.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from types import MappingProxyType
from typing import assert_never

from purse import table1
from purse.model import Coefficients, Model
from purse.tables import Cell, Estimate, Span, Table
from purse.wire import models
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
from purse.wire.inference import INTERCEPT, Inference, TableRow
from purse.wire.profiles import ColumnProfile, DatasetProfile, Interval
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
Dates = Mapping[str, str | None]
NO_DATES: Dates = MappingProxyType({})
_STDS = 1.96  # of a 95 % interval
_UNDECLARED = "(other)"


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
            return _model(release)


def _model(model: Model) -> Iterator[Table]:
    if (best := model.tuning) is not None:
        row = (f"candidate {best.candidate + 1}", best.score, best.noise_std)
        yield Table(("chosen", "score", "std of its noise"), [row], f"The best of {best.runs} runs")
    if model.table is not None and model.inference is not None:
        yield _regression(model.table, model.inference)
        yield _forest(model.table, model.inference)
        return
    encoded, in_units = model.named, model.coefficients_in_units
    if isinstance(encoded, Coefficients) and isinstance(in_units, Coefficients):
        yield _coefficients(model, "Coefficients", encoded, in_units, model.intervals)
    elif not isinstance(encoded, Coefficients) and not isinstance(in_units, Coefficients):
        for (name, margin), units in zip(encoded.items(), in_units.values(), strict=True):
            yield _coefficients(model, f"Coefficients of class {name}", margin, units, None)


def _regression(rows: Sequence[TableRow], inference: Inference) -> Table:
    """Return the regression table; coefficients that are not resolved have their reason instead of an estimate."""
    cells: list[tuple[Cell, ...]] = []
    for row in rows:
        estimate: Cell = f"not resolved: {row.reason}"
        if row.estimate is not None and row.lower is not None and row.upper is not None:
            estimate = Estimate(row.estimate, row.lower, row.upper)
        cells.append((row.term, estimate, row.std_error, row.p_value))
    headings = ("term", f"estimate, {inference.level:.3g} interval", "standard error", "p")
    return Table(headings, cells, "Regression table", inference.parameter)


def _forest(rows: Sequence[TableRow], inference: Inference) -> Table:
    """Return the resolved coefficients with bars and intervals, comparable between columns."""
    estimates: list[tuple[Cell, ...]] = []
    for row in rows:
        if row.term == INTERCEPT or row.estimate is None or row.lower is None or row.upper is None:
            continue
        scale = row.per_std / row.estimate if row.per_std is not None and row.estimate else 1.0
        estimates.append((row.term, Estimate(scale * row.estimate, scale * row.lower, scale * row.upper)))
    note = (
        "The change for one standard deviation of a number column, by its released variance, or for a level in place "
        "of its reference. Coefficients that are not resolved and the intercept are left out."
    )
    return Table(("term", f"estimate, {inference.level:.3g} interval"), estimates, "Forest plot", note, "bars")


def _coefficients(
    model: Model,
    caption: str,
    encoded: Coefficients,
    in_units: Coefficients,
    intervals: models.CoefficientIntervals | None,
) -> Table:
    """Return the coefficients of encoded values, with intervals if there are any, and those in the file's units."""
    cells: list[Cell] = [*encoded.values()]
    if intervals is not None:
        half_widths = [each for each in (*intervals.half_widths, intervals.intercept) if isinstance(each, float)]
        pairs = zip(encoded.values(), half_widths, strict=True)
        cells = [Estimate(value, value - half, value + half) for value, half in pairs]
    effect = f"{model.target.name}, in its unit" if model.link == "identity" else "the margin"
    note = (
        "The bars and the first number compare the columns: numbers are encoded in [-1, 1] by their declared range. "
        f"The last number is the change of {effect} for one unit of the column, as the file holds it."
    )
    if intervals is not None:
        note += f" Each interval covers the noise alone, in {intervals.level:.0%} of releases."
    rows = list(zip(encoded, cells, in_units.values(), strict=True))
    return Table(("input", "encoded", "per unit of the file"), rows, caption, note, "bars")


def _statistic(released: ReleasedStatistic, dates: Dates) -> Iterator[Table]:
    match released.result:
        case CountsResult() as counts:
            yield _counts(counts, title(released))
        case MeansResult() as means:
            if means.numbers:
                numbers = [(each.column, _estimate(each.mean, dates.get(each.column))) for each in means.numbers]
                yield Table(("column", "mean"), numbers, "Means")
            for each in means.categories:
                shares = zip([*each.column.categories, _UNDECLARED], map(_estimate, each.shares), strict=True)
                yield Table(("category", "share"), list(shares), each.column.name, look="bars")
        case QuantilesResult() as quantiles:
            rows = [
                (each.column, point.share, _estimate(point.at, dates.get(each.column)))
                for each in quantiles.columns
                for point in each.quantiles
            ]
            yield Table(("column", "share", "at"), rows, "Quantiles")
        case Table1Result() as groups:
            yield from table1.tables(groups, dates)
        case CovarianceResult(columns=names, correlation=correlation):
            yield _grid("Correlation", names, names, [[_estimate(cell) for cell in row] for row in correlation])
        case unknown:
            assert_never(unknown)


def _counts(result: CountsResult, caption: str) -> Table:
    labels = [_labels(axis) for axis in result.axes]
    note = f"Each count is within {result.within:.2g} of the exact one in 95 of 100 releases."
    counts = [round(count) for count in result.counts]
    if len(labels) == 2:
        first, second = labels
        grid = [counts[start : start + len(second)] for start in range(0, len(counts), len(second))]
        return _grid(caption, first, list(map(str, second)), grid, note)
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
            rows = list(zip([*each.column.categories, _UNDECLARED], map(round, each.counts), strict=True))
            within = _STDS * each.counts_noise_std
            yield Table(("category", "rows"), rows, each.column.name, look="bars", within=within)
        else:
            bins = list(zip(_spans(each.edges or (), each.column.date), map(round, each.counts), strict=True))
            yield Table((each.column.name, "rows"), bins, each.column.name, look="histogram")


def _summary(profile: ColumnProfile) -> tuple[Cell, ...]:
    date = None if isinstance(profile.column, CategoryColumn) else profile.column.date
    quantiles = {quantile.share: quantile.at for quantile in profile.quantiles or ()}
    places = (profile.mean, quantiles.get(0.5), quantiles.get(0.05), quantiles.get(0.95))
    mean, *estimates = (None if place is None else _estimate(place, date) for place in places)
    return (profile.column.name, mean, None if profile.std is None else _estimate(profile.std), *estimates)


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
            note = "A residual is the prediction minus the target."
            yield Table(("residual", "rows"), rows, "Residuals", note, "histogram")


def _measures(measures: Mapping[str, Measured | None]) -> Table:
    rows = [
        (name, each.value, Span(each.low, each.high), Span(each.noise_low, each.noise_high))
        for name, each in measures.items()
        if each is not None
    ]
    note = "The interval covers noise and sampling in 95 of 100 evaluations. The last column covers the noise alone."
    return Table(("measure", "value", "95 % interval", "noise alone"), rows, "On the holdout set", note)


def _roc(thresholds: Sequence[Threshold], positive: str) -> Table:
    rows = [
        (
            each.threshold,
            _estimate(each.false_positive_rate),
            _estimate(each.true_positive_rate),
            _estimate(each.accuracy),
        )
        for each in thresholds
    ]
    note = f"A row is called {positive} if its score is at least the threshold."
    return Table(("threshold", "false positive rate", "true positive rate", "accuracy"), rows, "ROC curve", note, "roc")


def _calibration(bins: Sequence[CalibrationBin], positive: str) -> Table:
    rows = [(Span(each.low, each.high), round(each.records), _estimate(each.positive)) for each in bins]
    note = f"If the model is calibrated, the share of {positive} lies inside the range of the score."
    return Table(("score", "rows", f"share of {positive}"), rows, "Calibration", note, "calibration")


def _grid(
    caption: str, names: Sequence[Cell], headings: Sequence[str], cells: Sequence[Sequence[Cell]], note: str = ""
) -> Table:
    """Return a table of rows and columns as a heat map."""
    rows = [(name, *row) for name, row in zip(names, cells, strict=True)]
    return Table(("", *headings), rows, caption, note, "heat")


def _labels(axis: Axis) -> list[Cell]:
    if isinstance(axis.column, CategoryColumn):
        return [*axis.column.categories, _UNDECLARED]
    return _spans(axis.edges or (), axis.column.date)


def _spans(edges: Sequence[float], date: str | None = None) -> list[Cell]:
    return [Span(low, high, date) for low, high in pairwise(edges)]


def _estimate(interval: Interval | Measured, date: str | None = None) -> Estimate:
    return Estimate(interval.value, interval.low, interval.high, date)
