"""Sign-in with a token or at the organization's provider, whose token becomes the session, and sign-out."""

from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Query, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from app.http.errors import ApiError
from app.http.rates import address
from app.identity.code_flow import Attempt, CodeFlow
from app.pages import session
from app.pages.api import Api
from app.pages.frame import PageRoute, Passing, Visit, page_router
from app.pages.session import PREFIX

router = page_router()
# Ignores further parameters of the provider, as RFC 6749, section 4.1.2 requires.
return_router = APIRouter(
    prefix=PREFIX, include_in_schema=False, route_class=PageRoute, default_response_class=HTMLResponse
)

ProviderParameter = Annotated[str, Query(max_length=4096)]


@router.get("/sign-in")
async def sign_in(visit: Passing, expired: bool = False) -> Response:
    """Return the form for a token, with a note if the former token has ended."""
    return await _form(visit, expired=expired)


@router.post("/sign-in")
async def signed_in(visit: Passing) -> Response:
    """Store the token in a cookie if it is valid."""
    token = (await visit.form()).get("token", "").strip()
    return await _begin_session(visit, visit.go(""), token)


@router.get("/sign-in/provider")
async def leave(visit: Passing) -> Response:
    """Redirect to the provider, with a value that binds its response to this browser."""
    attempt = Attempt.begin()
    answer = RedirectResponse(_flow(visit).address(attempt), 303)
    session.remember(visit.request, answer, attempt.number)
    return answer


@return_router.get("/sign-in/return")
async def come_back(
    visit: Passing, state: ProviderParameter = "", code: ProviderParameter = "", iss: ProviderParameter | None = None
) -> Response:
    """Receive the provider's redirect, whose token becomes the session.

    The page continues by itself: browsers do not send a strict cookie after a redirect from another site.
    """
    try:
        attempt = Attempt(session.remembered(visit.request))
        token = await _flow(visit).token(attempt, state, code, iss, address(visit.request.scope))
        answer = await _begin_session(visit, await visit.page("signed_in.html"), token, is_from_provider=True)
    except ApiError as error:
        answer = await _form(visit, error)
    session.forget(visit.request, answer)
    return answer


@router.post("/sign-out")
async def signed_out(visit: Passing) -> Response:
    """End the session, and lead users who signed in at the provider to its sign-out.

    The page continues by itself: the response to a form may not redirect to another site.
    """
    services = visit.request.app.state.services
    is_from_provider = services.settings.oidc_redirect is not None and session.is_from_provider(visit.request)
    sign_out = _flow(visit).exit() if is_from_provider else None
    if sign_out is None:
        answer = visit.go("/sign-in")
    else:
        answer = await visit.page("signed_out.html", sign_out=sign_out, provider=urlsplit(sign_out).hostname)
    session.end(visit.request, answer)
    return answer


async def _begin_session(visit: Visit, answer: Response, token: str, is_from_provider: bool = False) -> Response:
    """Return the response that begins the session, or the form with the reason why the token is rejected."""
    try:
        session.begin(visit.request, answer, token, is_from_provider)
        await Api(visit.request, f"Bearer {token}").get("/v1/datasets", limit=1, columns="false")
    except ApiError as error:
        return await _form(visit, error)
    return answer


async def _form(visit: Visit, error: ApiError | None = None, *, expired: bool = False) -> Response:
    """Return the page with the form for a token, and the reason if a token was rejected."""
    chosen = visit.request.app.state.services.settings
    provider = urlsplit(chosen.oidc_issuer).hostname if chosen.oidc_redirect else None
    answer = await visit.page("sign_in.html", error=error, expired=expired, provider=provider)
    answer.headers.update({} if error is None else error.headers)
    return answer


def _flow(visit: Visit) -> CodeFlow:
    services = visit.request.app.state.services
    if services.settings.oidc_redirect is None:
        raise ApiError("not_found")
    return CodeFlow(services.settings, services.sign_on, services.exchanges)
