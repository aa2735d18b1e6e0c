"""Visits to the pages by a browser that keeps nothing between requests."""

from typing import Any

from httpx import Response

from app.pages import session
from tests.support.service import Service

SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}


def visit(service: Service, token: str | None, path: str, method: str = "GET", **options: Any) -> Response:
    """Return the answer to one request of a browser whose cookie holds the token."""
    headers = {"Accept": "text/html"} | (SAME_ORIGIN if method != "GET" else {}) | options.pop("headers", {})
    if token is not None:
        headers["Cookie"] = f"{session.COOKIE}={token}"
    answer = service.client.request(method, path, headers=headers, follow_redirects=False, **options)
    service.client.cookies.clear()
    return answer
