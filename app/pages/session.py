"""The session of the pages: a cookie replaces the bearer token below /pages, and only our pages may change anything.

Reference: Fetch Metadata (W3C) and RFC 6454 (Origin) for who sent a request; RFC 6265bis for SameSite; CSP level 3.
"""

from typing import Literal
from urllib.parse import quote, unquote, urlsplit

from fastapi import Request, Response

from app.http.asgi import ASGIApp, Message, Receive, Scope, Send
from app.http.errors import ApiError
from app.http.handlers import respond
from app.http.routing import own_path

PREFIX = "/pages"
COOKIE = "purse_session"
_LED = ":"  # before a token that the provider gave: no token, as it is quoted, holds it
SECONDS = 8 * 3600  # that a sign-in lasts, if its token does
_ATTEMPT, _ATTEMPT_SECONDS = "purse_sign_on", 600  # while the visitor is at the provider
MOST_COOKIE_BYTES = 4000  # what every browser keeps of one
_SAFE = ("GET", "HEAD", "OPTIONS")
_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (b"referrer-policy", b"same-origin"),  # under `no-referrer` a form's Origin would be null
)


class Session:
    """ASGI middleware that turns the cookie of a page request into its bearer token.

    The `Authorization` header of such a request is ignored: a program with a token uses the API.
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
    """Return whether a path belongs to a page."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def begin(request: Request, response: Response, token: str, is_led: bool = False) -> None:
    """Store the token in this browser, which sends it to pages only, for at most eight hours.

    Parameters
    ----------
    is_led : whether the token came from the provider, so that signing out ends the session there too

    Raises
    ------
    ApiError
        unauthenticated if no header could hold it, too_large if no browser would keep it.
    """
    if not _is_sendable(token):
        raise ApiError("unauthenticated")
    value = (_LED if is_led else "") + quote(token, safe="")
    if len(value) > MOST_COOKIE_BYTES:
        raise ApiError("too_large", "This token is too long for a browser's cookie. Use the API or the commands.")
    _set(request, response, value, SECONDS)


def end(request: Request, response: Response) -> None:
    """Delete the token from this browser."""
    _set(request, response, "", 0)


def is_led(request: Request) -> bool:
    """Return whether this browser's session began at the provider."""
    return _kept(request.scope, COOKIE).startswith(_LED)


def remember(request: Request, response: Response, number: str) -> None:
    """Store the number of a sign-in attempt, which the browser sends when the provider redirects back."""
    _set(request, response, number, _ATTEMPT_SECONDS, _ATTEMPT, "/sign-in", "lax")


def remembered(request: Request) -> str:
    """Return the number of this browser's sign-in attempt; empty if there is none."""
    return _kept(request.scope, _ATTEMPT)


def forget(request: Request, response: Response) -> None:
    """Delete the number of the attempt, which is valid once."""
    _set(request, response, "", 0, _ATTEMPT, "/sign-in", "lax")


def _set(
    request: Request,
    response: Response,
    value: str,
    seconds: int,
    name: str = COOKIE,
    below: str = "",
    sent: Literal["strict", "lax"] = "strict",
) -> None:
    # A proxy that is not trusted does not hide https: the browser's own word for where it is, and the operator's.
    chosen = request.app.state.services.settings.oidc_redirect or ""
    urls = (str(request.url), request.headers.get("origin", ""), chosen)
    response.set_cookie(
        name,
        value,
        max_age=seconds,
        path=request.scope.get("root_path", "") + PREFIX + below,
        secure=any(url.startswith("https://") for url in urls),
        httponly=True,
        samesite=sent,
    )


def _token(scope: Scope) -> bytes | None:
    token = unquote(_kept(scope, COOKIE).removeprefix(_LED))
    return token.encode() if _is_sendable(token) else None


def _kept(scope: Scope, cookie: str) -> str:
    """Return the value of a cookie; empty if there are two, because a neighboring site may have set one of them."""
    cookies = b";".join(value for name, value in scope["headers"] if name == b"cookie").decode("latin-1").split(";")
    mine = [value for name, _, value in (pair.strip().partition("=") for pair in cookies) if name == cookie]
    return mine[0] if len(mine) == 1 else ""


def _is_sendable(token: str) -> bool:
    return bool(token) and token.isascii() and token.isprintable()


def _is_own(scope: Scope) -> bool:
    """Return whether one of our pages sent a request, by Sec-Fetch-Site, or by Origin if the browser omits that."""
    headers: dict[bytes, str] = {name: value.decode("latin-1") for name, value in scope["headers"]}
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin, host = headers.get(b"origin"), headers.get(b"host")
    return bool(origin and host) and urlsplit(origin or "").netloc == host
