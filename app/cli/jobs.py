"""purse quote, submit, jobs, model."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from app.cli.common import (
    DEFAULT_URL,
    Delta,
    Epsilon,
    Job,
    Json,
    Key,
    OldestFirst,
    Url,
    Wait,
    connect,
    emit,
    facts,
    loss,
    note,
    percent,
    read_json,
    table,
    write_json,
)
from app.cli.common import Dataset as DatasetName
from purse import text
from purse.names import DOMAINS, LOSSES, METHODS, REGULARIZERS
from purse.wire import jobs as wire
from purse.wire.neighbors import lines

Target = Annotated[str, typer.Option("--target", "-t", help="The declared column to predict.")]
Method = Annotated[str | None, typer.Option("--method", "-m", help=f"{', '.join(METHODS)}; auto if left out.")]
Positive = Annotated[
    str | None, typer.Option(help="For a category target: the class to tell from the rest; softmax tells all apart.")
]
More = Annotated[
    Path | None,
    typer.Option(
        "--with",
        exists=True,
        dir_okay=False,
        help=f"JSON object: more of the request, such as a loss ({', '.join(LOSSES)}), a regularizer "
        f"({', '.join(REGULARIZERS)}), a domain ({', '.join(DOMAINS)}).",
    ),
]
SlopeLimit = Annotated[
    float | None,
    typer.Option(help="Shorten each record's slope to this share of the loss's bound; if left out, by a public rule."),
]
Preparation = Annotated[
    str | None,
    typer.Option(
        help="private, declared, profile (the dataset's latest) or profile:JOB; if left out, private where it fits."
    ),
]


class Listing(TyperGroup):
    """`purse jobs --state done` is `purse jobs list --state done`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_listing = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        return super().parse_args(ctx, ["list", *args] if is_listing else args)


group = typer.Typer(cls=Listing, help="List, show, follow and cancel jobs; a list, if nothing else is said.")


def request(
    target: str,
    epsilon: float,
    delta: float | None,
    method: str | None,
    positive: str | None,
    more: Path | None,
    preparation: str | None = None,
    slope_limit: float | None = None,
) -> dict[str, Any]:
    """The job request that the options amount to, its dataset aside."""
    rest = {} if more is None else read_json(more)
    if not isinstance(rest, dict):
        raise typer.BadParameter(f"{more} must hold a JSON object")
    privacy = {"epsilon": epsilon} | ({} if delta is None else {"delta": delta})
    given: dict[str, Any] = {"method": method and {"name": method}, "positive": positive, "slope_limit": slope_limit}
    name, _, job = (preparation or "").partition(":")
    given["preparation"] = {"name": name} | ({"job": job} if job else {}) if name else None
    return {"target": target, "privacy": privacy, **rest, **{k: v for k, v in given.items() if v is not None}}


def quote(
    dataset: DatasetName,
    target: Target,
    epsilon: Epsilon,
    delta: Delta = None,
    method: Method = None,
    positive: Positive = None,
    more: More = None,
    preparation: Preparation = None,
    slope_limit: SlopeLimit = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """What a job would cost. Touches no data, charges nothing.

    \b
    Example:
      purse quote census --target income --epsilon 0.5 --method dp_svrg
    """
    asked = request(target, epsilon, delta, method, positive, more, preparation, slope_limit)
    with connect(url) as client:
        price = client.quote(dataset=dataset, **asked)
    emit(price, json, lambda: show_quote(price))


def submit(
    dataset: DatasetName,
    target: Target,
    epsilon: Epsilon,
    delta: Delta = None,
    method: Method = None,
    positive: Positive = None,
    more: More = None,
    preparation: Preparation = None,
    slope_limit: SlopeLimit = None,
    wait: Wait = False,
    key: Key = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Charge the budget and train a private model.

    \b
    Examples:
      purse submit census --target income --epsilon 0.5 --wait
      purse submit census --target income --epsilon 0.5 --method dp_gd --with request.json
    """
    asked = request(target, epsilon, delta, method, positive, more, preparation, slope_limit)
    with connect(url) as client:
        job = client.jobs.submit(dataset=dataset, idempotency_key=key, **asked)
        if wait:
            job.wait(progress=False if json else None)
        emit(job.job, json, lambda: show_job(job.job))


@group.command("list")
def list_jobs(
    dataset: Annotated[str | None, typer.Option(help="Only those on this dataset, by id or name.")] = None,
    state: Annotated[wire.JobState | None, typer.Option(help="Only those in this state.")] = None,
    method: Annotated[str | None, typer.Option("--method", "-m", help="Only those of this method.")] = None,
    kind: Annotated[wire.JobKind | None, typer.Option(help="Only those that release this.")] = None,
    analyst: Annotated[str | None, typer.Option(help="Only this analyst's, by name or id.")] = None,
    since: Annotated[str | None, typer.Option(help="Only those submitted from this day or time (UTC) on.")] = None,
    until: Annotated[str | None, typer.Option(help="Only those submitted before this day or time (UTC).")] = None,
    oldest_first: OldestFirst = False,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """The jobs that this token may see, the newest first.

    \b
    Examples:
      purse jobs
      purse jobs --state done --dataset visits
      purse jobs list --since 2026-11-01 --analyst ada --json
    """
    with connect(url) as client:
        found = client.jobs.list(
            dataset=dataset,
            state=state,
            method=method,
            kind=kind,
            analyst=analyst,
            since=since,
            until=until,
            order="asc" if oldest_first else "desc",
        )
    rows = [(j.id, j.dataset, j.analyst, j.state, _steps(j), j.quote.method.name, _price(j.quote)) for j in found]
    emit(found, json, lambda: table(("id", "dataset", "analyst", "state", "steps", "method", "privacy"), rows))


@group.command("show")
def show(job: Job, url: Url = DEFAULT_URL, json: Json = False) -> None:
    """One job's state and price.

    \b
    Example:
      purse jobs show job_abc
    """
    with connect(url) as client:
        found = client.jobs.get(job).job
    emit(found, json, lambda: show_job(found))


@group.command("wait")
def wait_for(job: Job, url: Url = DEFAULT_URL, json: Json = False) -> None:
    """Stay until the job is finished; exit code 1 if it released nothing.

    \b
    Example:
      purse jobs wait job_abc
    """
    with connect(url) as client:
        handle = client.jobs.get(job)
        handle.wait(progress=False if json else None)
    emit(handle.job, json, lambda: show_job(handle.job))


@group.command("cancel")
def cancel(job: Job, url: Url = DEFAULT_URL, json: Json = False) -> None:
    """Cancel a job. Its charge comes back only if it has not started.

    \b
    Example:
      purse jobs cancel job_abc
    """
    with connect(url) as client:
        found = client.jobs.get(job).cancel()
    emit(found, json, lambda: show_job(found))


def model(
    job: Job,
    target: Annotated[Path | None, typer.Option("--out", "-o", help="Write it to this file.")] = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """The model that a job released, as JSON.

    \b
    Example:
      purse model job_abc --out model.json
    """
    with connect(url) as client:
        found = client.jobs.model(job)
    if target is not None:
        note(f"wrote {write_json(target, found)}")
    emit(found, json, lambda: sys.stdout.write(found.summary()))


def show_quote(price: wire.Quote) -> None:
    """A price for people."""
    facts(
        [
            ("method", f"{price.method.name}: {price.reason}"),
            *_prepared(price.preparation),
            *([] if price.slope_limit == 1 else [("slopes", f"limited to {price.slope_limit:g} of their bound")]),
            ("privacy", f"{_price(price)}, certified by {price.accountant}"),
            *lines(price.neighbors, price.epsilon, price.delta),
            (f"{price.unit.name}s, dimension", f"{price.rows or price.persons}, {price.dimension}"),
            ("protected", price.unit),
            ("gradients", f"{price.gradient_evaluations:.3g}"),
            *_expected(price.forecast),
            *([] if price.share is None else [("takes", f"{percent(price.share)} of the budget")]),
            ("remains now", loss(price.remaining)),
            ("remains after", loss(price.remaining_after) if price.fits else "does not fit"),
        ]
    )
    rows = [(q.name, q.answers, _mechanism(q.mechanism), q.noise_multiplier, q.noise_std) for q in price.queries]
    table(("query", "answers", "mechanism", "noise multiplier", "noise std"), rows)
    for warning in price.warnings:
        note(f"warning: {warning}")


def _prepared(preparation: wire.Prepared | None) -> list[tuple[str, str]]:
    """How rows are prepared, as lines."""
    if preparation is None:
        return []
    used = "" if preparation.profile is None else f" {preparation.profile.job}"
    return [("preparation", f"{preparation.name}{used} ({preparation.reason}): {preparation.statement}")]


def _expected(forecast: wire.Forecast | None) -> list[tuple[str, str]]:
    """What a quote forecasts, as lines."""
    if forecast is None:
        return []
    return [("takes about", f"{forecast.seconds:.2g} s on an idle core"), ("forecast", forecast.statement)]


def show_job(job: wire.Job) -> None:
    """A job for people."""
    share = job.quote.share
    facts(
        [
            ("job", job.id),
            ("state", f"{job.state}{f' ({job.error})' if job.error else ''}"),
            ("steps", _steps(job)),
            ("method", job.quote.method.name),
            ("charged", _price(job.quote) + ("" if share is None else f", {percent(share)} of the budget")),
            *lines(job.quote.neighbors, job.quote.epsilon, job.quote.delta),
        ]
    )


def _price(price: wire.Quote) -> str:
    return f"epsilon {price.epsilon:.6g} at delta {price.delta:.3g}"


def _steps(job: wire.Job) -> str:
    return f"{job.progress.done}/{job.progress.total}"


def _mechanism(mechanism: dict[str, object]) -> str:
    rest = ", ".join(f"{name} {text.number(value)}" for name, value in mechanism.items() if name != "name")
    return str(mechanism.get("name")) + (f" ({rest})" if rest else "")
