"""purse stats, purse evaluate: noisy results that are no models."""

from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.jobs import price_output
from app.cli.options import Bins, Dataset, Delta, OutFile, QuoteOnly, ReleaseOptions
from app.cli.output import Output, Refusal, note, release_output
from purse import Client
from purse.client.requests import without_none
from purse.client.statistics import condition
from purse.plots import intervals_svg
from purse.wire.statistics import ReleasedStatistic

Columns = Annotated[list[str], typer.Argument(help="Declared columns.")]
AllColumns = Annotated[list[str] | None, typer.Argument(help="Declared columns. Default: all.")]


def count(
    client: Client,
    dataset: Dataset,
    columns: Columns,
    release: ReleaseOptions,
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
    output = _statistic(client, dataset, columns, release, name="counts", bins=bins)
    released = output.document
    if svg is not None and isinstance(released, ReleasedStatistic):
        [drawn] = released.tables()
        title = f"{drawn.caption} (epsilon {released.privacy.epsilon:.3g})"
        svg.write_text(intervals_svg(title, drawn.lines.labels, drawn.lines.estimates))
        note(f"wrote {svg}")
    return output


def table(
    client: Client, dataset: Dataset, rows: str, columns: str, release: ReleaseOptions, bins: Bins = None
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
    return _statistic(client, dataset, [rows, columns], release, name="counts", bins=bins)


def means(client: Client, dataset: Dataset, release: ReleaseOptions, columns: AllColumns = None) -> Output:
    """Release means of numbers and shares of categories.

    \b
    Example:
      purse stats means census age hours --epsilon 0.1
    """
    return _statistic(client, dataset, columns, release, name="means")


def quantiles(
    client: Client,
    dataset: Dataset,
    columns: Columns,
    release: ReleaseOptions,
    share: list[float] | None = None,
    bins: Bins = None,
) -> Output:
    """Release quantiles of numbers.

    Parameters
    ----------
    share : Share of rows that are below the quantile: 0.5 for the median. Repeatable. Default: quartiles.

    \b
    Example:
      purse stats quantiles census age --share 0.5 --share 0.9 --epsilon 0.1
    """
    return _statistic(client, dataset, columns, release, name="quantiles", bins=bins, shares=share or None)


def covariance(client: Client, dataset: Dataset, columns: Columns, release: ReleaseOptions) -> Output:
    """Release covariances and correlations of numbers.

    \b
    Example:
      purse stats covariance census age hours --epsilon 0.2
    """
    return _statistic(client, dataset, columns, release, name="covariance")


def table1(
    client: Client,
    dataset: Dataset,
    by: Annotated[list[str], typer.Option()],
    release: ReleaseOptions,
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
      purse stats table1 census age --by sex --by income --epsilon 0.5 --quote
      purse stats table1 census income --by sex --where "age >= 65" --epsilon 0.5
    """
    try:
        conditions = [condition(each) for each in where or ()]
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--where") from None
    statistic = {
        "dataset": dataset,
        "method": "table1",
        "columns": columns or None,
        "by": by,
        "where": conditions or None,
    }
    return _released(client, release, statistic)


def profile(
    client: Client,
    dataset: Dataset,
    epsilon: float | None = None,
    delta: Delta = None,
    bins: Bins = None,
    quote: QuoteOnly = False,
    out: OutFile = None,
) -> Output:
    """Release or show a summary of all columns.

    A profile has noisy counts, means, spreads and quantiles. Only its release is charged, and jobs may use it for free.

    Parameters
    ----------
    epsilon : Release a new profile at this price. Default: show the latest.

    \b
    Examples:
      purse stats profile census --epsilon 0.1    # charges the budget
      purse stats profile census                  # shows the latest one for free
      purse submit census --target income --epsilon 0.5 --preparation profile
    """
    if epsilon is not None:
        release = ReleaseOptions(epsilon, delta, quote, out)
        return _statistic(client, dataset, None, release, name="profile", bins=bins)
    latest = client.datasets.get(dataset).profile
    if latest is None or quote:
        raise Refusal("No profile of this dataset has been released. Give its price with --epsilon.")
    return release_output(client.jobs.profile(latest), out)


def evaluate(
    client: Client, model: str, release: ReleaseOptions, bins: int | None = None, clip: float | None = None
) -> Output:
    """Measure a model on the holdout set.

    The result contains noise, and uses the budget of the holdout set.

    Parameters
    ----------
    model : Id of the job that trained the model.
    bins : Number of equal parts of the score or of the residual.
    clip : Bound to which residuals are clipped, in halves of the target's range. Default: 0.5.

    \b
    Examples:
      purse evaluate job_k3v9 --epsilon 0.5
      purse evaluate job_k3v9 --epsilon 0.5 --quote
    """
    return _released(client, release, {"model": model} | without_none(bins=bins, clip=clip))


def _statistic(
    client: Client, dataset: str, columns: list[str] | None, release: ReleaseOptions, **method: Any
) -> Output:
    """Release or price a statistic. Options of the method without a value are left out."""
    request = {"dataset": dataset, "method": without_none(**method), "columns": columns or None}
    return _released(client, release, request)


def _released(client: Client, release: ReleaseOptions, request: dict[str, Any]) -> Output:
    """Release the result of a request, or only price it."""
    request = without_none(**request, privacy=release.fields)
    if release.quote:
        return price_output(client.quote(**request))
    if "model" in request:
        return release_output(client.jobs.evaluate(request.pop("model"), **request).evaluation(), release.out)
    job = client.jobs.submit(**request)
    return release_output(job.profile() if job.job.kind == "profile" else job.statistic(), release.out)
