"""purse evaluate."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from accounting.privacy import Unit
from app.cli.common import (
    DEFAULT_URL,
    Delta,
    Epsilon,
    Job,
    Json,
    Quoted,
    Url,
    connect,
    emit,
    facts,
    note,
    table,
    write_json,
)
from app.cli.jobs import show_quote
from purse.wire.evaluations import ManyClasses, Measured, ReleasedEvaluation, Residuals, TwoClasses
from purse.wire.neighbors import lines

_SHOWN = 9  # thresholds of a ROC


def evaluate(
    model: Job,
    epsilon: Epsilon,
    delta: Delta = None,
    bins: Annotated[int | None, typer.Option(help="Even: of the score, or of the residual.")] = None,
    clip: Annotated[
        float | None, typer.Option(help="Of residuals, in halves of the target's declared range: 0.5 if left out.")
    ] = None,
    quote: Quoted = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write it to this file, as JSON.")] = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """How well a job's model does on the part that was kept out of its dataset, with noise.

    \b
    Examples:
      purse evaluate job_k3v9 --epsilon 0.5
      purse evaluate job_k3v9 --epsilon 0.5 --quote
    """
    asked: dict[str, Any] = {"privacy": {"epsilon": epsilon} | ({} if delta is None else {"delta": delta})}
    asked |= {name: value for name, value in (("bins", bins), ("clip", clip)) if value is not None}
    with connect(url) as client:
        if quote:
            told = client.quote(model=model, **asked)
            emit(told, json, lambda: show_quote(told))
            return
        released = client.jobs.evaluate(model, **asked).evaluation(progress=False if json else None)
    if out is not None:
        note(f"wrote {write_json(out, released)}")
    emit(released, json, lambda: show_evaluation(released))


def show_evaluation(found: ReleasedEvaluation) -> None:
    """An evaluation for people."""
    privacy, result = found.privacy, found.result
    unit = (privacy.unit or Unit()).name
    facts(
        [
            ("evaluation", f"{found.job}, of {found.model} on {privacy.rows or privacy.persons} {unit}s kept out"),
            ("privacy", f"epsilon {privacy.epsilon:.6g} at delta {privacy.delta:.3g}"),
            *lines(privacy.neighbors, privacy.epsilon, privacy.delta),
        ]
    )
    sys.stdout.write("\n")
    rows: list[tuple[str, Measured | None]]
    match result:
        case TwoClasses():
            rows = [("accuracy", result.accuracy), ("AUC", result.auc), ("log loss", result.log_loss)]
        case ManyClasses():
            named = zip(result.classes, result.recall, strict=True)
            rows = [("accuracy", result.accuracy), *((f"recall of {name}", one) for name, one in named)]
        case Residuals():
            rows = [("mean squared error", result.mean_squared_error), ("mean absolute", result.mean_absolute_error)]
    table(("measure", "value", "noise and sampling", "noise alone"), [(n, *_ends(m)) for n, m in rows if m is not None])
    if isinstance(result, TwoClasses):
        some = result.thresholds[:: max(1, len(result.thresholds) // _SHOWN)]
        heads = ("threshold", "true positive rate", "false positive rate", "accuracy")
        cells = [(t.true_positive_rate, t.false_positive_rate, t.accuracy) for t in some]
        table(heads, [(t.threshold, *(_around(one) for one in row)) for t, row in zip(some, cells, strict=True)])


def _ends(one: Measured) -> tuple[str, str, str]:
    return f"{one.value:.4g}", f"{one.low:.4g} to {one.high:.4g}", f"{one.noise_low:.4g} to {one.noise_high:.4g}"


def _around(one: Measured) -> str:
    return f"{one.value:.3g} [{one.low:.3g}, {one.high:.3g}]"
