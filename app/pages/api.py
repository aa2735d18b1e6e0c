"""Requests to the API in this process, with the visitor's own token: a page can do only what the API allows."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
from fastapi import Request

from app.http.codes import CODES
from app.http.dependencies import while_connected
from app.http.errors import ApiError
from app.http.middleware import REQUEST
from app.http.work import in_turn
from purse.wire.problems import ProblemDetails

_HERE = "http://api"


@dataclass(frozen=True, slots=True)
class Api:
    """The routes under /v1 for one visitor, with their token, address, limits and scopes.

    Parameters
    ----------
    request : the visitor's request
    authorization : value of the Authorization header; None for an anonymous request
    """

    request: Request
    authorization: str | None

    async def get(self, path: str, **query: str | int | None) -> Any:
        """Return the JSON of a route's response.

        Raises
        ------
        ApiError
            as the route does.
        """
        answer = await self.send("GET", path, params={k: v for k, v in query.items() if v is not None})
        return await in_turn(answer.json)

    async def send(self, method: str, path: str, **content: Any) -> httpx.Response:
        """Send one request and return its response; the request is cancelled if the visitor disconnects.

        Parameters
        ----------
        content : `params`, `json`, `content` and `headers` as in httpx
        """
        answer = await while_connected(self.request, self._request(method, path, **content))
        return _checked(answer)

    async def forward(self, method: str, path: str) -> httpx.Response:
        """Pass the body of the visitor's request to a route, chunk by chunk."""
        names = (b"content-type", b"content-length")
        headers = dict(pair for pair in self.request.headers.raw if pair[0] in names)
        return _checked(await self._request(method, path, content=self.request.stream(), headers=headers))

    async def _request(self, method: str, path: str, **content: Any) -> httpx.Response:
        host, port = self.request.client or ("", 0)
        transport = httpx.ASGITransport(self.request.app, raise_app_exceptions=False, client=(host, port))
        headers = {**content.pop("headers", {}), "X-Request-ID": REQUEST.get() or ""}
        headers |= {} if self.authorization is None else {"Authorization": self.authorization}
        async with httpx.AsyncClient(transport=transport, base_url=_HERE, timeout=None, trust_env=False) as client:
            return await client.request(method, path, headers=headers, **content)


def part(name: str) -> str:
    """Return a name as one segment of a path. Dots are encoded, because `..` would lead to another path."""
    return quote(name, safe="").replace(".", "%2E")


def _checked(answer: httpx.Response) -> httpx.Response:
    """Return a successful response. Raise the `ApiError` of any other one."""
    if answer.status_code < 400:
        return answer
    problem = ProblemDetails.model_validate_json(answer.content)
    assert problem.code in CODES
    retry_after = answer.headers.get("retry-after")
    raise ApiError(
        problem.code,
        problem.detail,
        violations=problem.violations,
        remaining=problem.remaining,
        report=problem.report,
        headers=None if retry_after is None else {"Retry-After": retry_after},
    )
