"""purse dataset charge, purse calibrate."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from accounting.privacy import Relation
from app.cli.options import Dataset, OptionalFile
from app.cli.output import Output, Refusal, described, loss, read_json
from purse import Client, text

Count = Annotated[int, typer.Option(help="Number of answers.")]
Rate = Annotated[float | None, typer.Option(help="Probability that a record is in an answer's batch. Default: 1.")]


@dataclass(frozen=True, slots=True)
class Mechanism:
    """The mechanism of one answer that was computed elsewhere.

    Parameters
    ----------
    gaussian : Noise std divided by the most that one record adds to an answer.
    laplace : Scale of continuous Laplace noise, divided by the most that one record adds to an answer. Charge discrete
        Laplace noise with --pure.
    pure : Epsilon of an answer with any other noise, whose delta is 0.
    """

    gaussian: float | None = None
    laplace: float | None = None
    pure: float | None = None
    rate: Rate = None

    @property
    def event(self) -> dict[str, Any] | None:
        """The event of one answer. None unless exactly one mechanism is given."""
        events: list[dict[str, Any]] = []
        for multiplier, name in ((self.gaussian, "GaussianDpEvent"), (self.laplace, "LaplaceDpEvent")):
            events += [] if multiplier is None else [{"type": name, "noise_multiplier": multiplier}]
        events += [] if self.pure is None else [{"type": "EpsilonDeltaDpEvent", "epsilon": self.pure}]
        if len(events) != 1:
            return None
        if self.rate is None:
            return events[0]
        return {"type": "PoissonSampledDpEvent", "sampling_probability": self.rate, "event": events[0]}


def charge(
    client: Client,
    dataset: Dataset,
    label: Annotated[str, typer.Option()],
    mechanism: Mechanism,
    count: Count = 1,
    event: OptionalFile = None,
    exceeds: bool = False,
) -> Output:
    """Charge a dataset for results computed elsewhere.

    Use it for results about the same people. The charge cannot be refunded.

    Parameters
    ----------
    label : Name of the charge. Each label is charged only once.
    event : JSON file with an event, instead of the options for one kind.
    exceeds : Record the charge even if it does not fit, and freeze the dataset.

    \b
    Examples:
      purse dataset charge census --label "report of May" --gaussian 40 --count 12
      purse dataset charge census --label "old pipeline" --event event.json
    """
    single = mechanism.event
    if (event is None) == (single is None):
        raise Refusal("Give exactly one of --gaussian, --laplace, --pure and --event.")
    composed = single if count == 1 else {"type": "SelfComposedDpEvent", "event": single, "count": count}
    stated = composed if event is None else read_json(event)
    charged = client.datasets.charge(dataset, label=label, event=stated, exceeds=exceeds)
    facts = [
        ("dataset", charged.dataset),
        ("label", charged.label),
        ("spent", loss(charged.budget.spent)),
        ("remaining", loss(charged.budget.remaining)),
        ("exceeds", "yes: the ledger is frozen" if charged.exceeds else "no"),
    ]
    return Output(charged, text.facts(facts))


def calibrate(
    client: Client,
    mechanism: str,
    epsilon: Annotated[float, typer.Option()],
    delta: float = 0.0,
    rate: Rate = None,
    count: Count = 1,
    neighbors: Relation = "replace_one",
) -> Output:
    """Compute the noise for a privacy target.

    The result is the smallest noise multiplier, with the accountant that certifies it. No dataset is involved.

    Parameters
    ----------
    mechanism : Kind of noise: gaussian, laplace or poisson_gaussian.
    epsilon : Privacy loss epsilon of all answers together.
    delta : Delta of all answers together.
    neighbors : The neighbor relation.

    \b
    Examples:
      purse calibrate gaussian --epsilon 1 --delta 1e-6 --count 100
      purse calibrate poisson_gaussian --rate 0.01 --epsilon 1 --delta 1e-6
    """
    event: dict[str, Any] = {"name": mechanism} if rate is None else {"name": mechanism, "rate": rate}
    calibration = client.calibrate(event, epsilon=epsilon, delta=delta, count=count, neighbors=neighbors)
    names = ("noise_multiplier", "epsilon", "delta", "neighbors", "accountant", "accountant_version")
    return Output(calibration, described(calibration, *names))
