"""purse stats profile."""

from collections.abc import Iterator
from typing import Annotated

import typer

from app.cli.jobs import price_output
from app.cli.options import Bins, Dataset, Delta, Json, OutFile, Price, QuoteOnly
from app.cli.output import Output, Refusal, release_output, size
from purse import Client, text
from purse.wire.profiles import ColumnProfile, DatasetProfile, Interval


def profile(
    client: Client,
    json: Json,
    dataset: Dataset,
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", "-e", help="Release a new profile at this price. Default: show the latest."),
    ] = None,
    delta: Delta = None,
    bins: Bins = None,
    quote: QuoteOnly = False,
    out: OutFile = None,
) -> Output:
    """Release or show a summary of all columns.

    A profile has noisy counts, means, spreads and quantiles. Only its release is charged, and jobs may use it for free.

    \b
    Examples:
      purse stats profile census --epsilon 0.1      # charges the budget
      purse stats profile census                    # shows the latest profile for free
      purse submit census --target income --epsilon 0.5 --preparation profile
    """
    if epsilon is None:
        latest = client.datasets.get(dataset).profile
        if latest is None or quote:
            raise Refusal("No profile of this dataset has been released. Give its price with --epsilon.")
        released = client.jobs.profile(latest)
    else:
        method = {"name": "profile"} | ({} if bins is None else {"bins": bins})
        privacy = Price(epsilon, delta).fields
        if quote:
            return price_output(client.quote(dataset=dataset, privacy=privacy, method=method))
        job = client.jobs.submit(dataset=dataset, privacy=privacy, method=method)
        released = job.profile(progress=False if json else None)
    heading = ("profile", f"{released.job}, {size(released.privacy)}")
    return release_output(released, heading, _text(released), out)


def _text(released: DatasetProfile) -> str:
    """Return a profile as text: a line for each number, and a table for each category."""
    parts = []
    numbers = [row for column in released.columns if column.edges is not None for row in _rows(column)]
    if numbers:
        parts.append(text.table(("number", "statistic", "value", "95 % interval"), numbers))
    for each in released.columns:
        if each.column.type == "category":
            names = [*each.column.categories, "(other)"]
            headings = (each.column.name, f"records (noise std {each.counts_noise_std:.3g})")
            rows = [(name, f"{count:.0f}") for name, count in zip(names, each.counts, strict=True)]
            parts.append(text.table(headings, rows))
    return "\n".join(parts)


def _rows(column: ColumnProfile) -> Iterator[tuple[str, ...]]:
    """Yield a row for each statistic of a number."""
    quantiles = {quantile.share: quantile.at for quantile in column.quantiles or ()}
    statistics = {"mean": column.mean, "std": column.std, "median": quantiles.get(0.5)}
    statistics |= {"5 % quantile": quantiles.get(0.05), "95 % quantile": quantiles.get(0.95)}
    for name, value in statistics.items():
        if value is not None:
            ends = f"{text.number(value.low)} to {text.number(value.high)}"
            yield column.column.name, name, text.number(value.value), ends


def interval(value: Interval) -> str:
    """Return a number and its interval as text."""
    return f"{text.number(value.value)} [{text.number(value.low)}, {text.number(value.high)}]"
