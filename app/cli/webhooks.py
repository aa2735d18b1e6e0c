"""purse webhook add, list, delete."""

from typing import Annotated

import typer

from app.cli.common import DEFAULT_URL, Json, OldestFirst, Url, connect, emit, note, table
from purse.wire.base import Order

Webhook = Annotated[str, typer.Argument(help="The webhook's id.")]

group = typer.Typer(no_args_is_help=True, help="Send a message to an address when a job has ended.")


@group.command("add")
def add(
    address: Annotated[str, typer.Argument(help="Where to send a POST: https://...")],
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Register an address that gets a message when a job of yours ends. The message does not contain the release.

    \b
    Example:
      purse webhook add https://example.org/jobs
    """
    with connect(url) as client:
        made = client.webhooks.create(address)
    emit(made, json, lambda: note(f"Webhook registered for {made.url}. To remove it: purse webhook delete {made.id}"))


@group.command("list")
def list_webhooks(
    webhook: Annotated[str | None, typer.Argument(help="A webhook's id; all if left out.")] = None,
    analyst: Annotated[str | None, typer.Option(help="Only this analyst's, by name or id.")] = None,
    oldest_first: OldestFirst = False,
    url: Url = DEFAULT_URL,
    json: Json = False,
) -> None:
    """Your webhooks, to a steward all, and whether their messages are taken.

    \b
    Example:
      purse webhook list
    """
    order: Order = "asc" if oldest_first else "desc"
    with connect(url) as client:
        found = [client.webhooks.get(webhook)] if webhook else client.webhooks.list(analyst=analyst, order=order)
    rows = [(w.id, w.analyst, w.url, w.delivered_at or "never", w.failures) for w in found]
    emit(found, json, lambda: table(("id", "analyst", "address", "last taken", "failed since"), rows))


@group.command("delete")
def delete(webhook: Webhook, url: Url = DEFAULT_URL, json: Json = False) -> None:
    """Remove a webhook and its waiting messages.

    \b
    Example:
      purse webhook delete hook_abc
    """
    with connect(url) as client:
        client.webhooks.delete(webhook)
    emit({"id": webhook, "deleted": True}, json, lambda: note(f"deleted {webhook}"))
