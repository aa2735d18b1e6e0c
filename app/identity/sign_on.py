"""Validation of tokens of the organization's sign-on provider: signature, claims, groups and roles.

Reference: OpenID Connect Core 1.0, section 3.1.3.7; RFC 9068; RFC 8725 (pinned algorithms; issuer, audience and type).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jws import JWSRegistry
from joserfc.jwt import JWTClaimsRegistry
from pydantic import TypeAdapter

from accounting.errors import CodecError
from accounting.records.documents import parse
from app.identity.provider import Provider
from app.persistence.clock import Clock, stamp
from app.settings import Settings
from purse.wire.base import Title
from purse.wire.tokens import Role

_MOST_TOKEN_CHARACTERS = 2**13
_TYPES = ("jwt", "at+jwt", "application/at+jwt")
_LATEST_END = 2.0**37  # seconds since 1970; the latest end of a token, which a timestamp can still represent
_TITLE: TypeAdapter[str] = TypeAdapter(Title)


@dataclass(frozen=True, slots=True)
class Arrival:
    """Person whom the provider has authenticated.

    Parameters
    ----------
    issuer, subject : permanent identifier of the person
    role : role of the first matching group; None if no group has a role
    datasets : names and ids of datasets that the person's groups may access
    ends : timestamp of the end of the token
    """

    issuer: str
    subject: str
    role: Role | None
    datasets: tuple[str, ...]
    ends: str


@asynccontextmanager
async def watched(sign_on: "SignOn | None") -> AsyncIterator[None]:
    """Refresh the provider's keys in the background inside the block, without waiting for the first refresh."""
    watching = None if sign_on is None else asyncio.create_task(sign_on.provider.watch())
    try:
        yield
    finally:
        if watching is not None:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching


class SignOn:
    """Reader of the tokens of one provider.

    Parameters
    ----------
    settings : settings with `oidc_issuer`
    clock : source of the current time
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        assert settings.oidc_issuer is not None
        self._settings, self._clock = settings, clock
        self._issuer = settings.oidc_issuer
        self.provider = Provider(self._issuer, clock, settings.oidc_stale_seconds)
        # Other header parameters are ignored, as RFC 7515 requires. A key in the header is never used.
        self._registry = JWSRegistry(algorithms=settings.oidc_algorithms, strict_check_header=False)

    async def read(self, token: str, nonce: str | None = None) -> Arrival | None:
        """Return the person whom a token identifies, or None if the token is invalid for any reason.

        Parameters
        ----------
        token : token in compact form
        nonce : nonce that the token must contain, if it belongs to a sign-in attempt

        Raises
        ------
        ApiError
            sign_on_unavailable if the provider has been unreachable for too long.
        """
        if len(token) > _MOST_TOKEN_CHARACTERS or token.count(".") != 2:
            return None
        try:
            signed = jws.extract_compact(token.encode(), registry=self._registry)
            header = signed.headers()
            name = header.get("kid")
            if not isinstance(name, str) or not self._is_accepted(header):
                return None
            key = await self.provider.key(name)
            if key is None or key.get("alg", header["alg"]) != header["alg"]:
                return None
            if not jws.validate_compact(signed, key, registry=self._registry):
                return None
            return self._arrival(parse(signed.payload or b""), nonce)
        except (JoseError, CodecError, ValueError, TypeError, KeyError):
            return None

    def _is_accepted(self, header: dict[str, Any]) -> bool:
        """Return whether the algorithm is pinned, the type is a token's, and the payload is in base64."""
        kind = header.get("typ", "JWT")
        is_token = isinstance(kind, str) and kind.lower() in _TYPES
        return is_token and header.get("alg") in self._settings.oidc_algorithms and "b64" not in header

    def _arrival(self, claims: Any, nonce: str | None) -> Arrival | None:
        """Return the person of these claims, or None if a claim is missing, has another type, or does not hold."""
        if not isinstance(claims, dict):
            return None
        chosen, now = self._settings, self._clock.wall()
        if nonce is not None and not _is_of_attempt(claims, nonce, chosen.oidc_audience):
            return None
        JWTClaimsRegistry(
            now=int(now),
            leeway=chosen.oidc_skew_seconds,
            iss={"essential": True, "value": self._issuer},
            aud={"essential": True, "value": chosen.oidc_audience or ""},
            exp={"essential": True},
            iat={"essential": True},
        ).validate(claims)
        longest = chosen.max_token_lifetime
        end = min(claims["exp"], _LATEST_END if longest is None else claims["iat"] + longest) + chosen.oidc_skew_seconds
        if end <= now:
            return None
        groups = _groups(claims.get(chosen.oidc_groups_claim))
        role = next((role for group, role in chosen.oidc_roles.items() if group in groups), None)
        datasets = {dataset for group in groups for dataset in chosen.oidc_grants.get(group, ())}
        subject = _TITLE.validate_python(claims[chosen.oidc_subject_claim], strict=True)
        return Arrival(self._issuer, subject, role, tuple(sorted(datasets)), stamp(end))


def _is_of_attempt(claims: dict[str, Any], nonce: str, audience: str | None) -> bool:
    """Return whether an ID token holds this sign-in's nonce and was issued to this service.

    Both claims are strings. The JWT library also accepts a list that holds the expected string, so they are compared
    here. `azp` may be missing if the token has a single audience: OpenID Connect Core 1.0, section 3.1.3.7.
    """
    audiences = claims.get("aud")
    needs_azp = "azp" in claims or (isinstance(audiences, list) and len(audiences) > 1)
    return claims.get("nonce") == nonce and (not needs_azp or claims.get("azp") == audience)


def _groups(claim: Any) -> frozenset[str]:
    """Return the groups in a claim that is a string or a list of strings; a claim of any other type gives no group."""
    listed = [claim] if isinstance(claim, str) else claim
    if not isinstance(listed, list) or not all(isinstance(group, str) for group in listed):
        return frozenset()
    return frozenset(listed)
