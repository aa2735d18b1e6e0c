"""Request rate limits for one caller, one address and all callers, checked before any database access.

A bucket that refills at `rate` requests a second and holds WINDOW seconds of requests is stored as one number (GCRA):
the time `due` at which it is full again. A request at `now` is admitted if max(due, now) + 1/rate - now <= WINDOW, and
sets `due` to max(due, now) + 1/rate. Buckets are kept in memory: each server has its own, and a restart fills them.
Reference: ITU-T I.371; draft-ietf-httpapi-ratelimit-headers (RateLimit-Policy and RateLimit).
"""

import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Generic, TypeVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.http.errors import ApiError
from app.http.handlers import respond
from app.http.routing import own_path
from app.http.work import SLOTS, SLOTS_EACH, ConcurrencyLimit, RequestAccount, Turns, charged_to
from app.settings import Settings

WINDOW = 10.0  # capacity of a bucket, in seconds of its rate
MOST_REMEMBERED = 10_000  # entries of a table of callers, addresses or tokens; the oldest entry is dropped
CALLER = "purse.caller"  # key in the ASGI scope for the id of the principal
UNLIMITED = ("/health/live", "/health/ready")  # refusing a probe would restart a server that is only busy
_STRANGERS_SHARE = 0.5  # share of the total rate for all callers without a valid token together

T = TypeVar("T")


class Recent(Generic[T]):
    """Table that keeps the names that were written last.

    Parameters
    ----------
    capacity : largest number of names
    """

    def __init__(self, capacity: int = MOST_REMEMBERED) -> None:
        self._capacity, self._values = capacity, OrderedDict[str, T]()

    def get(self, name: str) -> T | None:
        """Return the value of a name, or None if it is absent."""
        return self._values.get(name)

    def put(self, name: str, value: T) -> None:
        """Set the value of a name; drop the name that was written longest ago if there are too many."""
        self._values[name] = value
        self._values.move_to_end(name)
        if len(self._values) > self._capacity:
            self._values.popitem(last=False)

    def drop(self, name: str) -> None:
        """Remove a name."""
        self._values.pop(name, None)


@dataclass(frozen=True, slots=True)
class Admission:
    """Result of a request to a bucket.

    Parameters
    ----------
    wait_seconds : time to wait before the next attempt; 0 if the request is admitted
    remaining : number of further requests that would be admitted now
    full_seconds : time until the bucket is full again
    """

    wait_seconds: float
    remaining: int
    full_seconds: float


class Buckets:
    """One bucket for each name, which refills at `rate` requests a second."""

    def __init__(self, rate: float) -> None:
        self._step = 1.0 / rate
        self.quota = int(rate * WINDOW)
        self._due = Recent[float]()

    def take(self, name: str, now: float) -> Admission:
        """Charge one request to a bucket if it is admitted."""
        due = max(self._due.get(name) or now, now)
        wait = due + self._step - now - WINDOW
        if wait > 1e-9 * WINDOW:
            return Admission(wait, 0, due - now)
        return self.charge(name, 1.0, now)

    def charge(self, name: str, requests: float, now: float) -> Admission:
        """Charge requests to a bucket even if it is empty, because the cost of a request is known only afterwards."""
        due = max(self._due.get(name) or now, now) + requests * self._step
        self._due.put(name, due)
        return Admission(0.0, max(int((now + WINDOW - due) / self._step + 1e-6), 0), due - now)


class RateLimiter:
    """ASGI middleware that limits request rates by identity for known callers, otherwise by address.

    A token becomes known when a route accepts it, and stays known until it is refused. A request with an unknown token
    is charged to its address. This makes guessing tokens slow.

    Parameters
    ----------
    app : the wrapped application
    settings : source of the rates
    clock : monotonic time in seconds
    """

    def __init__(self, app: ASGIApp, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._app, self._clock = app, clock
        self._callers = Buckets(settings.caller_rate)
        self._strangers = Buckets(settings.stranger_rate)
        self._all = Buckets(settings.total_rate)
        self._all_strangers = Buckets(settings.total_rate * _STRANGERS_SHARE)
        self._callers_by_token = Recent[str]()
        self._turns = Turns(SLOTS, SLOTS_EACH)
        self._concurrency = ConcurrencyLimit("requests", settings.max_requests, settings.max_connections)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or own_path(scope) in UNLIMITED:
            await self._app(scope, receive, send)
            return
        token_digest = _token_digest(scope)
        caller = self._callers_by_token.get(token_digest)
        if caller:
            name, kind, buckets = caller, "caller", self._callers
        else:
            name, kind, buckets = address(scope), "address", self._strangers
        admission = buckets.take(name, self._clock())

        def charge(requests: float) -> None:
            """Charge the identity once the token is valid, so that callers at its address do not see the cost."""
            identity = scope.get(CALLER) or self._callers_by_token.get(token_digest)
            charged, payer = (self._callers, identity) if identity else (buckets, name)
            charged.charge(payer, requests, self._clock())

        account = RequestAccount(name, self._turns, charge)

        def fields() -> list[tuple[bytes, bytes]]:
            current = admission if admission.wait_seconds else buckets.charge(name, 0.0, self._clock())
            return _fields(kind, buckets.quota, current)

        sending = self._reporting(send, scope, token_digest, account, fields)
        try:
            self._check(admission, is_stranger=caller is None)
            self._concurrency.take(name)
        except ApiError as refusal:
            await respond(refusal)(scope, receive, sending)
            return
        try:
            with charged_to(account):
                await self._app(scope, receive, sending)
        finally:
            self._concurrency.leave(name)

    def _check(self, admission: Admission, is_stranger: bool) -> None:
        """Raise `ApiError` too_many_requests if the caller's bucket is empty, overloaded if a shared one is."""
        if admission.wait_seconds:
            raise ApiError("too_many_requests", headers=_retry_after(admission.wait_seconds))
        for buckets in (self._all, self._all_strangers) if is_stranger else (self._all,):
            if wait := buckets.take("", self._clock()).wait_seconds:
                raise ApiError("overloaded", headers=_retry_after(wait))

    def _reporting(
        self,
        send: Send,
        scope: Scope,
        token_digest: str,
        account: RequestAccount,
        fields: Callable[[], list[tuple[bytes, bytes]]],
    ) -> Send:
        """Return a `send` that charges bytes, adds the rate limit headers and updates the table of known tokens."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.body":
                account.add(size=len(message.get("body", b"")))
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *fields()]
                if message["status"] == 401:
                    self._callers_by_token.drop(token_digest)
                elif CALLER in scope:
                    self._callers_by_token.put(token_digest, scope[CALLER])
            await send(message)

        return sending


def _fields(kind: str, quota: int, admission: Admission) -> list[tuple[bytes, bytes]]:
    """Return the headers that state the rate limit and the remaining requests."""
    policy = f'"{kind}";q={quota};w={WINDOW:.0f}'
    current = f'"{kind}";r={admission.remaining};t={math.ceil(admission.full_seconds)}'
    return [(b"ratelimit-policy", policy.encode()), (b"ratelimit", current.encode())]


def _retry_after(wait: float) -> dict[str, str]:
    """Return the header that states the time to wait, in whole seconds."""
    return {"Retry-After": str(math.ceil(wait))}


def _token_digest(scope: Scope) -> str:
    """Return the digest of the Authorization header; the secret itself is not stored."""
    authorization = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    return hashlib.sha256(authorization).hexdigest()


def address(scope: Scope) -> str:
    """Return the client address under which a request is limited."""
    client = scope.get("client")
    return _network(client[0]) if client else ""


@lru_cache(MOST_REMEMBERED)
def _network(host: str) -> str:
    """Return an IPv4 address itself, or the /64 network of an IPv6 address, which usually belongs to one client."""
    try:
        parsed = ip_address(host)
    except ValueError:
        return host
    return hex(int(parsed) >> 64) if isinstance(parsed, IPv6Address) else str(parsed)
