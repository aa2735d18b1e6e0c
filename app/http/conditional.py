"""Answers that a caller may have already: their tag in `ETag`, and 304 for who shows it in `If-None-Match`."""

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


def respond(body: bytes, tag: str, shown: str | None) -> Response:
    """The JSON, or 304 if the caller has shown its tag. Only the caller keeps it, and asks again before each use."""
    headers = {"ETag": tag, "Cache-Control": "private, no-cache", "Vary": "Authorization"}
    known = {each.strip().removeprefix("W/") for each in (shown or "").split(",")}
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(body, media_type="application/json", headers=headers)
