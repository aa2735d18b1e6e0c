"""purse tune."""

from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.common import DEFAULT_URL, Dataset, Delta, Epsilon, Json, Key, Quoted, Url, Wait, connect, emit, read_json
from app.cli.jobs import Positive, Target, show_job, show_quote
from purse.names import METHODS


def tune(
    dataset: Dataset,
    target: Target,
    epsilon: Epsilon,
    delta: Delta = None,
    method: Annotated[
        list[str] | None, typer.Option("--method", "-m", help=f"A candidate, its settings open: {', '.join(METHODS)}.")
    ] = None,
    candidates: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="JSON list of more: objects with method, regularizer, domain, preparation, slope_limit.",
        ),
    ] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="How often each is tried; 2 if left out.")] = None,
    positive: Positive = None,
    quote: Quoted = False,
    wait: Wait = False,
    key: Key = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Train models in several ways at one price, and keep the best.

    \b
    Examples:
      purse tune census --target income --epsilon 1 --method dp_gd --method output_perturbation --wait
      purse tune census --target income --epsilon 1 --candidates candidates.json --repeats 3 --quote
    """
    more = [] if candidates is None else read_json(candidates)
    if not isinstance(more, list) or not all(isinstance(each, dict) for each in more):
        raise typer.BadParameter(f"{candidates} must hold a JSON list of objects")
    tried: list[Any] = [*({"method": {"name": name}} for name in method or ()), *more]
    if not tried:
        raise typer.BadParameter("name a candidate: --method or --candidates")
    privacy = {"epsilon": epsilon} | ({} if delta is None else {"delta": delta})
    given = {"repeats": repeats, "positive": positive}
    asked: dict[str, Any] = {"target": target, "candidates": tried, "privacy": privacy}
    asked |= {name: value for name, value in given.items() if value is not None}
    with connect(url) as client:
        if quote:
            price = client.quote(dataset=dataset, **asked)
            emit(price, json, lambda: show_quote(price))
            return
        job = client.jobs.tune(dataset=dataset, idempotency_key=key, **asked)
        if wait:
            job.wait(progress=False if json else None)
        emit(job.job, json, lambda: show_job(job.job))
