"""purse grant and purse allot: set, list, revoke."""

from collections.abc import Sequence
from typing import Annotated

import typer

from app.cli.options import Dataset
from app.cli.output import Output, loss
from purse import Client, text
from purse.client.requests import without_none
from purse.wire.allotments import Allotment

Analyst = Annotated[str, typer.Argument(help="The analyst's name, or the id of the identity.")]


def grant(client: Client, dataset: Dataset, analyst: Analyst) -> Output:
    """Give an analyst access to a dataset.

    The analyst can then see the dataset and spend its budget.

    \b
    Example:
      purse grant set census alice
    """
    granted = client.datasets.grant(dataset, analyst)
    return Output(granted, notes=[f"{granted.analyst} may see {dataset} and spend its budget"])


def list_grants(client: Client, dataset: Dataset) -> Output:
    """List the analysts with access to a dataset.

    \b
    Example:
      purse grant list census
    """
    grants = client.datasets.grants(dataset)
    rows = [(each.analyst, each.identity, each.granted_by, each.granted_at[:10]) for each in grants]
    return Output(grants, text.table(("analyst", "identity", "granted by", "since"), rows))


def revoke_grant(client: Client, dataset: Dataset, analyst: Analyst) -> Output:
    """End an analyst's access to a dataset.

    The analyst can no longer see that the dataset exists. Jobs that were submitted continue and stay the analyst's.

    \b
    Example:
      purse grant revoke census alice
    """
    client.datasets.revoke(dataset, analyst)
    return _revoked(dataset, analyst)


def allot(
    client: Client,
    dataset: Dataset,
    analyst: Analyst,
    share: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    reserved: bool = False,
) -> Output:
    """Limit or reserve an analyst's part of a budget.

    Parameters
    ----------
    share : A share of the budget, such as 0.25 for a quarter.
    epsilon : Instead of a share: epsilon of all the analyst's jobs.
    delta : Delta that goes with --epsilon. Default: the dataset's.
    reserved : Reserve this part. Without it, the part is only an upper limit.

    \b
    Examples:
      purse allot set census alice --share 0.25
      purse allot set census alice --epsilon 0.5 --reserved
    """
    fields = without_none(share=share, epsilon=epsilon, delta=delta, mode="reserved" if reserved else "shared")
    allotment = client.datasets.allot(dataset, analyst, **fields)
    return Output(allotment, allotment_table([allotment]))


def list_allotments(client: Client, dataset: Dataset) -> Output:
    """List each analyst's limit and its use.

    \b
    Example:
      purse allot list census
    """
    allotments = client.datasets.allotments(dataset)
    return Output(allotments, allotment_table(allotments))


def revoke_allotment(client: Client, dataset: Dataset, analyst: Analyst) -> Output:
    """Remove an analyst's limit.

    The analyst then spends from the part of the budget that is not reserved.

    \b
    Example:
      purse allot revoke census alice
    """
    client.datasets.deallot(dataset, analyst)
    return _revoked(dataset, analyst)


def allotment_table(allotments: Sequence[Allotment]) -> str:
    """Return a table of allotments and how much of each is used."""
    rows = [
        (each.analyst, each.mode, text.percent(each.share), loss(each), text.percent(each.used)) for each in allotments
    ]
    return text.table(("analyst", "mode", "of the budget", "guarantees", "used"), rows)


def _revoked(dataset: str, analyst: str) -> Output:
    document = {"dataset": dataset, "analyst": analyst, "revoked": True}
    return Output(document, notes=[f"{dataset}: revoked {analyst}"])
