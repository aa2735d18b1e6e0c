"""The API, asked in this process as the visitor would ask it: what a page shows or does, a route has let them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
from fastapi import Request

from app.http.callers import while_connected
from app.http.errors import CODES, ApiError
from app.http.middleware import REQUEST
from app.http.work import in_turn
from purse.wire.problems import ProblemDetails

_HERE = "http://api"


@dataclass(frozen=True, slots=True)
class Api:
    """The routes under /v1, for the visitor whose request this is: their token, address, limits and scopes hold.

    Parameters
    ----------
    request : theirs
    authorization : that is shown; None for none
    """

    request: Request
    authorization: str | None

    async def get(self, path: str, **query: str | int | None) -> Any:
        """The JSON that a route answers with.

        Raises
        ------
        ApiError
            the route's own.
        """
        answer = await self.send("GET", path, params={k: v for k, v in query.items() if v is not None})
        return await in_turn(answer.json)

    async def send(self, method: str, path: str, **content: Any) -> httpx.Response:
        """One request; what is still being answered ends when the visitor has left.

        Parameters
        ----------
        content : `params`, `json`, `content`, `headers`, as httpx has them
        """
        answer = await while_connected(self.request, self._sent(method, path, **content))
        return _let(answer)

    async def passed(self, method: str, path: str) -> httpx.Response:
        """The visitor's own body, as it arrives, to a route that reads it."""
        kept = (b"content-type", b"content-length")
        headers = dict(pair for pair in self.request.headers.raw if pair[0] in kept)
        return _let(await self._sent(method, path, content=_chunks(self.request), headers=headers))

    async def _sent(self, method: str, path: str, **content: Any) -> httpx.Response:
        host, port = self.request.client or ("", 0)
        transport = httpx.ASGITransport(self.request.app, raise_app_exceptions=False, client=(host, port))
        headers = {**content.pop("headers", {}), "X-Request-ID": REQUEST.get() or ""}
        headers |= {} if self.authorization is None else {"Authorization": self.authorization}
        async with httpx.AsyncClient(transport=transport, base_url=_HERE, timeout=None, trust_env=False) as client:
            return await client.request(method, path, headers=headers, **content)


def part(name: str) -> str:
    """A name as one part of a path; its dots are written out, or `..` would be followed to another place."""
    return quote(name, safe="").replace(".", "%2E")


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    async for chunk in request.stream():
        yield chunk


def _let(answer: httpx.Response) -> httpx.Response:
    """The answer, unless it is a problem: then that, to be told on a page."""
    if answer.status_code < 400:
        return answer
    told = ProblemDetails.model_validate_json(answer.content)
    assert told.code in CODES
    again = answer.headers.get("retry-after")
    raise ApiError(
        told.code,
        told.detail,
        violations=told.violations,
        remaining=told.remaining,
        report=told.report,
        headers=None if again is None else {"Retry-After": again},
    )
