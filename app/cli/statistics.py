"""purse count, table, means, quantiles and covariance."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from accounting.privacy import Unit
from app.cli import plots
from app.cli.common import (
    DEFAULT_URL,
    Dataset,
    Delta,
    Epsilon,
    Json,
    Quoted,
    Refusal,
    Url,
    connect,
    emit,
    facts,
    note,
    write_json,
)
from app.cli.common import (
    table as show_table,
)
from app.cli.jobs import show_quote
from app.cli.profiles import between
from purse.wire.neighbors import lines
from purse.wire.statistics import (
    Axis,
    CountsResult,
    CovarianceResult,
    MeansResult,
    QuantilesResult,
    ReleasedStatistic,
)

Columns = Annotated[list[str] | None, typer.Argument(help="Declared columns; all if none is named.")]
Some = Annotated[list[str], typer.Argument(help="Declared columns.")]
Bins = Annotated[int | None, typer.Option(help="How many equal parts a number's declared range is counted in.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Write it to this file, as JSON.")]
Svg = Annotated[Path | None, typer.Option("--svg", help="Draw the counts into this file.")]


def count(
    dataset: Dataset,
    columns: Some,
    epsilon: Epsilon,
    delta: Delta = None,
    bins: Bins = None,
    quote: Quoted = False,
    svg: Svg = None,
    out: Out = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """How many rows lie in each part of a column, or in each cell of several, with noise.

    \b
    Examples:
      purse count census sex --epsilon 0.05
      purse count census age --bins 20 --epsilon 0.1 --svg ages.svg
    """
    method = {"name": "counts"} | ({} if bins is None else {"bins": bins})
    found = _released(dataset, columns, method, (epsilon, delta), quote, out, url, json)
    if found is not None and svg is not None:
        result = found.result
        assert isinstance(result, CountsResult)
        title = f"Rows by {', '.join(columns)} (epsilon {found.privacy.epsilon:.3g})"
        svg.write_text(plots.drawn(title, _cells(result), result.counts, result.within))
        note(f"wrote {svg}")


def table(
    dataset: Dataset,
    rows: Annotated[str, typer.Argument(help="The declared column whose parts are rows.")],
    columns: Annotated[str, typer.Argument(help="The one whose parts are columns.")],
    epsilon: Epsilon,
    delta: Delta = None,
    bins: Bins = None,
    quote: Quoted = False,
    out: Out = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """A cross table of two columns, with noise.

    \b
    Examples:
      purse table census sex income --epsilon 0.1
    """
    method = {"name": "counts"} | ({} if bins is None else {"bins": bins})
    _released(dataset, [rows, columns], method, (epsilon, delta), quote, out, url, json)


def means(
    dataset: Dataset,
    epsilon: Epsilon,
    columns: Columns = None,
    delta: Delta = None,
    quote: Quoted = False,
    out: Out = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Means of numbers and shares of categories, with noise.

    \b
    Examples:
      purse means census age hours --epsilon 0.1
    """
    _released(dataset, columns, {"name": "means"}, (epsilon, delta), quote, out, url, json)


def quantiles(
    dataset: Dataset,
    columns: Some,
    epsilon: Epsilon,
    share: Annotated[list[float] | None, typer.Option(help="Between 0 and 1; quartiles if left out.")] = None,
    delta: Delta = None,
    bins: Bins = None,
    quote: Quoted = False,
    out: Out = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Quantiles of numbers, with noise.

    \b
    Examples:
      purse quantiles census age --share 0.5 --share 0.9 --epsilon 0.1
    """
    method: dict[str, Any] = {"name": "quantiles"} | ({} if bins is None else {"bins": bins})
    method |= {"shares": share} if share else {}
    _released(dataset, columns, method, (epsilon, delta), quote, out, url, json)


def covariance(
    dataset: Dataset,
    columns: Some,
    epsilon: Epsilon,
    delta: Delta = None,
    quote: Quoted = False,
    out: Out = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Covariance and correlation of numbers, with noise.

    \b
    Examples:
      purse covariance census age hours --epsilon 0.2
    """
    _released(dataset, columns, {"name": "covariance"}, (epsilon, delta), quote, out, url, json)


def _released(
    dataset: str,
    columns: list[str] | None,
    method: dict[str, Any],
    price: tuple[float, float | None],
    only_quote: bool,
    out: Path | None,
    url: str,
    json: bool,
) -> ReleasedStatistic | None:
    """What was released, told; None if its price was asked for alone."""
    epsilon, delta = price
    asked: dict[str, Any] = {"dataset": dataset, "method": method}
    asked["privacy"] = {"epsilon": epsilon} | ({} if delta is None else {"delta": delta})
    asked |= {} if not columns else {"columns": columns}
    with connect(url) as client:
        if only_quote:
            told = client.quote(**asked)
            emit(told, json, lambda: show_quote(told))
            return None
        released = client.jobs.submit(**asked).statistic(progress=False if json else None)
    if out is not None:
        note(f"wrote {write_json(out, released)}")
    emit(released, json, lambda: show_statistic(released))
    return released


def show_statistic(found: ReleasedStatistic) -> None:
    """A statistic for people."""
    privacy = found.privacy
    facts(
        [
            (found.result.name, f"{found.job}, of {privacy.rows or privacy.persons} {(privacy.unit or Unit()).name}s"),
            ("privacy", f"epsilon {privacy.epsilon:.6g} at delta {privacy.delta:.3g}"),
            *lines(privacy.neighbors, privacy.epsilon, privacy.delta),
        ]
    )
    sys.stdout.write("\n")
    match found.result:
        case CountsResult() as counts:
            _show_counts(counts)
        case MeansResult() as means:
            show_table(("number", "mean"), [(one.column, between(one.mean)) for one in means.numbers])
            for each in means.categories:
                names = [*each.column.categories, "(other)"]
                show_table((each.column.name, "share"), zip(names, map(between, each.shares), strict=True))
        case QuantilesResult() as quantiles:
            cells = [(one.column, q.share, between(q.at)) for one in quantiles.columns for q in one.quantiles]
            show_table(("column", "share", "at"), cells)
        case CovarianceResult() as spread:
            heads = ("", *spread.columns)
            rows = zip(spread.columns, spread.correlation, strict=True)
            show_table(heads, [(name, *map(between, row)) for name, row in rows])


def _show_counts(found: CountsResult) -> None:
    """One column as bars, two as a cross table, more as a line a cell."""
    sys.stdout.write(f"Each count is within {found.within:.3g} of the exact one in 95 of 100 releases.\n")
    if len(found.axes) == 2:
        first, second = (_parts(axis) for axis in found.axes)
        rows = [found.counts[i : i + len(second)] for i in range(0, len(found.counts), len(second))]
        show_table(("", *second), [(name, *(f"{c:.0f}" for c in row)) for name, row in zip(first, rows, strict=True)])
        return
    for line in plots.bars(_cells(found), found.counts, found.within):
        sys.stdout.write(line + "\n")


def _cells(found: CountsResult) -> list[str]:
    names = [""]
    for axis in found.axes:
        names = [f"{name}, {part}" if name else part for name in names for part in _parts(axis)]
    return names


def _parts(axis: Axis) -> list[str]:
    if axis.edges is not None:
        return [f"{low:.4g} to {high:.4g}" for low, high in zip(axis.edges, axis.edges[1:], strict=False)]
    if axis.column.type != "category":
        raise Refusal("the answer holds a column of a type that is not known here")
    return [*axis.column.categories, "(other)"]
