"""Answers that a caller may have already: their tag in `ETag`, and 304 for who shows it in `If-None-Match`."""

import hashlib
from typing import Annotated, Any

from fastapi import Header, Response

_TAG = {
    "schema": {"type": "string"},
    "required": True,
    "description": "The same tag is the same answer.",
}
IfNoneMatch = Annotated[
    str | None,
    Header(max_length=1000, description="Tags of answers that the caller has, or `*` (RFC 9110)."),
]
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"headers": {"ETag": _TAG}},
    304: {"description": "The caller has this answer.", "headers": {"ETag": _TAG}},
}


def tag_of(body: bytes) -> str:
    """A digest of the body: the same tag is the same bytes."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def respond(
    body: bytes | str, shown: str | None, tag: str | None = None, media_type: str = "application/json"
) -> Response:
    """The document, or 304 if the caller has shown its tag. Only the caller keeps it, and asks again before each use.

    Parameters
    ----------
    tag : the body's `tag_of`, where it is known
    """
    body = body.encode() if isinstance(body, str) else body
    tag = tag or tag_of(body)
    headers = {"ETag": tag, "Cache-Control": "private, no-cache", "Vary": "Authorization"}
    known_tags = {each.strip().removeprefix("W/") for each in (shown or "").split(",")}
    if tag in known_tags or "*" in known_tags:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=media_type, headers=headers)
