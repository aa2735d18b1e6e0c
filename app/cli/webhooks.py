"""purse webhook add, list, delete."""

from app.cli.options import OldestFirst, OptionalArgument
from app.cli.output import Output
from purse import Client, text
from purse.wire.base import Order


def add(client: Client, address: str) -> Output:
    """Register an address.

    The address is called when one of your jobs ends. The message has public facts only, and no results.

    Parameters
    ----------
    address : The https address to which messages are posted.

    \b
    Example:
      purse webhook add https://example.org/jobs
    """
    webhook = client.webhooks.create(address)
    lines = [f"Webhook registered for {webhook.url}.", f"To remove it: purse webhook delete {webhook.id}"]
    return Output(webhook, notes=lines)


def list_webhooks(
    client: Client, webhook: OptionalArgument = None, analyst: str | None = None, oldest_first: OldestFirst = False
) -> Output:
    """List webhooks and their deliveries.

    Failures are counted since the last delivery. Stewards see the webhooks of everyone.

    Parameters
    ----------
    webhook : A webhook's id. Default: all webhooks.
    analyst : List only this analyst's webhooks, by name or id.

    \b
    Example:
      purse webhook list
    """
    order: Order = "asc" if oldest_first else "desc"
    webhooks = [client.webhooks.get(webhook)] if webhook else client.webhooks.list(analyst=analyst, order=order)
    rows = [(each.id, each.analyst, each.url, each.delivered_at or "never", each.failures) for each in webhooks]
    return Output(webhooks, text.table(("id", "analyst", "address", "last delivery", "failures"), rows))


def delete(client: Client, webhook: str) -> Output:
    """Remove a webhook.

    Parameters
    ----------
    webhook : The webhook's id.

    \b
    Example:
      purse webhook delete hook_abc
    """
    client.webhooks.delete(webhook)
    return Output({"id": webhook, "deleted": True}, notes=[f"deleted {webhook}"])
