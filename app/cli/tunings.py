"""purse tune."""

from typing import Annotated, Any

import typer

from app.cli.jobs import job_output, price_output
from app.cli.options import Dataset, Json, Key, OptionalFile, Positive, Price, QuoteOnly, Target, Wait
from app.cli.output import Output, read_json
from purse import Client
from purse.client.requests import without_none


def tune(
    client: Client,
    json: Json,
    dataset: Dataset,
    target: Target,
    price: Price,
    method: list[str] | None = None,
    candidates: OptionalFile = None,
    repeats: Annotated[int | None, typer.Option(min=1)] = None,
    positive: Positive = None,
    quote: QuoteOnly = False,
    wait: Wait = False,
    idempotency_key: Key = None,
) -> Output:
    """Train several candidates at one price and keep the best.

    Parameters
    ----------
    method : A candidate, by the name of its method. Repeatable.
    candidates : JSON list of candidates: objects with method, regularizer, domain, preparation, slope_limit.
    repeats : Number of runs of each candidate. Default: 2.

    \b
    Examples:
      purse tune census --target income --epsilon 1 --method dp_gd --method output_perturbation --wait
      purse tune census --target income --epsilon 1 --candidates candidates.json --repeats 3 --quote
    """
    listed = [] if candidates is None else read_json(candidates)
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise typer.BadParameter(f"{candidates} must contain a JSON list of objects")
    trials: list[Any] = [*({"method": {"name": name}} for name in method or ()), *listed]
    if not trials:
        raise typer.BadParameter("name a candidate with --method or --candidates")
    request: dict[str, Any] = {"target": target, "candidates": trials, "privacy": price.fields}
    request |= without_none(repeats=repeats, positive=positive)
    if quote:
        return price_output(client.quote(dataset=dataset, **request))
    job = client.jobs.tune(dataset=dataset, idempotency_key=idempotency_key, **request)
    if wait:
        job.wait(progress=False if json else None)
    return job_output(job.job)
