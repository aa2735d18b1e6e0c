"""A provider of sign-on on loopback: discovery and keys, which a test may rotate, spoil or keep back."""

import asyncio
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from joserfc import jwt
from joserfc.jwk import ECKey, Key
from joserfc.jws import JWSRegistry
from joserfc.registry import HeaderParameter

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
    asked : how often its keys were
    """

    issuer: str
    now: float = 1e6
    keys: list[ECKey] = field(default_factory=list)
    described: dict[str, Any] = field(default_factory=dict)
    published: Any = None
    status: int = 200
    answers: bool = True
    asked: int = 0

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
    said = Provider(f"http://127.0.0.1:{held.getsockname()[1]}/realm")
    said.rotate()

    @app.get("/realm/.well-known/openid-configuration")
    async def discovery() -> Response:
        while not said.answers:
            await asyncio.sleep(0.01)
        usual = {"issuer": said.issuer, "jwks_uri": f"{said.issuer}/keys"}
        return JSONResponse(usual | said.described, said.status)

    @app.get("/realm/keys")
    async def keys() -> Response:
        said.asked += 1
        usual = {"keys": [key.as_dict(private=False) for key in said.keys]}
        return JSONResponse(usual if said.published is None else said.published)

    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [held]})
    thread.start()
    try:
        yield said
    finally:
        said.answers, server.should_exit = True, True
        thread.join()
