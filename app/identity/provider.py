"""The keys of the provider of sign-on: looked at beside the requests, which wait for them only if they name a new one.

Reference: OpenID Connect Discovery 1.0; RFC 8414; RFC 7517.
"""

import asyncio
import json
import logging
import math
from collections.abc import Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

from joserfc.errors import JoseError
from joserfc.jwk import Key, RSAKey, import_key

from app.http.errors import ApiError
from app.persistence.clock import Clock
from app.settings import is_confidential

_DISCOVERY = "/.well-known/openid-configuration"
_MOST_BYTES = 2**18  # of a document of the provider's
_MOST_KEYS = 64
_LEAST_BITS = 2048  # of an RSA key
_KINDS = ("EC", "OKP", "RSA")
_SECONDS = 5.0  # that both documents together may take
_EVERY = 300.0  # seconds between two looks: what the provider has taken out of its keys is believed no longer
_AGAIN = 30.0  # between two looks that failed, or that tokens ask for by naming a key that is not known
_LOG = logging.getLogger("purse.sign_on")


class Provider:
    """The public keys of one issuer, of the event loop's thread alone.

    Parameters
    ----------
    issuer : its address, exactly as it calls itself
    clock : what ages are measured by
    stale : seconds for which the keys last seen hold while it is away
    """

    def __init__(self, issuer: str, clock: Clock, stale: float) -> None:
        import httpx  # late: a server without sign-on is ready without it

        self._issuer, self._clock, self._stale = issuer, clock, stale
        nobodys = CookieJar(DefaultCookiePolicy(allowed_domains=[]))  # what it sets for one person is no other's
        self._client = httpx.AsyncClient(timeout=_SECONDS, follow_redirects=False, cookies=nobodys)
        self._keys: Mapping[str, Key] = {}
        self._described: Mapping[str, Any] = {}
        self._seen = self._asked = -math.inf
        self._look: asyncio.Task[None] | None = None

    async def watch(self) -> None:
        """Looks at the keys again and again, until it is cancelled."""
        try:
            while True:
                await self._looked()
                await asyncio.sleep(_EVERY if self._seen == self._asked else _AGAIN)
        finally:
            await self._client.aclose()

    async def key(self, name: str) -> Key | None:
        """The key of this name. One that is not known is asked for, if nobody has done so a moment ago.

        Raises
        ------
        ApiError
            sign_on_unavailable if the provider has not been seen for too long to believe any key.
        """
        may_ask = self._look is not None or self._clock.ticks() - self._asked >= _AGAIN
        if may_ask and (name not in self._keys or self._is_away()):
            await self._looked()
        if self._is_away():
            raise _unavailable()
        return self._keys.get(name)

    def endpoint(self, name: str) -> str:
        """An address of the provider's, as it last said; `ApiError` sign_on_unavailable if it said none to trust."""
        url = self._described.get(name)
        if not isinstance(url, str) or not is_confidential(url):
            raise _unavailable()
        return url

    async def exchanged(self, form: Mapping[str, str], secret: tuple[str, str] | None) -> dict[str, Any]:
        """What it gives for a code; nothing if it refuses. `ApiError` sign_on_unavailable if it cannot be asked."""
        address = self.endpoint("token_endpoint")
        try:
            async with asyncio.timeout(_SECONDS):
                return await self._document(address, form, secret)
        except ValueError:
            return {}
        except Exception as error:
            _LOG.warning("the provider of sign-on took no code: %s", type(error).__name__)
            raise _unavailable() from None

    def _is_away(self) -> bool:
        return self._clock.ticks() - self._seen > self._stale

    async def _looked(self) -> None:
        """Returns when the look that is under way is over, or one more; who leaves does not end it for the others."""
        if self._look is None:
            self._look = asyncio.create_task(self._take())
        await asyncio.shield(self._look)

    async def _take(self) -> None:
        self._asked = self._clock.ticks()
        try:
            async with asyncio.timeout(_SECONDS):
                described = await self._document(self._issuer.rstrip("/") + _DISCOVERY)
                if described.get("issuer") != self._issuer:
                    raise ValueError("it calls itself by another name")
                self._keys = _read(await self._document(described.get("jwks_uri")))
                self._described = described
            self._seen = self._asked
        except Exception as error:  # whatever it answers, we go on with what it said before
            _LOG.warning("the provider of sign-on gave no keys: %s", type(error).__name__)
        finally:
            self._look = None

    async def _document(
        self, address: Any, form: Mapping[str, str] | None = None, secret: tuple[str, str] | None = None
    ) -> dict[str, Any]:
        """A JSON object from the provider, as its bytes are: nothing is unpacked that was not counted."""
        if not is_confidential(address):
            raise ValueError("its address is not one to trust")
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        body = bytearray()
        options: dict[str, Any] = {"headers": headers, "data": form} | ({} if secret is None else {"auth": secret})
        async with self._client.stream("GET" if form is None else "POST", address, **options) as response:
            if response.status_code != 200:
                raise ValueError("it does not answer")
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > _MOST_BYTES:
                    raise ValueError("it says too much")
        document = json.loads(body)
        if not isinstance(document, dict):
            raise ValueError("it says something else")
        return document


def _unavailable() -> ApiError:
    return ApiError("sign_on_unavailable", headers={"Retry-After": str(int(_AGAIN))})


def _read(document: dict[str, Any]) -> Mapping[str, Key]:
    """Its asymmetric keys for signatures, by name; an empty set is its word as well."""
    listed = document["keys"]
    if not isinstance(listed, list) or len(listed) > _MOST_KEYS:
        raise ValueError("it has no such keys")
    keys_by_id: dict[str, Key] = {}
    for jwk in listed:
        if not isinstance(jwk, dict) or jwk.get("kty") not in _KINDS or jwk.get("use", "sig") != "sig":
            continue
        try:
            key = import_key(jwk)
        except (JoseError, ValueError, TypeError):
            continue  # of a kind that we do not know
        too_short = isinstance(key, RSAKey) and key.public_key.key_size < _LEAST_BITS
        if isinstance(jwk.get("kid"), str) and not key.is_private and not too_short:
            keys_by_id.setdefault(jwk["kid"], key)
    return keys_by_id
