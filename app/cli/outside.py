"""purse charge, purse calibrate."""

from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.common import DEFAULT_URL, Dataset, Json, Refusal, Url, connect, emit, facts, loss, read_json
from purse.wire.outside import Calibration, ExternalCharged

Count = Annotated[int, typer.Option(help="How many answers.")]
Rate = Annotated[float | None, typer.Option(help="Each record's chance to be in an answer's batch; 1 if left out.")]


def charge(
    dataset: Dataset,
    label: Annotated[str, typer.Option(help="Your name for it: the same again is the same charge.")],
    gaussian: Annotated[float | None, typer.Option(help="Noise std over what one record adds at most.")] = None,
    laplace: Annotated[float | None, typer.Option(help="Noise scale over what one record adds at most.")] = None,
    pure: Annotated[float | None, typer.Option(help="Epsilon of an answer of which nothing more is known.")] = None,
    rate: Rate = None,
    count: Count = 1,
    event: Annotated[Path | None, typer.Option(help="JSON: an event of several kinds, instead of all these.")] = None,
    exceeds: Annotated[bool, typer.Option("--exceeds", help="Record it even if it does not fit, and freeze.")] = False,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Charge a dataset for what ran elsewhere on the same people. A charge from outside is never taken back.

    \b
    Examples:
      purse charge census --label "report of May" --gaussian 40 --count 12
      purse charge census --label "old pipeline" --event event.json
    """
    single = _single(gaussian, laplace, pure, rate)
    if (event is None) == (single is None):
        raise Refusal("say one of --gaussian, --laplace, --pure and --event")
    kinds = single if count == 1 else {"type": "SelfComposedDpEvent", "event": single, "count": count}
    stated = kinds if event is None else read_json(event)
    with connect(url) as client:
        made = client.datasets.charge(dataset, label=label, event=stated, exceeds=exceeds)
    emit(made, json, lambda: _charged(made))


def calibrate(
    mechanism: Annotated[str, typer.Argument(help="gaussian, laplace or poisson_gaussian.")],
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="Privacy loss epsilon of all answers together.")],
    delta: Annotated[float, typer.Option("--delta", "-d", help="And their delta.")] = 0.0,
    rate: Rate = None,
    count: Count = 1,
    neighbors: Annotated[str, typer.Option(help="replace_one or zero_out.")] = "replace_one",
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """The least noise for a target, and who certifies it. No dataset has a part in it.

    \b
    Examples:
      purse calibrate gaussian --epsilon 1 --delta 1e-6 --count 100
      purse calibrate poisson_gaussian --rate 0.01 --epsilon 1 --delta 1e-6 --count 1000
    """
    asked: dict[str, Any] = {"name": mechanism} if rate is None else {"name": mechanism, "rate": rate}
    with connect(url) as client:
        found = client.calibrate(asked, epsilon=epsilon, delta=delta, count=count, neighbors=neighbors)
    emit(found, json, lambda: _calibrated(found))


def _single(
    gaussian: float | None, laplace: float | None, pure: float | None, rate: float | None
) -> dict[str, Any] | None:
    """The event of one answer; None if there is none, or more than one."""
    found: list[dict[str, Any]] = []
    for multiplier, name in ((gaussian, "GaussianDpEvent"), (laplace, "LaplaceDpEvent")):
        found += [] if multiplier is None else [{"type": name, "noise_multiplier": multiplier}]
    found += [] if pure is None else [{"type": "EpsilonDeltaDpEvent", "epsilon": pure}]
    if len(found) != 1 or rate is None:
        return found[0] if len(found) == 1 else None
    return {"type": "PoissonSampledDpEvent", "sampling_probability": rate, "event": found[0]}


def _charged(made: ExternalCharged) -> None:
    budget = made.budget
    told = [("dataset", made.dataset), ("label", made.label), ("spent", loss(budget.spent))]
    told += [("remaining", loss(budget.remaining)), ("exceeds", "yes: the ledger is frozen" if made.exceeds else "no")]
    facts(told)


def _calibrated(found: Calibration) -> None:
    certified = f"epsilon {found.epsilon:.6g} at delta {found.delta:.3g}, {found.neighbors}"
    by = f"{found.accountant} {found.accountant_version}"
    facts([("noise multiplier", found.noise_multiplier), ("certified", certified), ("by", by)])
