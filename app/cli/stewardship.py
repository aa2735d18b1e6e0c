"""purse dataset amend, freeze, unfreeze, erase."""

from typing import Annotated

import typer

from app.cli.common import DEFAULT_URL, Dataset, Json, Refusal, Url, connect, emit, facts, loss
from app.cli.data import promised
from purse.wire.datasets import Dataset as Described

group = typer.Typer(no_args_is_help=True, help="Change, freeze or delete a dataset that is there, as its steward.")
Frozen = Annotated[str, typer.Argument(help="A dataset's id or name; its whole family, if it has one.")]


@group.command("amend")
def amend(
    dataset: Dataset,
    name: Annotated[str | None, typer.Option(help="Another name; while nothing is charged.")] = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", "-e", help="The new budget's epsilon.")] = None,
    delta: Annotated[
        float | None, typer.Option("--delta", "-d", help="The new budget's delta; as it is if left out.")
    ] = None,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Rename, or promise another budget: any while nothing is charged, after that a larger one beside the last.

    \b
    Examples:
      purse dataset amend census --name census-2026
      purse dataset amend census --epsilon 4
    """
    if name is None and epsilon is None and delta is None:
        raise Refusal("say --name, --epsilon or --delta")
    with connect(url) as client:
        found = dataset
        budget = None
        if epsilon is not None or delta is not None:
            now = client.datasets.budget(found)
            budget = {
                "epsilon": now.epsilon if epsilon is None else epsilon,
                "delta": now.delta if delta is None else delta,
            }
        changed = client.datasets.amend(found, name=name, budget=budget)
    emit(changed, json, lambda: _show(changed))


@group.command("freeze")
def freeze(dataset: Frozen, url: Url = DEFAULT_URL, json: Json = False) -> None:
    """Stop all spending at once: nothing is charged and no job starts. What runs is paid for, and ends.

    \b
    Example:
      purse dataset freeze census
    """
    _switch(dataset, True, url, json)


@group.command("unfreeze")
def unfreeze(dataset: Frozen, url: Url = DEFAULT_URL, json: Json = False) -> None:
    """Lift a freeze.

    \b
    Example:
      purse dataset unfreeze census
    """
    _switch(dataset, False, url, json)


@group.command("erase")
def erase(
    dataset: Dataset,
    yes: Annotated[bool, typer.Option("--yes", help="Without it nothing is deleted.")] = False,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Delete the values for good, and end the dataset's jobs. What was charged for keeps its ledger and receipts.

    \b
    Example:
      purse dataset erase census --yes
    """
    if not yes:
        raise Refusal("the values cannot be brought back: say --yes")
    with connect(url) as client:
        gone = client.datasets.erase(dataset)
    emit(gone, json, lambda: facts([("dataset", gone.id), ("name", gone.name), ("values", gone.data)]))


def _switch(dataset: str, frozen: bool, url: str, json: bool) -> None:
    with connect(url) as client:
        changed = client.datasets.amend(dataset, frozen=frozen)
    emit(changed, json, lambda: _show(changed))


def _show(changed: Described) -> None:
    told = [("remaining", loss(changed.budget.remaining)), *promised(changed.budget)]
    facts([("dataset", changed.id), ("name", changed.name), *told])
