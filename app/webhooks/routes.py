"""Routes of webhooks, for analysts. Stewards can list and delete any of them."""

from typing import Annotated
from urllib.parse import urlsplit

import sqlalchemy as sa
from fastapi import Depends, Query

from app.http.body import JsonBody
from app.http.dependencies import Locate
from app.http.errors import ApiError, invalid_field, responses
from app.http.lists import Paging, paging_parameters
from app.http.queries import strict_router
from app.identity import store as identity
from app.identity.dependencies import Analyst, Principal, ServiceDatabase, ServiceSettings, Submitter
from app.persistence.tables import webhooks
from app.webhooks import delivery, store
from purse.wire.base import Identifier, Name, Page
from purse.wire.webhooks import Webhook, WebhookRequest

router = strict_router(prefix="/v1/webhooks", tags=["webhooks"])


@router.post("", status_code=201, summary="Make a webhook", responses=responses("disk_full"))
def create(
    database: ServiceDatabase,
    settings: ServiceSettings,
    principal: Submitter,
    body: Annotated[WebhookRequest, Depends(JsonBody(WebhookRequest))],
    locate: Locate,
) -> Webhook:
    """Registers an address that gets a message when a job of yours ends. An address is registered once.

    Messages are signed with a key of `/v1/keys`, as Standard Webhooks requires. A message without a 2xx answer is
    repeated for 10 hours.
    """
    try:
        delivery.parsed_url(body.url, settings.webhook_hosts)
    except delivery.AddressRefused as error:
        raise invalid_field("body.url", str(error)) from None
    with database.write() as connection:
        identity.lock(connection, principal.id)
        webhook_id = store.add(connection, principal.id, body.url, database.timestamp())
        if store.count(connection, principal.id) > settings.max_webhooks:
            detail = f"You have {settings.max_webhooks} webhooks, the most allowed. Delete one."
            raise ApiError("too_many_requests", detail, headers={"Retry-After": "60"})
        webhook = _described(store.get(connection, webhook_id), principal)
    locate(f"{router.prefix}/{webhook_id}")
    return webhook


@router.get("", summary="List webhooks")
def listing(
    database: ServiceDatabase,
    principal: Analyst,
    paging: Annotated[Paging, Depends(paging_parameters())],
    analyst: Annotated[Name | None, Query(description="Only webhooks of this analyst, by name or identity id.")] = None,
) -> Page[Webhook]:
    """Returns an analyst's own webhooks. Stewards get all, with their addresses cut after the host."""
    named = sa.true() if analyst is None else identity.is_called(analyst)
    with database.read() as connection:
        rows = store.page(connection, paging, _visible(principal), named)
    return paging.page(Page[Webhook], rows, lambda row: _described(row, principal), lambda row: row.id)


@router.get("/{webhook_id}", summary="Read a webhook")
def read(database: ServiceDatabase, principal: Analyst, webhook_id: Identifier) -> Webhook:
    """Returns the time of the last accepted message, and the failures since. Their reasons are not shown."""
    with database.read() as connection:
        return _described(store.get(connection, webhook_id, _visible(principal)), principal)


@router.delete("/{webhook_id}", status_code=204, summary="Delete a webhook")
def delete(database: ServiceDatabase, principal: Submitter, webhook_id: Identifier) -> None:
    """Deletes the webhook and its waiting messages."""
    with database.write() as connection:
        _described(store.get(connection, webhook_id, _visible(principal)), principal)
        store.delete(connection, webhook_id)


def _visible(principal: Principal) -> sa.ColumnElement[bool]:
    return sa.true() if principal.role == "steward" else webhooks.c.owner_id == principal.id


def _described(row: sa.Row[tuple[object, ...]] | None, principal: Principal) -> Webhook:
    """Return the webhook as the principal may see it. `ApiError` not_found."""
    if row is None:
        raise ApiError("not_found")
    parts, is_own = urlsplit(row.url), row.owner_id == principal.id
    return Webhook(
        id=row.id,
        analyst=row.name,
        url=row.url if is_own else f"{parts.scheme}://{parts.netloc}",
        created_at=row.created_at,
        delivered_at=row.delivered_at,
        failures=row.failures,
    )
