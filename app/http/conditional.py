"""Conditional requests: an `ETag` with each response, and status 304 if `If-None-Match` contains that tag."""

import hashlib
from typing import Annotated, Any

from fastapi import Header, Response

_TAG = {
    "schema": {"type": "string"},
    "required": True,
    "description": "Digest of the response body. A changed body has another digest.",
}
IfNoneMatch = Annotated[
    str | None,
    Header(max_length=1000, description="ETags of responses that the client has cached, or `*` (RFC 9110)."),
]
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"headers": {"ETag": _TAG}},
    304: {"description": "Not modified. The cached response is current.", "headers": {"ETag": _TAG}},
}


def respond(body: bytes | str, if_none_match: str | None, media_type: str = "application/json") -> Response:
    """Return the document, or status 304 if `if_none_match` contains its tag, a digest of the body.

    Only the client may cache the response, and it must revalidate it before each use.

    Parameters
    ----------
    if_none_match : the request's `If-None-Match` header
    """
    body = body.encode() if isinstance(body, str) else body
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache", "Vary": "Authorization"}
    cached_tags = {part.strip().removeprefix("W/") for part in (if_none_match or "").split(",")}
    if tag in cached_tags or "*" in cached_tags:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=media_type, headers=headers)
