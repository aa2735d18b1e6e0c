"""Tables of a release on its page. All numbers in them are released already.

A page shows the first rows and columns of a large release. The file contains all of it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, product
from typing import TypeVar

from app.pages import words
from app.pages.words import number
from purse.model import Model, inputs
from purse.wire.columns import CategoryColumn, Column
from purse.wire.evaluations import ManyClasses, Measured, ReleasedEvaluation, Residuals, TwoClasses
from purse.wire.profiles import ColumnProfile, DatasetProfile, Interval
from purse.wire.statistics import Axis, CountsResult, CovarianceResult, MeansResult, QuantilesResult, ReleasedStatistic

MOST_ROWS, MOST_COLUMNS, MOST_CELLS = 500, 24, 2000  # shown of one table
MOST_OF_PAGE = 5000  # cells: no further table is begun after so many
MOST_BYTES = 2**21  # of a release that is read for a page: reading one keeps all other threads waiting

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Table:
    """One table.

    Parameters
    ----------
    caption : what it is of
    heads : over its columns
    rows : a name, and cells
    lengths : of a bar for each row, from -1 to 1; none where there are no bars
    left_out : further rows, which are not shown
    columns_left_out : further columns, which are not shown
    """

    caption: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lengths: tuple[float, ...] = ()
    left_out: int = 0
    columns_left_out: int = 0


@dataclass(frozen=True, slots=True)
class Shown:
    """What a page shows of a release.

    Parameters
    ----------
    tables : the first of its tables
    is_all : whether there are no others
    """

    tables: tuple[Table, ...] = ()
    is_all: bool = True


def shown(kind: str, content: bytes, dates: Mapping[str, str | None]) -> Shown:
    """Return the first tables of a release; `dates` are the columns that hold days or seconds."""
    if len(content) > MOST_BYTES:
        return Shown(is_all=False)
    tables: list[Table] = []
    cells = 0
    for table in _tables(kind, content, dates):
        if cells >= MOST_OF_PAGE:
            return Shown(tuple(tables), is_all=False)
        tables.append(table)
        cells += len(table.rows) * len(table.heads)
    return Shown(tuple(tables))


def _tables(kind: str, content: bytes, dates: Mapping[str, str | None]) -> Iterator[Table]:
    match kind:
        case "statistic":
            return _statistic(ReleasedStatistic.model_validate_json(content), dates)
        case "evaluation":
            return iter([_evaluation(ReleasedEvaluation.model_validate_json(content))])
        case "profile":
            return _profile(DatasetProfile.model_validate_json(content))
        case _:
            return _model(Model.model_validate_json(content))


def _model(model: Model) -> Iterator[Table]:
    if (best := model.tuning) is not None:
        row = (f"candidate {best.candidate + 1}", number(best.score), number(best.noise_std))
        yield _table(f"The best of {best.runs} runs that counted", ("chosen", "score", "std of its noise"), [row], 1)
    heads = (f"coefficient for {model.target.name}", "value")
    named = model.named
    classes = {name: of for name, of in named.items() if isinstance(of, dict)}
    if classes:
        for name, of in classes.items():
            yield _bars(f"Class {name}", heads, list(of), list(of.values()))
        return
    values = [value for value in named.values() if isinstance(value, float)]
    yield _bars("Coefficients of encoded values", heads, list(named), values)


def _statistic(found: ReleasedStatistic, dates: Mapping[str, str | None]) -> Iterator[Table]:
    match found.result:
        case CountsResult() as counts:
            yield _counts(counts)
        case MeansResult() as means:
            if means.numbers:
                numbers = ((one.column, between(one.mean, dates.get(one.column))) for one in means.numbers)
                yield _table("Means", ("column", "mean"), numbers, len(means.numbers))
            for each in means.categories:
                names = _names(each.column)
                shares = zip(names, map(between, each.shares), strict=True)
                yield _table(each.column.name, ("category", "share"), shares, len(names))
        case QuantilesResult() as quantiles:
            rows = (
                (one.column, number(q.share), between(q.at, dates.get(one.column)))
                for one in quantiles.columns
                for q in one.quantiles
            )
            count = sum(len(one.quantiles) for one in quantiles.columns)
            yield _table("Quantiles", ("column", "share", "at"), rows, count)
        case CovarianceResult() as spread:
            yield _grid("Correlation", spread.columns, spread.columns, spread.correlation, between)


def _evaluation(found: ReleasedEvaluation) -> Table:
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
    return _table("On the holdout set, with intervals of about 95 % confidence", heads, rows, len(rows))


def _counts(found: CountsResult) -> Table:
    parts = [_parts(axis) for axis in found.axes]
    caption = f"Rows in each cell, each within {number(found.within, 3)} of the exact number in 95 of 100 releases"
    if len(parts) == 2:
        first, second = parts
        rows = [found.counts[i : i + len(second)] for i in range(0, len(found.counts), len(second))]
        return _grid(caption, first, second, rows, _whole)
    names = [", ".join(cell) for cell in islice(product(*parts), MOST_ROWS)]
    return _bars(caption, (", ".join(axis.column.name for axis in found.axes), "rows"), names, found.counts)


def _profile(found: DatasetProfile) -> Iterator[Table]:
    numbers = [column for column in found.columns if column.edges is not None]
    if numbers:
        heads = ("number", "mean", "std", "median", "5 %", "95 %")
        yield _table("Numbers", heads, map(_line, numbers), len(numbers))
    for column in found.columns:
        if column.edges is None:
            yield _bars(column.column.name, ("category", "rows"), _names(column.column), column.counts)


def _line(profile: ColumnProfile) -> tuple[str, ...]:
    at = {quantile.share: quantile.at for quantile in profile.quantiles or ()}
    date = None if isinstance(profile.column, CategoryColumn) else profile.column.date
    mean, *quantiles = (between(place, date) for place in (profile.mean, at.get(0.5), at.get(0.05), at.get(0.95)))
    return (profile.column.name, mean, between(profile.std), *quantiles)


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


def _bars(caption: str, heads: tuple[str, str], names: Iterable[str], values: Sequence[float]) -> Table:
    """Return a table with a bar for each row; of the names, as many as there are rows or as are shown."""
    longest = max(map(abs, values), default=0.0) or 1.0
    table = _table(caption, heads, zip(names, map(number, values), strict=False), len(values))
    return replace(table, lengths=tuple(v / longest for v in values[: len(table.rows)]))


def _grid(
    caption: str, names: Sequence[str], heads: Sequence[str], values: Sequence[Sequence[V]], write: Callable[[V], str]
) -> Table:
    """Return a table of rows and columns; only what is shown of it is written."""
    rows = ((name, *map(write, row[:MOST_COLUMNS])) for name, row in zip(names, values, strict=True))
    table = _table(caption, ("", *heads[:MOST_COLUMNS]), rows, len(names))
    return replace(table, columns_left_out=max(len(heads) - MOST_COLUMNS, 0))


def _table(caption: str, heads: tuple[str, ...], rows: Iterable[tuple[str, ...]], count: int) -> Table:
    """Return a table of the first of its `count` rows."""
    limit = min(MOST_ROWS, MOST_CELLS // len(heads))
    return Table(caption, heads, tuple(islice(rows, limit)), left_out=max(count - limit, 0))
