"""purse stats profile."""

from app.cli.jobs import price_output
from app.cli.options import Bins, Dataset, Delta, Json, OutFile, Price, QuoteOnly
from app.cli.output import Output, Refusal, release_output
from purse import Client
from purse.client.requests import without_none


def profile(
    client: Client,
    json: Json,
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
        method = without_none(name="profile", bins=bins)
        privacy = Price(epsilon, delta).fields
        if quote:
            return price_output(client.quote(dataset=dataset, privacy=privacy, method=method))
        job = client.jobs.submit(dataset=dataset, privacy=privacy, method=method)
        released = job.profile(progress=False if json else None)
    return release_output(released, out)
