"""purse profile."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from accounting.privacy import Unit
from app.cli.common import (
    DEFAULT_URL,
    Dataset,
    Delta,
    Json,
    Refusal,
    Url,
    connect,
    emit,
    facts,
    note,
    table,
    write_json,
)
from app.cli.jobs import show_quote
from purse.wire.neighbors import lines
from purse.wire.profiles import ColumnProfile, DatasetProfile, Interval


def profile(
    dataset: Dataset,
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", "-e", help="Release a new one at this price; else the latest is shown.")
    ] = None,
    delta: Delta = None,
    bins: Annotated[int | None, typer.Option(help="How many bins each number's range is counted in.")] = None,
    only_quote: Annotated[bool, typer.Option("--quote", help="What a new one would cost; charges nothing.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write it to this file.")] = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """A dataset's columns: counts, means, spread and quantiles, with noise. Released once, free for every job after.

    \b
    Examples:
      purse profile census --epsilon 0.1                  # charges the budget
      purse profile census                                # the latest: free
      purse submit census --target income --epsilon 0.5 --preparation profile
    """
    with connect(url) as client:
        found = dataset
        if epsilon is None:
            latest = client.datasets.get(found).profile
            if latest is None or only_quote:
                raise Refusal("no profile was released of this dataset yet: name its price, --epsilon")
            released = client.jobs.profile(latest)
        else:
            method = {"name": "profile"} | ({} if bins is None else {"bins": bins})
            privacy = {"epsilon": epsilon} | ({} if delta is None else {"delta": delta})
            if only_quote:
                price = client.quote(dataset=found, privacy=privacy, method=method)
                return emit(price, json, lambda: show_quote(price))
            job = client.jobs.submit(dataset=found, privacy=privacy, method=method)
            released = job.profile(progress=False if json else None)
    if out is not None:
        note(f"wrote {write_json(out, released)}")
    return emit(released, json, lambda: show_profile(released))


def show_profile(found: DatasetProfile) -> None:
    """A profile for people: each number in a line, each category in a table of its values."""
    privacy = found.privacy
    facts(
        [
            ("profile", f"{found.job}, of {privacy.rows or privacy.persons} {(privacy.unit or Unit()).name}s"),
            ("privacy", f"epsilon {privacy.epsilon:.6g} at delta {privacy.delta:.3g}"),
            *lines(privacy.neighbors, privacy.epsilon, privacy.delta),
        ]
    )
    numbers = [told for told in found.columns if told.edges is not None]
    if numbers:
        sys.stdout.write("\n")
        table(("number", "mean", "std", "median", "5 %", "95 %"), [_line(told) for told in numbers])
    for told in found.columns:
        if told.column.type == "category":
            sys.stdout.write("\n")
            values = zip([*told.column.categories, "(other)"], told.counts, strict=True)
            heads = (told.column.name, f"records (noise std {told.counts_noise_std:.3g})")
            table(heads, [(value, f"{count:.0f}") for value, count in values])


def _line(told: ColumnProfile) -> tuple[str, ...]:
    at = {quantile.share: quantile.at for quantile in told.quantiles or ()}
    cells = (told.mean, told.std, at.get(0.5), at.get(0.05), at.get(0.95))
    return (told.column.name, *(between(cell) for cell in cells))


def between(found: Interval | None) -> str:
    """A number and its interval."""
    return "-" if found is None else f"{found.value:.5g} [{found.low:.5g}, {found.high:.5g}]"
