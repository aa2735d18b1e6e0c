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
    """What it says. Ends of tokens are counted from `now`.

    Parameters
    ----------
    issuer : its address
    keys : that sign, the first of them by default
    published : a JWK Set in the place of its own
    answers : cleared, it accepts connections and says nothing
    asking : how many exchange a code just now
    asked : how often its keys were
    person : claims of whoever signs in there; a change to None leaves one out
    codes : given out and not yet taken: what each was asked for with
    taken : how the last one was
    left : how somebody last signed out there
    cookie : that came with it: none of those that it sets is anybody else's to show
    """

    issuer: str
    now: float = 1e6
    keys: list[ECKey] = field(default_factory=list)
    described: dict[str, Any] = field(default_factory=dict)
    published: Any = None
    status: int = 200
    answers: bool = True
    asked: int = 0
    asking: int = 0
    person: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    taken: Mapping[str, str] = field(default_factory=dict)
    left: Mapping[str, str] = field(default_factory=dict)
    cookie: str | None = None

    def rotate(self, *kept: ECKey) -> ECKey:
        """Another key signs from now on, and nothing but it and `kept` is published."""
        new = ECKey.generate_key("P-256", {"kid": f"key {len(self.keys)} of {self.asked}", "use": "sig"})
        self.keys = [new, *kept]
        return new

    def token(self, groups: Any = ("analysts",), key: Key | None = None, **changes: Any) -> str:
        """A token of ada's; a change to None leaves the claim, or a header of `header`, out."""
        signing = key or self.keys[0]
        header = {"alg": "ES256", "kid": signing.kid, "typ": "at+jwt"} | changes.pop("header", {})
        claims = {"iss": self.issuer, "sub": "ada", "aud": AUDIENCE, "iat": self.now, "exp": self.now + 300}
        claims |= {"groups": list(groups) if isinstance(groups, tuple) else groups} | changes
        known = JWSRegistry({"b4711": HeaderParameter("Of a test", "int")}, [header["alg"]])
        return jwt.encode(_said(header), _said(claims), signing, registry=known, default_type=None)

    def settings(self, **changes: Any) -> dict[str, Any]:
        """What a service that believes it is told."""
        return {"oidc_issuer": self.issuer, "oidc_audience": AUDIENCE, "oidc_roles": ROLES} | changes


def _said(pairs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in pairs.items() if value is not None}


@contextmanager
def provider() -> Iterator[Provider]:
    """One that answers; gone at the end."""
    app, held = FastAPI(openapi_url=None), socket.socket()
    held.bind(("127.0.0.1", 0))
    held.listen()  # who comes before the server's thread has begun waits for it
    said = Provider(f"http://127.0.0.1:{held.getsockname()[1]}/realm")
    said.rotate()

    @app.get("/realm/.well-known/openid-configuration")
    async def discovery() -> Response:
        while not said.answers:
            await asyncio.sleep(0.01)
        other = said.issuer.replace("127.0.0.1", "localhost")  # to a browser another site than this machine's address
        addresses = {"authorization_endpoint": f"{other}/authorize", "token_endpoint": f"{said.issuer}/token"}
        addresses["end_session_endpoint"] = f"{other}/logout"
        usual = {"issuer": said.issuer, "jwks_uri": f"{said.issuer}/keys"} | addresses
        return JSONResponse(usual | said.described, said.status)

    @app.get("/realm/authorize")
    async def authorize(request: Request) -> Response:
        code = f"code {len(said.codes)} of {said.issuer}"
        said.codes[code] = asked = dict(request.query_params)
        back = {"code": code, "state": asked["state"], "iss": said.issuer}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}", 303)

    @app.get("/realm/logout")
    async def logout(request: Request) -> Response:
        said.left = dict(request.query_params)
        return RedirectResponse(said.left["post_logout_redirect_uri"], 303)

    @app.post("/realm/token")
    async def token(request: Request) -> Response:
        said.asking += 1
        while not said.answers:
            await asyncio.sleep(0.01)
        said.asking -= 1
        said.taken = form = dict(parse_qsl((await request.body()).decode()))
        said.cookie, asked = request.headers.get("cookie"), said.codes.pop(form["code"], {})
        proof = urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode()
        is_same = all(asked.get(name) == form[name] for name in ("client_id", "redirect_uri"))
        if not is_same or (proof, "S256") != (asked["code_challenge"], asked["code_challenge_method"]):
            return JSONResponse({"error": "invalid_grant"}, 400)
        changes = {"nonce": asked["nonce"], "header": {"typ": "JWT"}} | said.person
        told = {"id_token": said.token(**changes), "token_type": "Bearer"}
        return JSONResponse(told, headers={"Set-Cookie": f"session={changes['nonce']}; Path=/"})

    @app.get("/realm/keys")
    async def keys() -> Response:
        said.asked += 1
        usual = {"keys": [key.as_dict(private=False) for key in said.keys]}
        return JSONResponse(usual if said.published is None else said.published)

    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [held]})
    thread.start()
    try:
        with pytest.MonkeyPatch.context() as patch:  # a slow machine is no provider that hangs
            patch.setattr("app.identity.provider._TIMEOUT_SECONDS", PATIENCE)
            yield said
    finally:
        said.answers, server.should_exit = True, True
        thread.join()
