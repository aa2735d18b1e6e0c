"""purse quote, submit, tune, jobs, model."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from app.cli.options import (
    Dataset,
    Explain,
    Job,
    Key,
    OldestFirst,
    OptionalFile,
    OutFile,
    Positive,
    PrivacyOptions,
    QuoteOnly,
    Target,
    Training,
    Wait,
)
from app.cli.output import Output, loss, neighbors, read_json, write_json
from purse import Client, text
from purse.client.requests import without_none
from purse.wire import jobs as wire
from purse.wire.inference import EXPECTED_IF, ExpectedTable

_BASES = {
    "exact": "exact",
    "worst_case": "at most",
    "profile": "by the profile",
    "typical": "if values are spread evenly",
}


def quote(
    client: Client, dataset: Dataset, training: Training, price: PrivacyOptions, explain: Explain = False
) -> Output:
    """Show the price of a job and charge nothing.

    A quote reads no data.

    \b
    Example:
      purse quote census --target income --epsilon 0.5 --method dp_svrg
    """
    request = {"privacy": price.fields} | training.fields
    return price_output(client.quote(dataset=dataset, **request), explain)


def submit(
    client: Client,
    dataset: Dataset,
    training: Training,
    price: PrivacyOptions,
    wait: Wait = False,
    idempotency_key: Key = None,
) -> Output:
    """Charge the budget and train a private model.

    \b
    Examples:
      purse submit census --target income --epsilon 0.5 --wait
      purse submit census --target income --epsilon 0.5 --with request.json
      purse submit census --target income --epsilon 2 --inference --wait
    """
    request = {"privacy": price.fields} | training.fields
    job = client.jobs.submit(dataset=dataset, idempotency_key=idempotency_key, **request)
    if wait:
        job.wait()
    return job_output(job.job)


def tune(
    client: Client,
    dataset: Dataset,
    target: Target,
    price: PrivacyOptions,
    method: list[str] | None = None,
    candidates: OptionalFile = None,
    repeats: Annotated[int | None, typer.Option(min=1)] = None,
    positive: Positive = None,
    quote: QuoteOnly = False,
    wait: Wait = False,
    idempotency_key: Key = None,
) -> Output:
    """Train several candidates and keep the best.

    Parameters
    ----------
    method : A candidate, by the name of its method. Repeatable.
    candidates : JSON list of candidates: objects with method, regularizer, domain, preparation, slope_limit.
    repeats : Runs of each candidate. Default: 2.

    \b
    Examples:
      purse tune census --target income --epsilon 1 -m dp_gd -m adaptive_gd --wait
      purse tune census --target income --epsilon 1 --candidates candidates.json \\
        --repeats 3 --quote
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
        job.wait()
    return job_output(job.job)


def list_jobs(
    client: Client,
    dataset: str | None = None,
    state: wire.JobState | None = None,
    method: str | None = None,
    kind: wire.JobKind | None = None,
    analyst: str | None = None,
    since: str | None = None,
    until: str | None = None,
    oldest_first: OldestFirst = False,
) -> Output:
    """List the jobs that you may see.

    The newest job comes first.

    Parameters
    ----------
    dataset : List only jobs on this dataset, by id or name.
    state : List only jobs in this state.
    method : List only jobs of this method.
    kind : List only jobs that release this kind of result.
    analyst : List only this analyst's jobs, by name or id.
    since : List only jobs submitted at this day or time (UTC) or later.
    until : List only jobs submitted before this day or time (UTC).

    \b
    Examples:
      purse jobs
      purse jobs --state done --dataset visits
      purse jobs list --since 2026-11-01 --analyst ada --json
    """
    jobs = client.jobs.list(
        dataset=dataset,
        state=state,
        method=method,
        kind=kind,
        analyst=analyst,
        since=since,
        until=until,
        order="asc" if oldest_first else "desc",
    )
    names = _dataset_names(client) if jobs else {}
    rows = [
        (
            each.id,
            each.quote.title or each.kind,
            names.get(each.dataset, each.dataset),
            each.analyst,
            each.state,
            each.quote.epsilon,
            "-" if each.share is None else text.percent(each.share),
        )
        for each in jobs
    ]
    return Output(jobs, text.table(("id", "job", "dataset", "analyst", "state", "epsilon", "share"), rows))


def show(client: Client, job: Job) -> Output:
    """Show the state and price of a job.

    \b
    Example:
      purse jobs show job_abc
    """
    described = client.jobs.get(job).job
    origin = [
        ("title", described.quote.title or described.kind),
        ("dataset", _dataset_names(client).get(described.dataset, described.dataset)),
        ("analyst", described.analyst),
        ("submitted", described.created_at),
    ]
    return job_output(described, origin)


def _dataset_names(client: Client) -> dict[str, str]:
    """Return the names of the datasets that the caller may see, by their ids."""
    return {each.id: each.name for each in client.datasets.list(columns=False)}


def wait_for(client: Client, job: Job) -> Output:
    """Wait until a job ends.

    The exit code is 1 if the job failed or was cancelled.

    \b
    Example:
      purse jobs wait job_abc
    """
    handle = client.jobs.get(job)
    handle.wait()
    return job_output(handle.job)


def cancel(client: Client, job: Job) -> Output:
    """Cancel a job.

    The charge is refunded only if the job has not started.

    \b
    Example:
      purse jobs cancel job_abc
    """
    return job_output(client.jobs.get(job).cancel())


def model(client: Client, job: Job, out: OutFile = None) -> Output:
    """Show or save the model of a job.

    \b
    Example:
      purse model job_abc --out model.json
    """
    released = client.jobs.model(job)
    return Output(released, released.summary(), [] if out is None else [write_json(out, released)])


def price_output(price: wire.Quote, explain: bool = False) -> Output:
    """Return a price as the result of a command."""
    size = f"{price.rows or price.persons:,} and {price.dimension:,}"
    is_model = price.interval_width is None
    facts: list[tuple[str, object]] = [("method", f"{price.method.name}: {price.reason}")]
    if is_model:
        profile = price.preparation.profile
        of_profile = "" if profile is None else f"profile {profile.job}: "
        facts.append(("preparation", of_profile + price.preparation.statement))
    if price.slope_limit != 1:
        facts.append(("slopes", f"clipped to {price.slope_limit:g} of their bound"))
    facts += [
        ("privacy", f"{text.loss(price.epsilon, price.delta)}, certified by {price.accountant}"),
        neighbors(price, explain),
        (f"{price.unit.name}s, dimension", size),
        ("protected", price.unit),
    ]
    if is_model:
        facts.append(("gradients", text.amount(price.gradient_evaluations)))
    facts.append(("duration", f"about {price.forecast.seconds:.2g} s on an idle core"))
    if price.expected_table is not None:
        table = price.expected_table
        width = f"intervals about {table.width_ratio:.2g} times as wide as without privacy"
        resolved = f"about {table.resolved:.0f} of {table.coefficients} coefficients resolved, {EXPECTED_IF}"
        facts.append(("table", f"{width}, {resolved}"))
    elif is_model:
        facts.append(("forecast", price.forecast.statement))
    if price.share is not None:
        facts.append(("uses", f"{text.percent(price.share)} of the budget"))
    facts += [
        ("remains now", loss(price.remaining)),
        ("remains after", loss(price.remaining_after) if price.fits else "does not fit"),
    ]
    rows = [(q.name, q.answers, _mechanism(q.mechanism), q.noise_multiplier, q.noise_std) for q in price.queries]
    tables = text.table(("query", "answers", "mechanism", "noise multiplier", "noise std"), rows)
    if price.interval_width:
        widths = [(each.answer, each.column or "", each.width, _BASES[each.basis]) for each in price.interval_width]
        tables += "\n" + text.table(("answer", "column", "95 % interval width", "basis"), widths)
    if price.expected_table is not None:
        tables += "\n" + _expected_widths(price.expected_table)
    return Output(price, text.facts(facts) + tables, [f"warning: {warning}" for warning in price.warnings])


def _expected_widths(expected: ExpectedTable) -> str:
    """Return the expected widths of a regression table at several epsilons, as text."""
    rows = [
        (
            f"{at.epsilon:g}",
            "refused" if at.width_ratio is None else f"{at.width_ratio:.2g} times",
            f"{at.resolved:.0f} of {expected.coefficients}",
        )
        for at in expected.at
    ]
    return text.table(("at epsilon", "interval width", "resolved"), rows)


def job_output(job: wire.Job, origin: Sequence[tuple[str, object]] = ()) -> Output:
    """Return a job as the result of a command, with further facts about its origin."""
    uses = "" if job.share is None else f", uses {text.percent(job.share)} of the budget"
    facts = [
        ("job", job.id),
        *origin,
        ("state", f"{job.state} ({job.error})" if job.error else job.state),
        ("steps", f"{job.progress.done:,}/{job.progress.total:,}"),
        ("method", job.quote.method.name),
        ("charged", text.loss(job.quote.epsilon, job.quote.delta) + uses),
        ("neighbors", job.quote.neighbors),
    ]
    return Output(job, text.facts(facts))


def _mechanism(mechanism: dict[str, object]) -> str:
    parameters = ", ".join(f"{name} {text.number(value)}" for name, value in mechanism.items() if name != "name")
    return str(mechanism.get("name")) + (f" ({parameters})" if parameters else "")
