"""Public keys of the sign-on provider, refreshed in the background. A request waits only if it names an unknown key.

Reference: OpenID Connect Discovery 1.0; RFC 8414; RFC 7517.
"""

import asyncio
import json
import logging
import math
from collections.abc import Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx
from joserfc.errors import JoseError
from joserfc.jwk import Key, RSAKey, import_key

from app.http.errors import ApiError
from app.persistence.clock import Clock
from app.settings import is_confidential

_DISCOVERY = "/.well-known/openid-configuration"
_MOST_DOCUMENT_BYTES = 2**18
_MOST_KEYS = 64
_LEAST_RSA_BITS = 2048
_KEY_TYPES = ("EC", "OKP", "RSA")
_TIMEOUT_SECONDS = 5.0  # for both documents of a refresh together, and for the exchange of a code
_REFRESH_SECONDS = 300.0  # between two refreshes; a key that the provider has removed is accepted no longer than this
_RETRY_SECONDS = 30.0  # between two refreshes after a failure, or because tokens name unknown keys
_LOG = logging.getLogger("purse.sign_on")


class Provider:
    """Public keys of one issuer; used only on the event loop's thread.

    Parameters
    ----------
    issuer : address of the issuer, exactly as in its own documents
    clock : source of the age of keys
    stale : seconds for which known keys stay valid while the provider is unreachable
    """

    def __init__(self, issuer: str, clock: Clock, stale: float) -> None:
        self._issuer, self._clock, self._stale = issuer, clock, stale
        no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))  # one person's cookies must not serve another
        self._client = httpx.AsyncClient(timeout=_TIMEOUT_SECONDS, follow_redirects=False, cookies=no_cookies)
        self._keys: Mapping[str, Key] = {}
        self._described: Mapping[str, Any] = {}
        self._refreshed_at = self._attempted_at = -math.inf
        self._refresh_task: asyncio.Task[None] | None = None

    async def watch(self) -> None:
        """Refresh the keys periodically until this is cancelled."""
        try:
            while True:
                await self._refresh()
                await asyncio.sleep(_REFRESH_SECONDS if self._refreshed_at == self._attempted_at else _RETRY_SECONDS)
        finally:
            await self._client.aclose()

    async def key(self, name: str) -> Key | None:
        """Return the key of this name, or None. An unknown name causes a refresh unless there was one recently.

        Raises
        ------
        ApiError
            sign_on_unavailable if the provider has been unreachable for longer than `stale`.
        """
        may_refresh = self._refresh_task is not None or self._clock.ticks() - self._attempted_at >= _RETRY_SECONDS
        if may_refresh and (name not in self._keys or self._is_away()):
            await self._refresh()
        if self._is_away():
            raise _unavailable()
        return self._keys.get(name)

    def endpoint(self, name: str) -> str:
        """Return an endpoint of the provider, or raise `ApiError` sign_on_unavailable if no secure one is known."""
        address = self._described.get(name)
        if not isinstance(address, str) or not is_confidential(address):
            raise _unavailable()
        return address

    async def exchanged(self, form: Mapping[str, str], secret: tuple[str, str] | None) -> dict[str, Any]:
        """Return the provider's answer to a code, empty if it refuses. Raise `ApiError` if it is unreachable."""
        address = self.endpoint("token_endpoint")
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                return await self._document(address, form, secret)
        except ValueError:
            return {}
        except Exception as error:
            _LOG.warning(
                "the sign-on provider could not be asked to exchange a code (%s): check that it is reachable",
                type(error).__name__,
            )
            raise _unavailable() from None

    def _is_away(self) -> bool:
        """Return whether the keys are older than `stale`."""
        return self._clock.ticks() - self._refreshed_at > self._stale

    async def _refresh(self) -> None:
        """Wait for the refresh that is running, or start one; cancelling this does not cancel the refresh."""
        if self._refresh_task is None:
            self._refresh_task = asyncio.create_task(self._fetch())
        await asyncio.shield(self._refresh_task)

    async def _fetch(self) -> None:
        """Fetch the provider's description and keys; keep the previous ones if that fails."""
        self._attempted_at = self._clock.ticks()
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                described = await self._document(self._issuer.rstrip("/") + _DISCOVERY)
                if described.get("issuer") != self._issuer:
                    raise ValueError("the issuer in its description differs from PURSE_OIDC_ISSUER")
                self._keys = _read(await self._document(described.get("jwks_uri")))
                self._described = described
            self._refreshed_at = self._attempted_at
        except Exception as error:  # any failure keeps the previous keys
            _LOG.warning(
                "the sign-on provider's keys could not be fetched (%s): check PURSE_OIDC_ISSUER and the network",
                type(error).__name__,
            )
        finally:
            self._refresh_task = None

    async def _document(
        self, address: Any, form: Mapping[str, str] | None = None, secret: tuple[str, str] | None = None
    ) -> dict[str, Any]:
        """Return a JSON object from the provider, which is sent uncompressed so that its size can be limited."""
        if not is_confidential(address):
            raise ValueError("the address is neither https nor local")
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        body = bytearray()
        options: dict[str, Any] = {"headers": headers, "data": form} | ({} if secret is None else {"auth": secret})
        async with self._client.stream("GET" if form is None else "POST", address, **options) as response:
            if response.status_code != 200:
                raise ValueError("the status is not 200")
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > _MOST_DOCUMENT_BYTES:
                    raise ValueError("the document is too long")
        document = json.loads(body)
        if not isinstance(document, dict):
            raise ValueError("the document is not a JSON object")
        return document


def _unavailable() -> ApiError:
    """Return the error for a provider that cannot be used now."""
    return ApiError("sign_on_unavailable", headers={"Retry-After": str(int(_RETRY_SECONDS))})


def _read(document: dict[str, Any]) -> Mapping[str, Key]:
    """Return the asymmetric signature keys of a key set by name; the set may be empty."""
    listed = document["keys"]
    if not isinstance(listed, list) or len(listed) > _MOST_KEYS:
        raise ValueError("`keys` is not a list, or has too many entries")
    keys: dict[str, Key] = {}
    for entry in listed:
        if not isinstance(entry, dict) or entry.get("kty") not in _KEY_TYPES or entry.get("use", "sig") != "sig":
            continue
        try:
            key = import_key(entry)
        except (JoseError, ValueError, TypeError):
            continue  # an unsupported kind of key
        too_short = isinstance(key, RSAKey) and key.public_key.key_size < _LEAST_RSA_BITS
        if isinstance(entry.get("kid"), str) and not key.is_private and not too_short:
            keys.setdefault(entry["kid"], key)
    return keys
