"""Signing in on the pages by way of the provider: a code, and what of it is taken from whom."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from httpx import Response
from joserfc.jwk import ECKey
from pydantic import SecretStr, ValidationError

from app.identity.code_flow import EXCHANGES_EACH
from app.settings import Settings
from tests.service.conftest import MakeService
from tests.support.clocks import HeldClock
from tests.support.pages import visit
from tests.support.patience import PATIENCE, until
from tests.support.provider import AUDIENCE, Provider, provider
from tests.support.service import Service

RETURN_ADDRESS = "https://purse.example/pages/sign-in/return"
SECRET = "of the service alone"
RETRY_SECONDS = 30.0  # a service looks at its provider no more often


@pytest.fixture(scope="module")
def idp() -> Iterator[Provider]:
    with provider() as running:
        yield running


@pytest.fixture(scope="module")
def signed(idp: Provider, make_service: MakeService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    clock = HeldClock()
    clock.set_wall(idp.now)
    own = {"oidc_redirect": RETURN_ADDRESS, "oidc_client_secret": SecretStr(SECRET), "oidc_scopes": ("groups",)}
    with make_service(tmp_path_factory.mktemp("signed") / "home", clock=clock, **idp.settings(**own)) as started:
        until(
            lambda: visit(started, None, "/pages/sign-in/provider").status_code == 303
        )  # its first look at the provider
        yield started


@pytest.fixture(autouse=True)
def _as_before(idp: Provider) -> Iterator[None]:
    yield
    idp.person, idp.described, idp.status = {}, {}, 200


def describe(service: Service, idp: Provider, **changes: Any) -> None:
    """Change the provider's description, and let the service read it: a token names a key that is unknown."""
    idp.described = changes
    clock = service.database.clock
    assert isinstance(clock, HeldClock)
    clock.pass_(RETRY_SECONDS)
    clock.set_wall(-RETRY_SECONDS)  # tokens stay valid
    unknown = ECKey.generate_key("P-256", {"kid": f"unknown at {clock.ticks()}"})
    headers = {"Authorization": f"Bearer {idp.token(key=unknown)}"}
    assert service.client.get("/v1/datasets", headers=headers).status_code == 401


def leave(service: Service) -> tuple[str, str]:
    """Return the address to which a browser is sent, and the cookie that it gets."""
    led = visit(service, None, "/pages/sign-in/provider")
    assert led.status_code == 303
    cookie = led.headers["Set-Cookie"]
    pattern = r"purse_sign_on=([\w-]{43}); HttpOnly; Max-Age=600; Path=/pages/sign-in; SameSite=lax; Secure"
    [number] = re.findall(pattern, cookie)
    return led.headers["Location"], f"purse_sign_on={number}"


def arrive(service: Service, return_url: str, cookie: str) -> Response:
    """Return from the provider, which is another site for the browser."""
    parts = urlsplit(return_url)
    headers = {"Cookie": cookie, "Sec-Fetch-Site": "cross-site"}
    return visit(service, None, f"{parts.path}?{parts.query}", headers=headers)


def signs_in(there: str) -> str:
    """Return the address to which the provider redirects a browser."""
    return httpx.get(there, timeout=PATIENCE).headers["Location"]


def session_of(answer: Response) -> str | None:
    """Return the token that the browser stores."""
    cookies = [cookie for cookie in answer.headers.get_list("Set-Cookie") if cookie.startswith("purse_session=")]
    return cookies[0].split(";")[0].removeprefix("purse_session=") if cookies else None


def test_a_person_returns_signed_in(signed: Service, idp: Provider) -> None:
    """The provider's token is the session. Its cookie is strict, so the page continues by itself."""
    there, cookie = leave(signed)
    query = {name: value for name, [value] in parse_qs(urlsplit(there).query).items()}
    fixed = {"response_type": "code", "client_id": AUDIENCE, "redirect_uri": RETURN_ADDRESS, "scope": "openid groups"}
    assert query.items() >= (fixed | {"code_challenge_method": "S256"}).items()
    number = cookie.partition("=")[2]
    assert len({number, query["state"], query["nonce"], query["code_challenge"]}) == 4
    assert number not in there
    answer = arrive(signed, f"{signs_in(there)}&session_state=4711", cookie)
    assert (answer.status_code, 'content="0;url=/pages"' in answer.text) == (200, True)
    token = session_of(answer)
    assert token is not None
    [session_cookie, removed_cookie] = answer.headers.get_list("Set-Cookie")
    assert "HttpOnly; " in session_cookie
    assert "; SameSite=strict; Secure" in session_cookie
    assert 'purse_sign_on=""; ' in removed_cookie
    assert "Max-Age=0" in removed_cookie
    assert "ada" in visit(signed, token, "/pages").text
    assert idp.last_exchange["code_verifier"] not in (*query.values(), number)
    assert SECRET not in there + answer.text + str(idp.last_exchange)


def test_a_provider_session_is_ended_at_the_provider(signed: Service) -> None:
    """The provider's page gets the client and the return address. No address contains a token."""
    there, cookie = leave(signed)
    token = session_of(arrive(signed, signs_in(there), cookie))
    assert token is not None
    answer = visit(signed, token, "/pages/sign-out", "POST", data={"post_logout_redirect_uri": "https://evil.example"})
    assert (answer.status_code, session_of(answer)) == (200, '""')
    [out] = set(re.findall(r"https?://[^\"]*/logout[^\"]*", unescape(answer.text)))
    ours = {"client_id": [AUDIENCE], "post_logout_redirect_uri": ["https://purse.example/pages/sign-in"]}
    assert (out.startswith("http://localhost:"), parse_qs(urlsplit(out).query)) == (True, ours)
    assert token.lstrip(":") not in answer.text


def test_other_sessions_or_providers_without_a_sign_out_page_end_here(signed: Service, idp: Provider) -> None:
    there, cookie = leave(signed)
    token = session_of(arrive(signed, signs_in(there), cookie))
    assert token is not None
    changes: tuple[tuple[str, dict[str, Any]], ...] = (
        (token.lstrip(":"), {}),
        (token, {"end_session_endpoint": None}),
        (token, {"end_session_endpoint": "http://idp"}),
    )
    for pasted, changed in changes:
        describe(signed, idp, **changed)
        answer = visit(signed, pasted, "/pages/sign-out", "POST")
        assert (answer.status_code, answer.headers["Location"]) == (303, "/pages/sign-in")
        assert session_of(answer) == '""'
    describe(signed, idp)


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        ({"aud": [AUDIENCE, "other"], "azp": AUDIENCE}, 200),
        ({"aud": [AUDIENCE]}, 200),
        ({"aud": [AUDIENCE, "other"]}, 401),
        ({"aud": [AUDIENCE, "other"], "azp": "other"}, 401),
        ({"azp": "other"}, 401),
        ({"azp": [AUDIENCE, "other"]}, 401),
        ({"azp": {AUDIENCE: True}}, 401),
    ],
)
def test_a_token_for_several_audiences_must_be_made_for_this_service(
    signed: Service, idp: Provider, claims: dict[str, Any], status: int
) -> None:
    """OpenID Connect Core 3.1.3.7. An access token of another client names that client, and is accepted."""
    there, cookie = leave(signed)
    idp.person = claims
    assert arrive(signed, signs_in(there), cookie).status_code == status
    headers = {"Authorization": f"Bearer {idp.token(**claims)}"}
    assert signed.client.get("/v1/datasets", headers=headers).status_code == 200


@pytest.mark.parametrize("wrapped", [lambda nonce: [nonce], lambda nonce: [nonce, "other"], lambda nonce: {nonce: 1}])
def test_a_nonce_that_is_not_a_string_is_refused(signed: Service, idp: Provider, wrapped: Callable[[str], Any]) -> None:
    there, cookie = leave(signed)
    idp.person = {"nonce": wrapped(parse_qs(urlsplit(there).query)["nonce"][0])}
    answer = arrive(signed, signs_in(there), cookie)
    assert (answer.status_code, session_of(answer)) == (401, None)


def test_a_later_sign_in_shows_the_provider_nothing_of_an_earlier_one(signed: Service, idp: Provider) -> None:
    for _ in range(2):
        there, cookie = leave(signed)
        assert session_of(arrive(signed, signs_in(there), cookie)) is not None
        assert idp.cookie is None


def test_a_code_is_valid_once_in_the_browser_that_requested_it(signed: Service) -> None:
    """Codes and states of another browser, or of none or two attempts, sign nobody in and show an error."""
    there, cookie = leave(signed)
    other_address, other_cookie = leave(signed)
    own_return, other_return = signs_in(there), signs_in(other_address)
    code, state = (
        {n: v for n, [v] in parse_qs(urlsplit(a).query).items()}[n]
        for a, n in ((other_return, "code"), (own_return, "state"))
    )
    mixed = str(httpx.URL(RETURN_ADDRESS).copy_with(params={"code": code, "state": state}))
    wrongs = [
        (own_return, other_cookie),
        (mixed, cookie),
        (own_return, ""),
        (own_return, f"{cookie}; {other_cookie}"),
        (own_return, "purse_sign_on="),
    ]
    wrongs += [
        (f"{own_return}x", cookie),
        (own_return.replace("state=", "state=%C3%A9"), cookie),
        (RETURN_ADDRESS, cookie),
    ]
    for address, used_cookie in wrongs:
        refused = arrive(signed, address, used_cookie)
        assert (refused.status_code, session_of(refused)) == (401, None)
        assert 'role="alert"' in refused.text
        assert code not in unescape(refused.text)


@pytest.mark.parametrize(
    "person",
    [
        {"nonce": None},
        {"nonce": "of another attempt"},
        {"nonce": 5},
        {"nonce": True},
        {"aud": "another service"},
        {"iss": "https://idp.example"},
        {"exp": 1.0},
        {"header": {"typ": "logout+jwt"}},
    ],
)
def test_a_token_of_another_attempt_is_refused(signed: Service, idp: Provider, person: dict[str, Any]) -> None:
    there, cookie = leave(signed)
    idp.person = person
    refused = arrive(signed, signs_in(there), cookie)
    assert (refused.status_code, session_of(refused)) == (401, None)


def test_a_person_without_a_role_sees_an_error(signed: Service, idp: Provider) -> None:
    """The person has no role, the provider refused, or the answer names another issuer."""
    there, cookie = leave(signed)
    idp.person = {"groups": ["others"]}
    refused = arrive(signed, signs_in(there), cookie)
    assert (refused.status_code, session_of(refused)) == (403, None)
    there, cookie = leave(signed)
    state = parse_qs(urlsplit(there).query)["state"][0]
    denied = arrive(signed, f"{RETURN_ADDRESS}?error=access_denied&state={state}&error_description=4711", cookie)
    assert (denied.status_code, "4711" in denied.text) == (401, False)
    assert arrive(signed, signs_in(there).split("&iss=")[0] + "&iss=https://idp.example", cookie).status_code == 401


def test_simultaneous_code_exchanges_are_limited(signed: Service, idp: Provider) -> None:
    """Invented codes use only a few connections to a slow provider, and other requests are served."""

    def arrives(number: int) -> Response:
        there, cookie = leave(signed)
        state = parse_qs(urlsplit(there).query)["state"][0]
        return arrive(signed, f"{RETURN_ADDRESS}?code=made-up-{number}&state={state}", cookie)

    idp.answers = False
    try:
        with ThreadPoolExecutor(EXCHANGES_EACH) as pool:
            waiting = [pool.submit(arrives, number) for number in range(EXCHANGES_EACH)]
            until(lambda: idp.exchanges == EXCHANGES_EACH)
            refused = arrives(EXCHANGES_EACH)
            assert (refused.status_code, refused.headers["Retry-After"], session_of(refused)) == (429, "5", None)
            assert "sign-ins" in refused.text
            assert visit(signed, None, "/pages/sign-in").status_code == 200
            idp.answers = True
            assert {answer.result().status_code for answer in waiting} == {401}
    finally:
        idp.answers = True
    there, cookie = leave(signed)
    assert session_of(arrive(signed, signs_in(there), cookie)) is not None


def test_tokens_work_without_the_provider(signed: Service, idp: Provider) -> None:
    """Addresses of the provider that are not secure are not followed, and tokens still work."""
    page = visit(signed, None, "/pages/sign-in").text
    assert "/pages/sign-in/provider" in page
    assert 'name="token"' in page
    for address in ("http://idp.example/authorize", None, 5):
        describe(signed, idp, authorization_endpoint=address, token_endpoint=address)
        assert visit(signed, None, "/pages/sign-in/provider").status_code == 503
    describe(signed, idp)


def test_a_redirect_that_could_be_read_along_stops_the_start() -> None:
    good: dict[str, Any] = {
        "oidc_issuer": "https://idp.example",
        "oidc_audience": "purse",
        "oidc_roles": {"all": "analyst"},
    }
    assert Settings(**good, oidc_redirect=RETURN_ADDRESS).oidc_redirect == RETURN_ADDRESS
    for wrong in (RETURN_ADDRESS.replace("https", "http"), "https://purse.example/", RETURN_ADDRESS + "?x=1"):
        with pytest.raises(ValidationError):
            Settings(**good, oidc_redirect=wrong)
    with pytest.raises(ValidationError):
        Settings(oidc_redirect=RETURN_ADDRESS)
