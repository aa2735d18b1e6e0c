"""Sessions without HTTP, for tests of the service's inside."""

import asyncio
import json
from typing import Any, cast

from app.calculation.pool import Pool
from app.calculation.questions import Answer, Question, answer
from app.identity.store import Principal
from app.persistence.session import new_id
from app.sessions import receipts, service
from app.sessions.pricing import price
from app.sessions.requests import SessionRequest
from purse.wire.sessions import Session, StepsRequest
from tests.support.world import World

GAUSSIAN = {"type": "GaussianDpEvent", "noise_multiplier": 20.0}


class InlinePool:
    """Answers questions at once, in this thread."""

    async def answer(self, _who: str, question: Question) -> Answer:
        """Return the answer."""
        return answer(question)


_POOL = cast(Pool, InlinePool())


def many(count: int, event: dict[str, Any] = GAUSSIAN) -> dict[str, Any]:
    """Return an event that is used `count` times."""
    return {"type": "SelfComposedDpEvent", "event": event, "count": count}


def open_session(
    world: World,
    dataset: str,
    *events: dict[str, Any],
    key: str | None = None,
    owner: Principal | None = None,
    limit: int = 100,
    **more: Any,
) -> Session:
    """Open a session of ada's, by default of ten Gaussian answers; with `privacy`, of a target."""
    owner, key = owner or world.analyst, key or new_id("key")
    body = more if "privacy" in more else {"events": list(events) or [many(10)], **more}
    request = SessionRequest.model_validate_json(json.dumps(body)).root
    opened_before = asyncio.run(service.opened(world.database, owner, key, dataset, request))
    if opened_before is not None:
        return opened_before
    priced = asyncio.run(price(world.database, _POOL, owner, dataset, request))
    return service.open_session(world.database, owner, key, priced, limit)


def record(
    world: World,
    session_id: str,
    steps: int = 1,
    event: int = 0,
    key: str | None = None,
    owner: Principal | None = None,
) -> Session:
    """Record answers of a session."""
    request = StepsRequest(steps=steps, event=event)
    return service.record(world.database, owner or world.analyst, session_id, key, request).session


def close(world: World, session_id: str, owner: Principal | None = None) -> Session:
    """Close a session. No program may record in it at the same time."""
    owner = owner or world.analyst
    closing = service.closing(world.database, owner, session_id)
    refund = asyncio.run(closing.refund(_POOL, owner.id))
    closed = service.close(world.database, owner, closing, refund)
    assert closed is not None
    return closed


def get(world: World, session_id: str, owner: Principal | None = None) -> Session:
    """Return a session as its owner sees it."""
    return service.get(world.database, owner or world.analyst, session_id)


def receipt(world: World, session_id: str, owner: Principal | None = None) -> Any:
    """Return the signed receipt of a session that has ended."""
    return json.loads(receipts.read(world.database, world.keys, owner or world.analyst, session_id))
