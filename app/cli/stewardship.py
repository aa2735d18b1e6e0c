"""purse dataset amend, freeze, unfreeze, erase."""

from typing import Annotated

import typer

from app.cli.data import changes, sessions_rule
from app.cli.options import Dataset
from app.cli.output import Output, Refusal, loss
from purse import Client, text
from purse.wire.datasets import Dataset as Described
from purse.wire.datasets import SessionPolicy

Freezable = Annotated[str, typer.Argument(help="The dataset's id or name. Other datasets of its family are included.")]


def amend(
    client: Client,
    dataset: Dataset,
    name: str | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    sessions: SessionPolicy | None = None,
) -> Output:
    """Change a dataset's name, budget or rule for sessions.

    While nothing is charged, the budget can be set to any value. Afterwards it can only grow, and the previous
    guarantee stays on record.

    Parameters
    ----------
    name : A new name, if nothing has been charged yet.
    epsilon : Epsilon of the new budget.
    delta : Delta of the new budget. Default: unchanged.
    sessions : Whether sessions are accepted, and whether their unused part is refunded.

    \b
    Examples:
      purse dataset amend census --name census-2026
      purse dataset amend census --epsilon 4
      purse dataset amend census --sessions refused
    """
    if name is None and epsilon is None and delta is None and sessions is None:
        raise Refusal("Nothing to change. Give --name, --epsilon, --delta or --sessions.")
    budget = None
    if epsilon is not None or delta is not None:
        current = client.datasets.budget(dataset)
        budget = {
            "epsilon": current.epsilon if epsilon is None else epsilon,
            "delta": current.delta if delta is None else delta,
        }
    return _changed(client.datasets.amend(dataset, name=name, budget=budget, sessions=sessions))


def freeze(client: Client, dataset: Freezable) -> Output:
    """Block all spending on a dataset.

    Nothing is charged and no job starts until the dataset is unfrozen. Jobs that already run continue.

    \b
    Example:
      purse dataset freeze census
    """
    return _changed(client.datasets.amend(dataset, frozen=True))


def unfreeze(client: Client, dataset: Freezable) -> Output:
    """Allow spending on a dataset again.

    \b
    Example:
      purse dataset unfreeze census
    """
    return _changed(client.datasets.amend(dataset, frozen=False))


def erase(client: Client, dataset: Dataset, yes: bool = False) -> Output:
    """Delete a dataset's values permanently.

    The dataset's jobs end. The ledger and the receipts of everything that was charged stay.

    Parameters
    ----------
    yes : Confirm. Nothing is deleted without this option.

    \b
    Example:
      purse dataset erase census --yes
    """
    if not yes:
        raise Refusal("Nothing was deleted. The values cannot be restored, so confirm with --yes.")
    erased = client.datasets.erase(dataset)
    return Output(erased, text.facts([("dataset", erased.id), ("name", erased.name), ("values", erased.data)]))


def _changed(dataset: Described) -> Output:
    facts = [("remaining", loss(dataset.budget.remaining)), *changes(dataset.budget), sessions_rule(dataset)]
    return Output(dataset, text.facts([("dataset", dataset.id), ("name", dataset.name), *facts]))
