"""A provider of sign-on on loopback: discovery, keys and codes, which a test may rotate, spoil or keep back."""

import asyncio
import hashlib
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse
from joserfc import jwt
from joserfc.jwk import ECKey, Key
from joserfc.jws import JWSRegistry
from joserfc.registry import HeaderParameter
from joserfc.util import urlsafe_b64encode

from tests.support.patience import PATIENCE

AUDIENCE = "purse"
ROLES = {"stewards": "steward", "analysts": "analyst", "auditors": "auditor"}


@dataclass
class Provider:
    """An OpenID provider. Lifetimes of tokens start at `now`.

    Parameters
    ----------
    issuer : its address
    keys : that sign, the first of them by default
    published : a JWK Set in the place of its own
    answers : if false, it accepts connections and does not answer
    exchanges : number of code exchanges in progress
    key_requests : number of requests for its keys
    person : claims of the person who signs in; None omits a claim
    codes : issued codes that were not exchanged, and the parameters of their requests
    last_exchange : form of the last code exchange
    last_sign_out : parameters of the last sign-out
    cookie : cookie of the last code exchange, which must not contain the cookies that the provider sets
    """

    issuer: str
    now: float = 1e6
    keys: list[ECKey] = field(default_factory=list)
    described: dict[str, Any] = field(default_factory=dict)
    published: Any = None
    status: int = 200
    answers: bool = True
    key_requests: int = 0
    exchanges: int = 0
    person: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    last_exchange: Mapping[str, str] = field(default_factory=dict)
    last_sign_out: Mapping[str, str] = field(default_factory=dict)
    cookie: str | None = None

    def rotate(self, *kept: ECKey) -> ECKey:
        """Sign with a new key from now on, and publish only this key and `kept`."""
        new = ECKey.generate_key("P-256", {"kid": f"key {len(self.keys)} of {self.key_requests}", "use": "sig"})
        self.keys = [new, *kept]
        return new

    def token(self, groups: Any = ("analysts",), key: Key | None = None, **changes: Any) -> str:
        """Return a token of ada's. None omits a claim, or a header of `header`."""
        signing = key or self.keys[0]
        header = {"alg": "ES256", "kid": signing.kid, "typ": "at+jwt"} | changes.pop("header", {})
        claims = {"iss": self.issuer, "sub": "ada", "aud": AUDIENCE, "iat": self.now, "exp": self.now + 300}
        claims |= {"groups": list(groups) if isinstance(groups, tuple) else groups} | changes
        registry = JWSRegistry({"b4711": HeaderParameter("Of a test", "int")}, [header["alg"]])
        return jwt.encode(_without_none(header), _without_none(claims), signing, registry=registry, default_type=None)

    def settings(self, **changes: Any) -> dict[str, Any]:
        """Return the settings of a service that trusts it."""
        return {"oidc_issuer": self.issuer, "oidc_audience": AUDIENCE, "oidc_roles": ROLES} | changes


def _without_none(pairs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in pairs.items() if value is not None}


@contextmanager
def provider() -> Iterator[Provider]:
    """Run a provider until the end of the block."""
    app, listener = FastAPI(openapi_url=None), socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()  # earlier connections wait for the server's thread
    idp = Provider(f"http://127.0.0.1:{listener.getsockname()[1]}/realm")
    idp.rotate()

    @app.get("/realm/.well-known/openid-configuration")
    async def discovery() -> Response:
        while not idp.answers:
            await asyncio.sleep(0.01)
        browser_url = idp.issuer.replace("127.0.0.1", "localhost")  # another site than 127.0.0.1 for a browser
        addresses = {"authorization_endpoint": f"{browser_url}/authorize", "token_endpoint": f"{idp.issuer}/token"}
        addresses["end_session_endpoint"] = f"{browser_url}/logout"
        usual = {"issuer": idp.issuer, "jwks_uri": f"{idp.issuer}/keys"} | addresses
        return JSONResponse(usual | idp.described, idp.status)

    @app.get("/realm/authorize")
    async def authorize(request: Request) -> Response:
        code = f"code {len(idp.codes)} of {idp.issuer}"
        idp.codes[code] = query = dict(request.query_params)
        parameters = {"code": code, "state": query["state"], "iss": idp.issuer}
        return RedirectResponse(f"{query['redirect_uri']}?{urlencode(parameters)}", 303)

    @app.get("/realm/logout")
    async def logout(request: Request) -> Response:
        idp.last_sign_out = dict(request.query_params)
        return RedirectResponse(idp.last_sign_out["post_logout_redirect_uri"], 303)

    @app.post("/realm/token")
    async def token(request: Request) -> Response:
        idp.exchanges += 1
        while not idp.answers:
            await asyncio.sleep(0.01)
        idp.exchanges -= 1
        idp.last_exchange = form = dict(parse_qsl((await request.body()).decode()))
        idp.cookie, query = request.headers.get("cookie"), idp.codes.pop(form["code"], {})
        proof = urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode()
        is_same = all(query.get(name) == form[name] for name in ("client_id", "redirect_uri"))
        if not is_same or (proof, "S256") != (query["code_challenge"], query["code_challenge_method"]):
            return JSONResponse({"error": "invalid_grant"}, 400)
        changes = {"nonce": query["nonce"], "header": {"typ": "JWT"}} | idp.person
        answer = {"id_token": idp.token(**changes), "token_type": "Bearer"}
        return JSONResponse(answer, headers={"Set-Cookie": f"session={changes['nonce']}; Path=/"})

    @app.get("/realm/keys")
    async def keys() -> Response:
        idp.key_requests += 1
        usual = {"keys": [key.as_dict(private=False) for key in idp.keys]}
        return JSONResponse(usual if idp.published is None else idp.published)

    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        with pytest.MonkeyPatch.context() as patch:  # a slow machine is no provider that hangs
            patch.setattr("app.identity.provider._TIMEOUT_SECONDS", PATIENCE)
            yield idp
    finally:
        idp.answers, server.should_exit = True, True
        thread.join()
