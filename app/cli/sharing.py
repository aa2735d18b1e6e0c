"""purse grant and purse allot: set, list, revoke."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from app.cli.common import DEFAULT_URL, Dataset, Json, Url, connect, emit, loss, note, percent, table
from purse.wire.allotments import Allotment

Analyst = Annotated[str, typer.Argument(help="An analyst's name, or the id of its identity.")]

grants = typer.Typer(no_args_is_help=True, help="Say which analysts know of a dataset.")
allotments = typer.Typer(no_args_is_help=True, help="Say what one analyst may spend of a dataset's budget.")


@grants.command("set")
def give(dataset: Dataset, analyst: Analyst, url: Url = DEFAULT_URL, json: Json = False) -> None:
    """From now on the analyst sees the dataset and spends on it.

    \b
    Example:
      purse grant set census alice
    """
    with connect(url) as client:
        given = client.datasets.grant(dataset, analyst)
    emit(given, json, lambda: note(f"{given.analyst} may see {dataset} and spend on it"))


@grants.command("list")
def list_grants(dataset: Dataset, url: Url = DEFAULT_URL, json: Json = False) -> None:
    """The analysts who know of a dataset.

    \b
    Example:
      purse grant list census
    """
    with connect(url) as client:
        found = client.datasets.grants(dataset)
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
        client.datasets.revoke(dataset, analyst)
    emit({"dataset": dataset, "analyst": analyst, "revoked": True}, json, lambda: note(f"{dataset}: revoked {analyst}"))


@allotments.command("set")
def allot(
    dataset: Dataset,
    analyst: Analyst,
    share: Annotated[float | None, typer.Option(help="A part of the budget: 0.25 is a quarter.")] = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", "-e", help="Or an epsilon that all jobs keep.")] = None,
    delta: Annotated[float | None, typer.Option("--delta", "-d", help="With it; the dataset's if left out.")] = None,
    reserved: Annotated[
        bool, typer.Option("--reserved", help="Keep it for this analyst; else it is a cap on what others leave.")
    ] = False,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """From now on the analyst's jobs together spend at most this of the budget.

    \b
    Examples:
      purse allot set census alice --share 0.25
      purse allot set census alice --epsilon 0.5 --reserved
    """
    said = {"share": share, "epsilon": epsilon, "delta": delta, "mode": "reserved" if reserved else "shared"}
    with connect(url) as client:
        asked: Any = {name: value for name, value in said.items() if value is not None}
        found = client.datasets.allot(dataset, analyst, **asked)
    emit(found, json, lambda: show_allotments([found]))


@allotments.command("list")
def list_allotments(dataset: Dataset, url: Url = DEFAULT_URL, json: Json = False) -> None:
    """What each analyst may spend of the budget, and how much of that is spent.

    \b
    Example:
      purse allot list census
    """
    with connect(url) as client:
        found = client.datasets.allotments(dataset)
    emit(found, json, lambda: show_allotments(found))


@allotments.command("revoke")
def deallot(dataset: Dataset, analyst: Analyst, url: Url = DEFAULT_URL, json: Json = False) -> None:
    """From now on the analyst spends of what nobody has reserved.

    \b
    Example:
      purse allot revoke census alice
    """
    with connect(url) as client:
        client.datasets.deallot(dataset, analyst)
    emit({"dataset": dataset, "analyst": analyst, "revoked": True}, json, lambda: note(f"{dataset}: revoked {analyst}"))


def show_allotments(found: Sequence[Allotment]) -> None:
    """Whose they are, what they are, and how much of each is used."""
    rows = [(a.analyst, a.mode, percent(a.share), loss(a), percent(a.used)) for a in found]
    table(("analyst", "mode", "of the budget", "guarantees", "used"), rows)
