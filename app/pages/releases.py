"""What a job released, as tables: everything in them is published already."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from app.pages import words
from app.pages.words import number
from purse.model import Model, inputs
from purse.wire.columns import CategoryColumn, Column
from purse.wire.evaluations import ManyClasses, Measured, ReleasedEvaluation, Residuals, TwoClasses
from purse.wire.profiles import ColumnProfile, DatasetProfile, Interval
from purse.wire.statistics import Axis, CountsResult, CovarianceResult, MeansResult, QuantilesResult, ReleasedStatistic

MOST_ROWS = 500  # that are shown; the file holds all


@dataclass(frozen=True, slots=True)
class Table:
    """One table.

    Parameters
    ----------
    caption : what it is of
    heads : over its columns
    rows : a name, and cells
    lengths : of a bar for each row, from -1 to 1; none where there are no bars
    left_out : rows that there are beyond those
    """

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lengths: tuple[float, ...] = ()
    left_out: int = 0


def tables(kind: str, content: bytes, dates: Mapping[str, str | None]) -> list[Table]:
    """The tables of a released model, statistic or profile; `dates` are the columns that hold days or seconds."""
    match kind:
        case "statistic":
            return _statistic(ReleasedStatistic.model_validate_json(content), dates)
        case "evaluation":
            return _evaluation(ReleasedEvaluation.model_validate_json(content))
        case "profile":
            return _profile(DatasetProfile.model_validate_json(content))
        case _:
            return _model(Model.model_validate_json(content))


def _model(model: Model) -> list[Table]:
    if (best := model.tuning) is not None:
        rows = [(f"candidate {best.candidate + 1}", number(best.score), number(best.noise_std))]
        chosen = _table(f"The best of {best.runs} runs that counted", ("chosen", "score", "std of its noise"), rows)
        return [chosen, *_model(model.model_copy(update={"tuning": None}))]
    heads = (f"coefficient for {model.target.name}", "value")
    named = model.named
    classes = {name: of for name, of in named.items() if isinstance(of, dict)}
    if classes:
        return [_bars(f"Class {name}", heads, list(of), list(of.values())) for name, of in classes.items()]
    values = [value for value in named.values() if isinstance(value, float)]
    return [_bars("Coefficients of encoded values", heads, list(named), values)]


def _statistic(found: ReleasedStatistic, dates: Mapping[str, str | None]) -> list[Table]:
    match found.result:
        case CountsResult() as counts:
            return _counts(counts)
        case MeansResult() as means:
            numbers = [(one.column, between(one.mean, dates.get(one.column))) for one in means.numbers]
            shares = [
                _table(
                    each.column.name,
                    ("category", "share"),
                    list(zip(_names(each.column), map(between, each.shares), strict=True)),
                )
                for each in means.categories
            ]
            return [*([_table("Means", ("column", "mean"), numbers)] if numbers else []), *shares]
        case QuantilesResult() as quantiles:
            rows = [
                (one.column, number(q.share), between(q.at, dates.get(one.column)))
                for one in quantiles.columns
                for q in one.quantiles
            ]
            return [_table("Quantiles", ("column", "share", "at"), rows)]
        case CovarianceResult() as spread:
            cells = [(name, *map(between, row)) for name, row in zip(spread.columns, spread.correlation, strict=True)]
            return [_table("Correlation", ("", *spread.columns), cells)]


def _evaluation(found: ReleasedEvaluation) -> list[Table]:
    measured: list[tuple[str, Measured | None]]
    match found.result:
        case TwoClasses() as two:
            measured = [("accuracy", two.accuracy), ("AUC", two.auc), ("log loss", two.log_loss)]
        case ManyClasses() as many:
            recalls = zip(many.classes, many.recall, strict=True)
            measured = [("accuracy", many.accuracy), *((f"recall of {name}", one) for name, one in recalls)]
        case Residuals() as cut:
            measured = [("mean squared error", cut.mean_squared_error), ("mean absolute", cut.mean_absolute_error)]
    heads = ("measure", "value", "noise and sampling", "noise alone")
    rows = [
        (
            name,
            number(one.value),
            f"{number(one.low)} to {number(one.high)}",
            f"{number(one.noise_low)} to {number(one.noise_high)}",
        )
        for name, one in measured
        if one is not None
    ]
    return [_table("On the kept-out part, each with about 95 of 100", heads, rows)]


def _counts(found: CountsResult) -> list[Table]:
    parts = [_parts(axis) for axis in found.axes]
    said = f"Rows in each cell, each within {number(found.within, 3)} of the exact number in 95 of 100 releases"
    if len(parts) == 2:
        first, second = parts
        rows = [found.counts[i : i + len(second)] for i in range(0, len(found.counts), len(second))]
        return [_table(said, ("", *second), [(n, *map(_whole, row)) for n, row in zip(first, rows, strict=True)])]
    names = [""]
    for axis in parts:
        names = [f"{name}, {part}" if name else part for name in names for part in axis]
    return [_bars(said, (", ".join(axis.column.name for axis in found.axes), "rows"), names, found.counts)]


def _profile(found: DatasetProfile) -> list[Table]:
    numbers = [_line(told) for told in found.columns if told.edges is not None]
    heads = ("number", "mean", "std", "median", "5 %", "95 %")
    categories = [
        _bars(told.column.name, ("category", "rows"), _names(told.column), told.counts)
        for told in found.columns
        if told.edges is None
    ]
    return [*([_table("Numbers", heads, numbers)] if numbers else []), *categories]


def _line(told: ColumnProfile) -> tuple[str, ...]:
    at = {quantile.share: quantile.at for quantile in told.quantiles or ()}
    date = None if isinstance(told.column, CategoryColumn) else told.column.date
    mean, *quantiles = (between(place, date) for place in (told.mean, at.get(0.5), at.get(0.05), at.get(0.95)))
    return (told.column.name, mean, between(told.std), *quantiles)


def between(found: Interval | None, date: str | None = None) -> str:
    """A number and its interval; a place in a column of dates as a date, to the day where it holds days."""
    if found is None:
        return "–"
    at, low, high = (words.dated(value, date) or number(value) for value in (found.value, found.low, found.high))
    return f"{at} [{low}, {high}]"


def _parts(axis: Axis) -> list[str]:
    if axis.edges is None:
        return _names(axis.column)
    date = axis.column.date
    return [words.between(low, high, date) for low, high in pairwise(axis.edges)]


def _names(column: Column) -> list[str]:
    return [*column.categories, "(other)"] if isinstance(column, CategoryColumn) else inputs(column)


def _whole(count: float) -> str:
    return f"{count:.0f}"


def _bars(caption: str, heads: tuple[str, str], names: Sequence[str], values: Sequence[float]) -> Table:
    longest = max(map(abs, values), default=0.0) or 1.0
    made = _table(caption, heads, list(zip(names, map(number, values), strict=True)))
    return Table(made.caption, heads, made.rows, tuple(v / longest for v in values[:MOST_ROWS]), made.left_out)


def _table(caption: str, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    return Table(caption, heads, tuple(rows[:MOST_ROWS]), left_out=max(len(rows) - MOST_ROWS, 0))
