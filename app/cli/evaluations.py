"""purse evaluate."""

from app.cli.jobs import price_output
from app.cli.options import Json, Release
from app.cli.output import Output, release_output
from purse import Client
from purse.client.requests import without_none


def evaluate(
    client: Client, json: Json, model: str, release: Release, bins: int | None = None, clip: float | None = None
) -> Output:
    """Measure a model on the holdout set.

    The result contains noise. The budget of the holdout set pays for it.

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
    request = {"privacy": release.fields} | without_none(bins=bins, clip=clip)
    if release.quote:
        return price_output(client.quote(model=model, **request))
    released = client.jobs.evaluate(model, **request).evaluation(progress=False if json else None)
    return release_output(released, release.out, f" of the holdout set, for {released.model}")
