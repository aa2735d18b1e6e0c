"""Sign-in at the provider by an authorization code that PKCE, state and nonce bind to one browser.

Reference: OpenID Connect Core 1.0, section 3.1; RFC 7636 (S256); RFC 9207 (issuer of the response); RFC 9700;
OpenID Connect RP-Initiated Logout 1.0.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from joserfc.util import urlsafe_b64encode

from app.http.errors import ApiError
from app.http.work import ConcurrencyLimit
from app.identity.sign_on import SignOn
from app.settings import Settings

# Largest numbers of codes that are exchanged at once, for one address and for all; each is a request to the provider.
EXCHANGES_EACH, EXCHANGES = 4, 16


@dataclass(frozen=True, slots=True)
class Attempt:
    """One sign-in attempt of a browser.

    State, nonce and verifier are derived by HMAC-SHA256 from a secret that only this browser holds. None of them
    reveals the secret or another of them.

    Parameters
    ----------
    number : the secret; 32 random bytes in base64url
    """

    number: str

    @classmethod
    def begin(cls) -> "Attempt":
        """Return a new attempt with a fresh secret."""
        return cls(secrets.token_urlsafe(32))

    @property
    def state(self) -> str:
        """State parameter, which the browser returns with the code."""
        return self._derived(b"state")

    @property
    def nonce(self) -> str:
        """Nonce that the ID token must contain."""
        return self._derived(b"nonce")

    @property
    def verifier(self) -> str:
        """PKCE verifier, required to exchange the code and sent to the provider only."""
        return self._derived(b"verifier")

    def _derived(self, purpose: bytes) -> str:
        """Return the value for one purpose, derived from the secret."""
        return urlsafe_b64encode(hmac.digest(self.number.encode(), purpose, "sha256")).decode()


@dataclass(frozen=True, slots=True)
class CodeFlow:
    """Addresses for the browser's sign-in, and the exchange of its code for a token; it stores nothing.

    Parameters
    ----------
    settings : settings with `oidc_redirect`
    sign_on : reader of the provider's tokens
    exchanges : limit on the codes that are exchanged at once
    """

    settings: Settings
    sign_on: SignOn
    exchanges: ConcurrencyLimit

    def address(self, attempt: Attempt) -> str:
        """Return the provider's sign-in page for this attempt; `ApiError` sign_on_unavailable if it is unknown."""
        challenge = urlsafe_b64encode(hashlib.sha256(attempt.verifier.encode()).digest()).decode()
        parameters = {
            "response_type": "code",
            "client_id": self.settings.oidc_audience,
            "redirect_uri": self.settings.oidc_redirect,
            "scope": " ".join(("openid", *self.settings.oidc_scopes)),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return f"{self.sign_on.provider.endpoint('authorization_endpoint')}?{urlencode(parameters)}"

    def exit(self) -> str | None:
        """Return the provider's sign-out page, which redirects back to ours, or None if no secure one is known.

        The address names this service and contains no token, because a token in an address could be read and reused.
        """
        parameters = {
            "client_id": self.settings.oidc_audience,
            "post_logout_redirect_uri": (self.settings.oidc_redirect or "").removesuffix("/return"),
        }
        try:
            return f"{self.sign_on.provider.endpoint('end_session_endpoint')}?{urlencode(parameters)}"
        except ApiError:
            return None

    async def token(self, attempt: Attempt, state: str, code: str, issuer: str | None, address: str) -> str:
        """Return the ID token that the provider issued for this attempt.

        Parameters
        ----------
        attempt : attempt of the browser
        state, code, issuer : parameters of the provider's redirect
        address : client address of the browser

        Raises
        ------
        ApiError
            unauthenticated if another browser began the attempt or the provider issues no valid token;
            sign_on_unavailable; too_many_requests or overloaded if too many codes are being exchanged.
        """
        is_ours = issuer in (None, self.settings.oidc_issuer)
        if not attempt.number or not is_ours or not hmac.compare_digest(state.encode(), attempt.state.encode()):
            detail = "This sign-in was begun in another browser, or too long ago. Sign in again."
            raise ApiError("unauthenticated", detail)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.settings.oidc_redirect or "",
            "client_id": self.settings.oidc_audience or "",
            "code_verifier": attempt.verifier,
        }
        with self.exchanges.slot(address):
            answer = await self.sign_on.provider.exchanged(form, self._secret) if code else {}
        token = answer.get("id_token")
        if not isinstance(token, str) or await self.sign_on.read(token, attempt.nonce) is None:
            detail = "The sign-on provider issued no valid token. Sign in again, or ask the operator for help."
            raise ApiError("unauthenticated", detail)
        return token

    @property
    def _secret(self) -> tuple[str, str] | None:
        """Client id and secret of the service for the provider, if a secret is set; RFC 6749, section 2.3.1."""
        secret = self.settings.oidc_client_secret
        if secret is None:
            return None
        return quote(self.settings.oidc_audience or "", safe=""), quote(secret.get_secret_value(), safe="")
