"""purse stats count, table, means, quantiles, covariance, table1."""

from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli import plots
from app.cli.jobs import price_output
from app.cli.options import Bins, Dataset, Json, Release
from app.cli.output import Output, note, release_output
from purse import Client, layouts
from purse.client.requests import without_none
from purse.table1 import condition
from purse.wire.statistics import ReleasedStatistic

Columns = Annotated[list[str], typer.Argument(help="Declared columns.")]
AllColumns = Annotated[list[str] | None, typer.Argument(help="Declared columns. Default: all.")]


def count(
    client: Client,
    json: Json,
    dataset: Dataset,
    columns: Columns,
    release: Release,
    bins: Bins = None,
    svg: Path | None = None,
) -> Output:
    """Count rows by the values of one or more columns.

    The counts contain noise. A number's declared range is divided into equal parts.

    Parameters
    ----------
    svg : Draw the counts into this SVG file.

    \b
    Examples:
      purse stats count census sex --epsilon 0.05
      purse stats count census age --bins 20 --epsilon 0.1 --svg ages.svg
    """
    output = _statistic(client, json, dataset, columns, release, name="counts", bins=bins)
    released = output.document
    if svg is not None and isinstance(released, ReleasedStatistic):
        [drawn] = layouts.tables(released)
        svg.write_text(plots.svg(f"{drawn.caption} (epsilon {released.privacy.epsilon:.3g})", drawn.lines))
        note(f"wrote {svg}")
    return output


def table(
    client: Client, json: Json, dataset: Dataset, rows: str, columns: str, release: Release, bins: Bins = None
) -> Output:
    """Release a cross table of two columns.

    Parameters
    ----------
    rows : The declared column whose values become rows.
    columns : The declared column whose values become columns.

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
    share: list[float] | None = None,
    bins: Bins = None,
) -> Output:
    """Release quantiles of numbers.

    Parameters
    ----------
    share : Share of rows below, from 0 to 1. Repeatable. Default: quartiles.

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
    by: Annotated[list[str], typer.Option()],
    release: Release,
    columns: Annotated[list[str] | None, typer.Argument()] = None,
    where: list[str] | None = None,
) -> Output:
    """Count and describe groups of rows: the Table 1 of a paper.

    Each group has counts, means, standard deviations, quartiles, sums and shares, and differences from the first group.

    Parameters
    ----------
    by : A category column whose categories are the groups. At most two.
    columns : Columns to describe. Default: all others.
    where : A condition on the rows, such as 'age >= 65'. Repeatable.

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
    return _released(client, json, release, {"dataset": dataset, "method": without_none(**method)}, columns)


def _released(
    client: Client, json: bool, release: Release, fields: dict[str, Any], columns: list[str] | None
) -> Output:
    """Release or price the statistic of a request."""
    request = fields | {"privacy": release.fields} | ({"columns": columns} if columns else {})
    if release.quote:
        return price_output(client.quote(**request))
    released = client.jobs.submit(**request).statistic(progress=False if json else None)
    return release_output(released, release.out)
