"""Signing in by way of the provider: an authorization code, bound by PKCE, state and nonce to the browser that began.

Reference: OpenID Connect Core 1.0, section 3.1; RFC 7636 (S256); RFC 9207 (who answered); RFC 9700; OpenID Connect
RP-Initiated Logout 1.0.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from joserfc.util import urlsafe_b64encode

from app.http.errors import ApiError
from app.http.places import Places
from app.identity.sign_on import SignOn
from app.settings import Settings

EXCHANGES_EACH, EXCHANGES = 4, 16  # of codes at once, for one address and for all: each asks the provider


@dataclass(frozen=True, slots=True)
class Attempt:
    """State, nonce and verifier are HMAC-SHA256 of a number that one browser holds: none tells it, or another of them.

    Parameters
    ----------
    number : 32 random bytes in base64url
    """

    number: str

    @classmethod
    def begin(cls) -> "Attempt":
        """A fresh one."""
        return cls(secrets.token_urlsafe(32))

    @property
    def state(self) -> str:
        """What comes back through the browser."""
        return self._derived(b"state")

    @property
    def nonce(self) -> str:
        """What the token must hold."""
        return self._derived(b"nonce")

    @property
    def verifier(self) -> str:
        """What the code is good for nothing without; it leaves for the provider alone."""
        return self._derived(b"verifier")

    def _derived(self, what: bytes) -> str:
        return urlsafe_b64encode(hmac.digest(self.number.encode(), what, "sha256")).decode()


@dataclass(frozen=True, slots=True)
class CodeFlow:
    """Where a browser is sent, and what is had for the code that it comes back with; nothing of it is stored here.

    Parameters
    ----------
    settings : whose `oidc_redirect` is there
    sign_on : reads the provider's tokens
    exchanges : how many codes are being exchanged, by address
    """

    settings: Settings
    sign_on: SignOn
    exchanges: Places

    def address(self, attempt: Attempt) -> str:
        """The provider's page for this attempt; `ApiError` sign_on_unavailable if it has not said which."""
        challenge = urlsafe_b64encode(hashlib.sha256(attempt.verifier.encode()).digest()).decode()
        query = {
            "response_type": "code",
            "client_id": self.settings.oidc_audience,
            "redirect_uri": self.settings.oidc_redirect,
            "scope": " ".join(("openid", *self.settings.oidc_scopes)),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return f"{self.sign_on.provider.endpoint('authorization_endpoint')}?{urlencode(query)}"

    def exit(self) -> str | None:
        """The provider's page to sign out there, which leads back to ours; None if it has said none to trust.

        It is told which service asks, and no token: that would stand in an address, good for this service till its end.
        """
        query = {
            "client_id": self.settings.oidc_audience,
            "post_logout_redirect_uri": (self.settings.oidc_redirect or "").removesuffix("/return"),
        }
        try:
            return f"{self.sign_on.provider.endpoint('end_session_endpoint')}?{urlencode(query)}"
        except ApiError:
            return None

    async def token(self, attempt: Attempt, state: str, code: str, issuer: str | None, address: str) -> str:
        """The ID token of whoever signed in at the provider, made for this attempt.

        Parameters
        ----------
        address : that the browser comes from

        Raises
        ------
        ApiError
            unauthenticated if the attempt is another browser's or the provider lets nobody in; sign_on_unavailable;
            too_many_requests or overloaded while the provider is asked for as many others.
        """
        is_ours = issuer in (None, self.settings.oidc_issuer)
        if not attempt.number or not is_ours or not hmac.compare_digest(state.encode(), attempt.state.encode()):
            raise ApiError("unauthenticated", "This was not begun in this browser, or too long ago: sign in again.")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.settings.oidc_redirect or "",
            "client_id": self.settings.oidc_audience or "",
            "code_verifier": attempt.verifier,
        }
        with self.exchanges.taken(address):
            response = await self.sign_on.provider.exchanged(form, self._secret) if code else {}
        token = response.get("id_token")
        if not isinstance(token, str) or await self.sign_on.read(token, attempt.nonce) is None:
            raise ApiError("unauthenticated", "The provider did not let you in: sign in again, or ask who runs it.")
        return token

    @property
    def _secret(self) -> tuple[str, str] | None:
        """How the service, and no browser, shows who it is, where the provider asks for that: RFC 6749, 2.3.1."""
        secret = self.settings.oidc_client_secret
        if secret is None:
            return None
        return quote(self.settings.oidc_audience or "", safe=""), quote(secret.get_secret_value(), safe="")
