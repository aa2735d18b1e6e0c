"""Tables and charts of a release on its page. All numbers in them are released already.

A page shows the first rows and columns of a large release. The file contains all of it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, product
from typing import TypeVar

from app.pages import charts, words
from app.pages.charts import Chart
from app.pages.words import number
from purse.model import Coefficients, Model, inputs
from purse.wire.columns import CategoryColumn, Column
from purse.wire.evaluations import (
    CalibrationBin,
    ManyClasses,
    Measured,
    ReleasedEvaluation,
    Residuals,
    Threshold,
    TwoClasses,
)
from purse.wire.inference import Inference, TableRow
from purse.wire.profiles import ColumnProfile, DatasetProfile, Interval
from purse.wire.statistics import (
    Axis,
    CountsResult,
    CovarianceResult,
    MeansResult,
    QuantilesResult,
    ReleasedStatistic,
    Result,
)

MOST_ROWS, MOST_COLUMNS, MOST_CELLS = 500, 24, 2000  # shown of one table
MOST_OF_PAGE = 5000  # cells: no further table is begun after so many
MOST_BYTES = 2**21  # of a release that is read for a page: reading one keeps all other threads waiting
_DARKEST_SHADE = 0.5  # text on it stays readable

V = TypeVar("V")
Release = Model | ReleasedStatistic | ReleasedEvaluation | DatasetProfile
_DOCUMENTS: Mapping[str, type[Release]] = {
    "statistic": ReleasedStatistic,
    "evaluation": ReleasedEvaluation,
    "profile": DatasetProfile,
}


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar beside a row, and the interval of its value; lengths from -1 to 1.

    Parameters
    ----------
    length : from zero to the value
    low, high : ends of the interval; both equal to the length if there is none
    """

    length: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Table:
    """One table.

    Parameters
    ----------
    caption : its heading
    heads : over its columns
    rows : a name, and cells
    bars : one for each row, if there are bars
    shades : opacity of the color behind each cell after the name, if the table is a heat map
    chart : the same numbers as a chart, if there is one
    note : a sentence below the heading
    left_out : number of further rows, which are not shown
    columns_left_out : number of further columns, which are not shown
    """

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    bars: tuple[Bar, ...] = ()
    shades: tuple[tuple[float, ...], ...] = ()
    chart: Chart | None = None
    note: str = ""
    left_out: int = 0
    columns_left_out: int = 0


@dataclass(frozen=True, slots=True)
class Shown:
    """The part of a release that a page shows.

    Parameters
    ----------
    release : the document; None if there is none, or it is too large to be read for a page
    tables : the first of its tables
    is_all : whether there are no others
    """

    release: Release | None = None
    tables: tuple[Table, ...] = ()
    is_all: bool = True


def shown(kind: str, content: bytes, dates: Mapping[str, str | None]) -> Shown:
    """Return the first tables of a release; `dates` are the columns that hold days or seconds."""
    if len(content) > MOST_BYTES:
        return Shown(is_all=False)
    release = _DOCUMENTS.get(kind, Model).model_validate_json(content)
    tables: list[Table] = []
    cells = 0
    for table in _tables(release, dates):
        if cells >= MOST_OF_PAGE:
            return Shown(release, tuple(tables), is_all=False)
        tables.append(table)
        cells += len(table.rows) * len(table.heads)
    return Shown(release, tuple(tables))


def title(result: Release | Result) -> str:
    """Return a name of a release: `Model of income`, `Counts of age and sex`."""
    match result:
        case ReleasedStatistic(result=inner):
            return title(inner)
        case Model(target=target):
            return f"Model of {target.name}"
        case CountsResult(axes=axes):
            return f"Counts of {' and '.join(axis.column.name for axis in axes)}"
        case MeansResult() | QuantilesResult():
            return result.name.capitalize()
        case CovarianceResult():
            return "Correlation"
        case _:
            return result.kind.capitalize()


def _tables(release: Release, dates: Mapping[str, str | None]) -> Iterator[Table]:
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
        row = (f"candidate {best.candidate + 1}", number(best.score), number(best.noise_std))
        yield _table(f"The best of {best.runs} runs", ("chosen", "score", "std of its noise"), [row], 1)
    if model.table is not None and model.inference is not None:
        yield _regression(model.table, model.inference)
        return
    encoded, in_units = model.named, model.coefficients_in_units
    if isinstance(encoded, Coefficients) and isinstance(in_units, Coefficients):
        half_widths = () if model.intervals is None else model.intervals.half_widths
        intercept = () if model.intervals is None else (model.intervals.intercept,)
        widths = [width for width in (*half_widths, *intercept) if isinstance(width, float)]
        yield _coefficients(model, "Coefficients", encoded, in_units, widths)
    elif not isinstance(encoded, Coefficients) and not isinstance(in_units, Coefficients):
        for (name, margin), units in zip(encoded.items(), in_units.values(), strict=True):
            yield _coefficients(model, f"Coefficients of class {name}", margin, units, ())


def _regression(rows: Sequence[TableRow], inference: Inference) -> Table:
    """Return the regression table; coefficients that are not resolved have their reason instead of numbers."""
    cells = []
    for row in rows:
        interval = f"{number(row.lower)} to {number(row.upper)}" if row.resolved else f"not resolved: {row.reason}"
        cells.append((row.term, number(row.estimate), number(row.std_error), interval, number(row.p_value, 2)))
    headings = ("term", "estimate", "standard error", f"{100 * inference.level:g} % interval", "p")
    return replace(_table("Regression table", headings, cells, len(rows)), note=inference.parameter)


def _coefficients(
    model: Model, caption: str, encoded: Coefficients, in_units: Coefficients, half_widths: Sequence[float]
) -> Table:
    """Return the coefficients of encoded values, with intervals if there are any, and those in the file's units."""
    values = list(encoded.values())
    ends = [(value - half, value + half) for value, half in zip(values, half_widths, strict=False)]
    intervals = [f" [{number(low)}, {number(high)}]" for low, high in ends] or [""] * len(values)
    rows = (
        (name, f"{number(value)}{interval}", number(in_units[name]))
        for (name, value), interval in zip(encoded.items(), intervals, strict=True)
    )
    effect = f"{model.target.name}, in its unit" if model.link == "identity" else "the margin"
    note = (
        f"The bars and the first number compare the columns: numbers are encoded in [-1, 1] by their declared range. "
        f"The last number is the change of {effect} for one unit of the column, as the file holds it."
    )
    table = _table(caption, ("input", "encoded", "per unit of the file"), rows, len(values))
    return replace(table, bars=_bars(values, ends), note=note)


def _statistic(released: ReleasedStatistic, dates: Mapping[str, str | None]) -> Iterator[Table]:
    match released.result:
        case CountsResult() as counts:
            yield _counts(counts)
        case MeansResult() as means:
            if means.numbers:
                numbers = ((one.column, between(one.mean, dates.get(one.column))) for one in means.numbers)
                yield _table("Means", ("column", "mean"), numbers, len(means.numbers))
            for each in means.categories:
                shares = [share.value for share in each.shares]
                ends = [(share.low, share.high) for share in each.shares]
                names = _names(each.column)
                cells = zip(names, map(between, each.shares), strict=True)
                table = _table(each.column.name, ("category", "share"), cells, len(names))
                yield replace(table, bars=_bars(shares, ends))
        case QuantilesResult() as quantiles:
            rows = (
                (one.column, number(q.share), between(q.at, dates.get(one.column)))
                for one in quantiles.columns
                for q in one.quantiles
            )
            count = sum(len(one.quantiles) for one in quantiles.columns)
            yield _table("Quantiles", ("column", "share", "at"), rows, count)
        case CovarianceResult() as spread:
            shades = [[abs(cell.value) for cell in row] for row in spread.correlation]
            yield _grid("Correlation", spread.columns, spread.columns, spread.correlation, between, shades)


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
            yield _shaded("Rows by true class, and by predicted class", many.classes, many.classes, many.counts)
        case Residuals() as residuals:
            squared, absolute = residuals.mean_squared_error, residuals.mean_absolute_error
            yield _measures({"mean squared error": squared, "mean absolute": absolute})
            caption = "Rows by residual, which is the prediction minus the target"
            yield _histogram(caption, "residual", residuals.edges, residuals.counts, None)


def _measures(measures: Mapping[str, Measured | None]) -> Table:
    rows = [
        (
            name,
            number(one.value, 3),
            f"{number(one.low, 3)} to {number(one.high, 3)}",
            f"{number(one.noise_low, 3)} to {number(one.noise_high, 3)}",
        )
        for name, one in measures.items()
        if one is not None
    ]
    heads = ("measure", "value", "95 % interval, noise and sampling", "95 % interval, noise alone")
    return _table("On the holdout set", heads, rows, len(rows))


def _roc(thresholds: Sequence[Threshold], positive: str) -> Table:
    rows = [
        (
            number(each.threshold),
            between(each.false_positive_rate),
            between(each.true_positive_rate),
            between(each.accuracy),
        )
        for each in thresholds
    ]
    heads = ("threshold", "false positive rate", "true positive rate", "accuracy")
    note = f"A row is called {positive} if its score is at least the threshold."
    table = _table("ROC curve", heads, rows, len(rows))
    return replace(table, note=note, chart=charts.roc(thresholds))


def _calibration(bins: Sequence[CalibrationBin], positive: str) -> Table:
    rows = [
        (f"{number(each.low)} to {number(each.high)}", _whole(each.records), between(each.positive)) for each in bins
    ]
    table = _table("Calibration", ("score", "rows", f"share of {positive}"), rows, len(rows))
    note = f"If the model is calibrated, the share of {positive} lies inside the range of the score."
    return replace(table, note=note, chart=charts.calibration(bins, positive))


def _counts(result: CountsResult) -> Table:
    parts = [_parts(axis) for axis in result.axes]
    caption = title(result)
    note = f"Each count is within {number(result.within, 2)} of the exact one in 95 of 100 releases."
    if len(parts) == 2:
        first, second = parts
        rows = [result.counts[i : i + len(second)] for i in range(0, len(result.counts), len(second))]
        return replace(_shaded(caption, first, second, rows), note=note)
    [axis, *more] = result.axes
    if axis.edges is not None and not more:
        date = None if isinstance(axis.column, CategoryColumn) else axis.column.date
        return replace(_histogram(caption, axis.column.name, axis.edges, result.counts, date), note=note)
    names = [", ".join(cell) for cell in islice(product(*parts), MOST_ROWS)]
    heads = (", ".join(axis.column.name for axis in result.axes), "rows")
    return replace(_named(caption, heads, names, result.counts, result.within), note=note)


def _histogram(caption: str, name: str, edges: Sequence[float], counts: Sequence[float], date: str | None) -> Table:
    """Return the counts of a number's bins, as a chart too."""
    parts = [words.between(low, high, date) for low, high in pairwise(edges)]
    table = _table(caption, (name, "rows"), zip(parts, map(_whole, counts), strict=True), len(counts))
    return replace(table, chart=charts.histogram(caption, name, edges, counts, date))


def _profile(profile: DatasetProfile) -> Iterator[Table]:
    numbers = [column for column in profile.columns if column.edges is not None]
    if numbers:
        heads = ("number", "mean", "std", "median", "5 %", "95 %")
        yield _table("Numbers", heads, map(_line, numbers), len(numbers))
    for column in profile.columns:
        declared = column.column
        if isinstance(declared, CategoryColumn):
            within = 1.96 * column.counts_noise_std
            yield _named(declared.name, ("category", "rows"), _names(declared), column.counts, within)
        else:
            yield _histogram(declared.name, declared.name, column.edges or (), column.counts, declared.date)


def _line(profile: ColumnProfile) -> tuple[str, ...]:
    at = {quantile.share: quantile.at for quantile in profile.quantiles or ()}
    date = None if isinstance(profile.column, CategoryColumn) else profile.column.date
    mean, *quantiles = (between(place, date) for place in (profile.mean, at.get(0.5), at.get(0.05), at.get(0.95)))
    return (profile.column.name, mean, between(profile.std), *quantiles)


def between(interval: Interval | Measured | None, date: str | None = None) -> str:
    """Return a number and its interval; a place in a column of dates as a date, to the day if it holds days."""
    if interval is None:
        return "–"
    ends = (interval.value, interval.low, interval.high)
    at, low, high = (words.dated(value, date) or number(value, 3) for value in ends)
    return f"{at} [{low}, {high}]"


def _parts(axis: Axis) -> list[str]:
    if axis.edges is None:
        return _names(axis.column)
    date = axis.column.date
    return [words.between(low, high, date) for low, high in pairwise(axis.edges)]


def _names(column: Column) -> list[str]:
    return [*column.categories, "(other)"] if isinstance(column, CategoryColumn) else inputs(column)


def _whole(count: float) -> str:
    return f"{round(count):,}"  # never -0


def _named(caption: str, heads: tuple[str, str], names: Iterable[str], values: Sequence[float], within: float) -> Table:
    """Return a table with a bar for each row; of the names, as many as there are rows or as are shown."""
    table = _table(caption, heads, zip(names, map(_whole, values), strict=False), len(values))
    ends = [(value - within, value + within) for value in values[: len(table.rows)]]
    return replace(table, bars=_bars(values[: len(table.rows)], ends))


def _bars(values: Sequence[float], ends: Sequence[tuple[float, float]]) -> tuple[Bar, ...]:
    """Return bars of values and of the ends of their intervals, which may be missing."""
    pairs = ends or [(value, value) for value in values]
    longest = max(
        (abs(each) for value, pair in zip(values, pairs, strict=True) for each in (value, *pair)), default=0.0
    )
    scale = longest or 1.0
    return tuple(
        Bar(value / scale, low / scale, high / scale) for value, (low, high) in zip(values, pairs, strict=True)
    )


def _shaded(caption: str, names: Sequence[str], heads: Sequence[str], counts: Sequence[Sequence[float]]) -> Table:
    """Return a table of counts as a heat map."""
    largest = max((count for row in counts for count in row), default=0.0) or 1.0
    shades = [[max(count, 0.0) / largest for count in row] for row in counts]
    return _grid(caption, names, heads, counts, _whole, shades)


def _grid(
    caption: str,
    names: Sequence[str],
    heads: Sequence[str],
    values: Sequence[Sequence[V]],
    write: Callable[[V], str],
    shades: Sequence[Sequence[float]],
) -> Table:
    """Return a table of rows and columns; only the part that is shown is written."""
    rows = ((name, *map(write, row[:MOST_COLUMNS])) for name, row in zip(names, values, strict=True))
    table = _table(caption, ("", *heads[:MOST_COLUMNS]), rows, len(names))
    opacities = tuple(
        tuple(_DARKEST_SHADE * min(shade, 1.0) for shade in row[:MOST_COLUMNS]) for row in shades[: len(table.rows)]
    )
    return replace(table, shades=opacities, columns_left_out=max(len(heads) - MOST_COLUMNS, 0))


def _table(caption: str, heads: tuple[str, ...], rows: Iterable[tuple[str, ...]], count: int) -> Table:
    """Return a table of the first of its `count` rows."""
    limit = min(MOST_ROWS, MOST_CELLS // len(heads))
    return Table(caption, heads, tuple(islice(rows, limit)), left_out=max(count - limit, 0))
