"""The session of a browser: a cookie that holds the visitor's bearer token, for the paths of pages alone.

A request that may change something is refused unless one of our pages sent it. Reference: Fetch Metadata (W3C) and
RFC 6454 (Origin) for the sender of a request; RFC 6265bis for SameSite; CSP level 3.
"""

from typing import Literal
from urllib.parse import quote, unquote, urlsplit

from fastapi import Request, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.http.errors import ApiError
from app.http.handlers import respond
from app.http.routing import own_path

PREFIX = "/pages"
COOKIE = "purse_session"
_PROVIDER_MARK = ":"  # precedes a token of the provider; a quoted token never contains it
SECONDS = 8 * 3600  # longest duration of a session
_ATTEMPT, _ATTEMPT_SECONDS = "purse_sign_on", 600  # while the visitor is at the provider
MOST_COOKIE_BYTES = 4000  # every browser stores a cookie of this length
_SAFE = ("GET", "HEAD", "OPTIONS")
_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (b"referrer-policy", b"same-origin"),  # under `no-referrer` a form's Origin would be null
)


class CookieSession:
    """ASGI middleware that passes on the cookie's token as the request's `Authorization`, for the paths of pages alone.

    The `Authorization` that the browser sends is ignored there, because a caller who has a token can use the API.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or not is_page(own_path(scope)):
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        if scope["method"] not in _SAFE and not _is_own(scope):
            refusal = ApiError("forbidden", "This did not come from a page of ours. Open the page again and retry.")
            await respond(refusal)(scope, receive, sending)
            return
        token = _token(scope)
        authorization = [] if token is None else [(b"authorization", b"Bearer " + token)]
        scope["headers"] = [pair for pair in scope["headers"] if pair[0] != b"authorization"] + authorization
        await self._app(scope, receive, sending)


def is_page(path: str) -> bool:
    """Return whether the path belongs to a page."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def begin(request: Request, response: Response, token: str, is_from_provider: bool = False) -> None:
    """Store the token in a cookie of this browser, until the browser is closed or `SECONDS` have passed.

    Parameters
    ----------
    is_from_provider : whether the token comes from the sign-on provider; signing out then includes the provider

    Raises
    ------
    ApiError
        unauthenticated if a header cannot hold the token, too_large if browsers would not store it.
    """
    if not _is_sendable(token):
        raise ApiError("unauthenticated")
    value = (_PROVIDER_MARK if is_from_provider else "") + quote(token, safe="")
    if len(value) > MOST_COOKIE_BYTES:
        raise ApiError("too_large", "This token is too long for a browser's cookie. Use the API or the commands.")
    _set(request, response, value, SECONDS)


def end(request: Request, response: Response) -> None:
    """Delete the token's cookie."""
    _set(request, response, "", 0)


def is_from_provider(request: Request) -> bool:
    """Return whether the token of this browser comes from the sign-on provider."""
    return _cookie(request.scope, COOKIE).startswith(_PROVIDER_MARK)


def remember(request: Request, response: Response, number: str) -> None:
    """Store the number of a sign-on attempt in a cookie that is also sent when the provider's site leads back."""
    _set(request, response, number, _ATTEMPT_SECONDS, _ATTEMPT, "/sign-in", "lax")


def remembered(request: Request) -> str:
    """Return the number of this browser's sign-on attempt; empty without one."""
    return _cookie(request.scope, _ATTEMPT)


def forget(request: Request, response: Response) -> None:
    """Delete the cookie of the sign-on attempt, because each attempt is used once."""
    _set(request, response, "", 0, _ATTEMPT, "/sign-in", "lax")


def _set(
    request: Request,
    response: Response,
    value: str,
    seconds: int,
    name: str = COOKIE,
    below: str = "",
    same_site: Literal["strict", "lax"] = "strict",
) -> None:
    # Behind a proxy that is not trusted, the request's URL may begin with http although the browser uses https. The
    # browser's Origin and the operator's setting state https then.
    chosen = request.app.state.services.settings.oidc_redirect or ""
    urls = (str(request.url), request.headers.get("origin", ""), chosen)
    response.set_cookie(
        name,
        value,
        max_age=seconds,
        path=request.scope.get("root_path", "") + PREFIX + below,
        secure=any(url.startswith("https://") for url in urls),
        httponly=True,
        samesite=same_site,
    )


def _token(scope: Scope) -> bytes | None:
    token = unquote(_cookie(scope, COOKIE).removeprefix(_PROVIDER_MARK))
    return token.encode() if _is_sendable(token) else None


def _cookie(scope: Scope, cookie: str) -> str:
    """Return the cookie's value; empty if there are two, because a neighboring site may have set one of them."""
    cookies = b";".join(value for name, value in scope["headers"] if name == b"cookie").decode("latin-1").split(";")
    mine = [value for name, _, value in (pair.strip().partition("=") for pair in cookies) if name == cookie]
    return mine[0] if len(mine) == 1 else ""


def _is_sendable(token: str) -> bool:
    return bool(token) and token.isascii() and token.isprintable()


def _is_own(scope: Scope) -> bool:
    """Return whether one of our pages sent the request, by Sec-Fetch-Site or, without it (plain http), by Origin."""
    headers: dict[bytes, str] = {name: value.decode("latin-1") for name, value in scope["headers"]}
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get(b"origin")
    host = headers.get(b"host")
    return bool(origin and host) and urlsplit(origin or "").netloc == host
