"""purse grant set, list, revoke."""

from typing import Annotated

import typer

from app.cli.common import DEFAULT_URL, Dataset, Json, Url, connect, emit, find_dataset, note, table

Analyst = Annotated[str, typer.Argument(help="An analyst's name, or the id of its identity.")]

grants = typer.Typer(no_args_is_help=True, help="Say which analysts know of a dataset.")


@grants.command("set")
def give(dataset: Dataset, analyst: Analyst, url: Url = DEFAULT_URL, json: Json = False) -> None:
    """From now on the analyst sees the dataset and spends on it.

    \b
    Example:
      purse grant set census alice
    """
    with connect(url) as client:
        given = client.datasets.grant(find_dataset(client, dataset), analyst)
    emit(given, json, lambda: note(f"{given.analyst} may see {dataset} and spend on it"))


@grants.command("list")
def list_grants(dataset: Dataset, url: Url = DEFAULT_URL, json: Json = False) -> None:
    """The analysts who know of a dataset.

    \b
    Example:
      purse grant list census
    """
    with connect(url) as client:
        found = client.datasets.grants(find_dataset(client, dataset))
    rows = [(grant.analyst, grant.identity, grant.granted_by, grant.granted_at) for grant in found]
    emit(found, json, lambda: table(("analyst", "identity", "granted by", "at"), rows))


@grants.command("revoke")
def revoke(dataset: Dataset, analyst: Analyst, url: Url = DEFAULT_URL, json: Json = False) -> None:
    """From now on the dataset is not there for the analyst. Jobs go on and stay the analyst's.

    \b
    Example:
      purse grant revoke census alice
    """
    with connect(url) as client:
        client.datasets.revoke(find_dataset(client, dataset), analyst)
    emit({"dataset": dataset, "analyst": analyst, "revoked": True}, json, lambda: note(f"{dataset}: revoked {analyst}"))
