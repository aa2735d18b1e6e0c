"""purse evaluate."""

from typing import Annotated, Any

import typer

from app.cli.jobs import price_output
from app.cli.options import Job, Json, Release
from app.cli.output import Output, release_output, size
from purse import Client, text
from purse.wire.evaluations import ManyClasses, Measured, Residuals, TwoClasses

_SHOWN_THRESHOLDS = 9


def evaluate(
    client: Client,
    json: Json,
    model: Job,
    release: Release,
    bins: Annotated[int | None, typer.Option(help="Number of equal parts of the score or of the residual.")] = None,
    clip: Annotated[
        float | None,
        typer.Option(help="Bound to which residuals are clipped, in halves of the target's range. Default: 0.5."),
    ] = None,
) -> Output:
    """Measure a model on the holdout set.

    The result contains noise. The budget of the holdout set pays for it.

    \b
    Examples:
      purse evaluate job_k3v9 --epsilon 0.5
      purse evaluate job_k3v9 --epsilon 0.5 --quote
    """
    request: dict[str, Any] = {"privacy": release.fields}
    request |= {name: value for name, value in (("bins", bins), ("clip", clip)) if value is not None}
    if release.quote:
        return price_output(client.quote(model=model, **request))
    released = client.jobs.evaluate(model, **request).evaluation(progress=False if json else None)
    records = f"{size(released.privacy)} of the holdout set"
    heading = ("evaluation", f"{released.job}, of {released.model} on {records}")
    return release_output(released, heading, _text(released.result), release.out)


def _text(result: TwoClasses | ManyClasses | Residuals) -> str:
    measures: list[tuple[str, Measured | None]]
    match result:
        case TwoClasses():
            measures = [("accuracy", result.accuracy), ("AUC", result.auc), ("log loss", result.log_loss)]
        case ManyClasses():
            recalls = zip(result.classes, result.recall, strict=True)
            measures = [("accuracy", result.accuracy), *((f"recall of {name}", each) for name, each in recalls)]
        case Residuals():
            measures = [
                ("mean squared error", result.mean_squared_error),
                ("mean absolute error", result.mean_absolute_error),
            ]
    rows = [(name, *_ranges(each)) for name, each in measures if each is not None]
    parts = [text.table(("measure", "value", "noise and sampling", "noise alone"), rows)]
    if isinstance(result, TwoClasses):
        thresholds = result.thresholds[:: max(1, len(result.thresholds) // _SHOWN_THRESHOLDS)]
        headings = ("threshold", "true positive rate", "false positive rate", "accuracy")
        rates = [
            (each.threshold, *map(_range, (each.true_positive_rate, each.false_positive_rate, each.accuracy)))
            for each in thresholds
        ]
        parts.append(text.table(headings, rates))
    return "\n".join(parts)


def _ranges(measure: Measured) -> tuple[str, str, str]:
    return (
        f"{measure.value:.4g}",
        f"{measure.low:.4g} to {measure.high:.4g}",
        f"{measure.noise_low:.4g} to {measure.noise_high:.4g}",
    )


def _range(measure: Measured) -> str:
    return f"{measure.value:.3g} [{measure.low:.3g}, {measure.high:.3g}]"
