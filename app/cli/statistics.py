"""purse stats count, table, means, quantiles, covariance."""

from pathlib import Path
from typing import Annotated, Any

import typer

from accounting.privacy import Unit
from app.cli import plots
from app.cli.jobs import price_output
from app.cli.options import Bins, Dataset, Json, OutFile, Price, QuoteOnly
from app.cli.output import Output, Refusal, note, statement, write_json
from app.cli.profiles import interval
from purse import Client, text
from purse.wire.statistics import (
    Axis,
    CountsResult,
    CovarianceResult,
    MeansResult,
    QuantilesResult,
    ReleasedStatistic,
)

Columns = Annotated[list[str], typer.Argument(help="Declared columns.")]
AllColumns = Annotated[list[str] | None, typer.Argument(help="Declared columns. Default: all.")]


def count(
    client: Client,
    json: Json,
    dataset: Dataset,
    columns: Columns,
    price: Price,
    bins: Bins = None,
    quote: QuoteOnly = False,
    svg: Annotated[Path | None, typer.Option("--svg", help="Draw the counts into this SVG file.")] = None,
    out: OutFile = None,
) -> Output:
    """Count rows by the values of one or more columns.

    The counts contain noise. A number's declared range is divided into equal parts.

    \b
    Examples:
      purse stats count census sex --epsilon 0.05
      purse stats count census age --bins 20 --epsilon 0.1 --svg ages.svg
    """
    request = _request(dataset, columns, "counts", price, bins=bins)
    if quote:
        return price_output(client.quote(**request))
    released = _release(client, request, json)
    if svg is not None:
        result = released.result
        assert isinstance(result, CountsResult)
        title = f"Rows by {', '.join(columns)} (epsilon {released.privacy.epsilon:.3g})"
        svg.write_text(plots.svg(title, _cells(result), result.counts, result.within))
        note(f"wrote {svg}")
    return _output(released, out)


def table(
    client: Client,
    json: Json,
    dataset: Dataset,
    rows: Annotated[str, typer.Argument(help="The declared column whose values become rows.")],
    columns: Annotated[str, typer.Argument(help="The declared column whose values become columns.")],
    price: Price,
    bins: Bins = None,
    quote: QuoteOnly = False,
    out: OutFile = None,
) -> Output:
    """Release a cross table of two columns.

    \b
    Example:
      purse stats table census sex income --epsilon 0.1
    """
    request = _request(dataset, [rows, columns], "counts", price, bins=bins)
    return price_output(client.quote(**request)) if quote else _output(_release(client, request, json), out)


def means(
    client: Client,
    json: Json,
    dataset: Dataset,
    price: Price,
    columns: AllColumns = None,
    quote: QuoteOnly = False,
    out: OutFile = None,
) -> Output:
    """Release means of numbers and shares of categories.

    \b
    Example:
      purse stats means census age hours --epsilon 0.1
    """
    request = _request(dataset, columns, "means", price)
    return price_output(client.quote(**request)) if quote else _output(_release(client, request, json), out)


def quantiles(
    client: Client,
    json: Json,
    dataset: Dataset,
    columns: Columns,
    price: Price,
    share: Annotated[
        list[float] | None, typer.Option(help="Share of rows below, from 0 to 1. Repeatable. Default: quartiles.")
    ] = None,
    bins: Bins = None,
    quote: QuoteOnly = False,
    out: OutFile = None,
) -> Output:
    """Release quantiles of numbers.

    \b
    Example:
      purse stats quantiles census age --share 0.5 --share 0.9 --epsilon 0.1
    """
    request = _request(dataset, columns, "quantiles", price, bins=bins, shares=share or None)
    return price_output(client.quote(**request)) if quote else _output(_release(client, request, json), out)


def covariance(
    client: Client,
    json: Json,
    dataset: Dataset,
    columns: Columns,
    price: Price,
    quote: QuoteOnly = False,
    out: OutFile = None,
) -> Output:
    """Release covariances and correlations of numbers.

    \b
    Example:
      purse stats covariance census age hours --epsilon 0.2
    """
    request = _request(dataset, columns, "covariance", price)
    return price_output(client.quote(**request)) if quote else _output(_release(client, request, json), out)


def _request(dataset: str, columns: list[str] | None, method: str, price: Price, **options: Any) -> dict[str, Any]:
    """Return the request for a statistic. Options without a value are left out."""
    fields = {name: value for name, value in options.items() if value is not None}
    request: dict[str, Any] = {"dataset": dataset, "method": {"name": method, **fields}, "privacy": price.fields}
    return request | ({"columns": columns} if columns else {})


def _release(client: Client, request: dict[str, Any], json: bool) -> ReleasedStatistic:
    return client.jobs.submit(**request).statistic(progress=False if json else None)


def _output(released: ReleasedStatistic, out: Path | None) -> Output:
    privacy = released.privacy
    size = f"{privacy.rows or privacy.persons} {(privacy.unit or Unit()).name}s"
    facts = text.facts([(released.result.name, f"{released.job}, {size}"), *statement(privacy)])
    return Output(released, f"{facts}\n{_text(released)}", [] if out is None else [write_json(out, released)])


def _text(released: ReleasedStatistic) -> str:
    match released.result:
        case CountsResult() as counts:
            return _counts(counts)
        case MeansResult() as means:
            numbers = text.table(("number", "mean"), [(each.column, interval(each.mean)) for each in means.numbers])
            tables = [numbers] if means.numbers else []
            for category in means.categories:
                names = [*category.column.categories, "(other)"]
                shares = zip(names, map(interval, category.shares), strict=True)
                tables.append(text.table((category.column.name, "share"), shares))
            return "".join(tables)
        case QuantilesResult() as quantiles:
            cells = [(each.column, q.share, interval(q.at)) for each in quantiles.columns for q in each.quantiles]
            return text.table(("column", "share", "at"), cells)
        case CovarianceResult() as covariances:
            rows = zip(covariances.columns, covariances.correlation, strict=True)
            return text.table(("", *covariances.columns), [(name, *map(interval, row)) for name, row in rows])


def _counts(result: CountsResult) -> str:
    """Return the counts of two columns as a cross table, all others as bars."""
    accuracy = f"Each count is within {result.within:.3g} of the exact one in 95 of 100 releases.\n"
    if len(result.axes) != 2:
        return accuracy + "".join(f"{line}\n" for line in plots.bars(_cells(result), result.counts, result.within))
    first, second = (_parts(axis) for axis in result.axes)
    rows = [
        (name, *(f"{each:.0f}" for each in result.counts[i * len(second) : (i + 1) * len(second)]))
        for i, name in enumerate(first)
    ]
    return accuracy + text.table(("", *second), rows)


def _cells(result: CountsResult) -> list[str]:
    names = [""]
    for axis in result.axes:
        names = [f"{name}, {part}" if name else part for name in names for part in _parts(axis)]
    return names


def _parts(axis: Axis) -> list[str]:
    if axis.edges is not None:
        return [f"{low:.4g} to {high:.4g}" for low, high in zip(axis.edges, axis.edges[1:], strict=False)]
    if axis.column.type != "category":
        raise Refusal("The answer has a column of an unknown type. Install the server's version of privy-purse.")
    return [*axis.column.categories, "(other)"]
