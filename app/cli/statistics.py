"""purse stats count, table, means, quantiles, covariance, table1."""

from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli import plots
from app.cli.jobs import price_output
from app.cli.options import Bins, Dataset, Json, Release
from app.cli.output import Output, Refusal, note, release_output, size
from app.cli.profiles import interval
from purse import Client, layouts, text
from purse.table1 import condition
from purse.tables import Estimate, Table
from purse.wire.statistics import (
    Axis,
    CountsResult,
    CovarianceResult,
    MeansResult,
    QuantilesResult,
    ReleasedStatistic,
    Table1Result,
)

Columns = Annotated[list[str], typer.Argument(help="Declared columns.")]
AllColumns = Annotated[list[str] | None, typer.Argument(help="Declared columns. Default: all.")]


def count(
    client: Client,
    json: Json,
    dataset: Dataset,
    columns: Columns,
    release: Release,
    bins: Bins = None,
    svg: Annotated[Path | None, typer.Option("--svg", help="Draw the counts into this SVG file.")] = None,
) -> Output:
    """Count rows by the values of one or more columns.

    The counts contain noise. A number's declared range is divided into equal parts.

    \b
    Examples:
      purse stats count census sex --epsilon 0.05
      purse stats count census age --bins 20 --epsilon 0.1 --svg ages.svg
    """
    output = _statistic(client, json, dataset, columns, release, name="counts", bins=bins)
    released = output.document
    if svg is not None and isinstance(released, ReleasedStatistic):
        result = released.result
        assert isinstance(result, CountsResult)
        title = f"Rows by {', '.join(columns)} (epsilon {released.privacy.epsilon:.3g})"
        svg.write_text(plots.svg(title, _cells(result), result.counts, result.within))
        note(f"wrote {svg}")
    return output


def table(
    client: Client,
    json: Json,
    dataset: Dataset,
    rows: Annotated[str, typer.Argument(help="The declared column whose values become rows.")],
    columns: Annotated[str, typer.Argument(help="The declared column whose values become columns.")],
    release: Release,
    bins: Bins = None,
) -> Output:
    """Release a cross table of two columns.

    \b
    Example:
      purse stats table census sex income --epsilon 0.1
    """
    return _statistic(client, json, dataset, [rows, columns], release, name="counts", bins=bins)


def means(client: Client, json: Json, dataset: Dataset, release: Release, columns: AllColumns = None) -> Output:
    """Release means of numbers and shares of categories.

    \b
    Example:
      purse stats means census age hours --epsilon 0.1
    """
    return _statistic(client, json, dataset, columns, release, name="means")


def quantiles(
    client: Client,
    json: Json,
    dataset: Dataset,
    columns: Columns,
    release: Release,
    share: Annotated[
        list[float] | None, typer.Option(help="Share of rows below, from 0 to 1. Repeatable. Default: quartiles.")
    ] = None,
    bins: Bins = None,
) -> Output:
    """Release quantiles of numbers.

    \b
    Example:
      purse stats quantiles census age --share 0.5 --share 0.9 --epsilon 0.1
    """
    return _statistic(client, json, dataset, columns, release, name="quantiles", bins=bins, shares=share or None)


def covariance(client: Client, json: Json, dataset: Dataset, columns: Columns, release: Release) -> Output:
    """Release covariances and correlations of numbers.

    \b
    Example:
      purse stats covariance census age hours --epsilon 0.2
    """
    return _statistic(client, json, dataset, columns, release, name="covariance")


def table1(
    client: Client,
    json: Json,
    dataset: Dataset,
    by: Annotated[list[str], typer.Option(help="A category column whose categories are the groups. At most two.")],
    release: Release,
    columns: Annotated[list[str] | None, typer.Argument(help="Columns to describe. Default: all others.")] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="A condition on the rows, such as 'age >= 65'. Repeatable.")
    ] = None,
) -> Output:
    """Count and describe groups of rows: the Table 1 of a paper.

    Each group has counts, means, standard deviations, quartiles, sums and shares, and differences from the first group.

    \b
    Examples:
      purse stats table1 census age income --by sex --epsilon 0.5
      purse stats table1 census age --by sex --by income --where "age >= 65" --epsilon 0.5 --quote
    """
    try:
        conditions = [condition(each) for each in where or ()]
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--where") from None
    fields = {"by": by} | ({"where": conditions} if conditions else {})
    return _released(client, json, release, {"dataset": dataset, "method": {"name": "table1"}} | fields, columns)


def _statistic(
    client: Client, json: bool, dataset: str, columns: list[str] | None, release: Release, **method: Any
) -> Output:
    """Release or price a statistic. Options of the method without a value are left out."""
    fields = {name: value for name, value in method.items() if value is not None}
    return _released(client, json, release, {"dataset": dataset, "method": fields}, columns)


def _released(
    client: Client, json: bool, release: Release, fields: dict[str, Any], columns: list[str] | None
) -> Output:
    """Release or price the statistic of a request."""
    request = fields | {"privacy": release.fields} | ({"columns": columns} if columns else {})
    if release.quote:
        return price_output(client.quote(**request))
    released = client.jobs.submit(**request).statistic(progress=False if json else None)
    heading = (released.result.name, f"{released.job}, {size(released.privacy)}")
    return release_output(released, heading, _text(released), release.out)


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
        case Table1Result():
            described = [each for each in layouts.tables(released) if each.look != "bars"]
            return "\n".join(_described(each) for each in described)
        case CovarianceResult() as covariances:
            rows = zip(covariances.columns, covariances.correlation, strict=True)
            return text.table(("", *covariances.columns), [(name, *map(interval, row)) for name, row in rows])


def _described(table: Table) -> str:
    """Return a table of estimates, with its caption and note."""
    rows = [[_cell(each) for each in row] for row in table.rows]
    return f"{table.caption}\n{text.table(table.headings, rows)}{text.paragraph(table.note)}"


def _cell(cell: object) -> str:
    match cell:
        case Estimate(value, low, high):
            return f"{text.number(value)} [{text.number(low)}, {text.number(high)}]"
        case None:
            return "-"
        case _:
            return str(cell)


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
